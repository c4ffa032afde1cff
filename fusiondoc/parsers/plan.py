"""What one printed execution plan says: its fusion groups and the tensor operators outside them.

Works on a parsed dump (:mod:`fusiondoc.parsers.ir`) and keeps only what the report needs, so that the graph
itself can be dropped. Source of the rules: torch/csrc/jit/codegen/cuda/graph_fuser.cpp (1.12 to 2.0),
torch/csrc/jit/passes/tensorexpr_fuser.cpp and torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Iterable, Tuple

from fusiondoc.parsers.ir.types import holds_tensor, is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Dump, Graph, Node

FUSION_KINDS = {
    "prim::CudaFusionGroup": "CudaFusionGroup",
    "prim::TensorExprGroup": "TensorExprGroup",
    "prim::oneDNNFusionGroup": "oneDNNFusionGroup",
    "prim::FusionGroup": "FusionGroup",
}

GUARDS = frozenset(
    (
        "prim::TypeCheck",
        "prim::RequiresGradCheck",
        "prim::CudaFusionGuard",
        "prim::CudaFusionSizeEq",
        "prim::CudaFusionIvalGuard",
        "prim::CudaFusionViewGuard",
        "prim::TensorExprDynamicGuard",
        "prim::oneDNNFusionGuard",
        "prim::BailOut",
        "prim::BailoutTemplate",
        "prim::Guard",
    )
)
"""Nodes that a fuser or the executor adds to check types; they compute nothing of the program."""

NOT_OPERATORS = ("prim::profile", "prim::Tuple", "prim::List")
NOT_OPERATOR_KINDS = frozenset(
    ("prim::Constant", "prim::Param", "prim::FallbackGraph", "prim::DifferentiableGraph")
)

_AUTOGRAD = "prim::Autograd"
_SYMBOL = re.compile(r"SS\((-?\d+)\)")

Op = Tuple[str, "str | None"]
"""(kind, source): what identifies an operator across dumps, in which value names change."""


@dataclass(frozen=True)
class PlanGroup:
    kind: str
    name: str
    body: tuple[Op, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    line: int
    """Offset of the group's ``with`` section in the dump (of the node if the section is missing)."""
    values: tuple[str, ...]
    """Names of the node's outputs."""
    canonical: bytes
    """What nvFuser's kernel cache goes by: the graph without value names and sources, so that equal groups of
    other source lines have it too (torch/csrc/jit/codegen/cuda/manager.cpp, getCacheId)."""
    conditional: bool = False
    """It stands in a branch or loop of the program, so it need not run once in every run of the plan."""


@dataclass(frozen=True)
class LooseNode:
    """A tensor operator outside every group."""

    op: str
    source: str | None
    value: str
    line: int
    types: tuple[str, ...]


@dataclass
class DiffGraph:
    """The body of a prim::DifferentiableGraph as the outer plan prints it: its own executor fuses it
    later."""

    ops: frozenset[Op]
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)


@dataclass
class Plan:
    groups: list[PlanGroup] = field(default_factory=list)
    loose: list[LooseNode] = field(default_factory=list)
    diff_graphs: list[DiffGraph] = field(default_factory=list)
    backward: bool = False
    """The graph holds nodes that only gradient executors have (prim::AutogradAdd, ...)."""
    users: bool = False
    """The graph holds a node of a source file (autodiff formulas have the source ``<string>``)."""
    complete: bool = True

    def ops(self) -> frozenset[Op]:
        """Every operator of the plan, in groups or not."""
        found = {(n.op, n.source) for n in self.loose}
        for group in self.groups:
            found.update(group.body)
        return frozenset(found)


def summarise(dump: Dump) -> Plan:
    """What a plan's dump says. Bodies of FallbackGraph and fallback_function count for nothing."""
    plan = Plan(complete=dump.complete)
    _walk(dump, dump.graph.nodes, plan.groups, plan.loose, plan)
    return plan


def summarise_group(dump: Dump) -> PlanGroup:
    """A dump that is the body of a group itself (kernel_cache's ``GraphCache created for graph``)."""
    return _group_of("CudaFusionGroup", "", dump.graph, 0, ())


def _walk(
    dump: Dump,
    nodes: Iterable[Node],
    groups: list[PlanGroup],
    loose: list[LooseNode],
    plan: Plan,
    conditional: bool = False,
) -> None:
    for node in nodes:
        kind = node.kind
        if kind in FUSION_KINDS:
            body = dump.resolve(node)
            values = tuple(v.name for v in node.outputs)
            if body is not None:
                group = _group_of(FUSION_KINDS[kind], node.ref or kind, body, body.line, values)
                groups.append(replace(group, conditional=conditional))
                plan.users = plan.users or any(_from_file(source) for _, source in groups[-1].body)
            continue
        if kind == "prim::DifferentiableGraph":
            body = dump.resolve(node)
            if body is not None:
                inner = DiffGraph(frozenset((n.kind, n.source) for n in body.walk()))
                _walk(dump, body.nodes, inner.groups, inner.loose, plan)
                plan.diff_graphs.append(inner)
            continue
        if kind.startswith(_AUTOGRAD):
            plan.backward = True
        if _from_file(node.source):
            plan.users = True
        blocks = node.blocks
        if blocks:
            guard = kind == "prim::If" and len(blocks) == 2 and _is_fallback(blocks[1].nodes)
            for block in blocks[:1] if guard else blocks:
                _walk(dump, block.nodes, groups, loose, plan, conditional or not guard)
            if guard:
                continue
        if _is_operator(node):
            types = tuple(v.type for v in node.outputs)
            loose.append(LooseNode(kind, node.source, node.outputs[0].name, node.line, types))


def _from_file(source: str | None) -> bool:
    return source is not None and not source.startswith("<")


def _is_operator(node: Node) -> bool:
    kind = node.kind
    if kind in NOT_OPERATOR_KINDS or kind in GUARDS or kind.startswith(NOT_OPERATORS):
        return False
    return any(is_tensor(v.type) or holds_tensor(v.type) for v in node.outputs)


def _is_fallback(nodes: Iterable[Node]) -> bool:
    """The else-branch of a guard: a FallbackGraph, or after the executor's last step a call of
    ``fallback_function`` (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp)."""
    found = False
    for node in nodes:
        if node.kind == "prim::FallbackGraph" or (
            node.kind == "prim::Constant" and node.attributes.get("name") == '"fallback_function"'
        ):
            found = True
        elif node.kind not in ("prim::Constant", "prim::CallFunction", "prim::TupleUnpack"):
            return False
    return found


def _group_of(kind: str, name: str, body: Graph, line: int, values: tuple[str, ...]) -> PlanGroup:
    ops = []
    types = {v.name: v.type for v in body.params}
    numbers = {v.name: i for i, v in enumerate(body.params)}
    canonical: list[object] = [v.type for v in body.params]
    for node in body.walk():
        canonical += (node.kind, [numbers.get(v) for v in node.inputs], sorted(node.attributes.items()))
        for value in node.outputs:
            types[value.name] = value.type
            numbers[value.name] = len(numbers)
            canonical.append(value.type)
        if node.kind != "prim::Constant":
            ops.append((node.kind, node.source))
    canonical.append([numbers.get(v) for v in body.outputs])
    symbols: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        return symbols.setdefault(found.group(1), f"SS(-{len(symbols) + 2})")

    inputs = tuple(_SYMBOL.sub(rename, v.type) for v in body.params)
    outputs = tuple(_SYMBOL.sub(rename, types.get(name, "")) for name in body.outputs)
    key = blake2b(repr(canonical).encode(), digest_size=16).digest()
    return PlanGroup(kind, name, tuple(ops), inputs, outputs, line, values, key)
