"""What the logs show besides the report, for the rules of the diagnosis."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Iterable, Mapping, NamedTuple, Sequence

from fusiondoc.model.report import Evidence
from fusiondoc.parsers.evidence import PackedEvidence
from fusiondoc.parsers.rows.group_rows import GroupTable


class LoggedError(NamedTuple):
    """The last line of a traceback."""

    text: str
    line: Evidence


class LastWork(NamedTuple):
    """The last group that nvFuser worked on."""

    stage: str
    """"compile" or "run"."""
    group: str | None
    """Its id, if its graph is in the log."""
    line: Evidence


@dataclass(frozen=True)
class Observed:
    files: tuple[str, ...] = ()
    headers: Mapping[str, int] = field(default_factory=dict)
    """How often each kind of graph was dumped, by header text."""
    levels: frozenset[str] = frozenset()
    """JIT log files that printed something."""
    nvfuser_gone: Evidence | None = None
    """Where torch says that nvFuser is not in this TorchScript any more."""
    disordered: bool = False
    """stdout and stderr are not in true order."""
    errors: tuple[LoggedError, ...] = ()
    last_work: LastWork | None = None
    only_inner_plans: bool = False
    """Executors of differentiable graphs printed their plans, and no plan that holds such a graph is there:
    what is in none of them is not in the log."""
    plans_cut: bool = False
    """The log lacks a part of a plan."""


def observed_in(streams: Iterable[GroupTable], files: Sequence[str]) -> Observed:
    """What the streams of a run show together. Of what torch says once a process, the first stream's line
    counts; of the last work, the last stream's."""

    def evidence(pos: int) -> Evidence:
        return PackedEvidence([pos], files)[0]

    headers: Counter[str] = Counter()
    levels: set[str] = set()
    errors: list[LoggedError] = []
    gone = last = None
    disordered = only_inner = cut = False
    for groups in streams:
        facts = groups.facts
        headers.update(facts.headers)
        levels |= facts.levels
        errors += (LoggedError(text, evidence(pos)) for text, pos in facts.errors)
        disordered = disordered or facts.disordered
        plans = [use.plan for use, _ in groups.plans]
        only_inner = only_inner or (
            any(plan.of_region for plan in plans) and not any(plan.diff_graphs for plan in plans)
        )
        cut = cut or any(not plan.complete for plan in plans)
        if gone is None and facts.nvfuser_gone is not None:
            gone = evidence(facts.nvfuser_gone)
        if facts.last_work is not None:
            stage, cache, pos = facts.last_work
            rows = groups.of_cache(cache)
            last = LastWork(stage, rows[0].id if rows else None, evidence(pos))
    return Observed(
        tuple(files),
        dict(headers),
        frozenset(levels),
        gone,
        disordered,
        tuple(errors),
        last,
        only_inner,
        cut,
    )
