"""Applies events to the facts of one stream: one method for each event. Otherwise
only the end of the stream and graphs without a header change the facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusiondoc.parsers.events import (
    CacheBegins,
    CacheLines,
    CudaLines,
    DumpBegan,
    Event,
    FellBack,
    FuserGone,
    Headers,
    KernelSource,
    Launched,
    LibraryLine,
    Logged,
    LoopNestLines,
    NncLines,
    NncLinesAgain,
    NodeStatements,
    Output,
    OutputLines,
    PassBegan,
    Performed,
    PrintedGraph,
    Ran,
    RefusedAgain,
    TextDump,
    WorkOver,
)
from fusiondoc.parsers.facts import (
    Facts,
    FallbackSeen,
    LineCounts,
    PassMark,
    positions,
)
from fusiondoc.parsers.jit.graph_facts import GraphFacts
from fusiondoc.parsers.jit.regions import LiveLayers
from fusiondoc.parsers.kernels.kernel_dumps import KernelDumps
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.kernels.nnc_kernels import NncKernels
from fusiondoc.parsers.kernels.partitions import Partitions
from fusiondoc.parsers.lines.failures import Failures


class Gathering:
    """The facts of one stream while its lines are read.

    Args: settle: emits the event of a message that is read but may continue; called
    before a failure is recorded. layers: modules of operators, for each model of
    the run.
    """

    def __init__(
        self,
        facts: Facts,
        counts: LineCounts,
        settle: Callable[[], None],
        layers: Sequence[LiveLayers] = (),
    ) -> None:
        self.facts = facts
        self.counts = counts
        self.kernels = KernelTracker(facts)
        self.last_headers: dict[bytes, bytes] = {}
        """Prefix -> its last header: a statement of torch's source prints one kind
        of graph."""
        self.failures = Failures(facts, settle)
        self._dumps = KernelDumps(self.kernels)
        self._nnc = NncKernels(facts)
        self._partitions = Partitions(facts)
        self.graphs = GraphFacts(facts, self.kernels, self._nnc, layers)

    def take(self, pos: int, event: Event) -> None:
        """Apply an event at a position."""
        _DO[type(event)](self, pos, event)

    def close(self) -> None:
        """Finish at the end of the stream."""
        self._partitions.close()
        self.failures.close()
        self.kernels.close()

    # -- output of the program ------------------------------------------------------------------------------

    def _output_lines(self, pos: int, event: OutputLines) -> None:
        self.counts.user_output += event.lines
        self.facts.work.over = pos

    def _output(self, pos: int, event: Output) -> None:
        line = event.line
        theirs = self.facts.other_tools.takes(line, pos)
        if theirs:
            self.counts.recognised += 1
        elif theirs is not None:
            self.counts.unknown(pos, line)
        else:
            self.counts.user_output += 1
            if not self.failures.take(line, pos):
                self.facts.work.over = pos

    def _pass_began(self, pos: int, event: PassBegan) -> None:
        self.facts.iterations.append(PassMark(*event, pos))
        self.facts.work.over = pos

    def _fuser_gone(self, pos: int, event: FuserGone) -> None:
        if self.facts.fuser_gone is None:
            self.facts.fuser_gone = pos

    def _fell_back(self, pos: int, event: FellBack) -> None:
        facts, stage = self.facts, event.stage
        work = facts.work.last
        facts.work.fell_back(pos)
        last = facts.fallbacks[-1] if facts.fallbacks else None
        if (
            last is not None
            and stage == last.stage == "compile"
            and last.graph
            and not last.warned
        ):
            # manager.cpp dumped the graph of this failure just before.
            last.warned = True
            last.lines.append(pos)
            return
        owner = None
        if work is not None and stage in (None, work.stage):
            owner = work.cache
        lines = positions()
        lines.append(pos)
        facts.fallbacks.append(
            FallbackSeen(stage, event.exact, lines, owner, warned=True)
        )

    # -- kernels --------------------------------------------------------------------------------------------

    def _kernel_source(self, pos: int, event: KernelSource) -> None:
        self.kernels.compiled(event.kernel, event.code, pos, event.digest)
        self.facts.work.compiles(event.kernel.decode("ascii", "replace"), pos)
        if self.facts.iterations:
            self.facts.compiling.add(len(self.facts.iterations) - 1)

    def _ran(self, pos: int, event: Ran) -> None:
        self.kernels.ran(event.figures, pos)
        self.facts.work.ran(pos)

    def _performed(self, pos: int, event: Performed) -> None:
        self.kernels.performed(event.figures, pos)
        self.facts.work.ran(pos)

    def _launched(self, pos: int, event: Launched) -> None:
        self.kernels.launched(event.figures, pos)
        self.facts.work.launched = pos

    def _dump_began(self, pos: int, event: DumpBegan) -> None:
        self.facts.other_tools.begins(event.line, pos, not self.facts.levels)

    def _text_dump(self, pos: int, event: TextDump) -> None:
        self._dumps.take(pos, event.kind, event.lines)

    def _library_line(self, pos: int, event: LibraryLine) -> None:
        self._partitions.take(pos, event.line)

    def _loop_nest_lines(self, pos: int, event: LoopNestLines) -> None:
        self._nnc.nest_lines(pos, event.texts)

    def _cuda_lines(self, pos: int, event: CudaLines) -> None:
        self._nnc.cuda_lines(pos, event.texts)

    # -- messages of the JIT log ----------------------------------------------------------------------------

    def _logged(self, pos: int, event: Logged) -> None:
        self.facts.levels.add(event.file)

    def _work_over(self, pos: int, event: WorkOver) -> None:
        self.facts.work.over = pos

    def _headers(self, pos: int, event: Headers) -> None:
        self.last_headers.update(event.last)
        for header, count in event.counted.items():
            self.facts.headers[header] = self.facts.headers.get(header, 0) + count

    def _printed_graph(self, pos: int, event: PrintedGraph) -> None:
        self.graphs.printed(pos, event)

    def _cache_begins(self, pos: int, event: CacheBegins) -> None:
        self.graphs.cache_may_begin(pos)

    def _cache_lines(self, pos: int, event: CacheLines) -> None:
        self.graphs.cache_lines(pos, event.texts)

    def _refused(self, pos: int, event: NodeStatements) -> None:
        self.graphs.refused(pos, event.block)

    def _refused_again(self, pos: int, event: RefusedAgain) -> None:
        self.graphs.refused_again(pos, event.block)

    def _nnc_lines(self, pos: int, event: NncLines) -> None:
        self.graphs.nnc_lines(pos, event.texts)

    def _nnc_lines_again(self, pos: int, event: NncLinesAgain) -> None:
        self.graphs.nnc_lines_again(pos, event)


_DO: dict[type[Any], Callable[[Gathering, int, Any], None]] = {
    KernelSource: Gathering._kernel_source,
    Ran: Gathering._ran,
    Performed: Gathering._performed,
    Launched: Gathering._launched,
    DumpBegan: Gathering._dump_began,
    TextDump: Gathering._text_dump,
    LibraryLine: Gathering._library_line,
    PassBegan: Gathering._pass_began,
    FuserGone: Gathering._fuser_gone,
    FellBack: Gathering._fell_back,
    Output: Gathering._output,
    OutputLines: Gathering._output_lines,
    Logged: Gathering._logged,
    WorkOver: Gathering._work_over,
    Headers: Gathering._headers,
    PrintedGraph: Gathering._printed_graph,
    CacheBegins: Gathering._cache_begins,
    CacheLines: Gathering._cache_lines,
    NodeStatements: Gathering._refused,
    RefusedAgain: Gathering._refused_again,
    NncLines: Gathering._nnc_lines,
    NncLinesAgain: Gathering._nnc_lines_again,
    LoopNestLines: Gathering._loop_nest_lines,
    CudaLines: Gathering._cuda_lines,
}
"""Plain functions, not bound methods: an object that refers to itself is freed only
by the garbage collector."""
