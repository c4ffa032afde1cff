"""A child process whose whole output goes to a log through one pipe, so that its order is the true one."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, Sequence

INTERRUPT_GRACE = 3.0
"""Seconds between SIGINT and SIGKILL when the user interrupts."""
TIMEOUT_GRACE = 2.0
"""Seconds between SIGTERM (the probe prints its stack then) and SIGKILL when the time is over."""
REST_GRACE = 1.0
"""Seconds in which what is in the pipe is still read when nothing is left of the child that could be ended;
another user's process may hold it open for ever."""
SUPERVISOR_GRACE = 8.0
"""Seconds that the supervisor has to end everything; then it is ended itself."""
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_TICK = 0.1
_SETPIPE_SZ = 1031
"""``F_SETPIPE_SZ`` of Linux; Python names it from 3.10 on."""
_PIPE_BYTES = 1 << 20


@dataclass
class Ending:
    """How a child ended. ``seconds`` is wall time from its start to its end."""

    exit_status: int | None = None
    signal: str | None = None
    timed_out: bool = False
    interrupted: bool = False
    seconds: float = 0.0
    log_bytes: int = 0
    log_error: OSError | None = None
    """Why the log could not be written on; the child was stopped then."""
    too_much: bool = False
    """It was stopped because its log reached the limit."""


class NotStarted(OSError):
    """The command could not be started; ``filename`` is what could not be used: it, or the folder."""


class Child:
    """Runs ``command`` under a supervisor (``supervisor.py``), in a session of its own, and writes what it
    prints to ``log``, byte for byte. What it leaves running is ended, also if this process is killed.

    Args:
        records: a file to which the supervisor adds a line on the processes that it had to end.
        limit: how many bytes of output stop it; None for any number.
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
    ) -> None:
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._log = log
        self._timeout = timeout
        self._records = records
        self._limit = limit

    def run(self, tick: Callable[[], None] | None = None) -> Ending:
        """Start it and wait for its end, for the timeout or for an interruption, whichever comes first; and
        until what it left running has ended.

        Args:
            tick: called about ten times a second while it runs.

        Raises:
            NotStarted: the command cannot be started.
            OSError: the log cannot be opened.
        """
        ending = Ending()
        with self._log.open("ab", buffering=0) as log, Interruptions() as interruptions:
            with _Supervised(self._command, self._environment, self._cwd, self._records) as child:
                stream = _Stream(child, log.fileno(), ending)
                self._follow(child, stream, interruptions, tick)
            ending.seconds = (child.ended or time.perf_counter()) - child.began
        if child.status is not None and child.status < 0:
            ending.signal = signal_name(-child.status)
        else:
            ending.exit_status = child.status
        return ending

    def _follow(
        self,
        child: _Supervised,
        stream: _Stream,
        interruptions: Interruptions,
        tick: Callable[[], None] | None,
    ) -> None:
        ending = stream.ending
        deadline = child.began + self._timeout
        asked: float | None = None
        """When it is to be ended, once it has been asked to end."""
        seen = 0
        finished: float | None = None
        for quiet in stream.copy():
            if tick is not None:
                tick()
            now = time.perf_counter()
            if child.finished:
                finished = finished if finished is not None else now
                if quiet or now >= finished + REST_GRACE:
                    return
                continue
            if interruptions.count > seen:
                ending.interrupted = True
                first, seen = not seen, interruptions.count
                if first and child.ended is None and asked is None:
                    child.send(b"i")
                    asked = now + INTERRUPT_GRACE
                else:
                    asked = now
            elif ending.log_error is not None or self._is_too_much(ending):
                asked = now if asked is None else asked
            elif asked is None and child.ended is None and now >= deadline:
                ending.timed_out = True
                child.send(b"t")
                asked = now + TIMEOUT_GRACE
            if asked is not None and now >= asked:
                child.end(now)

    def _is_too_much(self, ending: Ending) -> bool:
        ending.too_much = self._limit is not None and ending.log_bytes > self._limit
        return ending.too_much


class _Supervised:
    """The supervisor of a child, and what it has told. Leaving the block ends the child if it still runs.

    ``began`` and ``ended`` are of ``time.perf_counter``; ``status`` is that of the child, minus the number of
    a signal that ended it.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, records: Path | None
    ) -> None:
        self.status: int | None = None
        self.ended: float | None = None
        self.finished = False
        """Nothing is left of the child, or nothing that can be ended."""
        self._said = b""
        self._pid: int | None = None
        self._killed: float | None = None
        control, self._control = os.pipe()
        self.told, told = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable or command[0], "-I", "-S", str(_SUPERVISOR), str(control), str(told)],
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
        # A child that dumps graphs should not wait for the reader. Imported here: Windows has no fcntl, and
        # what reads logs there imports this module too.
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

    def __enter__(self) -> _Supervised:
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
                raise NotStarted(0, "its supervisor did not start", sys.executable)
            self._said += said
        line, _, self._said = self._said.partition(b"\n")
        what, *words = line.split()
        if what == b"failed":
            number = int(words[0])
            raise NotStarted(number, os.strerror(number), str(cwd) if words[1] == b"cwd" else command[0])
        self._pid = int(words[0])

    def look(self) -> None:
        """Read what the supervisor told; to be called when there is something to read."""
        said = os.read(self.told, 4096)
        self._said += said
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            if line.startswith(b"ended "):
                self.status = int(line[6:])
                self.ended = time.perf_counter()
        if not said:
            self.finished = True
            if self.ended is None:  # somebody ended the supervisor, and with it the child
                self.status = -signal.SIGKILL
                self._signal_group(signal.SIGKILL)

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


class _Stream:
    """The pipe from the child to the log."""

    def __init__(self, child: _Supervised, log: int, ending: Ending) -> None:
        self._child = child
        self._log = log
        self.ending = ending

    def copy(self) -> Iterator[bool]:
        """Copy for ever; yields every tick, and when the supervisor has told something, whether it was quiet:
        nothing is left in the pipe now."""
        child = self._child
        with selectors.DefaultSelector() as selector:
            selector.register(child.pipe, selectors.EVENT_READ)
            selector.register(child.told, selectors.EVENT_READ)
            last = time.perf_counter()
            while True:
                # With both at their end nothing more will come: the loop is about to be left.
                ready = {key.fd for key, _ in selector.select(_TICK)} if selector.get_map() else set()
                if child.told in ready:
                    child.look()
                    if child.finished:
                        selector.unregister(child.told)
                quiet = child.pipe not in ready
                if not quiet:
                    data = os.read(child.pipe, _PIPE_BYTES)
                    if data:
                        self._write(data)
                    else:
                        selector.unregister(child.pipe)
                        quiet = True
                now = time.perf_counter()
                if quiet or self.ending.log_error is not None or now - last >= _TICK:
                    last = now
                    yield quiet

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._log, view)
                self.ending.log_bytes += written
                view = view[written:]
        except OSError as error:
            self.ending.log_error = error


def signal_name(number: int) -> str:
    """Such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Interruptions:
    """Inside the block SIGINT, SIGTERM and SIGHUP to fusiondoc are counted instead of raising: the child is
    in a session of its own and would live on, and what has been read from it would be lost. Outside the
    main thread, where Python allows no handlers, nothing is counted."""

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
