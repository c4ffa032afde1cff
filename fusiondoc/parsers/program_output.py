"""Output of the program itself, which is read many lines at a time: logs of a
service contain little else.

Every line about fusion, a kernel or a failure contains one of ``SIGNS``. If a piece
of a log contains none of them, and nothing is open before it, its lines are output
of the program and are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fusiondoc.fusers import signs
from fusiondoc.parsers.lines.machines import LAUNCHED

SIGNS: tuple[bytes, ...] = (
    # torch's log and graphs, fusiondoc's own marks
    *(b"[DUMP ", b"[UPDATE ", b"[DEBUG ", b"graph(", b"[fusiondoc] "),
    # warnings, and lines of a launcher or a shell
    *(b"Warning: ", b"\n[W", b"FALLBACK", LAUNCHED),
    # kernels (launches.py; partitions.py)
    *(
        b" run in ",
        b" bytes/ ",
        b"Launch Parameters: ",
        b"\n=",
        b"Codegen output",
        b"dnn_",
        b"dnnl_",
    ),
    # dumps of fusers
    *signs(),
    # traces of Lightning Thunder (other_tools.py)
    *(b"# Constructed by ", b"\nimport thunder", b"\nfrom thunder."),
    # failures (failures.py)
    *(
        b"Traceback ",
        b"RuntimeError:",
        b"Floating point exception",
        b"Illegal instruction",
        b"Bus error",
    ),
    *(
        b"Fatal Python error: ",
        b"(core dumped)",
        b"\nAborted",
        b"Killed",
        b"terminate called after",
    ),
    *(
        b"interrupted by ",
        b"on signal ",
        b"(most recent call first)",
        b"ChildFailedError:",
    ),
    *(
        b"exit code 13",
        b"exitcode ",
        b"exit status -",
        b"SIG",
        b"Segfault ",
        b"Caught signal ",
    ),
)
"""Texts of which one is in every line that is more than output of the program, if
nothing is open. A line end stands for the beginning of the line."""

_LEAST = 1 << 11
"""Number of bytes from which on a search for signs is worthwhile."""
_FIRST = 1 << 12
_MOST = 1 << 18
"""Number of bytes that are searched at once: at first, and after searches without a
result."""
_MOST_LINES = 1 << 16
"""Number of bytes that are read line by line at once after a search with a
result."""


class Pieces:
    """Splits whole lines of a text, from ``at`` to ``end``, into pieces. Yields the
    end of each piece, and True if it is only output of the program.

    An iterator and not a generator: Python closes a generator when an error ends
    the loop over it. That takes memory, and if there is none Python 3.11 prints
    "Exception ignored in ..." before the error.

    Args:
        idle: True if nothing is open. It is called after the earlier pieces are
            read.
    """

    def __init__(
        self, text: bytes, at: int, end: int, idle: Callable[[], bool]
    ) -> None:
        self._text, self._at, self._end, self._idle = text, at, end, idle
        self._is_short = end - at < _LEAST
        self._looked, self._slow = _FIRST, 1

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        return self

    def __next__(self) -> tuple[int, bool]:
        if self._is_short:
            self._is_short, self._at = False, self._end
            return self._end, False
        if self._at >= self._end:
            raise StopIteration
        if self._at and self._idle():
            stop = self._end_of_output()
            if stop > self._at:
                self._at, self._slow = stop, 1
                return stop, True
        self._at = _line_end(self._text, self._at + self._slow, self._end)
        self._slow = min(self._slow * 4, _MOST_LINES)
        return self._at, False

    def _end_of_output(self) -> int:
        """Return the end of the program's output at the beginning of the next
        lines; their start if there is none."""
        most = _line_end(self._text, self._at + self._looked, self._end)
        stop = _before_a_sign(self._text, self._at, most)
        self._looked = min(self._looked * 4, _MOST) if stop == most else _FIRST
        return stop


def _line_end(text: bytes, at: int, end: int) -> int:
    """Return the offset after the line that contains ``at`` or the byte before
    it."""
    if at >= end:
        return end
    return text.find(b"\n", at - 1, end) + 1 or end


def _before_a_sign(text: bytes, at: int, end: int) -> int:
    """Return the end of the lines from ``at`` on without any of ``SIGNS``. The last
    line is not empty, since only the following lines show to what an empty line
    belongs."""
    first = end
    for sign in SIGNS:
        found = text.find(sign, at - 1, min(end, first + len(sign)))
        if found >= 0:
            first = found + 1 if sign[:1] == b"\n" else found
    if first < end:
        first = text.rfind(b"\n", at - 1, first) + 1
    while first > at and text[first - 2 : first] == b"\n\n":
        first -= 1
    return first
