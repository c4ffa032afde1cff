"""A source file's text as it is on disk, and edits of exact characters of it.

Characters that no edit names stay as they are, byte for byte. Offsets count
characters of the decoded text, in which line ends are as they are in the file.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.model import dataclass
from fusiondoc.whole_files import read_within

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextEdit:
    """Replaces the text from ``start`` to ``end`` of a file by ``text``; an
    insertion has them equal.

    Insertions at the same offset come in the order of ``rank``.
    """

    path: Path
    start: int
    end: int
    text: str
    rank: int = 0

    def counted_from(self, start: int) -> TextEdit:
        """Return the edit of the part of the file that begins at ``start``."""
        return replace(self, start=self.start - start, end=self.end - start)


@dataclass(frozen=True)
class SourceText:
    """A source file: its text, and how it is encoded on disk."""

    path: Path
    text: str
    encoding: str
    mark: bool
    """Whether it begins with a byte order mark."""

    def bytes_of(self, text: str) -> bytes:
        """Encode another text in the way of this file."""
        return (_MARK if self.mark else b"") + text.encode(self.encoding)


def read_text(path: Path) -> SourceText:
    """A Python source file in its own encoding.

    Raises:
        UsageError: it cannot be read in the encoding that it names.
    """
    try:
        data = read_within(path)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        mark = data.startswith(_MARK)
        plain = "utf-8" if encoding == "utf-8-sig" else encoding
        return SourceText(
            path, data[len(_MARK) * mark :].decode(plain), plain, mark
        )
    except (OSError, SyntaxError, ValueError, LookupError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", "Check the file and its encoding."
        ) from None


def is_within(edit: TextEdit, start: int, end: int) -> bool:
    """True if an edit changes only characters from ``start`` to ``end``. An
    insertion at either end is outside."""
    inserts = edit.start == edit.end
    if inserts:
        return start < edit.start < end
    return start <= edit.start and edit.end <= end


def overlapping(edits: Iterable[TextEdit]) -> bool:
    """True if two edits change the same characters in different ways."""
    path, end = Path(), -1
    for edit in _in_order(edits):
        if edit.path != path:
            path, end = edit.path, -1
        if edit.start < end:
            return True
        end = max(edit.end, end)
    return False


def changed_text(text: str, edits: Iterable[TextEdit]) -> str:
    """The text of one file after its edits, which do not overlap; equal edits count
    once."""
    pieces: list[str] = []
    offset = 0
    for edit in _in_order(edits):
        pieces += [text[offset : edit.start], edit.text]
        offset = edit.end
    return "".join([*pieces, text[offset:]])


def _in_order(edits: Iterable[TextEdit]) -> list[TextEdit]:
    return sorted(
        dict.fromkeys(edits),
        key=lambda edit: (str(edit.path), edit.start, edit.end, edit.rank),
    )
