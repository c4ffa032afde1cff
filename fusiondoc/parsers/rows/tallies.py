"""Rows of operators outside groups during counting: sums over the executors that
have a plan."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.parsers.facts import positions
from fusiondoc.parsers.jit.statements import Statement
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.group_rows import Copies, Share

MOST_ROWS = 20_000
"""Number of rows of a report: the largest models have a few thousand. Further rows
with equal operator and reason code are merged to one row without a source."""
MOST_OF_A_RANK = 5_000
"""Number of rows of each rank, if there are many ranks."""


def most_of_each(streams: int) -> int:
    """Return the number of rows of each stream."""
    return max(MOST_ROWS // max(1, streams), min(MOST_ROWS, MOST_OF_A_RANK))


def by_log(copies: Iterable[Copies]) -> list[Copies]:
    """Return the copies, summed to one entry for each log."""
    found: dict[int, Copies] = {}
    for one, times in Counter(copies).items():
        before = found.get(one.file, Copies(one.file, 0, 0))
        plans, fallbacks = (
            before.plans + times * one.plans,
            before.fallbacks + times * one.fallbacks,
        )
        found[one.file] = Copies(one.file, plans, fallbacks)
    return list(found.values())


class Tally:
    """A number that is summed over executors. Of logs that show the same plans the
    largest sum counts. A report can hold half a million tallies, so rarely used
    attributes take no memory."""

    __slots__ = ("_logs", "most", "rest")

    def __init__(self) -> None:
        self._logs: (
            tuple[int, Share, Share] | dict[int, tuple[Share, Share]] | None
        ) = None
        """For each log (as a plain tuple if there is one log only): the sum over
        its plans, and over its fallback functions."""
        self.most = 0
        """The largest number in one print, for prints that show no executor."""
        self.rest = 0
        """The number in plans that are not in the log."""

    def add(self, number: int, copies: Sequence[Copies]) -> None:
        """Add the number in one plan, multiplied by the number of executors that
        have the plan."""
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
        """The number for the report. Fallback functions count only if no other plan
        has the operator."""
        logs = self._logs
        if logs is None:
            return self.most + self.rest
        each = (logs[1:],) if isinstance(logs, tuple) else tuple(logs.values())
        counted = max(plans for plans, _ in each) or max(
            fallbacks for _, fallbacks in each
        )
        return max(ceil(counted), self.most) + self.rest


class CountedRow:
    """A row of operators outside groups, while it is counted."""

    __slots__ = (
        "count",
        "kept",
        "layers",
        "lines",
        "moved",
        "number",
        "ran",
        "reason",
        "statements",
    )

    def __init__(
        self, reason: Reason, number: int, ran: bool | None = None
    ) -> None:
        self.reason = reason
        self.number = number
        """From 0 for rows with their own source; -1, -2, ... for rows that merge
        several."""
        self.ran = ran
        self.count = Tally()
        self.moved: Tally | None = None
        self.kept: Tally | None = None
        self.lines = positions()
        self.layers: dict[str, Tally] | None = None
        """The number in each layer, in order."""
        self.statements: dict[int, array[int]] | None = None
        """Lines of statements, by the id of the array."""

    def add_statement(self, statement: Statement) -> None:
        """Add its lines to the evidence, once."""
        if statement.lines:
            if self.statements is None:
                self.statements = {}
            self.statements[id(statement.lines)] = statement.lines

    def evidence(self, files: Sequence[str]) -> PackedEvidence:
        return PackedEvidence(
            self.lines,
            files,
            tuple(self.statements.values()) if self.statements else (),
        )

    def add(
        self, count: int, moved: int, kept: int, copies: Sequence[Copies]
    ) -> None:
        """Add the numbers of one plan."""
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


Key = tuple[str, "str | None", "str | None", Reason, "bool | None"]
"""Identity of a row: operator, source, phase, reason, and whether it ran. The whole
reason, not only its code: nodes of one line (in torch/nn/functional.py, say) occur
in many layers of the model, each with other neighbours."""


class BoundedRows:
    """The rows of one stream by their identity, at most ``most`` with a source
    position."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: dict[Key, CountedRow] = {}
        self._together: dict[
            tuple[str, str | None, str, bool, bool | None], CountedRow
        ] = {}
        self._beyond: set[int] = set()
        """Hashes of the identities that did not get a row of their own."""
        self._more = 0

    def of(self, key: Key) -> CountedRow:
        """Return the row in which an operator is counted."""
        row = self._rows.get(key)
        if row is not None:
            return row
        if len(self._rows) < self._most:
            row = self._rows[key] = CountedRow(key[3], len(self._rows), key[4])
            return row
        self._beyond.add(hash(key))
        return self._alike(key)

    def _alike(self, key: Key) -> CountedRow:
        """Return the row for all further operators with this name and reason
        code."""
        op, _, phase, reason, ran = key
        alike = (op, phase, reason.code, reason.stated, ran)
        row = self._together.get(alike)
        if row is None:
            row = self._together[alike] = CountedRow(
                reason, -1 - len(self._together), ran
            )
        elif row.reason != reason:
            row.reason = Reason(
                reason.code, CODES[reason.code].title, reason.stated
            )
        return row

    def more(self, key: Key, rows: int) -> CountedRow:
        """Return the row for ``rows`` further operators whose source is not
        known."""
        self._more += rows
        return self._alike(key)

    @property
    def left_out(self) -> int:
        """The number of identities without a row of their own."""
        return len(self._beyond) + self._more

    def index_of(self, number: int) -> int:
        """Return the index, in the finished list, of the row with this number; rows
        that merge several come last."""
        if number >= 0:
            return number
        return len(self._rows) - 1 - number

    def taken(self) -> Iterator[tuple[str, str | None, str | None, CountedRow]]:
        """Yield operator, source, phase and row. Each row is removed from the
        table, since there can be very many."""
        for key in list(self._rows):
            yield key[0], key[1], key[2], self._rows.pop(key)
        for (op, phase, *_), row in self._together.items():
            yield op, None, phase, row
