"""Bars and sparklines of block characters, and their stand-ins where the terminal's encoding has none."""

from __future__ import annotations

from typing import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_FULL, _EMPTY = "█", "░"

_PLAIN = str.maketrans(
    {
        **dict(zip(_LEVELS, "_.-=+*%#")),
        _EMPTY: ".",
        "…": "~",
        "→": ">",
        "×": "x",
    }
)


def bar(share: float, width: int = 8) -> str:
    """``share`` (1 is full, more is shown as full) as a bar; what is more than nothing shows."""
    filled = min(width, round(share * width))
    if share > 0:
        filled = max(1, filled)
    return _FULL * filled + _EMPTY * (width - filled)


def sparkline(values: Sequence[float], most: int = 24) -> str:
    """A character for each value, its height by the logarithm: a compilation takes a thousand times a
    pass. Of more than ``most`` values the first ones are shown, with an ellipsis."""
    from math import log

    shown = [value for value in values[:most] if value > 0]
    if len(shown) < 2:
        return ""
    low, high = log(min(shown)), log(max(shown))
    # Below a factor of 1.5 everything is noise: a flat line.
    span = max(high - low, log(1.5))
    marks = (_LEVELS[int((log(value) - low) / span * (len(_LEVELS) - 1) + 0.5)] for value in shown)
    return "".join(marks) + ("…" if len(values) > most else "")


def plain(text: str) -> str:
    """The text with ASCII characters in the place of blocks, arrows and ellipses, one for one."""
    return text.translate(_PLAIN)


def can_show_blocks(encoding: str | None) -> bool:
    """Whether text in this encoding can hold the block characters."""
    try:
        (_LEVELS + _EMPTY + "…→×").encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
