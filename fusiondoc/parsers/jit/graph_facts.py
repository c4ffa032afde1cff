"""Records messages of the JIT log in the facts of one stream: plans, groups and
their caches, and nodes that fusers refuse.

Graphs that matter (plans, group graphs) are parsed on first sight; later prints
that are equal, or differ only in value names, are looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fusiondoc.fusers import facts_of
from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.events import NncLinesAgain, PrintedGraph
from fusiondoc.parsers.facts import (
    Facts,
    FallbackSeen,
    PlanLevel,
    PlanUse,
    positions,
)
from fusiondoc.parsers.fuser_work import CacheInstance, FuserWork
from fusiondoc.parsers.jit.bare_graphs import KnownPlans
from fusiondoc.parsers.jit.message_headers import (
    POINTER_MADE,
    POINTER_RUNS,
    GraphKind,
)
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.nnc_failed_conditions import (
    CONSIDERING,
    TOO_SMALL,
    FailedConditions,
)
from fusiondoc.parsers.jit.plan_reading import read_cut_group
from fusiondoc.parsers.jit.regions import LiveLayers, Regions, profiled_gradient
from fusiondoc.parsers.jit.statements import (
    Block,
    BlockAgain,
    NodeStatement,
    NodeText,
    OfPass,
    merge,
    state,
    state_all,
)
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.kernels.nnc_kernels import NncKernels

LOOKS_AT = "Considering node:"
"""Counted with the headers: it shows that a pass states which nodes it refuses."""

_LEFT_SELDOM = 4
"""Number of prints of a plan up to which its statements are packed after each: most
plans are left once to three times, and few are left again and again."""
_MOST_GRADIENTS = 1_000


class _PlanLeft(NamedTuple):
    """A plan that a fuser's pass left."""

    fuser: str | None
    use: PlanUse
    line: int
    """Position of its print."""
    graph: Print


class GraphFacts:
    """Reads the JIT log of one stream, in order."""

    def __init__(
        self,
        facts: Facts,
        kernels: KernelTracker,
        group_kernels: NncKernels,
        layers: Sequence[LiveLayers] = (),
    ) -> None:
        self._facts = facts
        self._kernels = kernels
        self._group_kernels = group_kernels
        self._regions = Regions(layers)
        self._known = KnownPlans(facts, self._regions)
        self._conditions = FailedConditions()
        self._pointer = b""
        self._caches: dict[bytes, CacheInstance] = {}
        self._begun: CacheInstance | None = None
        """A cache whose constructor has begun and whose graph is not read yet."""
        self._created: Print | None = None
        self._left: _PlanLeft | None = None
        """The last plan that a pass left."""
        self._goes_on: _PlanLeft | None = None
        """The plan of another fuser from which the current pass continues."""
        self._pending = OfPass()
        self._gradients: dict[bytes, tuple[str, ...] | None] = {}
        """Results of ``profiled_gradient``, by the digest of the graph."""

    # -- statements of passes -------------------------------------------------------

    def refused(self, pos: int, block: Block) -> None:
        """Record that a pass refuses nodes, in lines from ``pos`` on."""
        state_all(self._pending.statements, pos, block)

    def refused_again(self, pos: int, block: BlockAgain) -> None:
        """The same for lines that are a repetition in the log."""
        self._pending.add(pos, block)

    def nnc_lines_again(self, pos: int, again: NncLinesAgain) -> None:
        """Record repeated lines about conditions."""
        self._pending.add(pos, again.block)
        self._looked_at(again.looked_at)
        self._conditions.goes_on(again.behind)

    def nnc_lines(self, pos: int, texts: Sequence[bytes]) -> None:
        """Read lines about the conditions that a pass states, and about groups that
        it undoes."""
        block: list[tuple[int, NodeStatement]] = []
        looked_at = 0
        for i, text in enumerate(texts):
            if text.startswith(TOO_SMALL):
                state_all(self._pending.statements, pos, block)
                block.clear()
                self._too_small(text[len(TOO_SMALL) :], pos + i)
                continue
            looked_at += text.startswith(CONSIDERING)
            for one in self._conditions.take(text):
                block.append((i, one))
        self._looked_at(looked_at)
        state_all(self._pending.statements, pos, block)

    def _looked_at(self, nodes: int) -> None:
        if nodes:
            self._facts.headers[LOOKS_AT] = (
                self._facts.headers.get(LOOKS_AT, 0) + nodes
            )

    def _too_small(self, node: bytes, pos: int) -> None:
        """Record that a group of fewer than two nodes is undone. Its node is found
        by its output."""
        if self._created is None:
            return
        known = self._known.plan(self._created, PlanLevel.UNFINISHED, False)
        value = (
            node.split(b" ", 1)[0]
            .lstrip(b"%")
            .rstrip(b",")
            .decode("utf-8", "replace")
        )
        for group in known[0].plan().groups if known is not None else ():
            if value in group.values:
                for kind, source in group.body:
                    node_text = NodeText(kind, source, value, True)
                    state(
                        self._pending.statements,
                        node_text,
                        "FD220",
                        Stated("undone"),
                        pos,
                    )

    # -- GraphCaches ----------------------------------------------------------------------------------------

    def cache_may_begin(self, pos: int) -> None:
        """The message of a GraphCache has begun; its graph may follow."""
        if self._begun is None:
            self._cache_begins(pos)

    def cache_lines(self, pos: int, texts: Sequence[bytes]) -> None:
        """Read messages that a GraphCache is made or run."""
        for i, text in enumerate(texts):
            self._cache_line(text, pos + i)

    def _cache_line(self, text: bytes, pos: int) -> None:
        facts = self._facts
        if text.startswith(POINTER_MADE):
            self._pointer = text[len(POINTER_MADE) :]
            self._cache_begins(pos)
            return
        pointer = text[len(POINTER_RUNS) :]
        cache = self._caches.get(pointer)
        if cache is None:
            cache = self._caches[pointer] = CacheInstance(pointer, None, pos)
            facts.caches.append(cache)
        cache.runs += 1
        facts.work.last = FuserWork("run", cache, pos)
        self._kernels.runs(cache)

    def _cache_begins(self, pos: int) -> None:
        """Record that a fuser makes a GraphCache. If the process dies now, the log
        lacks the end of its graph."""
        self._begun = CacheInstance(self._pointer, None, pos, begun=True)
        self._facts.work.last = FuserWork("compile", self._begun, pos)

    # -- graphs ---------------------------------------------------------------------------------------------

    def printed(self, pos: int, event: PrintedGraph) -> None:
        """Record a message from ``pos`` on that prints a graph."""
        at = pos + event.below
        kind, graph = event.kind, event.graph
        if kind in _PLANS:
            level, simple = _PLANS[kind]
            self._plan(at, graph, level, simple)
        elif kind is GraphKind.GROUPS_MADE:
            self._created = graph
        else:
            _DO[kind](self, pos, at, event)

    def _pass_begins(self, pos: int, at: int, event: PrintedGraph) -> None:
        """Begin a pass. Earlier pending statements belong to a pass whose plan was
        not printed."""
        graph, left = event.graph, self._left
        self._known.began_with = graph
        self._left, self._goes_on = None, None
        self._pass_has_no_plan()
        follows = facts_of(event.fuser).log.follows
        if (
            left is not None
            and left.fuser == follows
            and left.graph.printed() == graph.printed()
        ):
            self._goes_on = left

    def _pass_has_no_plan(self) -> None:
        if self._pending:
            merge(self._facts.unplanned, self._pending.statements)
            self._pending = OfPass()

    def _pass_leaves(self, pos: int, at: int, event: PrintedGraph) -> None:
        """Record the plan of an executor, unless the pass of another fuser
        continues from it."""
        before = self._goes_on
        if before is not None and facts_of(event.fuser).log.follows is not None:
            before.use.lines.remove(before.line)
            before.use.stretches.pop(before.line, None)
            self._goes_on = None
        use = self._plan(at, event.graph, PlanLevel.FUSION_PASS)
        if use is None:
            self._left = None
        else:
            self._left = _PlanLeft(event.fuser, use, at, event.graph)

    def _plan(
        self, at: int, graph: Print, level: PlanLevel, simple: bool = False
    ) -> PlanUse | None:
        known = self._known.plan(graph, level, simple)
        if known is None:
            return None
        use, same_names = known
        use.lines.append(at)
        if graph.stretches is not None:
            use.stretches[at] = graph.stretches
        if self._pending:
            self._pending.belongs_to(use.stated.opened(), at, same_names)
            if len(use.lines) <= _LEFT_SELDOM:
                use.stated.pack()
            self._pending = OfPass()
        iterations = len(self._facts.iterations)
        if iterations:
            self._facts.compiling.add(iterations - 1)
            if use.iteration is None:
                use.iteration = iterations - 1
        return use

    def bare(self, graph: Print, at: int, rest: bool) -> bool:
        """Record a graph without prefix; ``rest``: it is only sections of a graph.
        Return True if all of it was understood."""
        known = self._known.plan(graph, PlanLevel.PRINT, False, rest)
        if known is not None:
            known[0].lines.append(at)
            if graph.stretches is not None:
                known[0].stretches[at] = graph.stretches
        return rest or known is None or known[0].traits.complete

    def _cache_made(self, pos: int, at: int, event: PrintedGraph) -> None:
        cache, self._begun = (
            self._begun or CacheInstance(self._pointer, None, pos, begun=True),
            None,
        )
        cache.created = pos
        if event.graph.text and event.graph.whole:
            cache.graph = self._known.group(event.graph)
        elif event.graph.text:
            cache.in_part = read_cut_group(event.graph)
        self._caches[self._pointer] = cache
        self._pointer = b""
        self._facts.caches.append(cache)
        self._facts.work.last = FuserWork("compile", cache, pos)

    def _compiles(self, pos: int, at: int, event: PrintedGraph) -> None:
        group = self._known.group(event.graph)
        self._group_kernels.begins(pos, group)
        self._facts.work.last = FuserWork("compile", None, pos, group)

    def _falls_back(self, pos: int, at: int, event: PrintedGraph) -> None:
        lines = positions()
        lines.append(pos)
        cache = self._facts.caches[-1] if self._facts.caches else None
        self._facts.work.fell_back(pos)
        self._facts.fallbacks.append(
            FallbackSeen(
                "compile", True, lines, cache, self._known.group(event.graph)
            )
        )

    def _profiled(self, pos: int, at: int, event: PrintedGraph) -> None:
        graph = event.graph
        # Computing the digest costs more than reading the first lines.
        digest = graph.known_digest
        kinds = self._gradients.get(digest, ()) if digest is not None else ()
        if kinds == ():
            kinds = profiled_gradient(graph)
            if digest is not None:
                if len(self._gradients) >= _MOST_GRADIENTS:
                    self._gradients.clear()
                self._gradients[digest] = kinds
        if kinds is not None:
            self._facts.gradients_profiled.setdefault(kinds, positions()).append(
                pos
            )
        if self._facts.iterations:
            self._facts.profiled.add(len(self._facts.iterations) - 1)

    def close(self) -> None:
        """Finish at the end of the log: the last statements belong to no plan."""
        self._pass_has_no_plan()


_PLANS = {
    GraphKind.EXECUTED: (PlanLevel.EXECUTOR, False),
    GraphKind.EXECUTED_SIMPLY: (PlanLevel.EXECUTOR, True),
}
"""The level of a plan, and True if its executor gave up specialising."""

_DO: dict[GraphKind, Callable[[GraphFacts, int, int, PrintedGraph], None]] = {
    GraphKind.PASS_BEGINS: GraphFacts._pass_begins,
    GraphKind.PASS_LEAVES: GraphFacts._pass_leaves,
    GraphKind.CACHE: GraphFacts._cache_made,
    GraphKind.FALLS_BACK: GraphFacts._falls_back,
    GraphKind.PROFILED: GraphFacts._profiled,
    GraphKind.COMPILES: GraphFacts._compiles,
}
"""Handlers, called with the positions of the message and of its graph."""
