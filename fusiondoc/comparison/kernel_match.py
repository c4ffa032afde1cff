"""Match the kernels of two reports (by their groups, code and parameters, never by
number)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from fusiondoc.alignment import candidates, greedy, pair_equal
from fusiondoc.comparison import counted_bytes
from fusiondoc.comparison.kernel_code import likeness, normalised, signature
from fusiondoc.model.report import Kernel

LEAST_LIKENESS = 0.5
"""Least share of equal lines for two kernels without a group in common to be the
same."""

_MOST_CANDIDATES = 20_000

_SAME_PARAMETERS = 0.3
"""Score of equal inputs and outputs, in lines: another version may generate very
different code for them."""


def content(kernel: Kernel) -> Any:
    """The code and figures of a kernel, without its number."""
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
    a: Sequence[Kernel],
    b: Sequence[Kernel],
    clusters: tuple[Mapping[str, int], Mapping[str, int]],
) -> tuple[list[tuple[Kernel, Kernel]], list[Kernel], list[Kernel]]:
    """Return the pairs, and the rest of A and of B. Args: clusters: for each side,
    id of a group -> number of its cluster.
    """
    ties: dict[int, frozenset[int]] = {}
    for kernels, known in zip((a, b), clusters):
        for kernel in kernels:
            ties[id(kernel)] = frozenset(
                known[name] for name in kernel.groups if name in known
            )

    def tied(kernel: Kernel) -> frozenset[int]:
        return ties[id(kernel)]

    def same_code(kernel: Kernel) -> Hashable | None:
        if kernel.code:
            return tied(kernel), normalised(kernel.code)
        return None

    def same_work(kernel: Kernel) -> Hashable | None:
        work = _work(kernel) if not kernel.code else None
        if work is None:
            return None
        return tied(kernel), work

    left_a, left_b = list(a), list(b)
    pairs = pair_equal(left_a, left_b, same_code, content)
    pairs += pair_equal(
        left_a, left_b, lambda kernel: (tied(kernel), content(kernel))
    )
    pairs += pair_equal(left_a, left_b, same_work)
    pairs += _within_groups(left_a, left_b, tied)
    # A log in wrong order connects no kernel with a group: only its code identifies
    # it.
    pairs += pair_equal(left_a, left_b, _code, content)
    all_tied_a, all_tied_b = all(map(tied, left_a)), all(map(tied, left_b))
    loose_a = []
    for kernel in left_a:
        if not tied(kernel) or not all_tied_b:
            loose_a.append(kernel)
    loose_b = []
    for kernel in left_b:
        if not tied(kernel) or not all_tied_a:
            loose_b.append(kernel)
    pairs += _remove(_alike(loose_a, loose_b, LEAST_LIKENESS), left_a, left_b)
    return pairs, left_a, left_b


def _code(kernel: Kernel) -> Hashable | None:
    if kernel.code:
        return normalised(kernel.code)
    return None


def _work(kernel: Kernel) -> Hashable | None:
    """The key of a kernel without code: its launch, and the bytes counted by the
    fuser (which prints six digits)."""
    counted = counted_bytes(kernel)
    if kernel.block is None and counted is None:
        return None
    return (
        kernel.block,
        kernel.grid,
        None if counted is None else f"{counted:.2e}",
    )


def _within_groups(
    left_a: list[Kernel],
    left_b: list[Kernel],
    tied: Callable[[Kernel], frozenset[int]],
) -> list[tuple[Kernel, Kernel]]:
    """Kernels of the same groups belong together, however much their code
    changed."""
    of_groups: dict[frozenset[int], tuple[list[Kernel], list[Kernel]]] = (
        defaultdict(lambda: ([], []))
    )
    for side, kernels in enumerate((left_a, left_b)):
        for kernel in kernels:
            if tied(kernel):
                of_groups[tied(kernel)][side].append(kernel)
    found: list[tuple[Kernel, Kernel]] = []
    for of_a, of_b in of_groups.values():
        found += _alike(of_a, of_b, 0.0)
    return _remove(found, left_a, left_b)


def _alike(
    a: Sequence[Kernel], b: Sequence[Kernel], least: float
) -> list[tuple[Kernel, Kernel]]:
    if not a or not b:
        return []
    if len(a) * len(b) <= _MOST_CANDIDATES:
        wanted = []
        for i in range(len(a)):
            for j in range(len(b)):
                wanted.append((i, j))
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


def _score(first: Kernel, other: Kernel) -> float:
    """From 0 to about 1.4: equal lines, and a little for equal parameters and
    launches."""
    bonus = 0.05 * (first.block == other.block) + 0.05 * (first.grid == other.grid)
    bonus += 0.02 * (first.launches == other.launches)
    if first.code is None or other.code is None:
        known = (
            first.block is not None
            and first.block == other.block
            and first.grid == other.grid
        )
        return bonus + (
            LEAST_LIKENESS if known and first.launches == other.launches else 0.0
        )
    same_parameters = signature(first.code) is not None and signature(
        first.code
    ) == signature(other.code)
    return (
        likeness(first.code, other.code)
        + bonus
        + _SAME_PARAMETERS * same_parameters
    )


def _remove(
    pairs: list[tuple[Kernel, Kernel]], left_a: list[Kernel], left_b: list[Kernel]
) -> list[tuple[Kernel, Kernel]]:
    gone = set()
    for pair in pairs:
        for kernel in pair:
            gone.add(id(kernel))
    for left in (left_a, left_b):
        left[:] = [kernel for kernel in left if id(kernel) not in gone]
    return pairs
