"""Change points of a share: where the share of runs with some property changes.
This file has only the statistics, without groups.

A stretch of runs is judged by its marginal likelihood: each run has the property
with an unknown probability that is likely near 0 or 1 (a Beta prior), as fusion is
not random. A change is compared with no change by this evidence, for any number of
runs (Kass and Raftery, Bayes Factors, JASA 90, 1995), and every tested position of
a change counts against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

PRIOR = 0.02
"""Both parameters of the Beta distribution. The smaller, the fewer differences
count as chance."""

PLAUSIBLE = 0.95
"""Probability that the change lies at one of the plausible indices."""

MOST_PLACES = 40
"""Positions at which a gradual change may begin or end."""

_LOG_GAMMA: tuple[list[float], list[float]] = ([], [])
_OF_NOTHING = 2 * math.lgamma(PRIOR) - math.lgamma(2 * PRIOR)


def _log_gamma(which: int, number: int) -> float:
    """Logarithm of gamma of ``number`` and the prior, once (0) or twice (1)."""
    known = _LOG_GAMMA[which]
    while len(known) <= number:
        known.append(math.lgamma(len(known) + PRIOR * (which + 1)))
    return known[number]


def evidence(having: int, runs: int) -> float:
    """Logarithm of the marginal likelihood of a stretch with ``having`` of
    ``runs``."""
    both = _log_gamma(0, having) + _log_gamma(0, runs - having)
    return both - _log_gamma(1, runs) - _OF_NOTHING


def likelihood(having: float, runs: int, share: float) -> float:
    """Logarithm of the likelihood of a stretch whose share is known."""
    share = min(max(share, 0.005), 0.995)
    return having * math.log(share) + (runs - having) * math.log(1 - share)


class Split(NamedTuple):
    """A change between two runs."""

    evidence: float
    at: int
    """Index of the first run after it."""
    choices: int
    """Number of possible indices."""


def sums_of(has: Sequence[int]) -> list[int]:
    """``sums[n]``: how many of the first n runs have the property."""
    sums = [0]
    for value in has:
        sums.append(sums[-1] + value)
    return sums


def best_split(has: Sequence[int], moments: Sequence[str]) -> Split | None:
    """The most likely change in time; None if all runs are from one moment."""
    splits = _splits(has, moments)
    if not splits:
        return None
    score, index = max(splits, key=lambda split: split[0])
    return Split(score, index, len(splits))


def _splits(has: Sequence[int], moments: Sequence[str]) -> list[tuple[float, int]]:
    """Each index at which the share may change, with the evidence for a change
    there."""
    sums = sums_of(has)
    runs, having = len(has), sums[-1]
    found = []
    for index in range(1, runs):
        if moments[index] != moments[index - 1]:
            score = evidence(sums[index], index) + evidence(
                having - sums[index], runs - index
            )
            found.append((score, index))
    return found


def plausible_indices(
    has: Sequence[int], moments: Sequence[str]
) -> tuple[int, int] | None:
    """The first and last plausible index of one change in time, by the profile of
    the likelihood; None if all runs are from one moment."""
    splits = _splits(has, moments)
    if splits:
        return _likeliest(splits)
    return None


def _likeliest(found: Sequence[tuple[float, int]]) -> tuple[int, int]:
    """The first and last of the likeliest indices whose probabilities sum up to
    ``PLAUSIBLE``; each comes with the logarithm of its likelihood."""
    most = max(found)[0]
    chances = []
    for score, index in found:
        chances.append((math.exp(score - most), index))
    chances.sort(reverse=True)
    wanted = PLAUSIBLE * sum(chance for chance, _ in chances)
    indices: list[int] = []
    for chance, index in chances:
        indices.append(index)
        wanted -= chance
        if wanted <= 0:
            break
    return min(indices), max(indices)


class Slope(NamedTuple):
    """A gradual change: the share goes from one level to another between two
    days."""

    evidence: float
    begin: int
    end: int
    earliest: int
    """The first day on which it plausibly begins."""
    latest: int


def best_slope(has: Sequence[int], days: Sequence[int]) -> Slope | None:
    """The most likely gradual change; None if there are too few days. Args: days:
    of each run, ascending.
    """
    numbers = sorted(set(days))
    index = {day: nth for nth, day in enumerate(numbers)}
    having, runs = [0] * len(numbers), [0] * len(numbers)
    for value, day in zip(has, days):
        having[index[day]] += value
        runs[index[day]] += 1
    step = max(1, len(numbers) // MOST_PLACES)
    indices = range(step, len(numbers), step)
    if len(indices) < 8:
        return None
    stretches = _Stretches(numbers, having, runs)
    found = []
    for first in indices:
        for last in indices:
            if first < last:
                found.append((stretches.slope(first, last), first, last))
    score, begin, end = max(found)
    earliest, latest = _likeliest([span[:2] for span in found])
    # Two levels, and two days among those that were tried.
    cost = math.log(len(has)) + math.log(len(found))
    return Slope(
        score - cost,
        numbers[begin],
        numbers[end],
        numbers[earliest],
        numbers[latest],
    )


class _Stretches:
    """Runs by day."""

    def __init__(
        self, days: Sequence[int], having: Sequence[int], runs: Sequence[int]
    ) -> None:
        self._days = days
        self._having, self._runs = having, runs
        self._sums = sums_of(having), sums_of(runs)

    def slope(self, begin: int, end: int) -> float:
        """Log-likelihood of one level up to ``begin``, another from ``end`` on, a
        straight line between."""
        having, runs = self._sums
        after_having, after_runs = having[-1] - having[end], runs[-1] - runs[end]
        first, last = having[begin] / runs[begin], after_having / after_runs
        score = likelihood(having[begin], runs[begin], first) + likelihood(
            after_having, after_runs, last
        )
        length = self._days[end] - self._days[begin] + 1
        for at in range(begin, end):
            share = (
                first
                + (last - first)
                * (self._days[at] - self._days[begin] + 0.5)
                / length
            )
            score += likelihood(self._having[at], self._runs[at], share)
        return score
