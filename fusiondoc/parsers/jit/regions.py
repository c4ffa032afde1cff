"""What earlier plans of a log tell of the plans of their differentiable graphs and of the gradients of those:
the layers around the one, and those of the values that the other takes from the forward pass.

Which plan of a gradient it is: of the several that one executor makes when other gradients are defined.

The graph of a gradient is made for the gradients that are defined when it is profiled, and for sizes that
need no sum; ``specialize_autogradzero.cpp`` of torch/csrc/jit/passes puts the checks of both in front
(``prim::AutogradAllNonZero``, ``prim::AutogradAllZero``, ``aten::__is__``) and leaves an unchanged copy for
all other cases. It becomes a fallback function: with an executor, and a plan, of its own (1.12 to 2.13).
"""

from __future__ import annotations

import re
from collections import Counter
from sys import intern
from typing import TYPE_CHECKING, FrozenSet, Iterable, Mapping, NamedTuple, Sequence, Tuple

from fusiondoc.model.quick_dataclass import dataclass

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Dump, Graph, Node
    from fusiondoc.parsers.jit.message_runs import Print

LiveLayers = Mapping[str, Tuple[str, ...]]
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
        self._kept: list[tuple[Kept, ...]] = []
        """What each differentiable graph returns whose gradient made no plan yet, in order."""
        self._gradient: tuple[tuple[str, ...], Around, bool] | None = None
        """The last graph of a gradient: its inputs, what is told of them, and whether its pass printed it."""
        self.live = tuple(map(_by_place, live))
        """Of each model of the run."""

    def learn(self, names: tuple[str, ...], around: Around) -> None:
        """Names that stand for two different places tell nothing."""
        self._known[names] = around if self._known.get(names, around) == around else None

    def keep(self, returned: tuple[Kept, ...]) -> None:
        """What a differentiable graph returns, for the plan of its gradient."""
        self._kept.append(returned)

    def around(self, names: tuple[str, ...]) -> Around | None:
        """What is around the graph with inputs of these names; None where that is not known."""
        if self._gradient is not None and self._gradient[0] == names:
            return self._gradient[1]
        return self._known.get(names)

    def around_print(self, graph: Print, of_pass: bool) -> Around | None:
        """The same for a printed graph.

        Args:
            of_pass: a fusion pass prints it: the executor prints it again.
        """
        if not self._known:
            return None
        known = self._inputs.get(graph.digest)
        if known is None:
            inputs = input_kinds(graph.lines())
            self._room -= len(inputs) + 1
            if self._room < 0:
                self._inputs.clear()
                self._room = _MOST_INPUTS
            names = tuple(name for name, _ in inputs)
            known = self._inputs[graph.digest] = inputs, names, _gradients(names, graph.text)
        inputs, names, gradients = known
        if names in self._known:
            return self._known[names]
        if gradients:
            return self._around_gradient(names, inputs, gradients, of_pass)
        self._gradient = None
        return None

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
        for place in reversed(range(len(self._kept))):
            captured = _captured(inputs[gradients:], self._kept[place])
            if captured is not None:
                del self._kept[place]
                around = Around((), (), (), (), (*((),) * gradients, *captured))
                self._gradient = (names, around, of_pass)
                return around
        return None


def input_kinds(lines: Iterable[bytes]) -> list[tuple[str, str]]:
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


def _captured(
    inputs: Sequence[tuple[str, str]], returned: Sequence[Kept]
) -> tuple[tuple[str, ...], ...] | None:
    """The layers of the values that a gradient's graph takes, or None if they are not those returned."""
    if not inputs or len(inputs) > len(returned):
        return None
    layers: list[tuple[str, ...]] = []
    for (name, text), kept in zip(inputs, returned[-len(inputs) :]):
        mine, other = _stem(name), _stem(kept.name)
        if kind_of(text) != kind_of(kept.type) or (mine and other and mine != other):
            return None
        layers.append(kept.layers)
    return tuple(layers)


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

Checks = FrozenSet[Tuple[str, Tuple[int, ...]]]
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
    return tuple(kind_of(text) for _, text in input_kinds(graph.lines()))
