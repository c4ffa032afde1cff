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


def run(cases: list, folder: Path, levels: str, fuser: str = "nnc") -> list:
    """Log and groups of each case (program, mode, shapes), all run in one process."""
    env = {**os.environ, "PYTORCH_JIT_LOG_LEVEL": levels, "PYTHONWARNINGS": "ignore"}
    logs = [folder / f"{number}.log" for number in range(len(cases))]
    given = json.dumps([[*case, str(log)] for case, log in zip(cases, logs)])
    done = subprocess.run(
        [sys.executable, str(ORACLE), fuser, given], stdout=subprocess.PIPE, env=env, check=False, timeout=200
    )
    assert done.returncode == 0, [log.read_text(errors="replace")[-2000:] for log in logs if log.exists()][
        -1:
    ]
    return [(log, distinct(plans)) for log, plans in zip(logs, json.loads(done.stdout))]


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
def test_groups_are_those_of_the_graph_api(levels: str, tmp_path: Path) -> None:
    results = run([case[:3] for case in CASES], tmp_path, levels)
    for (name, mode, _, count), (log, expected) in zip(CASES, results):
        report, _ = read_logs(find_logs([str(log)]))
        found = [[g.phase, list(g.ops), list(g.inputs)] for g in report.groups]
        assert sorted(found) == sorted(expected), (name, mode)
        assert {g.specialisation for g in report.groups} <= {1}
        assert report.parse.truncated == 0
        assert count in (None, len(found)), f"{name} no longer tests what it was written for"


def test_another_shape_is_a_new_specialisation(tmp_path: Path) -> None:
    case = ("chain", "inference", [[4, 8], [5, 9]])
    ((log, _),) = run([case], tmp_path, "profiling_graph_executor_impl:>>tensorexpr_fuser")
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
@pytest.mark.parametrize("mode", ["inference", "backward"])
def test_nvfuser_groups_are_those_of_the_graph_api(mode: str, tmp_path: Path) -> None:
    levels = ">partition:graph_fuser:>>kernel_cache:profiling_graph_executor_impl"
    names = ["chain", "split", "layers", "block", "lonely", "branch", "two_regions"]
    results = run([(name, mode, [[64, 128]]) for name in names], tmp_path, levels, "nvfuser")
    for name, (log, expected) in zip(names, results):
        report, _ = read_logs(find_logs([str(log)]))
        found = [[g.phase, list(g.ops), list(g.inputs)] for g in report.groups]
        assert sorted(found) == sorted(expected), name
