"""Rewrites: the pattern that each matches at a line of a program, the text that it
writes there, and examples of both.

A module of this package holds one rewrite as ``REWRITE``, or several that are alike
as ``REWRITES``. Its examples are its tests: ``tests/test_rewrites.py`` runs all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers import EVERYWHERE, taken_by
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import Detail
from fusiondoc.operators import plain_name

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Assigned:
    """Sizes in a run at an assignment to a part of a tensor; tensor and value have
    the same scalar type."""

    whole: Sizes
    """Sizes of the tensor; ``value``: sizes of the value assigned to its part."""
    value: Sizes


@dataclass(frozen=True)
class Shown:
    """Facts from a run about an operator outside groups."""

    op: str = ""
    """The operator as printed, such as ``aten::add_``."""
    code: str = ""
    """Code of the reason why it is in no group; ``detail``: the reason as data."""
    detail: Detail | None = None
    types: Sequence[str] = ()
    """Types of its tensor inputs; empty if no plan has it."""
    assigned: Assigned | None = None
    """For an assignment to a part, if the plans show the sizes, and all show the
    same."""
    rank: int | None = None
    """Number of dimensions of its first tensor, if known."""
    layer: str | None = None
    """The attribute of the innermost module that calls it."""
    recipes: Sequence[Recipe] = ()
    """Recipes that may be applied there, best first."""
    fuser: str = EVERYWHERE
    """The run's fuser; ``torch``: its version, if known."""
    torch: str | None = None
    gradients: bool = False
    """Whether gradients are recorded."""
    lines_that_ran: Collection[int] | None = None
    """Lines of the file with operators that ran, if known."""

    @property
    def plain_op(self) -> str:
        """``aten::add`` for ``aten::add_``."""
        return f"aten::{plain_name(self.op)}"

    @property
    def is_taken(self) -> bool:
        """Whether the fuser has a rule for the out-of-place operator."""
        return taken_by(self.plain_op, self.fuser, self.torch)


@dataclass(frozen=True)
class Line:
    """A line of a program with an operator outside groups."""

    file: ParsedFile
    number: int
    """Its number, from 1."""
    column: int | None = None
    """Column of the operator on its line, from 0, if the log has it."""
    shown: Shown = Shown()


@dataclass(frozen=True)
class Rewritten:
    """A part of a program, rewritten."""

    title: str
    """Instruction in the program's own code, on one line."""
    edits: tuple[TextEdit, ...]
    before: str = ""
    """The replaced expression as it is in the program; ``after``: its replacement,
    with the definition of a name that it reads."""
    after: str = ""
    note: str | None = None
    """A condition that has to hold, or other things to know."""
    lines: tuple[int, ...] = ()
    """Changed lines, if other than the operator's."""
    sure: bool = True
    """True if the text alone shows that the change is harmless and helps; otherwise
    only a comparison of two runs can show it."""
    joins: bool = False
    """It creates the whole tensor anew where the operator changes a part: later
    reads of the tensor use the new one."""
    conditional: bool = False
    """It depends on a condition that even a run of the changed program would not
    show."""

    @classmethod
    def expression(
        cls, before: str, after: str, edits: Iterable[TextEdit]
    ) -> Rewritten:
        """Replace an expression by another one."""
        return cls(on_one_line(f"{before} -> {after}"), tuple(edits), before, after)


def on_one_line(text: str) -> str:
    """A text with all white space replaced by single spaces."""
    return " ".join(text.split())


@dataclass(frozen=True)
class Example:
    """Lines of a function ``f(self, x, y, z)``, before and after the rewrite."""

    before: str
    after: str | None
    """None if nothing is rewritten."""
    shown: Shown = Shown()
    line: int = 1
    """Line of the operator, from 1."""
    whole: bool = False
    """Whether they are the whole file, and not lines of a function."""
    sure: bool = True
    """As in ``Rewritten``."""


def _always(line: Line) -> bool:
    return True


@dataclass(frozen=True)
class Rewrite:
    """A way to rewrite a line."""

    kind: ChangeKind
    write: Callable[[Line], Iterable[Rewritten]]
    """Yields its rewrites of a line, best first; none if it does not match or would
    change a value visible elsewhere."""
    examples: Sequence[Example]
    fits: Callable[[Line], bool] = _always
    """True if it may help with the operator of a line, by its kind and the
    reason."""
