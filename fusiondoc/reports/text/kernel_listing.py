"""The table of kernels, in the report and in ``fusiondoc kernels`` (launch, time, share of the peak); which
kernels are shown, in which order; and what was dumped of each, by the names that ``--dump`` has for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.errors import UsageError, did_you_mean, nearest
from fusiondoc.model import count
from fusiondoc.model.operator_places import folded, layers_of_kernels
from fusiondoc.model.packed_text import replace
from fusiondoc.model.report import Dump, Group, Instance, Kernel, Report
from fusiondoc.model.source import Source
from fusiondoc.numbers import in_natural_order
from fusiondoc.rendering.drawing import MOST_ROWS, bar, drawn, more, plain
from fusiondoc.rendering.printable import in_github_log, one_line, visible
from fusiondoc.rendering.units import TERMINAL, bandwidth, megabytes, short_percent, tenths, whole
from fusiondoc.views.formatting import cuda, near

ENDINGS = {
    "cuda_kernel": ".cu",
    "cuda_full": ".cu",
    "cuda_to_file": ".cu",
    "debug_info": ".cu",
    "nnc_cuda": ".cu",
    "ptx": ".ptx",
}
"""Of the files that ``--save`` writes; all others are ``.txt``."""

_C_LIKE = ("nnc_ir", "nnc_stages", "kernel_ir")

FIGURES: Mapping[str, Sequence[str]] = {
    "launch_param": ("block", "grid"),
    "dump_eff_bandwidth": ("ms", "gb_per_s"),
    "ptxas_verbose": ("registers", "spill_bytes"),
}
"""Dumps that are figures of the table, with the fields that they fill."""


def texts(kernel: Kernel) -> tuple[Dump, ...]:
    """All that was dumped of it, its code first."""
    code = kernel.code
    if code is None or any(dump.text == code for dump in kernel.dumps):
        return kernel.dumps
    # cuda_full has the runtime's headers in front of what cuda_kernel prints.
    option = "cuda_kernel" if code.lstrip().startswith(("__global__", "//")) else "cuda_full"
    return (Dump(option, code, kernel.evidence), *kernel.dumps)


def chosen(kernel: Kernel, options: Sequence[str]) -> tuple[Dump, ...]:
    """Those of its dumps that were asked for, in that order."""
    have = texts(kernel)
    return tuple(dump for option in options for dump in have if dump.option == option)


def present(kernels: Iterable[Kernel]) -> list[str]:
    """The names of all dumps that some kernel has, also as figures."""
    found: dict[str, None] = {}
    for kernel in kernels:
        found.update((dump.option, None) for dump in texts(kernel))
        for option, names in FIGURES.items():
            if any(getattr(kernel, name) is not None for name in names):
                found[option] = None
    return list(found)


def ending(option: str) -> str:
    return ENDINGS.get(option, ".txt")


def _is_code(option: str) -> bool:
    """Whether a dump is CUDA, PTX or something written like it."""
    return option in _C_LIKE or option in ENDINGS


Key = Callable[[Kernel], "float | None"]

_BY: dict[str, tuple[Key, bool]] = {
    "launches": (lambda k: k.launches, True),
    "time": (lambda k: k.ms.median if k.ms else None, True),
    "bandwidth": (lambda k: k.gb_per_s.median if k.gb_per_s else None, False),
    "peak": (lambda k: k.peak_fraction, False),
    "registers": (lambda k: k.registers, True),
    "spills": (lambda k: k.spill_bytes, True),
    "smem": (lambda k: k.smem_bytes, True),
    "occupancy": (lambda k: k.occupancy, False),
}
"""Column -> (what is compared, whether the largest comes first): the worst comes first."""

COLUMNS = ("id", "name", "group", *_BY)


def choose(
    report: Report, names: Sequence[str], groups: Sequence[str], sort: str, top: int | None
) -> tuple[Kernel, ...]:
    """The kernels that ``--kernel`` and ``--group`` name, sorted, ``top`` of them at most.

    Raises:
        UsageError: there is no such kernel or group.
    """
    kernels = [k for k in report.kernels if not names or any(_named(k, name) for name in names)]
    for name in names:
        if not any(_named(kernel, name) for kernel in report.kernels):
            raise _unknown_kernel(name, report)
    for group in groups:
        _check_group(group, report)
    if groups:
        wanted = {group.upper() for group in groups}
        kernels = [kernel for kernel in kernels if wanted.intersection(kernel.groups)]
    return tuple(_sorted(kernels, sort)[:top])


def narrowed(report: Report, kernels: Sequence[Kernel], options: Sequence[str]) -> Report:
    """The report with only these kernels, and of them only these dumps."""
    shown = []
    for kernel in kernels:
        dumps = chosen(kernel, options)
        code = kernel.code if any(dump.text == kernel.code for dump in dumps) else None
        # Code that no dump holds is in `code` alone, as parse has it.
        own = {dump.option for dump in kernel.dumps}
        shown.append(replace(kernel, code=code, dumps=tuple(dump for dump in dumps if dump.option in own)))
    ids = {kernel.id for kernel in shown}
    groups = tuple(
        replace(group, kernels=tuple(one for one in group.kernels if one in ids)) for group in report.groups
    )
    return replace(report, kernels=tuple(shown), groups=groups)


def available(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """The names of the texts that these kernels have."""
    return tuple(dict.fromkeys(dump.option for kernel in kernels for dump in texts(kernel)))


def _named(kernel: Kernel, name: str) -> bool:
    return name == kernel.name or name.upper() == kernel.id


def _unknown_kernel(name: str, report: Report) -> UsageError:
    if not report.kernels:
        return UsageError(
            f"there is no kernel '{name}': the log shows none", "Run it with --dump; see fusiondoc kernels -h"
        )
    known = [*(k.id for k in report.kernels), *(k.name for k in report.kernels)]
    return UsageError(f"there is no kernel '{name}'. {_near(name, known)}", "fusiondoc kernels lists them.")


def _check_group(name: str, report: Report) -> None:
    known = [group.id for group in report.groups]
    if name.upper() not in known:
        near = _near(name.upper(), known) if known else "The log shows no group."
        raise UsageError(f"there is no group '{name}'. {near}", "fusiondoc parse lists the groups.")


def _near(name: str, known: Sequence[str]) -> str:
    """Near ones; of many ids the first and the last."""
    if len(set(known)) <= 12:
        return did_you_mean(name, known)
    return nearest(name, known) or f"Known: {known[0]} to {known[-1]}."


def _sorted(kernels: list[Kernel], column: str) -> list[Kernel]:
    if column == "id":
        return kernels
    if column == "name":
        return sorted(kernels, key=lambda k: in_natural_order(k.name))
    if column == "group":
        return sorted(
            kernels, key=lambda k: (not k.groups, in_natural_order(k.groups[0] if k.groups else ""))
        )
    value, largest = _BY[column]
    known = [kernel for kernel in kernels if value(kernel) is not None]
    rest = [kernel for kernel in kernels if value(kernel) is None]
    return sorted(known, key=lambda k: value(k) or 0.0, reverse=largest) + rest


BOUND_STYLES = {"bandwidth": "", "cache": "green", "launch": "dim"}

_NOTHING = ("", "-")


class _Column(NamedTuple):
    name: str
    cell: Callable[[Kernel], str]
    right: bool = True
    wanted: int = 0
    """0: there in any width; else the lower the number, the earlier it makes room in a narrow terminal."""


def kernels(report: Report, width: int) -> RenderableType | None:
    """A table of at most ``width`` columns; None without a kernel. Columns without a value are left out."""
    if not report.kernels:
        return None
    shown = _table_of(report, report.kernels[:MOST_ROWS], width)
    return Lines(shown.table, *more(len(report.kernels)), *shown.legend)


class Shown(NamedTuple):
    """A table, what its columns mean where they do not say it, and the names of the columns it has."""

    table: Table
    legend: list[Text]
    columns: frozenset[str]


def _table_of(report: Report, rows: Sequence[Kernel], width: int) -> Shown:
    """The table of these kernels of the report."""
    columns = _fitting([c for c in _columns(report) if _used(c, rows)], rows, width)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column.name, justify="right" if column.right else "left", no_wrap=True)
    for kernel in rows:
        cells = (Text(visible(column.cell(kernel)), style=_style(column, kernel)) for column in columns)
        table.add_row(*cells)
    names = frozenset(column.name for column in columns)
    legend = _legend(rows)
    return Shown(table, [Text(legend, style="dim")] if legend else [], names)


def _used(column: _Column, rows: Sequence[Kernel]) -> bool:
    return column.name == "kernel" or any(column.cell(kernel) not in _NOTHING for kernel in rows)


def _fitting(columns: list[_Column], rows: Sequence[Kernel], width: int) -> list[_Column]:
    """The columns that there is room for, the least wanted ones left out first."""

    def needed() -> int:
        return sum(1 + max(len(c.name), *(len(c.cell(kernel)) for kernel in rows)) for c in columns) - 1

    while needed() > width and any(column.wanted for column in columns):
        columns.remove(min((c for c in columns if c.wanted), key=lambda c: c.wanted))
    return columns


def _style(column: _Column, kernel: Kernel) -> str:
    if column.name in ("", "bound") and kernel.bound:
        return BOUND_STYLES.get(kernel.bound, "")
    return ""


def _is_cut(group: Group, one: Instance, launches: Mapping[str, int | None]) -> bool:
    """Whether the kernels of an instance are segments: not each for other shapes, which no run launches
    together."""
    if len(one.kernels) < 2:
        return False
    if group.segments:
        return len(group.segments) == len(one.kernels)
    counts = {launches.get(name) for name in one.kernels}
    return len(counts) == 1 and counts != {None}


def _columns(report: Report) -> list[_Column]:
    layers = layers_of_kernels(report)
    launches = {kernel.id: kernel.launches for kernel in report.kernels}
    parts = {
        name: f"{number}/{len(one.kernels)}"
        for group in report.groups
        for one in group.instances
        if _is_cut(group, one, launches)
        for number, name in enumerate(one.kernels, 1)
    }
    return [
        _Column("kernel", lambda k: k.id, right=False),
        _Column("name", lambda k: k.name, right=False, wanted=4),
        _Column("group", _groups, right=False),
        _Column("layer", lambda k: folded(layers.get(k.id, ()), 1), right=False, wanted=4),
        _Column("computed by", lambda k: k.implementation or "", right=False, wanted=13),
        _Column("part", lambda k: parts.get(k.id, ""), wanted=9),
        _Column("runs", lambda k: TERMINAL.count(k.launches), wanted=8),
        _Column("grid", lambda k: TERMINAL.dimensions(k.grid), wanted=6),
        _Column("block", lambda k: TERMINAL.dimensions(k.block), wanted=5),
        _Column("regs", lambda k: TERMINAL.count(k.registers), wanted=2),
        _Column("spills", lambda k: TERMINAL.count(k.spill_bytes or None), wanted=7),
        _Column("warps", lambda k: TERMINAL.known(k.occupancy, short_percent), wanted=1),
        _Column("MB", lambda k: TERMINAL.known(k.bytes_moved, megabytes), wanted=3),
        _Column("first", lambda k: TERMINAL.known(k.first_ms, _microseconds), wanted=10),
        _Column("us", lambda k: _microseconds(k.ms.median) if k.ms else TERMINAL.unknown),
        _Column("GB/s", lambda k: whole(k.gb_per_s.median) if k.gb_per_s else TERMINAL.unknown),
        _Column("peak", lambda k: TERMINAL.known(k.peak_fraction, short_percent)),
        _Column(
            "", lambda k: "" if k.peak_fraction is None else bar(k.peak_fraction), right=False, wanted=11
        ),
        _Column("bound", lambda k: k.bound or "", right=False, wanted=12),
    ]


def _legend(kernels: Sequence[Kernel]) -> str:
    """What the columns mean that do not say it themselves."""
    said = []
    if any(kernel.bound == "launch" for kernel in kernels):
        said.append("launch: it moves so little that the launch takes longer")
    if any(kernel.bound == "cache" for kernel in kernels):
        said.append("cache: faster than the memory, so its data stay in a cache")
    if any(kernel.first_ms is not None for kernel in kernels):
        said.append("first: us of the first launch after a compile, not in the median")
    return "; ".join(said)


def _groups(kernel: Kernel) -> str:
    return ",".join(kernel.groups[:3]) + ("…" if len(kernel.groups) > 3 else "") or "-"


def _microseconds(ms: float) -> str:
    return tenths(ms * 1e3)


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
    shown = _table_of(report, kernels, width)
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
    """The part of its group, where the fuser split the group."""
    for segment in group.segments:
        if kernel.id in segment.kernels and len(group.segments) > 1:
            ops = ", ".join(op.split("::")[-1] for op in segment.ops)
            return f"segment {segment.index} of {len(group.segments)}" + (f": {ops}" if ops else "")
    return None


def _needs(kernel: Kernel, shown: Collection[str]) -> str:
    """What the kernel needs of the device and how it ran, but for what the table has a column for."""
    words = [f"{kernel.scheduler} scheduler"] if kernel.scheduler else []
    words += [f"computed by {kernel.implementation}"] if kernel.implementation else []

    def add(column: str, value: object, text: str) -> None:
        if value is not None and column not in shown:
            words.append(text)

    add("runs", kernel.launches, f"{kernel.launches} launches")
    add("grid", kernel.grid, f"grid {TERMINAL.dimensions(kernel.grid)}")
    add("block", kernel.block, f"block {TERMINAL.dimensions(kernel.block)}")
    add("regs", kernel.registers, f"{kernel.registers} registers")
    spilt = f"{kernel.spill_bytes:,} bytes spilled" if kernel.spill_bytes else "no spills"
    add("spills", kernel.spill_bytes, spilt)
    if kernel.smem_bytes is not None:
        size = f"{kernel.smem_bytes:,} bytes of" if kernel.smem_bytes else "no"
        words.append(f"{size} shared memory")
    add("warps", kernel.occupancy, f"{short_percent(kernel.occupancy or 0)} occupancy")
    add("first", kernel.first_ms, f"first launch {_microseconds(kernel.first_ms or 0)} us")
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
    listed = count(len(kernels), "kernel")
    if len(kernels) < len(report.kernels):
        listed += f" of {len(report.kernels):,}"
    parts = [f"{report.target.name or 'log'}: {listed}"]
    if report.environment.get("gpu"):
        parts.append(report.environment["gpu"])
    if report.peak is not None:
        parts.append(f"peak {bandwidth(report.peak.gb_per_s)}")
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


_COLOURS = {"k": 34, "t": 36, "s": 33, "m": 36, "c": 90}
"""Of ECMA-48 (SGR), by the class of a part."""
_MOST_COLOURED = 1 << 20
"""Characters."""


def _highlighted(text: str, option: str) -> str:
    if not _is_code(option) or len(text) > _MOST_COLOURED:
        return text
    return "".join(
        f"\x1b[{_COLOURS[kind]}m{part}\x1b[39m" if kind in _COLOURS else part for kind, part in cuda(text)
    )
