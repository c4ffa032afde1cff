"""Detects whether the output of torch.compile is truncated at its end."""

from __future__ import annotations

import re

_PART_OF_PREFIX = re.compile(
    rb"[VDIWEC]\d{4} \d\d[\d:.]*(?: +\d*"
    rb"(?: [^\s:\]]*(?::\d*(?:\] ?(?:\[[\d/_!]*(?:\] (?:\[_?_?\w*)?)?)?)?)?)?)?"
)
"""A truncated prefix of TORCH_LOGS; a prefix with a complete ``[__name]`` may come
before an empty line."""
_OF_WARNING = re.compile(
    rb"[WEC]\d{4} [\d:.]+ +\d+ [^\s:\]]+:\d+\] (?:\[[\d/_!]+\] )?"
)
"""The complete prefix of a warning, which has no name: the last line of a warning
is often empty."""


def ends_cut(text: bytes, without_end: bool) -> bool:
    """True if the last line of a process is truncated.

    Args:
        text: its last lines.
        without_end: the log has no line end after them. Torch ends every record of
            a trace with one; other lines that a user pasted may have none.
    """
    line = text[text.rstrip(b"\n").rfind(b"\n") + 1 :].removesuffix(b"\n")
    of_record = line.startswith(b"\t") or b'] {"' in line
    if _OF_WARNING.fullmatch(line) is not None:
        return False
    return (without_end and of_record) or _PART_OF_PREFIX.fullmatch(
        line
    ) is not None
