"""Which lines of a log are about fusion: what is kept of a log that is longer than may be kept.

The same patterns as the parsers', without what they make of the lines, so that hundreds of megabytes of a
program's own output can be gone through as they come.
"""

from __future__ import annotations

from typing import Sequence

from fusiondoc.parsers.jit.bare_graphs import BARE_FOREIGN, IR_LINE, head_of
from fusiondoc.parsers.jit.messages import PREFIX
from fusiondoc.parsers.kernels.dump_reader import DumpReader
from fusiondoc.parsers.kernels.launches import BANDWIDTH, FRAME_END, FRAME_START, LAUNCH, OLD_FRAME_ENDS, PERF
from fusiondoc.parsers.kernels.onednn_lines import MARKERS as ONEDNN
from fusiondoc.parsers.lines.last_words import tells_of_a_crash
from fusiondoc.parsers.lines.tagged_lines import SAMPLE, OuterPrefix, clean
from fusiondoc.parsers.lines.warning_lines import (
    CONTINUES,
    ERROR,
    FALLBACK,
    KNOWN,
    is_cpp_warning,
    is_python_warning,
)
from fusiondoc.parsers.stream import FRAME_LIMIT, GLUED, may_hold_a_mark

_TRACEBACK = 300
"""Lines of a traceback that are kept."""


class FusionLines:
    """Is asked about every line of a stream, in order.

    Args:
        sample: lines from the start of the log, from which what a launcher puts before each line is learnt.
    """

    def __init__(self, sample: Sequence[bytes]) -> None:
        self._outer = OuterPrefix.learn(sample[:SAMPLE])
        self._dumps = DumpReader(lambda kind, lines, pos: None)
        self._frame = 0
        self._bare: int | None = None
        self._warning = False
        self._traceback = 0

    def about(self, line: bytes) -> bool:
        """Whether the line, without its end, is one that a report needs."""
        if b"\r" in line or b"\x1b" in line:
            line = clean(line)
        if self._outer is not None:
            line = self._outer.split(line)[1]
        if not line:
            return bool(self._frame or self._dumps.open)
        if self._frame:
            self._frame = 0 if line == FRAME_END or line in OLD_FRAME_ENDS else self._frame - 1
            return True
        if self._dumps.open and not self._dumps.refused(line) and self._dumps.take([line], 0):
            return True
        return self._starts(line) or self._goes_on(line)

    def _starts(self, line: bytes) -> bool:
        if line[:2] in (b"[D", b"[U") and PREFIX.match(line):
            self._dumps.leave()
            self._bare = None
            return True
        if may_hold_a_mark(line):
            glued = GLUED.search(line)
            if glued is not None:
                self._frame = FRAME_LIMIT if FRAME_START.match(line[glued.start() :]) else 0
                return True
        first = line[:1]
        if first in (b"k", b"n") and (BANDWIDTH.match(line) or PERF.match(line)):
            return True
        if first in (b"L", b"W") and LAUNCH.search(line):
            return True
        if first == b"=" and FRAME_START.match(line):
            self._frame = FRAME_LIMIT
            return True
        if first in (b"o", b"d") and line.startswith(ONEDNN):
            return True
        if head_of(line) is not None:
            self._bare = 0
            return True
        return self._dumps.starts(line, 0) or self._warned(line) or self._failed(line)

    def _goes_on(self, line: bytes) -> bool:
        """A graph without torch's prefix, with at most some lines of the program between its own."""
        if self._bare is None:
            return False
        if line.startswith((b"  ", b"with ")) or IR_LINE.match(line):
            self._bare = 0
            return True
        self._bare += 1
        if self._bare > BARE_FOREIGN:
            self._bare = None
        return False

    def _warned(self, line: bytes) -> bool:
        if b"FALLBACK" in line and FALLBACK.search(line):
            self._warning = True
            return True
        if (b"Warning: " in line and is_python_warning(line)) or is_cpp_warning(line):
            self._warning = KNOWN.search(line) is not None
            return self._warning
        if self._warning:
            self._warning = CONTINUES.search(line) is not None
            return self._warning or line.startswith(b"  ")
        return False

    def _failed(self, line: bytes) -> bool:
        if line.startswith(b"Traceback "):
            self._traceback = _TRACEBACK
            return True
        if b"E" in line and ERROR.match(line):
            self._traceback = 0
            return True
        if self._traceback:
            self._traceback -= 1
            return True
        return tells_of_a_crash(line)
