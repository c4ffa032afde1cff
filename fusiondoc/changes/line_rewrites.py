"""The rewrites of the line of an operator, which the plan shows and ``fix`` writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    read_numbers,
    reductions,
    slice_assignment,
    type_as,
)
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
"""Those of an operator's own line; ``read_numbers``, ``declared_constants`` and ``printed_later`` look
at more of a file."""


def sure_rewrites(kind: ChangeKind, line: Line) -> Iterator[Rewritten]:
    """The rewrites of a kind at a line of which the text alone shows that they do no harm."""
    for unit in (*UNITS, read_numbers.REWRITE):
        if unit.kind is kind and unit.fits(line):
            yield from (made for made in unit.write(line) if made.sure)
