"""The notation of figures in every document: milliseconds, seconds, bytes, shares,
bandwidths, ratios, dimensions.

All of them have three significant digits and no exponent. ``Notation`` has the
signs that differ between formats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from fusiondoc.model import dataclass

T = TypeVar("T")

LEAST_SHARE = 0.005
"""A smaller share rounds to 0 %."""

_SMALL_FACTOR = 0.05

_MICROSECONDS_BELOW = 0.01
"""Limit in milliseconds; a shorter time is written in microseconds."""


@dataclass(frozen=True)
class Notation:
    """The signs of a format.

    Args:
        unknown: the sign for an unknown value.
        by: joins dimensions.
        duration: writes milliseconds with a unit.
    """

    unknown: str
    by: str
    duration: Callable[[float], str]

    def known(self, value: T | None, write: Callable[[T], str]) -> str:
        """Return the value as ``write`` writes it, or the sign for an unknown
        one."""
        if value is None:
            return self.unknown
        return write(value)

    def count(self, number: int | None) -> str:
        """``1,024``."""
        return self.known(number, whole)

    def dimensions(self, extents: tuple[int, int, int] | None) -> str:
        """Return ``128×4``: launch dimensions without trailing ones."""
        if extents is None:
            return self.unknown
        used = list(extents)
        while len(used) > 1 and used[-1] == 1:
            used.pop()
        return self.by.join(map(str, used))


def digits(value: float) -> str:
    """Three significant digits without an exponent: ``1,125``, ``33.1``,
    ``0.276``."""
    if abs(value) >= 100 or not math.isfinite(value):
        return f"{value:,.0f}"
    if not value:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    if "." in text:
        return text.rstrip("0").rstrip(".")
    return text


def whole(value: float) -> str:
    """``1,024``."""
    return f"{value:,.0f}"


def tenths(value: float) -> str:
    """Return ``85.0``: for a column of figures of similar size, whose decimal
    points are aligned."""
    return f"{value:,.1f}"


def milliseconds(ms: float) -> str:
    """``33.1 ms``, ``1,125 ms``, ``4.2 us``."""
    if ms < _MICROSECONDS_BELOW:
        return f"{digits(ms * 1e3)} us"
    return f"{digits(ms)} ms"


def seconds(value: float) -> str:
    """Return a time with a suitable unit: ``4.2 µs``, ``33.1 ms``, ``12.5 s``."""
    if value < 1e-3:
        return f"{digits(value * 1e6)} µs"
    if value < 1:
        return f"{digits(value * 1e3)} ms"
    return f"{digits(value)} s"


def _of_a_page(ms: float) -> str:
    return seconds(ms / 1e3)


TERMINAL = Notation(unknown="-", by="x", duration=milliseconds)
PAGE = Notation(unknown="–", by="×", duration=_of_a_page)
"""The notation of Markdown and HTML."""


def size(number: int) -> str:
    """Bytes with a unit of powers of 1000: ``512 B``, ``1.04 MB``."""
    if number < 1000:
        return f"{number} B"
    value = number / 1000
    for unit in ("KB", "MB"):
        if value < 999.5:
            return f"{digits(value)} {unit}"
        value /= 1000
    return f"{digits(value)} GB"


def megabytes(number: int) -> str:
    """Return the figure of a column with the head MB."""
    value = number / 1e6
    if value >= 0.1:
        return tenths(value)
    return digits(value)


def percent(value: float) -> str:
    """Return ``79 %``, for pages and sentences."""
    return f"{100 * value:.0f} %"


def short_percent(value: float) -> str:
    """Return ``79%``, for lines and tables with little room."""
    return f"{value:.0%}"


def share(value: float) -> str:
    """Return ``79 %``; a share above 0 is never written as 0."""
    if 0 < value < LEAST_SHARE:
        return "< 1 %"
    return percent(value)


def bandwidth(gb_per_s: float) -> str:
    """``1,935 GB/s``."""
    return f"{whole(gb_per_s)} GB/s"


def factor(value: float) -> str:
    """Return ``1.64``; a small factor has enough digits to differ from 0."""
    if abs(value) >= _SMALL_FACTOR:
        return f"{value:.2f}"
    return digits(value)


def ratio(value: float) -> str:
    """``1.64×``."""
    return f"{factor(value)}×"


def interval(
    low: float, high: float, write: Callable[[float], str] = factor
) -> str:
    """``1.60 to 1.68``."""
    return f"{write(low)} to {write(high)}"


def difference(value: float) -> str:
    """Return ``1.2e-07``: the difference of two results, of which the order of
    magnitude matters."""
    return f"{value:.2g}"
