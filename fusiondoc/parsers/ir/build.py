"""Lines -> blocks, graphs and sections: everything about structure except single
node lines.

Structure is recognised by the words of the print (``block0(``, ``->``, ``return``,
``with``); indentation is only used if the two disagree, that is if lines are
missing. So a print whose leading spaces were lost still parses.

``Graph::print`` (torch/csrc/jit/ir/ir.cpp) numbers the nodes of a graph that have a
subgraph from 0 and prints the subgraphs after the graph, each followed by its own.
So names repeat, and a section belongs to the most recent graph that names it and
whose section with that name was not printed yet.
"""

from __future__ import annotations

import re

from fusiondoc.fusers import group_nodes, inner_graphs
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.ir import (
    Block,
    Graph,
    IrDump,
    Node,
    RawNode,
    SubgraphSection,
)

SUBGRAPH_KINDS = frozenset((*group_nodes(), *inner_graphs())) | frozenset(
    f"prim::{name}"
    for name in (
        "DifferentiableGraph",
        "FallbackGraph",
        "BailoutTemplate",
        "FunctionalGraph",
        "StaticSubgraph",
        "MKLDNNGroup",
        "Closure",
        "fork",
        "awaitable",
    )
)
"""Kinds that always print their subgraph as a section: even if the section is lost,
the number is not part of the kind. Other kinds (backends define their own) are
recognised by the section that names them."""


class Sections:
    """The sections of one dump, in print order."""

    def __init__(self, problems: DumpProblems) -> None:
        self.complete = True
        self._problems = problems
        self._sections: list[SubgraphSection] = []
        # The graphs whose sections may still come, outermost first, with their
        # numbered nodes by name.
        self._open: list[tuple[Graph, dict[str, Node]]] = []

    def add(self, graph: Graph, name: str | None, line: int) -> None:
        """Begin a graph: that of the section ``name``, or the main graph."""
        if name is not None:
            section = SubgraphSection(name, graph)
            self._sections.append(section)
            self._adopt(section, line)
        self._open.append((graph, {}))

    def candidate(self, node: Node) -> None:
        """Record a node of the current graph whose printed kind ends in a digit."""
        kind, _, number = node.kind.rpartition("_")
        if kind and number.isdecimal() and self._open:
            self._open[-1][1].setdefault(node.kind, node)

    def _adopt(self, section: SubgraphSection, line: int) -> None:
        for position in range(len(self._open) - 1, -1, -1):
            graph, named = self._open[position]
            node = named.pop(section.name, None)
            if node is None:
                continue
            section.node, section.parent = node, graph
            node.kind, node.ref = section.kind, section.name
            for younger in self._open[position + 1 :]:
                self._missing(younger)
            del self._open[position + 1 :]
            return
        self.complete = False
        self._problems.add(line, f"no node refers to the section {section.name}")

    def _missing(self, opened: tuple[Graph, dict[str, Node]]) -> None:
        """Report the sections that are missing for the remaining numbered nodes of
        a graph."""
        for name, node in opened[1].items():
            kind = name.rpartition("_")[0]
            if kind in SUBGRAPH_KINDS:
                node.kind, node.ref = kind, name
                self.complete = False
                self._problems.add(node.line, f"the section {name} is missing")

    def finish(self) -> tuple[SubgraphSection, ...]:
        """Finish the dump and return its sections."""
        for opened in self._open:
            self._missing(opened)
        self._open = []
        if not all(section.graph.complete for section in self._sections):
            self.complete = False
        return tuple(self._sections)


KEPT = 20
"""Number of problems of one dump that are described; the others are counted."""
QUOTED = 80
"""Number of characters of a line that are quoted."""


class DumpProblems:
    """Problems in the order in which they were found, and the numbers of the lines
    that are not IR."""

    def __init__(self) -> None:
        self.foreign: list[int] = []
        self._texts: list[str] = []
        self._count = 0

    def add(self, line: int, what: str) -> None:
        """Add a problem. ``line`` counts from 0 within the dump."""
        self._count += 1
        if len(self._texts) < KEPT:
            self._texts.append(f"line {line} of the dump: {what}")

    def set_aside(self, line: int, text: str) -> None:
        """Record a line that does not belong to the dump."""
        self.foreign.append(line)
        quoted = text.strip()
        if len(quoted) > QUOTED:
            quoted = quoted[:QUOTED] + "..."
        self.add(line, f"set aside, not IR: {quoted!r}")

    def texts(self) -> list[str]:
        """Return the descriptions for the report."""
        more = self._count - len(self._texts)
        if more:
            return [*self._texts, f"and {more} more"]
        return list(self._texts)


STRUCTURE = re.compile(
    r"( *)(?:block(\d{1,9})\((.*)\):|-> \(((?:%[^()]*)?)\)|return \(((?:%[^()]*)?)\))\s*$"
    r"|\s*with ([^\s=]+) = graph\((.*)"
)
"""Groups: indentation, number and parameters of a block, outputs of a block,
outputs of a graph, name of a section and the text after its ``graph(``."""

_PARAMETER = re.compile(r"\s*(%[^\s,]+(?: : .*?)?)(,|\):)\s*$")
_LAST_PARAMETERS = re.compile(r"((?:%.*)?)\):\s*$")
DEEPEST = 250
"""Depth of nested blocks; nodes in deeper blocks are added to the enclosing block,
since walks over nodes recurse."""
BLOCK_STEP = 4
"""Number of spaces by which the nodes of a block are indented more than the node
that owns it (``Node::print``)."""


class Builder:
    """Builds one dump from its parts. ``nodes`` is the list for the next node,
    ``indent`` the expected indentation before it (None: :meth:`place` must find the
    list)."""

    def __init__(self) -> None:
        self.problems = DumpProblems()
        self.sections = Sections(self.problems)
        self.graph: Graph | None = None
        self.nodes: list[Node] = []
        self.indent: str | None = None
        self._first: Graph | None = None
        self._stack: list[tuple[Block | None, list[Node]]] = []
        self._base: int | None = None
        self._flat = False
        self._in_params = False
        self._sound = True
        self._over = False

    # -- graphs --------------------------------------------------------------------------------------------

    def open_graph(self, line: int, rest: str, name: str | None = None) -> None:
        """Open a graph at ``graph(``; ``rest`` is the text after it on the line,
        ``name`` that of a ``with`` section."""
        if self.graph is not None:
            self._lost(line, "the end of the graph before this line is missing")
            self._close_graph()
        graph = self.graph = Graph(line)
        self._first = self._first or graph
        self.nodes = []
        self._stack = []
        self._base = None
        self._flat = False
        self._sound = True
        self.indent = None
        self.sections.add(graph, name, line)
        last = _LAST_PARAMETERS.match(rest)
        if last is not None:
            self._in_params = False
            if last[1]:
                graph._params.append(last[1])
            return
        self._in_params = True
        if rest.strip() and not self.parameter(rest):
            self._lost(line, "the parameters of the graph are mangled")

    def parameter(self, text: str) -> bool:
        """Read a line of the parameter list; return False if it is no such line or
        the list has ended."""
        match = _PARAMETER.match(text) if self._in_params else None
        if match is None or self.graph is None:
            return False
        self.graph._params.append(match[1])
        self._in_params = match[2] == ","
        return True

    def headless(self, line: int, in_params: bool) -> None:
        """Open a graph whose first line is missing: the dump begins inside it."""
        self.open_graph(line, "" if in_params else "):")
        self._lost(line, "the beginning of the graph is missing")

    def second_graph(self, line: int) -> None:
        """Record that another graph begins, which does not belong to this dump: the
        open graph is truncated, and the rest is set aside."""
        if self.graph is not None:
            self._lost(line, "the end of the graph before this line is missing")
            self._close_graph()
        self._over = True

    def _close_graph(self) -> None:
        graph = self.graph
        if graph is None:
            return
        while self._stack:
            self._close_block("")
        graph.nodes = tuple(self.nodes)
        graph.complete = self._sound
        self.graph = None
        self.indent = None

    # -- lines of structure --------------------------------------------------------------------------------

    def structure(self, match: re.Match[str], line: int) -> bool:
        """Read a line that :data:`STRUCTURE` matches; return False if it does not
        belong to this dump."""
        indent, number, params, block_outputs, outputs, name, rest = match.groups()
        if self._over:
            return False
        if name is not None:
            if self._first is None:
                self.headless(line, in_params=False)
            self.open_graph(line, rest, name)
            return True
        if self.graph is None:
            if self._first is not None:
                return False
            self.headless(line, in_params=False)
        self._end_params(line)
        if number is not None:
            block = whole_number(number)
            if block is None:
                return False
            self._open_block(len(indent), block, params, line)
        elif block_outputs is not None:
            self._end_block(len(indent), block_outputs, line)
        else:
            if self._stack:
                self._lost(line, "the end of a block before this line is missing")
            while self._stack:
                self._close_block("")
            assert self.graph is not None
            self.graph._outputs = outputs
            self._close_graph()
        return True

    def _open_block(self, indent: int, number: int, params: str, line: int) -> None:
        if self._base is None:
            self._base = max(indent - BLOCK_STEP // 2, 0)
        self._unwind(indent - BLOCK_STEP // 2, line)
        block = Block(number, params)
        self._stack.append((block, self.nodes))
        if len(self._stack) > DEEPEST:
            self._lost(line, "blocks are nested too deep")
            self._stack[-1] = (None, self.nodes)
        elif self.nodes:
            self.nodes[-1].blocks += (block,)
            self.nodes = []
        else:
            # Its owner is missing: the nodes stay in the enclosing list.
            self._lost(line, "the node that owns this block is missing")
            self._stack[-1] = (None, self.nodes)
        self._expect()

    def _end_block(self, indent: int, outputs: str, line: int) -> None:
        self._unwind(indent, line)
        depth = self._depth(indent)
        if not self._stack or (depth is not None and depth > len(self._stack)):
            self._lost(line, "the beginning of the block that ends here is missing")
            return
        self._close_block(outputs)
        self._expect()

    def _close_block(self, outputs: str) -> None:
        block, outer = self._stack.pop()
        if block is not None:
            block.nodes = tuple(self.nodes)
            block._outputs = outputs
        self.nodes = outer

    # -- nodes ---------------------------------------------------------------------------------------------

    def find_block(self, raw: RawNode, line: int) -> bool:
        """Set ``nodes`` to the list for a node without the expected indentation;
        return False if it does not belong to this dump, which has ended."""
        # Without the space that is printed if there are no outputs.
        width = max(len(raw[0] or "") - (0 if raw[1] else 1), 0)
        if self.graph is None:
            if self._first is not None:
                return False
            self.headless(line, in_params=False)
        self._end_params(line)
        if self._base is None:
            self._base = max(width - BLOCK_STEP * len(self._stack), 0)
        elif not raw[1] and len(raw[0] or "") - 1 == len(self.indent or ""):
            return True
        self._unwind(width, line)
        depth = self._depth(width)
        if depth is not None and depth > len(self._stack):
            self._lost(line, "the beginning of the block of this node is missing")
        self._expect()
        return True

    def mangled(self, line: int) -> None:
        """Record a node line that is truncated or otherwise unreadable."""
        if self.graph is None and self._first is None:
            self.headless(line, in_params=False)
        self._lost(line, "a node is cut off or mangled")

    def _end_params(self, line: int) -> None:
        if self._in_params:
            self._in_params = False
            self._lost(line, "the end of the parameters is missing")

    # -- indentation ---------------------------------------------------------------------------------------

    def _depth(self, indent: int) -> int | None:
        """Return the depth in blocks of a node with that indentation; None if the
        indentation does not show it."""
        if (
            self._flat
            or self._base is None
            or (indent - self._base) % BLOCK_STEP
            or indent < self._base
        ):
            return None
        return (indent - self._base) // BLOCK_STEP

    def _unwind(self, indent: int, line: int) -> None:
        """Close the blocks whose ends are missing, according to the indentation."""
        if indent <= 0 and self._stack and not self._flat and not self._base:
            # Lines inside a block always have indentation: so the print has lost
            # its leading spaces.
            self._flat = True
        if self._base is not None and 0 <= indent < self._base and not self._stack:
            # The dump began inside a block; a line with less indentation shows the
            # indentation of the graph's own nodes.
            self._base = indent
        depth = self._depth(indent)
        if depth is None or depth >= len(self._stack):
            return
        self._lost(line, "the end of a block before this line is missing")
        while len(self._stack) > depth:
            self._close_block("")

    def _expect(self) -> None:
        if self._flat or self._base is None:
            self.indent = None
        else:
            self.indent = " " * (self._base + BLOCK_STEP * len(self._stack))

    def _lost(self, line: int, what: str) -> None:
        self._sound = False
        self.problems.add(line, what)

    # -- the end -------------------------------------------------------------------------------------------

    def finish(self, lines: int) -> IrDump:
        """Finish after all lines and return the dump."""
        if self._first is None:
            self.headless(0, in_params=False)
        if self.graph is not None:
            self._lost(lines, "the dump ends inside a graph")
            self._close_graph()
        assert self._first is not None
        sections = self.sections.finish()
        complete = self._first.complete and self.sections.complete
        return IrDump(
            self._first,
            sections,
            complete,
            tuple(self.problems.texts()),
            tuple(self.problems.foreign),
        )
