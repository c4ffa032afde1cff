"""The rewrites of the line of an operator, which the plan shows and ``fix``
writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.changes import (
    by_recipe,
    cast_operands,
    default_arguments,
    gated_linear_unit,
    literal_numbers,
    masked_assignment,
    masked_fill,
    module_prelu,
    moved_views,
    optional_types,
    out_of_place,
    reductions,
    slice_assignment,
    type_as,
)
from fusiondoc.changes.change import Change
from fusiondoc.changes.rewrite import Line, Rewrite, Rewritten
from fusiondoc.model.change_plan import ChangeKind

UNITS: Sequence[Rewrite] = (
    out_of_place.REWRITE,
    masked_assignment.REWRITE,
    slice_assignment.REWRITE,
    cast_operands.REWRITE,
    type_as.REWRITE,
    literal_numbers.REWRITE,
    optional_types.REWRITE,
    default_arguments.REWRITE,
    gated_linear_unit.REWRITE,
    by_recipe.REWRITE,
    module_prelu.REWRITE,
    masked_fill.REWRITE,
    *reductions.REWRITES,
    *moved_views.REWRITES,
)
"""Rewrites of an operator's own line; ``read_numbers``, ``declared_constants`` and
``printed_later`` look at more of a file."""


_FOR_OTHERS = (ChangeKind.CONSTANT, ChangeKind.MOVE, ChangeKind.MOVE_VIEW)
"""Changes made for the sake of operators around the rewritten one."""


def changes_at(
    line: Line, units: Sequence[Rewrite] = UNITS, likely: Line | None = None
) -> Iterator[Change]:
    """Yield the changes that the rewrites make of a line with an operator outside
    groups, in the order of the rewrites.

    Args:
        likely: the same line, with facts that the run shows with less certainty. A
            change that needs these is not sure: only a run of the changed program
            can confirm it.
    """
    for unit in units:
        known = _of_unit(unit, line)
        yield from known
        if likely is not None:
            edits = [one.edits for one in known]
            for one in _of_unit(unit, likely):
                if one.edits not in edits:
                    yield replace(one, sure=False)


def _of_unit(unit: Rewrite, line: Line) -> list[Change]:
    if not unit.fits(line):
        return []
    return [_change(unit.kind, line, found) for found in unit.write(line)]


def _change(kind: ChangeKind, line: Line, found: Rewritten) -> Change:
    """A rewrite as a change of the line's file."""
    if kind not in _FOR_OTHERS:
        ops = frozenset([line.shown.op])
    else:
        ops = frozenset[str]()
    path = line.file.source.path
    return Change(
        kind,
        found.title,
        found.edits,
        where=tuple(f"{path}:{number}" for number in found.lines or (line.number,)),
        ops=ops,
        note=found.note,
        before=found.before,
        after=found.after,
        sure=found.sure,
        conditional=found.conditional,
        joins=found.joins,
    )
