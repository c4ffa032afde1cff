"""The differentiable graphs of a log's plans, to which later graphs belong: the
layers around them, and for gradients the layers of the values that they take from
the forward pass."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from sys import intern
from typing import NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.parsers.ir.types import kind_of
from fusiondoc.parsers.jit.message_runs import Print

LiveLayers = Mapping[str, tuple[str, ...]]
"""``op|source`` -> the module path of each such node of the inlined graph, in
order; "" is the model itself (fusiondoc/probe/models.py)."""

_INPUT = re.compile(rb"%([\w.]+) : ([\w\[\]?(]+)")
_VALUE = re.compile(rb"%([\w.]+)")
_ALL_ZERO = re.compile(rb"prim::AutogradAllZero([^\n]*)")
_MOST_INPUTS = 5_000
"""Number of inputs of printed graphs that are remembered, over all graphs."""
_MOST_GRAPHS = 200
"""Number of differentiable graphs that wait for the plan of their gradient: of
different returned values, and of the same."""


@dataclass(frozen=True)
class Around:
    """The layers around a differentiable graph of a plan, for each input and
    output."""

    owners: tuple[str | None, ...]
    """The module whose parameter the input is."""
    before: tuple[tuple[str, ...], ...]
    """The layers of the nodes that make the input, sorted."""
    after: tuple[tuple[str, ...], ...]
    """The layers of the nodes that take the output, sorted."""
    live: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The layers of the nodes in it, from the live run."""
    captured: tuple[tuple[str, ...], ...] = ()
    """For a gradient's graph, for each input: the layers of the forward pass that
    made or took the value."""


_Values = tuple[tuple[str, str], ...]
"""The stem of its name and its kind, for each value."""


class RegionOutput(NamedTuple):
    """A value that a differentiable graph returns: to the program, or to its
    gradient."""

    name: str
    type: str
    layers: tuple[str, ...]
    """The layers of the operators in the graph that make or take it, sorted."""


class Regions:
    """The differentiable graphs of the plans so far, by the names of their inputs.

    The executor of a differentiable graph later prints a plan of its own with the
    same input names (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp names the
    inputs of the subgraph so).
    """

    def __init__(self, live: Sequence[LiveLayers] = ()) -> None:
        self._known: dict[tuple[str, ...], Around | None] = {}
        self._inputs: dict[
            bytes, tuple[list[tuple[str, str]], tuple[str, ...], int]
        ] = {}
        """Digest of a printed graph -> its inputs, their names, and how many of
        them are gradients (0 if the graph is not a gradient's). Cached: a log
        prints few graphs often."""
        self._room = _MOST_INPUTS
        self._kept: dict[
            _Values, deque[tuple[int, tuple[tuple[str, ...], ...]]]
        ] = {}
        """Values that a differentiable graph returns -> for each such graph whose
        gradient made no plan yet, its number in the order of the log and the layers
        of the values. A model has few different keys, and its gradients run soon
        after it: the keys of the latest graphs come last, and the others are
        forgotten."""
        self._ending: dict[tuple[str, str], dict[_Values, None]] = {}
        """The keys of ``_kept`` by stem and kind of their last value; keys of later
        graphs come last."""
        self._number = 0
        self._gradient: tuple[tuple[str, ...], Around, bool] | None = None
        """The last graph of a gradient: its inputs, the layers around it, and True
        if its pass printed it."""
        self.live = tuple(map(_by_position, live))
        """The layers of each model of the run."""

    def learn(self, names: tuple[str, ...], around: Around) -> None:
        """Record the layers around a graph. Input names that two graphs with
        different layers share identify neither."""
        if self._known.get(names, around) == around:
            self._known[names] = around
        else:
            self._known[names] = None

    def keep(self, returned: tuple[RegionOutput, ...]) -> None:
        """Record the values that a differentiable graph returns, for the plan of
        its gradient."""
        values = _values((one.name, one.type) for one in returned)
        if not values:
            return
        graphs = self._kept.pop(values, None) or deque(maxlen=_MOST_GRAPHS)
        graphs.append((self._number, tuple(one.layers for one in returned)))
        self._kept[values] = graphs
        alike = self._ending.setdefault(values[-1], {})
        alike.pop(values, None)
        alike[values] = None
        self._number += 1
        if len(self._kept) > _MOST_GRAPHS:
            self._forget(next(iter(self._kept)))

    def around(self, names: tuple[str, ...]) -> Around | None:
        """Return the layers around the graph with inputs of these names; None if
        they are not known."""
        if self._gradient is not None and self._gradient[0] == names:
            return self._gradient[1]
        return self._known.get(names)

    def inputs_of(self, graph: Print) -> tuple[str, ...]:
        """Return the names of the inputs of a printed graph."""
        return self._inputs_of(graph)[1]

    def around_print(self, graph: Print, of_pass: bool) -> Around | None:
        """The same for a printed graph.

        Args:
            of_pass: True if a fusion pass prints it: the executor prints it again.
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

    def _inputs_of(
        self, graph: Print
    ) -> tuple[list[tuple[str, str]], tuple[str, ...], int]:
        known = self._inputs.get(graph.digest)
        if known is None:
            inputs = _input_kinds(graph.lines())
            self._room -= len(inputs) + 1
            if self._room < 0:
                self._inputs.clear()
                self._room = _MOST_INPUTS
            names = tuple(name for name, _ in inputs)
            known = self._inputs[graph.digest] = (
                inputs,
                names,
                _gradients(names, graph.text),
            )
        return known

    def _around_gradient(
        self,
        names: tuple[str, ...],
        inputs: Sequence[tuple[str, str]],
        gradients: int,
        of_pass: bool,
    ) -> Around | None:
        """Return the layers around a gradient's graph. Gradients run, and make
        their plans, in the reverse order of the differentiable graphs. The values
        that a gradient needs are the last values that its differentiable graph
        returns, in the same order (``lambdaLiftReverse`` of
        torch/csrc/jit/runtime/autodiff.cpp, 1.12 to 2.13)."""
        last = self._gradient
        if last is not None and last[0] == names and last[2] and not of_pass:
            self._gradient = (names, last[1], False)
            return last[1]
        self._gradient = None
        captured = _values(inputs[gradients:])
        latest = self._latest_that_ends_so(captured)
        if latest is None:
            return None
        _, layers = self._kept[latest].pop()
        if self._kept[latest]:
            alike = sorted(self._ending[latest[-1]], key=self._number_of)
            self._ending[latest[-1]] = dict.fromkeys(alike)
        else:
            self._forget(latest)
        around = Around(
            (), (), (), (), (*((),) * gradients, *layers[-len(captured) :])
        )
        self._gradient = (names, around, of_pass)
        return around

    def _latest_that_ends_so(self, captured: _Values) -> _Values | None:
        """Return the values of the latest differentiable graph whose last returned
        values can be the captured ones; None without one."""
        if not captured:
            return None
        stem, kind = captured[-1]
        if stem:
            ends = [(stem, kind), ("", kind)]
        else:
            ends = [end for end in self._ending if end[1] == kind]
        found: list[_Values] = []
        for end in ends:
            fitting = (
                one
                for one in reversed(self._ending.get(end, {}))
                if _are_last_of(captured, one)
            )
            found += islice(fitting, 1)
        return max(found, key=self._number_of, default=None)

    def _forget(self, values: _Values) -> None:
        """Forget the graphs that return these values."""
        alike = self._ending[values[-1]]
        del self._kept[values], alike[values]
        if not alike:
            del self._ending[values[-1]]

    def _number_of(self, values: _Values) -> int:
        """Return the number of the latest graph that returns these values."""
        return self._kept[values][-1][0]


def _input_kinds(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    """Return name and kind of each input of a printed graph."""
    inputs: list[tuple[str, str]] = []
    for line in lines:
        inputs += [
            (
                name.decode("utf-8", "replace"),
                intern(text.decode("utf-8", "replace")),
            )
            for name, text in _INPUT.findall(line)
        ]
        if line.rstrip().endswith(b"):"):
            break
    return inputs


def _gradients(names: tuple[str, ...], text: bytes) -> int:
    """Return how many inputs of a gradient's graph are gradients: those before the
    values of the forward pass. Usually all but the first are zero, and the graph
    checks that (torch/csrc/jit/passes/specialize_autogradzero.cpp). 0 for any other
    graph."""
    if b"prim::AutogradAll" not in text:
        return 0
    zero = {
        name.decode("utf-8", "replace")
        for check in _ALL_ZERO.findall(text)
        for name in _VALUE.findall(check)
    }
    return max(
        (position + 1 for position, name in enumerate(names) if name in zero),
        default=1,
    )


def _values(names_and_types: Iterable[tuple[str, str]]) -> _Values:
    return tuple((_stem(name), kind_of(text)) for name, text in names_and_types)


def _are_last_of(captured: _Values, returned: _Values) -> bool:
    """True if the values that a gradient's graph takes can be the last of the
    returned values. A value whose name is only a number matches any name."""
    if not captured or len(captured) > len(returned):
        return False
    for (mine, kind), (other, other_kind) in zip(
        captured, returned[-len(captured) :]
    ):
        if kind != other_kind or (mine and other and mine != other):
            return False
    return True


def _stem(name: str) -> str:
    """Return a value's name without its number; "" if the name is only a number."""
    stem = name.partition(".")[0]
    if stem.isdigit():
        return ""
    return stem


def _by_position(live: LiveLayers) -> LiveLayers:
    """Return the layers, also keyed without the operator for source positions with
    only one operator: passes replace operators and keep their position."""
    at: dict[str, list[tuple[str, ...]]] = {}
    for key, layers in live.items():
        at.setdefault(key.partition("|")[2], []).append(layers)
    return {
        **live,
        **{
            f"|{position}": found[0]
            for position, found in at.items()
            if len(found) == 1
        },
    }


def profiled_gradient(graph: Print) -> tuple[str, ...] | None:
    """Return the kinds of the inputs of a profiled graph, if it is a gradient's;
    else None."""
    if b"prim::Autograd" not in graph.text:
        return None
    return tuple(kind_of(text) for _, text in _input_kinds(graph.lines()))
