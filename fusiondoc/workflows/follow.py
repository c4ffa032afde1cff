"""A log that is read while it grows: what it shows is told as it appears, and at its end the full report is
made of what was read, without reading it again.

``parse --follow`` follows the log of any program, ``diagnose --live`` the one of its own run.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Callable, ContextManager, Iterator, Protocol, Sequence

from fusiondoc.captures.probe_records import Environment, LiveRecord
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.growing_logs import Go, GrowingLog, GrowingPipe, check_growing
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import Reading
from fusiondoc.runner.child import Interruptions
from fusiondoc.runner.launch import Progress, ShowProgress
from fusiondoc.runner.remembered import peak_of
from fusiondoc.workflows.load import report_of_logs

_LOOK_SECONDS = 0.1
"""Between two looks at a log that does not grow."""
_SHOW_SECONDS = 0.5
"""Between two times that it is shown, at least."""
_REST_SECONDS = 2.0
"""So long the end of a run waits for the view; the report does not need it."""
_SHARE = 10
"""Working out what to show takes at most one part in so many of the time."""


class View(Protocol):
    """Shows what a log shows so far."""

    def waits(self, path: Path) -> None:
        """The file does not exist yet."""

    def look(self, report: Report) -> None:
        """Groups, fallbacks, kernels and iterations of the lines read so far; no findings and no reasons."""

    def parted(self, text: str) -> None:
        """The log was rotated or truncated, in words."""


class Follower:
    """Reads one log until it is told to stop, until it ends (a pipe), or until it has been quiet for long.

    Args:
        path: None for stdin.
        view: is shown what there is.
        idle: seconds without anything new that end it; None to wait for ever.
        peak: memory bandwidth in GB/s that the user gave.
        stop: asked about ten times a second how to go on.
    """

    def __init__(
        self,
        path: Path | None,
        view: View,
        stop: Callable[[], Go],
        *,
        idle: float | None = None,
        peak: float | None = None,
    ) -> None:
        self._path = path
        self._view = view
        self._stop = stop
        self._idle = idle
        self._given = peak
        self._peak = peak_of(Environment(), None, peak)
        self._reading = Reading()
        self._parts: list[GrowingLog | GrowingPipe] = []
        self._heard = self._shown = time.monotonic()
        self._took = 0.0
        self._seen = 0

    def run(self) -> None:
        """Read.

        Raises:
            UsageError: it cannot be read.
        """
        if self._path is None:
            self._take(GrowingPipe(self._pause))
        else:
            check_growing(self._path)
            while self._is_there(self._path):
                part = GrowingLog(self._path, self._pause)
                self._take(part)
                if part.parted is None:
                    break
                self._view.parted(
                    f"{self._path} was {part.parted.value}; what it holds now is read as its continuation"
                )
        self._reading.close()

    def report(self, source_roots: Sequence[Path] = ()) -> Report:
        """The full report of what was read."""
        logs = self._logs()
        report, observed = self._reading.report([log.name for log in logs], work_out=Reasons())
        return report_of_logs(report, observed, logs, self._given, source_roots)

    def _take(self, part: GrowingLog | GrowingPipe) -> None:
        self._parts.append(part)
        self._reading.take(LogInput(str(self._path), self._path), part.blocks())

    def _logs(self) -> list[LogInput]:
        return [part.now(number) for number, part in enumerate(self._parts)]

    def _is_there(self, path: Path) -> bool:
        told = False
        while not path.exists():
            if not told:
                self._view.waits(path)
                told = True
            if self._pause(True) is not Go.ON:
                return False
        return True

    def _pause(self, quiet: bool) -> Go:
        now = time.monotonic()
        if not quiet:
            self._heard = now
        go = self._stop()
        if go is Go.STOP or (self._idle is not None and now - self._heard >= self._idle):
            return Go.STOP
        if self._reading.lines != self._seen and now - self._shown >= max(_SHOW_SECONDS, _SHARE * self._took):
            self.show()
        if quiet and go is Go.ON:
            time.sleep(_LOOK_SECONDS)
        return go

    def show(self) -> None:
        """Tell the view what there is now."""
        began = time.monotonic()
        self._seen = self._reading.lines
        report, _ = self._reading.report([log.name for log in self._logs()])
        self._view.look(with_speed_of_light(replace(report, peak=self._peak)))
        self._shown = time.monotonic()
        self._took = self._shown - began


_LEVELS = (Go.ON, Go.FINISH, Go.STOP)
"""By how many interruptions came."""


def follow(
    path: Path | None,
    view: View,
    *,
    idle: float | None = None,
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
) -> Report:
    """The report of a log that is followed until an interruption (Ctrl-C, SIGTERM), until it has been
    quiet for ``idle`` seconds, or until the pipe is closed (``path`` None: stdin). After the first
    interruption what is there is read to its end, after the second one not.

    Raises:
        UsageError: it cannot be read.
    """
    with Interruptions() as interruptions:
        follower = Follower(path, view, lambda: _LEVELS[min(2, interruptions.count)], idle=idle, peak=peak)
        follower.run()
    report = follower.report(source_roots)
    view.look(report)
    return report


def live_progress(view: Callable[[str], ContextManager[View]], others: ShowProgress) -> ShowProgress:
    """Shows the first run by following its log, and the further ones as ``others`` does.

    Args:
        view: makes what shows a run of that label, for as long as the block lasts.
    """
    first = [True]

    @contextmanager
    def show(label: str) -> Iterator[Progress | None]:
        if not first:
            with others(label) as progress:
                yield progress
            return
        first.clear()
        with view(label) as made:
            followed = _FollowedRun(made)
            try:
                yield followed
            finally:
                followed.end()

    return show


class _FollowedRun:
    """The log of a run of ours, followed by a thread of its own."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ended: float | None = None
        self._thread: threading.Thread | None = None

    def record(self, record: LiveRecord) -> None:
        """The log says what the records say: iterations are marked in it."""

    def logs_to(self, log: Path) -> None:
        """Start to follow it."""
        follower = Follower(log, self._view, self._go)
        self._thread = threading.Thread(target=self._follow, args=(follower,), daemon=True)
        self._thread.start()

    def _go(self) -> Go:
        if self._ended is None:
            return Go.ON
        return Go.FINISH if time.monotonic() - self._ended < _REST_SECONDS else Go.STOP

    def _follow(self, follower: Follower) -> None:
        try:
            follower.run()
            follower.show()
        except Exception as error:  # the report, which reads the log again, says what is wrong
            self._view.parted(f"the live view ended early: {type(error).__name__}: {error}")

    def end(self) -> None:
        """The run is over: what is left of its log is shown, if that is not too much."""
        self._ended = time.monotonic()
        if self._thread is not None:
            self._thread.join()
