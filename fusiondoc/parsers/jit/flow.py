"""How tensors flow through a plan: the neighbours of each operator, and the block
of control flow that contains it.

A small graph of its own, kept with the plan: its nodes are fusion groups,
differentiable graphs, control flow and tensor operators; an edge is a tensor that
one node makes and the other takes. Guards, profile nodes, tuples and lists are no
nodes: edges pass through them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fusiondoc.model.reasons import Condition
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit.conditions import condition_of, constant_of
from fusiondoc.parsers.jit.hubs import SEEN_IN_LIST, Hub, Hubs, most_neighbours

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Node
    from fusiondoc.parsers.jit.profiled_graphs import PropertyRead

GROUP = "group"
REGION = "region"
"""A prim::DifferentiableGraph."""
CONTROL = "control"
OPERATOR = "operator"
_MAKES_OF_A_SIZE = frozenset(
    f"aten::{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn")
)

_APPEND = "aten::append"
_LONGEST_LIST = 10
"""Number of elements of a list that are read. Lists of sizes and axes are never
longer; of longer lists of tensors only the first are read."""

PYTHON = "^"
"""Prefix of the node kinds of calls of Python functions: ``^log_stats``."""

SIDE_EFFECTS = frozenset(
    [
        "prim::Print",
        "prim::SetAttr",
        "aten::warn",
        "aten::manual_seed",
        "prim::Enter",
        "prim::Exit",
        PYTHON,
    ]
)
"""Nodes with side effects: no node is moved past them (hasSideEffects of
torch/csrc/jit/ir/ir.cpp)."""


class Operand(NamedTuple):
    """An input of a node: a tensor or another value."""

    type: str
    maker: str
    """Kind of the node that makes it; empty for an input of the graph or a
    block."""
    value: str | None
    """For a constant, its value as printed: ``1``, ``[0, 1]``, ``"none"``,
    ``None``."""
    parts: tuple[str | None, ...] = ()
    """For a prim::ListConstruct, its elements; None for those that are not
    constant."""
    by: int | None = None
    """The flow index of the only node that makes it; None if several or none do."""
    result: int | None = None
    """The index of the output of that node, if it is known."""


Result: TypeAlias = tuple[int, int]
"""The index of a node in the flow, and of one of its outputs."""


class Stop(NamedTuple):
    """One of SIDE_EFFECTS. Nodes of an enclosing block move past the whole block
    that contains it."""

    before: int
    """The number of nodes of the flow before it."""
    kind: str
    source: str | None
    block: tuple[int, ...]
    """The control nodes that contain it, outermost first."""


Indexes = Collection[int]
"""Distinct indexes in the flow. A plan can have 100,000 nodes, so this is a tuple
while there are few."""

_FEW = 8


def _with(indexes: Indexes, index: int) -> Indexes:
    """Return the indexes and one more; a set is changed itself."""
    if index in indexes:
        return indexes
    if isinstance(indexes, set):
        indexes.add(index)
        return indexes
    if len(indexes) < _FEW:
        return (*indexes, index)
    return {*indexes, index}


class FlowNode:
    """A node of the flow. ``kind`` is one of the constants above; ``block`` has the
    control nodes that contain the node, outermost first."""

    __slots__ = (
        "after",
        "arguments",
        "before",
        "block",
        "condition",
        "decides",
        "index",
        "inputs",
        "kind",
        "line",
        "numbers",
        "op",
        "operands",
        "outputs",
        "ran",
        "requires_grad",
        "sizes",
        "source",
        "stored",
        "takes",
    )

    def __init__(
        self, kind: str, node: Node, block: tuple[int, ...], index: int
    ) -> None:
        self.kind = kind
        self.op = node.kind
        self.source = node.source
        self.block = block
        self.inputs: tuple[str, ...] = ()
        """Types of its tensor inputs, if known."""
        self.outputs: tuple[str, ...] = ()
        self.index = index
        """Its index in the flow."""
        self.before: Indexes = ()
        self.after: Indexes = ()
        self.condition: Condition | None = None
        """The condition of a branch or loop."""
        self.decides: Indexes = ()
        """Control flow nodes whose condition reads its result, or a size or type of
        the result."""
        self.sizes: Indexes = ()
        """Operators that make a tensor with the size of its result."""
        self.numbers: Indexes = ()
        """Nodes that take a number computed from its result or from a size of the
        result."""
        self.requires_grad = False
        self.operands: tuple[Operand, ...] = ()
        self.takes: tuple[Result, ...] = ()
        """The results of other nodes that it takes, if the index of the result is
        known."""
        self.ran: bool | None = None
        """True if it ran before the plan was made; None if the log does not show
        it."""
        self.stored = False
        """True if its result is assigned to an attribute."""
        self.arguments = 0
        """The number of its inputs and outputs, tensors or not."""
        self.line = node.line
        """The number of lines of the dump before its first line."""


@lru_cache(maxsize=4096)
def _any_requires_grad(types: tuple[str, ...]) -> bool:
    """True if any type has ``requires_grad=1``. Cached: a plan has few different
    tuples of types."""
    return any("requires_grad=1" in text for text in types)


class Flow:
    """The flow of one plan, built while the plan is walked in order. A log can hold
    ten thousand."""

    __slots__ = (
        "__weakref__",
        "_alike",
        "_hubs",
        "_listed",
        "_made",
        "_maker",
        "_results",
        "_types",
        "_whole",
        "bodies",
        "gradients",
        "nodes",
        "property_reads",
        "regions",
        "shortened",
        "stops",
        "waits",
    )

    def __init__(self, types: Mapping[str, str]) -> None:
        self.nodes: list[FlowNode] = []
        self.regions = False
        self.gradients = False
        """True if a tensor in it was profiled with ``requires_grad=1``."""
        self.stops: list[Stop] = []
        """The nodes of SIDE_EFFECTS, in order."""
        self.property_reads: Mapping[int, Sequence[PropertyRead]] = {}
        """Index of an operator -> the nodes that read the dtype, device or layout
        of its result."""
        self.waits: list[tuple[int, int]] = []
        """Pairs of nodes of which the second depends on the first, whether or not a
        tensor also goes from one to the other: the second reads the dtype, device
        or layout of the result, a number computed from the result or its sizes, or
        a list to which the result was appended."""
        self.bodies: Mapping[int, AbstractSet[tuple[str, str | None]]] = {}
        """Index of a group -> its operators (kind and source). Filled if a property
        of any operator is read."""
        self.shortened: tuple[frozenset[int], frozenset[int]] = (
            frozenset(),
            frozenset(),
        )
        """The nodes whose ``before``, and the nodes whose ``after``, has only the
        first neighbours."""
        self._types = dict(types)
        self._made: dict[str, tuple[int, ...]] = {}
        self._hubs = Hubs()
        self._results: dict[str, Result] = {}
        """Value -> the result that it is, if it is only one."""
        self._listed: dict[str, dict[int, None]] = {}
        """List -> the nodes whose results were appended to it."""
        self._whole: dict[int, Indexes] = {}
        """Node -> the nodes that take its result directly, not in a list. Filled if
        ``after`` is not complete."""
        self._maker: dict[str, Node] = {}
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}

    def close(self) -> None:
        """Finish after the walk: drop the state of the walk, and with it the
        graph."""
        del (
            self._types,
            self._made,
            self._maker,
            self._alike,
            self._listed,
            self._results,
        )
        for node in self.nodes:
            self.waits += ((node.index, taker) for taker in node.numbers)
        self._settle_neighbours()

    @property
    def looked_at_in_part(self) -> int:
        """The number of nodes with more neighbours than the rules for reasons
        inspect."""
        before, after = self.shortened
        return len(before | after)

    def read_by(self, node: int, group: int) -> PropertyRead | None:
        """Return a read of the dtype, device or layout of an operator's result in a
        group; None without one."""
        body = self.bodies.get(group, frozenset())
        for read in self.property_reads.get(node, ()):
            if (read.op, read.source) in body:
                return read
        return None

    def takers(self, maker: int, most: int) -> Collection[int]:
        """Return all nodes below ``most`` that take the result of a node; ``after``
        has only the first if there are very many."""
        every = self._whole.get(maker, self.nodes[maker].after)
        direct = [taker for taker in every if taker < most]
        ends = self._hubs.ends(maker, True) if maker in self._whole else []
        if not ends:
            return direct
        found = set(direct).union(*(end[: bisect_left(end, most)] for end in ends))
        found.discard(maker)
        return found

    def _settle_neighbours(self) -> None:
        """Set the neighbours of each node, also those through lists, up to the
        maximum for this plan."""
        nodes, hubs = self.nodes, self._hubs
        degrees = [len(node.before) for node in nodes] + [
            len(node.after) for node in nodes
        ]
        if hubs:
            for index in range(len(nodes)):
                for forward in (False, True):
                    more = sum(
                        len(hub.takers if forward else hub)
                        for hub in hubs.of(index, forward)
                    )
                    degrees[index + forward * len(nodes)] += more
        most = most_neighbours(degrees, len(nodes))
        short_before = [
            node.index for node in nodes if self._settle_before(node, most)
        ]
        short_after = [
            node.index for node in nodes if self._settle_after(node, most)
        ]
        self.shortened = frozenset(short_before), frozenset(short_after)

    def _settle_before(self, node: FlowNode, most: int) -> bool:
        """Set the neighbours before a node. Return True if some are left out."""
        if not self._hubs.of(node.index, False) and len(node.before) <= most:
            return False
        found = self._hubs.within(node.index, False, node.before, most)
        node.before = found[:most]
        return len(found) > most

    def _settle_after(self, node: FlowNode, most: int) -> bool:
        """Set the neighbours after a node. Return True if some are left out."""
        if not self._hubs.of(node.index, True) and len(node.after) <= most:
            return False
        self._whole[node.index] = node.after
        found = self._hubs.within(node.index, True, node.after, most)
        node.after = found[:most]
        return len(found) > most

    def type_of(self, name: str) -> str:
        return self._types.get(name, "")

    def define(self, name: str, text: str) -> None:
        """Add a value of the graph with its type. A bare ``Tensor`` does not
        replace a profiled type, which is more specific."""
        if text not in ("", "Tensor", "Tensor?") or name not in self._types:
            self._types[name] = text

    def add(self, kind: str, node: Node, block: tuple[int, ...]) -> int:
        """Add a node that computes.

        Returns:

            its index in the flow.
        """
        index = len(self.nodes)
        tensors = [
            name for name in node.inputs if holds_tensor(self._types.get(name, ""))
        ]
        new = FlowNode(kind, node, block, index)
        new.inputs = self._types_of(tensors)
        new.outputs = self._types_of([value.name for value in node.outputs])
        new.arguments = len(node.inputs) + len(node.outputs)
        new.operands = tuple(map(self._operand, node.inputs))
        new.requires_grad = _any_requires_grad(new.inputs) or _any_requires_grad(
            new.outputs
        )
        self.gradients = self.gradients or new.requires_grad
        self.regions = self.regions or kind == REGION
        self.nodes.append(new)
        for name in tensors:
            self._link(name, index)
        self._wait_for_lists(new, tensors)
        self._note_numbers(new, node, tensors)
        new.takes = tuple(
            dict.fromkeys(
                self._results[name] for name in tensors if name in self._results
            )
        )
        for position, value in enumerate(node.outputs):
            if holds_tensor(value.type):
                self._made[value.name] = (index,)
                self._results[value.name] = index, position
        return index

    def _wait_for_lists(self, new: FlowNode, names: Iterable[str]) -> None:
        """Record that nodes whose results were appended to lists among these values
        run before the node that takes the lists."""
        makers = {
            maker: None for name in names for maker in self._listed.get(name, ())
        }
        self.waits += (
            (maker, new.index) for maker in makers if maker not in new.before
        )

    def _note_numbers(
        self, new: FlowNode, node: Node, tensors: Sequence[str]
    ) -> None:
        """Record a node at the nodes whose sizes, or whose results as numbers, it
        takes."""
        if node.kind in _MAKES_OF_A_SIZE:
            for maker in self._behind_numbers(node.inputs):
                self.nodes[maker].sizes = _with(self.nodes[maker].sizes, new.index)
        if new.kind not in (OPERATOR, GROUP) or len(tensors) == len(node.inputs):
            return
        numbers = [
            name
            for name in node.inputs
            if name not in tensors and not self._is_constant(name)
        ]
        if numbers:
            for maker in self._behind_numbers(numbers):
                self.nodes[maker].numbers = _with(
                    self.nodes[maker].numbers, new.index
                )

    def _types_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the types of values. Equal tuples are one object: a plan has few
        different ones."""
        types = tuple([self._types.get(name, "") for name in names])
        return self._alike.setdefault(types, types)

    def _operand(self, name: str) -> Operand:
        makers = self._made.get(name)
        by = next(iter(makers)) if makers and len(makers) == 1 else None
        result = self._results[name][1] if name in self._results else None
        text = self._types.get(name, "")
        node = self._maker.get(name)
        if node is None:
            return Operand(text, "", None, (), by, result)
        if node.kind == "prim::ListConstruct" and len(node.inputs) <= _LONGEST_LIST:
            elements = tuple(self.constant(element) for element in node.inputs)
            return Operand(text, node.kind, None, elements, by, result)
        return Operand(text, node.kind, constant_of(node), (), by, result)

    def constant(self, name: str) -> str | None:
        """Return the value of a constant as printed; None for anything else."""
        node = self._maker.get(name)
        if node is None:
            return None
        return constant_of(node)

    def condition_of(self, node: Node) -> Condition:
        """Return the condition of a prim::If or prim::Loop."""
        return condition_of(node, self._maker)

    def _is_constant(self, name: str) -> bool:
        """True for a constant that no node of the flow makes."""
        node = self._maker.get(name)
        return (
            node is not None
            and node.kind == "prim::Constant"
            and name not in self._made
        )

    def store(self, node: Node) -> None:
        """Add a prim::SetAttr. There is no edge to nodes that read the attribute
        later."""
        for maker in self._made.get(node.inputs[-1], ()) if node.inputs else ():
            self.nodes[maker].stored = True

    def pass_through(self, node: Node) -> None:
        """Add a node that returns its input tensors: each output comes from the
        input at its position, or from all inputs if there is one output."""
        if node.kind == _APPEND and len(node.inputs) > 1:
            self._append(*node.inputs[:2])
        for position, value in enumerate(node.outputs):
            if not holds_tensor(value.type) and not value.type.startswith("("):
                continue
            names = node.inputs
            if len(node.outputs) > 1 and position < len(names):
                names = (names[position],)
            self.alias(value.name, names)

    def _append(self, to: str, name: str) -> None:
        """Record that a tensor is appended to a list; only the first few are
        recorded."""
        listed = self._listed.setdefault(to, {})
        for maker in self._made.get(name, ()):
            if len(listed) < _LONGEST_LIST:
                listed[maker] = None

    def alias(self, name: str, names: Sequence[str]) -> None:
        """Record that ``name`` is the value ``names``, or one of them."""
        made = [self._made.get(n, ()) for n in names]
        if len(names) == 1 and names[0] in self._results:
            self._results[name] = self._results[names[0]]
        for other in names:
            if other in self._listed:
                self._listed.setdefault(name, self._listed[other])
        if len(made) == 1:
            self._made[name] = made[0]
        else:
            self._made[name] = self._hubs.joined(made, _FEW)
        for other in names:
            known = self.type_of(other)
            if known and self.type_of(name) in ("", "Tensor"):
                self._types[name] = known
                break

    def leave_block(self, control: int, outputs: Iterable[str]) -> None:
        """End the block of a control node that returns the values ``outputs``."""
        for name in outputs:
            self._link(name, control)

    def remember(self, node: Node) -> None:
        """Record a node and the types of its values. This is called for every node,
        also for those that compute numbers, since conditions are traced back
        through them."""
        for value in node.outputs:
            self._maker[value.name] = node
            self.define(value.name, value.type)

    def note_condition(self, control: int, node: Node) -> None:
        """Record which nodes the condition of a prim::If or prim::Loop reads, also
        through numbers."""
        for index in self._behind_numbers(node.inputs[:1]):
            self.nodes[index].decides = _with(self.nodes[index].decides, control)

    def _behind_numbers(self, values: Iterable[str]) -> set[int]:
        """Return the nodes from whose results these values are computed, also
        through numbers."""
        names = list(values)
        seen: set[str] = set()
        found: set[int] = set()
        while names and len(seen) < 50:
            name = names.pop()
            seen.add(name)
            makers = self._made.get(name, ())
            found.update(makers[:SEEN_IN_LIST])
            made = self._maker.get(name)
            if not makers and made is not None:
                names += [n for n in made.inputs if n not in seen]
        return found

    def _link(self, name: str, index: int) -> None:
        nodes = self.nodes
        makers = self._made.get(name, ())
        if isinstance(makers, Hub):
            self._hubs.take(makers, index)
            return
        for maker in makers:
            if maker != index:
                taker, made = nodes[index], nodes[maker]
                if taker.before:
                    taker.before = _with(taker.before, maker)
                else:
                    taker.before = (maker,)
                made.after = _with(made.after, index) if made.after else (index,)
