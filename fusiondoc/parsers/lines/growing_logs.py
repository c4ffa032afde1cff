"""Logs that grow while they are read: a file that a program writes, which may be
truncated or rotated, or a pipe.

A rotated file is read to its end, and the file that replaces it becomes the next
log of the same run, as in ``tail -F``. Device and inode show which file has the
name now. A file that was truncated, and has since grown past the last read offset,
has other text before that offset.
"""

from __future__ import annotations

import contextlib
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import IO

from fusiondoc.errors import UsageError
from fusiondoc.parsers.lines.log_files import CHUNK_BYTES, COMPRESSED, LogInput
from fusiondoc.parsers.lines.outer_prefix import MARKER
from fusiondoc.whole_files import open_given

_ENOUGH_MARKS = 64
"""Number of torch's lines from which the prefix of a launcher can be learnt."""
_LOOKS_FOR_FIRST = 10
"""Number of polls without new data after which fewer of torch's lines suffice."""
_LAST_LOOKS = 10
"""Number of polls of a rotated file without new data after which it is closed: its
program may write for a while after the rotation."""
_TAIL = 64
"""Number of bytes before the last read offset that must still be the same."""


class Go(Enum):
    """The way in which reading continues after a pause."""

    ON = "on"
    FINISH = "finish"
    """Read the data that exists now, and end."""
    STOP = "stop"
    """End immediately."""


Pause = Callable[[bool], Go]
"""Called between two polls, with True if the last poll found no new data; it then
waits for a moment."""


class LogReplacement(Enum):
    """The reason why another log follows this one."""

    ROTATED = "rotated"
    TRUNCATED = "truncated"


class GrowingLog:
    """One file, from its start until it ends or is removed.

    Attributes:
        ended: why reading ended before ``pause`` ended it; None until then.
    """

    ended: LogReplacement | None = None

    def __init__(self, path: Path, pause: Pause) -> None:
        """Open the file.

        Raises:
            UsageError: it cannot be read, or is not a file.
        """
        self._path = path
        self._pause = pause
        check_growing(path)
        try:
            self._file = open_given(path)
        except OSError as error:
            raise UsageError(
                f"cannot read {path}: {error.strerror or error}",
                "Check its permissions.",
            ) from None
        opened = os.fstat(self._file.fileno())
        self._identity = (opened.st_dev, opened.st_ino)
        self.failure: str | None = None
        """The error that ended reading, if there was one."""

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes as they come; the first ones together, when they suffice
        to learn a prefix."""
        with self._file as file:
            try:
                yield from _first_ones_together(self._read(file))
            except OSError as error:
                # A disk or a server is gone: keep the data so far.
                self.failure = error.strerror or str(error)

    def _read(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield blocks; an empty block for each poll without new data."""
        read = 0
        tail = b""
        quiet = False
        looks = 0
        go = Go.ON
        while True:
            if quiet and not self._same(file, read, tail):
                self.ended = LogReplacement.TRUNCATED
                return
            replaced = quiet and self._replaced()
            data = file.read(CHUNK_BYTES)
            looks = looks + 1 if replaced and not data else 0
            if looks >= _LAST_LOOKS or (looks and go is Go.FINISH):
                self.ended = LogReplacement.ROTATED
                return
            quiet = not data
            read += len(data)
            tail = (tail + data)[-_TAIL:]
            yield data
            go = self._pause(quiet)
            if go is Go.STOP or (
                go is Go.FINISH and quiet and not self._replaced()
            ):
                return

    @staticmethod
    def _same(file: IO[bytes], read: int, tail: bytes) -> bool:
        if os.fstat(file.fileno()).st_size < read:
            return False
        file.seek(read - len(tail))
        return file.read(len(tail)) == tail

    def _replaced(self) -> bool:
        """True if another file has the name now. While no file has it, this file
        may continue."""
        try:
            now = self._path.stat()
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != self._identity

    def now(self, earlier: int) -> LogInput:
        """Return the file in a form that can be read again; under its new name if
        it was rotated within its folder. ``earlier``: number of earlier files with
        its name."""
        if self.ended is None:
            return LogInput(str(self._path), self._path)
        if self.ended is LogReplacement.ROTATED:
            with contextlib.suppress(OSError):
                for one in sorted(self._path.parent.iterdir()):
                    other = one.lstat()
                    if (other.st_dev, other.st_ino) == self._identity:
                        return LogInput(str(one), one)
        which = f"{self._path} before it was {self.ended.value}"
        return LogInput(which + (f" ({earlier + 1})" if earlier else ""), None)


class GrowingPipe:
    """The data that another program writes into a pipe (stdin, or a named pipe)
    until it closes the pipe. A separate thread waits for data, so that the pauses
    continue.

    Args:
        path: path of a named pipe; None for stdin.
    """

    ended: LogReplacement | None = None

    def __init__(self, pause: Pause, path: Path | None = None) -> None:
        self._pause = pause
        self._path = path
        self._blocks: queue.Queue[bytes | None] = queue.Queue(maxsize=4)

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes as they come."""
        if self._path is None and sys.stdin is None:
            raise UsageError(
                "the standard input is closed",
                "Pipe a log into it, or name a file.",
            )
        if self._path is not None and not os.access(self._path, os.R_OK):
            raise UsageError(
                f"cannot read {self._path}: Permission denied",
                "Check its permissions.",
            )
        threading.Thread(target=self._wait, daemon=True).start()
        yield from _first_ones_together(self._read())

    def _wait(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            if self._path is None:
                self._take(sys.stdin.fileno())
            else:
                # Opening returns when a program has opened the other end.
                with self._path.open("rb", 0) as file:
                    self._take(file.fileno())
        self._blocks.put(None)

    def _take(self, handle: int) -> None:
        while True:
            data = os.read(handle, CHUNK_BYTES)
            if not data:
                return
            self._blocks.put(data)

    def _read(self) -> Iterator[bytes]:
        while True:
            data: bytes | None = b""
            with contextlib.suppress(queue.Empty):
                data = self._blocks.get_nowait()
            if data is None:
                return
            yield data
            go = self._pause(not data)
            if go is Go.STOP or (go is Go.FINISH and not data):
                return

    def now(self, earlier: int) -> LogInput:
        """Return the name of the pipe."""
        return LogInput("<stdin>" if self._path is None else str(self._path), None)


def _first_ones_together(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the blocks, without empty ones. The first blocks are held back until
    they contain enough lines of torch, or until no more data comes."""
    held: list[bytes] = []
    size = marks = looks = 0
    for block in blocks:
        if block:
            held.append(block)
            size += len(block)
            marks += len(MARKER.findall(block))
            looks = 0
        else:
            looks += 1
        if (
            size >= CHUNK_BYTES
            or marks >= _ENOUGH_MARKS
            or (marks and looks >= _LOOKS_FOR_FIRST)
        ):
            break
    if held:
        yield b"".join(held)
    for block in blocks:
        if block:
            yield block


def is_pipe(path: Path) -> bool:
    """True for a named pipe: it stores nothing, and can be read only once."""
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """True if a file with that path exists, as far as this user can see."""
    try:
        path.stat()
    except OSError:
        return False
    return True


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_growing(path: Path) -> None:
    """Check that a log can be followed.

    Raises: UsageError: a folder, a device, a socket, a compressed file, or a file
    in a folder that does not exist.
    """
    mode = path.stat().st_mode if is_there(path) else stat.S_IFREG
    kind = next((words for is_one, words in _KINDS if is_one(mode)), None)
    if kind == "a folder":
        raise UsageError(
            f"{path} is a folder",
            "Name the log in it that grows: fusiondoc parse --follow LOG",
        )
    if path.suffix.lower() in COMPRESSED:
        raise UsageError(
            f"{path} is compressed, and such a file cannot be followed",
            "Leave out --follow.",
        )
    if not is_there(path.parent):
        raise UsageError(
            f"no such folder: {path.parent}",
            "Give the path of the log that will be written.",
        )
    if kind is not None:
        raise UsageError(
            f"{path} is {kind}", "Give the path of a log, or - for stdin."
        )
