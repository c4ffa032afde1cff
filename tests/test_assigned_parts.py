"""Assignments to parts of a tensor, written out of place: torch finds equal values
and gradients."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import fusiondoc
from fusiondoc.changes.edits import SourceText
from fusiondoc.changes.masked_assignment import REWRITE as BY_MASK
from fusiondoc.changes.rewrite import Line, Rewrite
from fusiondoc.changes.slice_assignment import REWRITE as OF_SLICE
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.report import Report

UNITS: list[Rewrite] = [BY_MASK, OF_SLICE]
EXAMPLES = [
    pytest.param(
        example.before, example.after, example.shown.gradients, id=example.before
    )
    for unit in UNITS
    for example in unit.examples
    if example.after is not None
]


def results(body: str, gradients: bool) -> list[Any]:
    """Every name that the body assigns, and the gradients of the arguments."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    given = {name: torch.randn(4, 6, requires_grad=gradients) for name in "xyz"}
    names = {name: value * 1 for name, value in given.items()}
    exec(body, {"torch": torch}, names)
    values = [
        value for _, value in sorted(names.items()) if value.is_floating_point()
    ]
    if not gradients:
        return values
    total = sum((value * value).sum() for value in values)
    return [*values, *torch.autograd.grad(total, list(given.values()))]


@pytest.mark.torch
@pytest.mark.parametrize(("before", "after", "gradients"), EXAMPLES)
def test_values_and_gradients_stay(
    before: str, after: str, gradients: bool
) -> None:
    torch = pytest.importorskip("torch")
    assert before != after
    for one, other in zip(
        results(before, gradients), results(after, gradients), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("low: float", True),
        ("low: Tensor", False),
        ("low", False),
        ("y, low: int", True),
    ],
)
def test_a_number_may_be_an_argument(given: str, written: bool) -> None:
    text = f"def f(x: Tensor, {given}):\n    x = x * 2\n    x[x.lt(0)] = low\n"
    line = Line(ParsedFile(SourceText(Path("m.py"), text, "utf-8", False)), 3)
    assert any(True for _ in BY_MASK.write(line)) is written


def test_the_mask_of_rows_is_not_sure() -> None:
    """``x[m] = 0`` with a mask of rows would be broadcast the other way by
    ``torch.where``."""
    text = "import torch\ndef f(x, m):\n    x = x * 2\n    rows = m > 0\n    x[rows] = 0.0\n"
    line = Line(ParsedFile(SourceText(Path("m.py"), text, "utf-8", False)), 5)
    (found,) = BY_MASK.write(line)
    assert not found.sure


@pytest.mark.parametrize(
    "lines",
    [
        "    m = x > 0\n    x = x[0]\n    x[m] = 0.0",  # other sizes than when the mask was made
        "    m = x > 0\n    x = x.view(-1, 4)\n    x[m] = 0.0",
    ],
)
def test_a_name_that_is_assigned_again_may_have_other_sizes(lines: str) -> None:
    text = f"import torch\ndef f(x):\n{lines}\n"
    line = Line(ParsedFile(SourceText(Path("m.py"), text, "utf-8", False)), 5)
    assert not any(found.sure for found in BY_MASK.write(line))


# -- real runs -----------------------------------------------------------------------------------------------

PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "promise_programs_2"


def changed(program: Path, report: Report, kind: str, into: Path) -> Path:
    """A copy of the program with the edits of the first change whose title begins
    so."""
    change = next(one for one in report.plan if one.change.startswith(kind))
    lines = program.read_text().split("\n")
    for edit in change.edits:
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after
    copy = into / program.name
    copy.write_text("\n".join(lines))
    return copy


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "gradients"),
    [
        ("giou_loss", False),
        pytest.param("giou_loss", True, marks=pytest.mark.nightly),
        pytest.param("charbonnier_huber", False, marks=pytest.mark.nightly),
        ("charbonnier_huber", True),
    ],
)
def test_elements_assigned_by_a_mask_are_chosen_with_where(
    name: str, gradients: bool, tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    program = PROGRAMS / f"{name}.py"
    before = fusiondoc.diagnose(
        str(program), fuser="nnc", runs=3, backward=gradients
    )
    change = next(
        one
        for one in before.plan
        if one.change.startswith("Select with torch.where")
    )
    copy = changed(program, before, "Select with torch.where", tmp_path)
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3, backward=gradients)
    forward = [row for row in after.unfused if row.phase != "backward"]
    assert not {"aten::index", "aten::index_put_"} & {row.op for row in forward}
    assert change.operators >= 2
    one, other = (runpy.run_path(str(path)) for path in (program, copy))
    torch.testing.assert_close(
        one["model"](*one["inputs"]), other["model"](*one["inputs"])
    )


@pytest.mark.torch
def test_elements_of_an_argument_are_not_offered(tmp_path: Path) -> None:
    """The caller would find them as they were."""
    body = (
        "def model(x, y):\n    x[x < 0] = 0.0\n    return torch.tanh(x * 2.0) + y\n"
    )
    path = tmp_path / "net.py"
    path.write_text(
        f"import torch\n\n\n{body}\n\ninputs = (torch.randn(4, 8), torch.randn(4, 8))\n"
    )
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    assert "aten::index_put_" in {row.op for row in report.unfused}
    assert not any("aten::index_put_" in one.ops for one in report.plan)


@pytest.mark.torch
def test_slices_assigned_in_place_are_joined(tmp_path: Path) -> None:
    """Both lines of a detection head, one of them together with its
    ``square()``."""
    torch = pytest.importorskip("torch")
    program = PROGRAMS.with_name("promise_programs") / "yolo_head.py"
    before = fusiondoc.diagnose(str(program), fuser="nnc", runs=3)
    copy = changed(program, before, "Join the parts with torch.cat", tmp_path)
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3)
    assert "aten::copy_" in {row.op for row in before.unfused}
    assert not {"aten::copy_", "aten::square"} & {row.op for row in after.unfused}
    # Each file seeds its own weights: the same are given to both.
    one, other = (runpy.run_path(str(path)) for path in (program, copy))
    other["model"].load_state_dict(one["model"].state_dict())
    torch.testing.assert_close(
        one["model"](*one["inputs"]), other["model"](*one["inputs"])
    )


MASKED = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    h = x * 2.0
    a = torch.sigmoid(h) + y
    m = x > 0
    h[m] = 0.0
    b = torch.relu(h) * a
    c = a * 2.0 + b
    h[h > 0.5] = 1.0
    return c + h


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""


@pytest.mark.torch
def test_the_advice_on_an_assignment_by_a_mask_is_the_change_of_its_line(
    tmp_path: Path,
) -> None:
    """Also on what it keeps from a group: nothing says "reorder", or that nothing is
    known."""
    pytest.importorskip("torch")
    path = tmp_path / "masked.py"
    path.write_text(MASKED)
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    first = "h = torch.where(m, 0.0, h) instead of h[m] = 0.0"
    last = "h = torch.where(h > 0.5, 1.0, h) instead of h[h > 0.5] = 1.0"
    found = [
        (one.advice or "", list(one.ops))
        for one in report.findings
        if "aten::index_put_" in one.message
    ]
    own = {advice for advice, ops in found if ops == ["aten::index_put_"]}
    kept_out = {advice for advice, ops in found if ops != ["aten::index_put_"]}
    assert own == {f"Write {first}.", f"Write {last}."}
    assert kept_out == {f"Change aten::index_put_: write {first}."}
    (change,) = report.plan
    assert [edit.after.strip() for edit in change.edits] == [
        one.partition(" instead of ")[0] for one in (first, last)
    ]
