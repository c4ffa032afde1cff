"""Checks expectations of a run under torch.compile against a report: lines that are
one kernel, limits of graphs, graph breaks, recompiles, operators in eager code,
bytes.

Names of kernels, counters and second stages of reductions do not count: they differ
between devices and runs of one program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fusiondoc.expectations import (
    ExpectationSection,
    GraphLimits,
    OneKernel,
    SourceRange,
)
from fusiondoc.expectations.missing_in_words import reason_of, without_namespace
from fusiondoc.expectations.outcome import (
    ExpectationOutcome,
    Make,
    unknown_without_plan,
)
from fusiondoc.expectations.source_lines import is_in, line_of
from fusiondoc.fusers import CACHED, NO_BYTES
from fusiondoc.model import count, dataclass
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.compiled import (
    FALLBACKS,
    CompiledGraphRow,
    CompiledReport,
    GraphBreakRow,
)
from fusiondoc.model.report import Group, OpNode, Report, Unfused
from fusiondoc.model.source import Source, is_of_library

_MOST_NAMED = 4
_NOT_COMPILED = "unknown: nothing was compiled by torch.compile in this run"


def check_compiled(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterable[ExpectationOutcome]:
    """Return one outcome for each limit of the section, in the order of the table
    of keys.

    Args:
        outcome: makes the outcome of a key of the section.
    """
    unknown = unknown_without_plan(report)
    for made in _outcomes(section, report, outcome):
        if unknown is None:
            yield made
        else:
            yield replace(made, holds=False, found=unknown, why=None)


def _outcomes(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterator[ExpectationOutcome]:
    limits, compiled = section.compiled, report.compiled
    for wanted in limits.one_kernel:
        yield _one_kernel(wanted, report, section.name)
    for graph in limits.graphs:
        yield from _graph(graph, report, section.name)
    if limits.max_graph_breaks is not None:
        yield _breaks(limits.max_graph_breaks, compiled, outcome)
    if limits.max_recompiles is not None:
        yield _recompiles(limits.max_recompiles, compiled, outcome)
    if limits.may_fall_back is not None:
        yield _fallbacks(limits.may_fall_back, report, outcome)
    if limits.bytes_at_most is not None:
        yield _all_bytes(limits.bytes_at_most, compiled, outcome)


# -- one kernel ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KernelAtLines:
    """A group with an operator at the lines of an expectation."""

    group: Group
    nodes: tuple[OpNode, ...]
    """Its operators at these lines."""


@dataclass(frozen=True)
class AtLines:
    """The kernels and calls that compute operators at the lines of an
    expectation."""

    kernels: tuple[KernelAtLines, ...]
    outside: tuple[Unfused, ...]

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(kernel.group.id for kernel in self.kernels)


def at_lines(wanted: OneKernel, report: Report) -> AtLines:
    """The groups and calls that compute operators at the lines, also those of
    recompiles."""
    stages = report.compiled.second_stages if report.compiled is not None else ()
    kernels = []
    for group in report.groups:
        if group.id in stages or (group.phase or "forward") != wanted.phase:
            continue
        nodes = tuple(node for node in group.nodes if _is_meant(node, wanted))
        if nodes:
            kernels.append(KernelAtLines(group, nodes))
    outside = []
    for row in report.unfused:
        if (row.phase or "forward") == wanted.phase and _is_meant(row, wanted):
            outside.append(row)
    return AtLines(tuple(kernels), tuple(outside))


def _is_meant(node: OpNode | Unfused, wanted: OneKernel) -> bool:
    return (not wanted.ops or node.op in wanted.ops) and _is_at(
        line_of(node), wanted.source
    )


def _is_at(line: Source | None, ranges: Sequence[SourceRange]) -> bool:
    return any(is_in(line, lines) for lines in ranges)


def _one_kernel(
    wanted: OneKernel, report: Report, section: str
) -> ExpectationOutcome:
    expected = _kernel_in_words(wanted)
    made = ExpectationOutcome(
        section, wanted.path, False, expected, "", at=wanted.at
    )
    if report.compiled is None:
        return replace(made, found=_NOT_COMPILED)
    found = at_lines(wanted, report)
    if not found.kernels and not found.outside:
        return replace(
            made, found="no operator at these lines", why=_why_no_lines(report)
        )
    holds = _are_in_one(wanted, found, report.compiled)
    return replace(
        made,
        holds=holds,
        found=_shown(found),
        why=None if holds else _why_apart(found, report),
        groups=tuple(kernel.group.id for kernel in found.kernels),
    )


def _are_in_one(
    wanted: OneKernel, found: AtLines, compiled: CompiledReport
) -> bool:
    """True if kernels contain all the expected operators, and none of these is
    computed elsewhere."""
    whole = []
    for kernel in found.kernels:
        if _is_whole(kernel, wanted, found):
            whole.append(kernel)
    others = [kernel for kernel in found.kernels if kernel not in whole]
    if not whole or found.outside:
        return False
    return all(_computes_again(kernel, whole, compiled) for kernel in others)


def _shown(found: AtLines) -> str:
    """``G2, G3 and sum outside groups``."""
    parts = []
    if found.kernels:
        parts.append(", ".join(kernel.group.id for kernel in found.kernels))
    if found.outside:
        calls = ", ".join(without_namespace(row.op) for row in found.outside)
        parts.append(f"{calls} outside groups")
    return " and ".join(parts)


def _kernel_in_words(wanted: OneKernel) -> str:
    lines = ", ".join(map(str, wanted.source))
    ops = ""
    if wanted.ops:
        ops = f"{', '.join(map(without_namespace, wanted.ops))} of "
    phase = f" in the {wanted.phase} pass" if wanted.phase != "forward" else ""
    return f"{ops}{lines} in one kernel{phase}"


def _is_whole(kernel: KernelAtLines, wanted: OneKernel, found: AtLines) -> bool:
    """True if a kernel has the named operators, as often as they are named; without
    names every operator that any kernel has at these lines."""
    if wanted.ops:
        return not Counter(wanted.ops) - Counter(node.op for node in kernel.nodes)
    every = set()
    for other in found.kernels:
        for node in other.nodes:
            every.add(_name_and_line(node))
    return every == {_name_and_line(node) for node in kernel.nodes}


def _name_and_line(node: OpNode) -> tuple[str, str | None]:
    return node.op, node.user_source


def _computes_again(
    kernel: KernelAtLines, whole: Sequence[KernelAtLines], compiled: CompiledReport
) -> bool:
    """True if a complete kernel computes the operators too: the compiler repeats
    cheap ones in each reader."""
    for other in whole:
        repeated = set()
        for row in compiled.computed_again:
            if {kernel.group.id, other.group.id} <= set(row.groups):
                repeated.add((row.op, row.user_source))
        if {_name_and_line(node) for node in kernel.nodes} <= repeated:
            return True
    return False


def _why_apart(found: AtLines, report: Report) -> str | None:
    """Why they are separate, from the boundary between them with the most bytes;
    else why operators are outside groups."""
    rows = {row.index for row in found.outside}
    between = []
    for one in report.boundaries:
        if _joins(one, found.ids, rows):
            between.append(one)
    if between:
        most = max(between, key=lambda one: one.bytes or 0)
        return _boundary_in_words(most, report)
    if found.outside:
        return "; ".join(reason_of(row) for row in found.outside[:_MOST_NAMED])
    return "they share no tensor"


def _joins(boundary: Boundary, ids: frozenset[str], rows: set[int | None]) -> bool:
    ends = (boundary.producer, boundary.consumer)
    return all(
        end.group in ids or (end.row is not None and end.row in rows)
        for end in ends
    )


def _boundary_in_words(boundary: Boundary, report: Report) -> str:
    ends = []
    for end in (boundary.producer, boundary.consumer):
        ends.append(end.group or without_namespace(end.op))
    size = f"{boundary.bytes:,} bytes" if boundary.bytes is not None else "a tensor"
    go = "go" if boundary.bytes is not None else "goes"
    cause = boundary.cause
    if cause is not None:
        why = f"{cause.text} ({cause.code})"
    else:
        why = CACHED if _is_cached(report) else "the log does not show why"
    return f"{size} {go} through memory between {ends[0]} and {ends[1]}: {why}"


def _is_cached(report: Report) -> bool:
    graphs = report.compiled.graphs if report.compiled is not None else ()
    return any(graph.from_cache for graph in graphs)


def _why_no_lines(report: Report) -> str | None:
    lines = []
    for group in report.groups:
        for node in group.nodes:
            lines.append(node.user_source)
    if any(lines):
        return None
    return "the log shows no lines of the program: TORCH_LOGS=post_grad_graphs does, and TORCH_TRACE"


# -- graphs -------------------------------------------------------------------------------------------------


def _graph(
    limits: GraphLimits, report: Report, section: str
) -> Iterator[ExpectationOutcome]:
    graphs = graphs_at(limits, report)
    lines = f" of {', '.join(map(str, limits.source))}" if limits.source else ""
    of_graph = f"in each {limits.phase} graph{lines}"
    if limits.max_kernels is not None:
        kernels = [graph.kernels for graph in graphs]
        expected = f"at most {count(limits.max_kernels, 'kernel')} {of_graph}"
        yield _limited(limits, "max_kernels", kernels, expected, section)
    if limits.bytes_at_most is not None:
        moved = [graph.bytes_accessed for graph in graphs]
        expected = f"at most {limits.bytes_at_most:,} bytes {of_graph}"
        yield _limited(
            limits, "bytes_at_most", moved, expected, section, _no_bytes(graphs)
        )


def graphs_at(limits: GraphLimits, report: Report) -> list[CompiledGraphRow]:
    """The graphs of the phase that have an operator at the lines in one of their
    groups."""
    compiled = report.compiled
    graphs = compiled.graphs if compiled is not None else ()
    there = []
    for graph in graphs:
        if (graph.phase or "forward") == limits.phase and not graph.failed:
            there.append(graph)
    if not limits.source:
        return there
    ids = set()
    for group in report.groups:
        if any(_is_at(line_of(node), limits.source) for node in group.nodes):
            ids.add(group.id)
    return [graph for graph in there if ids & set(graph.groups)]


def _limited(
    limits: GraphLimits,
    key: str,
    values: Sequence[int | None],
    expected: str,
    section: str,
    without_bytes: str = "",
) -> ExpectationOutcome:
    """The outcome of a limit of graphs. The path is the item's if the limit cannot
    be updated to a value.

    Args:
        without_bytes: why a value is not known.
    """
    most = getattr(limits, key)
    known = [value for value in values if value is not None]
    if not values or len(known) < len(values):
        found = "no such graph" if not values else f"unknown: {without_bytes}"
        return ExpectationOutcome(
            section, limits.path, False, expected, found, at=limits.at
        )
    value = max(known)
    path = (*limits.path, key)
    return ExpectationOutcome(
        section,
        path,
        value <= most,
        expected,
        f"{value:,}",
        at=limits.at,
        value=value,
    )


def _no_bytes(graphs: Sequence[CompiledGraphRow]) -> str:
    """Why the bytes of these graphs are not known."""
    if any(graph.from_cache and graph.bytes_accessed is None for graph in graphs):
        return CACHED
    return NO_BYTES


# -- the whole run ------------------------------------------------------------------------------------------


def own_breaks(compiled: CompiledReport) -> list[GraphBreakRow]:
    """The graph breaks in the user's own files, and those without a line in the
    log."""
    own = []
    for row in compiled.breaks:
        line = Source.parse(row.user_source)
        if line is None or not is_of_library(line.file):
            own.append(row)
    return own


def _breaks(
    most: int, compiled: CompiledReport | None, outcome: Make
) -> ExpectationOutcome:
    expected = f"at most {count(most, 'graph break')} in your own files"
    if compiled is None:
        return outcome(
            "max_graph_breaks", False, expected, _NOT_COMPILED, None, None
        )
    rows = own_breaks(compiled)
    parts = []
    for row in rows[:_MOST_NAMED]:
        parts.append(
            " ".join(
                filter(
                    None,
                    (
                        row.reason.rstrip("."),
                        f"({row.user_source})" if row.user_source else "",
                    ),
                )
            )
        )
    why = "; ".join(parts)
    return outcome(
        "max_graph_breaks",
        len(rows) <= most,
        expected,
        str(len(rows)),
        why or None,
        len(rows),
    )


def _recompiles(
    most: int, compiled: CompiledReport | None, outcome: Make
) -> ExpectationOutcome:
    expected = f"at most {count(most, 'recompile')}"
    if compiled is None:
        return outcome("max_recompiles", False, expected, _NOT_COMPILED, None, None)
    number = sum(row.count for row in compiled.recompiles)
    guards: list[str] = []
    for row in compiled.recompiles:
        guards.extend(row.guards)
    why = f"a guard failed: {'; '.join(guards[:_MOST_NAMED])}" if guards else None
    return outcome(
        "max_recompiles", number <= most, expected, str(number), why, number
    )


def fallback_rows(report: Report) -> list[Unfused]:
    """The operators that run in eager code because the compiler generates none for
    them."""
    return [row for row in report.unfused if row.reason.code in FALLBACKS]


def _fallbacks(
    known: Sequence[str], report: Report, outcome: Make
) -> ExpectationOutcome:
    names = ", ".join(map(without_namespace, known))
    if known:
        expected = f"no operator but {names} in eager code"
    else:
        expected = "no operator in eager code"
    if report.compiled is None:
        return outcome("may_fall_back", False, expected, _NOT_COMPILED, None, None)
    rows = fallback_rows(report)
    new = [row for row in rows if row.op not in known]
    found = (
        ", ".join(dict.fromkeys(without_namespace(row.op) for row in new)) or "none"
    )
    why = "; ".join(reason_of(row) for row in new[:_MOST_NAMED]) or None
    every = sorted({row.op for row in rows})
    return outcome(
        "may_fall_back",
        not new,
        expected,
        found if new or not known else "no other",
        why,
        every,
    )


def _all_bytes(
    most: int, compiled: CompiledReport | None, outcome: Make
) -> ExpectationOutcome:
    expected = f"at most {most:,} bytes read and written"
    if compiled is None:
        return outcome("bytes_at_most", False, expected, _NOT_COMPILED, None, None)
    value = all_bytes(compiled)
    if value is not None:
        found = f"{value:,}"
    else:
        found = f"unknown: {_no_bytes(compiled.graphs)}"
    return outcome(
        "bytes_at_most",
        value is not None and value <= most,
        expected,
        found,
        None,
        value,
    )


def all_bytes(compiled: CompiledReport) -> int | None:
    """Bytes that the kernels and calls of all graphs read and write, each graph for
    its first types and sizes; None if the log lacks those of a graph."""
    total = 0
    for graph in compiled.graphs:
        if graph.specialisation > 1:
            continue
        if graph.bytes_accessed is None:
            return None
        total += graph.bytes_accessed
    return total
