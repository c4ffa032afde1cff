"""Logs of several machines: torch's launcher counts the ranks of each from 0, so
that ``[default0]:`` of two logs may be two processes, or one whose log has two
parts.

The launcher shows which: a log that begins where it starts its processes is of
processes of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.numbers import all_whole

LAUNCHED = b"OMP_NUM_THREADS environment variable for each process to be "
"""torch's launcher, when it starts several processes (torch/distributed/run.py, 1.9
to 2.13)."""

LOCAL = re.compile(rb"(.*)\[default(\d{1,9})\]", re.DOTALL)
"""Counts the ranks of one machine. A launcher around torch's may tag the machine:
``1: [default0]:``."""

_TAG = b"[default"
_FURTHER = re.compile(rb"log (\d{1,9}) local (\d{1,9})\Z")


class Machines:
    """Those whose logs are read one after the other."""

    def __init__(self) -> None:
        self._launched = 0
        """Logs that begin where the launcher starts its processes."""
        self._logs: list[int] = []
        """The machine of each log with local ranks."""

    def begin(self, text: bytes) -> int:
        """Which of them the log is of that begins with this text; 0 for the first,
        and if it has no local ranks. What does not begin with a launch goes on with
        the log before it."""
        tag = text.find(_TAG)
        if tag < 0:
            return 0
        if text.find(LAUNCHED, 0, tag) >= 0:
            self._launched += 1
        self._logs.append(max(0, self._launched - 1))
        return self._logs[-1]

    @property
    def several(self) -> bool:
        """The local ranks of a log are counted on from those of the one before."""
        return self._launched > 1

    @property
    def unsure(self) -> bool:
        """Several logs have the same local ranks, and not each begins with a
        launch."""
        return len(set(self._logs)) < len(self._logs)


def tag_of(machine: int, local: bytes) -> bytes:
    """What the lines of a local rank have in common; those of the first machine are
    ranks as they are."""
    return b"log %d local %s" % (machine, local) if machine else b"rank %s" % local


def counted_on(tags: Iterable[bytes | None], first: int) -> dict[bytes | None, int]:
    """The ranks of further machines, from ``first`` on."""
    found = ((_FURTHER.match(tag), tag) for tag in tags if tag is not None)
    places = sorted(
        (all_whole(one.groups()) or (), tag)
        for one, tag in found
        if one is not None
    )
    return {tag: first + number for number, (_, tag) in enumerate(places)}
