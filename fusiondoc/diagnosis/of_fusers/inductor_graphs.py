"""A compiled graph as rules need it: its final nodes with the operators that they
compute, the buffers that hold data, and the final node of each operator of the
graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property

from fusiondoc.fusers.inductor.compilation import (
    Access,
    Buffer,
    CompilationPart,
    CompiledGraph,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    GraphOperator,
)
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.fusers.inductor.targets import moves_nothing, operator_name
from fusiondoc.model.compiled import Accounts
from fusiondoc.operators import BY_NAME

_NUMBER = re.compile(r"_\d+\Z")
_ONEDNN = "mkldnn."
_SYMBOL = "Sym("
"""How torch prints the type of a number that is not known at compile time:
``Sym(s77)``."""


def name_without_graph(node: str) -> str:
    """Return the operator of a node of which only the name is known: torch.fx makes
    ``add_1`` of ``aten.add``."""
    name = _NUMBER.sub("", node)
    if f"aten::{name}" in BY_NAME:
        return f"aten::{name}"
    return name


CAT = "aten::cat"
"""The operator that no node computes if its parts are written to their final memory
(``ConcatKernel``, torch/_inductor/ir.py)."""
_NO_KERNEL_OF_THEIR_OWN = frozenset(
    (
        CAT,
        "aten::empty",
        "aten::empty_like",
        "aten::empty_permuted",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::lift_fresh_copy",
    )
)
"""Operators that may be in no node: memory that is only allocated, and constants in
the code of kernels (a small tensor, ``get_attr`` of torch/_inductor/graph.py)."""


def is_a_size(operator: GraphOperator) -> bool:
    """True if its result is a number that the host computes: a dynamic size, or a
    formula of sizes."""
    return operator.type is not None and operator.type.startswith(_SYMBOL)


class Role(Enum):
    """The role of a final node in a report."""

    GROUP = "group"
    CALL = "call"
    PASSES_ON = "passes on"
    """It computes nothing: its results share the memory of its inputs."""


class ComputingNode:
    """A final node with the operators that it computes."""

    def __init__(
        self,
        index: int,
        final: FinalNode,
        role: Role,
        operators: Sequence[GraphOperator],
    ) -> None:
        self.index = index
        """The index among the final nodes of its graph."""
        self.final = final
        self.role = role
        self.operators = tuple(operators)
        """The operators that it computes, in the order of the graph, without views;
        for a call the called one."""

    @property
    def op(self) -> str | None:
        """Its first operator; None if none is known."""
        if self.operators:
            return operator_name(self.operators[0].target)
        return None


class FinalGraph:
    """A compiled graph, seen from its final nodes."""

    def __init__(self, graph: CompiledGraph, fallbacks: Sequence[str] = ()) -> None:
        """Index the nodes and buffers of a graph.

        Args:
            fallbacks: the operators that torch printed to be calls.
        """
        self.graph = graph
        self._fallbacks = frozenset(fallbacks)
        self._operators = {operator.name: operator for operator in graph.operators}
        self._order = {}
        for number, operator in enumerate(graph.operators):
            self._order[operator.name] = number
        has_code = CompilationPart.CODE in graph.holds
        roles = [_role(final, has_code) for final in graph.final]
        called = []
        for final, role in zip(graph.final, roles):
            called.append(self._called(final) if role is Role.CALL else None)
        self._in_calls = {
            operator.name for operator in called if operator is not None
        }
        self.nodes = tuple(
            ComputingNode(index, final, role, self._computed(final, role, call))
            for index, (final, role, call) in enumerate(
                zip(graph.final, roles, called)
            )
        )
        self._writers = {}
        for node in self.nodes:
            for access in node.final.writes:
                self._writers[access.buffer] = node.index
        self._roots: dict[str, tuple[str, ...]] = {}

    # -- operators ------------------------------------------------------------------------------------------

    def operator(self, name: str) -> GraphOperator:
        """Return the node of the graph; for a node that no source shows, one made
        from its name."""
        known = self._operators.get(name)
        return known or GraphOperator(
            name, "call_function", name_without_graph(name), ()
        )

    def _called(self, final: FinalNode) -> GraphOperator | None:
        """Return the operator of a call: lowering also names views of its arguments
        and the operators that make these."""
        operators = self._in_order(final.operators)
        wanted = _function_name(final.kernel)
        for operator in operators:
            if (
                wanted is not None
                and operator_name(operator.target).rpartition("::")[2] == wanted
            ):
                return operator
        computing = []
        for one in operators:
            if not moves_nothing(operator_name(one.target)):
                computing.append(one)
        candidates = computing or operators
        if candidates:
            return candidates[-1]
        return None

    def call_is_stated(self, node: ComputingNode) -> bool:
        """True if torch itself printed that it made a call of the operator."""
        printed = any(
            operator.target in self._fallbacks for operator in node.operators
        )
        return node.final.call_is_stated or (
            printed and node.final.kind is FinalKind.CALL
        )

    def _in_order(self, names: Sequence[str]) -> list[GraphOperator]:
        last = len(self._order)
        operators = []
        for name in sorted(names, key=lambda name: self._order.get(name, last)):
            operators.append(self.operator(name))
        return operators

    def _computed(
        self, final: FinalNode, role: Role, called: GraphOperator | None
    ) -> list[GraphOperator]:
        if role is Role.CALL:
            if called is None:
                return []
            return [called]
        if role is Role.PASSES_ON:
            operators = []
            for one in self._in_order(final.operators):
                if one.name not in self._in_calls:
                    operators.append(one)
            return operators
        operators = []
        for one in self._in_order(final.operators):
            if (
                one.name not in self._in_calls
                and not moves_nothing(operator_name(one.target))
                and not is_a_size(one)
            ):
                operators.append(one)
        return operators

    @cached_property
    def accounts(self) -> Accounts | None:
        """The number of operators in groups, in calls, as views and dead; None if
        the graph or its final nodes are not known.

        A graph of views only has no final nodes.
        """
        compiled = self.graph.failed is None and not self.graph.holds.isdisjoint(
            (CompilationPart.CODE, CompilationPart.LAYERS)
        )
        if not self.graph.operators or not (self.graph.final or compiled):
            return None
        went: dict[str, list[str]] = {}
        for operator in self.graph.operators:
            if operator.op == "call_function":
                went.setdefault(self._fate(operator), []).append(operator.name)
        counts = {}
        for name in ("in_groups", "in_calls", "views", "dead"):
            counts[name] = len(went.get(name, ()))
        return Accounts(**counts, not_found=tuple(went.get("not_found", ())))

    def _fate(self, operator: GraphOperator) -> str:
        """Return the field of ``Accounts`` that counts an operator."""
        op = operator_name(operator.target)
        if operator.name in self._in_calls:
            return "in_calls"
        if moves_nothing(op) or is_a_size(operator):
            return "views"
        if operator.name in self._mentioned:
            return "in_groups"
        if op in _NO_KERNEL_OF_THEIR_OWN:
            return "views"
        is_read = operator.name in self._read or operator.name in self.graph.outputs
        if is_read:
            return "not_found"
        return "dead"

    @cached_property
    def _mentioned(self) -> frozenset[str]:
        names: set[str] = set()
        for final in self.graph.final:
            names.update(final.operators)
        return frozenset(names)

    @cached_property
    def _read(self) -> frozenset[str]:
        names: set[str] = set()
        for operator in self.graph.operators:
            names.update(operator.inputs)
        return frozenset(names)

    # -- buffers --------------------------------------------------------------------------------------------

    @cached_property
    def buffers(self) -> Mapping[str, Buffer]:
        """Name -> buffer."""
        return {buffer.name: buffer for buffer in self.graph.buffers}

    @cached_property
    def kernels(self) -> Mapping[str, GeneratedKernel]:
        """Name -> kernel."""
        return {kernel.name: kernel for kernel in self.graph.kernels}

    def roots(self, buffer: str) -> tuple[str, ...]:
        """Return the buffers whose memory it shares: elements of a tuple result,
        and the parts of a concatenation, lead to the buffers that were computed."""
        if buffer not in self._roots:
            self._roots[buffer] = (
                buffer,
            )  # before the search: a damaged log may have cycles
            found: dict[str, None] = {}
            for name in self._sources(buffer):
                found.update(dict.fromkeys(self.roots(name)))
            self._roots[buffer] = tuple(found) or (buffer,)
        return self._roots[buffer]

    def _sources(self, buffer: str) -> Sequence[str]:
        """Return the buffers that form a buffer which no node computes."""
        writer = self._writers.get(buffer)
        if writer is not None and self.nodes[writer].role is not Role.PASSES_ON:
            return ()
        reads = self.nodes[writer].final.reads if writer is not None else ()
        return [access.buffer for access in reads] or self._parts.get(buffer, ())

    @cached_property
    def _parts(self) -> Mapping[str, list[str]]:
        """Buffer -> the written buffers that are part of its memory."""
        parts: dict[str, list[str]] = {}
        for part in self.graph.buffers:
            if part.part_of is not None and part.name in self._writers:
                parts.setdefault(part.part_of, []).append(part.name)
        return parts

    def is_joined(self, buffer: str) -> bool:
        """True if a buffer is a concatenation: others are written to parts of its
        memory."""
        return len(self.roots(buffer)) > 1

    def writer(self, buffer: str) -> ComputingNode | None:
        """Return the node that computes a buffer; None for an input of the
        graph."""
        index = self._writers.get(buffer)
        if index is None:
            return None
        return self.nodes[index]

    @cached_property
    def writers_before(self) -> Sequence[Mapping[str, int]]:
        """For each node the buffers that it reads, with the index of the node that
        wrote to each last: a node that changes a buffer in place reads the result
        of an earlier writer."""
        last: dict[str, int] = {}
        found: list[Mapping[str, int]] = []
        for node in self.nodes:
            if node.role is Role.PASSES_ON:
                found.append({})
                continue
            read: dict[str, None] = {}
            for one in node.final.reads:
                for root in self.roots(one.buffer):
                    read[root] = None
            found.append({root: last[root] for root in read if root in last})
            last.update((access.buffer, node.index) for access in node.final.writes)
        return found

    def size_of(self, buffer: str, accesses: Sequence[Access]) -> int | None:
        """Return the bytes of a buffer that these accesses move, each element
        once."""
        known = []
        for access in accesses:
            if access.buffer == buffer and access.bytes is not None:
                known.append(access.bytes)
        whole = self.buffers[buffer].bytes if buffer in self.buffers else None
        if known:
            return min(known)
        return whole

    @cached_property
    def read_later(self) -> Mapping[int, frozenset[str]]:
        """Index of a node -> buffers that it writes and that other nodes read, or
        the graph returns."""
        used = set(self.graph.outputs)
        for node in self.nodes:
            for access in node.final.reads:
                if not _own(node, access.buffer):
                    used.add(access.buffer)
        buffers = {}
        for node in self.nodes:
            buffers[node.index] = frozenset(
                access.buffer
                for access in node.final.writes
                if access.buffer in used
            )
        return buffers


def _own(node: ComputingNode, buffer: str) -> bool:
    return any(access.buffer == buffer for access in node.final.writes)


def _role(final: FinalNode, has_code: bool) -> Role:
    """Return the role of a final node.

    If ``has_code``, the calls of the generated code are known: a call that is none
    of them takes an element of a tuple result (``MultiOutput``, which the fusion
    log calls an ExternKernelSchedulerNode).
    """
    if final.kind is FinalKind.NOTHING or final.call is CallKind.VIEW:
        return Role.PASSES_ON
    if final.kind is not FinalKind.CALL or is_pattern(final):
        return Role.GROUP
    is_called = final.kernel is not None or final.operators or not has_code
    if is_called:
        return Role.CALL
    return Role.PASSES_ON


def is_pattern(final: FinalNode) -> bool:
    """True if it is a call that a pattern matcher made of several operators: a call
    of oneDNN's, such as ``mkldnn._convolution_pointwise`` for a convolution with
    the operators that follow it."""
    called = final.kernel or ""
    return final.kind is FinalKind.CALL and _ONEDNN in called


def _function_name(called: str | None) -> str | None:
    """Return ``addmm`` for ``extern_kernels.addmm``, ``twice`` for
    ``torch.ops.lab.twice.default``."""
    if called is None:
        return None
    found = re.match(r"(?:torch\.ops\.)?(?:aten|prims|\w+)\.(\w+)", called)
    if found is None:
        return called
    return found[1]
