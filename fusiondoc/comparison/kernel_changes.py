"""What changed between kernels that belong together, and kernels that only one side has."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from typing import Mapping, Sequence

from fusiondoc.comparison.differences import KernelChange, KernelRef
from fusiondoc.comparison.kernel_match import changed_lines, match_kernels
from fusiondoc.comparison.speed_change import (
    SAME_BYTES,
    counted_bytes,
    measured,
    rate,
    rate_change,
    speed_change,
)
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
