"""The cause of a loss: the explanation (share_explanations.py) that best separates
the runs of a model without a group from those with it.

It is a loss if the runs without the group are later than the runs with it. That
only the runs on one GPU have a group, whenever they ran, can also explain the
difference, and is no loss.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

from fusiondoc.model import dataclass
from fusiondoc.workflows.share_changes import (
    Slope,
    best_split,
    evidence,
    plausible_indices,
)
from fusiondoc.workflows.share_explanations import (
    DATE,
    HALF,
    LEAST_LACKING,
    SURE,
    Explanation,
    Holders,
    RunHistory,
    Scope,
    explanations,
    share_of,
)

LEAST_DROP = 0.15
"""Least fall of the share of runs."""
ODDS = 10.0
"""Least likelihood ratio of a loss to no loss; multiplied by the number of groups
tested."""
NEARLY = 2.0
"""Difference in evidence up to which two factors explain a loss equally well: both
are named."""
SAME_RUNS = 0.9
"""Share of the runs after a loss that two explanations must have in common to be
about the same loss."""
PURE = 0.03
"""Share of runs that contradict a cause, up to which they count as noise."""
STILL = 0.1
"""Share of the runs without a group that must be later than the last run with it
for a loss to have ended the group; else both kinds of runs continue side by
side."""
MOST_LOSSES = 4
"""Most losses that are looked for in one group."""


@dataclass(frozen=True)
class GroupLoss:
    """The loss of a group, and its cause."""

    scope: Scope
    by: str
    """Name of a factor, or ``date``."""
    together: tuple[str, ...]
    """Other factors that changed with it: they explain the loss as well."""
    before: tuple[int, ...]
    """Runs of the scope that should have the group, and mostly do."""
    after: tuple[int, ...]
    evidence: float
    """Evidence of the loss against none."""
    slope: Slope | None = None
    """Slope of a gradual loss without another cause."""


def losses_of(
    history: RunHistory, has: Sequence[int | None], tested: int
) -> list[GroupLoss]:
    """Return the losses of a group, one after another.

    Args: has: for each run whether it has the group; None if that is not known.
        tested: number of groups tested in all: among many, one looks lost by
        chance.
    """
    found: list[GroupLoss] = []
    left = Holders(history, has, range(history.runs))
    for _ in range(2 * MOST_LOSSES):
        left = left.since_it_came()
        loss = _best_loss(left, tested)
        if loss is None or len(found) == MOST_LOSSES:
            break
        back = _back_since(left, loss)
        if back is not None:
            left = Holders(history, has, [run for run in left.runs if run >= back])
            continue
        found.append(loss)
        left = left.without(_explained(left, loss))
    return found


def _explained(left: Holders, loss: GroupLoss) -> frozenset[int]:
    """The runs that lack the group because of the loss; for a gradual one also
    those during the loss."""
    if loss.slope is None:
        return frozenset(loss.after)
    members = frozenset(loss.scope.runs)
    runs = set()
    for run in left.runs:
        if run in members and left.history.day(run) >= loss.slope.begin:
            runs.add(run)
    return frozenset(runs)


def _best_loss(left: Holders, tested: int) -> GroupLoss | None:
    lacking = len(left.runs) - left.having
    if lacking < LEAST_LACKING or left.having < LEAST_LACKING:
        return None
    tried = list(explanations(left, left.history.scopes[0], 0.0))
    best = _best(left, tried, tested)
    if best is None or not _explains_all(left, best):
        cost = math.log(2 * max(1, len(left.history.scopes) - 1))
        for scope in left.history.scopes[1:]:
            tried += explanations(left, scope, cost)
        best = _best(left, tried, tested)
    if best is None:
        return None
    together = []
    for explanation in tried:
        if _came_with(explanation, best):
            together.append(explanation)
    best, others = _named_causes(best, together)
    return GroupLoss(
        best.scope,
        best.by,
        others,
        tuple(sorted(best.before)),
        tuple(sorted(best.after)),
        best.evidence - _null(left, tried),
        best.slope,
    )


def _explains_all(left: Holders, best: Explanation) -> bool:
    """True if nearly all runs before it have the group, and nearly none after
    it."""
    before, after = _has_group(left, best.before), _has_group(left, best.after)
    return share_of(before) > 1 - PURE and share_of(after) < PURE


def _came_with(other: Explanation, best: Explanation) -> bool:
    """Whether another factor changed with the best one and explains the same loss
    nearly as well."""
    if (
        other.scope != best.scope
        or not other.came_later
        or other.by in (best.by, DATE)
    ):
        return False
    return (
        other.raw_evidence >= best.raw_evidence - NEARLY
        and _alike(other.after, best.after) >= SAME_RUNS
    )


def _named_causes(
    best: Explanation, together: Sequence[Explanation]
) -> tuple[Explanation, tuple[str, ...]]:
    """Return the cause to name first, and the names of the others. A change of
    lines comes from a commit, which has a name."""
    if best.by == "lines":
        best = next((other for other in together if other.by == "commit"), best)
    names = []
    for other in together:
        if other.by != best.by:
            names.append(other.by)
    if best.by == "commit" or "commit" in names:
        names = [name for name in names if name != "lines"]
    return best, tuple(names)


def _has_group(left: Holders, runs: frozenset[int]) -> list[int]:
    """1 for each run that has the group, 0 for each other."""
    return [int(left.has[run] or 0) for run in runs]


def _alike(runs: frozenset[int], other: frozenset[int]) -> float:
    return len(runs & other) / max(1, len(runs | other))


def _null(left: Holders, tried: Sequence[Explanation]) -> float:
    """The evidence that nothing was lost: all runs have one share, or the share
    depends on facts that existed all the time, or it rose."""
    same = evidence(left.having, len(left.runs))
    others = []
    for other in tried:
        if not other.scope.values and not _fell(left, other):
            others.append(other.evidence)
    return max([same, *others])


def _fell(left: Holders, explanation: Explanation) -> bool:
    """True if the later runs have the group less often."""
    before, after = (
        _has_group(left, explanation.before),
        _has_group(left, explanation.after),
    )
    return explanation.came_later and share_of(before) > share_of(after)


def _is_loss(left: Holders, explanation: Explanation) -> bool:
    before, after = (
        _has_group(left, explanation.before),
        _has_group(left, explanation.after),
    )
    if sum(before) < LEAST_LACKING or len(after) - sum(after) < LEAST_LACKING:
        return False
    drop = share_of(before) - share_of(after)
    return (
        explanation.came_later and share_of(before) >= HALF and drop >= LEAST_DROP
    )


def _best(
    left: Holders, tried: Sequence[Explanation], tested: int
) -> Explanation | None:
    """Return the loss with most evidence, if that is beyond chance. If a factor and
    a day explain it equally well, the factor is chosen: days always change."""
    losses = []
    for explanation in tried:
        if _is_loss(left, explanation):
            losses.append(explanation)
    if not losses:
        return None
    best = max(losses, key=lambda loss: loss.evidence)
    same = []
    for loss in losses:
        if _alike(loss.after, best.after) >= SAME_RUNS:
            same.append(loss.evidence)
    if _sum_of(same) - _null(left, tried) < math.log(ODDS * max(1, tested)):
        return None
    if best.by == DATE:
        factors = []
        for loss in losses:
            if (
                loss.by != DATE
                and loss.evidence >= best.evidence - NEARLY
                and loss.scope == best.scope
            ):
                factors.append(loss)
        best = max(factors, key=lambda loss: loss.evidence, default=best)
    return best


def _sum_of(evidences: Sequence[float]) -> float:
    """The summed evidence of several explanations of why the same runs lack a
    group: it was lost, by one of these causes."""
    most = max(evidences)
    return most + math.log(sum(math.exp(value - most) for value in evidences))


def _back_since(left: Holders, loss: GroupLoss) -> int | None:
    """The run since which the group is present again, as often as before; None if
    it is not."""
    if not left.history.dated:
        return None
    members = frozenset(loss.scope.runs)
    begin = min((run for run in loss.after if not left.has[run]), default=None)
    if begin is None:
        return None
    later = Holders(
        left.history,
        left.has,
        [run for run in left.runs if run in members and run >= begin],
    )
    split = best_split(later.of, later.moments)
    if split is None:
        return None
    first, last = later.of[: split.at], later.of[split.at :]
    gain = (
        split.evidence
        - evidence(later.having, len(later.of))
        - math.log(split.choices)
    )
    before = share_of([int(left.has[run] or 0) for run in loss.before])
    again = share_of(last) >= before - LEAST_DROP and share_of(first) < share_of(
        last
    )
    if again and gain > math.log(SURE):
        return later.runs[split.at]
    return None


def onset(
    history: RunHistory, has: Sequence[int | None], loss: GroupLoss
) -> tuple[str, str, str, str | None]:
    """Return the day of a loss, the first and last day on which it may have begun,
    and the last day with the group, if runs with and without it coexisted for a
    while."""
    lacking = [run for run in loss.after if not has[run]]
    begin = min(lacking, key=lambda run: (history.moments[run], run))
    if loss.slope is not None:
        days = []
        for day in (loss.slope.begin, loss.slope.earliest, loss.slope.latest):
            days.append(_day_text(day))
        return days[0], days[1], days[2], _day_text(loss.slope.end)
    had = [run for run in loss.before if has[run]]
    first, latest = _span_of_onset(history, has, loss, had, begin)
    until = max(had, default=begin)
    # Runs with the group have ended only if enough runs without it came after them.
    if sum(run > until for run in lacking) < STILL * len(lacking):
        until = begin
    days = [history.moments[run][:10] for run in (begin, first, latest, until)]
    return days[0], days[1], days[2], days[3] if days[3] > days[0] else None


def _span_of_onset(
    history: RunHistory,
    has: Sequence[int | None],
    loss: GroupLoss,
    had: Sequence[int],
    begin: int,
) -> tuple[int, int]:
    """The first and the last run at which a sudden loss may have begun.

    Args: had: runs before the loss that have the group; ``begin``: the first run
        after it that lacks it.
    """
    first = max((run for run in had if run < begin), default=begin)
    if loss.by not in (DATE, "commit", "lines"):
        return first, begin
    runs = sorted((*loss.before, *loss.after))
    span = plausible_indices(
        [int(has[run] or 0) for run in runs], [history.moments[run] for run in runs]
    )
    if span is None:
        return first, begin
    return min(first, runs[span[0] - 1]), max(begin, runs[span[1]])


def _day_text(day: int) -> str:
    return datetime.date.fromordinal(day).isoformat()
