"""What a report counts of its rows: operators outside groups, summed over the executors that have a plan; and
the groups and kernels beyond the number that it holds.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice
from math import ceil
from typing import TypeVar

from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Fallback, Group, Kernel, Report
from fusiondoc.parsers.facts import positions
from fusiondoc.parsers.jit.statements import Statement
from fusiondoc.parsers.rows import PackedEvidence
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
    for one, times in Counter(copies).items():
        before = found.get(one.file, Copies(one.file, 0, 0))
        plans, fallbacks = before.plans + times * one.plans, before.fallbacks + times * one.fallbacks
        found[one.file] = Copies(one.file, plans, fallbacks)
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

    __slots__ = ("count", "kept", "layers", "lines", "moved", "number", "ran", "reason", "said")

    def __init__(self, reason: Reason, number: int, ran: bool | None = None) -> None:
        self.reason = reason
        self.number = number
        """From 0 for rows with a source of their own; -1, -2, ... for those that stand for several."""
        self.ran = ran
        self.count = Tally()
        self.moved: Tally | None = None
        self.kept: Tally | None = None
        self.lines = positions()
        self.layers: dict[str, Tally] | None = None
        """How many each layer has, in order."""
        self.said: dict[int, array[int]] | None = None
        """Lines of statements, by the id of each."""

    def say(self, statement: Statement) -> None:
        """Its lines are evidence, once."""
        if statement.lines:
            if self.said is None:
                self.said = {}
            self.said[id(statement)] = statement.lines

    def evidence(self, files: Sequence[str]) -> PackedEvidence:
        return PackedEvidence(self.lines, files, tuple(self.said.values()) if self.said else ())

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


Key = tuple[str, "str | None", "str | None", Reason, "bool | None"]
"""What makes a row: operator, source, phase, reason, and whether it ran. Not the code of the reason
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

    def of(self, key: Key) -> CountedRow:
        """The row that an operator is counted in."""
        row = self._rows.get(key)
        if row is not None:
            return row
        if len(self._rows) < self._most:
            row = self._rows[key] = CountedRow(key[3], len(self._rows), key[4])
            return row
        self._beyond.add(hash(key))
        return self._alike(key)

    def _alike(self, key: Key) -> CountedRow:
        """The row of all further operators of this name with the same code of a reason."""
        op, _, phase, reason, ran = key
        alike = (op, phase, reason.code, reason.stated, ran)
        row = self._together.get(alike)
        if row is None:
            row = self._together[alike] = CountedRow(reason, -1 - len(self._together), ran)
        elif row.reason != reason:
            row.reason = Reason(reason.code, CODES[reason.code].title, reason.stated)
        return row

    def more(self, key: Key, rows: int) -> CountedRow:
        """The row of so many further ones, of which no place is known."""
        self._more += rows
        return self._alike(key)

    @property
    def left_out(self) -> int:
        """How many have no row of their own."""
        return len(self._beyond) + self._more

    def index_of(self, number: int) -> int:
        """Index in the finished list of the row with this number; rows that stand for several come last."""
        return number if number >= 0 else len(self._rows) - 1 - number

    def taken(self) -> Iterator[tuple[str, str | None, str | None, CountedRow]]:
        """Operator, source, phase and row. Each is let go: there can be very many."""
        for key in list(self._rows):
            yield key[0], key[1], key[2], self._rows.pop(key)
        for (op, phase, *_), row in self._together.items():
            yield op, None, phase, row


_MOST_EVIDENCE = 200
"""Lines of a row that stands for several."""

_Row = TypeVar("_Row", Group, Kernel)


def bounded(report: Report, most: int) -> Report:
    """The report with the first ``most`` groups and kernels of each rank. What else names a row that is left
    out does not name it any more; numbers of groups and operators stay what they are."""
    groups, kernels = _first(report.groups, most), _first(report.kernels, most)
    if len(groups) == len(report.groups) and len(kernels) == len(report.kernels):
        return report
    known, run = {group.id for group in groups}, {kernel.id for kernel in kernels}
    beyond = [group for group in report.groups if group.id not in known]
    programs = tuple(
        one for one in report.programs if all(n.group is None or n.group in known for n in one.nodes)
    )
    return replace(
        report,
        groups=tuple(_with_kernels(group, run) for group in groups),
        groups_left_out=len(beyond),
        fusion_groups_left_out=sum(group.count for group in beyond),
        fused_operators_left_out=sum(group.operators for group in beyond if group.specialisation == 1),
        kernels=tuple(_with_groups(kernel, known) for kernel in kernels),
        kernels_left_out=len(report.kernels) - len(kernels),
        fallbacks=tuple(_of_groups(report.fallbacks, known)),
        programs=programs,
        programs_left_out=report.programs_left_out + len(report.programs) - len(programs),
    )


def _first(rows: Sequence[_Row], most: int) -> list[_Row]:
    """The first rows of each rank."""
    seen: Counter[int | None] = Counter()
    kept = []
    for row in rows:
        seen[row.rank] += 1
        if seen[row.rank] <= most:
            kept.append(row)
    return kept


def _among(ids: Sequence[str], known: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(one for one in ids if one in known)


def _with_kernels(group: Group, known: AbstractSet[str]) -> Group:
    kernels = _among(group.kernels, known)
    return replace(
        group,
        kernels=kernels,
        kernels_left_out=group.kernels_left_out + len(group.kernels) - len(kernels),
        segments=tuple(replace(one, kernels=_among(one.kernels, known)) for one in group.segments),
        instances=tuple(replace(one, kernels=_among(one.kernels, known)) for one in group.instances),
    )


def _with_groups(kernel: Kernel, known: AbstractSet[str]) -> Kernel:
    groups = _among(kernel.groups, known)
    left_out = kernel.groups_left_out + len(kernel.groups) - len(groups)
    return replace(kernel, groups=groups, groups_left_out=left_out)


def _of_groups(rows: Iterable[Fallback], known: AbstractSet[str]) -> list[Fallback]:
    """Those of groups that are left out as one row for a stage, an error and a rank, behind the others."""
    kept: list[Fallback] = []
    others: dict[tuple[str, str | None, int | None], list[Fallback]] = {}
    for row in rows:
        if row.group is None or row.group in known:
            kept.append(row)
        else:
            others.setdefault((row.stage, row.error, row.rank), []).append(row)
    return [*kept, *map(_together, others.values())]


def _together(rows: Sequence[Fallback]) -> Fallback:
    evidence = tuple(islice(chain.from_iterable(row.evidence for row in rows), _MOST_EVIDENCE))
    return replace(
        rows[0],
        group=None,
        count=sum(row.count for row in rows),
        count_exact=all(row.count_exact for row in rows),
        evidence=evidence,
        evidence_left_out=sum(len(row.evidence) for row in rows) - len(evidence),
    )
