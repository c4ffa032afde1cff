"""How tensors flow through a plan: the neighbours of each operator, and the block
of control flow it is in.

A small graph of its own, kept with the plan: nodes are fusion groups,
differentiable graphs, control flow and tensor operators; an edge says that a tensor
goes from one to the other. Guards, profile nodes, tuples and lists are seen
through."""

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
"""Sizes and axes have no more elements; of longer lists of tensors the first are
looked at."""

PYTHON = "^"
"""Begins the kinds of calls of Python functions: ``^log_stats``."""

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
"""Nodes past which none is moved (hasSideEffects of torch/csrc/jit/ir/ir.cpp)."""


class Operand(NamedTuple):
    """An input of a node, a tensor or not."""

    type: str
    maker: str
    """Kind of the node that makes it; empty for an input of the graph or a
    block."""
    value: str | None
    """Of a constant, as printed: ``1``, ``[0, 1]``, ``"none"``, ``None``."""
    parts: tuple[str | None, ...] = ()
    """Of a prim::ListConstruct: its elements, as far as they are constants."""
    by: int | None = None
    """The index in the flow of the one node that makes it; None for several and for
    none."""
    result: int | None = None
    """Which of the results of that node it is, where that is known."""


Result: TypeAlias = tuple[int, int]
"""A node of the flow, and which of its results."""


class Stop(NamedTuple):
    """One of SIDE_EFFECTS. What stands in a block around its own is moved past that
    block."""

    before: int
    """How many nodes of the flow stand before it."""
    kind: str
    source: str | None
    block: tuple[int, ...]
    """The control nodes it stands in, outermost first."""


Indexes = Collection[int]
"""Indexes in the flow, each once. A plan can have 100,000 nodes: a tuple while
there are few."""

_FEW = 8


def _with(indexes: Indexes, index: int) -> Indexes:
    """The indexes and one more; a set may be changed."""
    if index in indexes:
        return indexes
    if isinstance(indexes, set):
        indexes.add(index)
        return indexes
    return (*indexes, index) if len(indexes) < _FEW else {*indexes, index}


class FlowNode:
    """``kind`` is one of the constants above. ``block`` are the control nodes it
    stands in, outermost first."""

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
        """Types of its tensor inputs, as far as they are known."""
        self.outputs: tuple[str, ...] = ()
        self.index = index
        """Its index in the flow."""
        self.before: Indexes = ()
        self.after: Indexes = ()
        self.condition: Condition | None = None
        """Of a branch or loop."""
        self.decides: Indexes = ()
        """Control flow whose condition reads its result, or a size or type of
        it."""
        self.sizes: Indexes = ()
        """Operators that make a tensor of the size of its result."""
        self.numbers: Indexes = ()
        """Nodes that take a number which is computed of its result or of its
        sizes."""
        self.requires_grad = False
        self.operands: tuple[Operand, ...] = ()
        self.takes: tuple[Result, ...] = ()
        """The results of other nodes that it takes, as far as it is known which of
        several they are."""
        self.ran: bool | None = None
        """Whether it ran before the plan was made; None where the log does not show
        it."""
        self.stored = False
        """Its result is put into an attribute."""
        self.arguments = 0
        """Its inputs and outputs, tensors or not."""
        self.line = node.line
        """Lines of the dump before the one it begins on."""


@lru_cache(maxsize=4096)
def _any_requires_grad(types: tuple[str, ...]) -> bool:
    """True if any type has ``requires_grad=1``. A plan has few different tuples of
    types."""
    return any("requires_grad=1" in text for text in types)


class Flow:
    """Built while a plan is walked, in order. A log can hold ten thousand."""

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
        """A tensor in it was profiled with ``requires_grad=1``."""
        self.stops: list[Stop] = []
        """Each of SIDE_EFFECTS, in order."""
        self.property_reads: Mapping[int, Sequence[PropertyRead]] = {}
        """Operator -> the nodes that read the dtype, device or layout of its
        result."""
        self.waits: list[tuple[int, int]] = []
        """Nodes of which the second needs the first, whether or not a tensor goes
        to it as well: it reads the dtype, device or layout of the result, a number
        that is computed of it or of its sizes, or a list to which it was
        appended."""
        self.bodies: Mapping[int, AbstractSet[tuple[str, str | None]]] = {}
        """Group -> its operators (kind and source), where a property of some
        operator is read."""
        self.shortened: tuple[frozenset[int], frozenset[int]] = (
            frozenset(),
            frozenset(),
        )
        """Nodes of which ``before``, and of which ``after``, has the first
        neighbours alone."""
        self._types = dict(types)
        self._made: dict[str, tuple[int, ...]] = {}
        self._hubs = Hubs()
        self._results: dict[str, Result] = {}
        """Value -> the one result that it is."""
        self._listed: dict[str, dict[int, None]] = {}
        """List -> the nodes whose results were appended to it."""
        self._whole: dict[int, Indexes] = {}
        """Node -> the nodes that take its result not in a list, where ``after`` has
        not all of them."""
        self._maker: dict[str, Node] = {}
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}

    def close(self) -> None:
        """The plan is walked: drop the state of the walk, and with it the graph."""
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
        """How many nodes have more neighbours than the rules for reasons look
        at."""
        before, after = self.shortened
        return len(before | after)

    def read_by(self, node: int, group: int) -> PropertyRead | None:
        """The dtype, device or layout of an operator's result that a group
        reads."""
        body = self.bodies.get(group, frozenset())
        for read in self.property_reads.get(node, ()):
            if (read.op, read.source) in body:
                return read
        return None

    def takers(self, maker: int, most: int) -> Collection[int]:
        """All nodes below ``most`` that take the result of a node; ``after`` has
        the first of very many."""
        every = self._whole.get(maker, self.nodes[maker].after)
        direct = [taker for taker in every if taker < most]
        ends = self._hubs.ends(maker, True) if maker in self._whole else []
        if not ends:
            return direct
        found = set(direct).union(*(end[: bisect_left(end, most)] for end in ends))
        found.discard(maker)
        return found

    def _settle_neighbours(self) -> None:
        """Each node has its neighbours, also those through lists, up to the most of
        this plan."""
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
        """Give the node its neighbours before it. Returns whether some are left
        out."""
        if not self._hubs.of(node.index, False) and len(node.before) <= most:
            return False
        found = self._hubs.within(node.index, False, node.before, most)
        node.before = found[:most]
        return len(found) > most

    def _settle_after(self, node: FlowNode, most: int) -> bool:
        """Give the node its neighbours behind it. Returns whether some are left
        out."""
        if not self._hubs.of(node.index, True) and len(node.after) <= most:
            return False
        self._whole[node.index] = node.after
        found = self._hubs.within(node.index, True, node.after, most)
        node.after = found[:most]
        return len(found) > most

    def type_of(self, name: str) -> str:
        return self._types.get(name, "")

    def define(self, name: str, text: str) -> None:
        """A value of the graph. A bare ``Tensor`` says less than what was profiled
        for it."""
        if text not in ("", "Tensor", "Tensor?") or name not in self._types:
            self._types[name] = text

    def add(self, kind: str, node: Node, block: tuple[int, ...]) -> int:
        """Add a node that computes.

        Returns:
            the index that it has from now on.
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
        for place, value in enumerate(node.outputs):
            if holds_tensor(value.type):
                self._made[value.name] = (index,)
                self._results[value.name] = index, place
        return index

    def _wait_for_lists(self, new: FlowNode, names: Iterable[str]) -> None:
        """What was appended to the lists among these values runs before the node
        that takes them."""
        makers = {
            maker: None for name in names for maker in self._listed.get(name, ())
        }
        self.waits += (
            (maker, new.index) for maker in makers if maker not in new.before
        )

    def _note_numbers(
        self, new: FlowNode, node: Node, tensors: Sequence[str]
    ) -> None:
        """Note it at the nodes whose sizes or results, as numbers, it takes."""
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
        """One tuple for equal ones: a plan has few."""
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
        """The value of a constant as printed; None for anything else."""
        node = self._maker.get(name)
        return None if node is None else constant_of(node)

    def condition_of(self, node: Node) -> Condition:
        """The condition of a prim::If or prim::Loop."""
        return condition_of(node, self._maker)

    def _is_constant(self, name: str) -> bool:
        """Whether it is a constant that no node of the flow makes."""
        node = self._maker.get(name)
        return (
            node is not None
            and node.kind == "prim::Constant"
            and name not in self._made
        )

    def store(self, node: Node) -> None:
        """A prim::SetAttr: what comes out of the attribute again is on no edge."""
        for maker in self._made.get(node.inputs[-1], ()) if node.inputs else ():
            self.nodes[maker].stored = True

    def pass_through(self, node: Node) -> None:
        """A node that hands tensors on: each output comes from the input at its
        position, or from all."""
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
        """A tensor is appended to a list, of which the first few are noted."""
        listed = self._listed.setdefault(to, {})
        for maker in self._made.get(name, ()):
            if len(listed) < _LONGEST_LIST:
                listed[maker] = None

    def alias(self, name: str, names: Sequence[str]) -> None:
        """``name`` is (one of) ``names``."""
        made = [self._made.get(n, ()) for n in names]
        if len(names) == 1 and names[0] in self._results:
            self._results[name] = self._results[names[0]]
        for other in names:
            if other in self._listed:
                self._listed.setdefault(name, self._listed[other])
        self._made[name] = (
            made[0] if len(made) == 1 else self._hubs.joined(made, _FEW)
        )
        for other in names:
            known = self.type_of(other)
            if known and self.type_of(name) in ("", "Tensor"):
                self._types[name] = known
                break

    def leave_block(self, control: int, outputs: Iterable[str]) -> None:
        """The block of a control node ends and hands these values out."""
        for name in outputs:
            self._link(name, control)

    def remember(self, node: Node) -> None:
        """Every node, also of numbers: conditions are traced back through them; and
        the types of its values."""
        for value in node.outputs:
            self._maker[value.name] = node
            self.define(value.name, value.type)

    def note_condition(self, control: int, node: Node) -> None:
        """Note which nodes the condition of a prim::If or prim::Loop reads, also
        through numbers."""
        for index in self._behind_numbers(node.inputs[:1]):
            self.nodes[index].decides = _with(self.nodes[index].decides, control)

    def _behind_numbers(self, values: Iterable[str]) -> set[int]:
        """The nodes whose results these values are computed from, also through
        numbers."""
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
                taker.before = (
                    _with(taker.before, maker) if taker.before else (maker,)
                )
                made.after = _with(made.after, index) if made.after else (index,)
