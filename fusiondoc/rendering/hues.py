"""The colours of reason codes: the same on every page."""

from __future__ import annotations

from fusiondoc.model.codes import CODES

_TURN = 137.508
"""Degrees between the hues of successive codes: the golden angle makes neighbours
differ."""


def hue(code: str | None) -> str:
    """Return the classes for the colour of a code."""
    if code in CODES:
        return f"hue {code}"
    return "hue"


def colours() -> str:
    """Return the CSS rules that give every reason its colour."""
    rules = []
    for code in CODES:
        if code.startswith("FD2"):
            rules.append(f".{code}{{--h:{int(code[2:]) * _TURN % 360:.0f}}}")
    return "".join(rules)
