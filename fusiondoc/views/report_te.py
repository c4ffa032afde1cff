"""The plans of Transformer Engine's operation fuser as a section: the fused
operators of each, and their time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import Report
from fusiondoc.model.te import TeFuser, TePass, TePlan, TeStep, TeTime
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Heading,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.units import tenths
from fusiondoc.rendering.values import UNKNOWN, Cell, Count, Text, Tone

_PLANNED = (Column("operator"), Column("of"))
_TIMED = (
    Column("kernels", number=True),
    Column("us", number=True),
    Column("apart", number=True),
    Column("us apart", number=True),
)


def te_plans(report: Report) -> Section:
    """Section of each fuser with its plans; empty without Transformer Engine."""
    title = "Transformer Engine"
    if report.te is None or not report.te.fusers:
        return Section("te", title)
    blocks: list[Block] = []
    if report.ranks is not None:
        note = "Plans of the first rank; the table of ranks counts groups of TorchScript alone"
        blocks.append(Sentences((note,), Tone.DIM))
    alike: dict[object, list[tuple[int, TeFuser]]] = {}
    for number, fuser in enumerate(report.te.fusers, 1):
        alike.setdefault(_plans_of(fuser), []).append((number, fuser))
    for several in list(alike.values())[:MOST_ROWS]:
        blocks += [Heading(_heading(several)), *_plans(several[0][1])]
    notes = []
    if len(alike) > MOST_ROWS:
        notes = [f"... {len(alike) - MOST_ROWS} more: --format json has all"]
    for split in report.te.splits[:MOST_ROWS]:
        notes.append(
            f"{split.module} ({split.where}) separates the fusers around it"
        )
    blocks += [
        Sentences(tuple(notes), Tone.DIM),
        Sentences(tuple(_passes(report.te.passes))),
    ]
    return Section("te", title, blocks=tuple(blocks))


def _phases(plan: TePlan) -> Iterator[tuple[str, Sequence[TeStep]]]:
    yield "forward", plan.forward
    yield "backward", plan.backward


def _plans_of(fuser: TeFuser) -> object:
    """Return the key that is equal for fusers that are shown once: equal operators
    of equal lines with equal plans."""
    plans = []
    for plan in fuser.plans:
        for phase, steps in _phases(plan):
            plans.append(
                (
                    plan.recipe,
                    plan.training,
                    phase,
                    tuple((step.op, step.operators, step.group) for step in steps),
                )
            )
    return tuple(
        (operator.op, operator.source) for operator in fuser.operators
    ), tuple(plans)


_MOST_NUMBERS = 4


def _heading(alike: Sequence[tuple[int, TeFuser]]) -> str:
    """Return ``Fuser 1 of seq: BasicLinear, Bias``; ``Fusers 1, 3, 5 of
    blocks.[0-2].seq``."""
    numbers, first = [str(number) for number, _ in alike], alike[0][1]
    shown = ", ".join(numbers[:_MOST_NUMBERS]) + (
        " ..." if len(numbers) > _MOST_NUMBERS else ""
    )
    layers = tuple(dict.fromkeys(fuser.layer for _, fuser in alike if fuser.layer))
    source = None
    for operator in first.operators:
        if operator.source:
            source = operator.source
            break
    if layers:
        where = f" of {folded(layers)}"
    elif source:
        where = f" ({source})"
    else:
        where = ""
    operators = ", ".join(operator.op for operator in first.operators)
    return f"Fuser{'s' * (len(alike) > 1)} {shown}{where}: {operators}"


def _plans(fuser: TeFuser) -> tuple[Table, Sentences]:
    """The plans of a fuser, each below its mode; equal plans are written once, then
    named."""
    timed = any(
        step.time is not None
        for plan in fuser.plans
        for _, steps in _phases(plan)
        for step in steps
    )
    shown: dict[object, str] = {}
    rows: list[Row] = []
    repeated: list[str] = []
    for plan in fuser.plans:
        mode = _mode(plan.training, plan.recipe)
        for phase, steps in _phases(plan):
            key = (phase, *((step.op, step.operators) for step in steps))
            title = f"{phase}, {mode}"
            if timed or key not in shown:
                shown.setdefault(key, mode)
                rows += [_step(step, title, timed) for step in steps]
            elif (
                shown[key] != mode and steps
            ):  # else the same plan with weights of another type
                repeated.append(f"{title}: as in {shown[key]}")
    return Table(_PLANNED + (_TIMED if timed else ()), tuple(rows)), Sentences(
        tuple(repeated), Tone.DIM
    )


def _mode(training: bool | None, recipe: str | None) -> str:
    of_recipe = "no recipe" if recipe in (None, "none") else str(recipe)
    return f"{'training' if training else 'inference'}, {of_recipe}"


def _step(step: TeStep, title: str, timed: bool) -> Row:
    name = (
        step.op
        + (f" {step.group}" if step.group else "")
        + (" (the program's own)" if step.own else "")
    )
    first, last = min(step.operators, default=0), max(step.operators, default=0)
    of = str(first) if first == last else f"{first}-{last}"
    cells: tuple[Cell, ...] = (
        Text(name, Tone.GOOD if step.fused else Tone.PLAIN),
        Text(of),
    )
    return Row(cells + (_time(step.time) if timed else ()), above=title)


def _time(time: TeTime | None) -> tuple[Cell, ...]:
    """Cells of launches and microseconds, as planned and without the fusion. Tenths
    keep the decimal points of a column below each other."""
    if time is None:
        return (UNKNOWN,) * len(_TIMED)
    launches = f"{time.kernels}" + (f"+{time.copies}" if time.copies else "")
    apart = UNKNOWN if time.alone_us is None else Text(tenths(time.alone_us))
    return Text(launches), Text(tenths(time.us)), Count(time.alone_kernels), apart


def _passes(passes: Sequence[TePass]) -> list[str]:
    """Return the sentences on the GPU time that all fusions of a pass save."""
    without_fusion = {}
    for run in reversed(passes):
        if not run.fused:
            without_fusion[(run.recipe, run.training)] = run
    lines = []
    for run in passes:
        apart = without_fusion.get((run.recipe, run.training))
        if not run.fused or apart is None or run.us is None or apart.us is None:
            continue
        mode, kernels = (
            _mode(run.training, run.recipe),
            count(round(run.kernels or 0), "kernel"),
        )
        lines.append(
            f"A whole pass ({mode}): {kernels} and {tenths(run.us)} us on the GPU as planned; "
            f"{round(apart.kernels or 0)} and {tenths(apart.us)} us without any fusion"
        )
    return lines
