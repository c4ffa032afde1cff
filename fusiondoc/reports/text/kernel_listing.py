"""The text of ``fusiondoc kernels``: a table, then what was dumped of each kernel."""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.report import Dump, Group, Kernel, Report
from fusiondoc.model.source import Source
from fusiondoc.reports.kernel_texts import chosen, lexer
from fusiondoc.reports.printable import in_github_log, one_line, visible
from fusiondoc.reports.source_code import near
from fusiondoc.reports.text.layout_of_text import drawn
from fusiondoc.reports.wording import dims

_NARROW = 100
"""Below so many columns, what a kernel needs of the device stands under it instead of in the table."""

Cell = Callable[[Kernel], str]


def render(
    report: Report,
    kernels: Sequence[Kernel],
    options: Sequence[str],
    *,
    width: int = 80,
    colour: bool = False,
) -> str:
    """The kernels as text. The table has at most ``width`` columns; dumps are printed as they are."""
    table = drawn(Lines(*_table(report, kernels, width)), width, colour)
    return "\n".join([table, *_dumps(kernels, options, width, colour)])


def _table(report: Report, kernels: Sequence[Kernel], width: int) -> Iterator[RenderableType]:
    yield Text(visible(_head(report, kernels)), style="bold")
    if not kernels:
        return
    groups = {group.id: group for group in report.groups}
    narrow = width < _NARROW
    described: dict[str, str] = {}
    columns = _columns(kernels, narrow)
    sizes = _sizes(kernels, columns, width)
    for start in range(0, len(kernels), 1 if narrow else len(kernels)):
        # Rich has no row that spans columns: each kernel of a narrow table is a table of its own, with the
        # widths of all.
        part = kernels[start : start + 1] if narrow else kernels
        yield _rows(part, columns, sizes, header=start == 0)
        if narrow:
            yield from _below(part[0], groups, narrow, described)
    if not narrow:
        for kernel in kernels:
            below = list(_below(kernel, groups, narrow, described))
            if below:
                yield Text("")
                yield Text(visible(f"{kernel.id} {kernel.name}"), style="dim")
                yield from below


def _sizes(kernels: Sequence[Kernel], columns: Mapping[str, Cell], width: int) -> dict[str, int]:
    """Width of each column; names of kernels have what the others leave."""
    sizes = {
        name: max(len(name), *(len(cell(kernel)) for kernel in kernels)) for name, cell in columns.items()
    }
    others = sum(size + 1 for name, size in sizes.items() if name != "kernel")
    sizes["kernel"] = max(12, min(sizes["kernel"], width - 1 - others))
    return sizes


def _rows(
    part: Sequence[Kernel], columns: Mapping[str, Cell], sizes: Mapping[str, int], header: bool
) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_header=header)
    for name in columns:
        left = name in ("kernel", "group")
        table.add_column(
            name,
            justify="left" if left else "right",
            no_wrap=name != "kernel",
            overflow="fold",
            width=sizes[name],
        )
    for kernel in part:
        table.add_row(*(cell(kernel) for cell in columns.values()))
    return table


def _columns(kernels: Sequence[Kernel], narrow: bool) -> dict[str, Cell]:
    """The columns in which some kernel has something."""
    columns: dict[str, Cell] = {
        "kernel": lambda k: visible(f"{k.id} {k.name}"),
        "group": lambda k: ",".join(k.groups[:3]) + ("…" if len(k.groups) > 3 else ""),
        "runs": lambda k: _number(k.launches),
        "grid": lambda k: dims(k.grid, "x", ""),
        "block": lambda k: dims(k.block, "x", ""),
    }
    if not narrow:
        columns["smem"] = lambda k: _number(k.smem_bytes)
        columns["regs"] = lambda k: _number(k.registers)
        columns["spill"] = lambda k: _number(k.spill_bytes)
        columns["occup"] = lambda k: _share(k.occupancy)
    columns["us"] = lambda k: f"{k.ms.median * 1000:,.1f}" if k.ms else ""
    columns["GB/s"] = lambda k: f"{k.gb_per_s.median:,.0f}" if k.gb_per_s else ""
    columns["peak"] = lambda k: _share(k.peak_fraction)
    used = {name: cell for name, cell in columns.items() if any(map(cell, kernels))}
    return {name: _dashed(cell) for name, cell in used.items()}


def _dashed(cell: Cell) -> Cell:
    return lambda kernel: cell(kernel) or "-"


def _below(
    kernel: Kernel, groups: Mapping[str, Group], narrow: bool, described: dict[str, str]
) -> Iterator[RenderableType]:
    """What a kernel needs, and the lines of the program that it computes; for each group once."""
    needs = _needs(kernel, narrow)
    if needs:
        yield Padding(Text(visible(needs), style="dim"), (0, 0, 0, 3))
    owners = [groups[one] for one in kernel.groups if one in groups]
    part = _segment(kernel, owners[0]) if owners else None
    if part is not None:
        yield Padding(Text(part, style="dim"), (0, 0, 0, 3))
    if owners and owners[0].id in described:
        text = f"of {owners[0].id}, as {described[owners[0].id]}"
        yield Padding(Text(text, style="dim"), (0, 0, 0, 3))
        return
    for group in owners[:1]:
        described[group.id] = kernel.id
        ops = ", ".join(node.op.split("::")[-1] for node in group.nodes)
        yield Padding(Text(f"{group.phase or 'phase unknown'}: {ops}", style="dim"), (0, 0, 0, 3))
        yield Padding(Text(visible(source_lines(group)), style="dim"), (0, 0, 0, 3))
    if len(owners) > 1:
        others = ", ".join(group.id for group in owners[1:])
        yield Padding(Text(f"the same graph: {others}", style="dim"), (0, 0, 0, 3))


def _segment(kernel: Kernel, group: Group) -> str | None:
    """Which part of a group that nvFuser cut it is."""
    for segment in group.segments:
        if kernel.id in segment.kernels and len(group.segments) > 1:
            ops = ", ".join(op.split("::")[-1] for op in segment.ops)
            return f"segment {segment.index} of {len(group.segments)}" + (f": {ops}" if ops else "")
    return None


def _needs(kernel: Kernel, narrow: bool) -> str:
    words = [f"{kernel.scheduler} scheduler"] if kernel.scheduler else []
    if narrow:
        if kernel.registers is not None:
            words.append(f"{kernel.registers} registers")
        if kernel.spill_bytes is not None:
            words.append(f"{kernel.spill_bytes:,} bytes spilled" if kernel.spill_bytes else "no spills")
        if kernel.smem_bytes is not None:
            size = f"{kernel.smem_bytes:,} bytes of" if kernel.smem_bytes else "no"
            words.append(f"{size} shared memory")
        if kernel.occupancy is not None:
            words.append(f"{kernel.occupancy:.0%} occupancy")
    if kernel.first_ms is not None:
        words.append(f"first launch {kernel.first_ms * 1000:,.1f} us")
    if kernel.compiles is not None and kernel.compiles > 1:
        words.append(f"compiled {kernel.compiles} times")
    if kernel.bound:
        words.append(f"{kernel.bound}-bound")
    return ", ".join(words)


def source_lines(group: Group) -> str:
    """Where the group's operators stand: each file once, with its lines."""
    files: dict[str, dict[str, None]] = {}
    for node in group.nodes:
        place = Source.parse(near(node.user_source or node.source or ""))
        if place is not None:
            files.setdefault(place.file, {})[str(place.line)] = None
    return "; ".join(f"{file}:{','.join(lines)}" for file, lines in files.items()) or "no source lines"


def _head(report: Report, kernels: Sequence[Kernel]) -> str:
    count = f"{len(kernels)} kernel{'' if len(kernels) == 1 else 's'}"
    if len(kernels) < len(report.kernels):
        count += f" of {len(report.kernels)}"
    parts = [f"{report.target.get('name') or 'log'}: {count}"]
    if report.environment.get("gpu"):
        parts.append(report.environment["gpu"])
    if report.peak is not None:
        parts.append(f"peak {report.peak.gb_per_s:,.0f} GB/s")
    return ", ".join(parts)


def _dumps(kernels: Sequence[Kernel], options: Sequence[str], width: int, colour: bool) -> Iterator[str]:
    for kernel in kernels:
        for dump in chosen(kernel, options):
            title = in_github_log(one_line(f"{kernel.id} {kernel.name}, {dump.option}{_where(dump)}"))
            line = f"── {title} " + "─" * max(2, width - len(title) - 4)
            yield f"\x1b[1m{line}\x1b[0m" if colour else line
            text = in_github_log(visible(dump.text)).strip("\n")
            yield _highlighted(text, dump.option) if colour else text
            yield ""


def _where(dump: Dump) -> str:
    first = next(iter(dump.evidence), None)
    return f" ({first.file}:{first.line})" if first is not None else ""


def _highlighted(text: str, option: str) -> str:
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        found = get_lexer_by_name(lexer(option), stripnl=False)
    except ClassNotFound:  # An older pygments does not know them all.
        return text
    return str(highlight(text, found, TerminalFormatter())).rstrip("\n")


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
