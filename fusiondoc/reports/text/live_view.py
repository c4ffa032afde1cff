"""What a log that grows shows so far: a line for each thing that appears, and on a terminal a status below.

Groups have no ids here: they get them when the log is complete.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Callable, Iterable, Iterator, NamedTuple

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from fusiondoc.masking import masked
from fusiondoc.model.fusers import FUSER_OF_KIND, fuser_title
from fusiondoc.model.numbers import count
from fusiondoc.model.report import Group, Report
from fusiondoc.reports.printable import one_line
from fusiondoc.reports.text import drawn
from fusiondoc.reports.text.kernel_listing import source_lines
from fusiondoc.reports.wording import phase_of, runs_of, size

_MOST_LINES = 12
"""Lines a look adds; the rest is counted."""

_STATUS_SECONDS = 10.0
"""Between two lines with the status, where there is no terminal to keep it on."""

Tell = Callable[[str, str, str], None]


class LiveView:
    """Tells what is new since the last look.

    Args:
        name: of the log or the run.
        tell: prints a line: the time, what kind of thing it tells, and the text.
    """

    def __init__(self, name: str, tell: Tell) -> None:
        self.name = name
        self.report: Report | None = None
        """Of the last look."""
        self._tell = tell
        self._began = time.monotonic()
        self._groups: Counter[_Key] = Counter()
        self._fallbacks: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """Since the view was made."""
        return time.monotonic() - self._began

    def waits(self, path: Path) -> None:
        """The file does not exist yet."""
        self._say("waiting", f"{path} does not exist yet")

    def parted(self, text: str) -> None:
        """The log was rotated or truncated."""
        self._say("log", text)

    def look(self, report: Report) -> None:
        """The log shows this now."""
        self.report = report
        new = [*self._new_fallbacks(report), *self._new_groups(report)]
        for kind, text in new[:_MOST_LINES]:
            self._say(kind, text)
        if len(new) > _MOST_LINES:
            self._say("", f"and {len(new) - _MOST_LINES:,} more")

    def _new_groups(self, report: Report) -> Iterator[tuple[str, str]]:
        now: Counter[_Key] = Counter()
        rows: dict[_Key, Group] = {}
        for group in report.groups:
            nodes = tuple((one.op, one.source) for one in group.nodes)
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
            yield "group", f"{text} ({FUSER_OF_KIND[group.kind].title}, {phase_of(group)}{rank}{many})"
        for key in self._groups.keys() - now.keys():
            yield "gone", f"no plan has this group now: {_operators(op for op, _ in key.nodes)}"
        self._groups = now

    def _new_fallbacks(self, report: Report) -> Iterator[tuple[str, str]]:
        now: Counter[str] = Counter()
        for one in report.fallbacks:
            error = masked(one.error) if one.error else "the log does not say why"
            now[f"when a group was to {one.stage}: {error}"] += one.count
        for text, times in now.items():
            before = self._fallbacks[text]
            if times > before and (not before or times >= 2 * before):  # a pass each: not a line each
                self._fallbacks[text] = times
                yield "fallback", (f"{times} times, " if times > 1 else "") + text

    def _say(self, kind: str, text: str) -> None:
        self._tell(time.strftime("%H:%M:%S"), kind, one_line(text))

    def status(self) -> list[tuple[str, str]]:
        """Names and texts of what is known now."""
        from fusiondoc.reports.text.screen import kernels_in_words

        report = self.report
        if report is None:
            return [("read", "nothing about fusion yet")]
        told = [("read", f"{size(report.parse.bytes)}, {count(report.parse.lines, 'line')}")]
        if report.iterations:
            last = report.iterations[-1]
            told.append(("pass", f"{last.index}, {last.phase}"))
        name = fuser_title(report.fuser.effective) if report.fuser.effective else "no fuser"
        groups = (
            f"{count(report.fused_operators, 'operator')} in {count(report.fusion_groups, 'group')} ({name})"
        )
        told.append(("fused", groups))
        told.append(("fell back", count(sum(one.count for one in report.fallbacks), "time")))
        if report.kernels:
            told.append(("kernels", kernels_in_words(report)))
        return told


class _Key(NamedTuple):
    """What stays the same of a group while its log grows."""

    kind: str
    phase: str | None
    rank: int | None
    nodes: tuple[tuple[str, str | None], ...]


def _where(group: Group) -> str:
    """The lines of the program, without those of torch's own gradient formulas."""
    own = tuple(node for node in group.nodes if (node.user_source or node.source or "<")[0] != "<")
    return source_lines(replace(group, nodes=own)) if own else "gradient formulas of torch"


def _operators(ops: Iterable[str]) -> str:
    names = runs_of(ops)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class _Lines(LiveView):
    """Without a terminal: the status as a line now and then."""

    def __init__(self, name: str, tell: Tell) -> None:
        super().__init__(name, tell)
        self._last = self._said = ""
        self._when = 0.0

    def look(self, report: Report) -> None:
        super().look(report)
        text = "; ".join(f"{name} {value}" for name, value in self.status())
        if text != self._said and time.monotonic() - self._when >= _STATUS_SECONDS:
            self._said, self._when = text, time.monotonic()
            self._say("status", text)


_ANY_WIDTH = 100_000
"""Columns: lines for a log file are not broken."""


def _line(parts: Iterable[str]) -> Table:
    """The time, what kind of thing it tells, and the text."""
    table = Table.grid(Column(style="dim", width=8), Column(style="bold", width=8), padding=(0, 2, 0, 0))
    table.add_row(*map(Text, parts))
    return table


@contextmanager
def live_view(name: str, tell: Callable[[str], None]) -> Iterator[LiveView]:
    """A view on stderr for as long as the block lasts: on a terminal the status stays below the lines and is
    gone at the end, elsewhere it is a line every ten seconds. ``tell`` prints a line where there is no
    terminal."""
    if not sys.stderr.isatty():
        yield _Lines(name, lambda *parts: tell(drawn(_line(parts), _ANY_WIDTH, colour=False).rstrip("\n")))
        return
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)

    def told(*parts: str) -> None:
        console.print(_line(parts))

    def shown() -> Table:
        table = Table.grid(Column(style="dim"), Column(overflow="fold"), padding=(0, 2))
        table.add_row(f"{view.seconds:.0f} s", Text(one_line(view.name), style="bold"))
        for row in view.status():
            table.add_row(row[0], Text(one_line(row[1])))
        return table

    view = LiveView(name, told)
    with Live(get_renderable=shown, console=console, transient=True, refresh_per_second=4):
        yield view
