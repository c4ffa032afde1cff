"""The facts in the captures of the ranks of a run: logs, outcomes, steps and
results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.ending import Ended, where_it_was
from fusiondoc.captures.process_records import RANKS
from fusiondoc.diagnosis.rules.fd9_errors_of_ranks import ranks_that_ended
from fusiondoc.model.runs import (
    RankFacts,
    RankSummary,
    Verification,
    furthest_off,
    rank_names,
)
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.observed import Observed


def rank_logs(captures: Sequence[Capture], shown: Sequence[str]) -> list[LogInput]:
    """The logs of the ranks in some captures of one run.

    Args:
        shown: the name of each capture in reports.
    """
    inputs = []
    for capture, name in zip(captures, shown):
        for rank in capture.ranks:
            for file in rank.log_names:
                inputs.append(
                    LogInput(
                        f"{name}/{RANKS}/{rank.name}/{file}",
                        rank.path / file,
                        rank.rank,
                    )
                )
    return inputs


def ranks_of_captures(captures: Sequence[Capture]) -> RankSummary | None:
    """The facts of each rank; None for a run of one process."""
    processes = []
    for capture in captures:
        for rank in capture.ranks:
            processes.append((rank, capture))
    launched = []
    for capture in captures:
        if capture.request.options.launcher:
            launched.append(capture)
    if not processes and not launched:
        return None
    worlds = []
    for process, _ in processes:
        if process.records.rank is not None:
            worlds.append(process.records.rank.world_size or 0)
    expected = max(worlds, default=0) or None
    return RankSummary(
        "launcher",
        expected,
        tuple(_facts(process, run) for process, run in processes),
    )


def compared(captures: Sequence[Capture]) -> tuple[Verification, ...]:
    """Results of several ranks compared with eager: of each result the rank that is
    furthest off, and the ranks that differ."""
    rows: dict[tuple[int, int, str, str], dict[int, Verification]] = {}
    for process in (rank for capture in captures for rank in capture.ranks):
        for row in process.records.verification:
            key = row.iteration, row.inputs, row.phase, row.what
            rows.setdefault(key, {})[process.rank] = row
    return tuple(map(_furthest_off, rows.values()))


def _furthest_off(rows: Mapping[int, Verification]) -> Verification:
    worst = furthest_off(rows.values())
    off = tuple(rank for rank, row in rows.items() if row.same == worst.same)
    if worst.same or len(off) == len(rows):
        return worst
    return replace(
        worst,
        detail="; ".join(
            filter(None, (f"on {rank_names(off)} alone", worst.detail))
        ),
    )


def ranks_stated_by_log(observed: Observed) -> RankSummary | None:
    """The facts of each rank as far as logs alone state them."""
    if observed.ranks_by is None:
        return None
    note = None
    if observed.ranks_by == "order":
        note = "What stands before the lines names no rank: they are numbered in the order in which they came."
    elif observed.machines:
        note = (
            "Several logs begin where torchrun starts processes, each with local ranks ([default0]:): they"
            " are counted on in the order of the logs."
        )
    return RankSummary(
        observed.ranks_by, ranks=ranks_that_ended(observed), note=note
    )


def _facts(process: Capture, run: Capture) -> RankFacts:
    run_records, result = process.records, process.result
    stop_signal = run_records.rank.asked if run_records.rank is not None else None
    ended, failed = None, False
    if result.ended is Ended.UNFINISHED:
        over = run.result.ended is not Ended.UNFINISHED
        if over:
            ended = "was ended with the run"
        else:
            ended = "has not ended, or its machine was switched off"
    elif stop_signal is not None and process.ended_badly:
        ended = f"was ended by the launcher ({stop_signal})"
    elif process.ended_badly:
        ended, failed = result.in_words, True
        if run_records.error is not None:
            ended += f": {run_records.error.type}: {(run_records.error.message or '').strip()[:200]}"
    if run_records.script.steps is not None:
        steps = run_records.script.steps.ms
    else:
        steps = ()
    return RankFacts(
        rank=process.rank,
        host=run_records.rank.host if run_records.rank is not None else None,
        torch=run_records.environment.texts.get("torch"),
        gpu=run_records.environment.gpu,
        ended=ended,
        failed=failed,
        where=where_it_was(process.log_path) if ended is not None else None,
        restarts=run_records.rank.restarts if run_records.rank is not None else 0,
        step_ms=_later(steps or _passes(process)),
    )


def _passes(process: Capture) -> tuple[float, ...]:
    """Milliseconds of each pass: forward and backward together."""
    sums: dict[int, float] = {}
    for done in process.records.passes:
        if done.index is not None and done.seconds is not None:
            sums[done.index] = sums.get(done.index, 0.0) + done.seconds * 1000
    return tuple(sums[index] for index in sorted(sums))


def _later(steps: Sequence[float]) -> tuple[float, ...]:
    """The later half of the steps: in the first ones torch profiles and
    compiles."""
    return tuple(steps[len(steps) // 2 :])
