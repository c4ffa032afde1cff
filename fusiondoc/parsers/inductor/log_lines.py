"""Lines of TORCH_LOGS: the prefix that torch writes before each, and its parts."""

from __future__ import annotations

import re
from typing import NamedTuple

from fusiondoc.numbers import whole_number

_PREFIX = re.compile(
    rb"(?:\[rank(\d{1,6})\]:)?([VDIWEC])(\d{4} [\d:.]{8,16}) +(\d{1,10}) (\S{1,400}?):(\d{1,7})\] "
    rb"(?:\[(!?\d[\d/_!]{0,60})\] )?(?:\[[^\[\]_]{0,80}\] )?(?:\[__(\w{1,40})\] ?)?(.*)",
    re.DOTALL,
)
"""``V1121 19:25:46.831000 469 torch/_inductor/scheduler.py:1388] [0/0] [__fusion]
text`` (``TorchLogsFormatter`` in ``torch/_logging/_internal.py``, 2.6 to 2.13)."""


class LogLine(NamedTuple):
    """A line of TORCH_LOGS."""

    rank: int | None
    time: bytes
    """Month, day and time: ``1121 19:25:46.831000``."""
    process: bytes
    """The process id."""
    file: bytes
    """Path of a file of torch, as the process saw it."""
    compile_id: str | None
    """``0/0``, ``0/0_1``, ``!1/0/0``; None outside of a compilation."""
    artifact: str | None
    """``fusion``; None for a line without an artifact."""
    text: bytes


def log_line(line: bytes) -> LogLine | None:
    """Return the parts of a line of TORCH_LOGS; None for any other line.

    Args: line: without its line end, and without the prefix of a tool outside
    torch.
    """
    if line[:1] not in b"VDIWEC[" or b"] " not in line[:600]:
        return None
    found = _PREFIX.match(line)
    if found is None:
        return None
    rank, _, time, process, file, _, compile_id, artifact, text = found.groups()
    return LogLine(
        whole_number(rank) if rank is not None else None,
        time,
        process,
        file,
        compile_id.decode("ascii", "replace") if compile_id else None,
        artifact.decode("ascii", "replace") if artifact else None,
        text,
    )
