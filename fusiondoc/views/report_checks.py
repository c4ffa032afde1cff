"""Comparisons of a run, as sections: its results with those of eager
(``--verify``), and runs with one change each (``--try``)."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.fusers import with_evaluator
from fusiondoc.model.change_plan import Try
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Verification, furthest_off
from fusiondoc.rendering.blocks import Column, Row, Section, Sentences, Table
from fusiondoc.rendering.units import TERMINAL, difference
from fusiondoc.rendering.values import (
    UNKNOWN,
    Cell,
    Count,
    Factor,
    Rate,
    ResultDifference,
    Status,
    Text,
    Tone,
)
from fusiondoc.views.formatting import NO_DIFFERENCE, verdict_on_tries

_NUMBERS = (
    Column("compared with eager"),
    Column("same", number=True),
    Column("off by", number=True),
    Column("of its size", number=True),
    Column("allowed", number=True),
    Column("", optional=True, wide=True),
)
_MOST_COMPARED = 20


def numbers_in_a_line(report: Report) -> str | None:
    """Return the outcome of ``--verify``: how many results are the same as without
    a fuser, and the one that is furthest off; None without ``--verify``."""
    if not report.verification:
        options = report.target.options
        if options is not None and options.verify:
            return "nothing was compared with eager"
        return None
    text = f"{_how_many_same(report)}, fused and eager"
    off = [row for row in report.verification if not row.same]
    if not off:
        return text
    worst = furthest_off(off)
    off_by = TERMINAL.known(worst.max_abs, difference)
    of_its_size = TERMINAL.known(worst.max_rel, difference)
    return f"{text}; {worst.what} is off by {off_by}, {of_its_size} of its size"


def _how_many_same(report: Report) -> str:
    names = {row.what for row in report.verification}
    off = set()
    for row in report.verification:
        if not row.same:
            off.add(row.what)
    passes = len({row.iteration for row in report.verification})
    return f"{len(names - off):,} of {len(names):,} results are the same in all of {passes} passes"


def numbers(report: Report) -> Section:
    """A row for each compared tensor, those that differ first."""
    if not report.verification:
        return Section("numbers", "Numbers")
    by_name: dict[str, list[Verification]] = {}
    for row in report.verification:
        by_name.setdefault(row.what, []).append(row)
    order = sorted(by_name.values(), key=lambda rows: all(row.same for row in rows))
    judged = []
    for worst in map(furthest_off, order):
        if worst.judgement:
            judged.append(f"{worst.what}: {worst.judgement}")
    table = Table(_NUMBERS, tuple(map(_tensor, order)), on_terminal=_MOST_COMPARED)
    return Section(
        "numbers",
        "Numbers",
        _how_many_same(report),
        (table, Sentences(tuple(judged))),
    )


def _tensor(rows: Sequence[Verification]) -> Row:
    same = sum(row.same for row in rows)
    worst = furthest_off(rows)
    remarks = ["by statistics"] if worst.by == "statistics" else []
    remarks += [row.detail for row in (worst, *rows) if row.detail][:1]
    return Row(
        (
            Text(worst.what),
            Text(
                f"{same}/{len(rows)}", Tone.PLAIN if same == len(rows) else Tone.BAD
            ),
            ResultDifference(worst.max_abs),
            ResultDifference(worst.max_rel),
            Text("equal")
            if worst.tolerance == 0
            else ResultDifference(worst.tolerance),
            Text(": ".join(remarks), Tone.DIM),
        )
    )


_TRIED = (
    Column("change"),
    Column("groups", number=True),
    Column("fused", number=True),
    Column("not fused", number=True),
    Column("fallbacks", number=True, optional=True),
    Column("GB/s", number=True, optional=True),
    Column("speed", number=True, optional=True),
    Column("wrong", number=True, optional=True),
)


def tried(report: Report) -> Section:
    """Section of the runs with one change, compared with the run as it was
    requested."""
    rows = report.tries
    if not rows:
        return Section("tried", "Tried")
    table = Table(
        _TRIED, tuple(_try(row, rows[row.against], row is rows[0]) for row in rows)
    )
    problems = []
    for row in rows:
        if row.problem is not None:
            problems.append(f"{row.change}: {row.problem}")
    notes = Sentences((*problems, *_on_the_speed(rows)), Tone.DIM)
    verdict = Sentences((verdict_on_tries(rows),), Tone.STRONG)
    return Section("tried", "Tried", blocks=(table, notes, verdict))


def _try(row: Try, base: Try, is_first: bool) -> Row:
    if row.problem is not None and not is_first:
        return Row(
            (
                Text(row.change),
                Status("failed", Tone.BAD),
                *[UNKNOWN] * (len(_TRIED) - 2),
            )
        )
    fused = Tone.GOOD if row.ops_fused > base.ops_fused else Tone.PLAIN
    unfused = Tone.GOOD if row.unfused < base.unfused else Tone.PLAIN
    fallbacks = Tone.GOOD if row.fallbacks < base.fallbacks else Tone.PLAIN
    return Row(
        (
            Text(row.change),
            Count(row.groups),
            Count(row.ops_fused, fused, base.ops_fused),
            Count(row.unfused, unfused, base.unfused),
            Count(row.fallbacks, fallbacks, base.fallbacks),
            Rate(row.gb_per_s),
            _speed(row),
            Count(row.wrong, Tone.BAD if row.wrong else Tone.PLAIN),
        )
    )


def _speed(row: Try) -> Cell:
    """Speed relative to the run as it was requested, timed alternately."""
    if row.speed is None:
        return UNKNOWN
    if row.speed.differs:
        return Factor(row.speed.value)
    return Text(NO_DIFFERENCE)


def _on_the_speed(rows: Sequence[Try]) -> list[str]:
    if any(row.speed is not None for row in rows):
        lines = [
            "speed: against the unchanged run, timed in turns and without logs"
        ]
        if any(row.against and row.frozen for row in rows):
            lines.append("frozen runs are compared with the first frozen run")
        return lines
    if any(row.steady_seconds is None and row.groups for row in rows):
        return [
            f"no speed where {with_evaluator()} ran through its own evaluator (no LLVM in this torch)"
        ]
    return []
