"""Logs that grow while they are read: a file that a program writes, also truncated
or rotated, or a pipe.

A file that is rotated is read to its end, and the file that replaces it follows as
the next log of the same run, as ``tail -F`` does. Device and inode show which file
has the name now. A file that was truncated, and has grown past the offset read last
since, has other text before that offset.
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
"""Lines of torch from which what a launcher puts before each line can be learnt."""
_LOOKS_FOR_FIRST = 10
"""Looks without anything new after which fewer such lines must do."""
_LAST_LOOKS = 10
"""Looks at a rotated file without anything new after which it is left: its program
may write on a while."""
_TAIL = 64
"""Bytes before the offset read last that must still be there."""


class Go(Enum):
    """How the reading goes on after a pause."""

    ON = "on"
    FINISH = "finish"
    """Read what is there by now, and end."""
    STOP = "stop"
    """End here."""


Pause = Callable[[bool], Go]
"""Called between two looks, with whether the last one found nothing new: then it
waits a little."""


class Ending(Enum):
    """Why a log was not the last one."""

    ROTATED = "rotated"
    TRUNCATED = "truncated"


class GrowingLog:
    """One file, from its start to where it ends or is taken away.

    Attributes:
        ended: why reading ended before ``pause`` ended it; None while it goes on.
    """

    ended: Ending | None = None

    def __init__(self, path: Path, pause: Pause) -> None:
        """Opens the file.

        Raises:
            UsageError: it cannot be read, or is no file.
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
        """Why it cannot be read any further, where that ended the reading."""

    def blocks(self) -> Iterator[bytes]:
        """The bytes as they come; the first ones when they are enough to learn a
        prefix from."""
        with self._file as file:
            try:
                yield from _first_ones_together(self._read(file))
            except (
                OSError
            ) as error:  # a disk or a server is gone: what was read counts
                self.failure = error.strerror or str(error)

    def _read(self, file: IO[bytes]) -> Iterator[bytes]:
        """Blocks; an empty one for each look at which there was nothing new."""
        read = 0
        tail = b""
        quiet = False
        looks = 0
        go = Go.ON
        while True:
            if quiet and not self._same(file, read, tail):
                self.ended = Ending.TRUNCATED
                return
            replaced = quiet and self._replaced()
            data = file.read(CHUNK_BYTES)
            looks = looks + 1 if replaced and not data else 0
            if looks >= _LAST_LOOKS or (looks and go is Go.FINISH):
                self.ended = Ending.ROTATED
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
        """Whether another file has the name now. While none has, this one may go
        on."""
        try:
            now = self._path.stat()
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != self._identity

    def now(self, earlier: int) -> LogInput:
        """The file as it can be read again; with the name that it was given when it
        was rotated, if that is in its folder. ``earlier``: how many came before it
        under its name."""
        if self.ended is None:
            return LogInput(str(self._path), self._path)
        if self.ended is Ending.ROTATED:
            with contextlib.suppress(OSError):
                for one in sorted(self._path.parent.iterdir()):
                    other = one.lstat()
                    if (other.st_dev, other.st_ino) == self._identity:
                        return LogInput(str(one), one)
        which = f"{self._path} before it was {self.ended.value}"
        return LogInput(which + (f" ({earlier + 1})" if earlier else ""), None)


class GrowingPipe:
    """What another program writes into a pipe (stdin, or one with a name), until it
    closes it. A thread of its own waits for it, so that the pauses go on.

    Args:
        path: of a pipe with a name; None for stdin.
    """

    ended: Ending | None = None

    def __init__(self, pause: Pause, path: Path | None = None) -> None:
        self._pause = pause
        self._path = path
        self._blocks: queue.Queue[bytes | None] = queue.Queue(maxsize=4)

    def blocks(self) -> Iterator[bytes]:
        """The bytes as they come."""
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
                with self._path.open(
                    "rb", 0
                ) as file:  # once a program has opened its other end
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
        """What the pipe is called."""
        return LogInput("<stdin>" if self._path is None else str(self._path), None)


def _first_ones_together(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks without the empty ones. The first ones are held back until they
    hold enough lines of torch, or until nothing comes."""
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
    """Whether it is a pipe that has a name: it holds nothing, and is read once."""
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """Whether something has that name, as far as this user may know."""
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
    """Refuse what cannot be followed.

    Raises: UsageError: a folder, a device, a socket, a compressed file, or a file
        in a folder that is not there.
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
