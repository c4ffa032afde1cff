"""A promise has the number that comes, or none: changes that part a group of the
run, and branches of which the log does not show that they ran. Each change is made,
and NNC runs the program again."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from running import python_apart

import fusiondoc
from fusiondoc.diagnosis.unlocked import Plans
from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report

pytestmark = pytest.mark.torch
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def diagnosed(text: str, path: Path, backward: bool = False) -> Report:
    pytest.importorskip("torch")
    path.write_text(text)
    return fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=backward)


def brought(
    text: str, change: PlannedChange, before: Report, path: Path
) -> tuple[int, int]:
    """Operators fewer outside groups, and groups more, with the edits of a
    change."""
    lines = text.split("\n")
    for edit in change.edits:
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after
    after = diagnosed("\n".join(lines), path)
    outside = [
        sum(row.count for row in report.unfused) for report in (before, after)
    ]
    return outside[0] - outside[1], after.fusion_groups - before.fusion_groups


TAKES_THE_TENSOR = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = torch.cumsum(x, 0).exp()
    a = (y * 2.0).relu() > 0.5
    b = torch.flip(z, [0]) - 1.0
    c = b.clamp(min=0.1) * y
    return a.to(z.dtype), c


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""
"""``a`` and ``c`` share nothing, and NNC makes one group of both at last. With
``type_as(z)`` the operators of ``a`` take ``exp`` too, and ``c`` has to wait for
that."""


def test_a_group_that_a_change_parts_is_counted_twice(tmp_path: Path) -> None:
    report = diagnosed(TAKES_THE_TENSOR, tmp_path / "cast.py")
    assert report.fusion_groups == 1
    (change,) = report.plan
    assert (change.operators, change.groups) == (2, 1)
    assert change.unlocks == "2 operators more in groups, 1 group more"
    assert brought(
        TAKES_THE_TENSOR, change, report, tmp_path / "cast_changed.py"
    ) == (2, 1)


BETWEEN_ITS_PARTS = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    p = x.neg()
    a = (torch.flip(p, [0]) + 1.0).exp()
    m = torch.cumsum(y, 0)
    m *= p
    c = (m.sort(0)[0] + 2.0).relu()
    return a, m, c, (m + a.sum(0)).exp()


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""
"""``m *= p`` joins the last group, which waits for ``a``, and ``c`` waits for that:
a group more."""


def test_what_brings_as_many_groups_as_operators_is_worth_a_try(
    tmp_path: Path,
) -> None:
    report = diagnosed(BETWEEN_ITS_PARTS, tmp_path / "parted.py")
    change = next(one for one in report.plan if one.edits)
    assert (change.operators, change.groups) == (0, None)
    assert change.unlocks.startswith("worth a try")
    assert brought(
        BETWEEN_ITS_PARTS, change, report, tmp_path / "parted_changed.py"
    ) == (1, 1)


BRANCHES = """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, keep: float) -> None:
        super().__init__()
        self.keep = keep
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.flip(self.linear(x), [0])
        if self.training and self.keep < 1.0:
            h = h / self.keep
            h *= 2.0
        return torch.flip(h, [1])


model = nn.Sequential(Layer(0.5), Layer(1.0))
inputs = (torch.randn(4, 4),)
"""


def test_with_gradients_a_branch_of_which_nothing_shows_that_it_ran_is_not_promised(
    tmp_path: Path,
) -> None:
    """The branch of the second layer does not run, and its plan is that of the
    first."""
    change = diagnosed(BRANCHES, tmp_path / "branches.py", backward=True).plan[0]
    assert "h * 2.0" in change.change and (change.operators, change.groups) == (
        0,
        None,
    )
    forward = diagnosed(BRANCHES, tmp_path / "branches.py").plan[0]
    assert "h * 2.0" in forward.change and (forward.operators, forward.groups) == (
        2,
        1,
    )
    assert brought(
        BRANCHES, forward, diagnosed(BRANCHES, tmp_path / "b.py"), tmp_path / "c.py"
    ) == (2, 1)


@pytest.mark.nightly
def test_a_fallback_with_its_parameters_in_another_order_is_no_group_more(
    tmp_path: Path,
) -> None:
    """In the first step of a loop the state has no gradient: the guard of a
    differentiable graph fails."""
    pytest.importorskip("torch")
    text = (BENCHMARKS / "promise_programs_13" / "seq2seq_pointer.py").read_text()
    line = "features += self.w_c(coverage.unsqueeze(2))"
    assert line in text
    for name, changed in (
        ("one", text),
        ("other", text.replace(line, line.replace("+=", "= features +"))),
    ):
        (tmp_path / f"{name}.py").write_text(changed)
    code = (
        "import sys\nsys.path.insert(0, sys.argv[1])\nimport promises_judge\n"
        "sys.argv[1:] = ['nnc', '1', *sys.argv[2:]]\npromises_judge.main()\n"
    )
    done = python_apart(
        BENCHMARKS, tmp_path / "one.py", tmp_path / "other.py", code=code
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith("JUDGE ")]
    groups = [
        row.partition('"forward": {"groups": ')[2].partition(",")[0] for row in rows
    ]
    assert groups == ["6", "7"], done


BETWEEN_CALLS = """\
import torch


def layer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    s = torch.cumsum(x, 0)
    {s}
    s = s.relu()
    m = torch.cumsum(s, 1)
    return torch.cumsum(torch.cat([x, m], 1), 1)


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return layer(x, y) + torch.flip(layer(y, x), [0])


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""
"""NNC makes one group of the two ``cat``, which share nothing. With ``s = s / 2.0``
there is a group between them that takes the first for itself, and the second is in
none."""


def test_a_new_group_between_neighbours_that_were_merged_has_no_number(
    tmp_path: Path,
) -> None:
    before = diagnosed(BETWEEN_CALLS.format(s="s /= 2.0"), tmp_path / "before.py")
    merged = [
        [op for op in group.ops if op == "aten::cat"] for group in before.groups
    ]
    assert merged.count(["aten::cat", "aten::cat"]) == 1
    change = next(one for one in before.plan if one.edits)
    assert (change.operators, change.groups) == (0, None)
    after = diagnosed(BETWEEN_CALLS.format(s="s = s / 2.0"), tmp_path / "after.py")
    assert [row.op for row in after.unfused if row.op == "aten::cat"] == [
        "aten::cat"
    ]


BEFORE_THE_SECOND_PART = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.cumsum(x, 0)
    a += y
    a += 1.0
    p = torch.flip(a, [0]).sin() * 2.0
    c = torch.cumsum(y, 0)
    c += x
    c += 1.0
    r = torch.flip(c, [0]).cos() * 3.0
    return torch.cumsum(p, 0), torch.cumsum(r, 0)


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""
"""``p`` and ``r`` are one group of neighbours. Out of place ``c`` is a group between
the two that takes ``p`` for itself; the plan has it before both."""


def test_new_groups_before_a_part_of_merged_neighbours_have_a_number(
    tmp_path: Path,
) -> None:
    before = diagnosed(BEFORE_THE_SECOND_PART, tmp_path / "before.py")
    assert before.fusion_groups == 1
    change = next(one for one in before.plan if one.edits)
    assert (change.operators, change.groups) == (4, 2)
    text = BEFORE_THE_SECOND_PART
    for edit in change.edits:
        assert text.count(edit.before) == 1
        text = text.replace(edit.before, edit.after)
    after = diagnosed(text, tmp_path / "after.py")
    outside = [
        sum(row.count for row in report.unfused) for report in (before, after)
    ]
    assert outside[0] - outside[1] == 4
    assert after.fusion_groups - before.fusion_groups == 2


BOTH_SIDES = """\
import torch


def model(xs: list[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros_like(xs[0])
    for x in xs:
        if x.dim() == 2:
            total += x.exp()
        else:
            total += x.sigmoid()
    return total


inputs = ([torch.randn(4, 8), torch.randn(4, 8)],)
"""


def test_updates_of_one_tensor_on_both_sides_of_a_branch_are_not_promised_as_one_group(
    tmp_path: Path,
) -> None:
    """A plan does not show on which side of a branch a node stands."""
    report = diagnosed(BOTH_SIDES, tmp_path / "sides.py")
    rows = {row.index: position for position, row in enumerate(report.unfused)}
    changed = {rows[row.index] for row in report.unfused if row.op == "aten::add_"}
    groups = Plans(report, "nnc", None).with_changes(changed)
    assert all(
        not group.sure or group.ops.count("aten::add_") < 2 for group in groups
    )


def test_what_several_differentiable_graphs_take_is_not_promised_to_one() -> None:
    """``mask`` goes to three: with ``mask = mask * logits_mask`` another one takes
    ``exp`` than before."""
    pytest.importorskip("torch")
    path = BENCHMARKS / "promise_programs_9" / "supcon_loss.py"
    plan = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True).plan
    change = next(one for one in plan if "mask * logits_mask" in one.change)
    assert (change.operators, change.groups) == (0, None)


CALLS_IN_CALLS = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
{}
    return h.relu() * 0.5


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (
            "    h = torch.minimum(torch.minimum(x, y * 2.0), torch.minimum(y, torch.minimum(x, y)))",
            "    h = torch.min(torch.min(x, y * 2.0), torch.min(y, torch.min(x, y)))",
        ),
        (
            "    h = torch.square(x + torch.square(y * torch.square(x - 1.0)))",
            "    hidden = x - 1.0\n    inner = y * (hidden * hidden)\n"
            "    h3 = x + (inner * inner)\n    h = h3 * h3",
        ),
    ],
)
def test_calls_inside_calls_are_all_written_and_all_come(
    line: str, written: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    paths = tmp_path / "nested.py", tmp_path / "nested_changed.py"
    text = CALLS_IN_CALLS.format(line)
    report = diagnosed(text, paths[0])
    (change,) = report.plan
    assert [edit.after for edit in change.edits] == [written]
    assert change.operators > line.count("torch.")
    assert brought(text, change, report, paths[1]) == (
        change.operators,
        change.groups,
    )
    one, other = (runpy.run_path(str(path)) for path in paths)
    torch.testing.assert_close(
        one["model"](*one["inputs"]), other["model"](*one["inputs"])
    )


FIRST_STEP_WITHOUT_GRADIENT = """\
import torch
from torch import Tensor, nn


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 2
        self.weight = nn.Parameter(torch.rand(8))

    def forward(self, state: Tensor) -> Tensor:
        step = 0
        while step < self.steps:
            gate = torch.cumsum(torch.sigmoid(state * self.weight) * 2.0, 0)
            moved = torch.cumsum((torch.flip(state, [0]) + 1.0).relu() * 0.5, 1)
            state = (gate - moved).tanh() * 0.9
            step += 1
        return torch.cumsum(state, 0).exp() * 2.0


model = Steps()
inputs = (torch.rand(8, 8),)
"""
REGIONS = """\
import runpy, sys, torch
torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
names = runpy.run_path(sys.argv[1])
model = torch.jit.script(names["model"])
with torch.jit.fuser("fuser1"):
    for _ in range(5):
        model(*names["inputs"]).sum().backward()
    (plan,) = model.get_debug_state().execution_plans.values()
print(len(plan.graph.findAllNodes("prim::DifferentiableGraph")))
"""
"""Each differentiable graph of the program is one group."""


def test_a_fallback_that_runs_before_what_it_stands_for_is_no_group_more(
    tmp_path: Path,
) -> None:
    """With two steps both have their plans in the same pass, the fallback's
    first."""
    report = diagnosed(FIRST_STEP_WITHOUT_GRADIENT, tmp_path / "steps.py", True)
    done = python_apart(tmp_path / "steps.py", code=REGIONS)
    forward = [group for group in report.groups if group.phase == "forward"]
    assert sum(group.count for group in forward) == int(done.stdout), done
    assert len(forward) == 4 and {one.specialisation for one in forward} == {1}
