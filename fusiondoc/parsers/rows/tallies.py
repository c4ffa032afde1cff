"""Numbers of operators outside groups, summed over the executors that have a plan."""

from __future__ import annotations

from math import ceil
from typing import Iterable, Iterator, Sequence, Tuple

from fusiondoc.model.codes import CODES
from fusiondoc.model.report import Reason
from fusiondoc.parsers.facts import positions
from fusiondoc.parsers.jit.statements import Statement
from fusiondoc.parsers.rows.group_rows import Copies, Share

MOST_ROWS = 20_000
"""Rows of a report: the largest models have a few thousand. Of further ones those of one operator that have
one reason, in whatever words, are one row without a source."""
MOST_OF_A_RANK = 5_000
"""Those of each of many ranks."""


def most_of_each(streams: int) -> int:
    """Rows of each stream."""
    return max(MOST_ROWS // max(1, streams), min(MOST_ROWS, MOST_OF_A_RANK))


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
        self._logs: tuple[int, Share, Share] | dict[int, tuple[Share, Share]] | None = None
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

    def _add(self, file: int, plans: Share, fallbacks: Share) -> None:
        logs = self._logs
        if logs is None:
            self._logs = file, plans, fallbacks
        elif isinstance(logs, tuple) and logs[0] == file:
            self._logs = file, logs[1] + plans, logs[2] + fallbacks
        else:
            if isinstance(logs, tuple):
                logs = self._logs = {logs[0]: logs[1:]}
            before = logs.get(file, (0, 0))
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


Key = Tuple[str, "str | None", "str | None", str, str, "bool | None"]
"""What makes a row: operator, source, phase, code and text of the reason, and whether it ran. Not the code
alone: nodes of one line (of torch/nn/functional.py, say) stand in many places of the model, each with
neighbours of its own."""


class BoundedRows:
    """The rows of one stream by what makes them, at most ``most`` with a place in the source."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[Key, CountedRow] = {}
        self._together: dict[tuple[str, str | None, str, bool, bool | None], CountedRow] = {}
        self._beyond: set[int] = set()
        """Hashes of what makes the rows that are no rows of their own."""
        self._more = 0

    def of(self, key: Key, stated: bool) -> CountedRow:
        """The row that an operator is counted in."""
        row = self._rows.get(key)
        if row is not None:
            return row
        if len(self._rows) < self._most:
            row = self._rows[key] = CountedRow(Reason(key[3], key[4], stated), key[5])
            return row
        self._beyond.add(hash(key))
        return self._alike(key, stated)

    def _alike(self, key: Key, stated: bool) -> CountedRow:
        op, _, phase, code, text, ran = key
        alike = (op, phase, code, stated, ran)
        row = self._together.get(alike)
        if row is None:
            row = self._together[alike] = CountedRow(Reason(code, text, stated), ran)
        elif row.reason.text != text and row.reason.text != CODES[code].title:
            row.reason = Reason(code, CODES[code].title, stated)
        return row

    def more(self, key: Key, rows: int) -> CountedRow:
        """The row of so many further ones, of which no place is known."""
        self._more += rows
        return self._alike(key, True)

    @property
    def left_out(self) -> int:
        """How many have no row of their own."""
        return len(self._beyond) + self._more

    def taken(self) -> Iterator[tuple[str, str | None, str | None, CountedRow]]:
        """Operator, source, phase and row. Each is let go: there can be very many."""
        for key in list(self._rows):
            yield key[0], key[1], key[2], self._rows.pop(key)
        for (op, phase, *_), row in self._together.items():
            yield op, None, phase, row
