"""How tensors flow through a plan: what stands next to each operator, which block of control flow it is in.

A small graph of its own, kept with the plan: nodes are fusion groups, differentiable graphs, control flow
and tensor operators; an edge says that a tensor goes from one to the other. Guards, profile nodes, tuples
and lists are seen through."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model.reasons import Condition
from fusiondoc.parsers.ir.types import holds_tensor
from fusiondoc.parsers.jit.hubs import SEEN_IN_LIST, Hub, Hubs, most_neighbours

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Node
    from fusiondoc.parsers.jit.earlier_graphs import PropertyRead

GROUP = "group"
REGION = "region"
"""A prim::DifferentiableGraph."""
CONTROL = "control"
OPERATOR = "operator"
_UNKNOWN = Condition("unknown")
_ROUNDS = "aten::__round_to_zero_floordiv"
"""How torch counts the rounds of a loop that it unrolls."""

_MAKES_OF_A_SIZE = frozenset(f"aten::{name}" for name in ("empty", "zeros", "ones", "full", "rand", "randn"))

_LONGEST_LIST = 10
"""Sizes and axes have no more elements."""

PYTHON = "^"
"""Begins the kinds of calls of Python functions: ``^log_stats``."""

SIDE_EFFECTS = frozenset(
    ["prim::Print", "prim::SetAttr", "aten::warn", "aten::manual_seed", "prim::Enter", "prim::Exit", PYTHON]
)
"""Nodes past which none is moved (hasSideEffects of torch/csrc/jit/ir/ir.cpp)."""

EDGE = "edge"
"""An input or output of the graph."""


class Operand(NamedTuple):
    """An input of a node, a tensor or not."""

    type: str
    maker: str
    """Kind of the node that makes it; empty for an input of the graph or a block."""
    value: str | None
    """Of a constant, as printed: ``1``, ``[0, 1]``, ``"none"``, ``None``."""
    parts: tuple[str | None, ...] = ()
    """Of a prim::ListConstruct: its elements, as far as they are constants."""
    by: int | None = None
    """The index in the flow of the one node that makes it; None for several and for none."""


Places = Collection[int]
"""Indexes in the flow, each once. A plan can have 100,000 nodes: a tuple while there are few."""

_FEW = 8


def _and(places: Places, place: int) -> Places:
    """One more."""
    if place in places:
        return places
    if isinstance(places, set):
        places.add(place)
        return places
    return (*places, place) if len(places) < _FEW else {*places, place}


class FlowNode:
    """``kind`` is one of the constants above. ``block`` are the control nodes it stands in, outermost
    first."""

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
    )

    def __init__(self, kind: str, node: Node, block: tuple[int, ...], index: int) -> None:
        self.kind = kind
        self.op = node.kind
        self.source = node.source
        self.block = block
        self.inputs: tuple[str, ...] = ()
        """Types of its tensor inputs, as far as they are known."""
        self.outputs: tuple[str, ...] = ()
        self.index = index
        """Its index in the flow."""
        self.before: Places = ()
        self.after: Places = ()
        self.condition: Condition | None = None
        """Of control flow."""
        self.decides: Places = ()
        """Control flow whose condition reads its result, or a size or type of it."""
        self.sizes: Places = ()
        """Operators that make a tensor of the size of its result."""
        self.numbers: Places = ()
        """What takes a number that is computed of its result or of its sizes."""
        self.requires_grad = False
        self.operands: tuple[Operand, ...] = ()
        self.ran: bool | None = None
        """Whether it ran before the plan was made; None where the log does not tell."""
        self.stored = False
        """Its result is put into an attribute."""
        self.arguments = 0
        """Its inputs and outputs, tensors or not."""
        self.line = node.line
        """Lines of the dump before the one it begins on."""


@lru_cache(maxsize=4096)
def _any_requires_grad(types: tuple[str, ...]) -> bool:
    """Whether one of them was profiled so; a plan has few different ones."""
    return any("requires_grad=1" in text for text in types)


def _value_of(node: Node) -> str | None:
    """Of a constant, as printed; None for another node."""
    if node.kind != "prim::Constant":
        return None
    value = node.attribute("value")
    return "None" if value is None else value


class Flow:
    """Built while a plan is walked, in order. A log can hold ten thousand."""

    __slots__ = (
        "__weakref__",
        "_alike",
        "_hubs",
        "_made",
        "_maker",
        "_types",
        "_whole",
        "bodies",
        "gradients",
        "nodes",
        "property_reads",
        "regions",
        "shortened",
        "stops",
    )

    def __init__(self, types: Mapping[str, str]) -> None:
        self.nodes: list[FlowNode] = []
        self.regions = False
        self.gradients = False
        """A tensor in it was profiled with ``requires_grad=1``."""
        self.stops: list[tuple[int, str, str | None]] = []
        """Each of SIDE_EFFECTS: how many nodes stand before it, its kind and source."""
        self.property_reads: Mapping[int, Sequence[PropertyRead]] = {}
        """Operator -> the nodes that read the dtype, device or layout of its result."""
        self.bodies: Mapping[int, AbstractSet[tuple[str, str | None]]] = {}
        """Group -> its operators (kind and source), where a property of some operator is read."""
        self.shortened: tuple[frozenset[int], frozenset[int]] = frozenset(), frozenset()
        """Nodes of which ``before``, and of which ``after``, has the first neighbours alone."""
        self._types = dict(types)
        self._made: dict[str, tuple[int, ...]] = {}
        self._hubs = Hubs()
        self._whole: dict[int, Places] = {}
        """Node -> what takes its result not in a list, where ``after`` has not all of it."""
        self._maker: dict[str, Node] = {}
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}

    def close(self) -> None:
        """The plan is walked: what only that needs goes, and with it the graph."""
        del self._types, self._made, self._maker, self._alike
        self._settle_neighbours()

    @property
    def looked_at_in_part(self) -> int:
        """How many nodes have more neighbours than the rules for reasons look at."""
        before, after = self.shortened
        return len(before | after)

    def read_by(self, node: int, group: int) -> PropertyRead | None:
        """The dtype, device or layout of an operator's result that a group reads."""
        body = self.bodies.get(group, frozenset())
        for read in self.property_reads.get(node, ()):
            if (read.op, read.source) in body:
                return read
        return None

    def takers(self, place: int, most: int) -> Collection[int]:
        """All nodes below ``most`` that take the result of one; ``after`` has the first ones of very many."""
        direct = [one for one in self._whole.get(place, self.nodes[place].after) if one < most]
        ends = self._hubs.ends(place, True) if place in self._whole else []
        if not ends:
            return direct
        found = set(direct).union(*(end[: bisect_left(end, most)] for end in ends))
        found.discard(place)
        return found

    def _settle_neighbours(self) -> None:
        """Each node has its neighbours, also those through lists, up to the most of this plan."""
        nodes, hubs = self.nodes, self._hubs
        degrees = [len(node.before) for node in nodes] + [len(node.after) for node in nodes]
        if hubs:
            for place in range(len(nodes)):
                for forward in (False, True):
                    more = sum(len(hub.takers if forward else hub) for hub in hubs.of(place, forward))
                    degrees[place + forward * len(nodes)] += more
        most = most_neighbours(degrees, len(nodes))
        short_before = [node.index for node in nodes if self._settle_before(node, most)]
        short_after = [node.index for node in nodes if self._settle_after(node, most)]
        self.shortened = frozenset(short_before), frozenset(short_after)

    def _settle_before(self, node: FlowNode, most: int) -> bool:
        """Give the node its neighbours before it; whether some are left out."""
        if not self._hubs.of(node.index, False) and len(node.before) <= most:
            return False
        found = self._hubs.within(node.index, False, node.before, most)
        node.before = found[:most]
        return len(found) > most

    def _settle_after(self, node: FlowNode, most: int) -> bool:
        """Give the node its neighbours behind it; whether some are left out."""
        if not self._hubs.of(node.index, True) and len(node.after) <= most:
            return False
        self._whole[node.index] = node.after
        found = self._hubs.within(node.index, True, node.after, most)
        node.after = found[:most]
        return len(found) > most

    def type_of(self, name: str) -> str:
        return self._types.get(name, "")

    def define(self, name: str, text: str) -> None:
        """A value of the graph. A bare ``Tensor`` says less than what was profiled for it."""
        if text not in ("", "Tensor", "Tensor?") or name not in self._types:
            self._types[name] = text

    def add(self, kind: str, node: Node, block: tuple[int, ...]) -> int:
        """A node that computes; the index it has from now on."""
        index = len(self.nodes)
        inputs, outputs, types = node.inputs, node.outputs, self._types
        tensors = [name for name in inputs if holds_tensor(types.get(name, ""))]
        new = FlowNode(kind, node, block, index)
        new.inputs = self._types_of(tensors)
        new.outputs = self._types_of([value.name for value in outputs])
        new.arguments = len(inputs) + len(outputs)
        new.operands = tuple(map(self._operand, inputs))
        if _any_requires_grad(new.inputs) or _any_requires_grad(new.outputs):
            new.requires_grad = self.gradients = True
        self.nodes.append(new)
        if kind == REGION:
            self.regions = True
        for name in tensors:
            self._link(name, index)
        if node.kind in _MAKES_OF_A_SIZE:
            for maker in self._behind_numbers(node.inputs):
                self.nodes[maker].sizes = _and(self.nodes[maker].sizes, index)
        if kind in (OPERATOR, GROUP) and len(tensors) < len(inputs):
            numbers = [name for name in inputs if name not in tensors and not self._is_constant(name)]
            for maker in self._behind_numbers(numbers) if numbers else ():
                self.nodes[maker].numbers = _and(self.nodes[maker].numbers, index)
        for value in outputs:
            if holds_tensor(value.type):
                self._made[value.name] = (index,)
        return index

    def _types_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """One tuple for equal ones: a plan has few."""
        types = tuple([self._types.get(name, "") for name in names])
        return self._alike.setdefault(types, types)

    def _operand(self, name: str) -> Operand:
        made = self._maker.get(name)
        makers = self._made.get(name)
        by = next(iter(makers)) if makers and len(makers) == 1 else None
        text = self._types.get(name, "")
        if made is None:
            return Operand(text, "", None, (), by)
        if made.kind == "prim::ListConstruct" and len(made.inputs) <= _LONGEST_LIST:
            parts = tuple(self.constant(n) for n in made.inputs)
            return Operand(text, made.kind, None, parts, by)
        return Operand(text, made.kind, _value_of(made), (), by)

    def constant(self, name: str) -> str | None:
        """The value of a constant as printed; None for anything else."""
        made = self._maker.get(name)
        return None if made is None else _value_of(made)

    def _is_constant(self, name: str) -> bool:
        """Whether it is a constant that no node of the flow makes."""
        made = self._maker.get(name)
        return made is not None and made.kind == "prim::Constant" and name not in self._made

    def store(self, node: Node) -> None:
        """A prim::SetAttr: what comes out of the attribute again is on no edge."""
        for maker in self._made.get(node.inputs[-1], ()) if node.inputs else ():
            self.nodes[maker].stored = True

    def pass_through(self, node: Node) -> None:
        """A node that hands tensors on: each output comes from the input at its place, or from all."""
        for place, value in enumerate(node.outputs):
            if not holds_tensor(value.type) and not value.type.startswith("("):
                continue
            names = node.inputs
            if len(node.outputs) > 1 and place < len(names):
                names = (names[place],)
            self.alias(value.name, names)

    def alias(self, name: str, names: Sequence[str]) -> None:
        """``name`` is (one of) ``names``."""
        made = [self._made.get(n, ()) for n in names]
        self._made[name] = made[0] if len(made) == 1 else self._hubs.joined(made, _FEW)
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
        """Every node, also of numbers: conditions are traced back through them; and the types of its
        values."""
        for value in node.outputs:
            self._maker[value.name] = node
            self.define(value.name, value.type)

    def condition_of(self, node: Node) -> Condition:
        """The condition of a prim::If or prim::Loop."""
        if node.kind == "prim::Loop":
            return self._loop(node)
        return self._cause(node.inputs[0], 0) if node.inputs else _UNKNOWN

    def _loop(self, node: Node) -> Condition:
        """Which of the two loops that torch makes of one it is: that of the steps it has unrolled, or the
        rest (unroll in torch/csrc/jit/passes/loop_unrolling.cpp). A counted loop has more than 32 nodes
        (kMaxBodySize of that file, 1.12 to 2.13)."""
        trips = self._maker.get(node.inputs[0]) if node.inputs else None
        if trips is not None and trips.kind == _ROUNDS and len(trips.inputs) == 2:
            return Condition("unrolled_loop", steps=self.constant(trips.inputs[1]))
        if trips is not None and trips.kind == "aten::sub" and len(trips.inputs) == 2:
            done = self._maker.get(trips.inputs[1])
            rounds = (
                self._maker.get(done.inputs[0]) if done is not None and done.kind == "aten::mul" else None
            )
            if rounds is not None and rounds.kind == _ROUNDS and len(rounds.inputs) == 2:
                return Condition("remainder_of_loop", steps=self.constant(rounds.inputs[1]))
        blocks = node.blocks
        goes_on = [*node.inputs[1:2], *(blocks[0].outputs[:1] if blocks else ())]
        if len(goes_on) == 2 and all(self.constant(one) in ("1", "True") for one in goes_on):
            return Condition("counted_loop")
        return Condition("loop")

    def decides(self, control: int, node: Node) -> None:
        """Note which nodes the condition of a prim::If or prim::Loop reads, also through numbers."""
        for index in self._behind_numbers(node.inputs[:1]):
            self.nodes[index].decides = _and(self.nodes[index].decides, control)

    def _behind_numbers(self, values: Iterable[str]) -> set[int]:
        """The nodes whose results these values are computed from, also through numbers."""
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

    def _cause(self, name: str, depth: int) -> Condition:
        made = self._maker.get(name)
        if made is None:
            return Condition("argument")
        kind = made.kind
        if kind == "prim::GetAttr":
            attribute = made.attributes.get("name", "").strip('"')
            if attribute == "training":
                return Condition("training")
            type_ = made.outputs[0].type.partition("<")[0] if made.outputs else "bool"
            return Condition("attribute", attribute, type_)
        if kind in ("aten::__is__", "aten::__isnot__"):
            return Condition("test_for_none")
        if kind in (
            "aten::Bool",
            "aten::item",
            "aten::is_nonzero",
            "prim::TensorToBool",
            "aten::IntImplicit",
        ):
            return Condition("tensor_value")
        if kind in ("aten::dim", "aten::size", "aten::len", "aten::numel", "prim::layout", "prim::dtype"):
            return Condition("shape_or_type")
        if depth < 6:
            causes = [
                self._cause(n, depth + 1)
                for n in made.inputs
                if self._maker.get(n, made).kind != "prim::Constant"
            ]
            named = [cause for cause in causes if cause != _UNKNOWN]
            if named:
                return named[0]
        return _UNKNOWN

    def _link(self, name: str, index: int) -> None:
        nodes = self.nodes
        makers = self._made.get(name, ())
        if isinstance(makers, Hub):
            self._hubs.take(makers, index)
            return
        for maker in makers:
            if maker != index:
                taker, made = nodes[index], nodes[maker]
                taker.before = _and(taker.before, maker) if taker.before else (maker,)
                made.after = _and(made.after, index) if made.after else (index,)
