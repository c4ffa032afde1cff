"""A log that is read while it grows: its groups, fallbacks and passes are shown as
they appear (a line for each, and on a terminal a status below), and at its end the
full report is made without reading the log again.

``parse --follow`` follows the log of any program, ``diagnose --live`` the log of
its own run. Groups have no ids until the log is complete.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from fusiondoc.captures.probe_records import Environment, LiveRecord
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.errors import UsageError
from fusiondoc.fusers import FUSER_OF_KIND, fuser_title
from fusiondoc.masking import masked
from fusiondoc.model import count
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.report import Group, Report
from fusiondoc.parsers.lines.growing_logs import (
    Go,
    GrowingLog,
    GrowingPipe,
    check_growing,
    is_pipe,
    is_there,
)
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import Reading
from fusiondoc.rendering.drawing import drawn
from fusiondoc.rendering.printable import one_line
from fusiondoc.rendering.units import size
from fusiondoc.runner import peak_of
from fusiondoc.runner.child import Interruptions
from fusiondoc.runner.launch import Progress, ShowProgress
from fusiondoc.views.formatting import phase_of, runs_of, source_lines
from fusiondoc.workflows.load import report_of_logs

_LOOK_SECONDS = 0.1
"""Seconds between two looks at a log that does not grow."""
_SHOW_SECONDS = 0.5
"""Least seconds between two updates of the view."""
_REST_SECONDS = 2.0
"""Seconds that the end of a run waits for the view; the report does not need it."""
_SHARE = 10
"""The view takes at most one part in so many of the time."""


class View(Protocol):
    """Displays the state of a log that is still being read."""

    def waits(self, path: Path) -> None:
        """The file does not exist yet."""

    def look(self, report: Report) -> None:
        """Groups, fallbacks, kernels and iterations of the lines read so far; no
        findings and no reasons."""

    def interrupted(self, text: str) -> None:
        """The log was rotated or truncated; ``text`` describes it."""


class Follower:
    """Reads one log until it has to stop, until it ends (a pipe), or until it has
    been quiet for long.

    Args:
        path: None for stdin.
        view: displays the state of the log.
        idle: stop after so many seconds without new content; None to wait for ever.
        peak: memory bandwidth in GB/s that the user gave.
        stop: called about ten times a second; returns how to go on.
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
        self._last_read = self._shown = time.monotonic()
        self._took = 0.0
        self._seen = 0

    def run(self) -> None:
        """Read the log. Raises: UsageError: it cannot be read."""
        if self._path is None:
            self._take(GrowingPipe(self._pause))
        else:
            check_growing(self._path)
            while self._is_there(self._path) and self._goes_on(self._path):
                pass
        self._reading.close()

    def _goes_on(self, path: Path) -> bool:
        """Read everything that the path holds now; return True if a continuation
        follows, as the log was rotated or truncated."""
        if is_pipe(path):
            self._take(GrowingPipe(self._pause, path))
            return False
        try:
            part = GrowingLog(path, self._pause)
        except UsageError as error:
            if not self._parts:
                raise
            self._ends(error.message)
            return False
        self._take(part)
        if part.failure is not None:
            self._ends(f"{path} cannot be read any further: {part.failure}")
        elif part.ended is not None:
            self._view.interrupted(
                f"{path} was {part.ended.value}; what it holds now is read as its continuation"
            )
        return part.failure is None and part.ended is not None

    def _ends(self, why: str) -> None:
        """Show why following ends. The text read so far is kept: hours of a run,
        which nobody can read again."""
        self._view.interrupted(
            f"{why}. Following ends here; the report is of what was read before."
        )

    def report(self, source_roots: Sequence[Path] = ()) -> Report:
        """The full report of all that was read."""
        logs = self._logs()
        report, observed = self._reading.report(
            [log.name for log in logs], work_out=Reasons()
        )
        return report_of_logs(report, observed, logs, self._given, source_roots)

    def _take(self, part: GrowingLog | GrowingPipe) -> None:
        self._parts.append(part)
        self._reading.take(LogInput(str(self._path), self._path), part.blocks())

    def _logs(self) -> list[LogInput]:
        return [part.now(number) for number, part in enumerate(self._parts)]

    def _is_there(self, path: Path) -> bool:
        print_line = False
        while not is_there(path):
            if not print_line:
                self._view.waits(path)
                print_line = True
            if self._pause(True) is not Go.ON:
                return False
        return True

    def _pause(self, quiet: bool) -> Go:
        now = time.monotonic()
        if not quiet:
            self._last_read = now
        go = self._stop()
        if go is Go.STOP or (
            self._idle is not None and now - self._last_read >= self._idle
        ):
            return Go.STOP
        if self._reading.lines != self._seen and now - self._shown >= max(
            _SHOW_SECONDS, _SHARE * self._took
        ):
            self.show()
        if quiet and go is Go.ON:
            time.sleep(_LOOK_SECONDS)
        return go

    def show(self) -> None:
        """Show the view the state of the log."""
        began = time.monotonic()
        self._seen = self._reading.lines
        report, _ = self._reading.report([log.name for log in self._logs()])
        self._view.look(with_speed_of_light(replace(report, peak=self._peak)))
        self._shown = time.monotonic()
        self._took = self._shown - began


_LEVELS = (Go.ON, Go.FINISH, Go.STOP)
"""The way to go on, by the number of interruptions."""


def follow(
    path: Path | None,
    view: View,
    *,
    idle: float | None = None,
    peak: float | None = None,
    source_roots: Sequence[Path] = (),
) -> Report:
    """Follow a log and return its report. It is followed until an interruption
    (Ctrl-C, SIGTERM), until it has been quiet for ``idle`` seconds, or until the
    pipe is closed (``path`` None: stdin). After the first interruption the existing
    content is still read to its end; a second one stops at once.

    Raises:
        UsageError: it cannot be read.
    """
    with Interruptions() as interruptions:
        follower = Follower(
            path,
            view,
            lambda: _LEVELS[min(2, interruptions.count)],
            idle=idle,
            peak=peak,
        )
        follower.run()
    report = follower.report(source_roots)
    view.look(report)
    return report


def live_progress(
    view: Callable[[str], AbstractContextManager[View]], others: ShowProgress
) -> ShowProgress:
    """Show the first run by following its log, and further runs as ``others`` does.

    Args:
        view: opens the view of a run from its label; closed when the run ends.
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
    """The log of one of our own runs, followed by a separate thread."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ended: float | None = None
        self._thread: threading.Thread | None = None

    def record(self, record: LiveRecord) -> None:
        """Do nothing: the log itself marks iterations."""

    def logs_to(self, log: Path) -> None:
        """Start to follow it."""
        follower = Follower(log, self._view, self._go)
        self._thread = threading.Thread(
            target=self._follow, args=(follower,), daemon=True
        )
        self._thread.start()

    def _go(self) -> Go:
        if self._ended is None:
            return Go.ON
        if time.monotonic() - self._ended < _REST_SECONDS:
            return Go.FINISH
        return Go.STOP

    def _follow(self, follower: Follower) -> None:
        try:
            follower.run()
            follower.show()
        except (
            Exception
        ) as error:  # the report, which reads the log again, says what is wrong
            self._view.interrupted(
                f"the live view ended early: {type(error).__name__}: {error}"
            )

    def end(self) -> None:
        """The run is over: show the rest of its log, unless it is too much."""
        self._ended = time.monotonic()
        if self._thread is not None:
            self._thread.join()


_MOST_LINES = 12
"""Most lines that one look adds; further ones are only counted."""

_STATUS_SECONDS = 10.0
"""Between two lines with the status, where there is no terminal to keep it on."""

Notify = Callable[[str, str, str], None]


class LiveView:
    """Shows changes since the last look.

    Args:
        name: of the log or the run.
        notify: prints a line: the time, its kind, and the text.
    """

    def __init__(self, name: str, notify: Notify) -> None:
        self.name = name
        self.report: Report | None = None
        """The counts of the last look."""
        self._notify = notify
        self._began = time.monotonic()
        self._groups: Counter[_Key] = Counter()
        self._fallbacks: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """Seconds since the view was made."""
        return time.monotonic() - self._began

    def waits(self, path: Path) -> None:
        """The file does not exist yet."""
        self._print("waiting", f"{path} does not exist yet")

    def interrupted(self, text: str) -> None:
        """The log was rotated or truncated."""
        self._print("log", text)

    def look(self, report: Report) -> None:
        """Show the changes in the log's report."""
        self.report = report
        new = [*self._new_fallbacks(report), *self._new_groups(report)]
        for kind, text in new[:_MOST_LINES]:
            self._print(kind, text)
        if len(new) > _MOST_LINES:
            self._print("", f"and {len(new) - _MOST_LINES:,} more")

    def _new_groups(self, report: Report) -> Iterator[tuple[str, str]]:
        now: Counter[_Key] = Counter()
        rows: dict[_Key, Group] = {}
        for group in report.groups:
            nodes = tuple((node.op, node.source) for node in group.nodes)
            key = _Key(group.kind, group.phase, group.rank, nodes)
            now[key] += group.count
            rows.setdefault(key, group)
        for key, times in (now - self._groups).items():
            group = rows[key]
            text = f"{_operators(group.ops)}, {_where(group)}"
            if key in self._groups:
                yield "group", f"{times} more of {text}"
                continue
            rank = f", rank {group.rank}" if group.rank is not None else ""
            many = f", {times} of them" if times > 1 else ""
            yield (
                "group",
                f"{text} ({FUSER_OF_KIND[group.kind].title}, {phase_of(group)}{rank}{many})",
            )
        for key in self._groups.keys() - now.keys():
            yield (
                "gone",
                f"no plan has this group now: {_operators(op for op, _ in key.nodes)}",
            )
        self._groups = now

    def _new_fallbacks(self, report: Report) -> Iterator[tuple[str, str]]:
        now: Counter[str] = Counter()
        for fallback in report.fallbacks:
            if fallback.error:
                error = masked(fallback.error)
            else:
                error = "the log does not state why"
            now[f"when a group was to {fallback.stage}: {error}"] += fallback.count
        for text, times in now.items():
            before = self._fallbacks[text]
            if times > before and (
                not before or times >= 2 * before
            ):  # a pass each: not a line each
                self._fallbacks[text] = times
                yield "fallback", (f"{times} times, " if times > 1 else "") + text

    def _print(self, kind: str, text: str) -> None:
        self._notify(time.strftime("%H:%M:%S"), kind, one_line(text))

    def status(self) -> list[tuple[str, str]]:
        """Names and texts of the current state."""
        from fusiondoc.views.report_heading import kernels_in_words

        report = self.report
        if report is None:
            return [("read", "nothing about fusion yet")]
        print_line = [
            (
                "read",
                f"{size(report.parse.bytes)}, {count(report.parse.lines, 'line')}",
            )
        ]
        if report.iterations:
            last = report.iterations[-1]
            print_line.append(("pass", f"{last.index}, {last.phase}"))
        if report.fuser.effective:
            name = fuser_title(report.fuser.effective)
        else:
            name = "no fuser"
        each = each_rank(report)
        if each is not None:
            whose, each_log = f"{each.whose}: ", each.report
        else:
            whose, each_log = "", report
        fused, groups = (
            count(each_log.fused_operators, "operator"),
            count(each_log.fusion_groups, "group"),
        )
        groups = f"{whose}{fused} in {groups} ({name})"
        print_line.append(("fused", groups))
        print_line.append(("fell back", count(report.times_fallen_back, "time")))
        if report.kernels:
            print_line.append(("kernels", kernels_in_words(report)))
        return print_line


class _Key(NamedTuple):
    """The part of a group that stays the same while its log grows."""

    kind: str
    phase: str | None
    rank: int | None
    nodes: tuple[tuple[str, str | None], ...]


def _where(group: Group) -> str:
    """The lines of the program, without those of torch's own gradient formulas."""
    own = []
    for node in group.nodes:
        if (node.user_source or node.source or "<")[0] != "<":
            own.append(node)
    if own:
        return source_lines(replace(group, nodes=tuple(own)))
    return "gradient formulas of torch"


def _operators(ops: Iterable[str]) -> str:
    names = runs_of(ops)
    return ", ".join(names[:8]) + (
        f" and {len(names) - 8} more" if len(names) > 8 else ""
    )


class _Lines(LiveView):
    """Without a terminal: prints the status as a line now and then."""

    def __init__(self, name: str, notify: Notify) -> None:
        super().__init__(name, notify)
        self._last = self._printed = ""
        self._when = 0.0

    def look(self, report: Report) -> None:
        super().look(report)
        text = "; ".join(f"{name} {value}" for name, value in self.status())
        if (
            text != self._printed
            and time.monotonic() - self._when >= _STATUS_SECONDS
        ):
            self._printed, self._when = text, time.monotonic()
            self._print("status", text)


_ANY_WIDTH = 100_000
"""Columns: lines for a log file are not broken."""


def _line(parts: Iterable[str]) -> Table:
    """The time, its kind, and the text."""
    table = Table.grid(
        Column(style="dim", width=8),
        Column(style="bold", width=8),
        padding=(0, 2, 0, 0),
    )
    table.add_row(*map(Text, parts))
    return table


@contextmanager
def live_view(name: str, notify: Callable[[str], None]) -> Iterator[LiveView]:
    """Context manager: a view on stderr. on a terminal the status stays below the
    lines and is gone at the end, without a terminal it is a line every ten seconds.
    ``notify`` prints a line where there is no terminal."""
    if not sys.stderr.isatty():
        yield _Lines(
            name,
            lambda *parts: notify(
                drawn(_line(parts), _ANY_WIDTH, colour=False).rstrip("\n")
            ),
        )
        return
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def print_line(*parts: str) -> None:
        console.print(_line(parts))

    def shown() -> Table:
        table = Table.grid(
            Column(style="dim"), Column(overflow="fold"), padding=(0, 2)
        )
        table.add_row(
            f"{view.seconds:.0f} s", Text(one_line(view.name), style="bold")
        )
        for row in view.status():
            table.add_row(row[0], Text(one_line(row[1])))
        return table

    view = LiveView(name, print_line)
    with Live(
        get_renderable=shown, console=console, transient=True, refresh_per_second=4
    ):
        yield view
