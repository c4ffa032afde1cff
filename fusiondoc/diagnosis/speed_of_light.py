"""Speed of light: the bytes that a kernel must move against the bytes that the
device's memory can move in that time.

A fused kernel computes little, so memory bandwidth is its upper bound: the inputs
and outputs of its group, each moved once. Two cases make that bound meaningless: a
launch takes some microseconds however little it moves, and data that stay in a
cache do not come from memory at all.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import NamedTuple

from fusiondoc.fuser_knobs.catalogue import SLOWEST
from fusiondoc.fusers import keeps_kernel_names
from fusiondoc.model.report import Group, Kernel, Report
from fusiondoc.numbers import as_count, pair_of

FLOOR_MS = 0.005
"""Milliseconds that a launch takes however little it moves, as timed by CUDA
events. In 225 logs of an H200 (torch 1.13.1 to 2.1.2) 70 kernels move less than 1
MB: their fastest launches take 3.4 us at the minimum, 5.7 us at the first quartile
and 6.9 us at the median."""

LONG = 4
"""A kernel that takes longer than this many floors is not launch-bound, whatever it
moves: 90 % of those 70 kernels take less."""

BANDWIDTH, CACHE, LAUNCH = "bandwidth", "cache", "launch"

_SAME = 0.02
"""Relative difference below which figures count as equal: times are printed in
steps of 32 ns, rates with six digits."""


def launch_bound_below(peak: float | None) -> float:
    """Return the bytes below which a kernel is launch-bound: even at the full
    ``peak`` (GB/s) they take less time than the launch does, so the kernel cannot
    reach half of the peak. Without a peak, that of the slowest GPU in the table is
    used, so that the bound holds on all of them."""
    return (peak or SLOWEST) * 1e6 * FLOOR_MS


def needed_ms(bytes_moved: float, peak: float) -> float:
    """Return the milliseconds that the transfer takes at ``peak`` GB/s."""
    return bytes_moved / (peak * 1e6)


def counted_bytes(kernel: Kernel) -> float | None:
    """Return the bytes that the fuser counted for a launch (rate times time); None
    if its launches differ, because the inputs had several shapes."""
    if kernel.ms is None or kernel.gb_per_s is None:
        return None
    fastest = kernel.ms.min * kernel.gb_per_s.max * 1e6
    slowest = kernel.ms.max * kernel.gb_per_s.min * 1e6
    same = as_count(fastest) and abs(fastest - slowest) <= _SAME * fastest
    if same:
        return fastest
    return None


def must_move(group: Group) -> int | None:
    """Return the bytes of a group's inputs and outputs, each counted once."""
    if group.bytes_in is None or group.bytes_out is None:
        return None
    return group.bytes_in + group.bytes_out


def with_speed_of_light(report: Report) -> Report:
    """Return the report with bytes, share of the peak, bound and occupancy of its
    kernels, as far as they are known."""
    if not report.kernels:
        return report
    groups = {group.id: group for group in report.groups}
    peak = report.peak.gb_per_s if report.peak is not None else None
    capability = _capability(report.environment.get("capability"))
    kernels = []
    for kernel in report.kernels:
        kernels.append(_judged(kernel, groups, peak, capability))
    return replace(report, kernels=tuple(kernels))


def _judged(
    kernel: Kernel,
    groups: dict[str, Group],
    peak: float | None,
    capability: tuple[int, int] | None,
) -> Kernel:
    # The bytes that a compiler's scheduler counted hold for all groups of a kernel.
    if _is_generated(kernel, groups):
        moved = kernel.bytes_moved
    else:
        moved = _moved(kernel, groups)
    rate = _rate(kernel, moved)
    share = rate / peak if rate is not None and peak else None
    resident = kernel.occupancy
    if resident is None and capability is not None and kernel.block is not None:
        x, y, z = kernel.block
        resident = occupancy(
            capability, x * y * z, kernel.registers, kernel.smem_bytes
        )
    return replace(
        kernel,
        bytes_moved=moved,
        peak_fraction=share,
        bound=_bound(kernel, moved, share, peak),
        occupancy=resident,
    )


def _moved(kernel: Kernel, groups: dict[str, Group]) -> int | None:
    """Return the bytes by the types of its group, if it is the group's only kernel;
    else those that the fuser counted."""
    counted = counted_bytes(kernel)
    if counted is None and kernel.gb_per_s is not None:
        return None
    mine = []
    for name in kernel.groups:
        if name in groups:
            mine.append(groups[name])
    alone = all(
        len(group.segments) < 2
        and all(len(one.kernels) == 1 for one in group.instances if one.kernels)
        for group in mine
    )
    if mine and alone and not _shapes_differ(mine):
        from_types = must_move(mine[0])
        if from_types is not None:
            return from_types
    if counted is None:
        return None
    return as_count(counted)


def _is_generated(kernel: Kernel, groups: dict[str, Group]) -> bool:
    kinds = []
    for name in kernel.groups:
        if name in groups:
            kinds.append(groups[name].kind)
    return bool(kinds) and all(map(keeps_kernel_names, kinds))


def _shapes_differ(groups: list[Group]) -> bool:
    return any(must_move(group) != must_move(groups[0]) for group in groups)


def _rate(kernel: Kernel, moved: int | None) -> float | None:
    """Return GB/s: the fuser's own figure, reduced to the bytes that must be moved
    if the fuser counts more (each element of an expanded tensor)."""
    counted = counted_bytes(kernel)
    if kernel.gb_per_s is not None:
        if (
            moved is not None
            and counted is not None
            and moved < counted * (1 - _SAME)
        ):
            return kernel.gb_per_s.median * moved / counted
        return kernel.gb_per_s.median
    if moved is not None and kernel.ms is not None and kernel.ms.median > 0:
        return moved / (kernel.ms.median * 1e6)
    return None


def _bound(
    kernel: Kernel, moved: int | None, share: float | None, peak: float | None
) -> str | None:
    if share is not None and share > 1:
        return CACHE
    if kernel.ms is None or kernel.implementation is not None:
        return None  # a partition on the CPU, which has no launches
    if moved is None and kernel.gb_per_s is not None:
        moved = as_count(
            kernel.gb_per_s.median * kernel.ms.median * 1e6
        )  # launches of several shapes
    if moved is None:
        return None
    if moved < launch_bound_below(peak) and kernel.ms.median <= LONG * FLOOR_MS:
        return LAUNCH
    if peak is not None:
        return BANDWIDTH
    return None


def _capability(text: str | None) -> tuple[int, int] | None:
    """Parse ``[9, 0]``, as the environment states it."""
    return pair_of(re.fullmatch(r"[\[(]([0-9]+), ?([0-9]+)[\])]", text or ""))


class MultiprocessorLimits(NamedTuple):
    """Limits of one multiprocessor. ``reserved``: bytes of shared memory that the
    system takes for each block."""

    warps: int
    blocks: int
    smem_bytes: int
    smem_unit: int
    reserved: int


_KB = 1024
_REGISTERS = 65536
"""32-bit registers of a multiprocessor, from compute capability 5.0 on (except 5.3
and 6.2, which are left out)."""
_REGISTER_UNIT = 256
"""The number of registers by which a warp's allocation grows."""
_PARTITIONS = 4
_MOST_REGISTERS = 255
_WARP = 32

LIMITS = {
    (7, 0): MultiprocessorLimits(64, 32, 96 * _KB, 256, 0),
    (7, 5): MultiprocessorLimits(32, 16, 64 * _KB, 256, 0),
    (8, 0): MultiprocessorLimits(64, 32, 164 * _KB, 128, _KB),
    (8, 6): MultiprocessorLimits(48, 16, 100 * _KB, 128, _KB),
    (8, 9): MultiprocessorLimits(48, 24, 100 * _KB, 128, _KB),
    (9, 0): MultiprocessorLimits(64, 32, 228 * _KB, 128, _KB),
    (10, 0): MultiprocessorLimits(64, 32, 228 * _KB, 128, _KB),
    (12, 0): MultiprocessorLimits(48, 24, 100 * _KB, 128, _KB),
}


def occupancy(
    capability: tuple[int, int],
    threads: int,
    registers: int | None,
    smem_bytes: int | None,
) -> float | None:
    """Return the share of the warps that are resident, from 0 to 1; None for an
    unknown GPU or without the number of registers.

    Args:
        threads: of one block.
        registers: of one thread.
        smem_bytes: of one block, as given at its launch; None counts as none.
    """
    limits = LIMITS.get(capability)
    if (
        limits is None
        or registers is None
        or not 0 < registers <= _MOST_REGISTERS
        or not 0 < threads <= 1024
    ):
        return None
    warps = math.ceil(threads / _WARP)
    per_warp = _up(registers * _WARP, _REGISTER_UNIT)
    by_registers = _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps
    blocks = min(limits.blocks, limits.warps // warps, by_registers)
    smem = _up((smem_bytes or 0) + limits.reserved, limits.smem_unit)
    if smem:
        blocks = min(blocks, limits.smem_bytes // smem)
    if blocks:
        return blocks * warps / limits.warps
    return None


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def in_bytes(number: int) -> str:
    """Return ``1.2 MB``; ``64.0 KB`` below 100,000 bytes."""
    if number >= 100_000:
        return f"{number / 1e6:,.1f} MB"
    return f"{number / 1e3:,.1f} KB"


_LITTLE = 0.005


def little_of_the_step(kernel: Kernel, saved_ms: float, report: Report) -> bool:
    """True if a profile shows that saving so much at each launch would gain less
    than the share ``_LITTLE`` of a step."""
    if report.steps is None:
        return False
    launches = 0
    for group in report.groups:
        if kernel.id in group.kernels:
            launches += group.count
    return saved_ms * max(1, launches) < _LITTLE * report.steps.ms
