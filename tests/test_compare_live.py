"""Real runs under NNC on the CPU: a program, and the same with one change."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from running import run_target, write

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("compare live")]

PROGRAM = """\
import torch


class Block(torch.nn.Module):
    def forward(self, x, y):
        a = x + y
        b = a * y
        c = torch.relu(b)
        return torch.tanh(c)


model = Block()
inputs = (torch.rand(8, 64), torch.rand(8, 64))
"""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(tmp_path_factory.mktemp("before"), PROGRAM)


def run(folder: Path, program: str, name: str = "block.py") -> Report:
    write(folder, name, textwrap.dedent(program))
    capture, error = run_target(folder, name, fuser="nnc")
    assert error is None
    return report_of(capture)


def changed(
    before: Report, folder: Path, *changes: tuple, name: str = "block.py"
) -> Comparison:
    program = PROGRAM
    for old, new in changes:
        assert old in program
        program = program.replace(old, new)
    return compare(before, run(folder, program, name))


def test_comments_and_another_file_are_no_change(
    before: Report, tmp_path: Path
) -> None:
    comparison = changed(
        before,
        tmp_path,
        ("import torch\n", "import torch\n\n# A comment.\n"),
        ("        c = torch", "        # Another.\n        c = torch"),
        name="renamed.py",
    )
    assert comparison.same and comparison.groups_same == 1


def test_an_operator_that_nnc_does_not_take(before: Report, tmp_path: Path) -> None:
    comparison = changed(
        before,
        tmp_path,
        ("        c = ", "        b = torch.cumsum(b, 1)\n        c = "),
    )
    assert [c.kinds for c in comparison.groups] == [("split",)]
    assert [[n.op for n in ref.nodes] for ref in comparison.groups[0].b] == [
        ["aten::add", "aten::mul"],
        ["aten::relu", "aten::tanh"],
    ]
    assert [(u.change, u.op) for u in comparison.unfused] == [
        ("came", "aten::cumsum")
    ]
    assert comparison.groups[0].because == comparison.unfused
    assert [(f.change, f.finding.code) for f in comparison.findings] == [
        ("came", "FD211")
    ]
    assert not comparison.kernels and not comparison.fallbacks


def test_an_operator_that_is_gone(before: Report, tmp_path: Path) -> None:
    comparison = changed(before, tmp_path, ("torch.relu(b)", "b"))
    assert [c.kinds for c in comparison.groups] == [("operators",)]
    assert [n.op for n in comparison.groups[0].ops_gone] == ["aten::relu"]
    assert not comparison.unfused and not comparison.findings


def test_another_dtype(before: Report, tmp_path: Path) -> None:
    comparison = changed(
        before, tmp_path, ("(8, 64)", "(8, 64, dtype=torch.float64)")
    )
    assert [c.kinds for c in comparison.groups] == [("types",)]
    assert all("Double" in t for t in comparison.groups[0].b[0].inputs)
    assert (
        not comparison.unfused
        and not comparison.findings
        and not comparison.coverage_changed
    )


def test_a_group_inserted_before(before: Report, tmp_path: Path) -> None:
    comparison = changed(
        before,
        tmp_path,
        (
            "        a = x + y",
            "        x = torch.cumsum(x * y - 1, 1)\n        a = x + y",
        ),
    )
    assert [c.kinds for c in comparison.groups] == [("added",)]
    assert comparison.groups_same == 1
    assert {n.op for n in comparison.groups[0].b[0].nodes} == {
        "aten::mul",
        "aten::sub",
    }
