"""What the lines of a log do to the facts: plans, groups and their caches, what fusers refuse, kernels,
fallbacks, marks, output.

Graphs that matter (plans, group graphs) are parsed when first seen; equal prints, also equal but for value
names, are looked up. Each of these acts is of one position of the log; they may be done again where the same
lines stand again (``repeats.py``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusiondoc.fusers import nnc_log, nvfuser_log, plan_headers
from fusiondoc.fusers.nnc_log import REMARKS
from fusiondoc.model.reasons import Stated
from fusiondoc.parsers.events import (
    DumpBegan,
    Event,
    FellBack,
    FuserGone,
    KernelSource,
    Launched,
    Output,
    OutputLines,
    PassBegan,
    Performed,
    Ran,
)
from fusiondoc.parsers.facts import (
    CacheInstance,
    Facts,
    FallbackSeen,
    LineCounts,
    PassMark,
    PlanLevel,
    PlanUse,
    Work,
    positions,
)
from fusiondoc.parsers.jit.bare_graphs import KnownPlans
from fusiondoc.parsers.jit.message_runs import Print
from fusiondoc.parsers.jit.nnc_failed_conditions import (
    CONSIDERING,
    FAILED,
    INTO,
    MERGING,
    FailedConditions,
    NncState,
)
from fusiondoc.parsers.jit.regions import LiveLayers, Regions, profiled_gradient
from fusiondoc.parsers.jit.statements import (
    Block,
    BlockAgain,
    NodeText,
    OfPass,
    Said,
    merge,
    state,
    state_all,
)
from fusiondoc.parsers.kernels.dump_kinds import digest_of
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.kernels.nnc_and_onednn import NncKernels
from fusiondoc.parsers.lines.last_words import LastWords
from fusiondoc.parsers.repeats import Step

POINTER_MADE = b"GraphCache constructor: "
POINTER_RUNS = b"running GraphCache: "
CACHE_MADE = b"GraphCache created for graph"
FELL_BACK = b"`compile_fusion` hits fallback on graph"
_TOO_SMALL = b"Fusion group is too small, unmerging: "
SINGLE = (FAILED, CONSIDERING, MERGING, INTO, _TOO_SMALL, *REMARKS)
"""How the messages of one line begin that NNC's pass prints."""

_LOOKS = (CONSIDERING, MERGING)

LOOKS_AT = "Considering node:"
"""Counted among the headers: NNC states what it refuses."""

_MOST_GRADIENTS = 1_000

PASS_STARTS = (nvfuser_log.PASS_START.encode(), nnc_log.PASS_START.encode())


class MessageActs:
    """What messages of the JIT log do to the facts of one stream."""

    def __init__(self, facts: Facts, kernels: KernelTracker, layers: Sequence[LiveLayers] = ()) -> None:
        self._facts = facts
        self._kernels = kernels
        self._regions = Regions(layers)
        self._known = KnownPlans(facts, self._regions)
        self._conditions = FailedConditions()
        self._conditions_again = FailedConditions()
        """Of lines that are read once for all."""
        self.nnc = NncKernels(facts)
        self._pointer = b""
        self._caches: dict[bytes, CacheInstance] = {}
        self._begun: CacheInstance | None = None
        """Its constructor has begun, and its graph is not read yet."""
        self._created: Print | None = None
        self._nnc_left: tuple[PlanUse, int, Print] | None = None
        """The last plan that NNC left, and where it is printed."""
        self._goes_on: tuple[PlanUse, int] | None = None
        """The plan of NNC that nvFuser goes on with."""
        self._pending = OfPass()
        self._gradients: dict[bytes, tuple[str, ...] | None] = {}
        """What ``profiled_gradient`` finds in graphs, by their digests."""
        self.of_header: dict[bytes, Callable[[int, int, Print], None]] = {
            nvfuser_log.PLAN_HEADER.encode(): lambda _, at, g: self._left_by_nvfuser(at, g),
            nnc_log.PLAN_HEADER.encode(): lambda _, at, g: self._left_by_nnc(at, g),
            b"Optimized Graph:": lambda _, at, g: self._executed(at, g),
            b"Optimized SimpleExecutor Graph:": lambda _, at, g: self._executed(at, g, True),
            b"After compileSpec optimizations:": lambda _, at, g: self._executed(at, g),
            b"After creating fusion groups:": self._groups_made,
            CACHE_MADE: self._cache_made,
            FELL_BACK: self._compile_fell_back,
            b"Profiled Graph:": self._profiled,
            b"TensorExprKernel graph (Before graph optimization):": self._nnc_compiles,
        }
        for header in plan_headers():
            self.of_header.setdefault(header.encode(), self._left_by_pass)
        begin_work = (self._cache_made, self._compile_fell_back, self._nnc_compiles)
        self._no_work = {
            *(self.rejected, self.nnc_lines, self.logged, self.nvfuser_starts, self.nnc_starts),
            *(act for act in self.of_header.values() if act not in begin_work),
        }
        """Acts that neither begin work of a fuser nor ask whether it is over."""

    def rejected(self, pos: int, found: Block) -> None:
        state_all(self._pending.statements, pos, found)

    def _rejected_again(self, pos: int, found: BlockAgain) -> None:
        self._pending.add(pos, found)

    def _nnc_lines_again(self, pos: int, found: BlockAgain, looked_at: int, behind: NncState) -> None:
        self._pending.add(pos, found)
        self._looked_at(looked_at)
        self._conditions.goes_on(behind)

    def condensed(self, steps: list[Step]) -> list[Step]:
        """Fewer steps that do the same as those of a stretch which is done again: that work is over is noted
        once, and what nodes are refused for is read from the lines of NNC here and not each time."""
        made: list[Step] = []
        over = False
        lines: list[tuple[int, bytes]] = []
        """Of NNC, one after the other."""
        for step in steps:
            act, line, arguments, _ = step
            if act == self.work_over:
                if over:
                    continue
                over = True
            elif act not in self._no_work:
                over = False
            if act == self.nnc_lines:
                lines += [(line + i, text) for i, text in enumerate(arguments[0]) if text.startswith(SINGLE)]
                continue
            if act == self.work_over and lines:
                # Which of them comes first does not matter.
                made.append(step)
                continue
            made += self._nnc_steps(lines)
            lines = []
            if act == self.rejected:
                step = (self._rejected_again, line, (BlockAgain(arguments[0]),), None)
            made.append(step)
        return [*made, *self._nnc_steps(lines)]

    def _nnc_steps(self, lines: list[tuple[int, bytes]]) -> list[Step]:
        """What is done for lines of NNC that stand again."""

        def one_by_one(lines: list[tuple[int, bytes]]) -> list[Step]:
            return [(self.nnc_lines, line, ([text],), None) for line, text in lines]

        made: list[Step] = []
        rest = lines
        while rest:
            end = next((i for i, (_, text) in enumerate(rest) if text.startswith(_TOO_SMALL)), len(rest))
            first = next((i for i, (_, text) in enumerate(rest[:end]) if text.startswith(_LOOKS)), end)
            block = self._conditions_again.known_again(rest[first:end])
            if block is None:
                first = end
            made += one_by_one(rest[:first])
            if block is not None and first < end:
                looked_at = sum(text.startswith(CONSIDERING) for _, text in rest[first:end])
                behind = self._conditions_again.state
                made.append((self._nnc_lines_again, 0, (BlockAgain(block), looked_at, behind), None))
            made += one_by_one(rest[end : end + 1])
            rest = rest[end + 1 :]
        return made

    def logged(self, pos: int, file: str) -> None:
        """A file of torch printed something."""
        self._facts.levels.add(file)

    def work_over(self, pos: int) -> None:
        self._facts.work.over = pos

    def cache_may_begin(self, pos: int) -> None:
        if self._begun is None:
            self._cache_begins(pos)

    def nnc_lines(self, pos: int, payloads: list[bytes]) -> None:
        said: list[tuple[int, Said]] = []
        looked_at = 0
        for i, payload in enumerate(payloads):
            if payload.startswith(_TOO_SMALL):
                state_all(self._pending.statements, pos, said)
                said.clear()
                self._too_small(payload[len(_TOO_SMALL) :], pos + i)
                continue
            looked_at += payload.startswith(CONSIDERING)
            for one in self._conditions.take(payload):
                said.append((i, one))
        self._looked_at(looked_at)
        state_all(self._pending.statements, pos, said)

    def pointer_lines(self, pos: int, payloads: list[bytes]) -> None:
        for i, payload in enumerate(payloads):
            self._pointer_line(payload, pos + i)

    def _looked_at(self, nodes: int) -> None:
        if nodes:
            self._facts.headers[LOOKS_AT] = self._facts.headers.get(LOOKS_AT, 0) + nodes

    def _pointer_line(self, payload: bytes, pos: int) -> None:
        facts = self._facts
        if payload.startswith(POINTER_MADE):
            self._pointer = payload[len(POINTER_MADE) :]
            self._cache_begins(pos)
            return
        pointer = payload[len(POINTER_RUNS) :]
        cache = self._caches.get(pointer)
        if cache is None:
            cache = self._caches[pointer] = CacheInstance(pointer, None, pos)
            facts.caches.append(cache)
        cache.runs += 1
        facts.work.last = Work("run", cache, pos)
        self._kernels.runs(cache)

    # -- graphs ---------------------------------------------------------------------------------------------

    def nvfuser_starts(self, pos: int, at: int, graph: Print) -> None:
        self._pass_starts(PASS_STARTS[0], graph)

    def nnc_starts(self, pos: int, at: int, graph: Print) -> None:
        self._pass_starts(PASS_STARTS[1], graph)

    def _pass_starts(self, header: bytes, graph: Print) -> None:
        """What was stated before belongs to a pass whose plan was not printed."""
        self._known.began_with = graph
        nnc, self._nnc_left, self._goes_on = self._nnc_left, None, None
        if header == PASS_STARTS[0] and nnc is not None and nnc[2].printed() == graph.printed():
            self._goes_on = nnc[:2]
        self._pass_has_no_plan()

    def _pass_has_no_plan(self) -> None:
        if self._pending:
            merge(self._facts.unplanned, self._pending.statements)
            self._pending = OfPass()

    def _executed(self, at: int, graph: Print, simple: bool = False) -> None:
        self._plan(at, graph, PlanLevel.EXECUTOR, simple)

    def _left_by_pass(self, _: int, at: int, graph: Print) -> None:
        self._plan(at, graph, PlanLevel.FUSION_PASS)

    def _left_by_nnc(self, at: int, graph: Print) -> None:
        use = self._plan(at, graph, PlanLevel.FUSION_PASS)
        self._nnc_left = None if use is None else (use, at, graph)

    def _left_by_nvfuser(self, at: int, graph: Print) -> None:
        """Where both are on, nvFuser's pass comes after NNC's and goes on with the same graph (so in a log of
        torch 2.1.2): then what NNC left is no plan of an executor."""
        if self._goes_on is not None:
            use, before = self._goes_on
            use.lines.remove(before)
            use.stretches.pop(before, None)
            self._goes_on = None
        self._plan(at, graph, PlanLevel.FUSION_PASS)

    def _plan(self, at: int, graph: Print, level: PlanLevel, simple: bool = False) -> PlanUse | None:
        known = self._known.plan(graph, level, simple)
        if known is None:
            return None
        use, same_names = known
        use.lines.append(at)
        if graph.stretches is not None:
            use.stretches[at] = graph.stretches
        if self._pending:
            self._pending.belongs_to(use.stated, at, same_names)
            self._pending = OfPass()
        iterations = len(self._facts.iterations)
        if iterations:
            self._facts.compiling.add(iterations - 1)
            if use.iteration is None:
                use.iteration = iterations - 1
        return use

    def bare(self, graph: Print, at: int, rest: bool) -> bool:
        """A graph without prefix; ``rest``: only sections of one. Whether all of it was understood."""
        known = self._known.plan(graph, PlanLevel.PRINT, False, rest)
        if known is not None:
            known[0].lines.append(at)
            if graph.stretches is not None:
                known[0].stretches[at] = graph.stretches
        return rest or known is None or known[0].plan.complete

    def _cache_begins(self, pos: int) -> None:
        """nvFuser makes a GraphCache. A process that dies now has not printed the end of its graph."""
        self._begun = CacheInstance(self._pointer, None, pos, begun=True)
        self._facts.work.last = Work("compile", self._begun, pos)

    def _cache_made(self, pos: int, _: int, graph: Print) -> None:
        cache, self._begun = self._begun or CacheInstance(self._pointer, None, pos, begun=True), None
        cache.created = pos
        group = self._known.group(graph)
        if graph.text and graph.whole:
            cache.graph = group
        else:
            cache.in_part = group
        self._caches[self._pointer] = cache
        self._pointer = b""
        self._facts.caches.append(cache)
        self._facts.work.last = Work("compile", cache, pos)

    def _nnc_compiles(self, pos: int, _: int, graph: Print) -> None:
        group = self._known.group(graph)
        self.nnc.begins(pos, group)
        self._facts.work.last = Work("compile", None, pos, group)

    def _compile_fell_back(self, pos: int, _: int, graph: Print) -> None:
        lines = positions()
        lines.append(pos)
        cache = self._facts.caches[-1] if self._facts.caches else None
        self._facts.work.fell_back(pos)
        self._facts.fallbacks.append(FallbackSeen("compile", True, lines, cache, self._known.group(graph)))

    def _profiled(self, pos: int, _: int, graph: Print) -> None:
        digest = graph.known_digest  # to make it costs more than to read the first lines
        kinds = self._gradients.get(digest, ()) if digest is not None else ()
        if kinds == ():
            kinds = profiled_gradient(graph)
            if digest is not None:
                if len(self._gradients) >= _MOST_GRADIENTS:
                    self._gradients.clear()
                self._gradients[digest] = kinds
        if kinds is not None:
            self._facts.gradients_profiled.setdefault(kinds, positions()).append(pos)
        if self._facts.iterations:
            self._facts.profiled.add(len(self._facts.iterations) - 1)

    def _groups_made(self, pos: int, _: int, graph: Print) -> None:
        self._created = graph

    def _too_small(self, node: bytes, pos: int) -> None:
        """NNC undoes a group of fewer than two nodes; its node is found by the value it makes."""
        if self._created is None:
            return
        known = self._known.plan(self._created, PlanLevel.UNFINISHED, False)
        value = node.split(b" ", 1)[0].lstrip(b"%").rstrip(b",").decode("utf-8", "replace")
        for group in known[0].plan.groups if known is not None else ():
            if value in group.values:
                for kind, source in group.body:
                    node_text = NodeText(kind, source, value, True)
                    state(self._pending.statements, node_text, "FD220", Stated("undone"), pos)

    def close(self) -> None:
        """The log ends: what was stated last belongs to no plan."""
        self._pass_has_no_plan()
        self._no_work.clear()
        self.of_header.clear()  # they refer to this object: it goes at once, and all that was gathered


class LineEvents:
    """What lines without the prefix of the JIT log say goes into the facts of one stream."""

    def __init__(
        self, facts: Facts, counts: LineCounts, kernels: KernelTracker, last_words: LastWords
    ) -> None:
        self._facts = facts
        self._counts = counts
        self._kernels = kernels
        self._last_words = last_words

    def take(self, pos: int, event: Event) -> None:
        """An event at a line."""
        facts, work = self._facts, self._facts.work
        match event:
            case OutputLines(lines):
                self._counts.user_output += lines
                work.over = pos
            case Output(line):
                self._output(pos, line)
            case KernelSource():
                self._compiled(pos, event)
            case Ran(figures):
                self._kernels.ran(figures, pos)
                work.ran(pos)
            case Performed(figures):
                self._kernels.performed(figures, pos)
                work.ran(pos)
            case Launched(figures):
                self._kernels.launched(figures, pos)
                work.launched = pos
            case DumpBegan(line):
                facts.other_tools.begins(line, pos, not facts.levels)
            case PassBegan():
                facts.iterations.append(PassMark(*event, pos))
                work.over = pos
            case FuserGone():
                if facts.fuser_gone is None:
                    facts.fuser_gone = pos
            case FellBack():
                self._fell_back(pos, event)

    def _compiled(self, pos: int, source: KernelSource) -> None:
        self._kernels.compiled(source.kernel, source.code, pos, source.digest)
        self._facts.work.compiles(source.kernel.decode("ascii", "replace"), pos)
        if self._facts.iterations:
            self._facts.compiling.add(len(self._facts.iterations) - 1)

    def _output(self, pos: int, line: bytes) -> None:
        theirs = self._facts.other_tools.takes(line, pos)
        if theirs:
            self._counts.recognised += 1
        elif theirs is not None:
            self._counts.unknown(pos, line)
        else:
            self._counts.user_output += 1
            if not self._last_words.take(line, pos):
                self._facts.work.over = pos

    def _fell_back(self, pos: int, event: FellBack) -> None:
        facts, stage = self._facts, event.stage
        work = facts.work.last
        facts.work.fell_back(pos)
        last = facts.fallbacks[-1] if facts.fallbacks else None
        if last is not None and stage == last.stage == "compile" and last.graph and not last.warned:
            # manager.cpp dumped the graph of this very failure just before.
            last.warned = True
            last.lines.append(pos)
            return
        owner = work.cache if work is not None and stage in (None, work.stage) else None
        lines = positions()
        lines.append(pos)
        facts.fallbacks.append(FallbackSeen(stage, event.exact, lines, owner, warned=True))

    def condensed(self, steps: list[Step]) -> list[Step]:
        """Steps that do the same as those of a stretch which is done again: of a kernel's source only the
        digest is needed, and it is made once."""
        made: list[Step] = []
        for act, line, arguments, piece in steps:
            made.append((act, line, tuple(map(_condensed, arguments)), piece))
        return made


def _condensed(argument: object) -> object:
    if not isinstance(argument, KernelSource):
        return argument
    return argument._replace(code=b"", digest=argument.digest or digest_of(argument.code))
