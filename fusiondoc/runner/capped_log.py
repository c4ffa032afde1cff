"""The log of a run that may print without end: its head, its tail, and the lines about fusion between them.

Up to a limit a log is what the child wrote, byte for byte. Beyond its first half lines go to two files beside
it in turn; when both are full, the lines about fusion of the older one are added to the log, with a line that
says how much was left out, and the file is used again. So the disk holds no more than the limit at any time,
memory some megabytes, and the newest lines are on disk if fusiondoc is killed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Iterator

from fusiondoc.captures.capture import LOGS
from fusiondoc.parsers.about_fusion import FusionLines
from fusiondoc.parsers.lines.log_files import MOST_LINE
from fusiondoc.parsers.lines.tagged_lines import SAMPLE

_MOST_TAIL = 16 << 20
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """In bytes: what is kept as it comes, the lines about fusion after it, and each of the two files with the
    newest lines."""

    head: int
    between: int
    tail: int

    @classmethod
    def within(cls, limit: int) -> Sizes:
        """Parts that make ``limit`` bytes together."""
        tail = min(limit // 8, _MOST_TAIL)
        return cls(limit // 2, limit - limit // 2 - 2 * tail, tail)


def left_out(lines: int, size: int, fusion: int) -> bytes:
    """The line that stands for lines that are not kept; ``parsers/stream.py`` reads it."""
    return b"[fusiondoc] left out %d lines, %d bytes, %d of them about fusion\n" % (lines, size, fusion)


class CappedLog:
    """A log that is written to. ``written`` counts the bytes that came.

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
        """Add what the child wrote."""
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
            self._newest = self._part(2).open("wb", buffering=0)
        _write(self._newest, data)
        self._held += len(data)
        if self._held >= self._sizes.tail:
            self._turn()

    def close(self) -> None:
        """Put the newest lines behind the others. Where that fails they stay in files of their own, which are
        read as parts of the log."""
        if self._newest is not None:
            self._newest.close()
            self._say_left_out()
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

    def _turn(self) -> None:
        """The newest file is full: it becomes the older one, of which only the lines about fusion stay."""
        assert self._newest is not None
        self._newest.close()
        if self._part(1).exists():
            self._sift(self._part(1))
        self._part(2).replace(self._part(1))
        self._newest = self._part(2).open("wb", buffering=0)
        self._held = 0

    def _sift(self, part: Path) -> None:
        if self._fusion is None:
            with self._path.open("rb") as log:
                self._fusion = FusionLines(log.read(_BLOCK).split(b"\n")[:SAMPLE])
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
                        self._say_left_out()
                    kept.append(line)
                    self._between += len(line) + 1
                else:
                    if kept:
                        self._flush(kept)
                    self._lines += 1
                    self._bytes += len(line) + 1
                    self._lost += fusion
            self._flush(kept)
        self._say_left_out()

    def _flush(self, kept: list[bytes]) -> None:
        if kept:
            _write(self._log, b"\n".join(kept) + b"\n")
            kept.clear()

    def _say_left_out(self) -> None:
        if self._lines:
            _write(self._log, left_out(self._lines, self._bytes, self._lost))
            self._lines = self._bytes = self._lost = 0


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
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
