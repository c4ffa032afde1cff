"""What a run of several processes (ranks) left: how each of them ended, where it was then, and whether by
itself (probe/rank_process.py writes it)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.typed_fields import read_object

RANKS = "ranks"
"""The folder of a capture with a capture for each rank."""


@dataclass(frozen=True)
class RankProcess:
    """A rank, as its own process tells it."""

    rank: int
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    restarts: int = 0
    """How often the launcher had started it again."""
    asked: str | None = None
    """The signal by which the launcher (or fusiondoc) asked it to end, such as SIGTERM."""
    ended_at: float | None = None
    """Seconds since 1970."""


def read_rank(all_of: Callable[[str], Sequence[Mapping[str, Any]]]) -> RankProcess | None:
    """The record of a rank among all, which ``all_of`` has by kind."""
    found: dict[str, Any] = {}
    for one in all_of("rank"):
        found.update({name: value for name, value in one.items() if value is not None})
    return read_object(RankProcess, found) if found else None


_STACK = re.compile(r'^  File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,9}) in ', re.MULTILINE)
_CURRENT = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$", re.MULTILINE)
_TAIL_BYTES = 64 << 10
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "<string>")


def where_it_was(log: Path) -> str | None:
    """``file:line`` of the program in which a process was when a signal ended it, by the stack that Python's
    faulthandler printed at the end of its log; None without one."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    starts = [one.end() for one in _CURRENT.finditer(text)]
    if not starts:
        return None
    frames = [(one["file"], one["line"]) for one in _STACK.finditer(text, starts[-1])]
    own = [one for one in frames if not any(part in one[0] for part in _LIBRARIES)]
    file_, line = (own or frames or [("", "")])[0]
    return f"{file_}:{line}" if file_ else None
