"""Speed of light: what a kernel must move against what the memory of the device can move in that time.

A fused kernel computes little, so memory bandwidth is what it can reach at best: the inputs and outputs of
its group, each once. Two things make that bound meaningless: a launch takes some microseconds however little
it moves, and data that stay in a cache do not come from memory at all.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from fusiondoc.diagnosis.occupancy import occupancy
from fusiondoc.fuser_knobs.gpu_bandwidth import SLOWEST
from fusiondoc.model import Group, Kernel, Report

FLOOR_MS = 0.005
"""Milliseconds that a launch takes however little it moves, as nvFuser's events time it. In 225 logs of an
H200 (torch 1.13.1 to 2.1.2) 70 kernels move less than 1 MB: their fastest launches took 3.4 us at the least,
5.7 us in the first quarter and 6.9 us in the middle."""

LONG = 4
"""A kernel that takes longer than so many floors is not bound by its launch, whatever it moves: nine in
ten of those 70 take less."""

BANDWIDTH, CACHE, LAUNCH = "bandwidth", "cache", "launch"

_SAME = 0.02
"""Figures that differ by less are the same: times are printed in steps of 32 ns, rates with six digits."""


def launch_bound_below(peak: float | None) -> float:
    """Bytes below which a kernel is bound by its launch: even at the full ``peak`` (GB/s) they take less
    time than the launch does, so it cannot reach half of the peak. Without a peak, that of the slowest GPU
    in the table, so that it holds on all of them."""
    return (peak or SLOWEST) * 1e6 * FLOOR_MS


def needed_ms(bytes_moved: float, peak: float) -> float:
    """Milliseconds that the transfer takes at ``peak`` GB/s."""
    return bytes_moved / (peak * 1e6)


def counted_bytes(kernel: Kernel) -> float | None:
    """Bytes that nvFuser counted for a launch (rate times time); None where its launches differ, which
    another shape of the inputs makes."""
    if kernel.ms is None or kernel.gb_per_s is None:
        return None
    fastest = kernel.ms.min * kernel.gb_per_s.max * 1e6
    slowest = kernel.ms.max * kernel.gb_per_s.min * 1e6
    return fastest if fastest and abs(fastest - slowest) <= _SAME * fastest else None


def must_move(group: Group) -> int | None:
    """Bytes of a group's inputs and outputs, each once."""
    if group.bytes_in is None or group.bytes_out is None:
        return None
    return group.bytes_in + group.bytes_out


def with_speed_of_light(report: Report) -> Report:
    """The report, its kernels with bytes, share of the peak, bound and occupancy, as far as they are
    known."""
    if not report.kernels:
        return report
    groups = {group.id: group for group in report.groups}
    peak = report.peak.gb_per_s if report.peak is not None else None
    capability = _capability(report.environment.get("capability"))
    kernels = tuple(_judged(kernel, groups, peak, capability) for kernel in report.kernels)
    return replace(report, kernels=kernels)


def _judged(
    kernel: Kernel, groups: dict[str, Group], peak: float | None, capability: tuple[int, int] | None
) -> Kernel:
    moved = _moved(kernel, groups)
    rate = _rate(kernel, moved)
    share = rate / peak if rate is not None and peak else None
    resident = kernel.occupancy
    if resident is None and capability is not None and kernel.block is not None:
        x, y, z = kernel.block
        resident = occupancy(capability, x * y * z, kernel.registers, kernel.smem_bytes)
    return replace(
        kernel,
        bytes_moved=moved,
        peak_fraction=share,
        bound=_bound(kernel, moved, share, peak),
        occupancy=resident,
    )


def _moved(kernel: Kernel, groups: dict[str, Group]) -> int | None:
    """From the types of its group, where it is the only kernel of one; else what nvFuser counted."""
    counted = counted_bytes(kernel)
    if counted is None and kernel.gb_per_s is not None:
        return None
    mine = [groups[name] for name in kernel.groups if name in groups]
    alone = all(len(group.kernels) == 1 and len(group.segments) < 2 for group in mine)
    if mine and alone and not _shapes_differ(mine):
        from_types = must_move(mine[0])
        if from_types is not None:
            return from_types
    return round(counted) if counted is not None else None


def _shapes_differ(groups: list[Group]) -> bool:
    return any(must_move(group) != must_move(groups[0]) for group in groups)


def _rate(kernel: Kernel, moved: int | None) -> float | None:
    """GB/s: nvFuser's own figure, but where it counts bytes that need not be moved (elements of an
    expanded tensor, each of them) that of the bytes that must."""
    counted = counted_bytes(kernel)
    if kernel.gb_per_s is not None:
        if moved is not None and counted is not None and moved < counted * (1 - _SAME):
            return kernel.gb_per_s.median * moved / counted
        return kernel.gb_per_s.median
    if moved is not None and kernel.ms is not None and kernel.ms.median > 0:
        return moved / (kernel.ms.median * 1e6)
    return None


def _bound(kernel: Kernel, moved: int | None, share: float | None, peak: float | None) -> str | None:
    if share is not None and share > 1:
        return CACHE
    if kernel.ms is None:
        return None
    if moved is None and kernel.gb_per_s is not None:
        moved = round(kernel.gb_per_s.median * kernel.ms.median * 1e6)  # launches of several shapes
    if moved is None:
        return None
    if moved < launch_bound_below(peak) and kernel.ms.median <= LONG * FLOOR_MS:
        return LAUNCH
    return BANDWIDTH if peak is not None else None


def _capability(text: str | None) -> tuple[int, int] | None:
    """``[9, 0]`` as the environment has it."""
    try:
        value = ast.literal_eval(text or "")
    except (ValueError, SyntaxError):
        return None
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(isinstance(part, int) for part in value):
        return value[0], value[1]
    return None
