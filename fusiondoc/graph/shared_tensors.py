"""The boundaries of a report: tensors that groups and operators share although they
are not one kernel.

They are found in the plans in ``Report.programs``. Facts that the log does not show
are left out or None: the inputs of a plan (two groups that read the same input),
the inputs and outputs of a differentiable graph, a tensor of a group that makes
several of other types if the log has no types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.model.boundaries import (
    READ_TWICE,
    WRITTEN_AND_READ,
    Boundary,
    BoundaryEnd,
)
from fusiondoc.model.code_kinds import Cause
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import NO_OPERATORS
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Group, Program, ProgramNode, Report, Unfused
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.operators import VIEWS
from fusiondoc.parsers.ir.types import bytes_once

MOST_BOUNDARIES = 2_000
"""The most boundaries in a report: those of most bytes are kept."""


class Boundaries(NamedTuple):
    rows: tuple[Boundary, ...]
    """Most bytes first."""
    left_out: int


def boundaries_of(report: Report) -> Boundaries:
    """Return the boundaries of all plans, equal ones merged. Views in between are
    looked through: they move no data."""
    groups = {group.id: group for group in report.groups}
    rows = rows_by_index(report)
    found: dict[_Pair, Boundary] = {}
    counts: dict[_Pair, int] = {}
    for program in report.programs:
        plan = _Plan(program, groups, rows)
        for crossing in plan.crossings():
            pair = plan.pair(crossing)
            counts[pair] = counts.get(pair, 0) + 1
            if pair not in found:
                found[pair] = plan.boundary(crossing)
    made = [boundary.times(counts[pair]) for pair, boundary in found.items()]
    made.sort(
        key=lambda one: (-1 if one.bytes is None else one.bytes, one.count),
        reverse=True,
    )
    return Boundaries(
        tuple(made[:MOST_BOUNDARIES]), max(0, len(made) - MOST_BOUNDARIES)
    )


class _Crossing(NamedTuple):
    """A tensor that two nodes of a plan share."""

    maker: int
    """The node that makes it."""
    producer: int
    """The maker, or the first node that reads the tensor."""
    consumer: int
    way: tuple[int, ...]
    """Views and branches between the two."""
    kind: str


_Pair = tuple[BoundaryEnd, BoundaryEnd, "str | None", str, "tuple[int | None, ...]"]
"""The key of equal boundaries: ends, tensor, kind, rows between."""


class _Plan:
    """A program whose boundaries are searched."""

    def __init__(
        self,
        program: Program,
        groups: Mapping[str, Group],
        rows: Mapping[int | None, Unfused],
    ) -> None:
        self._graph: DependencyGraph[ProgramNode] = graph_of(program)
        self._nodes = program.nodes
        self._groups = groups
        self._rows = rows

    def crossings(self) -> Iterator[_Crossing]:
        for maker in range(len(self._nodes)):
            if self._is_end(maker):
                yield from self._crossings_of(maker)

    def _crossings_of(self, maker: int) -> Iterator[_Crossing]:
        reached = self._graph.reach([maker], "after", self._goes_through)
        readers = []
        for reader, way in reached.ends:
            if self._is_end(reader) and self._carries(maker, way):
                yield _Crossing(maker, maker, reader, way, WRITTEN_AND_READ)
                readers.append(reader)
        if len(self._types(maker)[1]) == 1:  # else they may read different tensors
            readers.sort()
            for later in readers[1:]:
                yield _Crossing(maker, readers[0], later, (), READ_TWICE)

    def _is_end(self, index: int) -> bool:
        node = self._nodes[index]
        if node.group is not None:
            return True
        computes = node.op not in VIEWS and node.op not in NO_OPERATORS
        return node.kind == "operator" and bool(node.rows) and computes

    def _goes_through(self, index: int) -> bool:
        node = self._nodes[index]
        return node.kind == "control" or (
            node.kind == "operator" and node.op in VIEWS
        )

    def _carries(self, maker: int, way: Sequence[int]) -> bool:
        """True if a tensor passes along these nodes: a branch returns tensors that
        are made in it; of other nodes it may only read a value as its condition."""
        before = maker
        for index in way:
            if self._nodes[index].kind == "control" and index not in self._blocks(
                before
            ):
                return False
            before = index
        return True

    def _blocks(self, index: int) -> list[int]:
        """Return the branches, loops and regions that contain a node, innermost
        first."""
        blocks = []
        inside = self._graph.inside[index]
        while inside is not None:
            blocks.append(inside)
            inside = self._graph.inside[inside]
        return blocks

    def pair(self, crossing: _Crossing) -> _Pair:
        """Return the key that equal boundaries share."""
        between = tuple(self._nodes[index].row for index in crossing.way)
        producer, consumer = (
            self._end(crossing.producer),
            self._end(crossing.consumer),
        )
        return producer, consumer, self._tensor(crossing), crossing.kind, between

    def boundary(self, crossing: _Crossing) -> Boundary:
        producer, consumer, tensor, kind, _ = self.pair(crossing)
        between = self._between(crossing)
        return Boundary(
            producer=producer,
            consumer=consumer,
            tensor=tensor,
            bytes=bytes_once(tensor) if tensor is not None else None,
            kind=kind,
            cause=self._cause(crossing, between),
            between=tuple(map(self._end, between)),
        )

    def _end(self, index: int) -> BoundaryEnd:
        node = self._nodes[index]
        return BoundaryEnd(node.group, node.row, node.op)

    def _between(self, crossing: _Crossing) -> list[int]:
        """Return the nodes that keep the ends apart: those on the way; the branches
        that contain the consumer; else a node on a detour from one to the other:
        both ends in one group would wait for it, and it for them."""
        outer = self._blocks(crossing.producer)
        entered = []
        for index in self._blocks(crossing.consumer):
            if index not in outer:
                entered.append(index)
        between = [*crossing.way, *reversed(entered)]
        if between or crossing.kind == READ_TWICE:
            return between
        detour = self._graph.detour(crossing.producer, crossing.consumer)
        if detour is None:
            return []
        return [detour]

    def _cause(self, crossing: _Crossing, between: Sequence[int]) -> Reason | None:
        """Return why they stayed apart: the reason of the node in between, else of
        the end that is in no group; for two operators that of the one with a reason
        in itself."""
        for index in between:
            row = self._rows.get(self._nodes[index].row)
            if row is not None:
                return row.reason
        ends = []
        for index in (crossing.consumer, crossing.producer):
            ends.append(self._rows.get(self._nodes[index].row))
        reasons = [row.reason for row in ends if row is not None]
        for reason in reasons:
            if reason.code in CODES and CODES[reason.code].cause is Cause.OPERATOR:
                return reason
        if reasons:
            return reasons[0]
        return None

    def _types(self, index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the types of the tensors that a node takes and makes."""
        node = self._nodes[index]
        group = self._groups.get(node.group or "")
        if group is None:
            return node.inputs, node.outputs
        return group.inputs, group.outputs

    def _tensor(self, crossing: _Crossing) -> str | None:
        """Return the type of the shared tensor with its sizes; None if it is not
        known which tensor is shared."""
        made = set(self._types(crossing.maker)[1])
        if len(made) > 1:
            reader = crossing.way[0] if crossing.way else crossing.consumer
            taken = self._types(reader)[0]
            if not all(one.endswith(")") for one in taken):
                return None
            made.intersection_update(taken)
        only = made.pop() if len(made) == 1 else ""
        if only.endswith(")"):
            return only
        return None
