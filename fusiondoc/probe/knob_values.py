"""The notation of values of knobs."""

from __future__ import annotations

import re
from typing import Any

_ON = ("on", "true", "1", "yes")
_OFF = ("off", "false", "0", "no")


def parse(kind: str, text: str) -> Any:
    """Parse the value of a knob; ValueError with a sentence if it is invalid.

    Kinds: ``switch`` on/off, ``count`` an integer of 0 or more, ``integer``,
    ``ratio`` 0.5, ``strategy`` ``STATIC:2,DYNAMIC:10``, ``operators``
    ``aten::add,aten::mul``, ``text`` anything, ``stream`` stdout/stderr.
    """
    text = text.strip()
    if kind == "switch":
        word = text.lower()
        if word in _ON or word in _OFF:
            return word in _ON
        raise ValueError("%r is neither on nor off" % text)
    if kind in ("count", "integer"):
        if not re.match(r"[+-]?\d+\Z", text):
            raise ValueError("%r is not a whole number" % text)
        if kind == "count" and int(text) < 0:
            raise ValueError("%s is below 0" % text)
        return int(text)
    if kind == "ratio":
        if not re.match(r"\d+(\.\d+)?\Z", text):
            raise ValueError("%r is not a number such as 0.5" % text)
        return float(text)
    if kind == "strategy":
        return _strategy(text)
    if kind == "operators":
        return _operators(text)
    if kind == "stream" and text not in ("stdout", "stderr"):
        raise ValueError("%r is neither stdout nor stderr" % text)
    return text


def _strategy(text: str) -> list[tuple[str, int]]:
    steps = []
    for part in text.split(","):
        match = re.match(r"\s*([A-Za-z]+)\s*:\s*(\d+)\s*\Z", part)
        if match is None:
            raise ValueError("%r is not like STATIC:2,DYNAMIC:10" % text)
        word = match.group(1).upper()
        if word not in ("STATIC", "DYNAMIC"):
            raise ValueError("%r is neither STATIC nor DYNAMIC" % match.group(1))
        steps.append((word, int(match.group(2))))
    return steps


def _operators(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not re.match(r"\w+::\w+\Z", name):
            raise ValueError("%r is not an operator such as aten::add" % name)
    return names


def show(value: Any) -> str | None:
    """The text of a value that torch returned; None if it returned none."""
    if value is None:
        return None
    if isinstance(value, bool):
        if value:
            return "on"
        return "off"
    if isinstance(value, (list, tuple)):
        parts = []
        for item in value:
            parts.append("%s:%d" % item if isinstance(item, tuple) else str(item))
        return ",".join(parts)
    return str(value)
