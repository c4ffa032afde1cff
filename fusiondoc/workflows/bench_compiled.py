"""Results of a timed process beside its times: groups that fell back, from torch's
warnings, and counts of torch.compile, from its compilation records. Both are read
as in any other run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.capture import MOST_BYTES
from fusiondoc.captures.probe_records import read_records
from fusiondoc.diagnosis.of_fusers import with_compiled
from fusiondoc.errors import FusiondocError
from fusiondoc.model import dataclass
from fusiondoc.model.bench import ByPhase
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs
from fusiondoc.whole_files import read_within

_FORWARD, _BACKWARD = "forward", "backward"


@dataclass(frozen=True)
class CompiledCounts:
    """The figures of torch.compile for the first inputs."""

    groups: ByPhase | None = None
    calls: ByPhase | None = None
    bytes_moved: ByPhase | None = None
    graph_breaks: int | None = None


@dataclass(frozen=True)
class SeenBesides:
    """``failed_hooks``: the probe's hooks that raised an error, so that their facts
    are missing."""

    fallbacks: int | None = None
    compiled: CompiledCounts = CompiledCounts()
    failed_hooks: tuple[str, ...] = ()


def seen_besides(log: Path, records: Path) -> SeenBesides:
    """Read the log and the records of a timed process; empty where they cannot be
    read."""
    with contextlib.suppress(FusiondocError, OSError):
        report, observed = read_logs([LogInput("log", log)])
        recorded = read_records(read_within(records, MOST_BYTES)).compiled
        compilation = recorded.with_log(observed.compilation)
        made = with_compiled(
            report, replace(observed, compilation=compilation), None
        )
        counts = _counts(made) if recorded.graphs else CompiledCounts()
        failed = []
        for hook in recorded.failed_hooks:
            failed.append(f"{hook.hook}: {hook.error}")
        return SeenBesides(report.times_fallen_back, counts, tuple(failed))
    return SeenBesides()


def _counts(report: Report) -> CompiledCounts:
    if report.compiled is None:
        return CompiledCounts()
    graphs = []
    for graph in report.compiled.graphs:
        if graph.failed is None:
            graphs.append(graph)
    return CompiledCounts(
        _by_phase((group.phase, group.count) for group in report.groups),
        _by_phase((row.phase, row.count) for row in report.unfused),
        _by_phase((graph.phase, graph.bytes_accessed) for graph in graphs),
        sum(row.count for row in report.compiled.breaks),
    )


def _by_phase(figures: Iterable[tuple[str | None, int | None]]) -> ByPhase:
    """Sum the figures of each phase; None if one of its figures is not known."""
    sums: dict[str, int | None] = {_FORWARD: 0, _BACKWARD: 0}
    for phase, figure in figures:
        name = _BACKWARD if phase == _BACKWARD else _FORWARD
        before = sums[name]
        sums[name] = None if before is None or figure is None else before + figure
    return ByPhase(sums[_FORWARD], sums[_BACKWARD])


def why_not_known(graphs: int | None, failed_hooks: Sequence[str]) -> str:
    """Return why a process of torch.compile shows no counts.

    Args:
        graphs: number of graphs that it compiled, by torch's own count.
    """
    if graphs == 0:
        return "torch.compile compiled no graph"
    if failed_hooks:
        return f"this torch does not show them ({failed_hooks[0]})"
    return "no record shows what was compiled"
