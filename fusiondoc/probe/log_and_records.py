"""The probe's output to its parent: the log in true order, and ``records.jsonl``.

Every writer to the single pipe of the log hands over whole lines at once; while a
switch is tried, torch's own warnings are kept out of it, with nothing else that is
printed lost. Records are one JSON object a line, on disk before the next step
begins. The clock counts how long the user's own work took; the rest is fusiondoc's
overhead.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Iterator

from . import NO_MORE_RECORDS

_IOLBF = 1
"""``_IOLBF`` of ``stdio.h`` in glibc, musl and macOS."""


def _libc() -> Any:
    if (
        os.name == "nt"
    ):  # ctypes has no library of the process itself there, and raises TypeError
        raise OSError("no C library")
    return ctypes.CDLL(None)


def line_buffer() -> None:
    """Make C stdout (dumps of kernels, ``printf``, ``std::cout``) and Python's
    streams line-buffered.

    C stdout to a pipe holds back 4 KiB and more, so without this its lines come out
    long after the JIT log on stderr that was written later. Must be called before
    anything is printed through C stdout.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = _libc()
        name = "__stdoutp" if sys.platform == "darwin" else "stdout"
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, name), None, _IOLBF, 0)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def stack_on_death() -> None:
    """Print the Python stack when a signal ends the process: in a crash, or by the
    SIGTERM of a timeout."""
    faulthandler.enable()
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, chain=True)


_dup2 = os.dup2
_FOR_A_WHILE = {
    "is closed": "was closed for a while",
    "goes to " + os.devnull: "went to %s for a while" % os.devnull,
    "goes elsewhere": "went elsewhere for a while",
}


class _Log:
    """The pipe to the log: descriptors 1 and 2 as they were when the probe started,
    and a copy of them."""

    def __init__(self) -> None:
        self._copy = -1
        self._identity: Any = None

    def keep(self) -> None:
        """Remember the targets of descriptors 1 and 2. The copy has a high number:
        programs that become daemons close the low ones, and few go up to the
        limit."""
        self._identity = identity(2)
        if self._identity is None or self._identity != identity(1):
            self._identity = None
            return
        # Imported here: Windows has neither, and the reader of logs, which runs
        # there too, imports this module.
        with contextlib.suppress(ImportError, OSError, ValueError):
            import fcntl
            import resource

            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            if most == resource.RLIM_INFINITY:
                high = 900
            else:
                high = max(3, min(900, most - 16))
            self._copy = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, high)

    def away(self) -> dict[str, str]:
        """Those of ``stdout`` and ``stderr`` that no longer lead to the log, each
        with a phrase for its new target; {} if that is not known."""
        if self._identity is None:
            return {}
        found = {}
        for name, number in _STANDARD:
            found[name] = _whereabouts(number, self._identity)
        return {name: where for name, where in found.items() if where}

    @property
    def descriptor(self) -> int:
        """A descriptor of the log, or -1."""
        if self._identity is None:
            return 2
        for number in (2, 1, self._copy):
            if identity(number) == self._identity:
                return number
        return -1

    @contextlib.contextmanager
    def recorded_when_put_back(self, write: Callable[..., None]) -> Iterator[None]:
        """Context manager: call ``write("redirected", stderr=...)`` when the
        program's ``os.dup2`` restores a descriptor that was redirected for a while.
        Those still redirected at the end are in ``away``."""

        def dup2(*args: Any, **named: Any) -> int:
            before = self.away()
            made = _dup2(*args, **named)
            back = {}
            for name, how in before.items():
                if name not in self.away():
                    back[name] = how
            if back:
                write(
                    "redirected",
                    **{name: _FOR_A_WHILE[how] for name, how in back.items()},
                )
            return made

        os.dup2 = dup2
        try:
            yield
        finally:
            if os.dup2 is dup2:
                os.dup2 = _dup2

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Context manager: descriptors 1 and 2 lead to the log, if a descriptor of
        it is left; then they are restored."""
        away = self.away()
        copy = self.descriptor
        if not away or copy < 0:
            yield
            return
        flush()
        before = {}
        for name, number in _STANDARD:
            if name in away:
                before[number] = copy_of(number)
        for number in before:
            _dup2(copy, number)
        try:
            yield
        finally:
            flush()
            for number, saved in before.items():
                if saved < 0:
                    os.close(number)
                else:
                    _dup2(saved, number)
                    os.close(saved)


_STANDARD = (("stdout", 1), ("stderr", 2))

LOG = _Log()
"""The log of this process."""


def identity(descriptor: int) -> Any:
    """Device and inode of the file behind a descriptor; None if it is closed."""
    try:
        status = os.fstat(descriptor)
    except (OSError, OverflowError):
        return None
    return status.st_dev, status.st_ino


def _whereabouts(number: int, log: Any) -> str | None:
    found = identity(number)
    if found == log:
        return None
    if found is None:
        return "is closed"
    with contextlib.suppress(OSError):
        null = os.stat(os.devnull)
        if found == (null.st_dev, null.st_ino):
            return "goes to " + os.devnull
    return "goes elsewhere"


def above_standard(descriptor: int) -> int:
    """A duplicate with a number above 2: without a stdout the next opened file gets
    its number."""
    low = []
    while descriptor <= 2:
        low.append(descriptor)
        descriptor = os.dup(descriptor)
    for copy in low:
        os.close(copy)
    return descriptor


def copy_of(number: int) -> int:
    """A duplicate of a standard descriptor, or -1 if it is closed."""
    try:
        return above_standard(os.dup(number))
    except OSError:
        return -1


def flush() -> None:
    """Write out the buffers of Python's and C's stdout."""
    for stream in (sys.stdout, sys.stderr):
        # The program may have put anything there.
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        _libc().fflush(None)


def mark(text: str) -> None:
    """Write a line ``[fusiondoc] text`` to the log, after everything printed before
    it."""
    flush()
    # A file that the program has put behind descriptor 2 must not get the mark.
    log = LOG.descriptor
    with contextlib.suppress(OSError):
        if log >= 0:
            os.write(
                log, ("[fusiondoc] %s\n" % text).encode("utf-8", "backslashreplace")
            )


_WATCH = """
import os, sys
word = os.read(0, 1)
if word != b"k":
    with open(sys.argv[1], "rb") as file:
        os.write(2, file.read())
    os.unlink(sys.argv[1])
"""
"""A separate process that waits for the word of success. If its pipe closes without
it, the process that tried the switch has died, and this one writes the kept output
to the real stderr."""

_WARNING = re.compile(rb"^\[W[^\]\n]*\] Warning: (.*?)(?: \(function .*\))?\r?\n?$")


class KeptStderr:
    """Context manager: file descriptor 2 is a temporary file.

    C++ warnings of torch go to the descriptor, not to ``sys.stderr``: ``warnings``
    gives them, and everything else is passed on to the real stderr. If the process
    dies inside the block, a watcher passes all of it on. Where no process can be
    started nothing is redirected, and the warnings are simply printed.
    """

    def __init__(self) -> None:
        self._saved = -1
        self._read_to = 0
        self._path = ""
        self._watcher: Any = None

    def __enter__(self) -> KeptStderr:
        try:
            file, self._path = tempfile.mkstemp(prefix="fusiondoc-stderr-")
        except OSError:
            return self
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCH, self._path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError):
            os.close(file)
            os.unlink(self._path)
            return self
        _flush()
        self._saved = os.dup(2)
        os.dup2(file, 2)
        os.close(file)
        return self

    def warnings(self) -> list[str]:
        """torch's warnings since the last call, without their prefix."""
        if self._saved < 0:
            return []
        _flush()
        with open(self._path, "rb") as file:
            file.seek(self._read_to)
            text = file.read()
        self._read_to += len(text)
        found = []
        for line in text.splitlines(True):
            match = _WARNING.match(line)
            if match is None:
                os.write(self._saved, line)
            else:
                found.append(match.group(1).decode("utf-8", "replace"))
        return found

    def __exit__(self, *error: object) -> None:
        if self._saved < 0:
            return
        self.warnings()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._saved = -1
        self._watcher.stdin.write(b"k")
        self._watcher.stdin.close()
        self._watcher.wait()
        os.unlink(self._path)


def _flush() -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()


class Records:
    """Appends records; each line has left the process when ``write`` returns, even
    if the process is killed afterwards.

    The program may close every descriptor (``os.closerange``), and open files of
    its own under their numbers: the file is written only through a descriptor that
    still leads to it, and else opened again. A full disk ends the records, not the
    user's program; a line of the log, which the parent writes, states it.
    """

    def __init__(self, path: str, process: int | None = None) -> None:
        """``process``: the number of a process that the program started; its
        records include it."""
        self._path = os.path.abspath(path)
        self.process = process
        # A plain number: a file object would close it at its end, when it may be
        # another file's.
        self._file = self._opened()
        self._identity = identity(self._file)
        self._ended = False
        self._why = "closed"

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._path

    def write(self, record: str, **fields: Any) -> None:
        """Write one line ``{"record": record, ...}``. A value that JSON has no form
        for is written as its ``repr``."""
        if self._ended:
            if record == "done":
                self._complain()  # again, as the log's end is searched for it
            return
        if self.process is not None:
            fields["process"] = self.process
        line = json.dumps(dict(record=record, **fields), default=repr)
        try:
            if identity(self._file) != self._identity:
                self._file = self._opened()
                self._identity = identity(self._file)
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._ended = True
            self._why = str(error)
            self._complain()

    def note(self, text: str) -> None:
        """Write a record ``note``: a sentence that the report shows."""
        self.write("note", text=text)

    def _complain(self) -> None:
        with contextlib.suppress(
            Exception
        ):  # the program may have put anything there
            sys.stderr.write("%s %s\n" % (NO_MORE_RECORDS, self._why))

    def close(self) -> None:
        """Stop recording, for a process that continues."""
        self._ended = True
        if identity(self._file) == self._identity:
            os.close(self._file)

    def _opened(self) -> int:
        # Not as a standard descriptor that the program has closed: C++ would write
        # to it.
        return above_standard(
            os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        )


class Clock:
    """``users_seconds``: spent inside ``users_work()``, in work that a run by hand
    needs too (importing torch and the program, scripting, the passes). All other
    time since ``started`` is the probe's own."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.users_seconds = 0.0
        self._depth = 0

    @contextlib.contextmanager
    def users_work(self) -> Iterator[None]:
        began = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.users_seconds += time.perf_counter() - began

    def seconds(self) -> float:
        """Seconds since the first line of the probe."""
        return time.perf_counter() - self.started

    def own_seconds(self) -> float:
        """Seconds of the probe's overhead."""
        return self.seconds() - self.users_seconds
