"""Logs whose lines are JSON objects with a line of the program in one of their fields: Docker's json-file
driver (``{"log": "...\\n", "stream": "stderr", "time": ...}``), and what many services log through."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

_LEAST = 3
"""Lines that must agree on the field."""


def text_field(lines: Sequence[bytes], is_torch: Callable[[bytes], object]) -> str | None:
    """The field that holds the lines of the program, or None if the log is not of this kind.

    Args:
        lines: a sample.
        is_torch: whether a line is torch's own.
    """
    fields: dict[str, int] = {}
    marked = 0
    for line in lines:
        if not is_torch(line):
            continue
        marked += 1
        for name, value in _object(line).items():
            if isinstance(value, str) and is_torch(value.encode("utf-8", "surrogatepass")):
                fields[name] = fields.get(name, 0) + 1
    if not fields:
        return None
    name = max(fields, key=lambda one: fields[one])
    return name if fields[name] >= _LEAST and fields[name] * 2 > marked else None


def unwrapped(line: bytes, field: str) -> bytes:
    """The line of the program; the line itself where it is no such object, or the field has several lines."""
    value = _object(line).get(field)
    if not isinstance(value, str):
        return line
    text = value.rstrip("\r\n")
    return line if "\n" in text else text.encode("utf-8", "surrogatepass")


def _object(line: bytes) -> dict[str, object]:
    if not line.startswith(b"{"):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
