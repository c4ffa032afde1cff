"""Promises of plans that once were not kept, on the programs that showed it."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import pytest
from running import python_apart

import fusiondoc
from fusiondoc.errors import ModelFailed
from fusiondoc.model.change_plan import PlannedChange
from fusiondoc.model.report import Report

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROGRAMS = BENCHMARKS / "promise_programs_2"


def diagnosed(
    name: str, backward: bool = False, folder: str = PROGRAMS.name
) -> Report:
    pytest.importorskip("torch")
    path = BENCHMARKS / folder / f"{name}.py"
    return fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=backward)


def written(name: str, changes: list[PlannedChange], into: Path) -> Path:
    """A copy of a program with the edits of changes, each of a line of its own."""
    lines = (PROGRAMS / f"{name}.py").read_text().split("\n")
    for edit in (edit for change in changes for edit in change.edits):
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after
    copy = into / f"{name}.py"
    copy.write_text("\n".join(lines))
    return copy


@pytest.mark.torch
def test_operators_of_one_line_are_replaced_together(tmp_path: Path) -> None:
    """``torch.maximum(torch.minimum(x0, s), -s)``: two changes of this line could
    not both be made."""
    torch = pytest.importorskip("torch")
    report = diagnosed("ddim_step")
    both = next(
        one for one in report.plan if "minimum() and maximum()" in one.change
    )
    (edit,) = both.edits
    assert edit.after == "    x0 = torch.max(torch.min(x0, s), -s) / s"
    copy = written("ddim_step", list(report.plan), tmp_path)
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3)
    left = {row.op for row in after.unfused}
    assert (
        not {"aten::minimum", "aten::maximum", "aten::clamp_min", "aten::square"}
        & left
    )
    one, other = (
        runpy.run_path(str(path)) for path in (PROGRAMS / "ddim_step.py", copy)
    )
    given = one["inputs"]
    torch.testing.assert_close(one["model"](*given), other["model"](*given))


@pytest.mark.torch
def test_three_changes_of_one_line_are_one(tmp_path: Path) -> None:
    """The noise of a noisy layer: a recipe and two operators in place."""
    path = tmp_path / "noise.py"
    path.write_text("""\
import torch


def model(x: torch.Tensor) -> torch.Tensor:
    y = x * 2.0
    return y.sign().mul_(y.abs().sqrt_()) + 1.0


inputs = (torch.randn(4, 8),)
""")
    (change,) = fusiondoc.diagnose(str(path), fuser="nnc", runs=3).plan
    (edit,) = change.edits
    assert (
        edit.after
        == "    return ((y > 0).type_as(y) - (y < 0).type_as(y)).mul(y.abs().sqrt()) + 1.0"
    )


@pytest.mark.torch
def test_a_number_that_is_read_of_a_tensor_stands_between(tmp_path: Path) -> None:
    """The view of the bias needs the dimensions of what it is added to, as in a
    fused leaky ReLU."""
    text = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = torch.sigmoid(x) * 2.0
    out += y
    return torch.tanh(out + bias.view([1, -1] + [1] * (out.dim() - 2)))


inputs = (torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(3))
"""
    path, copy = tmp_path / "before.py", tmp_path / "after.py"
    path.write_text(text)
    copy.write_text(text.replace("out += y", "out = out + y"))
    before, after = (
        fusiondoc.diagnose(str(file), fuser="nnc", runs=3) for file in (path, copy)
    )
    (change,) = before.plan
    assert (
        (change.operators, change.groups)
        == (1, len(after.groups) - len(before.groups))
        == (1, 0)
    )


@pytest.mark.torch
def test_a_cast_to_the_same_type_is_no_reason_for_a_group() -> None:
    """``scores += bias``, then ``scores.float()`` of float32: NNC begins no group
    with what eager mode does not compute (``unexecutedEagerOp`` of
    tensorexpr_fuser.cpp)."""
    report = diagnosed("t5_attention")
    (change,) = [one for one in report.plan if one.edits]
    assert (change.operators, change.groups) == (2, 1)
    # One operator and a view that NNC takes in as an operator are a group.
    assert (
        change.unlocks == "1 group of unsqueeze+add, add joins 1 group of this run"
    )


@pytest.mark.torch
def test_a_maximum_of_all_elements_is_not_promised() -> None:
    """NNC takes the maximum of two tensors alone."""
    report = diagnosed("log_mel", backward=True)
    assert "aten::max" in {row.op for row in report.unfused}
    promised = [one for one in report.plan if one.operators]
    assert not any("max+sub+maximum" in one.unlocks for one in promised)
    assert all(one.operators <= 2 for one in promised)


@pytest.mark.torch
@pytest.mark.parametrize("backward", [False, True])
def test_a_masked_number_is_made_on_the_device_of_an_argument(
    backward: bool,
) -> None:
    """Read of a mask that the block computes, the device keeps the producer of the
    mask out of the group."""
    report = diagnosed("smooth_labels", backward)
    after = [
        edit.after
        for one in report.plan
        for edit in one.edits
        if "masked_fill" in edit.before
    ]
    assert after == [
        "        kl = torch.where(ignore.unsqueeze(1), torch.full([], 0.0, device=target.device), kl)"
    ]


@pytest.mark.torch
def test_a_prelu_module_is_written_with_its_own_weight(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    text = """\
import torch
from torch import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.act = nn.PReLU(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.act(self.conv(x) * 2.0) + 1.0
        return torch.tanh(y) * 0.5


torch.manual_seed(0)
model = Net()
inputs = (torch.randn(2, 3, 4, 4),)
"""
    path, copy = tmp_path / "net.py", tmp_path / "changed.py"
    path.write_text(text)
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    (edit,) = next(one for one in report.plan if "prelu()" in one.change).edits
    assert "torch.where(h > 0, h, self.act.weight.view(-1, 1, 1) * h)" in edit.after
    copy.write_text(text.replace(edit.before, edit.after))
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3)
    assert "aten::prelu" not in {row.op for row in after.unfused}
    one, other = (runpy.run_path(str(file)) for file in (path, copy))
    results = [[names["model"](*one["inputs"])] for names in (one, other)]
    for result, names in zip(results, (one, other), strict=True):
        result += torch.autograd.grad(
            result[0].sum(), list(names["model"].parameters())
        )
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.torch
def test_what_is_added_through_a_view_that_nothing_else_reads_is_promised() -> None:
    """``out = out.reshape(n, -1)``, then ``out += bias``: nothing else reads the
    first one again."""
    report = diagnosed("edge_softmax")
    (change,) = [one for one in report.plan if one.edits]
    assert (change.operators, change.groups) == (2, 1)
    assert change.unlocks.startswith("1 group of add+elu")


TWO_CALLS = """\
import torch
import torch.nn.functional as F


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.sin(x) * y
    h = F.glu(a + 1, -1) * 2.0
    g = F.glu(x * y, -1) + h
    return torch.tanh(g * 2)


inputs = (torch.randn(8, 8), torch.randn(8, 8))
"""


@pytest.mark.torch
def test_all_lines_that_call_one_line_of_torch_are_changed(tmp_path: Path) -> None:
    """Both ``F.glu`` are one line of torch/nn/functional.py, and one row."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "two_calls.py"
    path.write_text(TWO_CALLS)
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    (row,) = [row for row in report.unfused if row.op == "aten::glu"]
    assert (row.count, row.called_from) == (2, (f"{path}:7", f"{path}:8"))
    (change,) = [one for one in report.plan if one.edits]
    assert (change.where, change.also_at) == (f"{path}:7", (f"{path}:8",))
    text = fusiondoc.render(report, "text")
    assert "two_calls.py:7, 8" in text
    lines = TWO_CALLS.split("\n")
    for edit in change.edits:
        lines[edit.line - 1] = edit.after
    changed = tmp_path / "changed.py"
    changed.write_text("\n".join(lines))
    one, other = (runpy.run_path(str(file)) for file in (path, changed))
    given = one["inputs"]
    torch.testing.assert_close(one["model"](*given), other["model"](*given))
    after = fusiondoc.diagnose(str(changed), fuser="nnc", runs=3)
    assert {row.op for row in after.unfused} & {"aten::glu", "aten::mul"} == set()
    assert (
        sum(group.count for group in after.groups)
        == sum(g.count for g in report.groups) + change.groups
    )


@pytest.mark.torch
def test_steps_of_a_loop_that_never_ran_have_no_groups_to_join() -> None:
    """Torch unrolls the loop by eight: five steps run in its remainder, and one
    differentiable graph of nine has a plan. After the change torch has as many
    groups: the one graph of the unrolled steps never runs, and gets no plan."""
    report = diagnosed("qrnn_pool", backward=True, folder="promise_programs_3")
    assert (
        sum(group.count for group in report.groups if group.ops[-1] == "aten::mul")
        == 1
    )
    (change,) = [one for one in report.plan if one.edits]
    assert (change.operators, change.groups) == (3, 0)
    assert change.unlocks.startswith("mul+add+mul joins 1 group of this run")


@pytest.mark.torch
def test_what_a_differentiable_graph_begins_with_has_to_take_the_tensor() -> None:
    """``lengths > t`` begins the differentiable graph behind ``sigmoid_``, and does
    not take its result; in the router ``weight * ...`` begins the one behind ``hot
    *= ...``. Neither joins what is freed."""
    report = diagnosed("gru_zoneout", backward=True, folder="promise_programs_4")
    (change,) = [one for one in report.plan if one.edits]
    assert (change.operators, change.unlocks) == (6, "3 groups of add+sigmoid")
    report = diagnosed(
        "noisy_top1_router", backward=True, folder="promise_programs_4"
    )
    (change,) = [one for one in report.plan if one.edits]
    assert (change.operators, change.groups) == (6, 1)
    assert (
        change.unlocks
        == "1 group of gt+to+mul, to+to+mul joins 1 group of this run"
    )


@pytest.mark.torch
def test_lines_of_a_decorated_function_are_its_own_and_the_callers_state_stays() -> (
    None
):
    """Under ``@torch.no_grad()`` torch names the file of the decorator for the
    lines of a function. Adadelta changes what it was called with in place: a note
    without anything to do, and no change of the plan."""
    report = diagnosed("adadelta_step", folder="promise_programs_5")
    own = str(BENCHMARKS / "promise_programs_5" / "adadelta_step.py")
    assert {
        row.user_source.rpartition(":")[0]
        for row in report.unfused
        if row.user_source
    } == {own}
    edits = [edit for one in report.plan for edit in one.edits]
    assert [edit.after.strip() for edit in edits] == [
        "std = square_avg.add(eps).sqrt()",
        "delta = acc_delta.add(eps).sqrt()",
        "delta = delta.div(std).mul(grad)",
    ]
    of_state = [
        one
        for one in report.findings
        if one.source in (f"{own}:11", f"{own}:15", f"{own}:16")
    ]
    assert len(of_state) == 5
    assert all(one.severity == "note" and one.nothing_to_do for one in of_state)


@pytest.mark.torch
def test_an_operator_in_place_without_a_rule_is_written_by_its_recipe() -> None:
    """``new.addcdiv_(grad, std, value=-clr)`` on a copy."""
    report = diagnosed("adagrad_momentum", folder="promise_programs_5")
    after = [edit.after.strip() for one in report.plan for edit in one.edits]
    assert "new = new + (-clr) * grad / std" in after


@pytest.mark.torch
def test_a_warning_has_something_to_do() -> None:
    """A loss in training: sums without a gradient formula and other way to write
    them are notes, and no step of the plan. In the margin ``F.normalize`` calls
    aten::clamp_min, which no line of the program names."""
    loss = diagnosed("centernet_loss", backward=True, folder="promise_programs_5")
    assert "FD231" in {one.code for one in loss.findings if one.nothing_to_do}
    assert not loss.plan
    margin = diagnosed("arcface_margin", folder="promise_programs_5")
    assert [one.change for one in margin.plan] == [
        "Write output = output * self.s instead of output *= self.s"
    ]
    assert "aten::clamp_min" in {
        op for one in margin.findings if one.nothing_to_do for op in one.ops
    }
    for report in (loss, margin):
        assert not [
            one
            for one in report.findings
            if one.severity == "warning" and one.nothing_to_do
        ]


@pytest.mark.torch
def test_a_run_with_gradients_and_one_library_call_says_why_no_pass_ran(
    tmp_path: Path,
) -> None:
    """Not that the pass was not logged: the run logs all of them."""
    pytest.importorskip("torch")
    program = tmp_path / "one_layer.py"
    program.write_text(
        "import torch\n\nmodel = torch.nn.Linear(4, 4)\ninputs = (torch.randn(4, 4),)\n"
    )
    report = fusiondoc.diagnose(str(program), fuser="nnc", runs=3, backward=True)
    (why,) = [one for one in report.findings if one.code == "FD102"]
    assert why.severity == "note" and why.nothing_to_do
    assert (
        "gradients are recorded, and torch found no differentiable graph"
        in why.message
    )
    assert not report.plan
    assert (
        report.plan_note is not None
        and "torch found no differentiable graph" in report.plan_note
    )


def test_the_plan_of_a_fallback_is_no_group_more() -> None:
    """Other dtypes, then another number of dimensions: torch prints a plan for
    each."""
    pytest.importorskip("torch")
    code = (
        "import sys, torch\nsys.path.insert(0, sys.argv[1])\nfrom promises_judge import count, run\n"
        "torch._C._jit_override_can_fuse_on_cpu(True)\ntorch._C._jit_set_te_must_use_llvm_cpu(False)\n"
        "unit = torch.jit.CompilationUnit('def f(x, y):\\n    return (x * y).tanh() * 3.0\\n')\n"
        "printed = [], []\n"
        "with torch.jit.fuser('fuser1'):\n"
        "    for one in [torch.ones(4, 3)] * 4 + [torch.ones(2).double()] * 4:\n"
        "        run(unit.f, (one, one), False, printed)\n"
        "plans = sum(line.startswith('Optimized Graph') for line in printed[0])\n"
        "print(plans, count(printed[0]))\n"
    )
    done = python_apart(BENCHMARKS, code=code)
    plans, _, counts = done.stdout.splitlines()[-1].partition(" ")
    assert int(plans) > 1, done
    assert counts == str({"groups": 1, "inside": 3, "outside": Counter()})


@pytest.mark.torch
def test_the_plan_of_a_differentiable_graphs_fallback_is_no_group_more() -> None:
    """Gradients, then none: the guard of the differentiable graph fails, and its
    fallback gets a plan."""
    pytest.importorskip("torch")
    code = (
        "import sys, torch\nsys.path.insert(0, sys.argv[1])\nfrom promises_judge import count, run\n"
        "torch._C._jit_override_can_fuse_on_cpu(True)\ntorch._C._jit_set_te_must_use_llvm_cpu(False)\n"
        "unit = torch.jit.CompilationUnit('def f(x, y):\\n    return (x * y).tanh() * 3.0\\n')\n"
        "printed = [], []\n"
        "with torch.jit.fuser('fuser1'):\n"
        "    for grad in [True] * 4 + [False] * 4:\n"
        "        one = torch.ones(4, 3, requires_grad=grad)\n"
        "        run(unit.f, (one, one), grad, printed)\n"
        "plans = sum(line.startswith('Optimized Graph') for line in printed[0])\n"
        "print(plans, count(printed[0]))\n"
    )
    done = python_apart(BENCHMARKS, code=code)
    plans, _, counts = done.stdout.splitlines()[-1].partition(" ")
    assert int(plans) == 3, done
    assert counts == str({"groups": 1, "inside": 3, "outside": Counter()})


LISTED = """\
import torch
from torch import Tensor


def model(x: Tensor, w: Tensor) -> Tensor:
    a = torch.sigmoid(x) * 2
    parts: list[Tensor] = []
    for i in range(w.size(0)):
        parts.append(torch.matmul(a, w[i]))
    h = torch.stack(parts).sum(0)
    h += torch.exp(a)
    return torch.tanh(h)


inputs = (torch.randn(8, 8), torch.randn(3, 8, 8))
"""
NUMBERED = """\
import torch
from torch import Tensor


def model(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    h = torch.sigmoid(x) * y
    h += y * 2
    shape = [1, -1] + [1] * (h.dim() - 2)
    return torch.tanh(h + bias.view(shape))


inputs = (torch.randn(4, 8), torch.randn(4, 8), torch.randn(8))
"""


@pytest.mark.torch
@pytest.mark.parametrize(("text", "unlocks"), [
    (LISTED, "1 group of add+tanh"),
    (NUMBERED, "mul+add joins 1 group of this run"),
])  # fmt: skip
def test_what_waits_through_a_list_or_a_number_joins_no_group_before(
    text: str, unlocks: str, tmp_path: Path
) -> None:
    """A list to which a group's results were appended; a size that a number of
    dimensions decides on."""
    pytest.importorskip("torch")
    path = tmp_path / "model.py"
    path.write_text(text)
    before = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    (change,) = [one for one in before.plan if one.edits]
    assert change.unlocks == unlocks
    path.write_text(text.replace(change.edits[0].before, change.edits[0].after))
    after = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    groups = [
        sum(group.count for group in report.groups) for report in (before, after)
    ]
    assert groups[1] - groups[0] == change.groups


@pytest.mark.torch
def test_no_promise_counts_on_graphs_that_another_change_would_join() -> None:
    """Without gradients, which is another change, the groups around the flag's
    branch would be neighbours."""
    report = diagnosed("roi_align_bilinear", folder="promise_programs_10")
    (flag,) = [
        one
        for one in report.plan
        if one.change.startswith("Make the flag a constant")
    ]
    assert (flag.operators, flag.groups, flag.unlocks) == (
        4,
        1,
        "1 group of clamp+clamp+div+div",
    )


@pytest.mark.torch
def test_several_results_of_a_group_are_memory_of_their_own() -> None:
    """One group makes the vorticity and both velocities, which are changed in place
    one after the other: what reads the first does not wait for the others. torch's
    plan of the changed program has as many groups."""
    report = diagnosed("lattice_boltzmann", folder="promise_programs_13")
    (change,) = [
        one for one in report.plan if one.change.startswith("Write x = x * y")
    ]
    assert (change.operators, change.groups) == (3, 0)
    assert change.unlocks == "mul+mul+mul joins 1 group of this run in lattice"


@pytest.mark.torch
def test_an_addition_to_a_part_is_a_change_of_its_own() -> None:
    """Beside it ``likelihood += self.min_obs`` of the whole tensor: one more
    operator each for what joins."""
    report = diagnosed("particle_filter", folder="promise_programs_10")
    changes = {one.change: one for one in report.plan if one.edits}
    whole = changes["Write x = x + y instead of x += y"]
    assert (whole.operators, whole.groups) == (3, 0)
    parts = changes[
        "Join the parts with torch.cat instead of changing slices in place"
    ]
    assert [edit.line for edit in parts.edits] == [41, 42, 43, 93], (
        "43 calls a function for its value"
    )


@pytest.mark.torch
def test_an_assignment_of_several_lines_and_a_cast_in_it_are_written_together() -> (
    None
):
    """``centre[:, :, 0] = points[:, :, 0] - (`` with ``coords[:,
    1].to(points.dtype)`` on its second line. Types of what is cast were not
    profiled, as NNC does not take such a cast."""
    name, folder = "pointpillars_scatter", "promise_programs_14"
    report = diagnosed(name, folder=folder)
    (change,) = [
        one
        for one in report.plan
        if one.change.startswith("Write to() with operators that fuse; ")
    ]
    assert {row.reason.code for row in report.unfused if row.op == "aten::to"} == {
        "FD211"
    }
    lines = (BENCHMARKS / folder / f"{name}.py").read_text().split("\n")
    for edit in sorted(change.edits, key=lambda edit: -edit.line):
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1 : edit.line] = (
            edit.after.split("\n") if edit.after else []
        )
    text = "\n".join(lines)
    compile(text, name, "exec")
    assert ".to(" not in text, "each cast is written with type_as"
    assert text.count("centre = torch.cat(") == 2


@pytest.mark.torch
def test_a_cast_takes_the_tensor_of_which_it_read_the_dtype() -> None:
    """``target.flatten(1).to(pred.dtype)`` as ``type_as(pred)`` stands behind the
    group of ``pred``, and is looked at where ``target`` is used last: it joins that
    group, and no product before that use. torch's plan of the changed program has
    as many groups."""
    report = diagnosed(
        "matrix_nms_solo", backward=True, folder="promise_programs_14"
    )
    (change,) = [
        one
        for one in report.plan
        if one.change == "Write to() with operators that fuse"
    ]
    assert (change.operators, change.groups) == (2, 0)
    assert change.unlocks == "to+square joins 1 group of this run (together with 2)"


@pytest.mark.torch
def test_an_update_that_torchscript_refuses_with_gradients_is_written_out_of_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``self.q(x).mul_(self.scale).view(...)``, which eager mode runs. No further
    pass would come after the error, so that nothing is advised about passes."""
    monkeypatch.chdir(tmp_path)
    name, folder = "graphormer_attention", "promise_programs_14"
    with pytest.raises(ModelFailed):
        diagnosed(name, backward=True, folder=folder)
    (capture,) = Path(".fusiondoc").glob(f"*{name}")
    plan = fusiondoc.parse(str(capture)).plan
    assert plan[0].codes == ("FD905",) and not any(
        "FD103" in one.codes for one in plan
    )
    (edit,) = plan[0].edits
    assert "self.q(x).mul(self.scale)" in edit.after
    copy = tmp_path / "changed.py"
    copy.write_text(
        (BENCHMARKS / folder / f"{name}.py")
        .read_text()
        .replace(edit.before, edit.after)
    )
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=5, backward=True)
    assert after.groups and not any(one.code == "FD905" for one in after.findings)
