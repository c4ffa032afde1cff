"""Sums of counts, bytes and layers that the operators of one plan add to their
rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fusiondoc.parsers.ir.types import bytes_once
from fusiondoc.parsers.jit.flow import FlowNode
from fusiondoc.parsers.jit.plan import LooseNode
from fusiondoc.parsers.rows.group_rows import Copies
from fusiondoc.parsers.rows.tallies import CountedRow


class RowTotals:
    """Sums over the operators of one plan, by row."""

    def __init__(self) -> None:
        self.row_of: dict[int, CountedRow] = {}
        """By node index in the flow."""
        self._counts: Counter[CountedRow] = Counter()
        self._bytes: Counter[CountedRow] = Counter()
        self._layers: Counter[tuple[CountedRow, str]] = Counter()

    def add(
        self, node: LooseNode, flow_node: FlowNode | None, row: CountedRow
    ) -> None:
        self.row_of[node.node] = row
        self._counts[row] += 1
        if flow_node is not None:
            self._bytes[row] += 2 * _bytes_of(flow_node.outputs)
        if node.layer is not None:
            self._layers[row, node.layer] += 1

    def enter(
        self, copies: Sequence[Copies], kept: Mapping[CountedRow, int]
    ) -> None:
        """Add the sums to the rows, once for each executor that has the plan."""
        for (row, layer), count in self._layers.items():
            row.add_layer(layer, count, copies)
        for row, count in self._counts.items():
            row.add(count, self._bytes[row], kept.get(row, 0), copies)


@lru_cache(maxsize=1024)
def _bytes_of(outputs: tuple[str, ...]) -> int:
    """Return the bytes of a node's outputs; 0 if the sizes are not known. Cached: a
    plan has few different types."""
    return sum([bytes_once(text) or 0 for text in outputs])
