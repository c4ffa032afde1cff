"""Names of operators in torch.fx graphs: of targets, converted to the names that
other fusers print, and among the words that are arguments."""

from __future__ import annotations

import re

from fusiondoc.operators import BY_NAME, VIEWS

_TARGET = re.compile(r"(?:torch\.ops\.)?(\w+)\.(\w+)(?:\.\w+)?")
GETITEM = "getitem"
"""Takes one result of an operator that has several."""

ARGUMENT_WORDS = frozenset(row.short for row in BY_NAME.values()) | {
    "",
    "none",
    "swish",
}
"""Words that graphs after the post-grad passes give to operators as arguments: most
name an operator, for a rounding, a reduction, a kind of random numbers, or what
``mkldnn`` computes behind a product."""


def operator_name(target: str) -> str:
    """Return the operator's name as other fusers print it: ``aten.add.Tensor`` ->
    ``aten::add``; ``getitem`` is unchanged."""
    if GETITEM in target:
        return GETITEM
    found = _TARGET.fullmatch(target)
    if found is None:
        return target
    return f"{found[1]}::{found[2]}"


def moves_nothing(op: str) -> bool:
    """True for a view, or for taking one result of an operator."""
    return op in VIEWS or op == GETITEM
