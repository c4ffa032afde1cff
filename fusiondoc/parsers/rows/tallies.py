"""Numbers of operators outside groups, summed over the executors that have a plan."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Iterable, Sequence

from fusiondoc.model.report import Reason
from fusiondoc.parsers.facts import Statement, positions
from fusiondoc.parsers.rows.group_rows import Copies


def by_log(copies: Iterable[Copies]) -> list[Copies]:
    """Those of one log as one."""
    found: dict[int, Copies] = {}
    for one in copies:
        before = found.get(one.file)
        if before is not None:
            one = Copies(one.file, before.plans + one.plans, before.fallbacks + one.fallbacks)
        found[one.file] = one
    return list(found.values())


class Tally:
    """A number that is summed over executors. Logs that show the same plans are not summed. A report can hold
    half a million: what few have takes no room."""

    __slots__ = ("_logs", "most", "rest")

    def __init__(self) -> None:
        self._logs: tuple[int, Fraction, Fraction] | dict[int, tuple[Fraction, Fraction]] | None = None
        """Of each log (of the only one) the number in its plans, and in those of fallback functions."""
        self.most = 0
        """In one print, where prints tell no executor."""
        self.rest = 0
        """Of plans that are not in the log."""

    def add(self, number: int, copies: Sequence[Copies]) -> None:
        """What one plan has, times the executors that have the plan."""
        if not number:
            return
        if not copies:
            self.most = max(self.most, number)
        for one in copies:
            self._add(one.file, number * one.plans, number * one.fallbacks)

    def _add(self, file: int, plans: Fraction, fallbacks: Fraction) -> None:
        logs = self._logs
        if logs is None:
            self._logs = file, plans, fallbacks
        elif isinstance(logs, tuple) and logs[0] == file:
            self._logs = file, logs[1] + plans, logs[2] + fallbacks
        else:
            if isinstance(logs, tuple):
                logs = self._logs = {logs[0]: logs[1:]}
            before = logs.get(file, (Fraction(0), Fraction(0)))
            logs[file] = before[0] + plans, before[1] + fallbacks

    @property
    def total(self) -> int:
        """Fallback functions count where no other plan has the operator."""
        logs = self._logs
        if logs is None:
            return self.most + self.rest
        each = (logs[1:],) if isinstance(logs, tuple) else tuple(logs.values())
        counted = max(plans for plans, _ in each) or max(fallbacks for _, fallbacks in each)
        return max(ceil(counted), self.most) + self.rest


class CountedRow:
    """A row of operators outside groups, while it is counted."""

    __slots__ = ("count", "kept", "layers", "lines", "moved", "ran", "reason", "seen")

    def __init__(self, reason: Reason, ran: bool | None = None) -> None:
        self.reason = reason
        self.ran = ran
        self.count = Tally()
        self.moved: Tally | None = None
        self.kept: Tally | None = None
        self.lines = positions()
        self.layers: dict[str, Tally] | None = None
        """How many each layer has, in order."""
        self.seen: set[int] | None = None
        """Statements whose lines are in already."""

    def say(self, statement: Statement) -> None:
        """Its lines are evidence, once."""
        if self.seen is None:
            self.seen = set()
        if id(statement) not in self.seen:
            self.seen.add(id(statement))
            self.lines.extend(statement.lines)

    def add(self, count: int, moved: int, kept: int, copies: Sequence[Copies]) -> None:
        """What one plan has."""
        self.count.add(count, copies)
        if moved:
            self.moved = self.moved or Tally()
            self.moved.add(moved, copies)
        if kept:
            self.kept = self.kept or Tally()
            self.kept.add(kept, copies)

    def add_layer(self, layer: str, count: int, copies: Sequence[Copies]) -> None:
        if self.layers is None:
            self.layers = {}
        self.layers.setdefault(layer, Tally()).add(count, copies)
