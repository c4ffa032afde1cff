"""Branches of plans with gradients: no graph is printed that has what was profiled,
but differentiable graphs show which side ran. Each program runs with NNC."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusiondoc
from fusiondoc.model.report import Report

pytestmark = pytest.mark.torch

TWO_HEADS = """\
import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.flip(self.linear(x), [0])
        if self.kind == "student":
            loss = torch.log1p((h * 0.5 + 1.0).pow(2) * h.sigmoid())
        else:
            loss = h * F.logsigmoid(h) + (1.0 - h) * F.logsigmoid(-h) * h.tanh()
        return torch.flip(loss, [1]).sum()


model = Model("{kind}")
inputs = (torch.rand(4, 8),)
"""


def trained(text: str, path: Path) -> Report:
    pytest.importorskip("torch")
    path.write_text(text)
    return fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)


def ran_at(report: Report, line: int) -> set[bool | None]:
    return {
        row.ran
        for row in report.unfused
        for place in row.users_lines
        if place.split(":")[1] == str(line)
    }


@pytest.mark.parametrize(
    ("kind", "taken", "other"), [("student", 15, 17), ("binomial", 17, 15)]
)
def test_one_side_of_a_branch_ran(
    kind: str, taken: int, other: int, tmp_path: Path
) -> None:
    report = trained(TWO_HEADS.replace("{kind}", kind), tmp_path / "heads.py")
    assert ran_at(report, other) == {False}
    assert False not in ran_at(report, taken)
    codes = {
        row.reason.code
        for row in report.unfused
        if any(place.split(":")[1] == str(other) for place in row.users_lines)
    }
    assert codes == {"FD232"}
    lines = {edit.line for change in report.plan for edit in change.edits}
    assert other not in lines


IN_A_LOOP = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, steps: int) -> torch.Tensor:
        h = self.linear(x)
        for step in range(steps):
            if step % 2 == 0:
                h = torch.flip((h * 0.5 + 1.0).tanh() * h.sigmoid() * h, [0])
            else:
                h = torch.relu(h)
        return h.sum()


model = Model()
inputs = (torch.rand(4, 8), 4)
"""


def test_in_a_loop_both_sides_of_a_branch_may_have_run(tmp_path: Path) -> None:
    report = trained(IN_A_LOOP, tmp_path / "loop.py")
    assert any(row.op == "aten::relu" for row in report.unfused)
    assert False not in ran_at(report, 16)


BEHIND_AND_BEFORE = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, symmetric: bool) -> None:
        super().__init__()
        self.symmetric = symmetric
        self.low, self.high = nn.Parameter(-torch.rand(8)), nn.Parameter(torch.rand(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.flip(x, [0])
        low = torch.min(self.low, x)
        if self.symmetric:
            scale = torch.max(-low, self.high) / 127.5 * self.high
        else:
            scale = (self.high - low) / 255.0 * self.high
        return torch.flip(scale, [1]).sum()


model = Model(True)
inputs = (torch.rand(4, 8),)
"""


def test_what_a_branch_kept_apart_joins_the_differentiable_graph_in_it(
    tmp_path: Path,
) -> None:
    before = trained(BEHIND_AND_BEFORE, tmp_path / "before.py")
    change = next(one for one in before.plan if "torch.jit.Final" in one.change)
    assert (change.operators, change.groups) == (1, 0)
    text = BEHIND_AND_BEFORE
    for edit in change.edits:
        assert text.count(edit.before + "\n") == 1
        text = text.replace(edit.before + "\n", edit.after + "\n")
    after = trained(text, tmp_path / "after.py")
    outside = [
        sum(row.count for row in report.unfused if row.user_source and row.ran)
        for report in (before, after)
    ]
    branches = 1
    assert outside[0] - outside[1] == change.operators + branches
    assert before.fusion_groups == after.fusion_groups
