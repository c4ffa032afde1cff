"""Messages of torch's JIT log: ``[LEVEL file.cpp:line] text``, every line of a message with the same prefix.

A message has no end mark: a run of lines with one prefix is taken as a whole and split where its header text
stands again. Graphs that matter (plans, group graphs) are parsed when first seen; equal prints, also equal
but for value names, are looked up. Grammar: torch/csrc/jit/jit_log.cpp.
"""

from __future__ import annotations

from typing import Callable, Sequence

from fusiondoc.parsers.facts import (
    CacheInstance,
    Facts,
    FallbackSeen,
    LineCounts,
    PlanLevel,
    PlanUse,
    positions,
)
from fusiondoc.parsers.jit.bare_graphs import PLAN_FILES, HeadlessPlans, KnownPlans
from fusiondoc.parsers.jit.message_runs import CONTINUES, PREFIX, Lines, Print, Run
from fusiondoc.parsers.jit.regions import LiveLayers, Regions, profiled_gradient
from fusiondoc.parsers.jit.rejections import (
    CONSIDERING,
    FAILED,
    INTO,
    MERGING,
    REMARKS,
    FailedConditions,
    Rejections,
)
from fusiondoc.parsers.jit.releases import nvfuser_release
from fusiondoc.parsers.jit.statements import NodeText, Statements, merge, state, with_source
from fusiondoc.parsers.kernels.launches import KernelTracker
from fusiondoc.parsers.kernels.nnc_and_onednn import NncKernels
from fusiondoc.parsers.work import Work

_POINTER_MADE = b"GraphCache constructor: "
_POINTER_RUNS = b"running GraphCache: "
_CACHE_MADE = b"GraphCache created for graph"
_TOO_SMALL = b"Fusion group is too small, unmerging: "
_SINGLE = (FAILED, CONSIDERING, MERGING, INTO, _TOO_SMALL, *REMARKS)

_INDENTED = (b"  Added node ", b"  Got #partitions: ")
"""Messages of torch/csrc/jit/codegen/onednn/graph_helper.cpp that begin like the lines of a graph."""

_AFTER_WORK = (*PLAN_FILES, "partition")
"""Files of torch whose messages stand before or after the work on a group, never inside it."""

LOOKS_AT = "Considering node:"
"""Counted among the headers: NNC states what it refuses."""

PASS_STARTS = (b"Before Fusion:", b"Before TExprFuser:")


class JitMessages:
    """Takes runs of JIT log lines in order and notes what they say in ``facts``."""

    def __init__(
        self, facts: Facts, counts: LineCounts, kernels: KernelTracker, layers: Sequence[LiveLayers] = ()
    ) -> None:
        self._facts = facts
        self._counts = counts
        self._kernels = kernels
        self._open: dict[bytes, Run] = {}
        self._held: bytes | None = None
        self._last_single: bytes | None = None
        self._without_start: bytes | None = None
        """The prefix of the last message whose start is not in the log."""
        self._files: dict[bytes, str] = {}
        self._headless = HeadlessPlans()
        self._headers: dict[bytes, bytes] = {}
        """Prefix -> the header that it had last: a statement of torch's source prints one kind of graph."""
        self._regions = Regions(layers)
        self._known = KnownPlans(facts, self._regions)
        self._rejections = Rejections()
        self._conditions = FailedConditions()
        self._nnc = NncKernels(facts)
        self._pointer = b""
        self._caches: dict[bytes, CacheInstance] = {}
        self._begun: CacheInstance | None = None
        """Its constructor has begun, and its graph is not read yet."""
        self._created: Print | None = None
        self._nnc_left: tuple[PlanUse, int, Print] | None = None
        """The last plan that NNC left, and where it is printed."""
        self._goes_on: tuple[PlanUse, int] | None = None
        """The plan of NNC that nvFuser goes on with."""
        self.pending = Statements()
        """What was stated since the last plan: it belongs to the next one."""
        self._handlers: dict[bytes, Callable[[int, int, Print], None]] = {
            b"Before Compilation:": lambda _, at, g: self._left_by_nvfuser(at, g),
            b"After TExprFuser:": lambda _, at, g: self._left_by_nnc(at, g),
            b"Optimized Graph:": lambda _, at, g: self._executed(at, g),
            b"Optimized SimpleExecutor Graph:": lambda _, at, g: self._executed(at, g, True),
            b"After compileSpec optimizations:": lambda _, at, g: self._executed(at, g),
            b"After creating fusion groups:": self._groups_made,
            _CACHE_MADE: self._cache_made,
            b"`compile_fusion` hits fallback on graph": self._compile_fell_back,
            b"Profiled Graph:": self._profiled,
            b"TensorExprKernel graph (Before graph optimization):": self._nnc_compiles,
        }

    # -- runs -----------------------------------------------------------------------------------------------

    def take(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """Lines that start with ``prefix`` (up to its ``]``), consecutive in the log from ``pos`` on."""
        cut = len(prefix) + 1
        first = lines.first[cut:]
        if self._file(prefix) in _AFTER_WORK:
            self._facts.work.over = pos
        if not first.startswith(CONTINUES) and not (not first and prefix in self._open):
            if self._single(prefix, first, lines, cut, pos):
                return
            self.settle()
            if prefix in self._open:
                self._finish(prefix)
            self._open[prefix] = Run(lines, cut, pos)
            if first.startswith(_CACHE_MADE) and self._begun is None:
                self._cache_begins(pos)
        elif prefix in self._open:
            if self._held != prefix:
                self.settle()
            if self._open[prefix].headless:
                self._take_headless(prefix, lines, cut, pos)
                return
            self._open[prefix].extend(lines, pos)
        elif prefix == self._last_single:
            # Blocks of the node that the last line printed, or more of a loop nest.
            own, rest = lines.cut_at(_going_on(lines.split(), cut))
            self._nnc.take(self._file(prefix), own, cut, pos)
            self._counts.recognised += own.length
            self._take_rest(prefix, rest, pos + own.length)
            return
        elif first.startswith(b"graph(") and (self._facts.levels or self._file(prefix) not in PLAN_FILES):
            # A message that is nothing but a graph.
            self.settle()
            self._open[prefix] = Run(lines, cut, pos)
        else:
            # The start of this message is not in the log, unless it is one of the indented ones of oneDNN.
            if first.startswith(_INDENTED) or self._file(prefix) not in PLAN_FILES:
                own, rest = lines.cut_at(_going_on(lines.split(), cut))
                self._counts.truncated += not first.startswith(_INDENTED) and prefix != self._without_start
                self._without_start = prefix
                self._counts.recognised += own.length
                self._take_rest(prefix, rest, pos + own.length)
                return
            self.settle()
            self._take_headless(prefix, lines, cut, pos)
            return
        self._held = prefix if self._open[prefix].complete else None

    def _take_headless(self, prefix: bytes, lines: Lines, cut: int, pos: int) -> None:
        """Lines of a graph whose header is not in the log; the message after it may follow among them."""
        own, rest = lines.cut_at(_going_on(lines.split(), cut))
        if prefix not in self._open:
            self._open[prefix] = Run(own, cut, pos, headless=True)
        elif own.length:
            self._open[prefix].extend(own, pos)
        self._held = prefix if self._open[prefix].complete else None
        self._take_rest(prefix, rest, pos + own.length)

    def _take_rest(self, prefix: bytes, lines: Lines, pos: int) -> None:
        """What stands behind the lines of a message whose end shows only in what follows."""
        if lines.length:
            self.take(prefix, lines, pos)

    def settle(self) -> None:
        """Note the last message now if it is complete: something that may depend on it follows."""
        if self._held is not None:
            self._finish(self._held)

    def close(self) -> None:
        """The log ends: what is open stays cut off."""
        for prefix in list(self._open):
            self._finish(prefix)
        merge(self._facts.unplanned, self.pending)
        self.pending = Statements()
        self._facts.plans += self._headless.plans(self._headers, self._facts.plans)
        self._facts.release = nvfuser_release(self._files)
        self._handlers.clear()  # they refer to this object: it goes at once, and all that was gathered

    def _finish(self, prefix: bytes) -> None:
        run = self._open.pop(prefix)
        if self._held == prefix:
            self._held = None
        self._counts.recognised += run.length
        self._facts.levels.add(self._file(prefix))
        if run.headless or not run.complete:
            self._counts.truncated += 1
        if run.headless:
            self._headless.add(prefix, self._file(prefix), run)
            return
        text = run.text
        end = text.find(b"\n")
        header = text[run.cut : end if end >= 0 else None].strip()
        if header in PASS_STARTS:
            self._pass_starts(header, Print(text[end + 1 :] if end >= 0 else b"", run.cut))
        del text
        if len(header) < 80:
            self._headers[prefix] = header
        known = header.decode("utf-8", "replace") if len(header) < 80 and b"graph(" not in header else "other"
        handler = self._handlers.get(header)
        if handler is None:
            self._facts.headers[known] = self._facts.headers.get(known, 0) + 1
            return
        for at, graph_at, graph in run.graphs():
            self._facts.headers[known] = self._facts.headers.get(known, 0) + 1
            handler(at, graph_at, graph)

    def _file(self, prefix: bytes) -> str:
        name = self._files.get(prefix)
        if name is None:
            found = PREFIX.match(prefix)
            name = self._files[prefix] = found.group(1).decode("ascii") if found else ""
        return name

    # -- messages of one line -------------------------------------------------------------------------------

    def _single(self, prefix: bytes, first: bytes, lines: Lines, cut: int, pos: int) -> bool:
        """Take a run of one-line messages; False if the run holds a graph."""
        name = self._file(prefix)
        take = _nothing
        if name == "partition":
            self.settle()
            self._rejections.add(lines, cut, pos, self.pending)
        elif name == "kernel_cache" and first.startswith((_POINTER_MADE, _POINTER_RUNS)):
            take = self._pointer_line
        elif name == "tensorexpr_fuser" and first.startswith(_SINGLE):
            take = self._nnc_line
        elif b"graph(" in first or prefix.startswith(b"[DUMP ") or first in (b"", b"<GRAPH_EXPORT>"):
            return False
        self.settle()
        self._last_single = prefix
        self._facts.levels.add(name)
        self._nnc.take(name, lines, cut, pos)
        if take is not _nothing:
            for i, line in enumerate(lines.split()):
                take(line[cut:], pos + i)
        self._counts.recognised += lines.length
        return True

    def _nnc_line(self, payload: bytes, pos: int) -> None:
        if payload.startswith(FAILED):
            self._conditions.failed(payload[len(FAILED) :], pos, self.pending)
        elif payload.startswith(CONSIDERING):
            self._conditions.look_at(payload[len(CONSIDERING) :])
            self._facts.headers[LOOKS_AT] = self._facts.headers.get(LOOKS_AT, 0) + 1
        elif payload.startswith(MERGING):
            self._conditions.look_at(payload[len(MERGING) :])
        elif payload.startswith(INTO):
            self._conditions.goes_into(payload[len(INTO) :])
        elif payload in REMARKS:
            self._conditions.remarked(payload)
        elif payload.startswith(_TOO_SMALL):
            self._too_small(payload[len(_TOO_SMALL) :], pos)

    def _pointer_line(self, payload: bytes, pos: int) -> None:
        facts = self._facts
        if payload.startswith(_POINTER_MADE):
            self._pointer = payload[len(_POINTER_MADE) :]
            self._cache_begins(pos)
            return
        pointer = payload[len(_POINTER_RUNS) :]
        cache = self._caches.get(pointer)
        if cache is None:
            cache = self._caches[pointer] = CacheInstance(pointer, None, pos)
            facts.caches.append(cache)
        cache.runs += 1
        facts.work.last = Work("run", cache, pos)
        self._kernels.runs(cache)

    # -- graphs ---------------------------------------------------------------------------------------------

    def _pass_starts(self, header: bytes, graph: Print) -> None:
        """What was stated before belongs to a pass whose plan was not printed."""
        self._known.began_with = graph
        nnc, self._nnc_left, self._goes_on = self._nnc_left, None, None
        if header == PASS_STARTS[0] and nnc is not None and nnc[2].printed() == graph.printed():
            self._goes_on = nnc[:2]
        if self.pending:
            merge(self._facts.unplanned, self.pending)
        self.pending = Statements()

    def _executed(self, at: int, graph: Print, simple: bool = False) -> None:
        self._plan(at, graph, PlanLevel.EXECUTOR, simple)

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
        if self.pending:
            merge(use.stated, self.pending if same_names else with_source(self.pending), same_names)
            self.pending = Statements()
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
        self._nnc.begins(pos, group)
        self._facts.work.last = Work("compile", None, pos, group)

    def _compile_fell_back(self, pos: int, _: int, graph: Print) -> None:
        lines = positions()
        lines.append(pos)
        cache = self._facts.caches[-1] if self._facts.caches else None
        self._facts.work.fell_back(pos)
        self._facts.fallbacks.append(FallbackSeen("compile", True, lines, cache, self._known.group(graph)))

    def _profiled(self, pos: int, _: int, graph: Print) -> None:
        kinds = profiled_gradient(graph)
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
                    text = "a group of one operator is not worth a kernel and was undone"
                    state(self.pending, NodeText(kind, source, value, True), "FD220", text, pos)


def _going_on(lines: list[bytes], cut: int) -> int:
    """How many of the first lines can go on with the message before them."""
    for i, line in enumerate(lines):
        if not line.startswith(CONTINUES, cut) and len(line) > cut:
            return i
    return len(lines)


def _nothing(payload: bytes, pos: int) -> None:
    return None
