"""A child process whose whole output goes to a log through one pipe, which keeps it
in order.

Between fusiondoc and the program stands its supervisor (``supervisor.py``), through
which it is started, signalled and ended.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from fusiondoc.model import dataclass, field
from fusiondoc.runner.capped_log import CappedLog
from fusiondoc.runner.supervisor_order import (
    OtherStart,
    SupervisorOrder,
    SupervisorProcess,
)

_SUPERVISOR_GRACE = 8.0
"""Seconds in which the supervisor may end everything; then it is ended itself."""
_FOLDER = str(Path(__file__).parent)
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); import supervisor;"
    " supervisor.main(int(sys.argv[2]), int(sys.argv[3]))"
)
"""Starts the supervisor as a module, which is compiled only once."""
_SETPIPE_SZ = 1031
"""``F_SETPIPE_SZ`` of Linux; Python names it from 3.10 on."""
_PIPE_BYTES = 1 << 20


class NotStarted(OSError):
    """The command could not be started; ``filename`` is the command or the folder,
    whichever caused it."""


_other_start: OtherStart | None = None


def other_start() -> OtherStart | None:
    """Return the way to start a supervisor that is tried before a new process."""
    return _other_start


def set_other_start(start: OtherStart | None) -> None:
    """Try ``start`` before a supervisor is started as a new process."""
    global _other_start
    _other_start = start


def _start_supervisor(order: SupervisorOrder) -> tuple[SupervisorProcess, int]:
    """Start a supervisor; return its process, and that of its parent."""
    other = _other_start(order) if _other_start is not None else None
    if other is not None:
        return other
    start = [sys.executable or order.command[0], "-I", "-S", "-c", _START, _FOLDER]
    process = subprocess.Popen(
        [*start, str(order.control), str(order.reports)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        start_new_session=True,
        pass_fds=(order.control, order.reports),
    )
    return process, os.getpid()


class Supervised:
    """The supervisor of a child, and its reports. Leaving the block ends the child
    if it still runs.

    ``began`` and ``ended`` are from ``time.perf_counter``; ``status`` is the
    child's exit status, or minus the number of the signal that ended it.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        records: Path | None,
    ) -> None:
        self.status: int | None = None
        self.ended: float | None = None
        self.stopped: int | None = None
        """The signal that stopped it last; it may have continued since."""
        self.finished = False
        """Whether nothing is left of the child, or nothing that can be ended."""
        self._unread = b""
        self._pid: int | None = None
        self._killed: float | None = None
        self.away: Mapping[str, str] = {}
        control, self._control = os.pipe()
        self.reports, reports = os.pipe()
        try:
            order = SupervisorOrder(command, environment, records, control, reports)
            self._process, self._parent = _start_supervisor(order)
        except BaseException:
            os.close(self._control)
            os.close(self.reports)
            raise
        finally:
            os.close(control)
            os.close(reports)
        assert self._process.stdout is not None
        self.pipe = self._process.stdout.fileno()
        self._pipe_name = f"pipe:[{os.fstat(self.pipe).st_ino}]"
        # A child that dumps graphs should not wait for the reader. Imported here:
        # Windows has no fcntl, and the reader of logs, which runs there too,
        # imports this module.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.fcntl(self.pipe, _SETPIPE_SZ, _PIPE_BYTES)
        try:
            self._order(command, environment, cwd, records)
            self._wait_for_start(command, cwd)
        except BaseException:
            self.__exit__()
            raise
        self.began = time.perf_counter()
        self._take(b"")  # a short one may have ended already

    def __enter__(self) -> Supervised:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing this pipe alone makes the supervisor end everything.
        os.close(self._control)
        try:
            self._process.wait(_SUPERVISOR_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.reports)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _order(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        records: Path | None,
    ) -> None:
        texts = [
            str(self._parent),
            str(records or ""),
            str(cwd),
            str(len(command)),
            *command,
        ]
        texts += [f"{name}={value}" for name, value in environment.items()]
        data = b"\0".join(map(os.fsencode, texts))
        with contextlib.suppress(BrokenPipeError):  # reported below
            view = memoryview(b"%d\n" % len(data) + data)
            while view:
                view = view[os.write(self._control, view) :]

    def _wait_for_start(self, command: Sequence[str], cwd: Path) -> None:
        while b"\n" not in self._unread:
            received = os.read(self.reports, 4096)
            if not received:
                printed = (
                    os.read(self.pipe, _PIPE_BYTES)
                    .decode("utf-8", "replace")
                    .strip()
                )
                why = printed.rpartition("\n")[2][:200] or "no message"
                raise NotStarted(
                    0, f"its supervisor did not start: {why}", sys.executable
                )
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        what, *words = line.split()
        if what == b"failed":
            number = int(words[0])
            raise NotStarted(
                number,
                os.strerror(number),
                str(cwd) if words[1] == b"cwd" else command[0],
            )
        self._pid = int(words[0])

    def _take(self, received: bytes) -> None:
        self._unread += received
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            if line.startswith(b"stopped "):
                self.stopped = int(line[8:])
            elif line.startswith(b"ended "):
                self.status = int(line[6:])
                self.ended = time.perf_counter()

    def look(self) -> None:
        """Read the reports of the supervisor; call it when there is something to
        read."""
        received = os.read(self.reports, 4096)
        self._take(received)
        if not received:
            self.finished = True
            if (
                self.ended is None
            ):  # somebody ended the supervisor, and with it the child
                self.status = -signal.SIGKILL
                self._signal_group(signal.SIGKILL)

    def look_at_descriptors(self) -> None:
        """Find out where descriptors 1 and 2 of the child lead: it may end
        (os._exit) before the probe can record it."""
        folder = f"/proc/{self._pid}/fd"
        if self.ended is not None:
            return
        with contextlib.suppress(OSError):  # no /proc, or it is ending
            found = {}
            for name, n in _STANDARD:
                found[name] = _whereabouts(f"{folder}/{n}", self._pipe_name)
            # If a process is ending, all entries disappear at once.
            if os.listdir(folder):  # noqa: PTH208  (names alone are needed, ten times a second)
                self.away = {}
                for name, where in found.items():
                    if where:
                        self.away[name] = where

    def send(self, letter: bytes) -> None:
        """Send a command (``supervisor.py`` lists them)."""
        with contextlib.suppress(OSError):
            os.write(self._control, letter)

    def end(self, now: float) -> None:
        """End everything; call it repeatedly until it is done."""
        if self._killed is None:
            self._killed = now
            self.send(b"k")
        elif now >= self._killed + _SUPERVISOR_GRACE:
            self._process.kill()

    def _signal_group(self, how: signal.Signals) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, how)


_STANDARD = (("stdout", 1), ("stderr", 2))


def _whereabouts(descriptor: str, log: str) -> str | None:
    """The target of a descriptor, in the words of the probe
    (``log_and_records.py``); None for the log."""
    try:
        name = os.readlink(descriptor)  # noqa: PTH115 - its text, no path
    except FileNotFoundError:
        return "is closed"
    if name == log:
        return None
    if name == os.devnull:
        return f"goes to {name}"
    return "goes elsewhere"


_INTERRUPT_GRACE = 3.0
"""Seconds between SIGINT and SIGKILL when the user interrupts."""
_TIMEOUT_GRACE = 2.0
"""Seconds between SIGTERM (the probe prints its stack then) and SIGKILL when the
time is over."""
_REST_GRACE = 1.0
"""Seconds for which the pipe is still read when all processes of the child that can
be ended are gone; another user's process may hold it open for ever."""
_TICK = 0.1


@dataclass
class Ending:
    """How a child ended. ``seconds`` is wall time from its start to its end."""

    exit_status: int | None = None
    signal: str | None = None
    timed_out: bool = False
    interrupted: bool = False
    stopped: str | None = None
    """The signal that had stopped it (SIGSTOP) when its time was over."""
    seconds: float = 0.0
    log_bytes: int = 0
    log_error: OSError | None = None
    """Why the log could not be written any further; the child was stopped then."""
    too_much: bool = False
    """It was stopped because its log reached the limit."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Those of ``stdout`` and ``stderr`` that did not lead to the log at the last
    look (Linux), with their targets."""


class Child:
    """Runs ``command`` under a supervisor (``supervisor.py``), in a session of its
    own, and writes its output to ``log``, byte for byte. Processes that it leaves
    running are ended, also if this process is killed.

    Args: records: a file to which the supervisor adds a line on the processes that
        it had to end. limit: number of bytes of output at which it is stopped; None
        for any number. kept: number of bytes of output that the log keeps
        (``capped_log.py``).
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        log: Path,
        timeout: float,
        records: Path | None = None,
        limit: int | None = None,
        kept: int = 1 << 30,
    ) -> None:
        self._kept = kept
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._log = log
        self._timeout = timeout
        self._records = records
        self._limit = limit

    def run(self, tick: Callable[[], None] | None = None) -> Ending:
        """Start it and wait for its end, for the timeout or for an interruption,
        whichever comes first; then until the processes that it left running have
        ended.

        Args:
            tick: called about ten times a second while it runs.

        Raises:
            NotStarted: the command cannot be started.
            OSError: the log cannot be opened.
        """
        ending = Ending()
        log = CappedLog(self._log, self._kept)
        with Interruptions() as interruptions:
            try:
                with Supervised(
                    self._command, self._environment, self._cwd, self._records
                ) as child:
                    stream = _Stream(child, log, ending)
                    self._follow(child, stream, interruptions, tick)
                ending.away = child.away
                ending.seconds = (child.ended or time.perf_counter()) - child.began
            finally:
                try:
                    log.close()
                except OSError as error:
                    ending.log_error = ending.log_error or error
        if child.status is not None and child.status < 0:
            ending.signal = signal_name(-child.status)
        else:
            ending.exit_status = child.status
        return ending

    def _follow(
        self,
        child: Supervised,
        stream: _Stream,
        interruptions: Interruptions,
        tick: Callable[[], None] | None,
    ) -> None:
        stop = _Stop(
            child,
            stream.ending,
            interruptions,
            child.began + self._timeout,
            self._limit,
        )
        finished: float | None = None
        for quiet in stream.copy():
            if tick is not None:
                tick()
            child.look_at_descriptors()
            now = time.perf_counter()
            if child.finished:
                finished = finished if finished is not None else now
                if quiet or now >= finished + _REST_GRACE:
                    return
                continue
            stop.look(now)


class _Stop:
    """Signals a child to end when fusiondoc is interrupted, when its time is over,
    or when it prints too much; and kills it if it is still there some seconds
    later.

    Args: deadline: end of the child's time, by ``time.perf_counter``. limit: how
        many bytes of output stop it; None for any number.
    """

    def __init__(
        self,
        child: Supervised,
        ending: Ending,
        interruptions: Interruptions,
        deadline: float,
        limit: int | None,
    ) -> None:
        self._child = child
        self._ending = ending
        self._interruptions = interruptions
        self._interruptions_seen = 0
        self._deadline = deadline
        self._limit = limit
        self._kill_at: float | None = None
        """Time of the kill; set once the child is to end."""

    def look(self, now: float) -> None:
        """Check the limits; call it about ten times a second while the child
        runs."""
        if self._interruptions.count > self._interruptions_seen:
            self._interrupted(now)
        elif self._ending.log_error is not None or self._is_too_much():
            self._kill_at = now if self._kill_at is None else self._kill_at
        elif (
            self._kill_at is None
            and self._child.ended is None
            and now >= self._deadline
        ):
            self._timed_out(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._child.end(now)

    def _interrupted(self, now: float) -> None:
        self._ending.interrupted = True
        first = not self._interruptions_seen
        self._interruptions_seen = self._interruptions.count
        if first and self._child.ended is None and self._kill_at is None:
            self._child.send(b"i")
            self._kill_at = now + _INTERRUPT_GRACE
        else:
            self._kill_at = now

    def _timed_out(self, now: float) -> None:
        stopped = self._child.stopped
        self._ending.timed_out = True
        self._ending.stopped = signal_name(stopped) if stopped is not None else None
        self._child.send(b"t")
        self._kill_at = now + _TIMEOUT_GRACE

    def _is_too_much(self) -> bool:
        self._ending.too_much = (
            self._limit is not None and self._ending.log_bytes > self._limit
        )
        return self._ending.too_much


class _Stream:
    """The pipe from the child to the log."""

    def __init__(self, child: Supervised, log: CappedLog, ending: Ending) -> None:
        self._child = child
        self._log = log
        self.ending = ending

    def copy(self) -> Iterator[bool]:
        """Copy for ever. Yields at every tick, and when the supervisor has reported
        something: True if nothing is left in the pipe."""
        child = self._child
        with selectors.DefaultSelector() as selector:
            selector.register(child.pipe, selectors.EVENT_READ)
            selector.register(child.reports, selectors.EVENT_READ)
            last = time.perf_counter()
            while True:
                # If both have ended nothing more will come, and the loop is about
                # to end.
                if selector.get_map():
                    ready = {key.fd for key, _ in selector.select(_TICK)}
                else:
                    ready = set()
                if child.reports in ready:
                    child.look()
                    if child.finished:
                        selector.unregister(child.reports)
                quiet = child.pipe not in ready
                if not quiet:
                    data = os.read(child.pipe, _PIPE_BYTES)
                    if data:
                        self._write(data)
                    else:
                        selector.unregister(child.pipe)
                        quiet = True
                now = time.perf_counter()
                if (
                    quiet
                    or self.ending.log_error is not None
                    or now - last >= _TICK
                ):
                    last = now
                    yield quiet

    def _write(self, data: bytes) -> None:
        try:
            self._log.write(data)
            self.ending.log_bytes = self._log.written
        except OSError as error:
            self.ending.log_error = error


def signal_name(number: int) -> str:
    """Name of a signal, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Interruptions:
    """Context manager: SIGINT, SIGTERM and SIGHUP to fusiondoc are counted instead
    of raising: the child is in a session of its own and would live on, and the
    output read so far would be lost. Outside the main thread, where Python allows
    no handlers, nothing is counted."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
