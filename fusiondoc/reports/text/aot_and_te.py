"""The sections of the terminal report on what fuses beside TorchScript: Transformer Engine and AOTAutograd.

Transformer Engine: operators, plans, kernels and times.

The section of the terminal report on AOTAutograd: graphs, groups of each side, what a partition keeps.
"""

from __future__ import annotations

from typing import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.beside_torchscript import AotFunction, TeFuser, TePass, TePlan, TeStep, TeTime
from fusiondoc.model.module_tree import folded
from fusiondoc.model.report import Report
from fusiondoc.reports import aot_words
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, more
from fusiondoc.reports.wording import count


def te_plans(report: Report) -> RenderableType | None:
    """Each fuser with its plans; None without Transformer Engine."""
    if report.te is None or not report.te.fusers:
        return None
    parts: list[RenderableType] = []
    if report.ranks is not None:
        said = "Plans of the first rank; the table of ranks counts groups of TorchScript alone"
        parts.append(Text(said, style="dim"))
    alike: dict[object, list[tuple[int, TeFuser]]] = {}
    for number, fuser in enumerate(report.te.fusers, 1):
        alike.setdefault(_plans_of(fuser), []).append((number, fuser))
    for several in list(alike.values())[:MOST_ROWS]:
        parts += [_head(several), Padding(_body(several[0][1]), (0, 0, 0, 2))]
    parts += more(len(alike))
    for split in report.te.splits[:MOST_ROWS]:
        parts.append(Text(f"{split.module} ({split.place}) separates the fusers around it", style="dim"))
    passes = _passes(report.te.passes)
    if passes is not None:
        parts.append(passes)
    return Lines(*parts)


def _plans_of(fuser: TeFuser) -> object:
    """What fusers have in common that are shown once: equal operators of equal lines with equal plans."""
    plans = [
        (plan.recipe, plan.training, phase, tuple((one.op, one.operators, one.group) for one in steps))
        for plan in fuser.plans
        for phase, steps in (("forward", plan.forward), ("backward", plan.backward))
    ]
    return tuple((one.op, one.source) for one in fuser.operators), tuple(plans)


def _head(alike: Sequence[tuple[int, TeFuser]]) -> Text:
    """``Fuser 1 of seq: BasicLinear, Bias``; ``Fusers 1, 3, 5 of blocks.[0-2].seq``."""
    numbers, first = [str(number) for number, _ in alike], alike[0][1]
    shown = ", ".join(numbers[:_MOST_NUMBERS]) + (" ..." if len(numbers) > _MOST_NUMBERS else "")
    head = Text(f"Fuser{'s' * (len(alike) > 1)} {shown}", style="bold")
    layers = tuple(dict.fromkeys(fuser.layer for _, fuser in alike if fuser.layer))
    place = next((one.source for one in first.operators if one.source), None)
    where = f" of {folded(layers)}" if layers else f" ({place})" if place else ""
    head.append(f"{where}: {', '.join(one.op for one in first.operators)}", style="default")
    return head


_MOST_NUMBERS = 4


def _body(fuser: TeFuser) -> RenderableType:
    """Equal plans are one row of several modes."""
    timed = any(step.time is not None for plan in fuser.plans for step in (*plan.forward, *plan.backward))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("operator", no_wrap=True)
    table.add_column("of", no_wrap=True)
    for name in ("kernels", "us", "apart", "us apart") if timed else ():
        table.add_column(name, justify="right", no_wrap=True)
    shown: dict[tuple[tuple[str, tuple[int, ...]], ...], str] = {}
    repeated: list[Text] = []
    for plan in fuser.plans:
        for phase, steps in (("forward", plan.forward), ("backward", plan.backward)):
            if not steps:
                continue
            key = ((phase, ()), *((step.op, step.operators) for step in steps))
            title = f"{phase}, {_mode(plan)}"
            if shown.get(key) == _mode(plan) and not timed:
                continue  # the same plan with weights of another type
            if key in shown and not timed:
                repeated.append(Text(f"{title}: as in {shown[key]}", style="dim"))
                continue
            table.add_row(Text(title, style="dim"), "")
            shown.setdefault(key, _mode(plan))
            for step in steps:
                indented = Text("  ").append_text(_name(step))
                table.add_row(indented, _of(step), *(_time(step.time) if timed else ()))
    return Lines(table, *repeated)


def _mode(plan: TePlan) -> str:
    return f"{'training' if plan.training else 'inference'}, {_short(plan.recipe)}"


def _short(recipe: str | None) -> str:
    return "no recipe" if recipe in (None, "none") else str(recipe)


def _name(step: TeStep) -> Text:
    text = Text(step.op, style="bold green" if step.fused else "")
    if step.group:
        text.append(f" {step.group}", style="dim")
    if step.own:
        text.append(" (the program's own)", style="dim")
    return text


def _of(step: TeStep) -> str:
    first, last = min(step.operators, default=0), max(step.operators, default=0)
    return str(first) if first == last else f"{first}-{last}"


def _time(time: TeTime | None) -> tuple[str, str, str, str]:
    if time is None:
        return ("-", "-", "-", "-")
    return (
        _launches(time),
        f"{time.us:.1f}",
        "-" if time.alone_kernels is None else str(time.alone_kernels),
        "-" if time.alone_us is None else f"{time.alone_us:.1f}",
    )


def _launches(time: TeTime) -> str:
    return f"{time.kernels}" + (f"+{time.copies}" if time.copies else "")


def _passes(passes: tuple[TePass, ...]) -> RenderableType | None:
    """What all fusions of a pass save on the GPU."""
    lines = []
    for one in passes:
        apart = next(
            (
                other
                for other in passes
                if not other.fused and (other.recipe, other.training) == (one.recipe, one.training)
            ),
            None,
        )
        if not one.fused or apart is None or one.us is None or apart.us is None:
            continue
        mode = f"{'training' if one.training else 'inference'}, {_short(one.recipe)}"
        kernels = count(round(one.kernels or 0), "kernel")
        lines.append(
            Text(
                f"A whole pass ({mode}): {kernels} and {one.us:.1f} us on the GPU as planned; "
                f"{round(apart.kernels or 0)} and {apart.us:.1f} us without any fusion"
            )
        )
    return Lines(*lines) if lines else None


def aot(report: Report) -> RenderableType | None:
    """Every function that was given to AOTAutograd; None without any."""
    if not report.aot and not report.fused_modules:
        return None
    parts: list[RenderableType] = [Text(aot_words.module_line(one)) for one in report.fused_modules]
    for one in report.aot[:MOST_ROWS]:
        head = Text(one.id, style="bold green")
        head.append(f"  {aot_words.headline(one)}", style="default")
        parts += [head, Padding(_function(one), (0, 0, 0, 2))]
    parts += more(len(report.aot))
    return Lines(*parts)


def _function(one: AotFunction) -> RenderableType:
    graphs = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    graphs.add_column("graph", no_wrap=True)
    graphs.add_column("operators", justify="right", no_wrap=True)
    graphs.add_column("in groups", justify="right", no_wrap=True)
    graphs.add_column("")
    graphs.add_column("not in groups", overflow="fold")
    for side in aot_words.sides(one):
        graphs.add_row(side.phase, f"{side.operators:,}", side.fused, " ".join(side.groups), side.others)
    parts: list[RenderableType] = [graphs]
    said = aot_words.partition(one)
    if said is not None:
        parts.append(Text(said))
    rows = aot_words.kept(one)
    if rows:
        table = Table.grid(padding=(0, 2), pad_edge=False)
        for row in rows[: aot_words.MOST_VALUES]:
            table.add_row(
                Text(row.fate, style="dim"), row.op, row.type, row.bytes, Text(row.line, style="dim")
            )
        parts.append(Padding(table, (0, 0, 0, 2)))
        left = len(rows) - aot_words.MOST_VALUES
        if left > 0:
            parts.append(Text(f"  ... {left} more: --format json has all", style="dim"))
    parts += [Text(text, style="dim") for text in aot_words.remarks(one)]
    return Lines(*parts)
