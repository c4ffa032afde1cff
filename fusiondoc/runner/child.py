"""A child process whose whole output goes to a log through one pipe, so that its order is the true one."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
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
ORPHANS_GRACE = 1.0
"""Seconds after the child's end in which what is in the pipe is still read; processes that it left behind
may write into it for ever."""
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


class Child:
    """Runs ``command`` in a session of its own and writes what it prints to ``log``, byte for byte."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: Path, log: Path, timeout: float
    ) -> None:
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._log = log
        self._timeout = timeout

    def run(self, tick: Callable[[], None] | None = None) -> Ending:
        """Start it and wait for its end, for the timeout or for an interruption, whichever comes first.

        Args:
            tick: called about ten times a second while it runs.

        Raises:
            OSError: the log cannot be opened or the command cannot be started.
        """
        ending = Ending()
        with self._log.open("ab", buffering=0) as log, Interruptions() as interruptions:
            began = time.perf_counter()
            process = self._start()
            assert process.stdout is not None
            with process.stdout as pipe:
                stream = _Stream(pipe.fileno(), log.fileno(), ending)
                self._follow(process, stream, interruptions, tick, began + self._timeout)
            ending.seconds = time.perf_counter() - began
        status = process.returncode
        if status is not None and status < 0:
            ending.signal = signal_name(-status)
        else:
            ending.exit_status = status
        return ending

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            self._command,
            env=dict(self._environment),
            cwd=str(self._cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        assert process.stdout is not None
        # A child that dumps graphs should not wait for the reader. Imported here: Windows has no fcntl, and
        # what reads logs there imports this module too.
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.fcntl(process.stdout.fileno(), _SETPIPE_SZ, _PIPE_BYTES)
        return process

    def _follow(
        self,
        process: subprocess.Popen[bytes],
        stream: _Stream,
        interruptions: Interruptions,
        tick: Callable[[], None] | None,
        deadline: float,
    ) -> None:
        ending = stream.ending
        ended: float | None = None
        for quiet in stream.copy():
            if tick is not None:
                tick()
            if ending.log_error is not None:
                _stop(process, stream, interruptions, signal.SIGKILL, 0)
            elif interruptions.count:
                ending.interrupted = True
                _stop(process, stream, interruptions, signal.SIGINT, INTERRUPT_GRACE)
            elif process.poll() is not None:
                ended = ended if ended is not None else time.perf_counter()
                if not quiet and time.perf_counter() < ended + ORPHANS_GRACE:
                    continue
            elif time.perf_counter() >= deadline:
                ending.timed_out = True
                _stop(process, stream, interruptions, signal.SIGTERM, TIMEOUT_GRACE)
            else:
                continue
            return


class _Stream:
    """The pipe from the child to the log."""

    def __init__(self, pipe: int, log: int, ending: Ending) -> None:
        self._pipe = pipe
        self._log = log
        self.ending = ending

    def copy(self) -> Iterator[bool]:
        """Copy for ever; yields every tick whether it was quiet: nothing is left in the pipe now."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            last = time.perf_counter()
            while True:
                quiet = not selector.select(_TICK)
                if not quiet:
                    data = os.read(self._pipe, _PIPE_BYTES)
                    if not data:
                        break
                    self._write(data)
                now = time.perf_counter()
                if quiet or self.ending.log_error is not None or now - last >= _TICK:
                    last = now
                    yield quiet
        # Every writer is gone: the process is about to end, or goes on without output.
        while True:
            yield True
            time.sleep(0.005)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._log, view)
                self.ending.log_bytes += written
                view = view[written:]
        except OSError as error:
            self.ending.log_error = error


def _stop(
    process: subprocess.Popen[bytes],
    stream: _Stream,
    interruptions: Interruptions,
    how: signal.Signals,
    grace: float,
) -> None:
    """Signal the whole group, keep what it still prints, kill what is left after ``grace`` seconds or at the
    next interruption."""
    if process.poll() is None:
        _signal_group(process.pid, how)
    before = interruptions.count
    deadline = time.perf_counter() + grace
    for quiet in stream.copy():
        if (quiet and process.poll() is not None) or time.perf_counter() >= deadline:
            break
        if interruptions.count > before:
            break
    # Also what the child itself started: its end must not leave workers behind.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


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
