"""Numbers in text from outside: logs, records, traces, versions, names of files.

No other module converts such text to numbers (tests/test_numbers.py): ``int`` and
``float`` accept too much. ``int`` raises for more than 4300 digits from Python 3.11
on, takes the square of their number in time before that, and takes the digits of
every script. ``float`` takes ``nan`` and ``1e200``, whose products overflow. Here a
number that is out of bounds is treated as any other text: None, and never an
exception.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

BITS_64 = 1 << 64
LARGEST = 1 << 63
"""Upper bound of integers: sizes and counts of torch have 64 bits and a sign
(``int64_t``)."""

_MOST_DIGITS = 20
"""Most digits of a number of 64 bits."""

MOST_FIGURE = 1e15
LEAST_FIGURE = 1e-15
"""Measured values lie between these two, or are 0: 1e15 ms are 31,000 years. So no
product or ratio of a few figures overflows."""

_MOST_TEXT = 40
_FIGURE = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")


def whole_number(text: str | bytes, below: int = LARGEST) -> int | None:
    """Parse a whole number.

    Args:
        text: decimal digits of ASCII, with or without a minus before them.
        below: exclusive upper bound; BITS_64 for an unsigned number.

    Returns:
        None for any other text, and for a number of more than 64 bits.
    """
    written = text if isinstance(text, str) else text.decode("ascii", "replace")
    digits = written[1:] if written[:1] == "-" else written
    if len(digits) > _MOST_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    value = int(written)
    if -LARGEST <= value < below:
        return value
    return None


def whole_numbers(texts: Iterable[str | bytes]) -> list[int]:
    """The numbers of the texts that ``whole_number`` accepts."""
    numbers = map(whole_number, texts)
    return [number for number in numbers if number is not None]


def all_whole(texts: Iterable[str | bytes]) -> tuple[int, ...] | None:
    """The numbers of all texts; None if one of them is no number."""
    numbers = tuple(map(whole_number, texts))
    known = tuple(number for number in numbers if number is not None)
    if len(known) == len(numbers):
        return known
    return None


def pair_of(found: re.Match[str] | None) -> tuple[int, int] | None:
    """The two numbers that a pattern matched, such as a version's; None if it did
    not match."""
    numbers = all_whole(found.groups()[:2]) if found is not None else None
    if numbers is not None and len(numbers) == 2:
        return numbers[0], numbers[1]
    return None


def version_pair(text: str) -> tuple[int, int] | None:
    """(2, 1) for "2.1", "2.1.2+cu121" or "2.1.0a0+git1234"; None if it is no
    version."""
    return pair_of(re.match(r"\s*v?(\d+)\.(\d+)(?![\d])", text))


def figure(text: str | bytes) -> float | None:
    """Parse a measured value as C++ and Python print it (``0.25``, ``1.5e-05``).

    Returns: None for any other text (``inf`` and ``nan`` of a launch too short for
        the timer), and for a number that is not between LEAST_FIGURE and
        MOST_FIGURE.
    """
    written = text if isinstance(text, str) else text.decode("ascii", "replace")
    if len(written) > _MOST_TEXT or _FIGURE.match(written) is None:
        return None
    value = float(written)
    if value == 0 or LEAST_FIGURE <= abs(value) <= MOST_FIGURE:
        return value
    return None


def is_figure(value: float) -> bool:
    """True if a number of a JSON file can be used: finite, and at most 64 bits if
    it is integral.

    Python's ``json`` reads ``1e400``, ``Infinity`` and whole numbers of any length,
    which no report has and which overflow in a division.
    """
    if isinstance(value, int):
        return -LARGEST <= value < LARGEST
    return math.isfinite(value)


def as_count(value: float) -> int | None:
    """A product or sum of figures as an integer, such as bytes; None if it is too
    large."""
    if abs(value) < LARGEST:
        return round(value)
    return None


_DIGITS = re.compile(r"([0-9]+)")


def in_natural_order(text: str) -> list[tuple[int, str]]:
    """A key to sort names by: ``kernel10`` comes after ``kernel9``. A number may
    have any length: the one with more digits is the larger."""
    key = []
    for index, part in enumerate(_DIGITS.split(text)):
        digits = part.lstrip("0") if index % 2 else ""
        key.append((len(digits), digits) if index % 2 else (0, part))
    return key
