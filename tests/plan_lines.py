"""The lines that the plan shows for an operator, without a run."""

from __future__ import annotations

from typing import Any

from fusiondoc.changes.change import Change
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.rewrite import Line, Shown
from fusiondoc.changes.source_file import parsed_text
from fusiondoc.diagnosis.lines_of_changes import lines_written
from fusiondoc.fusers import with_dimensions_only
from fusiondoc.model.change_plan import ChangeKind, Edit


def rewritten(
    kind: ChangeKind, text: str, line: int, **shown: Any
) -> Change | None:
    """What the plan makes of a line of ``m.py``."""
    file = parsed_text(text, "m.py")
    return (
        lines_written(kind, Line(file, line, shown=Shown(**shown)), "m.py")
        if file is not None
        else None
    )


def plan_lines(
    kind: ChangeKind, text: str, line: int, **shown: Any
) -> tuple[Edit, ...]:
    found = rewritten(kind, text, line, **shown)
    return found.lines if found is not None else ()


def out_of_place(text: str, line: int, op: str, **shown: Any) -> tuple[Edit, ...]:
    return plan_lines(ChangeKind.OUT_OF_PLACE, text, line, op=op, **shown)


def by_recipe(
    text: str, line: int, recipe: Recipe, **shown: Any
) -> tuple[Edit, ...]:
    op = next(iter(recipe.replaces))
    kind = (
        ChangeKind.DIMENSIONS if op in with_dimensions_only() else ChangeKind.RECIPE
    )
    return plan_lines(kind, text, line, op=op, recipes=(recipe,), **shown)
