"""Medians of rounds, their intervals, and the ratio of two variants that ran in turns."""

from __future__ import annotations

from math import comb
from typing import Sequence

from fusiondoc.model.bench import PROCESS_SPREAD, Measured, Ratio

CONFIDENCE = 0.95
LEAST_ROUNDS = 6
"""Fewer have no 95 % interval of a median: all six above it has a chance of 1 in 64."""


def rank_of_interval(rounds: int) -> int:
    """The interval of a median goes from the value of this rank to that of the same rank from the top.

    From the binomial distribution of how many values lie below the median, so nothing is assumed about how
    the times are spread. 0: too few rounds, the interval is unknown.
    """
    below, rank = 0.0, 0
    for k in range(rounds // 2):
        below += comb(rounds, k) / 2**rounds
        if 2 * below > 1 - CONFIDENCE:
            break
        rank = k + 1
    return rank


def measured(values: Sequence[float]) -> Measured:
    """Median and interval; with too few values from the least to the largest.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = max(1, rank_of_interval(len(ordered)))
    return Measured(_median(ordered), ordered[rank - 1], ordered[-rank])


def measured_in(processes: Sequence[Sequence[float]]) -> Measured:
    """Median and interval of the rounds of all processes; the interval is at least as wide as the medians of
    the processes lie apart.

    Raises:
        ValueError: there is no round.
    """
    whole = measured([value for one in processes for value in one])
    apart = [_median(sorted(one)) for one in processes if one]
    return Measured(whole.median, min(whole.low, *apart), max(whole.high, *apart))


def ratio(eager: Sequence[float], variant: Sequence[float]) -> Ratio:
    """How many times as fast the variant is: the median of the ratios of rounds that ran in one turn.

    Args:
        eager: time of a step in each round; the n-th is of the same turn as the n-th of ``variant``.

    Raises:
        ValueError: no round is in both.
    """
    both = measured([one / other for one, other in zip(eager, variant)])
    return Ratio(both.median, both.low * (1 - PROCESS_SPREAD), both.high * (1 + PROCESS_SPREAD))


def of_processes(eager: Sequence[Sequence[float]], variant: Sequence[Sequence[float]]) -> Ratio:
    """The ratio over several processes of each: the interval of all rounds, and at least as wide as the
    processes differ from one another. Where the host is the limit, two processes of one program differ by far
    more than the rounds of each.

    Args:
        eager: rounds of each process; its n-th process is held against the n-th of ``variant``.

    Raises:
        ValueError: no round is in both.
    """
    pairs = [pair for one, other in zip(eager, variant) for pair in zip(one, other)]
    whole = ratio([one for one, _ in pairs], [other for _, other in pairs])
    apart = [
        _median(sorted(one)) / _median(sorted(other)) for one in eager if one for other in variant if other
    ]
    return Ratio(whole.value, min(whole.low, *apart), max(whole.high, *apart))


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
