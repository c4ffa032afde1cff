"""A reason that the log states."""

from __future__ import annotations

from typing import Literal

from fusiondoc.model import dataclass, field


@dataclass(frozen=True)
class Stated:
    """A condition of a fuser that does not hold, as the log states it."""

    kind: Literal["stated"] = field(default="stated", init=False)
    condition: str
    """Its name in ``stated_words.STATED``; ``other`` for an unknown condition."""
    op: str | None = None
    """For ``order_of_group``: the operator that would have to be moved."""
    text: str | None = None
    """For ``other``: the condition as it is printed."""
