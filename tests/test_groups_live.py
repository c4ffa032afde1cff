"""Groups read from the log of a live run, against those that torch's graph API finds in the same process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusiondoc.diagnosis.specialisations import Change, changes, in_words
from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

torch = pytest.importorskip("torch")

ORACLE = Path(__file__).parent / "live" / "group_oracle.py"

CASES = [
    ("chain", "inference", [[4, 8]], 1),
    ("split", "inference", [[4, 8]], 2),
    ("layers", "inference", [[4, 8]], 4),
    ("block", "inference", [[4, 8]], 2),
    ("lonely", "inference", [[4, 8]], 0),
    ("branch", "inference", [[4, 8]], 2),
    ("chain", "backward", [[4, 8]], 2),
    ("block", "backward", [[4, 8]], None),
    ("two_regions", "backward", [[4, 8]], 4),
    ("layers", "backward", [[4, 8]], None),
]


def run(name: str, mode: str, shapes: list, log: Path, levels: str, fuser: str = "nnc") -> list:
    env = {**os.environ, "PYTORCH_JIT_LOG_LEVEL": levels, "PYTHONWARNINGS": "ignore"}
    with log.open("wb") as stderr:
        done = subprocess.run(
            [sys.executable, str(ORACLE), name, mode, json.dumps(shapes), fuser],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=env,
            check=False,
            timeout=120,
        )
    assert done.returncode == 0, log.read_text(errors="replace")[-3000:]
    return distinct(json.loads(done.stdout))


def distinct(plans: list) -> list:
    """The groups of all plans: equal ones at the same place of two plans are one, as the contract has it."""
    found: dict = {}
    for phase, groups in plans:
        places: dict = {}
        for kinds, types in groups:
            key = (phase, tuple(kinds), tuple(types))
            places[key] = places.get(key, 0) + 1
            found[(*key, places[key])] = [phase, kinds, types]
    return list(found.values())


@pytest.mark.parametrize("levels", ["profiling_graph_executor_impl:>>tensorexpr_fuser", "tensorexpr_fuser"])
@pytest.mark.parametrize(
    ("name", "mode", "shapes", "count"), CASES, ids=lambda v: str(v) if isinstance(v, str) else ""
)
def test_groups_are_those_of_the_graph_api(
    name: str, mode: str, shapes: list, count: int, levels: str, tmp_path: Path
) -> None:
    log = tmp_path / "run.log"
    expected = run(name, mode, shapes, log, levels)
    report, _ = read_logs(find_logs([str(log)]))
    found = [[g.phase, list(g.ops), list(g.inputs)] for g in report.groups]
    assert sorted(found) == sorted(expected)
    assert {g.specialisation for g in report.groups} <= {1}
    assert report.parse.truncated == 0
    if count is not None:
        assert len(found) == count, "the program no longer tests what it was written for"


def test_another_shape_is_a_new_specialisation(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    run("chain", "inference", [[4, 8], [5, 9]], log, "profiling_graph_executor_impl:>>tensorexpr_fuser")
    report, _ = read_logs(find_logs([str(log)]))
    first, again = report.groups
    assert first.specialisation == 1 and first.respecialises is None
    assert again.specialisation == 2 and again.respecialises == first.id
    assert again.nodes == first.nodes
    assert "(5, 9, " in again.inputs[0]
    assert changes(first, again) == [
        Change(0, "shape", "(4, 8)", "(5, 9)"),
        Change(1, "shape", "(4, 8)", "(5, 9)"),
    ]
    assert in_words(first, [again]) == "input 0 came with shapes (4, 8), (5, 9)"


nvfuser_here = torch.cuda.is_available() and torch.__version__ < "2.2"


@pytest.mark.skipif(not nvfuser_here, reason="needs a GPU and a torch that has nvFuser (1.12 to 2.1)")
@pytest.mark.parametrize("name", ["chain", "split", "layers", "block", "lonely", "branch", "two_regions"])
@pytest.mark.parametrize("mode", ["inference", "backward"])
def test_nvfuser_groups_are_those_of_the_graph_api(name: str, mode: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    levels = ">partition:graph_fuser:>>kernel_cache:profiling_graph_executor_impl"
    expected = run(name, mode, [[64, 128]], log, levels, "nvfuser")
    report, _ = read_logs(find_logs([str(log)]))
    found = [[g.phase, list(g.ops), list(g.inputs)] for g in report.groups]
    assert sorted(found) == sorted(expected)
