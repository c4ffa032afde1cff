"""Operators that are newly outside every group, no longer so, or outside for
another reason."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.comparison import UnfusedChange
from fusiondoc.comparison.positions import Position, Positions
from fusiondoc.model import dataclass
from fusiondoc.model.report import Report, Unfused


@dataclass
class _Row:
    """A row of ``unfused`` of one side during the matching."""

    row: Unfused
    index: int
    position: Position
    user: Position
    left: int
    """Number of its nodes that are not matched yet."""

    @property
    def kind(self) -> Hashable:
        return (self.row.op, self.row.phase, self.row.reason.code)

    @property
    def operator(self) -> Hashable:
        return (self.row.op, self.position.token)

    @property
    def is_movable(self) -> bool:
        """Whether nothing shows that it stayed at its position: it has no source, a
        formula, or a line of one side only."""
        return self.position.weak or not self.position.aligned


_Key = Callable[[_Row], "Hashable | None"]

_SAME: tuple[_Key, ...] = (
    lambda r: (
        r.row.rank,
        r.row.op,
        r.position.token,
        r.user.token,
        r.row.phase,
        r.row.reason.code,
    ),
    lambda r: (r.row.op, r.position.token, r.row.phase, r.row.reason.code),
    lambda r: (r.row.op, r.position.token, r.row.reason.code),
)
"""Keys for the same operator at the same position for the same reason."""


def _moved(row: _Row) -> Hashable | None:
    """Key for code that moved."""
    if row.is_movable:
        return row.kind
    return None


_OTHER_REASON: tuple[_Key, ...] = (
    lambda r: (r.row.op, r.position.token, r.row.phase),
    lambda r: (r.row.op, r.row.phase) if r.is_movable else None,
)
"""Keys for rows whose reason differs."""


def unfused_changes(
    a: Report, b: Report, positions: Positions
) -> tuple[UnfusedChange, ...]:
    """Return the changes in the order of B, then operators that are gone. An
    operator that never ran counts neither as new nor as gone. If a log lacks plans,
    operators that only the other side shows may have been in groups."""
    rows_a, rows_b = _rows(a, 0, positions), _rows(b, 1, positions)
    for key in _SAME:
        _settle(rows_a, rows_b, key)
    _settle_sourceless(rows_a, rows_b)
    _settle(rows_a, rows_b, _moved)
    changes: list[tuple[int, UnfusedChange]] = []
    for key in _OTHER_REASON:
        for row, other, count in _settle(rows_a, rows_b, key):
            # An operator that newly runs, or no longer runs, is unfused all the
            # same.
            if False not in (row.row.ran, other.row.ran):
                changes.append(
                    (other.index, _change("reason", row.row, other.row, count))
                )
    for row in _left_over(
        rows_b, _fused(a, 0, positions) if lacks_plans(a, b) else None
    ):
        changes.append((row.index, _change("came", None, row.row, row.left)))
    for row in _left_over(
        rows_a, _fused(b, 1, positions) if lacks_plans(b, a) else None
    ):
        changes.append((len(rows_b), _change("gone", row.row, None, row.left)))
    in_order = []
    for _, change in sorted(changes, key=lambda numbered: numbered[0]):
        in_order.append(change)
    return tuple(in_order)


def lacks_plans(report: Report, other: Report) -> bool:
    """True if a log lacks plans that the other one may have: operators that it does
    not show outside its groups may still have been there."""
    return other.coverage.is_known and not report.coverage.is_known


def _rows(report: Report, side: int, positions: Positions) -> list[_Row]:
    rows = []
    for index, row in enumerate(report.unfused):
        rows.append(
            _Row(
                row,
                index,
                positions.of(side, row.source),
                positions.of(side, row.user_source),
                row.count,
            )
        )
    return rows


def _left_over(
    rows: Sequence[_Row], among: AbstractSet[Hashable] | None
) -> Iterator[_Row]:
    """Rows that no row of the other side matched; if that side lacks plans, only
    those of operators that it has in groups (``among``)."""
    for row in rows:
        if (
            row.left
            and row.row.may_have_run
            and (among is None or row.operator in among)
        ):
            yield row


def _fused(report: Report, side: int, positions: Positions) -> set[Hashable]:
    """The operators in groups, with their positions."""
    fused: set[Hashable] = set()
    for group in report.groups:
        for node in group.nodes:
            fused.add((node.op, positions.of(side, node.source).token))
    return fused


def _settle_sourceless(a: Sequence[_Row], b: Sequence[_Row]) -> None:
    """Match a row without a source with all rows of its operator and reason on the
    other side: some versions of torch lose sources, and a count is that of one
    plan, while such a row combines several plans."""
    kinds: dict[Hashable, tuple[list[_Row], list[_Row]]] = defaultdict(
        lambda: ([], [])
    )
    for side, rows in enumerate((a, b)):
        for row in rows:
            if row.left:
                kinds[row.kind][side].append(row)
    for of_a, of_b in kinds.values():
        settled = [*_covered(of_a, of_b), *_covered(of_b, of_a)]
        for row in settled:
            row.left = 0


def _covered(rows: Sequence[_Row], others: Sequence[_Row]) -> Sequence[_Row]:
    """The rows of the other side with the same operator and reason as some rows."""
    if any(other.row.source is None for other in others):
        return rows
    return [row for row in rows if others and row.row.source is None]


def _settle(
    a: Sequence[_Row], b: Sequence[_Row], key: _Key
) -> list[tuple[_Row, _Row, int]]:
    """Match as many nodes of rows with equal keys as both sides have; yield row of
    A, row of B, number of nodes."""
    waiting: dict[Hashable, deque[_Row]] = defaultdict(deque)
    for other in b:
        if other.left:
            waiting[key(other)].append(other)
    waiting.pop(None, None)
    found = []
    for row in a:
        queue = waiting.get(key(row)) if row.left else None
        while queue and row.left:
            other = queue[0]
            count = min(row.left, other.left)
            row.left -= count
            other.left -= count
            found.append((row, other, count))
            if not other.left:
                queue.popleft()
    return found


def _change(
    change: str, a: Unfused | None, b: Unfused | None, count: int
) -> UnfusedChange:
    row = b or a
    assert row is not None
    return UnfusedChange(
        change,
        row.op,
        row.source,
        row.user_source,
        row.phase,
        count,
        a.reason if a else None,
        b.reason if b else None,
        next(iter(row.evidence), None),
    )
