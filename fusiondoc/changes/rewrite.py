"""What a rewrite is: what it matches at a line of a program, what it writes there, and examples of both.

A module of this package holds one rewrite as ``REWRITE``, or several that are alike as ``REWRITES``. Its
examples are its tests: ``tests/test_rewrites.py`` runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fusiondoc.changes.edits import Edit
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model import dataclass
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import Detail


@dataclass(frozen=True)
class Line:
    """A line of a program that makes an operator outside groups, with what the run shows of the operator."""

    file: ParsedFile
    number: int
    """From 1."""
    op: str = ""
    """As printed, such as ``aten::add_``."""
    column: int | None = None
    """Of the operator on its line, from 0, where the log has it."""
    types: Sequence[str] = ()
    """Of the tensors that the operator takes; none where no plan has it."""
    rank: int | None = None
    """Dimensions of its first tensor, where they are known."""
    detail: Detail | None = None
    """Why it is in no group."""
    as_tensor: bool = False
    """A number has to be a tensor for the fuser or for a gradient formula."""
    gradients: bool = False
    """They are recorded."""
    given: bool = True
    """The branch for an argument that is not None ran, if the line tests one."""


@dataclass(frozen=True)
class Rewritten:
    """A part of a program that a rewrite replaces."""

    title: str
    """In the words of the program, on one line."""
    edits: tuple[Edit, ...]
    before: str = ""
    """The expression as it stands, where one is replaced; ``after``: what comes in its place, with the
    definition of a name that it reads."""
    after: str = ""
    note: str | None = None
    """What has to hold, or what else is to be known."""
    lines: tuple[int, ...] = ()
    """Lines that change, where these are others than that of the operator."""

    @classmethod
    def expression(cls, before: str, after: str, edits: Iterable[Edit]) -> Rewritten:
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
    op: str = ""
    """Name of the operator, as in ``aten::add_``."""
    line: int = 1
    """That of the operator, from 1."""
    whole: bool = False
    """They are the whole file, and no lines of a function."""
    types: Sequence[str] = ()
    rank: int | None = None
    detail: Detail | None = None
    as_tensor: bool = False
    gradients: bool = False
    given: bool = True


@dataclass(frozen=True)
class Rewrite:
    """One way to write a line otherwise."""

    kind: ChangeKind
    write: Callable[[Line], Iterable[Rewritten]]
    """What it makes of a line, best first; nothing where it does not fit or would change what others see."""
    examples: Sequence[Example]
