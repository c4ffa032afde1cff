"""The contents of a printed graph: values, nodes, blocks, graphs, and the dump that
contains a graph with its sections.

Only few nodes of a log are ever read in detail: a node keeps the texts of its line,
and splits them on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from sys import intern

RawNode = tuple[str | None, ...]
"""Indentation, outputs, callee, attributes or None, inputs, tail or None, and for a
Python function its scalars."""


def end_of_string(text: str, start: int) -> int:
    """Return the index of the quote that ends the string whose first character is
    at ``start``; -1 if there is none."""
    at = start
    while True:
        quote = text.find('"', at)
        escapes = quote
        while escapes > at and text[escapes - 1] == "\\":
            escapes -= 1
        if (quote - escapes) % 2 == 0:
            return quote
        at = quote + 1


# Strings are printed with C escapes (c10::printQuotedString), so a quote inside a
# string has a backslash before it.
_ATTRIBUTE_TOKEN = re.compile(r'"|[\[({]|[\])}]|, (?=[A-Za-z_]\w*=)')


def _one_line(text: str) -> str:
    return " ".join(line for line in map(str.strip, text.split("\n")) if line)


def split_values(text: str) -> list[tuple[str, ...]]:
    """Return ``%x.1 : Tensor, %2 : (int, int)`` as pairs of name and type; the type
    is '' if none was printed.

    No type contains a ``%``, so the ``, %`` between two values is never inside a
    type.
    """
    text = text.strip()
    if not text.startswith("%"):
        return []
    if "\n" in text:
        text = _one_line(text)
    return [part.partition(" : ")[::2] for part in text[1:].split(", %")]


def split_names(text: str) -> tuple[str, ...]:
    """Return ``%x.1, %2`` as names without the ``%``."""
    text = text.strip()
    if not text.startswith("%"):
        return ()
    if "\n" in text:
        text = _one_line(text)
    return tuple(text[1:].split(", %"))


def split_attributes(text: str) -> dict[str, str]:
    """Return ``value="a, b", types=[int, (int, int)]`` as a dictionary of the
    printed values, in print order."""
    if ", " not in text:
        name, equals, value = text.partition("=")
        if equals:
            return {name.strip(): value}
        return {}
    pieces = []
    start = depth = 0
    match = _ATTRIBUTE_TOKEN.search(text)
    while match is not None:
        token, end = match[0], match.end()
        if token in "[({":
            depth += 1
        elif token in "])}":
            depth -= 1
        elif token == '"':
            closing = end_of_string(text, end)
            end = closing + 1 if closing >= 0 else len(text)
        elif depth <= 0:
            pieces.append(text[start : match.start()])
            start = end
        match = _ATTRIBUTE_TOKEN.search(text, end)
    pieces.append(text[start:])
    attributes = {}
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if equals:
            attributes[name.strip()] = value
    return attributes


@lru_cache(maxsize=2048)
def split_tail(text: str | None) -> tuple[str | None, str | None]:
    """Return scope and source from the text after the inputs: ``, scope: __module.l
    # file.py:134:0``."""
    text = text.rstrip() if text else ""
    if text.startswith(", scope: "):
        scope, hash_mark, source = text[9:].partition(" # ")
        return intern(scope), source if hash_mark else None
    return None, text[3:] if text.startswith(" # ") else None


_NO_ATTRIBUTES: Mapping[str, str] = {}


class Value:
    """A value at its definition. ``name`` is without the ``%``; ``type`` as
    printed, '' if none was printed."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.type!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and (self.name, self.type) == (
            other.name,
            other.type,
        )

    def __hash__(self) -> int:
        return hash((self.name, self.type))


def parse_values(text: str) -> tuple[Value, ...]:
    """Return the values defined by ``%x.1 : Tensor, %2 : int``; equal types are one
    string, since a graph has few."""
    return tuple([Value(name, intern(type)) for name, type in split_values(text)])


class Node:
    """A node.

    ``kind``: as printed (``aten::add``, ``^Name`` for a Python function), without
    the number that refers to its section; ``ref``: the name of that section
    (``prim::CudaFusionGroup_0``), None for a node without one. ``source``:
    ``file:line:column`` as printed after ``#``; ``scope``: the module scope that
    tracing adds. ``scalars``: the plain arguments of a Python function as printed;
    None for other nodes. ``blocks``: the nested blocks. ``line``: number of lines
    of the dump before its first line.

    A graph can have a hundred thousand nodes: text that was split is not kept.
    """

    __slots__ = (
        "_attributes",
        "_inputs",
        "_outputs",
        "blocks",
        "kind",
        "line",
        "ref",
        "scalars",
        "scope",
        "source",
    )

    def __init__(self, raw: RawNode, line: int) -> None:
        self.line = line
        self.kind = intern(raw[2] or "")
        self.ref: str | None = None
        self.blocks: tuple[Block, ...] = ()
        self._outputs: str | tuple[Value, ...] = raw[1] or ""
        self._inputs: str | tuple[str, ...] = raw[4] or ""
        self._attributes: str | dict[str, str] | None = raw[3]
        self.scope, self.source = split_tail(raw[5])
        self.scalars = raw[6] if len(raw) > 6 else None

    def __repr__(self) -> str:
        return f"<Node {self.kind} line {self.line}>"

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The values that it defines."""
        made = self._outputs
        if isinstance(made, str):
            made = self._outputs = parse_values(made)
        return made

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the values that it takes."""
        made = self._inputs
        if isinstance(made, str):
            made = self._inputs = split_names(made)
        return made

    @property
    def attributes(self) -> Mapping[str, str]:
        """The printed text of each attribute, in print order."""
        made = self._attributes
        if isinstance(made, str):
            if ", " not in made:  # a single attribute is found faster than kept
                return split_attributes(made)
            made = self._attributes = split_attributes(made)
        return made or _NO_ATTRIBUTES

    def attribute(self, name: str) -> str | None:
        """Return the printed text of one attribute; None if there is none with that
        name."""
        made = self._attributes
        if isinstance(made, str) and ", " not in made:
            only, equals, value = made.partition("=")
            if equals and only.strip() == name:
                return value
            return None
        return self.attributes.get(name)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all nodes of its blocks, depth first, in print
        order."""
        yield self
        for block in self.blocks:
            for node in block.nodes:
                yield from node.walk()


class Block:
    """A nested block, from ``block0(%i : int):`` to its ``-> (...)``. ``index`` is
    the printed number."""

    __slots__ = ("_outputs", "_params", "index", "nodes")

    def __init__(self, index: int, params: str) -> None:
        self.index = index
        self.nodes: Sequence[Node] = ()
        self._params = params
        self._outputs = ""

    def __repr__(self) -> str:
        return f"<Block {self.index} with {len(self.nodes)} nodes>"

    @property
    def params(self) -> tuple[Value, ...]:
        """The values that it takes, such as the counter of a loop."""
        return parse_values(self._params)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the values that it returns to its node."""
        return split_names(self._outputs)


class Graph:
    """A graph: that of the dump or that of a section. ``complete``: no part of it
    is missing or damaged.

    ``line``: number of lines of the dump before the line with ``graph(``.
    """

    __slots__ = ("_outputs", "_params", "complete", "line", "nodes")

    def __init__(self, line: int) -> None:
        self.line = line
        self.nodes: Sequence[Node] = ()
        self.complete = False
        self._params: list[str] = []
        self._outputs = ""

    def __repr__(self) -> str:
        return f"<Graph line {self.line} with {len(self.nodes)} nodes>"

    @property
    def params(self) -> tuple[Value, ...]:
        """The inputs of the graph."""
        return tuple(chain.from_iterable(map(parse_values, self._params)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the values that it returns."""
        return split_names(self._outputs)

    def walk(self) -> Iterator[Node]:
        """Yield all its nodes, including those of nested blocks, depth first, in
        print order; sections are not entered."""
        for node in self.nodes:
            yield from node.walk()


class SubgraphSection:
    """``with prim::CudaFusionGroup_0 = graph(...)``: the body of a node.

    ``node`` refers to it and is in the graph ``parent``; both are None if that part
    of the dump is missing.
    """

    __slots__ = ("graph", "kind", "name", "node", "parent")

    def __init__(self, name: str, graph: Graph) -> None:
        self.name = name
        self.kind = name.rpartition("_")[0] or name
        self.graph = graph
        self.node: Node | None = None
        self.parent: Graph | None = None

    def __repr__(self) -> str:
        return f"<SubgraphSection {self.name} line {self.graph.line}>"


class IrDump:
    """One printed graph with the sections after it.

    ``complete``: nothing of it is missing or damaged. ``problems``: descriptions of
    the damage. ``foreign``: the numbers, from 0, of the lines that do not belong to
    it.
    """

    __slots__ = ("_bodies", "complete", "foreign", "graph", "problems", "sections")

    def __init__(
        self,
        graph: Graph,
        sections: tuple[SubgraphSection, ...],
        complete: bool,
        problems: tuple[str, ...],
        foreign: tuple[int, ...],
    ) -> None:
        self.graph = graph
        self.sections = sections
        self.complete = complete
        self.problems = problems
        self.foreign = foreign
        # Names repeat between sections, so a body is found by the id of its node,
        # which the dump keeps alive.
        self._bodies = {
            id(section.node): section.graph
            for section in sections
            if section.node is not None
        }

    def __repr__(self) -> str:
        return f"<IrDump {self.graph!r} and {len(self.sections)} sections>"

    def resolve(self, node: Node) -> Graph | None:
        """Return the body of ``node``, a node of this dump; None if it has none or
        the dump lacks it."""
        return self._bodies.get(id(node))

    def graphs(self) -> Iterator[Graph]:
        """Yield the graph and the bodies of all sections, in print order."""
        yield self.graph
        for section in self.sections:
            yield section.graph
