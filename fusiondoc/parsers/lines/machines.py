"""Logs of several machines: torch's launcher counts the ranks of each machine from
0, so ``[default0]:`` in two logs may be two processes, or one process with a log in
two parts.

The launcher shows which: a log that begins with the start of its processes belongs
to new processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fusiondoc.numbers import all_whole

LAUNCHED = b"OMP_NUM_THREADS environment variable for each process to be "
"""The line that torch's launcher prints when it starts several processes
(torch/distributed/run.py, 1.9 to 2.13)."""

LOCAL = re.compile(rb"(.*)\[default(\d{1,9})\]", re.DOTALL)
"""The rank within one machine. A launcher around torch's may tag the machine: ``1:
[default0]:``."""

_TAG = b"[default"
_FURTHER = re.compile(rb"log (\d{1,9}) local (\d{1,9})\Z")


class Machines:
    """The machines whose logs are read one after the other."""

    def __init__(self) -> None:
        self._launched = 0
        """Number of logs that begin with the start of the launcher's processes."""
        self._logs: list[int] = []
        """The machine of each log with local ranks."""

    def begin(self, text: bytes) -> int:
        """Return the machine of the log that begins with this text; 0 for the
        first, and if the log has no local ranks. A log that does not begin with a
        launch continues the previous log."""
        tag = text.find(_TAG)
        if tag < 0:
            return 0
        if text.find(LAUNCHED, 0, tag) >= 0:
            self._launched += 1
        self._logs.append(max(0, self._launched - 1))
        return self._logs[-1]

    @property
    def several(self) -> bool:
        """True if the local ranks of a log continue the numbers of the previous
        log."""
        return self._launched > 1

    @property
    def unsure(self) -> bool:
        """True if several logs have the same local ranks and not every log begins
        with a launch."""
        return len(set(self._logs)) < len(self._logs)


def tag_of(machine: int, local: bytes) -> bytes:
    """Return the tag for the lines of a local rank; on the first machine local
    ranks are global ranks."""
    if machine:
        return b"log %d local %s" % (machine, local)
    return b"rank %s" % local


def counted_on(tags: Iterable[bytes | None], first: int) -> dict[bytes | None, int]:
    """Return the ranks of further machines, from ``first`` on."""
    found = ((_FURTHER.match(tag), tag) for tag in tags if tag is not None)
    ordered = sorted(
        (all_whole(one.groups()) or (), tag)
        for one, tag in found
        if one is not None
    )
    return {tag: first + number for number, (_, tag) in enumerate(ordered)}
