"""A change of a program or a run that could bring operators into groups, before its gain is known."""

from __future__ import annotations

from fusiondoc.diagnosis.unlocked import WouldBeGroup
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.remedies import AS_REQUESTED, Setting


@dataclass(frozen=True)
class Candidate:
    """A change, with the rows of ``report.unfused`` that it is about."""

    kind: ChangeKind
    change: str
    rows: tuple[int, ...] = ()
    before: str | None = None
    after: str | None = None
    """How the operator is called, and how it would be; lines of the program are in ``edits``."""
    where: str | None = None
    note: str | None = None
    python: str | None = None
    """Lines that do it from outside, as in ``PlannedChange``."""
    setting: Setting = AS_REQUESTED
    """For a change of the run."""
    in_python: bool = False
    """``change`` has the lines of Python that keep the setting."""
    edits: tuple[Edit, ...] = ()
    removes: bool = False
    """The operators go."""
    folded: int = 0
    """Batch norms of these rows that become part of the convolutions before them."""
    sure: bool = True
    """It is known to bring operators into groups; else it is worth a try."""
    joins: tuple[WouldBeGroup, ...] = ()
    """For what is not about rows: the groups of the run that it joins."""
    conditional: bool = False
    """Something has to hold that the log does not show."""
