"""The section on torch.compile beside the rows of a report: its graphs and where
their operators went, breaks, recompiles, operators that several groups compute."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.diagnosis.of_fusers.inductor_boundaries import are_stages
from fusiondoc.diagnosis.of_fusers.inductor_graphs import Role
from fusiondoc.diagnosis.of_fusers.inductor_rows import ReportedGraph, edges_of
from fusiondoc.fusers.inductor.compilation import (
    Compilation,
    CompilationPart,
    GraphOperator,
)
from fusiondoc.fusers.inductor.targets import operator_name
from fusiondoc.model.compiled import (
    CompiledGraphRow,
    CompiledReport,
    ComputedAgain,
    GraphBreakRow,
    RecompileRow,
)


def compiled_section(
    graphs: Sequence[ReportedGraph], compilation: Compilation
) -> CompiledReport:
    """Return the section on torch.compile's work in the run."""
    return CompiledReport(
        graphs=tuple(map(_graph_row, graphs)),
        breaks=_breaks(compilation),
        recompiles=_recompiles(compilation),
        computed_again=tuple(_computed_again(graphs)),
        second_stages=_ids_of_second_stages(graphs),
        unknown_texts=compilation.unknown_texts,
    )


def _ids_of_second_stages(graphs: Sequence[ReportedGraph]) -> tuple[str, ...]:
    ids: dict[str, None] = {}
    for graph in graphs:
        for index in _second_stages(graph):
            ids[graph.groups[index]] = None
    return tuple(ids)


def _second_stages(graph: ReportedGraph) -> list[int]:
    """Return the indices of the final nodes that only add up the partial results of
    a reduction's first stage."""
    nodes = graph.found.nodes
    stages: dict[int, None] = {}
    for writer, reader in edges_of(graph.found):
        both_groups = writer in graph.groups and reader in graph.groups
        if both_groups and are_stages(nodes[writer], nodes[reader]):
            stages[reader] = None
    return list(stages)


def _computed_again(graphs: Sequence[ReportedGraph]) -> Iterator[ComputedAgain]:
    """Yield operators of the first specialisations that several final nodes
    compute."""
    for graph in graphs:
        if graph.specialisation > 1:
            continue
        found: dict[str, tuple[GraphOperator, list[str]]] = {}
        for node in graph.found.nodes:
            if node.role is Role.GROUP:
                for operator in node.operators:
                    found.setdefault(operator.name, (operator, []))[1].append(
                        graph.groups[node.index]
                    )
        for operator, groups in found.values():
            if len(groups) > 1:
                yield ComputedAgain(
                    operator_name(operator.target),
                    operator.source,
                    graph.graph.phase,
                    tuple(dict.fromkeys(groups)),
                    len(groups),
                )


def _breaks(compilation: Compilation) -> tuple[GraphBreakRow, ...]:
    counts: dict[GraphBreakRow, int] = {}
    for one in compilation.breaks:
        row = GraphBreakRow(
            one.source, one.function, one.number, one.reason, helpful(one.hints), 0
        )
        counts[row] = counts.get(row, 0) + one.count
    return tuple(replace(row, count=count) for row, count in counts.items())


def _recompiles(compilation: Compilation) -> tuple[RecompileRow, ...]:
    """Return each function once, with all its guards that failed."""
    found: dict[tuple[str | None, str | None], RecompileRow] = {}
    for one in compilation.recompiles:
        key = (one.function, one.source)
        row = found.get(key, RecompileRow(*key, (), 0, False))
        found[key] = RecompileRow(
            *key,
            tuple(dict.fromkeys((*row.guards, *one.guards))),
            row.count + (not one.limit_reached),  # giving up is no recompile
            row.limit_reached or one.limit_reached,
        )
    return tuple(found.values())


def _graph_row(one: ReportedGraph) -> CompiledGraphRow:
    graph = one.graph
    return CompiledGraphRow(
        compile_id=graph.compile_id,
        phase=graph.phase,
        specialisation=one.specialisation,
        rank=graph.rank,
        groups=tuple(dict.fromkeys(one.groups.values())),
        accounts=one.found.accounts,
        bytes_accessed=graph.bytes_accessed,
        decisions=CompilationPart.DECISIONS in graph.holds,
        from_cache=graph.from_cache,
        failed=graph.failed,
        failed_at=graph.failed_at,
        seconds=sum(seconds for _, seconds in graph.seconds) or None,
        kernels=len(one.groups) - len(_second_stages(one)),
    )


def helpful(hints: Sequence[str]) -> tuple[str, ...]:
    """Return torch's hints, each once, without those that only advise a report to
    torch."""
    kept = []
    for hint in dict.fromkeys(hints):
        if not _REPORT_IT.search(hint):
            kept.append(hint)
    return tuple(kept)


_REPORT_IT = re.compile(
    r"report an issue|file an issue|may have found a bug", re.IGNORECASE
)
