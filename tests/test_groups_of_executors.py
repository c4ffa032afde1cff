"""Groups belong to their executor: programs whose guards fail, against the groups
of torch's graph API.

The programs are ``benchmarks/group_programs``;
``benchmarks/groups_against_torch.py`` compares others too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from running import subprocess_of_forks
from thorough import every

from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import groups_against_torch  # noqa: E402

PROGRAMS = BENCHMARKS / "group_programs"


MGU = BENCHMARKS / "promise_programs_2" / "mgu_cell.py"
"""Its region holds two groups and a layer norm between them: no group is most of
the fallback function."""


@pytest.mark.parametrize(
    "name", every(3, ["lstm_two_cells", "two_scans", "gru_over_time", "mgu_cell"])
)
def test_what_runs_in_fallback_functions_is_no_group_of_its_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_against_torch, "subprocess", subprocess_of_forks())
    options = argparse.Namespace(fuser="nnc", keep=tmp_path)
    program = MGU if name == MGU.stem else PROGRAMS / f"{name}.py"
    _, verdict, lines = groups_against_torch.run(program, "backward", options)
    assert verdict in ("equal", "forward alone"), lines

    report = read_logs(find_logs([str(tmp_path / f"{name}-backward.log")]))[0]
    again = [group for group in report.groups if group.respecialises is not None]
    firsts = {group.id: group for group in report.groups}
    assert again, (
        "no guard failed: the program does not test what it was written for"
    )
    assert all(group.phase == firsts[group.respecialises].phase for group in again)
