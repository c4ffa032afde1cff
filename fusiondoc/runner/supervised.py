"""A process under its supervisor (``supervisor.py``), as fusiondoc sees it: started, signalled, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Mapping, Sequence

SUPERVISOR_GRACE = 8.0
"""Seconds that the supervisor has to end everything; then it is ended itself."""
_FOLDER = str(Path(__file__).parent)
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import supervisor;"
    " supervisor.main(int(sys.argv[2]), int(sys.argv[3]))"
)
"""As a module it is compiled once."""
_SETPIPE_SZ = 1031
"""``F_SETPIPE_SZ`` of Linux; Python names it from 3.10 on."""
PIPE_BYTES = 1 << 20


class NotStarted(OSError):
    """The command could not be started; ``filename`` is what could not be used: it, or the folder."""


class Supervised:
    """The supervisor of a child, and what it has told. Leaving the block ends the child if it still runs.

    ``began`` and ``ended`` are of ``time.perf_counter``; ``status`` is that of the child, minus the number of
    a signal that ended it.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, records: Path | None
    ) -> None:
        self.status: int | None = None
        self.ended: float | None = None
        self.stopped: int | None = None
        """The signal that stopped it last; it may have gone on since."""
        self.finished = False
        """Nothing is left of the child, or nothing that can be ended."""
        self._said = b""
        self._pid: int | None = None
        self._killed: float | None = None
        self.away: Mapping[str, str] = {}
        control, self._control = os.pipe()
        self.told, told = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable or command[0], "-I", "-S", "-c", _START, _FOLDER, str(control), str(told)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
                pass_fds=(control, told),
            )
        except BaseException:
            os.close(self._control)
            os.close(self.told)
            raise
        finally:
            os.close(control)
            os.close(told)
        assert self._process.stdout is not None
        self.pipe = self._process.stdout.fileno()
        self._pipe_name = f"pipe:[{os.fstat(self.pipe).st_ino}]"
        # A child that dumps graphs should not wait for the reader. Imported here: Windows has no fcntl, and
        # what reads logs there imports this module too.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.fcntl(self.pipe, _SETPIPE_SZ, PIPE_BYTES)
        try:
            self._order(command, environment, cwd, records)
            self._wait_for_start(command, cwd)
        except BaseException:
            self.__exit__()
            raise
        self.began = time.perf_counter()
        self._hear(b"")  # a short one may have ended already

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_: object) -> None:
        # The end of this pipe alone makes the supervisor end everything.
        os.close(self._control)
        try:
            self._process.wait(SUPERVISOR_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.told)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _order(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, records: Path | None
    ) -> None:
        texts = [str(os.getpid()), str(records or ""), str(cwd), str(len(command)), *command]
        texts += [f"{name}={value}" for name, value in environment.items()]
        data = b"\0".join(map(os.fsencode, texts))
        with contextlib.suppress(BrokenPipeError):  # told below
            view = memoryview(b"%d\n" % len(data) + data)
            while view:
                view = view[os.write(self._control, view) :]

    def _wait_for_start(self, command: Sequence[str], cwd: Path) -> None:
        while b"\n" not in self._said:
            said = os.read(self.told, 4096)
            if not said:
                printed = os.read(self.pipe, PIPE_BYTES).decode("utf-8", "replace").strip()
                why = printed.rpartition("\n")[2][:200] or "it said nothing"
                raise NotStarted(0, f"its supervisor did not start: {why}", sys.executable)
            self._said += said
        line, _, self._said = self._said.partition(b"\n")
        what, *words = line.split()
        if what == b"failed":
            number = int(words[0])
            raise NotStarted(number, os.strerror(number), str(cwd) if words[1] == b"cwd" else command[0])
        self._pid = int(words[0])

    def _hear(self, said: bytes) -> None:
        self._said += said
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            if line.startswith(b"stopped "):
                self.stopped = int(line[8:])
            elif line.startswith(b"ended "):
                self.status = int(line[6:])
                self.ended = time.perf_counter()

    def look(self) -> None:
        """Read what the supervisor told; to be called when there is something to read."""
        said = os.read(self.told, 4096)
        self._hear(said)
        if not said:
            self.finished = True
            if self.ended is None:  # somebody ended the supervisor, and with it the child
                self.status = -signal.SIGKILL
                self._signal_group(signal.SIGKILL)

    def look_at_descriptors(self) -> None:
        """See where 1 and 2 of the child lead: it may end (os._exit) before the probe can tell."""
        folder = f"/proc/{self._pid}/fd"
        if self.ended is not None:
            return
        with contextlib.suppress(OSError):  # no /proc, or it is ending
            found = {name: _whereabouts(f"{folder}/{n}", self._pipe_name) for name, n in _STANDARD}
            # Of a process that ends all are gone at once.
            if os.listdir(folder):  # noqa: PTH208  (names alone are needed, ten times a second)
                self.away = {name: where for name, where in found.items() if where}

    def send(self, letter: bytes) -> None:
        """A command (``supervisor.py`` has them)."""
        with contextlib.suppress(OSError):
            os.write(self._control, letter)

    def end(self, now: float) -> None:
        """End everything; repeated until it is done."""
        if self._killed is None:
            self._killed = now
            self.send(b"k")
        elif now >= self._killed + SUPERVISOR_GRACE:
            self._process.kill()

    def _signal_group(self, how: signal.Signals) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, how)


_STANDARD = (("stdout", 1), ("stderr", 2))


def _whereabouts(descriptor: str, log: str) -> str | None:
    """Where it leads, in the words of the probe (``log_and_records.py``); None for the log."""
    try:
        name = os.readlink(descriptor)
    except FileNotFoundError:
        return "is closed"
    if name == log:
        return None
    return f"goes to {name}" if name == os.devnull else "goes elsewhere"
