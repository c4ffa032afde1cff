"""Slower, faster or neither: two measurements with their spread."""

from __future__ import annotations

from math import isclose, isfinite
from typing import Sequence

from fusiondoc.comparison.differences import SpeedChange
from fusiondoc.model.report import Kernel
from fusiondoc.model.runs import Spread

LEAST_LAUNCHES = 2
"""A single launch has no spread, so it proves nothing."""

SAME_BYTES = 0.01
"""nvFuser prints six digits of both figures."""


def speed_change(a: Spread | None, b: Spread | None, threshold: float) -> SpeedChange | None:
    """Two times in milliseconds; None where a side has none.

    Slower: the median is more than ``threshold`` (0.1 is 10 %) above A's, even the fastest of B took longer
    than the median of A, and the medians are further apart than the median of A is from its fastest. Nothing
    makes a launch faster by chance, while a busy machine makes some slower: so minimum and median decide, and
    the maximum does not. Faster is the same from B to A.
    """
    if a is None or b is None or not all(map(isfinite, (a.min, a.median, b.min, b.median))):
        return None
    ratio = b.median / a.median if a.median > 0 else None
    change = None
    if _slower(a, b, threshold):
        change = "slower"
    elif _slower(b, a, threshold):
        change = "faster"
    return SpeedChange(a, b, ratio, change)


def _slower(a: Spread, b: Spread, threshold: float) -> bool:
    apart = b.median - a.median
    return apart > a.median * threshold and b.min > a.median and apart > a.median - a.min


def rate_change(a: Spread | None, b: Spread | None, threshold: float) -> str | None:
    """ "higher" or "lower" of two bandwidths, by the same rule: the maximum takes the part of the minimum."""
    if a is None or b is None:
        return None
    if a.median > b.median * (1 + threshold) and b.max < a.median:
        return "lower"
    if b.median > a.median * (1 + threshold) and a.max < b.median:
        return "higher"
    return None


def measured(kernel: Kernel) -> Spread | None:
    """The time of a launch, where it was measured often enough to have a spread."""
    if kernel.ms is None or (kernel.launches is not None and kernel.launches < LEAST_LAUNCHES):
        return None
    return kernel.ms


def rate(kernel: Kernel) -> Spread | None:
    """The bandwidth of a launch, where it was measured often enough to have a spread."""
    if kernel.gb_per_s is None or (kernel.launches is not None and kernel.launches < LEAST_LAUNCHES):
        return None
    return kernel.gb_per_s


def counted_bytes(kernel: Kernel) -> float | None:
    """The bytes that nvFuser counted to tell the bandwidth: it counts others in other versions, and then
    bandwidths say nothing about speed."""
    if kernel.ms is None or kernel.gb_per_s is None:
        return None
    # The fastest launch has the highest bandwidth, unless launches move different bytes.
    fastest = kernel.ms.min * kernel.gb_per_s.max * 1e6
    slowest = kernel.ms.max * kernel.gb_per_s.min * 1e6
    return fastest if isclose(fastest, slowest, rel_tol=SAME_BYTES) else None


def total(kernels: Sequence[Kernel]) -> Spread | None:
    """The time of one run of all kernels; None unless each was measured."""
    times = [measured(kernel) for kernel in kernels]
    known = [time for time in times if time is not None]
    if not known or len(known) < len(times):
        return None
    return Spread(sum(t.min for t in known), sum(t.median for t in known), sum(t.max for t in known))
