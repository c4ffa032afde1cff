"""A change of a program or of its run that makes more operators fuse.

The plan of a report ranks changes by their gain, ``--try`` runs those that are
settings, and ``fix`` runs the program with the edits of the others.
"""

from __future__ import annotations

from fusiondoc.changes.edits import TextEdit
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind, Edit
from fusiondoc.model.remedies import AS_REQUESTED, Setting


@dataclass(frozen=True)
class Change:
    """One change: edits of the user's files, or a setting of the run."""

    kind: ChangeKind
    title: str
    """Instruction; it uses the program's own code where that is available."""
    edits: tuple[TextEdit, ...] = ()
    """Edits of the user's files for a run of the changed program."""
    lines: tuple[Edit, ...] = ()
    """Whole lines that change, as a report shows them."""
    setting: Setting = AS_REQUESTED
    """The run's settings, instead of edits or beside them: ``diagnose`` undoes
    switches that a file sets."""
    where: tuple[str, ...] = ()
    """``file:line`` of each changed line."""
    rows: tuple[int, ...] = ()
    """Indexes in ``report.unfused`` of the operators that it could bring into
    groups."""
    ops: frozenset[str] = frozenset()
    """The names of these operators: once none of them is outside groups, the change
    is done."""
    codes: tuple[str, ...] = ()
    """The findings that suggest it."""
    note: str | None = None
    """A condition that has to hold, or other things to know."""
    before: str | None = None
    after: str | None = None
    """The operator's call now, and after the change, in general form."""
    python: str | None = None
    """Lines that do the same from outside the program, as in ``PlannedChange``; ""
    if the title has them."""
    at_model: bool = False
    """The edit is at the construction of the model, not at the line of an
    operator."""
    sure: bool = True
    """It certainly brings operators into groups; otherwise it is worth a try."""
    conditional: bool = False
    """It depends on a condition that the log does not show."""
    removes: bool = False
    """It removes the operators."""
    joins: bool = False
    """It creates a new tensor where its operators change a part of one."""
    parts: int = 1
    """Number of operators that it writes for each one."""
    folded: int = 0
    """Batch norms in its rows that are folded into the convolutions before them."""
