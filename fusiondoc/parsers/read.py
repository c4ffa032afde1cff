"""Logs in, report model out: the whole way of ``fusiondoc parse``."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import Callable, Iterator, Sequence

from fusiondoc.model.log_counts import ParseStats, UnrecognisedLine
from fusiondoc.model.report import Report
from fusiondoc.parsers.assemble import assemble
from fusiondoc.parsers.facts import Facts, LineCounts, position, unpack
from fusiondoc.parsers.jit.layers import LiveLayers
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.lines.ranks import Tag, ranks
from fusiondoc.parsers.lines.tagged_lines import TaggedLog
from fusiondoc.parsers.observed import Observed
from fusiondoc.parsers.rows.unfused_rows import WorkOut
from fusiondoc.parsers.stream import Stream
from fusiondoc.parsers.user_lines import SourceMap


def read_logs(
    logs: Sequence[LogInput],
    sources: SourceMap | None = None,
    progress: Callable[[int], None] | None = None,
    work_out: WorkOut | None = None,
    layers: LiveLayers | None = None,
) -> tuple[Report, Observed]:
    """Read logs, parts of one run, into one report (without findings and coverage).

    ``sources`` maps operators to the user's lines where the probe found them, ``layers`` to their modules;
    ``progress`` is told the bytes read.
    """
    began = time.perf_counter()
    counts = LineCounts()
    streams: dict[Tag, Stream] = {}
    with _no_collection():
        first: Tag = None
        for index, log in enumerate(logs):
            tagged = _read_one(index, log, streams, counts, progress, layers or {})
            first = first if first is not None else tagged
        for stream in streams.values():
            stream.close()
        for tag, rank in ranks(streams, first).items():
            streams[tag].facts.rank = rank
    files = [log.name for log in logs]
    facts = [stream.facts for stream in streams.values()]
    report, observed = assemble(facts, files, sources or {}, work_out, _stats(counts, files))
    parse = replace(report.parse, seconds=time.perf_counter() - began)
    return replace(report, parse=parse), observed


def _stats(counts: LineCounts, files: Sequence[str]) -> ParseStats:
    """The counts as the report has them; how long it took is not known yet."""
    first = ((*unpack(pos), text) for pos, text in counts.first_unrecognised)
    return ParseStats(
        lines=counts.lines,
        recognised=counts.recognised,
        user_output=counts.user_output,
        unrecognised=counts.unrecognised,
        first_unrecognised=tuple(
            UnrecognisedLine(files[file], line, text.decode("utf-8", "replace")[:200])
            for file, line, text in first
        ),
        truncated=counts.truncated,
        seconds=0.0,
        bytes=counts.size,
        left_out=counts.left_out,
    )


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
    layers: LiveLayers,
) -> Tag:
    """Feed one log to the streams; the text behind its tag None."""

    def read(size: int) -> None:
        counts.size += size
        if progress is not None:
            progress(size)

    tagged = TaggedLog(log, read, counts.line_cut)
    for tag, number, lines in tagged.stretches():
        counts.lines += len(lines)
        _stream(streams, tag, counts, layers).feed(lines, position(index, number))
    return tagged.first


def _stream(streams: dict[Tag, Stream], tag: Tag, counts: LineCounts, layers: LiveLayers) -> Stream:
    stream = streams.get(tag)
    if stream is None:
        stream = streams[tag] = Stream(Facts(), counts, layers)
    return stream
