"""Comparison of the code of two kernels: their lines with values, names and
addresses normalised, and the types of their parameters."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from functools import lru_cache

from fusiondoc.fusers import kernel_names

_VALUE = re.compile(
    r"0x[0-9a-fA-F]{9,}"  # an address; shorter ones are masks
    rf"|(?<![\w.])(?P<kernel>{'|'.join(kernel_names())})"
    r"|(?<![\w.])[A-Za-z]{1,2}\d+\b"
    r"|(?<![\w.])[A-Za-z_]\w*_\d+\b"
)
_PARAMETERS = re.compile(
    r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?\w+\s*\((.*?)\)\s*\{",
    re.DOTALL,
)

_MOST_LINES = 1500
"""Most lines for a text diff; beyond that lines are counted without order."""


@lru_cache(maxsize=8192)
def normalised(code: str) -> tuple[str, ...]:
    """The non-empty lines of the code, with values numbered by order of first
    use."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()

    def rename(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("0x"):
            return "ADDRESS"
        if match["kernel"] is not None:
            return "KERNEL"
        known = names.get(word)
        if known is None:
            stem = word.rstrip("0123456789")
            known = names[word] = f"{stem}#{counts[stem]}"
            counts[stem] += 1
        return known

    lines = []
    for line in (raw.strip() for raw in _VALUE.sub(rename, code).splitlines()):
        if line:
            lines.append(line)
    return tuple(lines)


@lru_cache(maxsize=8192)
def signature(code: str) -> str | None:
    """The types of the kernel's parameters, sorted: its inputs and outputs. None if
    there are none."""
    found = _PARAMETERS.search(code)
    if found is None:
        return None
    types = []
    for part in re.split(r",\s*(?![^<]*>)", found[1]):
        types.append(" ".join(part.split()[:-1]))
    return ", ".join(sorted(types))


def likeness(a: str, b: str) -> float:
    """Share of lines that two codes have in common, from 0 to 1."""
    x, y = Counter(normalised(a)), Counter(normalised(b))
    return 2 * sum((x & y).values()) / max(1, sum(x.values()) + sum(y.values()))


def changed_lines(a: str, b: str) -> tuple[int, int]:
    """Number of lines that only A has, and that only B has."""
    x, y = normalised(a), normalised(b)
    if x == y:
        return 0, 0
    if max(len(x), len(y)) > _MOST_LINES:
        left, right = Counter(x), Counter(y)
        return sum((left - right).values()), sum((right - left).values())
    gone = added = 0
    for tag, i, i_end, j, j_end in SequenceMatcher(
        None, x, y, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            gone += i_end - i
            added += j_end - j
    return gone, added
