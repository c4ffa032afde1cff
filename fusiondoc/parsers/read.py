"""Logs in, report model out: the whole way of ``fusiondoc parse``."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable, Iterator, Sequence

from fusiondoc.model.report import (
    Coverage,
    Evidence,
    Fallback,
    FuserState,
    Group,
    Kernel,
    ParseStats,
    Program,
    Report,
    Unfused,
    UnrecognisedLine,
)
from fusiondoc.model.runs import Iteration
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.facts import Facts, LineCounts, PlanUse, position, unpack
from fusiondoc.parsers.lines.cleaning import OuterPrefix, clean
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.parsers.lines.ranks import RankTags, Tag, ranks
from fusiondoc.parsers.lines.tagged_lines import SAMPLE
from fusiondoc.parsers.rows.group_rows import GroupTable, finished
from fusiondoc.parsers.rows.kernel_rows import fallbacks_of, kernels_of, printed_kernels_of
from fusiondoc.parsers.rows.programs import ProgramTable
from fusiondoc.parsers.rows.unfused_rows import UnfusedTable, WorkOut
from fusiondoc.parsers.sources import SourceMap
from fusiondoc.parsers.stream import Stream

_FUSER_OF_KIND = {
    "CudaFusionGroup": "nvfuser",
    "TensorExprGroup": "nnc",
    "oneDNNFusionGroup": "onednn",
    "FusionGroup": "legacy",
}


@dataclass
class Observed:
    """What the logs show besides the report: what the rules of the diagnosis need."""

    files: tuple[str, ...] = ()
    headers: dict[str, int] = field(default_factory=dict)
    """How often each kind of graph was dumped, by header text."""
    levels: frozenset[str] = frozenset()
    """JIT log files that printed something."""
    nvfuser_gone: Evidence | None = None
    disordered: bool = False
    errors: tuple[tuple[str, Evidence], ...] = ()
    last_work: tuple[str, str | None, Evidence] | None = None
    """("compile" or "run", group id, line) of the last group that nvFuser worked on."""
    taken_back: tuple[tuple[tuple[str, ...], Evidence], ...] = ()
    unfinished_diff_graphs: int = 0


def read_logs(
    logs: Sequence[LogInput],
    sources: SourceMap | None = None,
    progress: Callable[[int], None] | None = None,
    work_out: WorkOut | None = None,
) -> tuple[Report, Observed]:
    """Read logs, parts of one run, into one report (without findings and coverage).

    ``sources`` maps operators to the user's lines where the probe found them; ``progress`` is told the
    bytes read.
    """
    began = time.perf_counter()
    counts = LineCounts()
    streams: dict[Tag, Stream] = {}
    with _no_collection():
        first: Tag = None
        for index, log in enumerate(logs):
            tagged = _read_one(index, log, streams, counts, progress)
            first = first if first is not None else tagged
        for stream in streams.values():
            stream.close()
        for tag, rank in ranks(streams, first).items():
            streams[tag].facts.rank = rank
    files = [log.name for log in logs]
    report, observed = _assemble([s.facts for s in streams.values()], files, sources or {}, work_out)
    seconds = time.perf_counter() - began
    stats = ParseStats(
        lines=counts.lines,
        recognised=counts.recognised,
        user_output=counts.user_output,
        unrecognised=counts.unrecognised,
        first_unrecognised=tuple(
            UnrecognisedLine(files[file], line, text.decode("utf-8", "replace")[:200])
            for file, line, text in ((*unpack(pos), text) for pos, text in counts.first_unrecognised)
        ),
        truncated=counts.truncated,
        seconds=seconds,
        bytes=counts.size,
    )
    report.parse = stats
    return report.freeze(), observed


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the cyclic garbage collector: parsing makes many objects and no cycles, and it takes a fifth of
    the time to look for them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_one(
    index: int,
    log: LogInput,
    streams: dict[Tag, Stream],
    counts: LineCounts,
    progress: Callable[[int], None] | None,
) -> Tag:
    """Feed one log to the streams; the text behind its tag None."""
    number = 1
    outer: OuterPrefix | None = None
    tags = RankTags(())
    learnt = False
    for chunk in read_chunks(log, counts.line_cut):
        counts.size += len(chunk)
        if progress is not None:
            progress(len(chunk))
        lines = clean(chunk).split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not learnt:
            learnt = True
            outer = OuterPrefix.learn(lines[:SAMPLE])
            if outer is not None:
                tags = RankTags(outer.prefixes(lines[:SAMPLE]))
        counts.lines += len(lines)
        if outer is None:
            _stream(streams, None, counts).feed(lines, position(index, number))
        else:
            _feed_by_rank((outer, tags), lines, index, number, streams, counts)
        number += len(lines)
    return tags.first


def _feed_by_rank(
    prefixes: tuple[OuterPrefix, RankTags],
    lines: list[bytes],
    index: int,
    number: int,
    streams: dict[Tag, Stream],
    counts: LineCounts,
) -> None:
    """Take the outer prefix off and give stretches of one process to its stream."""
    outer, tags = prefixes
    stretch: list[bytes] = []
    start = number
    current = tags.current
    for i, line in enumerate(lines):
        prefix, rest = outer.split(line)
        owner = tags.tag(prefix) if prefix is not None else current
        if owner != current:
            if stretch:
                _stream(streams, current, counts).feed(stretch, position(index, start))
            stretch, start, current = [], number + i, owner
        stretch.append(rest)
    if stretch:
        _stream(streams, current, counts).feed(stretch, position(index, start))
    tags.current = current


def _stream(streams: dict[Tag, Stream], tag: Tag, counts: LineCounts) -> Stream:
    stream = streams.get(tag)
    if stream is None:
        stream = streams[tag] = Stream(Facts(), counts)
    return stream


@dataclass
class _Draft:
    """The report while it is put together."""

    groups: list[Group] = field(default_factory=list)
    unfused: list[Unfused] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    iterations: tuple[Iteration, ...] = ()
    programs: tuple[Program, ...] = ()
    programs_left_out: int = 0
    parse: ParseStats | None = None

    def freeze(self) -> Report:
        assert self.parse is not None
        kinds = [_FUSER_OF_KIND[g.kind] for g in self.groups]
        effective = max(set(kinds), key=kinds.count) if kinds else None
        return Report(
            environment={},
            fuser=FuserState(None, effective, True if effective else None),
            knobs=(),
            groups=tuple(self.groups),
            unfused=tuple(self.unfused),
            fallbacks=tuple(self.fallbacks),
            kernels=tuple(self.kernels),
            findings=(),
            coverage=Coverage(0, 0, None),
            parse=self.parse,
            iterations=self.iterations,
            programs=self.programs,
            programs_left_out=self.programs_left_out,
        )


def _assemble(
    streams: list[Facts], files: list[str], sources: SourceMap, work_out: WorkOut | None
) -> tuple[_Draft, Observed]:
    draft = _Draft()
    observed = Observed(files=tuple(files))
    programs = ProgramTable(files, sources)
    level = min((use.level for facts in streams for use in facts.plans), default=2)
    for facts in streams:
        table = GroupTable(facts)
        uses = _plans_that_count(facts, level, table)
        for number, row in enumerate(table.rows, len(draft.groups) + 1):
            row.id = f"G{number}"
        table.count_runs()
        kernels = kernels_of(facts, table, len(draft.kernels) + 1, files)
        kernels += printed_kernels_of(facts, table, len(draft.kernels) + len(kernels) + 1, files)
        fallbacks = fallbacks_of(facts, table, files)
        unfused = UnfusedTable(facts, _fuser_of(facts, table), work_out)
        unfused.add_plans(uses)
        programs.add(uses, table, facts)
        draft.unfused.extend(unfused.finished(files, sources))
        draft.groups.extend(finished(row, files, sources) for row in table.rows)
        draft.kernels.extend(kernels)
        draft.fallbacks.extend(fallbacks)
        draft.iterations += _iterations(facts)
        _observe(observed, facts, table, files)
    draft.programs, draft.programs_left_out = programs.finished()
    return draft, observed


def _fuser_of(facts: Facts, table: GroupTable) -> str | None:
    """The fuser whose pass this stream logs, or whose groups it has."""
    for header, fuser in (("Before Fusion:", "nvfuser"), ("Before TExprFuser:", "nnc")):
        if header in facts.headers:
            return fuser
    return _FUSER_OF_KIND[table.rows[0].group.kind] if table.rows else None


def _plans_that_count(facts: Facts, level: int, table: GroupTable) -> list[tuple[PlanUse, str | None]]:
    """The plans of executors, in order; bare prints only where no log shows a plan.

    Fills the table of groups on the way: the phase of a plan can hang on groups before it.
    """
    counting = [
        use for use in facts.plans if use.lines and (use.level < 2 or (use.level == 2 and level == 2))
    ]
    if level == 2 and any(use.plan.groups or use.plan.diff_graphs for use in counting):
        # Prints of the graph before optimisation stand beside prints of the plan.
        counting = [use for use in counting if use.plan.groups or use.plan.diff_graphs]
    counting.sort(key=lambda use: use.lines[0])
    uses = []
    for use in counting:
        phase = table.phase_of(use)
        inner = [group for diff in use.plan.diff_graphs for group in diff.groups]
        table.add(use, phase, [*use.plan.groups, *inner])
        uses.append((use, phase))
    return uses


def _iterations(facts: Facts) -> tuple[Iteration, ...]:
    made = []
    compiled = max(facts.compiling, default=-1)
    for i, (index, _, phase, inputs, _) in enumerate(facts.iterations):
        if i in facts.compiling:
            stage = "compiling"
        elif i in facts.profiled or i < min(facts.compiling, default=0):
            stage = "profiling"
        elif i > compiled >= 0:
            stage = "steady"
        else:
            stage = None
        made.append(Iteration(index, phase, inputs, stage, None))
    return tuple(made)


def _observe(observed: Observed, facts: Facts, table: GroupTable, files: list[str]) -> None:
    def evidence(pos: int) -> Evidence:
        return PackedEvidence([pos], files)[0]

    for header, count in facts.headers.items():
        observed.headers[header] = observed.headers.get(header, 0) + count
    observed.levels |= facts.levels
    observed.disordered = observed.disordered or facts.disordered
    if facts.nvfuser_gone is not None and observed.nvfuser_gone is None:
        observed.nvfuser_gone = evidence(facts.nvfuser_gone)
    observed.errors += tuple((text, evidence(pos)) for text, pos in facts.errors)
    observed.taken_back += tuple(
        (tuple(op for op, _ in group.body), evidence(pos)) for group, pos in facts.taken_back
    )
    if facts.last_work is not None:
        stage, cache, pos = facts.last_work
        rows = table.of_cache(cache)
        observed.last_work = (stage, rows[0].id if rows else None, evidence(pos))
