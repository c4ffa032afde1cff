"""Modules as a file of expectations names them: ``encoder.layer.*.output``, ``encoder.layer.[0-11]``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Sequence

from fusiondoc.model.report import Group, Instance

_NUMBERS = re.compile(r"\[([0-9,-]+)\]")


def instances_in(group: Group, patterns: Sequence[str]) -> tuple[Instance, ...]:
    """The instances of a group that are in one of these modules; all of them without a pattern."""
    if not patterns:
        return group.instances
    return tuple(
        one
        for one in group.instances
        if one.layer is not None and any(is_in_layer(one.layer, pattern) for pattern in patterns)
    )


def is_in_layer(layer: str, pattern: str) -> bool:
    """Whether a module is the one that the pattern names, or inside it.

    ``*`` is any text without a dot, ``[0-3,7]`` are numbers, as reports fold them.
    """
    found = _compiled(pattern).match(layer)
    return found is not None and all(
        _among(int(number), ranges)
        for number, ranges in zip(found.groups(), (one.group(1) for one in _NUMBERS.finditer(pattern)))
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _NUMBERS.split(pattern)
    texts = (re.escape(text).replace(r"\*", "[^.]*") for text in parts[::2])
    return re.compile("([0-9]{1,9})".join(texts) + r"(?:\.|\Z)")


def _among(number: int, ranges: str) -> bool:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        if int(first) <= number <= int(last or first):
            return True
    return False
