"""FD401, FD402, FD404 and FD405: what holds a kernel back."""

from __future__ import annotations

from typing import Iterable, Sequence

from fusiondoc.diagnosis.rules.rule import Context, finding
from fusiondoc.diagnosis.speed_of_light import (
    BANDWIDTH,
    FLOOR_MS,
    LAUNCH,
    launch_bound_below,
    needed_ms,
)
from fusiondoc.model.report import Finding, Kernel, Report

SLOW = 2.0
"""A kernel is slow that takes so many times what its launch and the transfer at full bandwidth take
together."""

LOW_OCCUPANCY = 0.5

_NAMED = 6


def slow_kernels(report: Report, context: Context) -> Iterable[Finding]:
    """FD401: far from what the memory can do."""
    peak = report.peak
    for kernel in report.kernels:
        if peak is None or not _is_slow(kernel, peak.gb_per_s):
            continue
        assert kernel.ms is not None and kernel.bytes_moved is not None and kernel.peak_fraction is not None
        at_best = FLOOR_MS + needed_ms(kernel.bytes_moved, peak.gb_per_s)
        yield finding(
            "FD401",
            f"Kernel {named(kernel)} reaches {kernel.peak_fraction:.0%} of the memory bandwidth"
            f" ({peak.gb_per_s:,.0f} GB/s, {WHENCE[peak.source]}): {kernel.bytes_moved / 1e6:,.1f} MB in"
            f" {kernel.ms.median * 1e3:.1f} us; a launch that moves them at full bandwidth takes"
            f" {at_best * 1e3:.1f} us",
            source=_source(report, kernel),
            evidence=kernel.evidence[:3],
            advice=_advice(kernel),
            # One that moves little costs little, however slow it is.
            severity="note" if kernel.bytes_moved < launch_bound_below(peak.gb_per_s) else None,
        )


def _is_slow(kernel: Kernel, peak: float) -> bool:
    if kernel.bound != BANDWIDTH or kernel.ms is None or kernel.bytes_moved is None:
        return False
    return kernel.ms.median > SLOW * (FLOOR_MS + needed_ms(kernel.bytes_moved, peak))


def _advice(kernel: Kernel) -> str:
    if kernel.spill_bytes:
        return "It spills registers (FD404): fix that first."
    if kernel.occupancy is not None and kernel.occupancy < LOW_OCCUPANCY:
        return f"{kernel.occupancy:.0%} of the warps fit on a multiprocessor (FD405): make the group smaller."
    return (
        "See what else can do it: --fuser nnc, or the group's operators as they are written in eager code"
        " (fusiondoc diagnose --time says what the fusion gains in all)."
    )


WHENCE = {
    "given": "given with --peak",
    "measured": "measured",
    "driver": "by the driver",
    "table": "from the table by the GPU's name",
}
"""Where a peak comes from, in words."""


def launch_bound(report: Report, context: Context) -> Iterable[Finding]:
    """FD402: kernels that move too little for bandwidth to matter; one finding for all of them."""
    rows = [kernel for kernel in report.kernels if kernel.bound == LAUNCH and kernel.ms is not None]
    if not rows:
        return
    times = sorted(kernel.ms.median * 1e3 for kernel in rows if kernel.ms is not None)
    peak = report.peak.gb_per_s if report.peak is not None else None
    took = f"{times[0]:.1f} us" if len(times) == 1 else f"{times[0]:.1f} to {times[-1]:.1f} us"
    yield finding(
        "FD402",
        f"{len(rows)} of {len(report.kernels)} kernels are launch-bound ({_list(rows)}): they move"
        f" less than {launch_bound_below(peak) / 1e6:.1f} MB, which takes less time than the launch itself"
        f" (about {FLOOR_MS * 1e3:g} us); they took {took}",
        evidence=[line for kernel in rows for line in kernel.evidence[:1]][:3],
        advice="Their share of the peak says nothing. Fewer launches help: more operators in a group (see"
        " what is not fused between them), a larger batch, or CUDA graphs around the whole step.",
    )


def spills(report: Report, context: Context) -> Iterable[Finding]:
    """FD404: registers that are kept in memory."""
    for kernel in report.kernels:
        if kernel.spill_bytes:
            yield finding(
                "FD404",
                f"Kernel {named(kernel)} spills registers: {kernel.spill_bytes} bytes are stored to and"
                " loaded from memory by each thread"
                + (f", with {kernel.registers} registers" if kernel.registers is not None else ""),
                source=_source(report, kernel),
                evidence=kernel.evidence[:3],
                advice="Split the group, so that a thread holds fewer values at once: take an operator out"
                " of it (--knob skip_node_kind=OPERATOR), or normalise over a smaller dimension.",
            )


def low_occupancy(report: Report, context: Context) -> Iterable[Finding]:
    """FD405: few warps fit on a multiprocessor, in a kernel that does not reach the bandwidth either."""
    peak = report.peak
    for kernel in report.kernels:
        if kernel.occupancy is None or kernel.occupancy >= LOW_OCCUPANCY:
            continue
        if peak is None or not _is_slow(kernel, peak.gb_per_s):
            continue
        yield finding(
            "FD405",
            f"Kernel {named(kernel)} lets {kernel.occupancy:.0%} of the warps be resident{_needs(kernel)}",
            source=_source(report, kernel),
            evidence=kernel.evidence[:3],
            advice="With few warps the memory is not kept busy. Fewer values alive at once need fewer"
            " registers: split the group, or compute in half precision.",
        )


def _needs(kernel: Kernel) -> str:
    needs = []
    if kernel.block is not None:
        needs.append(f"{kernel.block[0] * kernel.block[1] * kernel.block[2]} threads a block")
    if kernel.registers is not None:
        needs.append(f"{kernel.registers} registers a thread")
    if kernel.smem_bytes:
        needs.append(f"{kernel.smem_bytes:,} bytes of shared memory a block")
    return ": " + ", ".join(needs) if needs else ""


def named(kernel: Kernel) -> str:
    """``K1 (G1)``."""
    return kernel.id + (f" ({', '.join(kernel.groups[:3])})" if kernel.groups else "")


def _list(kernels: Sequence[Kernel]) -> str:
    names = ", ".join(kernel.id for kernel in kernels[:_NAMED])
    return names + (f" and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else "")


def _source(report: Report, kernel: Kernel) -> str | None:
    for group in report.groups:
        if group.id in kernel.groups:
            return next((node.user_source for node in group.nodes if node.user_source), None)
    return None


RULES = (slow_kernels, launch_bound, spills, low_occupancy)
