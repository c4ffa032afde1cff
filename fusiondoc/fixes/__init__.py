"""Changes to the text of a user's program that may let more of it fuse: what ``fusiondoc fix`` tries.

A change is a set of edits of exact places, so that everything else of a file stays as it is, byte for byte.
Here: what an edit is, what several make of a file together, and the diff that shows that. Offsets count
characters of the decoded text, in which line ends are as they are in the file.
"""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from pathlib import Path
from typing import Iterable, Mapping

from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass, field
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.whole_files import read_within

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Edit:
    """``start`` to ``end`` of a file's text become ``text``; an insertion has them equal.

    Insertions at one place come in the order of ``rank``.
    """

    path: Path
    start: int
    end: int
    text: str
    rank: int = 0


@dataclass(frozen=True)
class Proposal:
    """A change to try."""

    kind: ChangeKind
    title: str
    """In the words of the program: ``F.hardswish(x) -> x * (torch.clamp(x + 3, 0, 6) / 6)``."""
    edits: tuple[Edit, ...]
    lines: tuple[str, ...] = ()
    """``file:line`` of what changes."""
    note: str | None = None
    """What is to be known about it."""
    from_outside: bool = False
    """It is made where the model is made, not at the line of the operator."""
    eval_mode: bool = False
    """It puts the model into eval mode, so it is compared with the program in eval mode."""
    knobs: Mapping[str, str] = field(default_factory=dict)
    """Knobs that the run gets with the edits: ``diagnose`` sets switches back that a file throws."""
    fuser: str | None = None
    """The fuser of the run: a setting, so there are no edits."""
    freeze: bool = False
    """The run freezes the module (and puts it into eval mode) itself, where it has been moved to its device;
    the edits say the same in the program's words."""
    ops: frozenset[str] = frozenset()
    """The unfused operators that it is about: once they are gone, it has nothing to do."""
    fewer: bool = False
    """It helps only if fewer kernels and operators run: it replaces one operator by several."""


@dataclass(frozen=True)
class SourceText:
    """A source file: its text, and how that is written to disk."""

    path: Path
    text: str
    encoding: str
    mark: bool
    """It begins with a byte order mark."""

    def bytes_of(self, text: str) -> bytes:
        """Another text, written as this file is."""
        return (_MARK if self.mark else b"") + text.encode(self.encoding)


def read_text(path: Path) -> SourceText:
    """A Python source file in its own encoding.

    Raises:
        UsageError: it cannot be read as what it says it is.
    """
    try:
        data = read_within(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        mark = data.startswith(_MARK)
        plain = "utf-8" if encoding == "utf-8-sig" else encoding
        return SourceText(path, data[len(_MARK) * mark :].decode(plain), plain, mark)
    except (OSError, SyntaxError, ValueError, LookupError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "Check the file and its encoding.") from None


def overlapping(edits: Iterable[Edit]) -> bool:
    """Whether two of them change the same characters in different ways."""
    end = (Path(), -1)
    for edit in _in_order(edits):
        if edit.path == end[0] and edit.start < end[1]:
            return True
        end = (edit.path, max(edit.end, end[1] if edit.path == end[0] else -1))
    return False


def changed_text(text: str, edits: Iterable[Edit]) -> str:
    """The text of one file after its edits, which do not overlap; equal edits count once."""
    made, place = [], 0
    for edit in _in_order(edits):
        made += [text[place : edit.start], edit.text]
        place = edit.end
    return "".join([*made, text[place:]])


def _in_order(edits: Iterable[Edit]) -> list[Edit]:
    return sorted(dict.fromkeys(edits), key=lambda one: (str(one.path), one.start, one.end, one.rank))


def unified_diff(before: str, after: str, name: str) -> str:
    """As ``git diff`` writes it: lines keep their ends, and a last line without one is marked."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    marked = (one if one.endswith("\n") else one + "\n\\ No newline at end of file\n" for one in lines)
    return "".join(marked)


def _lines(text: str) -> list[str]:
    """Split at line feeds alone: a carriage return before one is part of the line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def in_common(before: str, after: str) -> tuple[int, int]:
    """How many characters two lines have in common at their start, and at their end behind that."""
    most = min(len(before), len(after))
    first = next((i for i in range(most) if before[i] != after[i]), most)
    last = next((i for i in range(most - first) if before[-1 - i] != after[-1 - i]), most - first)
    return first, last
