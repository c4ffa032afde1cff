"""A change of a program or of its run that makes more operators fuse.

The plan of a report ranks changes by their gain, ``--try`` runs those that are
settings, and ``fix`` runs the program with the edits of the others.
"""

from __future__ import annotations

from fusiondoc.changes.edits import Edit
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.change_plan import Edit as LineEdit
from fusiondoc.model.remedies import AS_REQUESTED, Setting


@dataclass(frozen=True)
class Change:
    """One thing to do: edits of the user's files, or a setting of the run."""

    kind: ChangeKind
    title: str
    """Instruction; it uses the program's own code where that is available."""
    edits: tuple[Edit, ...] = ()
    """Characters of the user's files that a run of the changed program needs."""
    lines: tuple[LineEdit, ...] = ()
    """Whole lines that change, as a report shows them."""
    setting: Setting = AS_REQUESTED
    """Of the run, instead of edits or beside them: ``diagnose`` sets switches back
    that a file throws."""
    where: tuple[str, ...] = ()
    """``file:line`` of each changed line."""
    rows: tuple[int, ...] = ()
    """Positions in ``report.unfused`` of the operators that it could bring into
    groups."""
    ops: frozenset[str] = frozenset()
    """The kinds of these operators: once none of them is outside groups, there is
    nothing to do."""
    codes: tuple[str, ...] = ()
    """The findings that suggest it."""
    note: str | None = None
    """A condition that has to hold, or other things to know."""
    before: str | None = None
    after: str | None = None
    """How the operator is called, and how it would be, in general."""
    python: str | None = None
    """Lines that do it from outside, as in ``PlannedChange``; "" where the title
    has them."""
    at_model: bool = False
    """It is made where the model is made, not at the line of an operator."""
    sure: bool = True
    """It is known to bring operators into groups; else it is worth a try."""
    conditional: bool = False
    """Something has to hold that the log does not show."""
    removes: bool = False
    """The operators go."""
    joins: bool = False
    """It makes the whole tensor anew where its operators change a part."""
    parts: int = 1
    """Operators that it writes for one."""
    folded: int = 0
    """Batch norms of its rows that become part of the convolutions before them."""
