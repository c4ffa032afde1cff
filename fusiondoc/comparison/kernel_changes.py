"""Changes between the kernels of two reports, and kernels that only one side
has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isclose
from typing import NamedTuple

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
from fusiondoc.comparison.kernel_code import changed_lines
from fusiondoc.comparison.kernel_match import match_kernels
from fusiondoc.model.report import Kernel

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
    clusters: Clusters,
    threshold: float,
    count_launches: bool,
) -> tuple[tuple[KernelChange, ...], int]:
    """Return the changes in the order of B (kernels that are gone at the end), and
    the number of kernels that are the same.

    Args:
        count_launches: False where one side ran more passes than the other.
    """
    pairs, gone, added = match_kernels(a, b, (clusters.of_a, clusters.of_b))
    order = {id(kernel): index for index, kernel in enumerate(b)}
    found: list[tuple[int, KernelChange]] = []
    for before, other in pairs:
        change = _change(
            before, other, threshold, count_launches, clusters.same_work(before)
        )
        if change is not None:
            found.append((order[id(other)], change))
    same = len(pairs) - len(found)
    for kernel in added:
        if not clusters.is_of_new_groups(kernel):
            change = KernelChange(
                ("added",), None, kernel_ref(kernel), 0, 0, None, None
            )
            found.append((order[id(kernel)], change))
    for kernel in gone:
        if not clusters.is_of_lost_groups(kernel):
            change = KernelChange(
                ("gone",), kernel_ref(kernel), None, 0, 0, None, None
            )
            found.append((len(order), change))
    found.sort(key=lambda row: row[0])
    return tuple(change for _, change in found), same


class Clusters(NamedTuple):
    """The clusters of the groups of both sides, by number, for the comparison of
    their kernels."""

    of_a: dict[str, int]
    """Id of a group of A -> number of its cluster; ``of_b``: of B."""
    of_b: dict[str, int]
    one_sided: set[int]
    """Clusters of groups that only one side has; their kernels are not reported
    separately."""
    other_work: set[int]
    """Clusters whose sides compute different things, so that times cannot be
    compared."""

    def same_work(self, kernel: Kernel) -> bool:
        """Whether both sides of the clusters of a kernel of A compute the same."""
        return not any(
            self.of_a.get(name) in self.other_work for name in kernel.groups
        )

    def is_of_new_groups(self, kernel: Kernel) -> bool:
        """Whether all groups of a kernel of B are groups that A does not have."""
        return bool(kernel.groups) and all(
            self.of_b.get(name) in self.one_sided for name in kernel.groups
        )

    def is_of_lost_groups(self, kernel: Kernel) -> bool:
        """Whether all groups of a kernel of A are groups that B does not have."""
        return bool(kernel.groups) and all(
            self.of_a.get(name) in self.one_sided for name in kernel.groups
        )


def _change(
    before: Kernel,
    other: Kernel,
    threshold: float,
    count_launches: bool,
    same_work: bool,
) -> KernelChange | None:
    lines = _changed_lines(before, other)
    kinds = ["code"] if lines != (0, 0) else []
    kinds += _other_figures(before, other, count_launches)
    speed = speed_change(measured(before), measured(other), threshold)
    if speed is not None and not same_work:
        speed = replace(speed, change=None)
    if speed is not None and speed.change is not None:
        kinds.append(speed.change)
    counted = counted_bytes(before), counted_bytes(other)
    bandwidth = None
    if counted[0] is not None and counted[1] is not None:
        if same_work and not isclose(counted[0], counted[1], rel_tol=SAME_BYTES):
            kinds.append("bytes")
    elif speed is None and same_work:
        bandwidth = rate_change(rate(before), rate(other), threshold)
    if bandwidth is not None:
        kinds.append("bandwidth")
    if not kinds:
        return None
    return KernelChange(
        tuple(kinds),
        kernel_ref(before),
        kernel_ref(other),
        *lines,
        speed,
        bandwidth,
    )


def _changed_lines(before: Kernel, other: Kernel) -> tuple[int, int]:
    """Number of lines that only one code has, and that only the other has; 0 if a
    code is not known."""
    if before.code is None or other.code is None:
        return 0, 0
    return changed_lines(before.code, other.code)


def _other_figures(
    before: Kernel, other: Kernel, count_launches: bool
) -> Iterator[str]:
    """The kinds of figures that both sides have and that differ: a figure that a
    side lacks is no change."""
    for kind, names in _FIGURES:
        if kind == "launches" and not count_launches:
            continue
        for name in names:
            values = getattr(before, name), getattr(other, name)
            if None not in values and values[0] != values[1]:
                yield kind
                break


def kernel_ref(kernel: Kernel) -> KernelRef:
    """The part of a kernel that a comparison holds."""
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
