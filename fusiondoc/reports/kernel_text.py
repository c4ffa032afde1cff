"""The text of ``fusiondoc kernels``: the table of kernels, below it the lines of
the program that each kernel computes, and its dumps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model import count
from fusiondoc.model.report import Dump, Group, Kernel, Report
from fusiondoc.rendering.drawing import drawn, plain
from fusiondoc.rendering.highlighting import cuda
from fusiondoc.rendering.printable import in_github_log, one_line, visible
from fusiondoc.rendering.terminal_documents import drawn_block, fitting, on_terminal
from fusiondoc.rendering.units import TERMINAL, bandwidth, short_percent, tenths
from fusiondoc.reports.kernel_choice import CODE, chosen
from fusiondoc.views.formatting import source_lines
from fusiondoc.views.report_kernels import code_in_words, kernel_table, legend_of


def render(
    report: Report,
    kernels: Sequence[Kernel],
    options: Sequence[str],
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """Return the kernels as text. The table has at most ``width`` columns, without
    bars of block characters unless ``blocks``; dumps are printed unchanged."""
    table = drawn(Lines(*_table(report, kernels, width)), width, colour)
    return "\n".join(
        [
            table if blocks else plain(table),
            *_dumps(kernels, options, width, colour),
        ]
    )


def _table(
    report: Report, kernels: Sequence[Kernel], width: int
) -> Iterator[RenderableType]:
    yield Text(visible(_head(report, kernels)), style="bold")
    if not kernels:
        return
    table = on_terminal(kernel_table(report, kernels))
    yield drawn_block(table, width)
    for line in legend_of(kernels):
        yield Text(line, style="dim")
    shown = {table.columns[number].head for number in fitting(table, width)}
    groups = {group.id: group for group in report.groups}
    described: dict[str, str] = {}
    for kernel in kernels:
        owners = []
        for identifier in kernel.groups:
            if identifier in groups:
                owners.append(groups[identifier])
        lines = [_needs(kernel, shown), *_of_groups(kernel, owners, described)]
        if any(lines):
            yield Text("")
            yield Text(visible(f"{kernel.id} {kernel.name}"), style="dim")
        for line in filter(None, lines):
            yield Padding(Text(visible(line), style="dim"), (0, 0, 0, 3))


def _of_groups(
    kernel: Kernel, owners: Sequence[Group], described: dict[str, str]
) -> Iterator[str]:
    """Yield the lines of the program that the kernel computes. ``described``: group
    -> the kernel at which they were printed.

    A C++ function of torch.compile has the loops of several groups, one after the
    other.
    """
    kinds: dict[tuple[str, ...], list[Group]] = {}
    for group in owners:
        kinds.setdefault(group.ops, []).append(group)
    for alike in kinds.values():
        first = alike[0]
        yield _segment(kernel, first)
        if first.id in described:
            yield f"of {first.id}, as {described[first.id]}"
            continue
        described[first.id] = kernel.id
        which = f"{first.id}, " if len(kinds) > 1 else ""
        ops = ", ".join(node.op.split("::")[-1] for node in first.nodes)
        yield f"{which}{first.phase or 'phase unknown'}: {ops or 'no operator'}"
        yield source_lines(first)
        if len(alike) > 1:
            yield f"the same graph: {', '.join(group.id for group in alike[1:])}"


def _segment(kernel: Kernel, group: Group) -> str:
    """Return the part of the group that the kernel computes, if the fuser split the
    group; else ""."""
    for segment in group.segments:
        if kernel.id in segment.kernels and len(group.segments) > 1:
            ops = ", ".join(op.split("::")[-1] for op in segment.ops)
            return f"segment {segment.index} of {len(group.segments)}" + (
                f": {ops}" if ops else ""
            )
    return ""


def _needs(kernel: Kernel, shown: Collection[str]) -> str:
    """Return the resources and launches of the kernel in words, without those in
    columns that the table shows."""
    words = []
    if kernel.scheduler:
        words.append(f"{kernel.scheduler} scheduler")
    words += code_in_words(kernel)
    for column, value, text in _in_words(kernel):
        if value is not None and column not in shown:
            words.append(text)
    if kernel.compiles is not None and kernel.compiles > 1:
        words.append(f"compiled {kernel.compiles} times")
    return ", ".join(words)


def _in_words(kernel: Kernel) -> Iterator[tuple[str, object, str]]:
    """Yield a column of the table, its value, and the value in words."""
    if kernel.spill_bytes:
        spilled = f"{kernel.spill_bytes:,} bytes spilled"
    else:
        spilled = "no spills"
    if kernel.smem_bytes:
        shared = f"{kernel.smem_bytes:,} bytes of shared memory"
    else:
        shared = "no shared memory"
    yield (
        "computed by",
        kernel.implementation,
        f"computed by {kernel.implementation}",
    )
    yield "runs", kernel.launches, f"{kernel.launches} launches"
    yield "grid", kernel.grid, f"grid {TERMINAL.dimensions(kernel.grid)}"
    yield "block", kernel.block, f"block {TERMINAL.dimensions(kernel.block)}"
    yield "regs", kernel.registers, f"{kernel.registers} registers"
    yield "spills", kernel.spill_bytes, spilled
    yield "shared", kernel.smem_bytes, shared
    yield (
        "warps",
        kernel.occupancy,
        f"{short_percent(kernel.occupancy or 0)} occupancy",
    )
    yield (
        "first",
        kernel.first_ms,
        f"first launch {tenths((kernel.first_ms or 0) * 1e3)} us",
    )
    yield "bound", kernel.bound, f"{kernel.bound}-bound"


def _head(report: Report, kernels: Sequence[Kernel]) -> str:
    listed = count(len(kernels), "kernel")
    if len(kernels) < len(report.kernels):
        listed += f" of {len(report.kernels):,}"
    parts = [f"{report.target.name or 'log'}: {listed}"]
    if report.environment.get("gpu"):
        parts.append(report.environment["gpu"])
    if report.peak is not None:
        parts.append(f"peak {bandwidth(report.peak.gb_per_s)}")
    return ", ".join(parts)


def _dumps(
    kernels: Sequence[Kernel], options: Sequence[str], width: int, colour: bool
) -> Iterator[str]:
    for kernel in kernels:
        for dump in chosen(kernel, options):
            title = in_github_log(
                one_line(f"{kernel.id} {kernel.name}, {dump.option}{_where(dump)}")
            )
            line = f"── {title} " + "─" * max(2, width - len(title) - 4)
            yield f"\x1b[1m{line}\x1b[0m" if colour else line
            text = in_github_log(visible(dump.text)).strip("\n")
            yield _highlighted(text, dump.option) if colour else text
            yield ""


def _where(dump: Dump) -> str:
    first = next(iter(dump.evidence), None)
    if first is None:
        return ""
    return f" ({first.file}:{first.line})"


_COLOURS = {"k": 34, "t": 36, "s": 33, "m": 36, "c": 90}
"""Colours of ECMA-48 (SGR), by the class of a part."""
_MOST_COLOURED = 1 << 20
"""Most characters of a dump that is coloured."""


def _highlighted(text: str, option: str) -> str:
    if option not in CODE or len(text) > _MOST_COLOURED:
        return text
    parts = []
    for kind, part in cuda(text):
        if kind in _COLOURS:
            parts.append(f"\x1b[{_COLOURS[kind]}m{part}\x1b[39m")
        else:
            parts.append(part)
    return "".join(parts)
