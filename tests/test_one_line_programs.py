"""The plan and ``fix`` change a line in the same way, and torch computes the same of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fix_sites import MadeProgram, parsed, site
from one_line_programs import BY_RECIPE, HEAD, IN_PLACE, OneLine
from plan_lines import by_recipe, out_of_place

from fusiondoc.changes.changed_arguments import changes_argument
from fusiondoc.changes.edits import changed_text
from fusiondoc.changes.recipes import recipe_for
from fusiondoc.diagnosis.changes_to_try import at_lines
from fusiondoc.model.change_plan import Edit

torch = pytest.importorskip("torch")

PROGRAMS = [*IN_PLACE, *BY_RECIPE]
FUSERS = (
    ("nvfuser", "1.12.1"),
    ("nnc", "2.13.0"),
    ("onednn", "2.13.0"),
    ("legacy", "1.9.0"),
)


def in_words(row: OneLine) -> str:
    return row.body.replace("\n", "; ")


def fuser_of(row: OneLine) -> tuple[str, str]:
    """The first fuser that does not take the operator, and takes all of the recipe."""
    for fuser, version in FUSERS:
        if (
            recipe_for(f"aten::{row.op}", fuser, version, gradients=False)
            is not None
        ):
            return fuser, version
    raise AssertionError(row.op)


def by_plan(row: OneLine) -> str | None:
    """The file with the plan's lines."""
    text, line = row.text(), HEAD.count("\n") + row.line
    if row in IN_PLACE:
        fuser, version = FUSERS[0]
        return applied(
            text,
            out_of_place(text, line, f"aten::{row.op}", fuser=fuser, torch=version),
        )
    fuser, version = fuser_of(row)
    recipe = recipe_for(f"aten::{row.op}", fuser, version, gradients=False)
    assert recipe is not None
    return applied(text, by_recipe(text, line, recipe))


def applied(text: str, edits: tuple[Edit, ...]) -> str | None:
    lines: list[str | None] = list(text.split("\n"))
    for edit in edits:
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after or None
    return "\n".join(line for line in lines if line is not None) if edits else None


def by_fix(row: OneLine) -> str | None:
    """The file with the edits of ``fix``."""
    text, line = row.text(), HEAD.count("\n") + row.line
    at = site(text, f"aten::{row.op}", line)
    fuser, version = fuser_of(row) if row in BY_RECIPE else FUSERS[0]
    program = MadeProgram(sites=[at])
    program.fuser, program.torch = fuser, version
    found = list(at_lines.propose(program))
    return changed_text(text, found[0].edits) if found else None


@pytest.mark.parametrize("row", PROGRAMS, ids=in_words)
def test_the_plan_and_fix_write_the_same_line(row: OneLine) -> None:
    assert by_plan(row) == row.changed
    assert by_fix(row) == row.changed


class Outcome(NamedTuple):
    """All that can be seen of a call."""

    value: Any
    gradients: tuple[Any, ...]
    state: Any
    """The tensor that ``self.s`` was before the call."""

    def is_that_of(self, other: Outcome) -> bool:
        pairs = zip(
            (self.value, *self.gradients, self.state),
            (other.value, *other.gradients, other.state),
        )
        return all(
            torch.allclose(one, another, rtol=1e-9, atol=1e-9)
            for one, another in pairs
        )


def outcome(row: OneLine, text: str, condition: bool) -> Outcome:
    """What torch computes of a file's function; its tensors are nobody else's."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "m.py", "exec"), namespace)
    torch.manual_seed(0)
    leaves = [
        torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)
    ]
    x, y, z = (leaf * 1.0 for leaf in leaves)
    state = torch.ones(4, 4, dtype=torch.float64)
    value = namespace["f"](SimpleNamespace(s=state), x, y, z, condition)
    unused = sum(leaf.sum() for leaf in leaves) * 0.0
    computed = value.square().sum() if row.has_gradient else 0.0
    gradients = torch.autograd.grad(computed + unused, leaves)
    return Outcome(value.detach(), gradients, state.detach())


@pytest.mark.parametrize(
    "row", [row for row in PROGRAMS if row.changed is not None], ids=in_words
)
def test_torch_computes_the_same_of_the_changed_line(row: OneLine) -> None:
    assert row.changed is not None
    for condition in (True, False):
        assert outcome(row, row.changed, condition).is_that_of(
            outcome(row, row.text(), condition)
        )


@pytest.mark.parametrize(
    "row", [row for row in PROGRAMS if row.otherwise is not None], ids=in_words
)
def test_a_line_that_stays_would_compute_something_else(row: OneLine) -> None:
    assert row.changed is None
    assert not outcome(row, row.text(row.otherwise), True).is_that_of(
        outcome(row, row.text(), True)
    )


@pytest.mark.parametrize(
    "row", [row for row in IN_PLACE if row.changed is not None], ids=in_words
)
def test_the_plan_knows_that_the_caller_sees_the_change(row: OneLine) -> None:
    line = HEAD.count("\n") + row.line
    assert changes_argument(parsed(row.text()), line)
