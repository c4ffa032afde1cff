"""The colours of codes of reasons: the same on every page."""

from __future__ import annotations

from fusiondoc.model.codes import CODES

_TURN = 137.508
"""Degrees between the colours of codes that follow each other: the golden angle
keeps neighbours apart."""


def hue(code: str | None) -> str:
    """The classes of the colour of a code."""
    return f"hue {code}" if code in CODES else "hue"


def colours() -> str:
    """The rules of style that give every reason its colour."""
    rules = []
    for code in CODES:
        if code.startswith("FD2"):
            rules.append(f".{code}{{--h:{int(code[2:]) * _TURN % 360:.0f}}}")
    return "".join(rules)
