"""Explanations of why some runs of a model lack a group: a change in time, or of a
factor that runs record.

An explanation has a scope (all runs, or those on one GPU, driver ...) and a cause
within it: newer values of a factor, some values of it, or just a day. Each has the
evidence (share_changes.py) of its stretches of runs, and a cost for the number of
explanations that were tried.
"""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.workflows.share_changes import (
    Slope,
    best_slope,
    best_split,
    evidence,
)

DATE = "date"
HALF = 0.5
"""Least share of the runs at which a group counts as present."""
SURE = 10.0
"""Least likelihood ratio for a group to count as having come, or come back."""
LEAST_LACKING = 2
"""Least number of runs that lack it: a single run can have any reason."""
EARLY = 0.1
EARLY_OF_OTHERS = 0.25
"""Least share of the runs with a group that precede those without it, for the
latter to count as later: EARLY for newer versions, this for values without an
order."""
BY_CHANCE = 0.01
"""Probability in random order below which the order counts as no chance."""
MOSTLY = 0.9
"""Share of the runs with a group that is enough instead, if there are few runs."""
LEAST_SLOPE, MOST_SLOPE = 0.1, 0.98
"""Fall of the share at a single run for which a gradual change is considered: a
larger fall was sudden."""
MOST_SCOPES = 24
MOST_SEVERAL = 12
"""Most values of a factor for which a cause can be any subset of them, and not only
the newer ones."""


@dataclass(frozen=True)
class RunFactor:
    """A fact that runs record, with its values."""

    name: str
    values: tuple[str, ...]
    """In the order of their first occurrence."""
    codes: tuple[int, ...]
    """For each run the index of its value; -1 where it is not known."""
    ordered: bool
    """True if the values have an order, newer after older; GPUs have none."""
    scope: bool
    """True if runs with one value of it may lose groups that others keep."""


class Scope(NamedTuple):
    """The runs among which a loss is looked for."""

    values: tuple[tuple[str, str], ...]
    """Factor and value that define these runs: several pairs if they define the
    same runs; empty for all runs."""
    runs: tuple[int, ...]


@dataclass(frozen=True)
class RunHistory:
    """The runs of a model in the order of time, or of versions if no run has a
    date."""

    moments: tuple[str, ...]
    """``2025-03-04T12:30:00`` or ``2025-03-04``; for runs without a date, the text
    that orders them."""
    dated: bool
    factors: tuple[RunFactor, ...]
    scopes: tuple[Scope, ...] = ()

    @property
    def runs(self) -> int:
        return len(self.moments)

    def day(self, run: int) -> int:
        """The day of a run, as a number."""
        return datetime.date.fromisoformat(self.moments[run][:10]).toordinal()


def scopes_of(runs: int, factors: Sequence[RunFactor]) -> tuple[Scope, ...]:
    """All runs, then the runs with one value of a factor, if these are some of
    them."""
    values: dict[tuple[int, ...], list[tuple[str, str]]] = {}
    for factor in factors:
        if not factor.scope:
            continue
        members: dict[int, list[int]] = defaultdict(list)
        for run, code in enumerate(factor.codes):
            members[code].append(run)
        for code, found in sorted(members.items()):
            if code >= 0 and 4 <= len(found) < runs:
                values.setdefault(tuple(found), []).append(
                    (factor.name, factor.values[code])
                )
    largest = sorted(values, key=lambda found: (-len(found), values[found]))[
        :MOST_SCOPES
    ]
    return (
        Scope((), tuple(range(runs))),
        *(Scope(tuple(values[found]), found) for found in largest),
    )


@dataclass
class Explanation:
    scope: Scope
    by: str
    after: frozenset[int]
    raw_evidence: float
    """The evidence for it if it was the only explanation tried."""
    cost: float
    came_later: bool
    slope: Slope | None = None
    before: frozenset[int] = field(default_factory=frozenset)

    @property
    def evidence(self) -> float:
        return self.raw_evidence - self.cost


class Holders:
    """The runs that have a group, among some runs."""

    def __init__(
        self, history: RunHistory, has: Sequence[int | None], runs: Sequence[int]
    ) -> None:
        self.history = history
        self.has = has
        self.runs = [run for run in runs if has[run] is not None]
        self.of = [int(has[run] or 0) for run in self.runs]
        self.moments = [history.moments[run] for run in self.runs]
        self.having = sum(self.of)

    def without(self, left_out: frozenset[int]) -> Holders:
        return Holders(
            self.history,
            self.has,
            [run for run in self.runs if run not in left_out],
        )

    def since_it_came(self) -> Holders:
        """The runs since most of them have it: earlier it did not exist, and could
        not be lost."""
        if not self.having or not self.history.dated:
            return self
        first = self.of.index(1)
        found = Holders(self.history, self.has, self.runs[first:])
        split = best_split(found.of, found.moments)
        if split is None:
            return found
        left, right = found.of[: split.at], found.of[split.at :]
        gain = (
            split.evidence
            - evidence(found.having, len(found.of))
            - math.log(split.choices)
        )
        if (
            gain > math.log(SURE)
            and share_of(left) < HALF
            and share_of(right) > share_of(left)
        ):
            return Holders(self.history, self.has, found.runs[split.at :])
        return found


def share_of(has: Sequence[int]) -> float:
    if has:
        return sum(has) / len(has)
    return 0.0


def explanations(left: Holders, scope: Scope, cost: float) -> Iterator[Explanation]:
    """An explanation for each factor and one for time, within a scope; ``cost`` is
    that of choosing the scope."""
    members = frozenset(scope.runs)
    inside = Holders(
        left.history, left.has, [run for run in left.runs if run in members]
    )
    outside = len(left.runs) - len(inside.runs), left.having - inside.having
    lacking = len(inside.runs) - inside.having
    if lacking < LEAST_LACKING or inside.having < LEAST_LACKING:
        return
    rest = evidence(outside[1], outside[0])
    cost += math.log(len(left.history.factors) + 1)
    if left.history.dated:
        yield from _in_time(inside, scope, rest, cost)
    own = {name for name, _ in scope.values}
    for factor in left.history.factors:
        if factor.name not in own:
            yield from _by_factor(inside, scope, factor, rest, cost)


def _in_time(
    inside: Holders, scope: Scope, rest: float, cost: float
) -> Iterator[Explanation]:
    split = best_split(inside.of, inside.moments)
    if split is None:
        return
    before, after = (
        frozenset(inside.runs[: split.at]),
        frozenset(inside.runs[split.at :]),
    )
    raw_evidence, of_split = split.evidence + rest, cost + math.log(split.choices)
    yield Explanation(
        scope, DATE, after, raw_evidence, of_split, True, None, before
    )
    fell = sum(inside.of[: split.at]) / split.at - share_of(inside.of[split.at :])
    gain = (
        split.evidence
        - math.log(split.choices)
        - evidence(inside.having, len(inside.of))
    )
    if gain < math.log(SURE) or not LEAST_SLOPE < fell < MOST_SLOPE:
        return
    days = [inside.history.day(run) for run in inside.runs]
    slope = best_slope(inside.of, days)
    if slope is not None and slope.evidence - cost + rest > raw_evidence - of_split:
        before = frozenset(
            run for run, day in zip(inside.runs, days) if day < slope.begin
        )
        after = frozenset(
            run for run, day in zip(inside.runs, days) if day >= slope.end
        )
        yield Explanation(
            scope, DATE, after, slope.evidence + rest, cost, True, slope, before
        )


def _by_factor(
    inside: Holders, scope: Scope, factor: RunFactor, rest: float, cost: float
) -> Iterator[Explanation]:
    """The best separation of the factor's values with the group from those without
    it."""
    runs: dict[int, int] = defaultdict(int)
    having: dict[int, int] = defaultdict(int)
    for run, has in zip(inside.runs, inside.of):
        runs[factor.codes[run]] += 1
        having[factor.codes[run]] += has
    unknown = evidence(having.pop(-1, 0), runs.pop(-1, 0))
    codes = sorted(runs)
    if len(codes) < 2:
        return
    best = _best_way(factor, codes, runs, having)
    if best is None:
        return
    value, choices, lost = best
    known = [run for run in inside.runs if factor.codes[run] >= 0]
    after = frozenset(run for run in known if factor.codes[run] in lost)
    before = frozenset(known) - after
    later = factor.ordered and min(lost) > max(set(codes) - lost)
    if inside.history.dated:
        later = _came_later(inside, before, after, later)
    yield Explanation(
        scope,
        factor.name,
        after,
        value + unknown + rest,
        cost + choices,
        later,
        None,
        before,
    )


def _best_way(
    factor: RunFactor,
    codes: Sequence[int],
    runs: Mapping[int, int],
    having: Mapping[int, int],
) -> tuple[float, float, frozenset[int]] | None:
    """The set of values without the group with most evidence, less the logarithm of
    the number of possible sets."""
    all_having, all_runs = sum(having.values()), sum(runs.values())
    best: tuple[float, float, frozenset[int]] | None = None
    for choices, lost in _ways(factor, codes, runs, having):
        lost_having, lost_runs = (
            sum(having[code] for code in lost),
            sum(runs[code] for code in lost),
        )
        value = evidence(lost_having, lost_runs)
        value += evidence(all_having - lost_having, all_runs - lost_runs)
        if best is None or value - choices > best[0] - best[1]:
            best = (value, choices, lost)
    return best


def _ways(
    factor: RunFactor,
    codes: Sequence[int],
    runs: Mapping[int, int],
    having: Mapping[int, int],
) -> Iterator[tuple[float, frozenset[int]]]:
    """Possible sets of values without the group, with the logarithm of their
    number."""
    newer = [frozenset(codes[at:]) for at in range(1, len(codes))]
    if factor.ordered:
        cost = math.log(len(newer))
        if len(codes) > MOST_SEVERAL:
            for lost in newer:
                yield cost, lost
            return
        # Newer values, or a single one of them: both kinds are equally likely.
        if len(codes) > 2:
            cost += math.log(2)
        for lost in newer:
            yield cost, lost
        if len(codes) > 2:
            cost = math.log(2 * len(codes))
            for code in codes:
                yield cost, frozenset({code})
        return
    by_share = sorted(codes, key=lambda code: (having[code] / runs[code], code))
    if len(codes) <= MOST_SEVERAL:
        several = len(codes) * math.log(2)
    else:
        several = math.log(len(codes)) * 4
    for at in range(1, len(by_share)):
        yield several, frozenset(by_share[:at])


def _came_later(
    inside: Holders, before: frozenset[int], after: frozenset[int], newer: bool
) -> bool:
    """True if the values of ``after`` did not exist from the beginning: many other
    runs precede them. A newer version may have been tried early; a GPU that was
    used early was available all the time."""
    early = len(after) // 20 if newer else 0
    others = seen = 0
    for run in inside.runs:
        if run in after:
            seen += 1
            if seen > early:
                break
        elif run in before:
            others += 1
    if others < max(
        LEAST_LACKING, (EARLY if newer else EARLY_OF_OTHERS) * len(before)
    ):
        return False
    share = len(after) / (len(after) + len(before))
    return _at_most(
        early, others + early, share
    ) < BY_CHANCE or others >= MOSTLY * len(before)


def _at_most(few: int, runs: int, share: float) -> float:
    """The probability of at most ``few`` among ``runs`` runs, each with probability
    ``share``."""
    if not 0 < share < 1:
        return float(share == 0)
    ways = []
    for n in range(few + 1):
        ways.append(
            math.lgamma(runs + 1) - math.lgamma(n + 1) - math.lgamma(runs - n + 1)
        )
    logs = (
        log_ways + n * math.log(share) + (runs - n) * math.log(1 - share)
        for n, log_ways in enumerate(ways)
    )
    return sum(map(math.exp, logs))
