"""The generated kernels as sections: their figures in a table, and each with its
code and its dumps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.operator_places import folded, layers_of_kernels
from fusiondoc.model.report import Kernel, Report
from fusiondoc.rendering.blocks import (
    Block,
    CodeBlock,
    Column,
    Entries,
    Entry,
    Formats,
    Heading,
    NamedValues,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.units import (
    PAGE,
    bandwidth,
    interval,
    percent,
    seconds,
    size,
    whole,
)
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    Extents,
    Gauge,
    IdLinks,
    Megabytes,
    Micros,
    Named,
    Rate,
    Share,
    Text,
    Tone,
)
from fusiondoc.views.formatting import peak_share

MOST_ON_A_PAGE = 600
_MOST_GROUPS = 3
"""Most groups of a kernel that its row names."""


def kernels(report: Report) -> Section:
    """Section of all kernels; of the first ones if there are very many."""
    rows = report.kernels[:MOST_ON_A_PAGE]
    left_out = len(report.kernels) - len(rows)
    blocks: list[Block] = [kernel_table(report, rows, left_out, MOST_ROWS)]
    legend = Sentences(
        tuple(legend_of(rows[:MOST_ROWS])), Tone.DIM, Formats.TERMINAL
    )
    shared = Sentences(
        tuple(shared_launches(rows[:MOST_ROWS])), Tone.DIM, Formats.TEXT
    )
    blocks += [legend, shared, _details(report, rows)]
    return Section("kernels", "Kernels", blocks=tuple(blocks))


# -- the table -----------------------------------------------------------------------------------------------

_NOT_TERMINAL = ~Formats.TERMINAL
_NOT_MARKDOWN = ~Formats.MARKDOWN
_COLUMNS = (
    Column("kernel", formats=Formats.TERMINAL),
    Column("name", wanted=4, optional=True, formats=Formats.TERMINAL),
    Column("kernel", formats=_NOT_TERMINAL),
    Column("group", optional=True),
    Column("layer", wanted=4, optional=True, wide=True),
    Column("computed by", wanted=13, optional=True),
    Column("part", number=True, wanted=9, optional=True),
    Column("runs", number=True, wanted=8, optional=True),
    Column("grid", number=True, wanted=6, optional=True),
    Column("block", number=True, wanted=5, optional=True),
    Column("regs", number=True, wanted=2, optional=True),
    Column("shared", number=True, optional=True, formats=Formats.PAGE),
    Column("spills", number=True, wanted=7, optional=True),
    Column("warps", number=True, wanted=1, optional=True, formats=Formats.TEXT),
    Column("MB", number=True, wanted=3, optional=True, formats=Formats.TEXT),
    Column("first", number=True, wanted=10, optional=True, formats=Formats.TEXT),
    Column("us", number=True, optional=True),
    Column("GB/s", number=True, optional=True),
    Column("peak", number=True, optional=True),
    Column("", wanted=11, optional=True, formats=_NOT_MARKDOWN),
    Column("bound", wanted=12, optional=True, formats=Formats.TEXT),
)
_BOUND_TONES = {"cache": Tone.GOOD, "launch": Tone.DIM}


def kernel_table(
    report: Report,
    kernels: Sequence[Kernel],
    left_out: int = 0,
    on_terminal: int | None = None,
) -> Table:
    """Table of the figures of these kernels of the report."""
    layers = layers_of_kernels(report)
    parts = _parts_of_groups(report)
    rows = []
    for kernel in kernels:
        cells = _row(
            report,
            kernel,
            folded(layers.get(kernel.id, ()), 1),
            parts.get(kernel.id, ""),
        )
        rows.append(Row(cells))
    return Table(
        _COLUMNS,
        tuple(rows),
        caption="Kernels and their launches",
        left_out=left_out,
        on_terminal=on_terminal,
        dense=True,
    )


def _row(report: Report, kernel: Kernel, layer: str, part: str) -> tuple[Cell, ...]:
    share = peak_share(kernel, report)
    bound = Text(
        kernel.bound or "", _BOUND_TONES.get(kernel.bound or "", Tone.PLAIN)
    )
    return (
        Text(kernel.id),
        Text(kernel.name),
        Named(kernel.id, kernel.name),
        IdLinks(kernel.groups, _MOST_GROUPS),
        Text(layer),
        Text(kernel.implementation or ""),
        Text(part),
        Count(kernel.launches),
        Extents(kernel.grid),
        Extents(kernel.block),
        Count(kernel.registers),
        Bytes(kernel.smem_bytes),
        Count(kernel.spill_bytes or None),
        Share(kernel.occupancy),
        Megabytes(kernel.bytes_moved),
        Micros(kernel.first_ms),
        Micros(kernel.ms.median if kernel.ms else None),
        Rate(kernel.gb_per_s.median if kernel.gb_per_s else None),
        Share(share),
        peak_bar(share),
        bound,
    )


def peak_bar(share: float | None, label: str | None = None) -> Gauge:
    """Gauge of a share of the peak; above the peak the data come from a cache."""
    if share is None:
        return Gauge(0.0, "")
    return Gauge(
        share, label or f"{percent(share)} of peak", "over" if share > 1 else ""
    )


def _parts_of_groups(report: Report) -> dict[str, str]:
    """Return kernel -> ``1/3``: the part of its group that it computes, if the
    group was cut."""
    parts: dict[str, str] = {}
    for group in report.groups:
        cuts = [runtime.kernels for runtime in group.runtimes]
        if not cuts:
            # Without launches in the log, the kernels are in the order of
            # compilation.
            cuts = []
            for one in group.instances:
                if len(one.kernels) == len(group.segments):
                    cuts.append(one.kernels)
        for names in (names for names in cuts if len(names) > 1):
            for number, name in enumerate(names, 1):
                parts[name] = f"{number}/{len(names)}"
    return parts


def shared_launches(kernels: Iterable[Kernel]) -> Iterator[str]:
    """Yield the launches of each group, for each kernel that groups share."""
    for kernel in kernels:
        if kernel.launches_of_groups:
            yield f"{kernel.id}: {_of_each_group(kernel)}"


def _of_each_group(kernel: Kernel) -> str:
    each = (f"{one.launches:,} of {one.group}" for one in kernel.launches_of_groups)
    return f"{count(kernel.launches or 0, 'launch')}, {', '.join(each)}"


def legend_of(kernels: Sequence[Kernel]) -> Iterator[str]:
    """Yield the meanings of columns that are not obvious, on a line."""
    meanings = []
    if any(kernel.bound == "launch" for kernel in kernels):
        meanings.append("launch: it moves so little that the launch takes longer")
    if any(kernel.bound == "cache" for kernel in kernels):
        meanings.append(
            "cache: faster than the memory, so its data stay in a cache"
        )
    if any(kernel.first_ms is not None for kernel in kernels):
        meanings.append(
            "first: us of the first launch after a compile, not in the median"
        )
    if meanings:
        yield "; ".join(meanings)


# -- each kernel ---------------------------------------------------------------------------------------------

_BOUND = {
    "bandwidth": "bandwidth-bound",
    "cache": "served from a cache",
    "launch": "launch-bound: it moves too little",
}


def _details(report: Report, kernels: Sequence[Kernel]) -> Entries:
    """Entries of each kernel with its code and its dumps."""
    layers = layers_of_kernels(report)
    entries = []
    for kernel in kernels:
        rate = f"{bandwidth(kernel.gb_per_s.median)}" if kernel.gb_per_s else ""
        blocks: list[Block] = [
            NamedValues(tuple(_facts(kernel, folded(layers.get(kernel.id, ())))))
        ]
        if kernel.code:
            blocks.append(CodeBlock(kernel.code, f"Code of {kernel.name}", "cuda"))
        for dump in kernel.dumps:
            code = CodeBlock(dump.text, f"{dump.option} of {kernel.name}")
            blocks += [Heading(dump.option), code]
        entries.append(
            Entry(kernel.id, kernel.id, kernel.name, rate, blocks=tuple(blocks))
        )
    return Entries(tuple(entries), formats=Formats.PAGE)


def _facts(kernel: Kernel, layers: str) -> Iterator[tuple[str, str | Cell]]:
    """Yield the known facts about the kernel."""
    if kernel.groups:
        yield "Groups", IdLinks(kernel.groups)
    known = {
        "Layers": layers,
        "Rank": None if kernel.rank is None else str(kernel.rank),
        "Launches": _of_each_group(kernel) if kernel.launches_of_groups else None,
        "Scheduler": kernel.scheduler,
        "Code shows": ", ".join(code_in_words(kernel)),
        "Time": _time(kernel),
        "Bandwidth": _rate(kernel),
        "First launch": PAGE.duration(kernel.first_ms)
        if kernel.first_ms is not None
        else None,
        "Must move": size(kernel.bytes_moved)
        if kernel.bytes_moved is not None
        else None,
        "What limits it": _BOUND.get(kernel.bound or "", kernel.bound),
        "Occupancy": percent(kernel.occupancy)
        if kernel.occupancy is not None
        else None,
        "Compiled": count(kernel.compiles, "time")
        if kernel.compiles is not None
        else None,
    }
    for name, value in known.items():
        if value:
            yield name, value


def code_in_words(kernel: Kernel) -> Iterator[str]:
    """Yield the traits that the code of a kernel shows."""
    traits = kernel.traits
    if traits is None:
        return
    if traits.vector_width is not None:
        if traits.vector_width > 1:
            yield f"vectors of {traits.vector_width}"
        else:
            yield "no vectors"
    if traits.index_type is not None:
        yield f"{traits.index_type} indices"
    if traits.reductions:
        yield " and ".join(traits.reductions) + " reduction"
    if traits.persistent and kernel.scheduler != "persistent":
        yield "persistent"


def _time(kernel: Kernel) -> str | None:
    if kernel.ms is None:
        return None
    limits = interval(kernel.ms.min / 1e3, kernel.ms.max / 1e3, seconds)
    return f"{seconds(kernel.ms.median / 1e3)} (from {limits})"


def _rate(kernel: Kernel) -> str | None:
    if kernel.gb_per_s is None:
        return None
    limits = interval(kernel.gb_per_s.min, kernel.gb_per_s.max, whole)
    return f"{bandwidth(kernel.gb_per_s.median)} (from {limits})"
