"""What earlier graphs of a log tell of a later one. Of plans: the layers around their differentiable graphs,
and for gradients those of the values that they take from the forward pass; and which of the several plans of
a gradient it is, which one executor makes when other gradients are defined. Of the graph that a fusion pass
begins with: the types of values in the profiled runs, and which code ran at all.

The graph of a gradient is made for the gradients that are defined when it is profiled, and for sizes that
need no sum; ``specialize_autogradzero.cpp`` of torch/csrc/jit/passes puts the checks of both in front
(``prim::AutogradAllNonZero``, ``prim::AutogradAllZero``, ``aten::__is__``) and leaves an unchanged copy for
all other cases. It becomes a fallback function: with an executor, and a plan, of its own (1.12 to 2.13).

The executor puts a prim::profile before the tensors that most nodes read and that blocks return
(torch/csrc/jit/runtime/profiling_record.cpp, ``instrumentBlock``; 1.12 to 2.13). The graph ``Before Fusion``
still has these nodes. ``Before TExprFuser`` has their types at the values instead
(``removeProfileNodesAndSpecializeTypes``) and keeps those nodes that saw nothing, of type ``Tensor``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.parsers.ir.types import is_tensor

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Dump, Graph, Node
    from fusiondoc.parsers.jit.message_runs import Print

LiveLayers = Mapping[str, tuple[str, ...]]
"""``op|source`` -> the module path of each such node of the inlined graph, in order; "" is the model itself
(fusiondoc/probe/models.py)."""

_INPUT = re.compile(rb"%([\w.]+) : ([\w\[\]?(]+)")
_VALUE = re.compile(rb"%([\w.]+)")
_ALL_ZERO = re.compile(rb"prim::AutogradAllZero([^\n]*)")
_MOST_INPUTS = 20_000
"""Of all printed graphs whose inputs are remembered."""


@dataclass(frozen=True)
class Around:
    """What a plan tells of the layers around one of its differentiable graphs, for each input and output."""

    owners: tuple[str | None, ...]
    """The module whose parameter the input is."""
    before: tuple[tuple[str, ...], ...]
    """The layers of what makes the input, sorted."""
    after: tuple[tuple[str, ...], ...]
    """The layers of what takes the output, sorted."""
    live: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Of the live run's layers those of the nodes in it."""
    captured: tuple[tuple[str, ...], ...] = ()
    """Of a gradient's graph, for each input: the layers of the forward pass that made or took the value."""


_Values = tuple[tuple[str, str], ...]
"""Of each value the stem of its name and its kind."""


class Kept(NamedTuple):
    """A value that a differentiable graph returns: to the program, or to its gradient."""

    name: str
    type: str
    layers: tuple[str, ...]
    """Of the operators in the graph that make or take it, sorted."""


class Regions:
    """The differentiable graphs of the plans so far, by the names of their inputs.

    The executor of a differentiable graph prints a plan of its own, later, with the same names of the inputs
    (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp names those of the subgraph so).
    """

    def __init__(self, live: Sequence[LiveLayers] = ()) -> None:
        self._known: dict[tuple[str, ...], Around | None] = {}
        self._inputs: dict[bytes, tuple[list[tuple[str, str]], tuple[str, ...], int]] = {}
        """Of printed graphs, by their digests: a log prints few of them often. Also how many of them are
        gradients, 0 for a graph that is no gradient's."""
        self._room = _MOST_INPUTS
        self._kept: dict[_Values, list[tuple[int, tuple[tuple[str, ...], ...]]]] = {}
        """The layers of what each differentiable graph returns whose gradient made no plan yet, each with its
        number in the order of the log. Those with equal values stand together: a log has few different ones.
        """
        self._number = 0
        self._gradient: tuple[tuple[str, ...], Around, bool] | None = None
        """The last graph of a gradient: its inputs, what is told of them, and whether its pass printed it."""
        self.live = tuple(map(_by_place, live))
        """Of each model of the run."""

    def learn(self, names: tuple[str, ...], around: Around) -> None:
        """Names that stand for two different places tell nothing."""
        self._known[names] = around if self._known.get(names, around) == around else None

    def keep(self, returned: tuple[Kept, ...]) -> None:
        """What a differentiable graph returns, for the plan of its gradient."""
        values = _values((one.name, one.type) for one in returned)
        self._kept.setdefault(values, []).append((self._number, tuple(one.layers for one in returned)))
        self._number += 1

    def around(self, names: tuple[str, ...]) -> Around | None:
        """What is around the graph with inputs of these names; None where that is not known."""
        if self._gradient is not None and self._gradient[0] == names:
            return self._gradient[1]
        return self._known.get(names)

    def inputs_of(self, graph: Print) -> tuple[str, ...]:
        """The names of the inputs of a printed graph."""
        return self._inputs_of(graph)[1]

    def around_print(self, graph: Print, of_pass: bool) -> Around | None:
        """The same for a printed graph.

        Args:
            of_pass: a fusion pass prints it: the executor prints it again.
        """
        if not self._known:
            return None
        inputs, names, gradients = self._inputs_of(graph)
        if names in self._known:
            return self._known[names]
        if gradients:
            return self._around_gradient(names, inputs, gradients, of_pass)
        self._gradient = None
        return None

    def _inputs_of(self, graph: Print) -> tuple[list[tuple[str, str]], tuple[str, ...], int]:
        known = self._inputs.get(graph.digest)
        if known is None:
            inputs = _input_kinds(graph.lines())
            self._room -= len(inputs) + 1
            if self._room < 0:
                self._inputs.clear()
                self._room = _MOST_INPUTS
            names = tuple(name for name, _ in inputs)
            known = self._inputs[graph.digest] = inputs, names, _gradients(names, graph.text)
        return known

    def _around_gradient(
        self, names: tuple[str, ...], inputs: Sequence[tuple[str, str]], gradients: int, of_pass: bool
    ) -> Around | None:
        """Gradients run, and make their plans, in the reverse order of the differentiable graphs. The values
        that one needs are the last ones that its differentiable graph returns, in the same order
        (``lambdaLiftReverse`` of torch/csrc/jit/runtime/autodiff.cpp, 1.12 to 2.13)."""
        last = self._gradient
        if last is not None and last[0] == names and last[2] and not of_pass:
            self._gradient = (names, last[1], False)
            return last[1]
        self._gradient = None
        captured = _values(inputs[gradients:])
        fitting = [values for values in self._kept if _are_last_of(captured, values)]
        if not fitting:
            return None
        latest = max(fitting, key=lambda values: self._kept[values][-1][0])
        _, layers = self._kept[latest].pop()
        if not self._kept[latest]:
            del self._kept[latest]
        around = Around((), (), (), (), (*((),) * gradients, *layers[-len(captured) :]))
        self._gradient = (names, around, of_pass)
        return around


def _input_kinds(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    """Name and kind of each input of a printed graph."""
    inputs: list[tuple[str, str]] = []
    for line in lines:
        inputs += [
            (name.decode("utf-8", "replace"), intern(text.decode("utf-8", "replace")))
            for name, text in _INPUT.findall(line)
        ]
        if line.rstrip().endswith(b"):"):
            break
    return inputs


def _gradients(names: tuple[str, ...], text: bytes) -> int:
    """How many of the inputs of a gradient's graph are gradients: those before the values of the forward
    pass. All but the first are zero, as a rule, and the graph asks for that
    (torch/csrc/jit/passes/specialize_autogradzero.cpp). 0 for any other graph."""
    if b"prim::AutogradAll" not in text:
        return 0
    zero = {
        name.decode("utf-8", "replace") for check in _ALL_ZERO.findall(text) for name in _VALUE.findall(check)
    }
    return max((place + 1 for place, name in enumerate(names) if name in zero), default=1)


def _values(names_and_types: Iterable[tuple[str, str]]) -> _Values:
    return tuple((_stem(name), kind_of(text)) for name, text in names_and_types)


def _are_last_of(captured: _Values, returned: _Values) -> bool:
    """Whether the values that a gradient's graph takes can be the last ones of those returned. A value whose
    name is only a number can have any name."""
    if not captured or len(captured) > len(returned):
        return False
    for (mine, kind), (other, other_kind) in zip(captured, returned[-len(captured) :]):
        if kind != other_kind or (mine and other and mine != other):
            return False
    return True


def kind_of(text: str) -> str:
    """The type without what was profiled of it: ``Float(2, 4)`` is a Tensor."""
    name, bracket, _ = text.partition("(")
    return "Tensor" if bracket and name else text


def _stem(name: str) -> str:
    """A value's name without its number; empty for one that has only a number."""
    stem = name.partition(".")[0]
    return "" if stem.isdigit() else stem


def _by_place(live: LiveLayers) -> LiveLayers:
    """Also without the operator, for places with only one: passes replace operators and keep their place."""
    at: dict[str, list[tuple[str, ...]]] = {}
    for key, layers in live.items():
        at.setdefault(key.partition("|")[2], []).append(layers)
    return {**live, **{f"|{place}": found[0] for place, found in at.items() if len(found) == 1}}


_CHECKS = ("prim::AutogradAllNonZero", "prim::AutogradAllZero", "aten::__is__", "aten::__isnot__")

Checks = frozenset[tuple[str, tuple[int, ...]]]
"""Each check, and which inputs of the graph it asks about."""


@dataclass(frozen=True)
class GradientPlan:
    """A plan of the executor of a gradient."""

    inputs: tuple[str, ...]
    """The kinds of its inputs: ``Tensor``, ``int[]?``."""
    checks: Checks
    copy: tuple[tuple[str, str | None], ...] | None
    """The operators of the unchanged copy; None where the print has only its name."""

    def is_of(self, other: GradientPlan) -> bool:
        """Whether both can be plans of one gradient, for different gradients that are defined."""
        if self.inputs != other.inputs or self.checks == other.checks:
            return False
        if self.copy is None or other.copy is None:
            return True
        # The passes before it rewrite a few operators of the later copy.
        shared = sum((Counter(self.copy) & Counter(other.copy)).values())
        return shared * 10 >= max(len(self.copy), len(other.copy)) * 9


def gradient_plan(dump: Dump) -> GradientPlan | None:
    """What the plan says of the gradient that it is for; None if it is that of another graph."""
    graph = dump.graph
    if not any(node.kind.startswith("prim::AutogradAll") for node in graph.nodes):
        return None
    places = {value.name: place for place, value in enumerate(graph.params)}
    checks = frozenset(
        (node.kind, tuple(sorted(places[name] for name in node.inputs if name in places)))
        for node in graph.nodes
        if node.kind in _CHECKS
    )
    return GradientPlan(tuple(kind_of(value.type) for value in graph.params), checks, _copy(dump, graph))


def _copy(dump: Dump, graph: Graph) -> tuple[tuple[str, str | None], ...] | None:
    for node in graph.nodes:
        if node.kind == "prim::If" and len(node.blocks) == 2:
            for inner in node.blocks[1].nodes:
                body = dump.resolve(inner) if inner.kind == "prim::FallbackGraph" else None
                if body is not None and any(one.kind.startswith("prim::Autograd") for one in body.walk()):
                    return tuple(_operators(body.walk()))
    return None


def _operators(nodes: Iterable[Node]) -> Iterable[tuple[str, str | None]]:
    """Without the tuple that each further copy returns its results in."""
    left_out = ("prim::Constant", "prim::TupleConstruct")
    return ((node.kind, node.source) for node in nodes if node.kind not in left_out)


def profiled_gradient(graph: Print) -> tuple[str, ...] | None:
    """The kinds of the inputs of a graph that is profiled, if it is that of a gradient."""
    if b"prim::Autograd" not in graph.text:
        return None
    return tuple(kind_of(text) for _, text in _input_kinds(graph.lines()))


PROFILE = "prim::profile"
PROFILE_OF_VALUE = "prim::profile_ivalue"
_UNKNOWN = ("Tensor", "Tensor?", "")


class PropertyRead(NamedTuple):
    """An operator that takes the dtype, device or layout of a tensor: ``y.to(x.dtype)``."""

    what: str
    op: str
    source: str | None


@dataclass(frozen=True)
class Profiled:
    """What was profiled, by name of a value."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Of the values that have a known one."""
    ran: Mapping[str, bool] = field(default_factory=dict)
    """Whether the node that makes the value ran. A block runs as a whole, so what is seen of one of its nodes
    holds for all; values of a block of which nothing is seen are missing."""
    blocks: Mapping[str, Sequence[bool | None]] = field(default_factory=dict)
    """Whether the blocks of the node that makes the value ran."""
    property_reads: Mapping[str, Sequence[PropertyRead]] = field(default_factory=dict)
    """What takes the dtype, device or layout of the value."""


_ASKS = {"prim::dtype": "dtype", "prim::device": "device", "prim::layout": "layout"}


def profiled_in(dump: Dump) -> Profiled:
    """What the graph that a fusion pass begins with tells."""
    runs = _Runs(dump)
    return Profiled(_types(dump), runs.ran, runs.blocks, _property_reads(dump))


def _property_reads(dump: Dump) -> dict[str, list[PropertyRead]]:
    """In a plan the number is a constant of the group that takes it, with nothing that tells where it came
    from; while a pass makes groups it is a node between the two."""
    asks: dict[str, tuple[str, str]] = {}
    handed_on: dict[str, str] = {}
    found: dict[str, list[PropertyRead]] = {}
    for node in dump.graph.walk():
        kind, inputs = node.kind, node.inputs
        if kind in (PROFILE, PROFILE_OF_VALUE) and inputs and node.outputs:
            name = node.outputs[0].name
            handed_on[name] = handed_on.get(inputs[0], inputs[0])
            if inputs[0] in asks:
                asks[name] = asks[inputs[0]]
        elif kind in _ASKS and inputs and node.outputs:
            asks[node.outputs[0].name] = _ASKS[kind], handed_on.get(inputs[0], inputs[0])
        elif asks and not kind.startswith("prim::"):
            for name in inputs:
                if name in asks:
                    what, tensor = asks[name]
                    found.setdefault(tensor, []).append(PropertyRead(what, kind, node.source))
    return found


def _types(dump: Dump) -> dict[str, str]:
    types = {v.name: v.type for v in dump.graph.params}
    for node in dump.graph.walk():
        profiled = node.attributes.get("profiled_type") if node.kind == PROFILE else None
        if profiled and node.inputs and (profiled not in _UNKNOWN or node.inputs[0] not in types):
            types[node.inputs[0]] = profiled
        for value in node.outputs:
            text = profiled or value.type
            if types.get(value.name, "") in _UNKNOWN:
                types[value.name] = text
    return {name: text for name, text in types.items() if text not in _UNKNOWN}


class _Block:
    """A block of the graph (or all of it), and those inside it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.ran: bool | None = None
        self.inner: list[tuple[Node, list[_Block]]] = []

    def never_ran(self) -> None:
        """Nothing runs inside what did not run."""
        self.ran = False
        for _, blocks in self.inner:
            for block in blocks:
                block.never_ran()

    def walk(self) -> Iterator[_Block]:
        yield self
        for _, blocks in self.inner:
            for block in blocks:
                yield from block.walk()


class _Runs:
    """Which nodes of a graph ran."""

    def __init__(self, dump: Dump) -> None:
        self.ran: dict[str, bool] = {}
        self.blocks: dict[str, Sequence[bool | None]] = {}
        self._by_nodes = any(
            node.kind == PROFILE and node.attributes.get("profiled_type") not in (None, *_UNKNOWN)
            for node in dump.graph.walk()
        )
        """The profile nodes are in the graph; some passes leave only those that saw nothing."""
        self._seen: dict[str, bool] = {}
        """Whether the input of a profile node was seen, by the node's output."""
        whole = self._block(dump.graph.nodes, dump.graph.outputs)
        if not whole.ran:
            return
        _follow_conditions(whole)
        for block in whole.walk():
            if block.ran is not None:
                self.ran.update((value.name, block.ran) for node in block.nodes for value in node.outputs)
            for node, inner in block.inner:
                self.blocks.update((value.name, [one.ran for one in inner]) for value in node.outputs)

    def _block(self, nodes: Sequence[Node], outputs: Iterable[str]) -> _Block:
        made = _Block(nodes)
        shown: set[bool] = set()
        for node in nodes:
            shown.update(self._shown_by(node))
            if node.blocks:
                inner = [self._block(block.nodes, block.outputs) for block in node.blocks]
                made.inner.append((node, inner))
                if any(block.ran for block in inner):
                    shown.add(True)
        shown.update(self._seen[name] for name in outputs if name in self._seen)
        if True in shown:
            made.ran = True
        elif shown:
            made.never_ran()
        return made

    def _shown_by(self, node: Node) -> Iterable[bool]:
        if node.kind == PROFILE:
            known = node.attributes
            seen = known.get("profiled_type") not in (None, *_UNKNOWN) or known.get("seen_none", "0") != "0"
            for value in node.outputs:
                self._seen[value.name] = seen
            return () if self._by_nodes else (seen,)
        if node.kind == PROFILE_OF_VALUE:
            return (True,) if node.attributes else ()
        if not self._by_nodes:
            # A result has no type also where only nodes read it whose inputs are not profiled.
            return [True for value in node.outputs if is_tensor(value.type) and value.type not in _UNKNOWN]
        return [self._seen[name] for name in node.inputs if name in self._seen]


def _follow_conditions(whole: _Block) -> None:
    """A condition that was never true (or never false) at one prim::If was not at the others that read it."""
    never: set[tuple[str, int]] = set()
    for block in whole.walk():
        for node, inner in block.inner:
            if block.ran and node.kind == "prim::If":
                never.update((node.inputs[0], i) for i, one in enumerate(inner) if one.ran is False)
    for block in whole.walk():
        for node, inner in block.inner:
            for i, one in enumerate(inner):
                if node.kind == "prim::If" and one.ran is None and (node.inputs[0], i) in never:
                    one.never_ran()
