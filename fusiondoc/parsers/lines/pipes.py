"""Blocks of bytes from another of our processes, through a pipe that holds a whole one: neither waits for the
other in the midst of it."""

from __future__ import annotations

import contextlib
import io
import os
import select
import struct
import sys
from collections.abc import Generator
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

_LENGTH = struct.Struct("<Q")
_HOLDS = 1 << 20
"""Bytes: what an unprivileged process may have on Linux (/proc/sys/fs/pipe-max-size, pipe(7)). Of the 64 KiB
that a pipe has otherwise 1 GB takes four times as long to send."""
_SET_SIZE = 1031
"""F_SETPIPE_SZ of Linux' fcntl.h, which Python's fcntl has from 3.10 on."""

_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(1 << 26), "MALLOC_TRIM_THRESHOLD_": str(1 << 27)}
"""The C library of GNU keeps the memory of blocks for the next ones (mallopt(3)). It gives that of each back
otherwise, and to get it again takes a fifth of the time of a log that repeats itself."""


def send(out: IO[bytes], data: bytes) -> None:
    """Send one block; an empty one tells that there are no more.

    Args:
        out: without a buffer.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    for part in (_LENGTH.pack(len(data)), data):
        rest = memoryview(part)
        while rest:
            rest = rest[out.write(rest) :]


def received(pipe: IO[bytes]) -> Generator[bytes, None, None]:
    """The blocks that were sent, with the empty one; of one that breaks off nothing."""
    while True:
        head = pipe.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return
        (size,) = _LENGTH.unpack(head)
        data = [pipe.read(size)]
        if len(data[0]) < size:
            return
        yield data.pop()  # it is not held here while it is worked on
        if not size:
            return


_MOST_SILENT = 10.0
"""Seconds without a byte after which the other process is given up: it was stopped, or cannot go on. To give
up one that was only slow costs time and no result."""


class _InTime(io.RawIOBase):
    """The end of a pipe that is read from. It is at its end where nothing comes for so long.

    Args:
        handle: of the pipe, which this closes.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._waiting = select.poll()
        self._waiting.register(handle, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._waiting.poll(_MOST_SILENT * 1e3):
            return 0
        return os.readv(self._handle, [buffer])

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()


class Served:
    """What another process sends.

    Args:
        code: that it runs, with ``path`` in ``sys.argv[1]`` and ``out``, where it sends to.
    """

    def __init__(self, code: str, path: str) -> None:
        import subprocess  # short logs are read without it

        ours, theirs = os.pipe()
        if sys.platform == "linux":
            import fcntl

            with contextlib.suppress(OSError):  # all that this user may have is taken
                fcntl.fcntl(theirs, _SET_SIZE, _HOLDS)
        self._pipe = io.BufferedReader(_InTime(ours), 1 << 16)
        self.process: subprocess.Popen[bytes] | None = None
        """None where no process may be started."""
        begin = f"import os, sys; sys.path[:] = {sys.path!r}; out = os.fdopen(int(sys.argv[2]), 'wb', 0)\n"
        command = [sys.executable, "-c", begin + code, path, str(theirs)]
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **_ALLOCATION},
                pass_fds=(theirs,),
                start_new_session=True,
            )
        os.close(theirs)

    def blocks(self) -> Generator[bytes, None, None]:
        """What was sent; an empty one as the last, unless that process ended before it sent one, or sent
        nothing for ``_MOST_SILENT`` seconds."""
        return received(self._pipe)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._pipe.close()
