"""Files written whole or not at all, so that a full disk or a signal never leaves
half of a report; files of others opened if they are regular files, and read within
a bound; and pipes that the user names opened without waiting for ever."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MOST_TEXT = 16 << 20
"""Most bytes of a file written by people: configuration, expectations, sources."""

MOST_WAIT = 10.0
"""Seconds to wait for somebody to open the other end of a named pipe."""

_OF_THE_KERNEL = ("/proc/", "/sys/")


def open_regular(path: Path, buffering: int = -1) -> IO[bytes]:
    """Open a regular file for reading. Use it for every file that somebody else may
    have named or created: in a capture, a folder of logs or reports, a project. It
    neither waits (a pipe) nor reads without end (a device, ``/proc/kmsg``), even if
    such a file replaces the regular file meanwhile.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    must_be_regular(
        path.stat(), path
    )  # before: to open a device can be more than to read it
    handle = os.open(path, _READ)
    try:
        must_be_regular(os.fstat(handle), path)
        refuse_endless(handle, path)
        return os.fdopen(handle, "rb", buffering)
    except BaseException:
        os.close(handle)
        raise


_READ = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def must_be_regular(status: os.stat_result, path: Path) -> None:
    """Refuse a file that is not regular by its ``stat`` result.

    Raises:
        OSError: it is not regular; the text names its kind.
    """
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = _KINDS.get(kind, "something else")
        raise OSError(errno.EINVAL, f"it is {what}, not a regular file", str(path))


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def read_within(path: Path, most: int = MOST_TEXT) -> bytes:
    """Read a file with ``open_regular``. Raises: OSError: it cannot be read, is
    larger than ``most`` bytes, or is no regular file."""
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    return data


def open_given(path: Path) -> IO[bytes]:
    """Open a log (a file or a pipe) that the user named directly, for reading and
    without a buffer. Reads wait on a pipe that is open at its other end, as in
    every program.

    Raises:
        OSError: it cannot be read; nobody opened the other end within ``MOST_WAIT`` seconds; it is neither
            file nor pipe; it is a file of the kernel, of which some never end (``/proc/kmsg``).
    """
    if stat.S_ISFIFO(path.stat().st_mode):
        return _open_pipe(path, "rb")
    file = os.fdopen(os.open(path, _READ), "rb", buffering=0)
    try:
        refuse_endless(file.fileno(), path)
    except OSError:
        file.close()
        raise
    return file


def refuse_endless(handle: int, path: Path) -> None:
    """Refuse an open file that may have no end: a device (but for a terminal and
    ``/dev/null``), or a file of the kernel.

    Raises:
        OSError: it may have no end.
    """
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        if status.st_size == 0 and _name_of(handle, path).startswith(
            _OF_THE_KERNEL
        ):
            raise OSError(
                errno.EINVAL,
                "it is a file of the kernel, which may never end",
                str(path),
            )
    elif stat.S_ISCHR(status.st_mode):
        if (
            os.isatty(handle)
            or os.name == "nt"
            or status.st_rdev == Path(os.devnull).stat().st_rdev
        ):
            return
        raise OSError(
            errno.EINVAL, "it is a device, which may never end", str(path)
        )
    elif not stat.S_ISFIFO(status.st_mode) and not stat.S_ISSOCK(status.st_mode):
        raise OSError(errno.EINVAL, "it is neither a file nor a pipe", str(path))


def _name_of(handle: int, path: Path) -> str:
    """The name of the open file: ``path`` may lead to another file by now."""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - its text, no path
    except OSError:  # no such folder here
        return os.path.realpath(path)


def _open_pipe(path: Path, mode: str) -> IO[bytes]:
    """Open a named pipe. Opening ends when somebody opens its other end; nothing
    but that end can cut it short."""
    import threading

    opened: list[IO[bytes]] = []
    failed: list[OSError] = []

    def wait() -> None:
        try:
            opened.append(path.open(mode, buffering=0 if mode == "rb" else -1))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(MOST_WAIT)
    if failed:
        raise failed[0]
    if not opened:
        other = os.O_WRONLY if mode == "rb" else os.O_RDONLY
        with contextlib.suppress(OSError):  # the thread's own end lets go of it
            os.close(os.open(path, other | os.O_NONBLOCK))
            thread.join(1)
            for file in opened:
                file.close()
        raise OSError(
            errno.ETIMEDOUT,
            f"nobody opened the other end of this pipe within {MOST_WAIT:g} s",
            str(path),
        )
    return opened[0]


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to a file as ``whole_file`` does.

    Raises:
        OSError: it cannot be written; then the old file is as it was.
    """
    with whole_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Context manager: a temporary file to write to, which replaces ``path`` when
    the block ends and all of it is on disk.

    A link is followed: the file that it leads to changes. The permissions of a file
    that already exists stay. A path that is no regular file (``/dev/stdout``, a
    pipe) is written to directly; a pipe only if a reader opens it within
    ``MOST_WAIT`` seconds.

    Raises: OSError: it cannot be written; then the old file is as it was, as after
        any exception of the block.
    """
    mode = None
    if path.exists():
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            with (
                _open_pipe(path, "wb")
                if stat.S_ISFIFO(status.st_mode)
                else path.open("wb") as file
            ):
                yield file
            return
        if not os.access(path, os.W_OK):
            raise PermissionError(13, os.strerror(13), str(path))
        mode = stat.S_IMODE(status.st_mode)
    import tempfile  # every command imports this module; only some write

    real = Path(os.path.realpath(path))
    handle, name = tempfile.mkstemp(
        dir=str(real.parent), prefix=f".{real.name[:40]}.", suffix=".part"
    )
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


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Context manager for reading a file and writing it again, while no other
    process does so for a file of the same folder: concurrent jobs do not lose each
    other's changes.

    Waits at most ``MOST_WAIT`` seconds. Where folders cannot be locked (Windows,
    some network file systems) it does not wait at all.
    """
    try:
        import fcntl

        handle = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + MOST_WAIT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.01)
                    continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(handle)


def _usual_mode() -> int:
    """The default permissions of a new file."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
