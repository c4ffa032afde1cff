"""The times of a run as sections: eager compared with fused, where the time of a
step goes, its passes in order, and the cost of each set of input shapes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from statistics import median

from fusiondoc.model import count
from fusiondoc.model.bench import Part
from fusiondoc.model.passes_by_inputs import by_inputs
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Iteration, Speed
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Formats,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS, sparkline
from fusiondoc.rendering.picture_blocks import Stack, Stacks
from fusiondoc.rendering.units import digits, milliseconds, ratio, share
from fusiondoc.rendering.values import (
    UNKNOWN,
    Bytes,
    Cell,
    Count,
    Duration,
    Gauge,
    IdLinks,
    Millis,
    Share,
    Text,
    Tone,
)
from fusiondoc.views.formatting import NO_DIFFERENCE, against
from fusiondoc.views.step_words import remarks, sentence

_EVERY_WAY = (
    Column("way"),
    Column("phase"),
    Column("inputs", number=True),
    Column("median", number=True),
    Column("from", number=True),
    Column("to", number=True),
    Column("first pass", number=True),
    Column("peak memory", number=True),
    Column("passes", number=True),
)


def pairs(report: Report) -> list[tuple[Speed | None, Speed | None]]:
    """Return pairs (eager, the other way) of each shape and phase, in the order of
    the report."""
    found: dict[tuple[int, str], dict[str, Speed]] = {}
    for row in report.speed:
        found.setdefault((row.inputs, row.phase), {})[row.way] = row
    both = []
    for ways in found.values():
        both.append((ways.get("eager"), ways.get("fused") or ways.get("scripted")))
    return [pair for pair in both if pair != (None, None)]


def how_fast(eager: Speed | None, other: Speed | None) -> Text:
    """Return ``2.57× as fast``, or that no difference could be shown."""
    if eager is None or other is None or not other.ms.median:
        return Text("-")
    times, differs = against(eager, other)
    if not differs:
        return Text(NO_DIFFERENCE)
    return Text(
        f"{ratio(times)} as fast", Tone.GOOD if times > 1 else Tone.DOUBTFUL
    )


def speed(report: Report) -> Section:
    """Section with a row for each shape and phase, the time of the warm-up, and on
    a page each way by itself."""
    rows = pairs(report)
    several = len({row.inputs for row in report.speed}) > 1
    memory = any(row.memory_bytes is not None for row in report.speed)
    other = next((two.way for _, two in rows if two is not None), "fused")
    columns = [
        *([Column("inputs", number=True)] if several else []),
        Column("ms"),
        Column("eager", number=True, spread=True),
        Column(other, number=True, spread=True),
        Column(f"{other} is", number=True),
    ]
    if memory:
        columns += [
            Column("memory, eager", number=True),
            Column(other, number=True),
        ]
    made = tuple(_compared(eager, fused, several, memory) for eager, fused in rows)
    blocks: list[Block] = [Table(tuple(columns), made, on_terminal=MOST_ROWS)]
    if rows:
        blocks.append(Sentences(tuple(_warm_up(report))))
        blocks.append(
            Sentences((report.speed_note,) if report.speed_note else (), Tone.DIM)
        )
    blocks.append(
        Table(
            _EVERY_WAY,
            tuple(map(_way, report.speed)),
            "Each way",
            formats=Formats.PAGE,
        )
    )
    return Section("speed", "Speed", blocks=tuple(blocks))


def _compared(
    eager: Speed | None, fused: Speed | None, several: bool, memory: bool
) -> Row:
    known = eager or fused
    assert known is not None
    cells: list[Cell] = [Count(known.inputs)] if several else []
    cells += [
        Text(known.phase),
        _median_of(eager),
        _median_of(fused),
        how_fast(eager, fused),
    ]
    if memory:
        for way in (eager, fused):
            cells.append(Bytes(way.memory_bytes if way is not None else None))
    return Row(tuple(cells))


def _median_of(way: Speed | None) -> Cell:
    if way is None:
        return UNKNOWN
    return Millis(way.ms.median, way.ms.min, way.ms.max)


def _way(row: Speed) -> Row:
    return Row(
        (
            Text(row.way),
            Text(row.phase),
            Count(row.inputs),
            Duration(row.ms.median),
            Duration(row.ms.min),
            Duration(row.ms.max),
            Duration(row.first_ms),
            Bytes(row.memory_bytes),
            Count(row.passes),
        )
    )


def _warm_up(report: Report) -> list[str]:
    """Return the times of the first passes, which profile and compile."""
    lines = []
    for row in report.speed:
        if row.way != "eager" and row.inputs == 0 and len(row.warmup_ms) > 1:
            times = ", ".join(digits(value) for value in row.warmup_ms[:5])
            lines.append(
                f"warm-up, {row.phase}: {sparkline(row.warmup_ms)}  {times} ms"
            )
    return lines


_MOST_MODULES = 20
_MODULES_ON_A_TERMINAL = 8


def where_time_goes(report: Report) -> Section:
    """Section of the kinds of work and the modules that take most of a step;
    without a profile, why there is none."""
    steps = report.steps
    if steps is None:
        notes = (report.steps_note,) if report.steps_note is not None else ()
        return Section(
            "steps", "Where the time goes", blocks=(Sentences(notes, Tone.DIM),)
        )
    kinds = tuple(part.what for part in steps.parts)
    pieces = []
    for part in steps.parts:
        pieces.append(
            (
                part.what,
                part.share,
                f"{part.what} {milliseconds(part.ms)}, {share(part.share)}",
            )
        )
    blocks: list[Block] = [
        Stacks(
            kinds,
            (Stack("a step", milliseconds(steps.ms), tuple(pieces)),),
            f"{sentence(steps)}.",
        ),
        _parts("of a step", steps.parts),
    ]
    if len(steps.layers) > 1:
        blocks.append(
            _parts(
                "by module", steps.layers[:_MOST_MODULES], _MODULES_ON_A_TERMINAL
            )
        )
    blocks.append(Sentences(tuple(remarks(report))))
    return Section("steps", "Where the time goes", blocks=tuple(blocks))


def _parts(
    name: str, parts: Sequence[Part], on_terminal: int | None = None
) -> Table:
    columns = (
        Column(name, wide=True),
        Column("takes", number=True),
        Column("share", number=True),
        Column(""),
    )
    rows = []
    for part in parts:
        rows.append(
            Row(
                (
                    Text(part.what),
                    Duration(part.ms),
                    Share(part.share),
                    Gauge(part.share, share(part.share)),
                )
            )
        )
    return Table(columns, tuple(rows), on_terminal=on_terminal)


_ALONE = 3
"""At most this many equal passes in a row have a line each; longer runs of equal
passes share one."""

_STAGES = {"compiling": Tone.DOUBTFUL, "steady": Tone.GOOD}


def time_line(report: Report) -> Section:
    """Section of the passes in order: profiling, compiling, steady; only pages have
    it."""
    title = "Passes" if report.compiled is not None else "Time line"
    if not report.iterations:
        return Section("time", title, formats=Formats.PAGE)
    spans = _spans(report.iterations)
    longest = max((_median(span) or 0.0 for span in spans), default=0.0)
    profiling = sum(one.stage == "profiling" for one in report.iterations)
    steady = None
    for one in report.iterations:
        if one.stage == "steady":
            steady = one.index
            break
    parts = []
    if report.compiled is None:
        parts = [f"{count(profiling, 'pass')} went to profiling"]
    if steady is not None:
        parts.append(f"steady from {steady}")
    else:
        parts.append("none was steady")
    note = f"{'; '.join(parts)}."
    several = len({one.inputs for one in report.iterations}) > 1
    columns = [
        Column("pass"),
        Column("phase"),
        Column("for"),
        Column(""),
        Column("took (median)", number=True),
        Column("new groups"),
    ]
    if several:
        columns.append(Column("inputs", number=True))
    rows = tuple(_span(span, longest, report, several) for span in spans)
    return Section(
        "time", title, note, (Table(tuple(columns), rows),), formats=Formats.PAGE
    )


def _span(
    span: Sequence[Iteration], longest: float, report: Report, several: bool
) -> Row:
    first, last, took = span[0], span[-1], _median(span)
    made = []
    for group in report.groups:
        if (
            group.iteration is not None
            and first.index <= group.iteration <= last.index
            and group.phase in (None, first.phase)
        ):
            made.append(group.id)
    if first.index == last.index:
        numbers = str(first.index)
    else:
        numbers = f"{first.index}–{last.index}"
    stage = first.stage or ""
    drawn = took is not None and longest > 0
    return Row(
        (
            Text(numbers),
            Text(first.phase),
            Text(stage or "not known", _STAGES.get(stage, Tone.PLAIN)),
            Gauge(took / longest, milliseconds(took), stage)
            if took is not None and drawn
            else Text(""),
            Duration(took),
            IdLinks(tuple(made)),
            *((Count(first.inputs),) if several else ()),
        )
    )


def _spans(iterations: Sequence[Iteration]) -> list[list[Iteration]]:
    """Return successive passes of one phase, stage and set of inputs together; if
    they are few, each by itself."""
    in_order = sorted(
        iterations, key=lambda one: (one.phase != "forward", one.index)
    )
    spans: list[list[Iteration]] = []
    for _, same in groupby(
        in_order, key=lambda one: (one.phase, one.stage, one.inputs)
    ):
        span = list(same)
        spans += [span] if len(span) > _ALONE else [[one] for one in span]
    return sorted(
        spans, key=lambda span: (span[0].index, span[0].phase != "forward")
    )


def _median(span: Sequence[Iteration]) -> float | None:
    """Return the median in milliseconds."""
    known = []
    for one in span:
        if one.seconds is not None:
            known.append(one.seconds * 1e3)
    if known:
        return float(median(known))
    return None


_SHAPES = (
    Column("inputs", number=True),
    Column("passes", number=True),
    Column("compiling", number=True),
    Column("first pass", number=True),
    Column("steady", number=True),
    Column("groups made for it", wide=True),
)


def shapes(report: Report) -> Section:
    """Section with a row for each set of inputs; empty if there is only one."""
    rows = []
    without = "none: those of other inputs serve" if report.groups else "none"
    for row in by_inputs(report.iterations, report.groups):
        first, steady = _in_ms(row.first), _in_ms(row.steady)
        groups = IdLinks(row.groups) if row.groups else Text(without)
        numbers = (Count(row.inputs), Count(row.passes), Count(row.compiled))
        rows.append(Row((*numbers, Duration(first), Duration(steady), groups)))
    return Section("shapes", "Shapes", blocks=(Table(_SHAPES, tuple(rows)),))


def _in_ms(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    return seconds * 1e3
