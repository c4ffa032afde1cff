"""Which ``with`` section belongs to which node.

``Graph::print`` (torch/csrc/jit/ir/ir.cpp) numbers the nodes of a graph that hold a subgraph from 0 and
prints the subgraphs after the graph, each followed by its own. So names repeat, and a section belongs to the
most recent graph that names it and whose section of that name was not printed yet.
"""

from __future__ import annotations

from fusiondoc.parsers.ir.graph import Graph, Node, Section

SUBGRAPH_KINDS = frozenset(["tensorexpr::Group"]) | frozenset(
    f"prim::{name}"
    for name in (
        "CudaFusionGroup",
        "TensorExprGroup",
        "oneDNNFusionGroup",
        "FusionGroup",
        "DifferentiableGraph",
        "FallbackGraph",
        "BailoutTemplate",
        "FunctionalGraph",
        "StaticSubgraph",
        "MKLDNNGroup",
        "TensorExprDynamicGroup",
        "Closure",
        "fork",
        "awaitable",
    )
)
"""Kinds that always print their subgraph as a section: with the section lost, the number is still no part of
the kind. Other kinds (backends define their own) are told by the section that names them."""


class Sections:
    """The sections of one dump, in print order."""

    def __init__(self, problems: Problems) -> None:
        self.complete = True
        self._problems = problems
        self._sections: list[Section] = []
        # The graphs whose sections may still come, the outermost first: their numbered nodes by name.
        self._open: list[tuple[Graph, dict[str, Node]]] = []

    def add(self, graph: Graph, name: str | None, line: int) -> None:
        """A graph begins: that of the section ``name``, or the main one."""
        if name is not None:
            section = Section(name, graph)
            self._sections.append(section)
            self._adopt(section, line)
        self._open.append((graph, {}))

    def candidate(self, node: Node) -> None:
        """A node of the current graph whose printed kind ends in a digit."""
        kind, _, number = node.kind.rpartition("_")
        if kind and number.isdecimal() and self._open:
            self._open[-1][1].setdefault(node.kind, node)

    def _adopt(self, section: Section, line: int) -> None:
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
        """No section will come any more for what is left of this graph's numbered nodes."""
        for name, node in opened[1].items():
            kind = name.rpartition("_")[0]
            if kind in SUBGRAPH_KINDS:
                node.kind, node.ref = kind, name
                self.complete = False
                self._problems.add(node.line, f"the section {name} is missing")

    def finish(self) -> tuple[Section, ...]:
        """The dump is over."""
        for opened in self._open:
            self._missing(opened)
        self._open = []
        if not all(section.graph.complete for section in self._sections):
            self.complete = False
        return tuple(self._sections)


KEPT = 20
"""How many problems of one dump are worded; the rest is counted."""
QUOTED = 80
"""How many characters of a line are quoted."""


class Problems:
    """Problems in the order they were met, and the numbers of the lines that are no IR."""

    def __init__(self) -> None:
        self.foreign: list[int] = []
        self._texts: list[str] = []
        self._count = 0

    def add(self, line: int, what: str) -> None:
        """``line`` counts from 0 within the dump."""
        self._count += 1
        if len(self._texts) < KEPT:
            self._texts.append(f"line {line} of the dump: {what}")

    def set_aside(self, line: int, text: str) -> None:
        """A line that is no part of the dump."""
        self.foreign.append(line)
        quoted = text.strip()
        if len(quoted) > QUOTED:
            quoted = quoted[:QUOTED] + "..."
        self.add(line, f"set aside, not IR: {quoted!r}")

    def texts(self) -> list[str]:
        """What to report."""
        more = self._count - len(self._texts)
        return [*self._texts, f"and {more} more"] if more else list(self._texts)
