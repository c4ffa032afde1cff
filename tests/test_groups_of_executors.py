"""Groups belong to their executor: programs whose guards fail, against the groups of torch's graph API.

The programs are ``benchmarks/group_programs``; ``benchmarks/groups_against_torch.py`` compares others too.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from thorough import every

from fusiondoc.parsers.lines.log_files import find_logs
from fusiondoc.parsers.read import read_logs

pytest.importorskip("torch")

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from groups_against_torch import run  # noqa: E402

PROGRAMS = BENCHMARKS / "group_programs"


MGU = BENCHMARKS / "promise_programs_2" / "mgu_cell.py"
"""Its region holds two groups and a layer norm between them: no group is most of the fallback function."""


@pytest.mark.parametrize("name", every(3, ["lstm_two_cells", "two_scans", "gru_over_time", "mgu_cell"]))
def test_what_runs_in_fallback_functions_is_no_group_of_its_own(name: str, tmp_path: Path) -> None:
    options = argparse.Namespace(fuser="nnc", keep=tmp_path)
    program = MGU if name == MGU.stem else PROGRAMS / f"{name}.py"
    _, verdict, lines = run(program, "backward", options)
    assert verdict in ("equal", "forward alone"), lines

    report = read_logs(find_logs([str(tmp_path / f"{name}-backward.log")]))[0]
    again = [group for group in report.groups if group.respecialises is not None]
    firsts = {group.id: group for group in report.groups}
    assert again, "no guard failed: the program does not test what it was written for"
    assert all(group.phase == firsts[group.respecialises].phase for group in again)
