"""The first change of a plan, made in the program: it computes the same, and fuses
as was promised."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import fusiondoc
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Report

HEAD = "import torch\nfrom torch import Tensor\n\n\ndef model(x: Tensor, m: Tensor) -> Tensor:\n"

MASK = (
    "    s = x * 0.5 + x\n    s = s.masked_fill(m, -1e4)\n    return torch.tanh(s) * 2.0\n",
    "inputs = (torch.randn(4, 8{grad}), torch.rand(4, 8) > 0.5)\n",
)
ATTENTION = (  # matrix products at the other sides of both differentiable graphs
    "    s = x @ x.transpose(-2, -1) * 0.5 + x\n    s = s.masked_fill(m, -1e4)\n"
    "    p = torch.sigmoid(s * 2.0) * 3.0\n    return p @ s\n",
    "inputs = (torch.randn(2, 8, 8{grad}), torch.ones(8, 8, dtype=torch.bool).triu(1))\n",
)
GATHER = (
    "    y = torch.relu(x) * 2.0 + 1.0\n    h = torch.index_select(y, 0, m)\n    return torch.sigmoid(h)\n",
    "inputs = (torch.randn(4, 8{grad}), torch.tensor([1, 2, 1]))\n",
)


def run(path: Path, body: str, inputs: str, grad: bool) -> Report:
    path.write_text(
        HEAD
        + body
        + "\n\n"
        + inputs.format(grad=", requires_grad=True" if grad else "")
    )
    return fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=grad)


def groups_of(report: Report) -> int:
    return sum(group.count for group in report.groups if group.phase == "forward")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("program", "grad", "line"),
    [
        (MASK, False, "    s = torch.where(m, -1e4, s)"),
        # A number has no gradient formula there; a tensor has, and both
        # differentiable graphs become one.
        pytest.param(
            MASK,
            True,
            "    s = torch.where(m, torch.full([], -1e4, device=m.device), s)",
            marks=pytest.mark.nightly,
        ),
        (
            ATTENTION,
            True,
            "    s = torch.where(m, torch.full([], -1e4, device=m.device), s)",
        ),
        (GATHER, False, "    return torch.index_select(torch.sigmoid(y), 0, m)"),
    ],
)
def test_the_change_fuses_more_and_computes_the_same(
    program: tuple[str, str], grad: bool, line: str, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "net.py"
    before = run(path, *program, grad)
    (change, *_) = before.plan
    written = path.read_text().split("\n")
    for edit in change.edits:
        assert written[edit.line - 1] == edit.before
        written[edit.line - 1] = edit.after
    assert line in written
    one = runpy.run_path(str(path))
    body = "\n".join(written).split("-> Tensor:\n")[1].split("\n\n\n")[0] + "\n"
    after = run(tmp_path / "changed.py", body, program[1], grad)
    other = runpy.run_path(str(tmp_path / "changed.py"))
    # A vector unit rounds the last elements of a row otherwise than those before
    # them.
    torch.testing.assert_close(
        one["model"](*one["inputs"]),
        other["model"](*one["inputs"]),
        rtol=1e-6,
        atol=1e-7,
    )
    fused = [report.coverage.ops_fused or 0 for report in (before, after)]
    assert fused[1] > fused[0]
    assert groups_of(after) == 1


@pytest.mark.torch
@pytest.mark.parametrize("op", ["torch.cumsum(y, 1)", "torch.sort(y, 1)[0]"])
def test_what_computes_is_not_moved(op: str, tmp_path: Path) -> None:
    """``sigmoid(cumsum(x))`` is no ``cumsum(sigmoid(x))``."""
    body = f"    y = torch.relu(x) * 2.0 + 1.0\n    h = {op}\n    return torch.sigmoid(h)\n"
    report = run(tmp_path / "net.py", body, MASK[1], False)
    assert not [one for one in report.plan if one.kind is ChangeKind.MOVE]
    assert not any(
        "before or after" in (one.advice or "") for one in report.findings
    )
    assert report.plan_title == "Not known without trying"


@pytest.mark.torch
def test_a_chunk_is_advised_for_a_split(tmp_path: Path) -> None:
    """NNC takes prim::ConstantChunk into a group, and no aten::split."""
    last = "    return torch.sigmoid(a + 1.0) * torch.tanh(b) * m[:, :4]\n"
    body = "    y = torch.relu(x)\n    a, b = y.{}\n" + last
    before = run(
        tmp_path / "net.py", body.format("split(4, dim=1)"), MASK[1], False
    )
    (row,) = [row for row in before.unfused if row.op == "aten::relu"]
    (one,) = [
        one
        for one in before.findings
        if "aten::relu" in one.ops and one.code == row.reason.code
    ]
    assert (
        one.advice is not None
        and "a, b = x.chunk(2, 1) instead of a, b = x.split(4, 1)" in one.advice
    )
    after = run(tmp_path / "net.py", body.format("chunk(2, dim=1)"), MASK[1], False)
    assert not [row for row in after.unfused if row.op == "aten::relu"]


@pytest.mark.torch
def test_operators_in_place_of_one_line_are_one_change(tmp_path: Path) -> None:
    body = "    keep = torch.sigmoid(x).add_(0.9).floor_()\n    return torch.tanh(x) / 0.9 * keep\n"
    report = run(tmp_path / "net.py", body, MASK[1], False)
    (change,) = report.plan
    assert change.change == "Write add_() and floor_() out of place"
    (edit,) = change.edits
    assert edit.after == "    keep = torch.sigmoid(x).add(0.9).floor()"
    after = run(
        tmp_path / "changed.py",
        body.replace("add_", "add").replace("floor_", "floor"),
        MASK[1],
        False,
    )
    assert groups_of(after) == 1 and after.coverage.fraction == 1


PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "promise_programs"


@pytest.mark.torch
def test_a_change_that_makes_no_group_of_the_plan_is_worth_a_try_and_promises_no_number() -> (
    None
):
    """A Hardswish in place between convolutions, in training: out of place it is an
    operator alone there."""
    pytest.importorskip("torch")
    report = fusiondoc.diagnose(
        str(PROGRAMS / "inverted_residual.py"), fuser="nnc", runs=3, backward=True
    )
    change = next(change for change in report.plan if "Hardswish" in change.change)
    assert (change.operators, change.groups, change.gain_bytes) == (0, None, None)
    assert (
        change.unlocks == "worth a try: aten::hardswish_ keeps others out of groups"
    )


@pytest.mark.torch
def test_the_state_that_a_step_changes_for_its_caller_is_not_written_out_of_place() -> (
    None
):
    """``m.mul_().add_()`` of an argument: the optimiser would never move."""
    pytest.importorskip("torch")
    report = fusiondoc.diagnose(str(PROGRAMS / "adam_step.py"), fuser="nnc", runs=3)
    assert {row.op for row in report.unfused} >= {"aten::mul_", "aten::addcmul_"}
    assert report.plan and all(
        "mul_" not in edit.before for one in report.plan for edit in one.edits
    )
    assert all("aten::mul_" not in one.ops for one in report.plan)


@pytest.mark.torch
def test_modules_and_functions_that_call_an_operator_in_place_are_changed_together() -> (
    None
):
    """A log names one line of torch for ``nn.ReLU(inplace=True)`` and ``F.relu(x,
    inplace=True)``."""
    pytest.importorskip("torch")
    report = fusiondoc.diagnose(
        str(PROGRAMS / "squeeze_excite.py"), fuser="nnc", runs=3
    )
    change = next(one for one in report.plan if one.kind is ChangeKind.NOT_INPLACE)
    assert [edit.after.strip() for edit in change.edits] == [
        "self.act = nn.ReLU(inplace=False)",
        "y = F.relu(y + 0.1, inplace=False)",
    ]


@pytest.mark.torch
def test_every_change_of_slices_has_its_lines() -> None:
    """``boxes[..., :2] += y`` is written with torch.cat, on both lines."""
    pytest.importorskip("torch")
    report = fusiondoc.diagnose(
        str(PROGRAMS / "box_decode.py"), fuser="nnc", runs=3
    )
    assert [one.op for one in report.unfused if one.op == "aten::add_"]
    assert [one.kind for one in report.plan] == [
        ChangeKind.RECIPE,
        ChangeKind.OUT_OF_PLACE,
    ]
    assert [len(one.edits) for one in report.plan] == [1, 2]
    assert all("torch.cat" in edit.after for edit in report.plan[1].edits)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "operators"),
    [
        (
            "box_decode",
            [1],
        ),  # the aten::cat behind it gets its list from outside its differentiable graph
        pytest.param(
            "mixed_precision", [2], marks=pytest.mark.nightly
        ),  # with the subtraction alone: aten::to has no formula with these arguments
        (
            "cross_attention",
            [3],
        ),  # the division that ends the first differentiable graph among them
        (
            "glu_block",
            [1],
        ),  # the chunk of the input keeps the product before it out
    ],
)
def test_in_training_only_what_a_differentiable_graph_can_hold_is_promised(
    name: str, operators: list[int]
) -> None:
    pytest.importorskip("torch")
    report = fusiondoc.diagnose(
        str(PROGRAMS / f"{name}.py"), fuser="nnc", runs=3, backward=True
    )
    assert [
        one.operators for one in report.plan if one.kind is ChangeKind.RECIPE
    ] == operators


@pytest.mark.torch
def test_an_addition_in_place_before_a_convolution_joins_what_ends_a_differentiable_graph(
    tmp_path: Path,
) -> None:
    """Torch's graph of batch_norm and relu ends at the addition; out of place, both
    are one group."""
    torch = pytest.importorskip("torch")
    body = (
        "    x = torch.sigmoid(m)\n    h = F.batch_norm(F.conv2d(x, w), None, None, training=True).relu()\n"
        "    h += x\n    return F.conv2d(h, w)\n"
    )
    head = (
        "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor\n\n\n"
        "def model(m: Tensor, w: Tensor) -> Tensor:\n"
    )
    inputs = "inputs = (torch.randn(2, 4, 8, 8), torch.randn(4, 4, 1, 1, requires_grad=True))\n"
    path = tmp_path / "net.py"
    path.write_text(f"{head}{body}\n\n{inputs}")
    before = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    (change,) = before.plan
    assert [edit.after for edit in change.edits] == ["    h = h + x"]
    assert (change.operators, change.groups) == (2, 1)
    changed = tmp_path / "changed.py"
    changed.write_text(path.read_text().replace("h += x", "h = h + x"))
    after = fusiondoc.diagnose(str(changed), fuser="nnc", runs=3)
    assert ("aten::relu", "aten::add") in {group.ops for group in after.groups}
    one, other = runpy.run_path(str(path)), runpy.run_path(str(changed))
    given = one["inputs"]
    torch.testing.assert_close(one["model"](*given), other["model"](*given))
