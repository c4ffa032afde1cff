"""Logs whose lines are JSON objects with a line of the program in one of their
fields: Docker's json-file driver (``{"log": "...\\n", "stream": "stderr", "time":
...}``), and the loggers of many services."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from fusiondoc.parsers.lines.held_line import HeldLine

_LEAST = 3
"""Number of lines that must agree on the field."""
_MOST_BEFORE = 300
"""Number of bytes before an object."""


def text_field(
    lines: Sequence[bytes], is_torch: Callable[[bytes], object]
) -> str | None:
    """Return the field that holds the lines of the program, or None if the log has
    another format.

    Args:
        lines: a sample.
        is_torch: tests whether a line was printed by torch.
    """
    fields: dict[str, int] = {}
    marked = 0
    for line in lines:
        if not is_torch(line):
            continue
        marked += 1
        for name, value in _object(line).items():
            if isinstance(value, str) and is_torch(
                value.encode("utf-8", "surrogatepass")
            ):
                fields[name] = fields.get(name, 0) + 1
    if marked < _LEAST and _is_of_docker(lines):
        return "log"
    if not fields:
        return None
    name = max(fields, key=lambda one: fields[one])
    if fields[name] >= _LEAST and fields[name] * 2 > marked:
        return name
    return None


def _is_of_docker(lines: Sequence[bytes]) -> bool:
    """True if all lines are objects in the format of Docker's json-file driver."""
    streams = [
        found.get("stream")
        for found in map(_object, lines)
        if isinstance(found.get("log"), str)
    ]
    return len(streams) == len(lines) >= _LEAST and set(streams) <= {
        "stdout",
        "stderr",
    }


class JsonObjects:
    """Extracts the lines of the program from objects, and joins the pieces of a
    line: Docker splits lines at 16 KiB, and only the last piece has the line end
    (daemon/logger/copier.go of moby); its drivers with more fields mark the pieces
    (``partial_message``).

    Args:
        field: the field that holds the lines.
        with_ends: most values end with a line end, so that a value without one is a
            piece.
    """

    def __init__(self, field: str, with_ends: bool) -> None:
        self._field = field
        self._with_ends = with_ends
        self._pieces: dict[str | None, list[str]] = {}
        """Pieces of the incomplete line of each stream."""
        self._held = HeldLine()

    @classmethod
    def learn(
        cls, lines: Sequence[bytes], is_torch: Callable[[bytes], object]
    ) -> JsonObjects | None:
        """Return a reader for the format of a sample; None if it has no such
        objects. ``is_torch``: tests whether a line was printed by torch."""
        field = text_field(lines, is_torch)
        if field is None:
            return None
        values = [
            value
            for value in (_object(line).get(field) for line in lines)
            if isinstance(value, str)
        ]
        return cls(
            field, 2 * sum(value.endswith("\n") for value in values) > len(values)
        )

    def joined(self, text: bytes) -> bytes:
        """Turn whole lines of the log into lines of the program; a piece is held
        back until the last piece comes. A line is not changed if it is no such
        object, or if the field has several lines."""
        lines: list[bytes] = []
        for line in text[:-1].split(b"\n"):
            lines += self._taken(line)
        return _with_ends(lines)

    def rest(self) -> bytes:
        """Return the pieces whose last piece is not in the log."""
        lines: list[bytes] = []
        for pieces in self._pieces.values():
            lines += self._complete(pieces)
        self._pieces.clear()
        return _with_ends(lines) + self._held.end()

    def _taken(self, line: bytes) -> list[bytes]:
        found = _object(line)
        value = found.get(self._field)
        if not isinstance(value, str) or "\n" in value.rstrip("\r\n"):
            self._held.begin(line)
            return self._held.released()
        stream = _stream(found)
        pieces = self._pieces.setdefault(stream, [])
        if not pieces:
            value = (
                line[: line.find(b"{")].decode("utf-8", "surrogateescape") + value
            )
        pieces.append(value)
        if self._goes_on(found, value):
            return []
        return self._complete(self._pieces.pop(stream))

    def _goes_on(self, found: dict[str, object], value: str) -> bool:
        if found.get("partial_message") in _YES:
            return found.get("partial_last") not in _YES
        return self._with_ends and not value.endswith("\n")

    def _complete(self, pieces: list[str]) -> list[bytes]:
        line = "".join(pieces).rstrip("\r\n")
        self._held.begin(_encoded(line), rows=len(pieces))
        return self._held.released()


def _stream(found: dict[str, object]) -> str | None:
    name = found.get("stream", found.get("source"))
    if isinstance(name, str):
        return name
    return None


_YES = (True, "true")


def _with_ends(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _encoded(line: str) -> bytes:
    """Encode a line: the text before an object may not be valid UTF-8, and the
    object's text may hold half of a surrogate pair."""
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return line.encode("utf-8", "surrogatepass")


def _object(line: bytes) -> dict[str, object]:
    """Return the object on a line; {} if there is none. A time or a tag may precede
    it."""
    at = line.find(b"{", 0, _MOST_BEFORE)
    if at < 0:
        return {}
    try:
        found = json.loads(line[at:])
    except (ValueError, RecursionError):
        return {}
    if isinstance(found, dict):
        return found
    return {}
