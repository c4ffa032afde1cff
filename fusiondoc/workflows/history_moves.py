"""Lasting changes of the figures of a model.

Coverage is exact: each change of at least ``LEAST_COVERAGE`` counts. A step time is
measured, and differs from run to run: a change counts where up to ``RUNS_BEFORE``
runs before it and ``RUNS_AFTER`` from it on, at least ``LEAST_RUNS`` of each, are
apart: each of the later ones is further from the median of the earlier ones than
``LEAST_TIME``, and beyond all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from fusiondoc.model.history_answers import Move
from fusiondoc.model.run_lines import FAILED, RunLine
from fusiondoc.workflows.history_losses import changes_between

LEAST_COVERAGE = 0.001
LEAST_TIME = 0.1
"""Least change of a time, as a share of the median before."""
LEAST_RUNS = 2
RUNS_BEFORE, RUNS_AFTER = 5, 3


def moves(runs: Sequence[RunLine]) -> tuple[Move, ...]:
    """The changes, newest first.

    Args: runs: of one model, device, fuser and setting, oldest first. A run that
        ended early is left out.
    """
    whole = []
    for run in runs:
        if not run.ended_early and run.status != FAILED:
            whole.append(run)
    found = [
        *_of_coverage(whole),
        *_of_time([run for run in whole if run.ms is not None]),
    ]
    return tuple(sorted(found, key=lambda move: move.date, reverse=True))


def _of_coverage(runs: Sequence[RunLine]) -> list[Move]:
    known = [run for run in runs if run.coverage is not None]
    found = []
    for before, after in pairwise(known):
        old, new = before.coverage or 0.0, after.coverage or 0.0
        if abs(new - old) >= LEAST_COVERAGE:
            found.append(_move("coverage", old, new, before, after))
    return found


def _of_time(runs: Sequence[RunLine]) -> list[Move]:
    times = [run.ms or 0.0 for run in runs]
    found = []
    first = 0  # of the runs since the last change
    for at in range(1, len(runs)):
        before, after = (
            times[max(first, at - RUNS_BEFORE) : at],
            times[at : at + RUNS_AFTER],
        )
        if min(len(before), len(after)) < LEAST_RUNS or not _are_apart(
            before, after
        ):
            continue
        found.append(
            _move("ms", median(before), median(after), runs[at - 1], runs[at])
        )
        first = at
    return found


def _are_apart(before: Sequence[float], after: Sequence[float]) -> bool:
    usual = median(before)
    slower = min(after) > max(*before, usual * (1 + LEAST_TIME))
    return slower or max(after) < min(*before, usual * (1 - LEAST_TIME))


def _move(
    what: str, old: float, new: float, before: RunLine, after: RunLine
) -> Move:
    return Move(
        what=what,
        before=old,
        after=new,
        date=after.date,
        commit=after.commit,
        last_date=before.date,
        last_commit=before.commit,
        changed=changes_between(before, after),
    )
