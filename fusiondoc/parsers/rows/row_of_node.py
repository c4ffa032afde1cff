"""The row of each operator in the plans of a stream, by the index of its node in
the plan."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from fusiondoc.parsers.facts import PlanUse

OUTER = -1
"""The number that stands for a plan's own graph; its differentiable graphs are
numbered from 0."""

NO_ROW = -(1 << 40)
"""Entry for a node that has no row, such as a group."""


class RowOfNode:
    """``Unfused.index`` of the row of each operator in a plan."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], array[int]] = {}
        """(Id of the use of a plan, part) -> the row of each node of the flow, by
        node index."""

    def add_part(self, use: PlanUse, part: int, rows: array[int]) -> None:
        """Set the rows of the nodes in one part of a plan; NO_ROW for nodes without
        a row."""
        self._rows[id(use), part] = rows

    def of(self, use: PlanUse, part: int, node: int) -> int | None:
        """Return the index of the row of a node; None for a node without a row."""
        rows = self._rows.get((id(use), part))
        if rows is None or rows[node] == NO_ROW:
            return None
        return rows[node]

    def settle(self, index_of: Callable[[int], int]) -> None:
        """Replace the numbers of rows by their indexes, once all rows are
        counted."""
        for rows in self._rows.values():
            for node, number in enumerate(rows):
                if number != NO_ROW:
                    rows[node] = index_of(number)
