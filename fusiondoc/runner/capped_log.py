"""The log of a run that may print without end: its head, its tail, and the lines
about fusion between them.

Up to a limit a log is the child's output, byte for byte. After the first half of
the limit, lines go to two files beside the log in turn; when both are full, the
lines about fusion of the older one are added to the log, with a line that states
how much was left out, and the file is used again. So the disk holds no more than
the limit at any time, memory some megabytes, and the newest lines are on disk if
fusiondoc is killed.

Lines about fusion are found by the patterns of the parsers, without parsing the
lines, so that hundreds of megabytes of a program's own output can be filtered as
they arrive.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from fusiondoc.captures.capture import LOGS
from fusiondoc.fusers import stdout_marks
from fusiondoc.model import dataclass
from fusiondoc.parsers.jit.bare_graphs import BARE_FOREIGN, IR_LINE, head_of
from fusiondoc.parsers.jit.message_runs import GLUED, PREFIX, may_hold_a_mark
from fusiondoc.parsers.kernels.kernel_dumps import DumpReader
from fusiondoc.parsers.kernels.kernel_sources import FRAME_LIMIT
from fusiondoc.parsers.kernels.launches import (
    BANDWIDTH,
    FRAME_END,
    FRAME_START,
    LAUNCH,
    OLD_FRAME_ENDS,
    PERF,
)
from fusiondoc.parsers.lines.failures import ERROR, shows_a_crash, without_rank
from fusiondoc.parsers.lines.log_files import MOST_LINE
from fusiondoc.parsers.lines.outer_prefix import OuterPrefix, sample_of
from fusiondoc.parsers.lines.tagged_lines import clean
from fusiondoc.parsers.lines.torch_warnings import (
    CONTINUES,
    FALLBACK,
    KNOWN,
    is_cpp_warning,
    is_python_warning,
)
from fusiondoc.whole_files import open_regular

_OF_LIBRARY = stdout_marks()
_LIBRARY_FIRST = frozenset(mark[:1] for mark in _OF_LIBRARY)
_TRACEBACK = 300
"""Most lines of a traceback that are kept."""


def _is_of_kernel(line: bytes) -> bool:
    """True if a line is about a kernel: its bandwidth, its launch, or its time in a
    library."""
    first = line[:1]
    if first in (b"k", b"n") and (BANDWIDTH.match(line) or PERF.match(line)):
        return True
    if first in (b"L", b"W") and LAUNCH.search(line):
        return True
    return first in _LIBRARY_FIRST and line.startswith(_OF_LIBRARY)


class FusionLines:
    """Decides for every line of a stream, in order, whether it is kept.

    Args: start: start of the log, from which the prefix that a launcher puts before
        each line is learnt.
    """

    def __init__(self, start: bytes) -> None:
        self._outer = OuterPrefix.learn(sample_of(start) or ())
        self._dumps = DumpReader(lambda kind, lines, pos: None)
        self._frame = 0
        self._bare: int | None = None
        self._warning = False
        self._traceback = 0

    def about(self, line: bytes) -> bool:
        """True if the line, without its end, is one that a report needs."""
        if b"\r" in line or b"\x1b" in line:
            line = clean(line)
        if self._outer is not None:
            line = self._outer.split(line)[1]
        line = without_rank(line)[1]
        if not line:
            return bool(self._frame or self._dumps.open)
        if self._frame:
            if line == FRAME_END or line in OLD_FRAME_ENDS:
                self._frame = 0
            else:
                self._frame = self._frame - 1
            return True
        if (
            self._dumps.open
            and not self._dumps.refused(line)
            and self._dumps.take([line], 0)
        ):
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
                if FRAME_START.match(line[glued.start() :]):
                    self._frame = FRAME_LIMIT
                else:
                    self._frame = 0
                return True
        if line[:1] == b"=" and FRAME_START.match(line):
            self._frame = FRAME_LIMIT
            return True
        if _is_of_kernel(line):
            return True
        if head_of(line) is not None:
            self._bare = 0
            return True
        return (
            self._dumps.starts(line, 0) or self._warned(line) or self._failed(line)
        )

    def _goes_on(self, line: bytes) -> bool:
        """True if a line may belong to a graph without torch's prefix, with at most
        some lines of the program in between."""
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
        if (b"Warning: " in line and is_python_warning(line)) or is_cpp_warning(
            line
        ):
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
        return shows_a_crash(line)


_MOST_TAIL = 16 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """Bytes of the head, of the lines about fusion after it, and of each of the two
    files with the newest lines."""

    head: int
    between: int
    tail: int

    @classmethod
    def within(cls, limit: int) -> Sizes:
        """Sizes that add up to ``limit`` bytes."""
        tail = min(limit // 8, _MOST_TAIL)
        return cls(limit // 2, limit - limit // 2 - 2 * tail, tail)


def left_out(lines: int, size: int, fusion: int) -> bytes:
    """Return the line that replaces lines that are not kept; ``parsers/stream.py``
    reads it."""
    return b"[fusiondoc] left out %d lines, %d bytes, %d of them about fusion\n" % (
        lines,
        size,
        fusion,
    )


class CappedLog:
    """A log to write to. ``written`` counts the bytes received.

    Raises:
        OSError: (by every method) it cannot be written.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.written = 0
        self._path = path
        self._sizes = Sizes.within(limit)
        self._log: IO[bytes] = path.open("ab", buffering=0)
        self._newest: IO[bytes] | None = None
        self._held = 0
        """Bytes in the newest file."""
        self._between = 0
        """Bytes of lines about fusion that were added."""
        self._rest = b""
        """The start of a line whose end is in the next file."""
        self._fusion: FusionLines | None = None
        self._lines = self._bytes = self._lost = 0

    def write(self, data: bytes) -> None:
        """Add output of the child."""
        before, self.written = self.written, self.written + len(data)
        if self._newest is None:
            if self.written <= self._sizes.head:
                _write(self._log, data)
                return
            cut = data.find(b"\n", max(0, self._sizes.head - before - 1)) + 1
            if not cut and before < self._sizes.head + MOST_LINE:
                _write(self._log, data)
                return
            _write(self._log, data[:cut])
            data = data[cut:]
            self._newest = self._next()
        _write(self._newest, data)
        self._held += len(data)
        if self._held >= self._sizes.tail:
            self._turn()

    def close(self) -> None:
        """Append the newest lines to the log. If that fails they stay in files of
        their own, which are read as parts of the log."""
        if self._newest is not None:
            self._newest.close()
            self._count_left_out()
            _write(self._log, self._rest)
            for number in (1, 2):
                part = self._part(number)
                for block in _blocks(part):
                    _write(self._log, block)
                if part.exists():
                    part.unlink()
        self._log.close()

    def _part(self, number: int) -> Path:
        return self._path.with_name(LOGS[number])

    def _next(self) -> IO[bytes]:
        return self._part(2).open("wb", buffering=0)

    def _turn(self) -> None:
        """Called when the newest file is full: it becomes the older one, of which
        only the lines about fusion stay."""
        assert self._newest is not None
        self._newest.close()
        if self._part(1).exists():
            self._sift(self._part(1))
        self._part(2).replace(self._part(1))
        self._newest = self._next()
        self._held = 0

    def _sift(self, part: Path) -> None:
        if self._fusion is None:
            with open_regular(self._path) as log:
                self._fusion = FusionLines(log.read(_BLOCK))
        about = self._fusion.about
        for block in _blocks(part):
            *lines, self._rest = (self._rest + block).split(b"\n")
            if len(self._rest) > MOST_LINE:
                lines.append(self._rest)
                self._rest = b""
            kept: list[bytes] = []
            for line in lines:
                fusion = about(line)
                if fusion and self._between + len(line) < self._sizes.between:
                    if self._lines:
                        self._flush(kept)
                        self._count_left_out()
                    kept.append(line)
                    self._between += len(line) + 1
                else:
                    if kept:
                        self._flush(kept)
                    self._lines += 1
                    self._bytes += len(line) + 1
                    self._lost += fusion
            self._flush(kept)
        self._count_left_out()

    def _flush(self, kept: list[bytes]) -> None:
        if kept:
            _write(self._log, b"\n".join(kept) + b"\n")
            kept.clear()

    def _count_left_out(self) -> None:
        if self._lines:
            _write(self._log, left_out(self._lines, self._bytes, self._lost))
            self._lines = self._bytes = self._lost = 0


class WatchedLog(CappedLog):
    """A log to which other code of this process appends; it is checked now and
    then. Args: move: makes that code append to another file from now on.
    """

    def __init__(
        self, path: Path, limit: int, move: Callable[[Path], None]
    ) -> None:
        super().__init__(path, limit)
        self._move = move

    def look(self) -> None:
        """Filter the new lines into the log once a file has reached its size."""
        if self._newest is None:
            if self._path.stat().st_size >= self._sizes.head:
                self._newest = self._next()
                self._end_line()
        elif self._part(2).stat().st_size >= self._sizes.tail:
            self._turn()

    def _next(self) -> IO[bytes]:
        made = super()._next()
        self._move(self._part(2))
        return made

    def _end_line(self) -> None:
        """End an incomplete line at the end of the head: it may continue in the
        next file."""
        with open_regular(self._path) as log:
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                _write(self._log, b"\n")


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
            while True:
                block = file.read(_BLOCK)
                if not block:
                    return
                yield block
    except FileNotFoundError:
        return


def _write(file: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file.fileno(), view) :]
