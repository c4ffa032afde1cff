"""From logs to the report model: the complete path of ``fusiondoc parse``.

The facts of all streams become a report in steps that take and return values, in
the order of their dependencies. A step does not change the result of another, but
for one: finished groups are dropped from their table.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fusiondoc.fusers import FUSER_OF_KIND, FUSERS, is_debug_file
from fusiondoc.model import dataclass
from fusiondoc.model.report import (
    Fallback,
    Group,
    Kernel,
    Report,
)
from fusiondoc.model.runs import (
    Coverage,
    FuserState,
    Iteration,
    ParseStats,
    UnrecognisedLine,
)
from fusiondoc.model.source import SourceMap
from fusiondoc.parsers.facts import (
    Facts,
    LineCounts,
    PlanLevel,
    PlanUse,
    position,
    unpack,
)
from fusiondoc.parsers.inductor import may_hold_lines
from fusiondoc.parsers.jit.regions import LiveLayers
from fusiondoc.parsers.kernels.kept_texts import TextStore
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.parsers.lines.machines import Machines
from fusiondoc.parsers.lines.tagged_lines import (
    Tag,
    TaggedLog,
    rank_of,
    ranks,
    source_of_ranks,
)
from fusiondoc.parsers.lines.torn_lines import note_torn_lines
from fusiondoc.parsers.observed import Observed, observed_in
from fusiondoc.parsers.repeats import NEVER
from fusiondoc.parsers.rows.bounded_report import bounded
from fusiondoc.parsers.rows.finished_groups import RunOfGroups, group_rows
from fusiondoc.parsers.rows.group_rows import GroupTable, groups_of
from fusiondoc.parsers.rows.kernel_rows import fallbacks_of, kernels_of
from fusiondoc.parsers.rows.programs import PlansOfStream, programs_of
from fusiondoc.parsers.rows.runtimes import runtimes_of, with_launches_of_groups
from fusiondoc.parsers.rows.tallies import most_of_each
from fusiondoc.parsers.rows.unfused_rows import UnfusedRows, WorkOut, unfused_of
from fusiondoc.parsers.stream import Stream

if TYPE_CHECKING:
    from fusiondoc.parsers.inductor.processes import TorchOutputs


@dataclass(frozen=True)
class _StreamRows:
    """The rows that one stream (one rank) adds to the report."""

    groups: list[Group]
    unfused: UnfusedRows
    fallbacks: list[Fallback]
    kernels: list[Kernel]
    iterations: list[Iteration]
    plans: PlansOfStream


@dataclass(frozen=True)
class _OfAllStreams:
    """Values that the rows of every stream depend on, besides the stream's
    facts."""

    files: list[str]
    """Names of the logs, by their number in a position."""
    sources: SourceMap
    work_out: WorkOut | None
    level: PlanLevel
    """The lowest level of a plan in any stream."""
    most: int
    """Number of rows of one stream."""
    lines: int | None
    """Number of lines of the log, if it is the only one."""


def assemble(
    streams: Sequence[Facts],
    files: list[str],
    sources: SourceMap,
    work_out: WorkOut | None,
    parse: ParseStats,
) -> tuple[Report, Observed]:
    """Return the report of all streams, without findings and coverage, and their
    other facts.

    Args:
        files: names of the logs, by their number in a position.
        sources: the user's lines of operators, if the probe found them.
    """
    level = min(
        (use.level for facts in streams for use in facts.plans),
        default=PlanLevel.PRINT,
    )
    most = most_of_each(len(streams))
    lines = parse.lines if len(files) == 1 else None
    shared = _OfAllStreams(files, sources, work_out, level, most, lines)
    made: list[_StreamRows] = []
    for facts in streams:
        made.append(_rows_of(facts, shared, made))
    programs = programs_of([one.plans for one in made], files, sources)
    groups = _all(made, lambda one: one.groups)
    report = Report(
        environment={},
        fuser=_fuser_at_work(groups, streams),
        knobs=(),
        groups=groups,
        unfused=_all(made, lambda one: one.unfused.rows),
        kernel_texts_left_out=max(
            (facts.texts.left_out for facts in streams), default=0
        ),
        unfused_left_out=sum(one.unfused.left_out for one in made),
        fallbacks=_all(made, lambda one: one.fallbacks),
        kernels=_all(made, lambda one: one.kernels),
        findings=(),
        coverage=Coverage(0, 0, None),
        parse=parse,
        iterations=_all(made, lambda one: one.iterations),
        programs=programs.rows,
        programs_left_out=programs.left_out,
    )
    report = bounded(report, most)
    return report, observed_in((one.plans.groups for one in made), files)


def _rows_of(
    facts: Facts, shared: _OfAllStreams, before: Sequence[_StreamRows]
) -> _StreamRows:
    """Return the rows of a stream, numbered after those of the streams ``before``
    it."""
    files = shared.files
    plans = _plans_that_count(facts, shared.level)
    first_group = 1 + sum(len(one.groups) for one in before)
    groups = groups_of(facts, plans, first_group, shared.lines)
    first_kernel = 1 + sum(len(one.kernels) for one in before)
    kernels, segments, run_by, left_out, ids = kernels_of(
        facts, groups, first_kernel, files
    )
    fallbacks, fell_back = fallbacks_of(facts, groups, files)
    runs = groups.runs()
    runtimes = runtimes_of(facts, groups, ids, runs.of_group)
    run = RunOfGroups(
        runs, kernels, run_by, segments, runtimes, left_out, fell_back
    )
    fuser = _fuser_of(facts, groups)
    rows = group_rows(groups, run, files, shared.sources)
    kernels = with_launches_of_groups(kernels, rows)
    first_unfused = sum(len(one.unfused.rows) for one in before)
    unfused = unfused_of(
        facts,
        groups.plans,
        groups.copies,
        fuser,
        shared.work_out,
        (files, shared.sources),
        shared.most,
        first_unfused,
    )
    drawn = PlansOfStream(groups, unfused.row_of, unfused.rows, first_unfused)
    return _StreamRows(rows, unfused, fallbacks, kernels, _iterations(facts), drawn)


_Row = TypeVar("_Row")


def _all(
    made: Iterable[_StreamRows], rows: Callable[[_StreamRows], Iterable[_Row]]
) -> tuple[_Row, ...]:
    """Return the rows of one kind from all streams."""
    return tuple(chain.from_iterable(map(rows, made)))


def _plans_that_count(facts: Facts, level: PlanLevel) -> list[PlanUse]:
    """Return the plans of executors, in order; bare prints only if no log has a
    plan.

    ``level`` is the lowest level in any stream.
    """
    limit = PlanLevel.PRINT if level == PlanLevel.PRINT else PlanLevel.EXECUTOR
    counting = [use for use in facts.plans if use.lines and use.level <= limit]
    if level == PlanLevel.PRINT and any(
        use.traits.groups or use.traits.diff_graphs for use in counting
    ):
        # There are prints of the graph before optimisation besides prints of the
        # plan.
        counting = [
            use for use in counting if use.traits.groups or use.traits.diff_graphs
        ]
    # A plan without its beginning has no phase of its own: it comes after the plans
    # whose groups may determine it.
    return sorted(counting, key=lambda use: (use.headless, use.lines[0]))


def _fuser_of(facts: Facts, groups: GroupTable) -> str | None:
    """Return the fuser of most groups of this stream, or else the fuser whose pass
    it logs: two fusers can process one graph. None if there is none."""
    kinds = []
    for row in groups.rows:
        for _ in row.members:
            kinds.append(row.group.kind)
    if kinds:
        return FUSER_OF_KIND[max(sorted(set(kinds)), key=kinds.count)].name
    for fuser in FUSERS.values():
        if any(header in facts.headers for header in fuser.pass_headers):
            return fuser.name
    return None


def _fuser_at_work(groups: Iterable[Group], streams: Sequence[Facts]) -> FuserState:
    """Return the fuser of most groups; without groups, the fuser whose passes are
    in the log."""
    names = []
    for group in groups:
        for _ in group.instances:
            names.append(FUSER_OF_KIND[group.kind].name)
    if names:
        return FuserState(None, max(sorted(set(names)), key=names.count), True)
    for fuser in FUSERS.values():
        numbers = []
        for header in fuser.pass_headers:
            numbers.append(sum(facts.headers.get(header, 0) for facts in streams))
        passes = max(numbers, default=0)
        if passes:
            return FuserState(
                None,
                fuser.name,
                True,
                f"{passes} pass{'es' * (passes > 1)}, no group",
            )
    return FuserState(None, None, None)


def _iterations(facts: Facts) -> list[Iteration]:
    first, last = min(facts.compiling, default=0), max(facts.compiling, default=-1)
    made = []
    for i, mark in enumerate(facts.iterations):
        stage = None
        if i in facts.compiling:
            stage = "compiling"
        elif i in facts.profiled or i < first:
            stage = "profiling"
        elif i > last >= 0:
            stage = "steady"
        made.append(Iteration(mark.index, mark.phase, mark.inputs, stage, None))
    return made


def read_logs(
    logs: Sequence[LogInput],
    sources: SourceMap | None = None,
    progress: Callable[[int], None] | None = None,
    work_out: WorkOut | None = None,
    layers: Sequence[LiveLayers] = (),
    phases: Mapping[str, str] | None = None,
) -> tuple[Report, Observed]:
    """Read logs, parts of one run, into one report (without findings and coverage).

    ``sources`` maps operators to the user's lines where the probe found them,
    ``layers`` to their modules (a mapping for each model of the run), ``phases``
    the names of code that AOTAutograd made to their phase; ``progress`` is called
    with the bytes read.
    """
    reading = Reading(layers, phases)
    with _no_collection():
        for log in logs:
            reading.take(log, progress=progress)
        reading.close()
        return reading.report([log.name for log in logs], sources, work_out)


_RESERVE = 1 << 22
"""Number of bytes that are freed if memory is full: closing the files and
generators of a log takes some, and without any Python 3.11 prints "Exception
ignored in ..." before the error."""


class Reading:
    """Logs, parts of one run, read one after the other. Their content can be read
    at any time, also between two chunks of a log that still grows.

    ``layers`` and ``phases`` as for ``read_logs``.
    """

    def __init__(
        self,
        layers: Sequence[LiveLayers] = (),
        phases: Mapping[str, str] | None = None,
    ) -> None:
        self._began = time.perf_counter()
        self._counts = LineCounts()
        self._facts: dict[Tag, Facts] = {}
        self._streams: dict[Tag, Stream] = {}
        self._first: Tag = None
        self._logs = 0
        self._by_files = False
        self._machines = Machines()
        self._layers = layers
        self._phases = phases or {}
        self._texts = TextStore()
        self._compiled: TorchOutputs | None = None

    @property
    def lines(self) -> int:
        """Number of lines read so far."""
        return self._counts.lines

    @property
    def size(self) -> int:
        """Number of bytes read so far, after decompression."""
        return self._counts.size

    def take(
        self,
        log: LogInput,
        blocks: Iterable[bytes] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Read the next log to its end. ``blocks``: its bytes, if they do not come
        from ``log.path``."""

        def read(size: int) -> None:
            self._counts.size += size
            if progress is not None:
                progress(size)

        if blocks is None and log.path is not None and is_debug_file(log.path):
            self._take_file(log, log.path, read)
        else:
            self._take_lines(log, blocks, read)
        self._logs += 1

    def _take_lines(
        self,
        log: LogInput,
        blocks: Iterable[bytes] | None,
        read: Callable[[int], None],
    ) -> None:
        """Read the lines of a log to its end."""
        reserve = bytearray(_RESERVE)
        own = b"rank %d" % log.rank if log.rank is not None else None
        number = 1
        machines = self._machines if own is None and blocks is None else None
        tagged = TaggedLog(log, read, self._counts.line_cut, blocks, machines)
        tag: Tag = None
        for tag, text in tagged.stretches():
            if own is not None and (tag is None or rank_of(tag) is None):
                tag = own  # only the log's name has a rank
            may_leave = NEVER if tagged.may_leave is None else tagged.may_leave
            try:
                count, size = self._read(tag, text, number, may_leave)
            except (MemoryError, SystemError):
                reserve.clear()
                raise
            if size < len(text):
                tagged.leave(text[size:])
            self._counts.lines += count
            number += count
        if self._compiled is not None:
            self._compiled.end_log(log, tag, tagged.without_end)
        if own is not None:
            self._by_files = True
        elif self._first is None:
            self._first = tagged.first

    def _take_file(
        self, log: LogInput, path: Path, read: Callable[[int], None]
    ) -> None:
        """Read a file that torch.compile wrote for a graph."""
        data = b"".join(read_chunks(log))
        read(len(data))
        self._compilers().take_file(path, data, self._logs)
        self._counts.lines += data.count(b"\n") + (not data.endswith(b"\n"))

    def _of_torch_compile(self, tag: Tag, text: bytes) -> TorchOutputs | None:
        """Return the reader of torch.compile's lines, if the text may contain some;
        else None."""
        if self._compiled is None and not may_hold_lines(text):
            return None
        compiled = self._compilers()
        if compiled.may_hold(tag, text):
            return compiled
        return None

    def _compilers(self) -> TorchOutputs:
        if self._compiled is None:
            # Imported only here: most logs have no line of it, and should not wait
            # for this import.
            from fusiondoc.parsers.inductor.processes import TorchOutputs

            self._compiled = TorchOutputs(self._counts)
        return self._compiled

    def _read(
        self, tag: Tag, text: bytes, number: int, may_leave: int
    ) -> tuple[int, int]:
        """Read lines of one process; return the number of lines and bytes that were
        read."""
        compiled = self._of_torch_compile(tag, text)
        if compiled is None:
            return self._feed(tag, text, number, may_leave)
        for first, piece in compiled.take(tag, text, self._logs, number):
            self._feed(tag, piece, first, NEVER)
        return text.count(b"\n"), len(text)

    def _feed(
        self, tag: Tag, text: bytes, number: int, may_leave: int
    ) -> tuple[int, int]:
        """Read lines of TorchScript and others; return the number of lines and
        bytes that were read."""
        stream, pos = self._stream(tag), position(self._logs, number)
        count, size = stream.feed_part(text, pos, may_leave)
        note_torn_lines(stream.facts, text, size, pos)
        return count, size

    def _stream(self, tag: Tag) -> Stream:
        stream = self._streams.get(tag)
        if stream is None:
            facts = self._facts.setdefault(
                tag, Facts(phases=self._phases, texts=self._texts)
            )
            stream = self._streams[tag] = Stream(facts, self._counts, self._layers)
        return stream

    def close(self) -> None:
        """Finish after the last log: open messages are truncated. This frees the
        state by which later lines are recognised, a quarter of the memory."""
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def report(
        self,
        files: list[str],
        sources: SourceMap | None = None,
        work_out: WorkOut | None = None,
    ) -> tuple[Report, Observed]:
        """Return the report of the lines read so far, and their other facts;
        ``files`` has the names of the logs in order."""
        for tag, rank in ranks(self._facts, self._first).items():
            self._facts[tag].rank = rank
        by = (
            "files" if self._by_files else source_of_ranks(self._facts, self._first)
        )
        facts = list(self._facts.values())
        for use in (use for one in facts for use in one.plans):
            use.stated.settle()
        report, observed = assemble(
            facts, files, sources or {}, work_out, _stats(self._counts, files)
        )
        compilation = None
        if self._compiled is not None:
            compilation = self._compiled.compilation(self._first)
        cut = report.parse.truncated + (
            compilation.cut if compilation is not None else 0
        )
        observed = replace(observed, compilation=compilation)
        parse = replace(
            report.parse, truncated=cut, seconds=time.perf_counter() - self._began
        )
        machines = self._machines
        observed = replace(
            observed,
            ranks_by=by,
            machines=machines.several,
            same_local=machines.unsure,
        )
        if by is not None:
            observed = replace(observed, torn=0, torn_lines=())
        return replace(report, parse=parse), observed


def _stats(counts: LineCounts, files: Sequence[str]) -> ParseStats:
    """Return the counts as the report has them; the time is not known yet."""
    first = ((*unpack(pos), text) for pos, text in counts.first_unrecognised)
    first_unrecognised = []
    for file, line, text in first:
        first_unrecognised.append(
            UnrecognisedLine(
                files[file], line, text.decode("utf-8", "replace")[:200]
            )
        )
    return ParseStats(
        lines=counts.lines,
        recognised=counts.recognised,
        user_output=counts.user_output,
        unrecognised=counts.unrecognised,
        first_unrecognised=tuple(first_unrecognised),
        truncated=counts.truncated,
        seconds=0.0,
        bytes=counts.size,
        left_out=counts.left_out,
    )


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Context manager: disable the cyclic garbage collector. Parsing makes many
    objects and no cycles, and searching for cycles takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
