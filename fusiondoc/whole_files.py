"""Files written whole or not at all, so that a full disk or a signal never leaves half of a report; and files
of others read within a bound."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO, Iterator

MOST_TEXT = 16 << 20
"""Bytes of a file that people write: configuration, expectations, sources."""


def read_within(path: Path, most: int = MOST_TEXT) -> bytes:
    """The content of a regular file that somebody else may have named, or put there: a device without an end
    fills no memory, and nothing is waited for (a pipe, ``/proc/kmsg``).

    Raises:
        OSError: it cannot be read, is larger than ``most`` bytes, or is no regular file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return data


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to a file as ``whole_file`` does.

    Raises:
        OSError: it cannot be written; then the old file is as it was.
    """
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file beside ``path`` to be written, put in its place when the block ends and all of it is on disk.

    A link is followed: the file that it leads to changes. The permissions of a file that already exists stay.
    What is no regular file (``/dev/stdout``, a pipe) is written to directly.

    Raises:
        OSError: it cannot be written; then the old file is as it was, as after any exception of the block.
    """
    mode = None
    if path.exists():
        told = path.stat()
        if not stat.S_ISREG(told.st_mode):
            with path.open("wb") as file:
                yield file
            return
        if not os.access(path, os.W_OK):
            raise PermissionError(13, os.strerror(13), str(path))
        mode = stat.S_IMODE(told.st_mode)
    import tempfile  # every command imports this module; only some write

    real = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(dir=str(real.parent), prefix=f".{real.name[:40]}.", suffix=".part")
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.chmod(mode if mode is not None else _usual_mode())
        beside.replace(real)
    except BaseException:
        beside.unlink()
        raise


def _usual_mode() -> int:
    """The permissions of a file that open() makes."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
