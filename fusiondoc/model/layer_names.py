"""Layers for reading: paths that differ in numbers only become one, and which layers a kernel runs."""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Tuple

from fusiondoc.model.report import Report

_NUMBER = re.compile(r"(\d+)")
_Numbers = Tuple["tuple[int, ...]", ...]
"""The numbers at each place of a path that are folded into it."""


def fold(layers: Iterable[str | None]) -> list[str]:
    """``encoder.layer.[0-11].output`` for the twelve paths that differ in this number only.

    In the order of the first ones. Paths with several numbers fold where all combinations are there:
    ``layer[1-4].[0-1].bn1``.
    """
    skeletons: dict[tuple[str, ...], dict[_Numbers, None]] = {}
    for layer in layers:
        if layer:
            parts = _NUMBER.split(layer)
            numbers = tuple((int(number),) for number in parts[1::2])
            plain = all(number == str(int(number)) for number in parts[1::2])
            key = tuple(parts[::2]) if plain else (layer,)
            skeletons.setdefault(key, {})[numbers if plain else ()] = None
    return [
        _written(texts, numbers) for texts, several in skeletons.items() for numbers in _merged(list(several))
    ]


def folded(layers: Iterable[str | None], most: int = 3) -> str:
    """The same in one text; "" without a layer. At most ``most`` patterns are written out."""
    patterns = fold(layers)
    left = len(patterns) - most
    if left > 0:
        return ", ".join(patterns[:most]) + f" and {left:,} more"
    return ", ".join(patterns)


def _merged(rows: list[_Numbers]) -> list[_Numbers]:
    """The last number is folded first."""
    for place in reversed(range(len(rows[0]))):
        others: dict[tuple[_Numbers, _Numbers], list[int]] = {}
        for row in rows:
            others.setdefault((row[:place], row[place + 1 :]), []).extend(row[place])
        rows = [(*before, tuple(sorted(set(here))), *after) for (before, after), here in others.items()]
    return rows


def _written(texts: tuple[str, ...], numbers: _Numbers) -> str:
    written = texts[0]
    for several, text in zip(numbers, texts[1:]):
        written += (str(several[0]) if len(several) == 1 else f"[{_ranges(several)}]") + text
    return written


def _ranges(numbers: tuple[int, ...]) -> str:
    """``0-2,5`` of 0, 1, 2, 5."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def layers_of_kernels(report: Report) -> Mapping[str, tuple[str, ...]]:
    """Of each kernel (by id) the layers of the instances that it runs; of its groups where that is not
    known."""
    found: dict[str, dict[str, None]] = {}
    for group in report.groups:
        told = any(one.kernels for one in group.instances)
        for one in group.instances:
            for kernel in (one.kernels if told else group.kernels) if one.layer else ():
                found.setdefault(kernel, {})[str(one.layer)] = None
    return {kernel: tuple(layers) for kernel, layers in found.items()}
