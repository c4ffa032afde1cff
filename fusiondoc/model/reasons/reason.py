"""Why an operator is in no group: its finding code, the reason as data, and the
sentence made of it."""

from __future__ import annotations

from fusiondoc.model import dataclass, field
from fusiondoc.model.reasons import Detail
from fusiondoc.model.reasons.words import sentence


@dataclass(frozen=True)
class Reason:
    """Why an operator is in no group. ``stated``: the log says it; otherwise
    fusiondoc worked it out."""

    code: str
    text: str = field(compare=False)
    """The detail as a sentence: for people, and for no decision."""
    stated: bool
    detail: Detail | None = None
    """The reason as data; None in a report that an older version saved."""

    @classmethod
    def of(cls, code: str, detail: Detail, stated: bool = False) -> Reason:
        """The reason that a detail is, with its sentence."""
        return cls(code, sentence(detail), stated, detail)
