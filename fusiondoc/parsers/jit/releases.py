"""Which release of torch printed a log: its messages name the line of torch's source that they stand on.

The lines are those of ``Before Fusion:`` and ``Before Compilation:`` of graph_fuser.cpp, of
``GraphCache constructor``, ``GraphCache created for graph`` and ``running GraphCache`` of kernel_cache.cpp,
and of the statements of partition.cpp, in logs of the wheels of 1.12.1, 1.13.1, 2.0.1 and 2.1.2. 2.0 and 2.1
have the same nvFuser, line for line."""

from __future__ import annotations

import re
from typing import Iterable, Mapping

_LINES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "1.12": {"graph_fuser": (2352, 2432), "kernel_cache": (718, 719, 727), "partition": (233,)},
    "1.13": {"graph_fuser": (2420, 2504), "kernel_cache": (765, 766, 774)},
    "2.0": {"graph_fuser": (2419, 2503), "kernel_cache": (809, 810, 818)},
}

_RELEASES = {
    (file, line): release
    for release, files in _LINES.items()
    for file, lines in files.items()
    for line in lines
}

_PLACE = re.compile(rb"([\w+-]+)\.cpp:(\d{3,6})\]")


def nvfuser_release(prefixes: Iterable[bytes]) -> str | None:
    """The release whose nvFuser printed messages with these prefixes (``[DUMP graph_fuser.cpp:2419]``); "2.0"
    for 2.0 and 2.1. None where they name no line that tells it, or several releases."""
    places = (_PLACE.search(prefix) for prefix in prefixes)
    told = {
        _RELEASES.get((place.group(1).decode("ascii", "replace"), int(place.group(2))))
        for place in places
        if place is not None
    } - {None}
    return told.pop() if len(told) == 1 else None
