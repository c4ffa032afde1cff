"""Boundaries between graphs of torch.compile: a tensor that one graph returns and
another takes, as at a graph break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.diagnosis.of_fusers.inductor_graphs import ComputingNode, Role
from fusiondoc.diagnosis.of_fusers.inductor_rows import ReportedGraph
from fusiondoc.fusers.inductor.causes import CODE_OF_CAUSE
from fusiondoc.fusers.inductor.compilation import Crossing
from fusiondoc.fusers.inductor.kinds import ApartCause
from fusiondoc.model.boundaries import WRITTEN_AND_READ, Boundary
from fusiondoc.model.reasons import StayedApart
from fusiondoc.model.reasons.reason import Reason

_CAUSE = ApartCause.OTHER_GRAPH


def across_graphs(
    graphs: Sequence[ReportedGraph], crossings: Sequence[Crossing]
) -> Iterator[Boundary]:
    """Yield a boundary for each pair of nodes of which the first makes such a
    tensor and the second reads it."""
    forward = [one for one in graphs if one.graph.phase != "backward"]
    by_key = {(one.graph.compile_id, one.graph.order): one for one in forward}
    for crossing in crossings:
        first = by_key.get((crossing.from_id, crossing.from_order))
        second = by_key.get((crossing.to_id, crossing.to_order))
        if first is not None and second is not None:
            yield from _boundaries(first, second, crossing)


def _boundaries(
    first: ReportedGraph, second: ReportedGraph, crossing: Crossing
) -> Iterator[Boundary]:
    reason = Reason.of(
        CODE_OF_CAUSE[_CAUSE],
        StayedApart(cause=_CAUSE, source="worked out"),
        False,
    )
    for root in first.found.roots(crossing.result):
        writer, buffer = first.found.writer(root), first.found.buffers.get(root)
        if writer is None or writer.role is Role.PASSES_ON:
            continue
        for reader in _readers(second, crossing.input):
            yield Boundary(
                producer=first.end(writer),
                consumer=second.end(reader),
                tensor=buffer.type if buffer is not None else None,
                bytes=buffer.bytes if buffer is not None else None,
                kind=WRITTEN_AND_READ,
                cause=reason,
                between=(),
            )


def _readers(graph: ReportedGraph, buffer: str) -> list[ComputingNode]:
    """Return the nodes that read an input of a graph."""
    readers = []
    for node in graph.found.nodes:
        if node.role is not Role.PASSES_ON and any(
            buffer in graph.found.roots(access.buffer)
            for access in node.final.reads
        ):
            readers.append(node)
    return readers
