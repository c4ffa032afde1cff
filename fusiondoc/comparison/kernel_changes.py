"""Which kernels of A are which kernels of B (by their groups, code and parameters, never by number), what
changed between them, and kernels that only one side has."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from math import isclose
from typing import Any

from fusiondoc.alignment import candidates, greedy, pair_equal
from fusiondoc.comparison import (
    SAME_BYTES,
    KernelChange,
    KernelRef,
    counted_bytes,
    measured,
    rate,
    rate_change,
    speed_change,
)
from fusiondoc.model.report import Kernel

LEAST_LIKENESS = 0.5
"""Share of equal lines below which two kernels without a group in common are different ones."""

_MOST_CANDIDATES = 20_000

_SAME_PARAMETERS = 0.3
"""What equal inputs and outputs count, in lines: another version may generate quite another code for them."""


def content(kernel: Kernel) -> Any:
    """What a kernel is and did, without its number."""
    return (
        normalised(kernel.code) if kernel.code else None,
        kernel.launches,
        kernel.block,
        kernel.grid,
        kernel.registers,
        kernel.ms,
        kernel.gb_per_s,
    )


def match_kernels(
    a: Sequence[Kernel], b: Sequence[Kernel], clusters: tuple[Mapping[str, int], Mapping[str, int]]
) -> tuple[list[tuple[Kernel, Kernel]], list[Kernel], list[Kernel]]:
    """Pairs, and what is left of A and of B.

    Args:
        clusters: of each side, id of a group -> number of the cluster that it is in.
    """

    def tied(kernel: Kernel) -> frozenset[int]:
        known = clusters[0] if id(kernel) in of_a else clusters[1]
        return frozenset(known[name] for name in kernel.groups if name in known)

    of_a = {id(kernel) for kernel in a}
    left_a, left_b = list(a), list(b)

    def same_code(kernel: Kernel) -> Hashable | None:
        return (tied(kernel), normalised(kernel.code)) if kernel.code else None

    pairs = pair_equal(left_a, left_b, same_code, content)
    pairs += pair_equal(left_a, left_b, lambda k: (tied(k), content(k)))
    pairs += pair_equal(left_a, left_b, lambda k: (tied(k), _work(k)) if _work(k) and not k.code else None)
    pairs += _within_groups(left_a, left_b, tied)
    # A log that is out of order ties no kernel to a group: its code alone tells it.
    pairs += pair_equal(left_a, left_b, lambda k: normalised(k.code) if k.code else None, content)
    loose_a = [kernel for kernel in left_a if not tied(kernel) or not _all_tied(left_b, tied)]
    loose_b = [kernel for kernel in left_b if not tied(kernel) or not _all_tied(left_a, tied)]
    pairs += _remove(_alike(loose_a, loose_b, LEAST_LIKENESS), left_a, left_b)
    return pairs, left_a, left_b


def _work(kernel: Kernel) -> Hashable | None:
    """What tells a kernel without code: how it is launched, and the bytes that nvFuser counts for it (it
    prints six digits)."""
    counted = counted_bytes(kernel)
    if kernel.block is None and counted is None:
        return None
    return (kernel.block, kernel.grid, None if counted is None else f"{counted:.2e}")


def _all_tied(kernels: Sequence[Kernel], tied: Any) -> bool:
    return all(tied(kernel) for kernel in kernels)


def _within_groups(left_a: list[Kernel], left_b: list[Kernel], tied: Any) -> list[tuple[Kernel, Kernel]]:
    """Kernels of the same groups belong together, however much their code changed."""
    rows: tuple[dict[frozenset[int], list[Kernel]], ...] = (defaultdict(list), defaultdict(list))
    for side, kernels in enumerate((left_a, left_b)):
        for kernel in kernels:
            if tied(kernel):
                rows[side][tied(kernel)].append(kernel)
    found: list[tuple[Kernel, Kernel]] = []
    for groups, members in rows[0].items():
        found += _alike(members, rows[1].get(groups, []), 0.0)
    return _remove(found, left_a, left_b)


def _alike(a: Sequence[Kernel], b: Sequence[Kernel], least: float) -> list[tuple[Kernel, Kernel]]:
    if not a or not b:
        return []
    if len(a) * len(b) <= _MOST_CANDIDATES:
        wanted = [(i, j) for i in range(len(a)) for j in range(len(b))]
    else:
        wanted = candidates(a, b, _rough_keys, _MOST_CANDIDATES)
    scored = []
    for i, j in wanted:
        score = _score(a[i], b[j])
        if score >= least:
            scored.append((score, i, j))
    return [(a[i], b[j]) for i, j in greedy(scored)]


def _rough_keys(kernel: Kernel) -> list[Hashable]:
    return [
        ("parameters", signature(kernel.code) if kernel.code else None),
        ("launch", kernel.block, kernel.grid),
    ]


def _score(one: Kernel, other: Kernel) -> float:
    """From 0 to about 1.4: equal lines, and a little for equal parameters and launches."""
    bonus = 0.05 * (one.block == other.block) + 0.05 * (one.grid == other.grid)
    bonus += 0.02 * (one.launches == other.launches)
    if one.code is None or other.code is None:
        known = one.block is not None and one.block == other.block and one.grid == other.grid
        return bonus + (LEAST_LIKENESS if known and one.launches == other.launches else 0.0)
    same_parameters = signature(one.code) is not None and signature(one.code) == signature(other.code)
    return likeness(one.code, other.code) + bonus + _SAME_PARAMETERS * same_parameters


def _remove(
    pairs: list[tuple[Kernel, Kernel]], left_a: list[Kernel], left_b: list[Kernel]
) -> list[tuple[Kernel, Kernel]]:
    gone = {id(kernel) for pair in pairs for kernel in pair}
    for left in (left_a, left_b):
        left[:] = [kernel for kernel in left if id(kernel) not in gone]
    return pairs


_VALUE = re.compile(
    r"0x[0-9a-fA-F]{9,}"  # an address; shorter ones are masks
    r"|(?<![\w.])(?:kernel|nvfuser_|kernel_)\d+\b"
    r"|(?<![\w.])nvfuser_[a-z_]+_f\d+_c\d+_r\d+_g\d+\b"
    r"|(?<![\w.])CudaCodeGen\d*\b"
    r"|(?<![\w.])[A-Za-z]{1,2}\d+\b"
    r"|(?<![\w.])[A-Za-z_]\w*_\d+\b"
)
_PARAMETERS = re.compile(
    r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?\w+\s*\((.*?)\)\s*\{", re.DOTALL
)

_MOST_LINES = 1500
"""Lines up to which the difference is that of a text diff; beyond it lines are counted without order."""


@lru_cache(maxsize=8192)
def normalised(code: str) -> tuple[str, ...]:
    """The lines of the code that are not empty, with values by order of first use."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()

    def rename(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith("0x"):
            return "ADDRESS"
        if word.startswith(("kernel", "nvfuser_", "CudaCodeGen")):
            return "KERNEL"
        known = names.get(word)
        if known is None:
            stem = word.rstrip("0123456789")
            known = names[word] = f"{stem}#{counts[stem]}"
            counts[stem] += 1
        return known

    return tuple(line for line in (raw.strip() for raw in _VALUE.sub(rename, code).splitlines()) if line)


@lru_cache(maxsize=8192)
def signature(code: str) -> str | None:
    """The types of the kernel's parameters, sorted: its inputs and outputs. None where there are none."""
    found = _PARAMETERS.search(code)
    if found is None:
        return None
    types = [" ".join(part.split()[:-1]) for part in re.split(r",\s*(?![^<]*>)", found[1])]
    return ", ".join(sorted(types))


def likeness(a: str, b: str) -> float:
    """Share of lines that two codes have in common, from 0 to 1."""
    x, y = Counter(normalised(a)), Counter(normalised(b))
    return 2 * sum((x & y).values()) / max(1, sum(x.values()) + sum(y.values()))


def changed_lines(a: str, b: str) -> tuple[int, int]:
    """How many lines only A has, and how many only B has."""
    x, y = normalised(a), normalised(b)
    if x == y:
        return 0, 0
    if max(len(x), len(y)) > _MOST_LINES:
        left, right = Counter(x), Counter(y)
        return sum((left - right).values()), sum((right - left).values())
    gone = added = 0
    for tag, i, i_end, j, j_end in SequenceMatcher(None, x, y, autojunk=False).get_opcodes():
        if tag != "equal":
            gone += i_end - i
            added += j_end - j
    return gone, added


_FIGURES = (
    ("registers", ("registers",)),
    ("spills", ("spill_bytes",)),
    ("shared memory", ("smem_bytes",)),
    ("scheduler", ("scheduler",)),
    ("launch", ("block", "grid")),
    ("launches", ("launches",)),
)


def kernel_changes(
    a: Sequence[Kernel],
    b: Sequence[Kernel],
    clusters: tuple[Mapping[str, int], Mapping[str, int]],
    one_sided: set[int],
    other_work: set[int],
    threshold: float,
    count_launches: bool = True,
) -> tuple[tuple[KernelChange, ...], int]:
    """The changes in the order of B (what is gone at the end), and how many kernels are the same.

    Args:
        clusters: of each side, id of a group -> number of its cluster.
        other_work: clusters whose sides compute different things, so that times say nothing.
        count_launches: False where one side ran more passes than the other.
        one_sided: clusters of groups that only one side has; their kernels go with them and are not named
            again.
    """
    pairs, gone, added = match_kernels(a, b, clusters)
    order = {id(kernel): index for index, kernel in enumerate(b)}
    found: list[tuple[int, KernelChange]] = []
    for one, other in pairs:
        same_work = not any(clusters[0].get(name) in other_work for name in one.groups)
        change = _change(one, other, threshold, count_launches, same_work)
        if change is not None:
            found.append((order[id(other)], change))
    for side, kernels in ((1, added), (0, gone)):
        for kernel in kernels:
            named = {clusters[side].get(name, -1) for name in kernel.groups}
            if not named or not named <= one_sided:
                ref = kernel_ref(kernel)
                change = KernelChange(
                    ("added",) if side else ("gone",),
                    None if side else ref,
                    ref if side else None,
                    0,
                    0,
                    None,
                    None,
                )
                found.append((order.get(id(kernel), len(order)), change))
    found.sort(key=lambda row: row[0])
    same = len(pairs) - sum(1 for _, change in found if change.a and change.b)
    return tuple(change for _, change in found), same


def _change(
    one: Kernel, other: Kernel, threshold: float, count_launches: bool, same_work: bool
) -> KernelChange | None:
    kinds = []
    lines = (0, 0)
    if one.code is not None and other.code is not None:
        lines = changed_lines(one.code, other.code)
        if lines != (0, 0):
            kinds.append("code")
    for kind, names in _FIGURES:
        if kind == "launches" and not count_launches:
            continue
        values = [(getattr(one, name), getattr(other, name)) for name in names]
        # What one side does not tell is no change.
        if any(x is not None and y is not None and x != y for x, y in values):
            kinds.append(kind)
    speed = speed_change(measured(one), measured(other), threshold)
    if speed is not None and not same_work:
        speed = replace(speed, change=None)
    if speed is not None and speed.change is not None:
        kinds.append(speed.change)
    counted = counted_bytes(one), counted_bytes(other)
    bandwidth = None
    if counted[0] is not None and counted[1] is not None:
        if same_work and not isclose(counted[0], counted[1], rel_tol=SAME_BYTES):
            kinds.append("bytes")
    elif speed is None and same_work:
        bandwidth = rate_change(rate(one), rate(other), threshold)
        if bandwidth is not None:
            kinds.append("bandwidth")
    if not kinds:
        return None
    return KernelChange(tuple(kinds), kernel_ref(one), kernel_ref(other), *lines, speed, bandwidth)


def kernel_ref(kernel: Kernel) -> KernelRef:
    """What a comparison tells of a kernel."""
    return KernelRef(
        kernel.id,
        kernel.name,
        kernel.groups,
        kernel.launches,
        kernel.registers,
        kernel.spill_bytes,
        kernel.smem_bytes,
        kernel.scheduler,
        kernel.block,
        kernel.grid,
        kernel.ms,
        kernel.gb_per_s,
    )
