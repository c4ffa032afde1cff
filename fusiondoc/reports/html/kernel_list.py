"""Kernels: figures in one table, then each with its code and what was dumped of it."""

from __future__ import annotations

from fusiondoc.model.report import Kernel, Report
from fusiondoc.reports.html.context import MOST_ROWS, Context
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import bar, code_block, facts, group_links, section, table
from fusiondoc.reports.wording import count, dims, peak_share, percent, seconds, size

_BOUND = {
    "bandwidth": "bound by bandwidth",
    "cache": "served from a cache",
    "launch": "bound by its launch: it moves too little",
}


def kernel_list(context: Context) -> Markup | None:
    kernels = context.report.kernels
    if not kernels:
        return None
    rows = [_figures(kernel, context.report) for kernel in kernels[:MOST_ROWS]]
    columns = (
        ("Kernel", ""),
        ("Groups", ""),
        ("Launches", "n"),
        ("Grid", "n"),
        ("Block", "n"),
        ("Time", "n"),
        ("GB/s", "n"),
        ("Of peak", "peak"),
        ("Registers", "n"),
        ("Shared", "n"),
        ("Spills", "n"),
    )
    folded = [_kernel(kernel, context) for kernel in kernels[:MOST_ROWS]]
    left = len(kernels) - len(rows)
    more = (
        el("p", f"{count(left, 'further kernel')}: --format json has all.", class_="note") if left else None
    )
    return section(
        "kernels",
        "Kernels",
        table("Kernels and their launches", columns, rows),
        el("div", *folded, class_="stack"),
        more,
    )


def _figures(kernel: Kernel, report: Report) -> list[Child]:
    share = peak_share(kernel, report)
    said: list[Child] = ["–"]
    if share is not None:
        said = [
            bar(share, f"{percent(share)} of peak", "over" if share > 1 else ""),
            el("span", percent(share), class_="n"),
        ]
    return [
        el("a", f"{kernel.id} {kernel.name}", href=f"#{kernel.id}"),
        group_links(kernel.groups, 3),
        _number(kernel.launches),
        dims(kernel.grid),
        dims(kernel.block),
        seconds(kernel.ms.median / 1e3) if kernel.ms else "–",
        f"{kernel.gb_per_s.median:,.0f}" if kernel.gb_per_s else "–",
        said,
        _number(kernel.registers),
        size(kernel.smem_bytes),
        _number(kernel.spill_bytes),
    ]


def _kernel(kernel: Kernel, context: Context) -> Markup:
    times, rates = kernel.ms, kernel.gb_per_s
    known: list[tuple[str, Child]] = [
        ("Groups", group_links(kernel.groups)),
        ("Rank", None if kernel.rank is None else str(kernel.rank)),
        ("Scheduler", kernel.scheduler),
        (
            "Time",
            f"{seconds(times.median / 1e3)} (from {seconds(times.min / 1e3)} to {seconds(times.max / 1e3)})"
            if times
            else None,
        ),
        (
            "Bandwidth",
            f"{rates.median:,.0f} GB/s (from {rates.min:,.0f} to {rates.max:,.0f})" if rates else None,
        ),
        ("First launch", seconds(kernel.first_ms / 1e3) if kernel.first_ms is not None else None),
        ("Must move", size(kernel.bytes_moved) if kernel.bytes_moved is not None else None),
        ("What limits it", _BOUND.get(kernel.bound or "", kernel.bound)),
        ("Occupancy", percent(kernel.occupancy) if kernel.occupancy is not None else None),
        ("Compiled", count(kernel.compiles, "time") if kernel.compiles is not None else None),
    ]
    parts: list[Child] = [facts(known)]
    if kernel.code:
        if context.room_for(kernel.code):
            code = "\n".join(context.highlighter.cuda(kernel.code))
            parts.append(code_block(Markup(code), f"Code of {kernel.name}"))
        else:
            parts.append(el("p", "The page has no room for its code; --format json has it.", class_="note"))
    for dump in kernel.dumps:
        parts.append(el("h4", dump.option))
        if context.room_for(dump.text):
            parts.append(code_block(dump.text, f"{dump.option} of {kernel.name}"))
        else:
            parts.append(el("p", "The page has no room for it; --format json has it.", class_="note"))
    rate = f"{rates.median:,.0f} GB/s" if rates else ""
    summary = el(
        "summary",
        el("span", kernel.id, class_="tag"),
        el("span", kernel.name, class_="ops"),
        el("span", rate, class_="muted"),
    )
    return el("details", summary, el("div", *parts, class_="body"), id=kernel.id, class_="row")


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
