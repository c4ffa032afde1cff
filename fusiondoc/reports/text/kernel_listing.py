"""The text of ``fusiondoc kernels``: a table, then what was dumped of each kernel."""

from __future__ import annotations

from typing import Collection, Iterator, Mapping, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model.report import Dump, Group, Kernel, Report
from fusiondoc.model.source import Source
from fusiondoc.reports.kernel_texts import chosen, lexer
from fusiondoc.reports.printable import in_github_log, one_line, visible
from fusiondoc.reports.source_code import near
from fusiondoc.reports.text.kernel_table import table_of
from fusiondoc.reports.text.layout_of_text import drawn, plain
from fusiondoc.reports.wording import dims


def render(
    report: Report,
    kernels: Sequence[Kernel],
    options: Sequence[str],
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """The kernels as text. The table has at most ``width`` columns, without bars of block characters unless
    ``blocks``; dumps are printed as they are."""
    table = drawn(Lines(*_table(report, kernels, width)), width, colour)
    return "\n".join([table if blocks else plain(table), *_dumps(kernels, options, width, colour)])


def _table(report: Report, kernels: Sequence[Kernel], width: int) -> Iterator[RenderableType]:
    yield Text(visible(_head(report, kernels)), style="bold")
    if not kernels:
        return
    shown = table_of(report, kernels, width)
    yield shown.table
    yield from shown.legend
    groups = {group.id: group for group in report.groups}
    described: dict[str, str] = {}
    for kernel in kernels:
        below = list(_below(kernel, groups, shown.columns, described))
        if below:
            yield Text("")
            yield Text(visible(f"{kernel.id} {kernel.name}"), style="dim")
            yield from below


def _below(
    kernel: Kernel, groups: Mapping[str, Group], shown: Collection[str], described: dict[str, str]
) -> Iterator[RenderableType]:
    """What a kernel needs, and the lines of the program that it computes; for each group once."""
    needs = _needs(kernel, shown)
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


def _needs(kernel: Kernel, shown: Collection[str]) -> str:
    """What the kernel needs of the device and how it ran, but for what the table has a column for."""
    words = [f"{kernel.scheduler} scheduler"] if kernel.scheduler else []

    def add(column: str, value: object, text: str) -> None:
        if value is not None and column not in shown:
            words.append(text)

    add("runs", kernel.launches, f"{kernel.launches} launches")
    add("grid", kernel.grid, f"grid {dims(kernel.grid, 'x', '')}")
    add("block", kernel.block, f"block {dims(kernel.block, 'x', '')}")
    add("regs", kernel.registers, f"{kernel.registers} registers")
    spilt = f"{kernel.spill_bytes:,} bytes spilled" if kernel.spill_bytes else "no spills"
    add("spills", kernel.spill_bytes, spilt)
    if kernel.smem_bytes is not None:
        size = f"{kernel.smem_bytes:,} bytes of" if kernel.smem_bytes else "no"
        words.append(f"{size} shared memory")
    add("warps", kernel.occupancy, f"{kernel.occupancy or 0:.0%} occupancy")
    add("first", kernel.first_ms, f"first launch {(kernel.first_ms or 0) * 1000:,.1f} us")
    if kernel.compiles is not None and kernel.compiles > 1:
        words.append(f"compiled {kernel.compiles} times")
    add("bound", kernel.bound, f"{kernel.bound}-bound")
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
