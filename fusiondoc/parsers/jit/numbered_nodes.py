"""The nodes of a dump with numbers for their values, since names repeat between a
graph and the bodies of its groups.

Guards, profile nodes and the nodes of groups do not count: their outputs have the
numbers of the values that they return unchanged. A list, tuple or result of control
flow has a larger number than the values that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fusiondoc.parsers.jit import GUARDS, is_guarded
from fusiondoc.parsers.jit.regions import Around

if TYPE_CHECKING:
    from fusiondoc.parsers.ir import Graph, IrDump, Node

_DEEPEST = 60
"""Depth of nested graphs that are entered, as in plan_walk.py."""
_NOT_READ = ("prim::Constant", "prim::FallbackGraph")
_LISTS = ("prim::List", "prim::Tuple")
_MODULE = "__torch__."
"""Prefix of the type of a module."""

Environment = dict[str, int]
"""Name of a value in a graph -> its number."""


class NumberedNode(NamedTuple):
    """A node that computes, with the numbers of its values."""

    node: Node
    inputs: list[int]
    outputs: list[int]

    @property
    def by_pass(self) -> bool:
        """True if a pass of torch made the node: its source is in no file of the
        program."""
        source = self.node.source
        return source is None or source.startswith("<")


class NumberedRegion(NamedTuple):
    """A differentiable graph, with the numbers of its values."""

    names: tuple[str, ...]
    """The names of its inputs, in its own graph."""
    inputs: list[int]
    outputs: list[int]
    inside: slice
    """The range of its nodes in ``NumberedNodes.nodes``."""
    returned: list[tuple[str, str, int]]
    """Name, type and number of each value that its graph returns: its outputs, and
    the values that its gradient needs."""


class NumberedNodes:
    """Reads the nodes of a dump."""

    def __init__(self, dump: IrDump) -> None:
        self._dump = dump
        self._module: dict[int, str] = {}
        """Value -> the path of the module, for values that are modules."""
        self._depth = 0
        self._count = 0
        self.inputs: Environment = {}
        """The values that the graph takes, by name."""
        self.outputs: list[int | None] = []
        """The values that the graph returns; None for those without a number."""
        self.nodes: list[NumberedNode] = []
        self.regions: list[NumberedRegion] = []
        self.held: dict[int, list[int]] = {}
        """A list, tuple or result of control flow -> the values that it holds."""
        self.owner: dict[int, str] = {}
        """Parameter or buffer -> its module."""
        self.scopes = False
        """True if any node has a scope."""
        self._read_graph(dump.graph)

    def _read_graph(self, graph: Graph) -> None:
        environment: Environment = {}
        for position, value in enumerate(graph.params):
            number = self._define(environment, value.name)
            if not position and value.type.startswith(_MODULE):
                self._module[number] = ""
        self.inputs = dict(environment)
        self._read(graph.nodes, environment)
        self.outputs = [environment.get(name) for name in graph.outputs]

    def own_inputs(self, around: Around) -> None:
        """Record, for inputs of the graph that are parameters, the modules that own
        them."""
        for number, owner in zip(self.inputs.values(), around.owners):
            if owner is not None:
                self.owner[number] = owner

    def _define(self, environment: Environment, name: str) -> int:
        self._count += 1
        environment[name] = self._count
        return self._count

    def _read(self, nodes: Iterable[Node], environment: Environment) -> None:
        if self._depth > _DEEPEST:
            return
        self._depth += 1
        for node in nodes:
            if node.kind not in _NOT_READ:
                self._read_node(node, environment)
        self._depth -= 1

    def _read_node(self, node: Node, environment: Environment) -> None:
        kind = node.kind
        inputs = [environment[name] for name in node.inputs if name in environment]
        body = self._dump.resolve(node)
        if kind == "prim::GetAttr":
            self._attribute(node, inputs, environment)
        elif body is not None:
            self._body(node, body, inputs, environment)
        elif kind in GUARDS or kind == "prim::profile":
            for value, number in zip(node.outputs, inputs):
                environment[value.name] = number
        elif node.blocks:
            self._control(node, environment)
        elif kind.startswith(_LISTS):
            for value in node.outputs:
                self.held[self._define(environment, value.name)] = inputs
        else:
            self.scopes = self.scopes or node.scope is not None
            outputs = [
                self._define(environment, value.name) for value in node.outputs
            ]
            self.nodes.append(NumberedNode(node, inputs, outputs))

    def _body(
        self, node: Node, body: Graph, inputs: list[int], environment: Environment
    ) -> None:
        """Read the graph of a group or a differentiable graph."""
        params = body.params
        inner = {
            value.name: environment[name]
            for value, name in zip(params, node.inputs)
            if name in environment
        }
        first = len(self.nodes)
        self._read(body.nodes, inner)
        for value, name in zip(node.outputs, body.outputs):
            if name in inner:
                environment[value.name] = inner[name]
        if node.kind != "prim::DifferentiableGraph" or len(inputs) != len(params):
            return
        outputs = [environment.get(value.name, 0) for value in node.outputs]
        types = _types_in(body)
        returned = [
            (name, types.get(name, ""), inner.get(name, 0)) for name in body.outputs
        ]
        names = tuple(value.name for value in params)
        inside = slice(first, len(self.nodes))
        self.regions.append(
            NumberedRegion(names, inputs, outputs, inside, returned)
        )

    def _attribute(
        self, node: Node, inputs: list[int], environment: Environment
    ) -> None:
        owner = self._module.get(inputs[0]) if inputs else None
        for value in node.outputs:
            number = self._define(environment, value.name)
            if owner is None:
                continue
            if value.type.startswith(_MODULE):
                name = node.attributes.get("name", "").strip('"')
                self._module[number] = f"{owner}.{name}" if owner else name
            elif owner:
                self.owner[number] = owner

    def _control(self, node: Node, environment: Environment) -> None:
        guarded = is_guarded(node)
        blocks = node.blocks[:1] if guarded else node.blocks
        for block in blocks:
            for value in block.params:
                self._define(environment, value.name)
            self._read(block.nodes, environment)
        outputs = [block.outputs for block in blocks]
        for position, value in enumerate(node.outputs):
            numbers = _numbers_at(position, outputs, environment)
            if guarded and numbers:
                environment[value.name] = numbers[0]
            else:
                self.held[self._define(environment, value.name)] = numbers


def _numbers_at(
    position: int, outputs: Sequence[Sequence[str]], environment: Environment
) -> list[int]:
    """Return the numbers of the values that blocks return at one position."""
    names = [returned[position] for returned in outputs if position < len(returned)]
    return [environment[name] for name in names if name in environment]


def _types_in(body: Graph) -> dict[str, str]:
    types = {value.name: value.type for value in body.params}
    for node in body.walk():
        types.update((value.name, value.type) for value in node.outputs)
    return types
