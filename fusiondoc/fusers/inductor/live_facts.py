"""Merge facts about torch.compile from the log of a run with those that the probe
recorded in the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusiondoc.fusers.inductor.compilation import (
    Compilation,
    CompiledGraph,
    FinalNode,
    GeneratedKernel,
    GraphBreak,
)
from fusiondoc.fusers.inductor.kinds import CallKind

_Key = tuple[str | None, str | None, int]


def with_live(read: Compilation | None, live: Compilation) -> Compilation:
    """Merge both. Operators, final nodes, refusals and buffers come from the
    scheduler's own objects, which the probe reads; lines, code, configurations,
    recompiles, and torch's statements and measurements come from the log."""
    if read is None:
        return live
    of_log: dict[_Key, CompiledGraph] = {}
    for graph in read.graphs:
        of_log[_key(graph)] = graph
    graphs = []
    for graph in live.graphs:
        graphs.append(_joined(graph, of_log.pop(_key(graph), None)))
    ids = []
    for graph in live.graphs:
        if graph.failed is not None:
            ids.append(graph.compile_id)
    others = (graph for graph in of_log.values() if not _is_failed(graph, ids))
    return replace(
        read,
        graphs=(*graphs, *others),
        breaks=_breaks(read.breaks, live.breaks),
        crossings=live.crossings,
        torch=live.torch or read.torch,
        torch_is_guessed=read.torch_is_guessed and live.torch is None,
    )


def _is_failed(read: CompiledGraph, failed: Sequence[str | None]) -> bool:
    """True if a graph of the log is one of these graphs, whose compilation failed:
    it has no code that would show its phase, and the warning of the failure does
    not hold the compile id."""
    if read.phase is not None or not failed:
        return False
    return read.compile_id in failed or (
        read.compile_id is None and read.failed is not None
    )


def _key(graph: CompiledGraph) -> _Key:
    return graph.compile_id, graph.phase, graph.order


def _joined(live: CompiledGraph, read: CompiledGraph | None) -> CompiledGraph:
    if read is None:
        return live
    if read.bytes_accessed is None:
        bytes_accessed = live.bytes_accessed
    else:
        bytes_accessed = read.bytes_accessed
    return replace(
        live,
        rank=read.rank,
        holds=live.holds | read.holds,
        final=_final(live.final, read.final),
        kernels=_kernels(live.kernels, read.kernels),
        refusals=(
            *live.refusals,
            *(one for one in read.refusals if one.by_benchmark),
        ),
        bytes_accessed=bytes_accessed,
        failed=live.failed or read.failed,
        seconds=(*read.seconds, *live.seconds),
        line=read.line,
        texts=read.texts,
    )


_OF_WRAPPER = (CallKind.EAGER_SUM, CallKind.COPY)


def _final(
    live: Sequence[FinalNode], read: Sequence[FinalNode]
) -> tuple[FinalNode, ...]:
    """The scheduler's nodes with their lines in the log, and the wrapper's own
    calls. The second stage of a mixed-order reduction is a node of the scheduler
    for which no kernel is generated: the wrapper sums in eager code, as the
    generated code shows."""
    by_name: Mapping[str, FinalNode] = {node.name: node for node in read}
    of_wrapper = {}
    for node in read:
        if node.call in _OF_WRAPPER:
            of_wrapper[node.name] = node
    nodes = []
    for node in live:
        nodes.append(
            of_wrapper.get(node.name) or _with_lines(node, by_name.get(node.name))
        )
    seen = {node.name for node in live}
    return (
        *nodes,
        *(node for name, node in of_wrapper.items() if name not in seen),
    )


def _with_lines(node: FinalNode, read: FinalNode | None) -> FinalNode:
    if read is None:
        return node
    return replace(
        node,
        lines=read.lines,
        call_is_stated=read.call_is_stated,
        stack_sources=read.stack_sources,
    )


def _kernels(
    live: Sequence[GeneratedKernel], read: Sequence[GeneratedKernel]
) -> tuple[GeneratedKernel, ...]:
    """Kernels of the generated code; kernels missing there come from the probe."""
    known = {kernel.name: kernel for kernel in (*live, *read)}
    return tuple(known.values())


def _breaks(
    read: Sequence[GraphBreak], live: Sequence[GraphBreak]
) -> tuple[GraphBreak, ...]:
    """Graph breaks from the log, which has torch's full text; for other lines those
    of the probe, in an older short form
    (``torch._dynamo.utils.graph_break_reasons``)."""
    lines = {found.source for found in read}
    return (*read, *(found for found in live if found.source not in lines))
