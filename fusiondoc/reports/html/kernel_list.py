"""Kernels: figures in one table, then each with its code and what was dumped of it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from fusiondoc.model.layer_names import folded, layers_of_kernels
from fusiondoc.model.report import Kernel
from fusiondoc.reports.html.group_list import Facts
from fusiondoc.reports.html.page_context import MOST_ROWS, Context
from fusiondoc.reports.html.summary import Bar, peak_bar
from fusiondoc.reports.wording import count, dims, peak_share, percent, seconds, size

_BOUND = {
    "bandwidth": "bandwidth-bound",
    "cache": "served from a cache",
    "launch": "launch-bound: it moves too little",
}


@dataclass(frozen=True)
class DumpText:
    """What one option dumped; None where the page has no room."""

    option: str
    text: str | None


@dataclass(frozen=True)
class KernelRow:
    """A kernel's row in the table of figures, and what its folded row holds."""

    id: str
    name: str
    groups: tuple[str, ...]
    layers: str
    launches: int | None
    grid: str
    block: str
    time: str
    rate: str | None
    peak: Bar | None
    share: str
    registers: int | None
    shared: str
    spills: int | None
    facts: Facts
    has_code: bool
    code: Markup | None
    """None where it has none, or the page has no room."""
    dumps: tuple[DumpText, ...]


@dataclass(frozen=True)
class Kernels:
    rows: tuple[KernelRow, ...]
    left: int
    with_layers: bool


def kernel_list(context: Context) -> Kernels | None:
    """None without a kernel."""
    kernels = context.report.kernels
    if not kernels:
        return None
    layers = layers_of_kernels(context.report)
    rows = tuple(
        _kernel(kernel, folded(layers.get(kernel.id, ())), context) for kernel in kernels[:MOST_ROWS]
    )
    return Kernels(rows, len(kernels) - len(rows), bool(layers))


def _kernel(kernel: Kernel, layers: str, context: Context) -> KernelRow:
    share = peak_share(kernel, context.report)
    rates = kernel.gb_per_s
    code = None
    if kernel.code and context.room_for(kernel.code):
        code = Markup("\n").join(context.highlighter.cuda(kernel.code))
    return KernelRow(
        id=kernel.id,
        name=kernel.name,
        groups=kernel.groups,
        layers=layers,
        launches=kernel.launches,
        grid=dims(kernel.grid),
        block=dims(kernel.block),
        time=seconds(kernel.ms.median / 1e3) if kernel.ms else "–",
        rate=f"{rates.median:,.0f}" if rates else None,
        peak=peak_bar(share, f"{percent(share)} of peak") if share is not None else None,
        share=percent(share),
        registers=kernel.registers,
        shared=size(kernel.smem_bytes),
        spills=kernel.spill_bytes,
        facts=_facts(kernel),
        has_code=bool(kernel.code),
        code=code,
        dumps=tuple(
            DumpText(one.option, one.text if context.room_for(one.text) else None) for one in kernel.dumps
        ),
    )


def _facts(kernel: Kernel) -> Facts:
    times, rates = kernel.ms, kernel.gb_per_s
    took = rate = None
    if times:
        took = seconds(times.median / 1e3)
        took += f" (from {seconds(times.min / 1e3)} to {seconds(times.max / 1e3)})"
    if rates:
        rate = f"{rates.median:,.0f} GB/s (from {rates.min:,.0f} to {rates.max:,.0f})"
    return (
        ("Rank", None if kernel.rank is None else str(kernel.rank)),
        ("Scheduler", kernel.scheduler),
        ("Time", took),
        ("Bandwidth", rate),
        ("First launch", seconds(kernel.first_ms / 1e3) if kernel.first_ms is not None else None),
        ("Must move", size(kernel.bytes_moved) if kernel.bytes_moved is not None else None),
        ("What limits it", _BOUND.get(kernel.bound or "", kernel.bound)),
        ("Occupancy", percent(kernel.occupancy) if kernel.occupancy is not None else None),
        ("Compiled", count(kernel.compiles, "time") if kernel.compiles is not None else None),
    )
