"""Rewrites: the pattern that each matches at a line of a program, the text that it
writes there, and examples of both.

A module of this package holds one rewrite as ``REWRITE``, or several that are alike
as ``REWRITES``. Its examples are its tests: ``tests/test_rewrites.py`` runs all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from fusiondoc.changes.edits import Edit
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
    """As printed, such as ``aten::add_``."""
    code: str = ""
    """Code of the reason why it is in no group; ``detail``: the reason as data."""
    detail: Detail | None = None
    types: Sequence[str] = ()
    """Of the tensors that it takes; none where no plan has it."""
    assigned: Assigned | None = None
    """Of an assignment to a part, where the plans show the sizes, and in all of
    them the same."""
    rank: int | None = None
    """Dimensions of its first tensor, where they are known."""
    layer: str | None = None
    """The attribute of the innermost module that calls it."""
    recipes: Sequence[Recipe] = ()
    """Those that may be written there, best first."""
    fuser: str = EVERYWHERE
    """Of the run; ``torch``: its version, where it is known."""
    torch: str | None = None
    gradients: bool = False
    """They are recorded."""
    lines_that_ran: Collection[int] | None = None
    """Lines of the file with operators that ran, where they are known."""

    @property
    def plain_op(self) -> str:
        """``aten::add`` of ``aten::add_``."""
        return f"aten::{plain_name(self.op)}"

    @property
    def is_taken(self) -> bool:
        """Whether the fuser has a rule for the operator that makes a new tensor."""
        return taken_by(self.plain_op, self.fuser, self.torch)


@dataclass(frozen=True)
class Line:
    """A line of a program that makes an operator outside groups."""

    file: ParsedFile
    number: int
    """From 1."""
    column: int | None = None
    """Of the operator on its line, from 0, where the log has it."""
    shown: Shown = Shown()


@dataclass(frozen=True)
class Rewritten:
    """A part of a program that a rewrite replaces."""

    title: str
    """In the words of the program, on one line."""
    edits: tuple[Edit, ...]
    before: str = ""
    """The replaced expression as it is in the program; ``after``: its replacement,
    with the definition of a name that it reads."""
    after: str = ""
    note: str | None = None
    """A condition that has to hold, or other things to know."""
    lines: tuple[int, ...] = ()
    """Lines that change, where these are others than that of the operator."""
    sure: bool = True
    """True if the text alone shows that the change is harmless and helps; otherwise
    only a comparison of two runs can show it."""
    joins: bool = False
    """It creates the whole tensor anew where the operator changes a part: later
    reads of the tensor use the new one."""
    conditional: bool = False
    """Something has to hold that a run of the changed program would not show
    either."""

    @classmethod
    def expression(
        cls, before: str, after: str, edits: Iterable[Edit]
    ) -> Rewritten:
        """An expression that becomes another one."""
        return cls(on_one_line(f"{before} -> {after}"), tuple(edits), before, after)


def on_one_line(text: str) -> str:
    """A text with single spaces between its words."""
    return " ".join(text.split())


@dataclass(frozen=True)
class Example:
    """Lines of a function ``f(self, x, y, z)``, and the same rewritten."""

    before: str
    after: str | None
    """None where nothing is rewritten."""
    shown: Shown = Shown()
    line: int = 1
    """That of the operator, from 1."""
    whole: bool = False
    """They are the whole file, and no lines of a function."""
    sure: bool = True
    """As of ``Rewritten``."""


def _always(line: Line) -> bool:
    return True


@dataclass(frozen=True)
class Rewrite:
    """One way to write a line otherwise."""

    kind: ChangeKind
    write: Callable[[Line], Iterable[Rewritten]]
    """Yields its rewrites of a line, best first; none if it does not match or would
    change a value visible elsewhere."""
    examples: Sequence[Example]
    fits: Callable[[Line], bool] = _always
    """Whether it may help with the operator of a line, by its kind and the
    reason."""
