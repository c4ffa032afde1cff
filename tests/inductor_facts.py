"""Facts that hooks inside torch wrote of compiled programs, as a ``Compilation``.

No code of the package reads them. They are the oracle of what readers of logs and
traces find, and stand in for these in tests of reports.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fusiondoc.fusers.inductor.compilation import (
    Access,
    Compilation,
    CompilationPart,
    CompiledGraph,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    GraphOperator,
    Refusal,
)
from fusiondoc.fusers.inductor.kinds import CallKind

FINAL_KINDS = {
    "SchedulerNode": FinalKind.LOOPS,
    "FusedSchedulerNode": FinalKind.LOOPS,
    "OuterLoopFusedSchedulerNode": FinalKind.OUTER_LOOP,
    "ForeachKernelSchedulerNode": FinalKind.FOREACH,
    "FusedMixOrderReductions": FinalKind.MIXED_ORDER,
    "NopKernelSchedulerNode": FinalKind.NOTHING,
    "ExternKernelSchedulerNode": FinalKind.CALL,
}
ON_PURPOSE = ("aten.sort", "aten.topk", "aten.convolution_backward")


@cache
def facts_in(archive: Path) -> Mapping[str, Mapping[str, Any]]:
    """Program -> its facts, of an archive with ``PROGRAM/facts.json``."""
    with tarfile.open(archive) as files:
        members = [
            member
            for member in files.getmembers()
            if member.name.endswith("/facts.json")
        ]
        texts = {
            member.name.split("/")[-2]: files.extractfile(member)
            for member in members
        }
        return {
            name: json.load(text)
            for name, text in texts.items()
            if text is not None
        }


def compilation_of(facts: Mapping[str, Any]) -> Compilation:
    graphs = tuple(_graphs(facts["graphs"]))
    return Compilation(graphs=graphs, torch=facts["torch"])


def _graphs(graphs: list[Mapping[str, Any]]) -> Iterator[CompiledGraph]:
    for graph in graphs:
        if graph.get("after"):
            backward = graph["backward"]
            yield CompiledGraph(
                compile_id=f"{graph['graph_id']}/0",
                phase="backward" if backward else "forward",
                order=1 if backward else 0,
                inference=graph["inference"],
                holds=frozenset(
                    (
                        CompilationPart.GRAPH,
                        CompilationPart.DECISIONS,
                        CompilationPart.LAYERS,
                    )
                ),
                operators=tuple(map(_operator, graph["post_grad_nodes"])),
                final=tuple(_final(node, graph) for node in graph["after"]),
                kernels=tuple(_kernels(graph["kernels"])),
                refusals=tuple(_refusals(graph)),
                outputs=tuple(node["name"] for node in graph["post_grad_nodes"]),
            )


def _operator(node: Mapping[str, Any]) -> GraphOperator:
    target = "getitem" if "getitem" in node["target"] else node["target"]
    found = re.match(r'File "(.*)", line (\d+), in (\w+)', node["line"] or "")
    layer = (
        re.search(r"\['self'\]\.(.*)", node["layer"][0]) if node["layer"] else None
    )
    return GraphOperator(
        node["name"],
        "call_function",
        target,
        (),
        source=f"{found[1]}:{found[2]}" if found is not None else None,
        layer=layer[1] if layer is not None else None,
        from_=node["from"][0] if node["from"] else None,
    )


def _final(node: Mapping[str, Any], graph: Mapping[str, Any]) -> FinalNode:
    """The operators are those of its kernel: of a C++ function, which holds several
    nodes, those of all."""
    writes = set(node["writes"])
    kernels = [kernel for kernel in graph["kernels"] if _of(node, kernel)]
    kind = FINAL_KINDS[node["kind"]]
    if node["node"] == "MultiOutput":
        kind = FinalKind.NOTHING
    return FinalNode(
        node["name"],
        tuple(node["members"]),
        kind,
        node["kind"],
        operators=tuple(
            dict.fromkeys(op["name"] for kernel in kernels for op in kernel["ops"])
        ),
        reads=_accesses(node["reads"], node["read"], writes),
        writes=_accesses(node["writes"], node["write"], set()),
        read_bytes=node["read"],
        write_bytes=node["write"],
        kernel=kernels[0]["kernel"] if kernels else None,
        call=_call(node) if kind is FinalKind.CALL else None,
        sizes=node["group"],
    )


def _of(node: Mapping[str, Any], kernel: Mapping[str, Any]) -> bool:
    held = set(kernel["snodes"])
    return bool(held & set(node["members"])) or (
        kernel["extern"] and bool(held & set(node["writes"]))
    )


def _accesses(
    buffers: list[str], moved: int, without: set[str]
) -> tuple[Access, ...]:
    kept = [buffer for buffer in buffers if buffer not in without]
    return tuple(
        Access(buffer, moved if len(kept) == 1 else None) for buffer in kept
    )


def _call(node: Mapping[str, Any]) -> CallKind:
    if node["node"] == "RandomSeeds":
        return CallKind.RANDOM_SEED
    if node["node"] == "UserDefinedTritonKernel":
        return CallKind.USER_TRITON
    if node["node"] != "FallbackKernel":
        return CallKind.LIBRARY
    if not node["op"].startswith(("aten.", "prims.")):
        return CallKind.CUSTOM
    return (
        CallKind.ON_PURPOSE
        if node["op"].startswith(ON_PURPOSE)
        else CallKind.NO_LOWERING
    )


def _kernels(kernels: list[Mapping[str, Any]]) -> Iterator[GeneratedKernel]:
    for kernel in kernels:
        if not kernel["extern"]:
            yield GeneratedKernel(kernel["kernel"], kernel["kernel"].split("_")[0])


def _refusals(graph: Mapping[str, Any]) -> Iterator[Refusal]:
    """Rounds are not in the facts: a refusal of two final nodes counts as one of
    the last round."""
    final = {node["name"] for node in graph["after"]}
    for first, second, text in (
        *graph["why"],
        *((a, b, None) for a, b in graph["silent"]),
    ):
        yield Refusal(first, second, text, 1, first in final and second in final)
