"""The terminal report: the first screen answers "did it fuse, what not, why, how fast"."""

from __future__ import annotations

import io
from typing import Iterable

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model import Finding, Group, Kernel, Reason, Report, Unfused
from fusiondoc.reports.source_code import code_at, near
from fusiondoc.reports.text_shapes import shapes
from fusiondoc.reports.text_tries import tries
from fusiondoc.reports.text_verification import verification

STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}

NO_OPERATORS = ("prim::GetAttr",)
"""Nodes with a tensor that read a module's attribute: in the JSON report, noise on a terminal."""

MOST_ROWS = 40
"""Rows of a table on a terminal; the JSON report has all."""

DOING = {"compile": "compiling", "run": "running"}

FUSERS = {
    "nvfuser": "nvFuser",
    "nnc": "NNC",
    "onednn": "oneDNN Graph",
    "legacy": "the legacy fuser",
    "none": "none",
}


def render(report: Report, *, width: int = 80, colour: bool = False) -> str:
    """The report as text of at most ``width`` columns, with ANSI colours if ``colour``."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    )
    parts: list[RenderableType] = [_summary(report)]
    for title, part in (
        ("Groups", _groups(report)),
        ("Not fused", _unfused(report, width)),
        ("Fallbacks", _fallbacks(report)),
        ("Shapes", shapes(report)),
        ("Kernels", _kernels(report)),
        ("Numbers", verification(report)),
        ("Tried", tries(report)),
        ("Findings", _findings(report)),
        ("Log", _log(report)),
    ):
        if part is not None:
            parts += ["", Text(title, style="bold"), Padding(part, (0, 0, 0, 1))]
    console.print(Lines(*parts))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _fields() -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _summary(report: Report) -> RenderableType:
    table = _fields()
    if report.target.get("name"):
        table.add_row("Target", str(report.target["name"]))
    env = report.environment
    machine = [
        f"torch {env['torch']}" if env.get("torch") else "",
        env.get("gpu") or "",
        env.get("device") or "",
    ]
    if any(machine):
        table.add_row("Machine", ", ".join(part for part in machine if part))
    table.add_row("Fuser", _fuser(report))
    table.add_row("Fused", _verdict(report))
    worst = next((f for f in report.findings if f.severity == "error"), None)
    if worst is not None:
        table.add_row("Problem", Text(worst.message, style=STYLES["error"]))
    speed = _speed(report)
    if speed:
        table.add_row("Kernels", speed)
    if report.suppressed:
        codes = ", ".join(sorted({one.code for one in report.suppressed}))
        table.add_row("Suppressed", f"{_count(len(report.suppressed), 'finding')} ({codes})")
    when = _when(report)
    if when:
        table.add_row("Iterations", when)
    return table


def _fuser(report: Report) -> str:
    state = report.fuser
    if state.effective is None and state.requested is None:
        return "unknown: the log shows no group"
    name = FUSERS.get(state.effective or "", state.effective or "unknown")
    if state.requested is not None and state.requested != state.effective:
        name += f" (asked: {state.requested})"
    if not state.why:
        return name
    why = state.why[len("auto: ") :] if state.why.startswith("auto: ") else state.why
    return f"{name}: {why}"


def _verdict(report: Report) -> Text:
    groups = len(report.groups)
    unfused = sum(row.count for row in report.unfused if row.op not in NO_OPERATORS)
    cover = report.coverage
    if not groups and not report.unfused:
        return Text("unknown: the log shows no plan of an executor", style=STYLES["warning"])
    if not groups:
        text = f"nothing: no fusion group, {_count(unfused, 'tensor operator')} outside"
        return Text(text, style=STYLES["warning"])
    inside = sum(len(group.nodes) for group in report.groups if group.specialisation == 1)
    text = f"{_count(inside, 'operator')} in {_count(groups, 'group')}, {unfused} not fused"
    if cover.fraction is not None:
        text += f" ({cover.fraction:.0%} of what a fuser can fuse)"
    fallbacks = sum(f.count for f in report.fallbacks)
    if fallbacks:
        text += f", {_count(fallbacks, 'fallback')}"
    return Text(text, style="green" if not unfused and not fallbacks else "")


def _speed(report: Report) -> str:
    launched = [k for k in report.kernels if k.gb_per_s is not None]
    if not launched:
        return _count(len(report.kernels), "kernel") if report.kernels else ""
    best = max(k.gb_per_s.median for k in launched if k.gb_per_s)
    slow = min(k.gb_per_s.median for k in launched if k.gb_per_s)
    times = sum(k.ms.median for k in launched if k.ms)
    rate = f"{best:,.0f}" if f"{best:.0f}" == f"{slow:.0f}" else f"{slow:,.0f} to {best:,.0f}"
    return f"{len(report.kernels)}, median {rate} GB/s, {times:.3f} ms for one launch of each"


def _when(report: Report) -> str:
    if not report.iterations:
        return ""
    profiling = sum(i.stage == "profiling" for i in report.iterations)
    first = min((g.iteration for g in report.groups if g.iteration is not None), default=None)
    parts = [f"{profiling} of {len(report.iterations)} passes went to profiling"]
    if first is not None:
        parts.append(f"the first group appeared in iteration {first}")
    steady = next((i for i in report.iterations if i.stage == "steady"), None)
    if steady is not None:
        parts.append(f"steady from {steady.index}")
    return ", ".join(parts)


def _groups(report: Report) -> RenderableType | None:
    if not report.groups:
        return None
    parts: list[RenderableType] = []
    for group in report.groups[:MOST_ROWS]:
        parts += [_group_head(group), Padding(_group_body(group), (0, 0, 0, 2))]
    parts += _more(len(report.groups))
    return Lines(*parts)


def _group_head(group: Group) -> Text:
    head = Text(group.id, style="bold green")
    head.append(f"  {group.kind}", style="default")
    facts = [group.phase or "phase unknown", _count(len(group.nodes), "operator")]
    if group.respecialises:
        facts.append(f"specialisation {group.specialisation} of {group.respecialises}")
    if group.runs is not None:
        facts.append(f"ran {_count(group.runs, 'time')}")
    if group.iteration is not None:
        facts.append(f"from iteration {group.iteration}")
    if group.kernels:
        facts.append("kernels " + ", ".join(group.kernels))
    if group.rank is not None:
        facts.append(f"rank {group.rank}")
    head.append("  " + ", ".join(facts))
    if group.fallback:
        head.append("  FELL BACK", style=STYLES["error"])
    return head


def _group_body(group: Group) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    last = None
    for node in group.nodes:
        source = near(node.user_source or node.source or "")
        table.add_row(node.op, "" if source == last else source)
        last = source
    for name, types, size in (("in", group.inputs, group.bytes_in), ("out", group.outputs, group.bytes_out)):
        shown = "; ".join(_short_type(t) for t in types)
        table.add_row(Text(name, style="dim"), shown + (f"  = {_bytes(size)}" if size is not None else ""))
    return table


def _short_type(text: str) -> str:
    """``Float(2, 3, strides=[3, 1], requires_grad=0, device=cuda:0)`` -> ``Float(2, 3) cuda:0``.

    Dense strides and requires_grad=0 say nothing new.
    """
    from fusiondoc.parsers.ir.types import TensorType, parse_type

    tensor = parse_type(text)
    if not isinstance(tensor, TensorType) or tensor.sizes is None or None in tensor.sizes:
        return text
    dense, step = [], 1
    for size in reversed(tensor.sizes):
        dense.append(step)
        step *= max(1, size or 1)
    short = f"{tensor.dtype}({', '.join(map(str, tensor.sizes))}"
    if tensor.strides is not None and list(tensor.strides) != dense[::-1]:
        short += f", strides={list(tensor.strides)}"
    return short + ")" + (f" {tensor.device}" if tensor.device else "")


def _unfused(report: Report, width: int) -> RenderableType | None:
    """Rows under their reason; the reasons that cost most first."""
    rows = [row for row in report.unfused if row.op not in NO_OPERATORS]
    if not rows:
        return None
    reasons: dict[Reason, list[Unfused]] = {}
    for row in rows:
        reasons.setdefault(row.reason, []).append(row)
    order = sorted(reasons, key=lambda r: (not r.stated, -sum(row.bytes_moved or 0 for row in reasons[r])))
    parts: list[RenderableType] = []
    left = MOST_ROWS
    for reason in order:
        if left <= 0:
            break
        parts += [_reason(reason), Padding(_rows(reasons[reason][:left], width - 3), (0, 0, 0, 2))]
        left -= len(reasons[reason])
    return Lines(*parts, *_more(len(rows)))


def _reason(reason: Reason) -> Text:
    text = Text(reason.code, style=STYLES["warning"] if reason.stated else "dim")
    text.append(" " + reason.text, style="default")
    return text


def _rows(rows: list[Unfused], width: int) -> Table:
    """Operator, line and code; the code has what the other two leave of ``width`` columns."""
    cells = [(row.op + (f" x{row.count}" if row.count > 1 else ""), _place(row)) for row in rows]
    left = width - sum(max(len(cell[i]) for cell in cells) for i in (0, 1)) - 4
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, style="dim")
    for row, cell in zip(rows, cells):
        code = code_at(row.user_source) or ""
        table.add_row(
            *cell, code if len(code) <= left else code[: max(0, left - 1)] + "…" if left > 12 else ""
        )
    return table


def _place(row: Unfused) -> str:
    place = near(row.user_source or row.source or "-")
    return place + (" (backward)" if row.phase == "backward" else "")


def _fallbacks(report: Report) -> RenderableType | None:
    if not report.fallbacks:
        return None
    table = _fields()
    for fallback in report.fallbacks:
        often = f"{'' if fallback.count_exact else 'at least '}{_count(fallback.count, 'time')}"
        lines = ", ".join(f"{e.file}:{e.line}" for e in list(fallback.evidence)[:2])
        table.add_row(fallback.group or "group unknown", f"while {DOING[fallback.stage]}, {often} ({lines})")
    return table


def _kernels(report: Report) -> RenderableType | None:
    if not report.kernels:
        return None
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for name in ("kernel", "group"):
        table.add_column(name, no_wrap=True)
    for name in ("runs", "grid", "block", "regs", "us", "GB/s", "peak"):
        table.add_column(name, justify="right", no_wrap=True)
    for kernel in report.kernels[:MOST_ROWS]:
        table.add_row(*_kernel_row(kernel))
    return Lines(table, *_more(len(report.kernels)))


def _kernel_row(kernel: Kernel) -> Iterable[str]:
    def dims(value: tuple[int, int, int] | None) -> str:
        if value is None:
            return "-"
        used = list(value)
        while len(used) > 1 and used[-1] == 1:
            used.pop()
        return "x".join(map(str, used))

    groups = ",".join(kernel.groups[:3]) + ("…" if len(kernel.groups) > 3 else "")
    return (
        f"{kernel.id} {kernel.name}",
        groups or "-",
        str(kernel.launches) if kernel.launches is not None else "-",
        dims(kernel.grid),
        dims(kernel.block),
        str(kernel.registers) if kernel.registers is not None else "-",
        f"{kernel.ms.median * 1000:.1f}" if kernel.ms else "-",
        f"{kernel.gb_per_s.median:,.0f}" if kernel.gb_per_s else "-",
        f"{kernel.peak_fraction:.0%}" if kernel.peak_fraction is not None else "-",
    )


def _findings(report: Report) -> RenderableType | None:
    shown = [f for f in report.findings if not f.code.startswith("FD2")]
    rest = [f for f in report.findings if f.code.startswith("FD2")]
    if not report.findings:
        return Text("none")
    parts: list[RenderableType] = []
    for finding in shown[:MOST_ROWS]:
        parts.append(_finding(finding))
    if rest:
        codes = sorted({f.code for f in rest})
        parts.append(
            Text(
                f"{_count(len(rest), 'finding')} on operators above ({', '.join(codes)}): fusiondoc "
                f"explain {codes[0]}"
            )
        )
    return Lines(*parts)


def _finding(finding: Finding) -> RenderableType:
    head = Text(f"{finding.severity} {finding.code}", style=STYLES[finding.severity])
    head.append(f"  {finding.message}", style="default")
    lines: list[RenderableType] = [head]
    if finding.source:
        lines.append(Padding(Text(near(finding.source), style="dim"), (0, 0, 0, 4)))
    if finding.advice:
        lines.append(Padding(Text("→ " + finding.advice), (0, 0, 0, 4)))
    return Lines(*lines)


def _log(report: Report) -> RenderableType:
    stats = report.parse
    if not stats.lines:
        return Text("empty")
    share = stats.recognised / stats.lines
    text = (
        f"{_count(stats.lines, 'line')}: {share:.1%} recognised, {stats.user_output:,} of the program's own,"
        f" {stats.unrecognised:,} unknown"
    )
    if stats.truncated:
        text += f", {stats.truncated} blocks cut off"
    lines: list[RenderableType] = [Text(text)]
    for line in stats.first_unrecognised[:3]:
        lines.append(Text(f"  {line.file}:{line.line}: {line.text[:90]}", style="dim"))
    timing = report.timing
    if timing.get("child") is not None:
        overhead = timing.get("overhead")
        took = f"{timing['child']:.2f} s in the model's process"
        lines.append(Text(took + (f", {overhead:.2f} s added by fusiondoc" if overhead is not None else "")))
    if report.target.get("capture"):
        lines.append(
            Text(f"kept in {report.target['capture']} (again: fusiondoc parse {report.target['capture']})")
        )
    return Lines(*lines)


def _more(count: int) -> list[RenderableType]:
    return (
        [Text(f"... {count - MOST_ROWS} more: --format json has all", style="dim")]
        if count > MOST_ROWS
        else []
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _bytes(size: int) -> str:
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.2f} {unit}"
        value /= 1000
    return f"{size} B"
