"""Why an operator is in no group: its finding code, the reason as data, and the
sentence made of it."""

from __future__ import annotations

from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons import Detail
from fusiondoc.model.reasons.words import sentence


@dataclass(frozen=True)
class Reason:
    """Why an operator is in no group. ``stated``: True if the log states it; else
    fusiondoc inferred it."""

    code: str
    text: str = field(compare=False)
    """The detail as a sentence, for readers alone: no code decides by it."""
    stated: bool
    detail: Detail | None = None
    """The reason as data; None in a report that an older version saved."""

    @classmethod
    def of(cls, code: str, detail: Detail, stated: bool = False) -> Reason:
        """Return the reason with this detail and its sentence."""
        return cls(code, sentence(detail), stated, detail)
