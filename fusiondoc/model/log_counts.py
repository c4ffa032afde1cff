"""How a log was read: its lines by kind, and what of it is missing."""

from __future__ import annotations

from fusiondoc.model.quick_dataclass import dataclass


@dataclass(frozen=True)
class UnrecognisedLine:
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class LeftOut:
    """What a capture did not keep of a log that was longer than its limit."""

    lines: int = 0
    bytes: int = 0
    about_fusion: int = 0
    """Lines about fusion among them."""


@dataclass(frozen=True)
class ParseStats:
    """How the log was read: ``recognised`` lines a parser consumed, ``user_output`` lines of the program."""

    lines: int
    recognised: int
    user_output: int
    unrecognised: int
    first_unrecognised: tuple[UnrecognisedLine, ...]
    truncated: int
    """Graphs and other blocks that were cut off."""
    seconds: float
    bytes: int
    left_out: LeftOut = LeftOut()
    """What the log says to be missing from its middle."""
