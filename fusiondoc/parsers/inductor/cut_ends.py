"""Whether what torch.compile wrote is cut off at its end."""

from __future__ import annotations

import re

_PART_OF_PREFIX = re.compile(
    rb"[VDIWEC]\d{4} \d\d[\d:.]*(?: +\d*"
    rb"(?: [^\s:\]]*(?::\d*(?:\] ?(?:\[[\d/_!]*(?:\] (?:\[_?_?\w*)?)?)?)?)?)?)?"
)
"""A prefix of TORCH_LOGS that breaks off; one with a whole ``[__name]`` may stand
before an empty line."""
_OF_WARNING = re.compile(
    rb"[WEC]\d{4} [\d:.]+ +\d+ [^\s:\]]+:\d+\] (?:\[[\d/_!]+\] )?"
)
"""The whole prefix of a warning, which has no name: the last line of one is often
empty."""


def ends_cut(text: bytes, without_end: bool) -> bool:
    """Whether the last line of a process is cut.

    Args:
        text: its last lines.
        without_end: the log has no line end behind them. Torch ends every record of a trace with one; what a
            user pasted of other lines may have none.
    """
    line = text[text.rstrip(b"\n").rfind(b"\n") + 1 :].removesuffix(b"\n")
    of_record = line.startswith(b"\t") or b'] {"' in line
    if _OF_WARNING.fullmatch(line) is not None:
        return False
    return (without_end and of_record) or _PART_OF_PREFIX.fullmatch(
        line
    ) is not None
