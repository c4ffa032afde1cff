"""Merges everything that was read of a run into one ``Compilation``: parts of the
same graph from several sources, by rank, compile id and order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from fusiondoc.fusers.inductor.break_texts import error_in_short
from fusiondoc.fusers.inductor.compilation import (
    Buffer,
    Compilation,
    CompilationPart,
    CompiledGraph,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    GraphBreak,
    GraphOperator,
    Recompile,
)
from fusiondoc.parsers.inductor.buffer_types import typed_buffers
from fusiondoc.parsers.inductor.called_nodes import (
    bytes_moved,
    called_nodes,
    generated_kernels,
)
from fusiondoc.parsers.inductor.generated_code import GeneratedModule
from fusiondoc.parsers.inductor.graph_parts import GraphParts, PartsOfProcess
from fusiondoc.parsers.inductor.library_calls import with_operators
from fusiondoc.parsers.inductor.matched_nodes import matched
from fusiondoc.parsers.inductor.post_fusion_ir import in_memory, with_accesses


def compilation_of(processes: Sequence[PartsOfProcess]) -> Compilation:
    """Return the merged contents of the sources. Each process contributes the parts
    that its texts have."""
    graphs: list[CompiledGraph] = []
    orders = Counter[tuple[int | None, str | None]]()
    for parts in _joined(processes):
        compilation = parts.rank, parts.compile_id
        graphs.append(_graph(parts, orders[compilation]))
        orders[compilation] += 1
    known = [process for process in processes if process.torch is not None]
    return Compilation(
        graphs=tuple(graphs),
        breaks=_each_once(
            chain.from_iterable(process.breaks for process in processes)
        ),
        recompiles=_each_once(
            chain.from_iterable(process.recompiles for process in processes)
        ),
        torch=known[0].torch if known else None,
        torch_is_guessed=bool(known)
        and all(process.torch_is_guessed for process in known),
        fallbacks=_texts(process.fallbacks for process in processes),
        unknown_texts=_texts(process.unknown for process in processes),
        cut=sum(process.cut for process in processes),
        cache_hits=sum(process.cache_hits for process in processes),
    )


def _texts(texts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return all texts without duplicates."""
    return tuple(dict.fromkeys(chain.from_iterable(texts)))


def _joined(processes: Sequence[PartsOfProcess]) -> list[GraphParts]:
    """Merge the parts of the same graph from several sources, in the order of the
    first source."""
    ranks = set()
    for process in processes:
        if process.rank is not None:
            ranks.add(process.rank)
    only = next(iter(ranks)) if len(ranks) == 1 else None
    made: list[GraphParts] = []
    for process in processes:
        rank = process.rank if process.rank is not None else only
        before = [one for one in made if one.rank == rank]
        taken: set[int] = set()
        for parts in process.graphs:
            parts.rank = rank
            same = None
            for one in before:
                if id(one) not in taken and _fits(one, parts):
                    same = one
                    break
            if same is None:
                made.append(parts)
            else:
                taken.add(id(same))
                _fill(same, parts)
    return made


def _fits(one: GraphParts, other: GraphParts) -> bool:
    """True if two sources may show the same graph: nothing contradicts it."""
    # Files of a debug folder do not state the id.
    ids = {one.compile_id, other.compile_id} - {None}
    if len(ids) > 1 or one.from_cache != other.from_cache:
        return False
    if one.module is None or other.module is None:
        return True
    return _calls(one.module) == _calls(other.module)


def _calls(module: GeneratedModule) -> list[str]:
    return [module.phase or "", *(step.target for step in module.wrapper.steps)]


def _fill(one: GraphParts, other: GraphParts) -> None:
    """Add the facts about a graph from another source to those from the first."""
    one.compile_id = one.compile_id or other.compile_id
    one.graph = one.graph or other.graph
    one.ir = one.ir or other.ir
    one.decisions = one.decisions or other.decisions
    if one.module is None:
        one.module, one.module_lines = other.module, other.module_lines
    one.provenance.nodes.update(other.provenance.nodes)
    one.provenance.sources.update(other.provenance.sources)
    one.kernels.update(other.kernels)
    one.classes = one.classes or other.classes
    one.bytes_accessed = one.bytes_accessed or other.bytes_accessed
    one.seconds.update(other.seconds)
    if one.failed is None:
        one.failed, one.failed_at = other.failed, other.failed_at
    one.texts = {**other.texts, **one.texts}


def _graph(parts: GraphParts, order: int) -> CompiledGraph:
    """Return a graph in the form that the diagnosis reads."""
    graph = CompiledGraph(
        parts.compile_id,
        _phase(parts),
        order,
        rank=parts.rank,
        holds=_holds(parts),
        from_cache=parts.from_cache,
        failed=error_in_short(parts.failed) if parts.failed is not None else None,
        failed_at=parts.failed_at,
        seconds=tuple(parts.seconds.items()),
        bytes_accessed=parts.bytes_accessed,
        line=parts.line,
        texts=tuple(parts.texts.items()),
    )
    if parts.graph is not None:
        graph = replace(
            graph, operators=parts.graph.operators, outputs=parts.graph.outputs
        )
    decided = parts.ir
    if parts.decisions is not None:
        decided = with_accesses(parts.decisions.final_nodes(), parts.ir)
        refusals = parts.decisions.refusals
        graph = replace(
            graph, refusals=refusals, refusals_left_out=parts.decisions.left_out
        )
    if parts.module is None:
        return replace(graph, final=_of_graph(decided, graph.operators))
    return _with_code(graph, decided, parts.module, parts)


def _with_code(
    graph: CompiledGraph,
    decided: Sequence[FinalNode],
    module: GeneratedModule,
    parts: GraphParts,
) -> CompiledGraph:
    """Return a graph with the facts from its generated code."""
    lines = parts.module_lines
    called = called_nodes(module, lines)
    named = with_operators(called.nodes, module, graph.operators, parts.provenance)
    called = called._replace(nodes=named)
    buffers = typed_buffers(module.wrapper, named, graph.operators)
    by_name = {buffer.name: buffer for buffer in buffers}
    functions = set()
    for kernel in module.kernels.values():
        if kernel.kind == "cpp":
            functions.add(kernel.name)
    used = set()
    for node in named:
        for access in (*node.reads, *node.writes):
            used.add(access.buffer)
    in_use = {}
    for name, buffer in by_name.items():
        if name in used:
            in_use[name] = buffer
    decided = [in_memory(node, in_use) for node in decided]
    if decided:
        final = matched(decided, called, functions, module.wrapper.elements)
    else:
        final = tuple(named)
    kernels = []
    for one in generated_kernels(module, lines):
        kernels.append(_configured(one, parts))
    return replace(
        graph,
        graph_number=module.number,
        inference=module.phase == "inference" if module.phase else None,
        final=_of_graph([_sized(node, by_name) for node in final], graph.operators),
        kernels=tuple(kernels),
        buffers=buffers,
        outputs=module.wrapper.outputs or graph.outputs,
    )


def _phase(parts: GraphParts) -> str | None:
    if parts.module is None or parts.module.phase is None:
        return None
    if parts.module.phase == "backward":
        return "backward"
    return "forward"


def _holds(parts: GraphParts) -> frozenset[CompilationPart]:
    found = (
        (CompilationPart.GRAPH, parts.graph is not None),
        (CompilationPart.DECISIONS, parts.decisions is not None),
        (CompilationPart.CODE, parts.module is not None),
    )
    return frozenset(part for part, there in found if there)


def _sized(node: FinalNode, buffers: Mapping[str, Buffer]) -> FinalNode:
    """Return a node with its bytes, for buffers whose types came from the graph."""
    read, written = node.read_bytes, node.write_bytes
    if node.reads and read is None:
        read = bytes_moved(buffers, node.reads)
    if node.writes and written is None:
        written = bytes_moved(buffers, node.writes)
    return replace(node, read_bytes=read, write_bytes=written)


def _of_graph(
    nodes: Iterable[FinalNode], operators: Sequence[GraphOperator]
) -> tuple[FinalNode, ...]:
    """Return the nodes without names of operators that are not in the graph or that
    compute nothing."""
    if not operators:
        return tuple(nodes)
    computed = set()
    for one in operators:
        if one.op == "call_function":
            computed.add(one.name)
    calls: set[str] = set()
    for node in nodes:
        if node.kind is FinalKind.CALL:
            calls.update(node.operators)
    made = []
    for node in nodes:
        names = [name for name in node.operators if name in computed]
        if node.kind is not FinalKind.CALL:
            names = [name for name in names if name not in calls]
        made.append(replace(node, operators=tuple(names)))
    return tuple(made)


def _configured(kernel: GeneratedKernel, parts: GraphParts) -> GeneratedKernel:
    """Return a kernel with the configuration that was chosen for it."""
    config = parts.kernels.get(kernel.name, {}).get("only_config")
    if not isinstance(config, list):
        return kernel
    pairs = [pair for pair in config if isinstance(pair, list) and len(pair) == 2]
    return replace(
        kernel, config=tuple((str(name), str(value)) for name, value in pairs)
    )


_Row = TypeVar("_Row", GraphBreak, Recompile)


def _each_once(rows: Iterable[_Row]) -> tuple[_Row, ...]:
    """Return the rows without those that an earlier source shows too."""
    made: dict[object, _Row] = {}
    for row in rows:
        text = row.reason if isinstance(row, GraphBreak) else row.guards
        made.setdefault((row.compile_id, row.rank, row.source, text), row)
    return tuple(made.values())
