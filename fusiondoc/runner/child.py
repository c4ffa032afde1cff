"""A child process whose whole output goes to a log through one pipe, so that its order is the true one."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, Sequence

from fusiondoc.model.quick_dataclass import dataclass, field
from fusiondoc.runner.capped_log import CappedLog
from fusiondoc.runner.supervised import PIPE_BYTES, Supervised

INTERRUPT_GRACE = 3.0
"""Seconds between SIGINT and SIGKILL when the user interrupts."""
TIMEOUT_GRACE = 2.0
"""Seconds between SIGTERM (the probe prints its stack then) and SIGKILL when the time is over."""
REST_GRACE = 1.0
"""Seconds in which what is in the pipe is still read when nothing is left of the child that could be ended;
another user's process may hold it open for ever."""
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
    """Why the log could not be written on; the child was stopped then."""
    too_much: bool = False
    """It was stopped because its log reached the limit."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Which of ``stdout`` and ``stderr`` did not lead to the log at the last look (Linux), and where."""


class Child:
    """Runs ``command`` under a supervisor (``supervisor.py``), in a session of its own, and writes what it
    prints to ``log``, byte for byte. What it leaves running is ended, also if this process is killed.

    Args:
        records: a file to which the supervisor adds a line on the processes that it had to end.
        limit: how many bytes of output stop it; None for any number.
        kept: how many bytes of output the log keeps (``capped_log.py``).
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
        """Start it and wait for its end, for the timeout or for an interruption, whichever comes first; and
        until what it left running has ended.

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
                with Supervised(self._command, self._environment, self._cwd, self._records) as child:
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
        ending = stream.ending
        deadline = child.began + self._timeout
        asked: float | None = None
        """When it is to be ended, once it has been asked to end."""
        seen = 0
        finished: float | None = None
        for quiet in stream.copy():
            if tick is not None:
                tick()
            child.look_at_descriptors()
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
                ending.stopped = signal_name(child.stopped) if child.stopped is not None else None
                child.send(b"t")
                asked = now + TIMEOUT_GRACE
            if asked is not None and now >= asked:
                child.end(now)

    def _is_too_much(self, ending: Ending) -> bool:
        ending.too_much = self._limit is not None and ending.log_bytes > self._limit
        return ending.too_much


class _Stream:
    """The pipe from the child to the log."""

    def __init__(self, child: Supervised, log: CappedLog, ending: Ending) -> None:
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
                    data = os.read(child.pipe, PIPE_BYTES)
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
        try:
            self._log.write(data)
            self.ending.log_bytes = self._log.written
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
