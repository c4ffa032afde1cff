"""What the passes were for and how long they took; numbers compared with eager; what was tried; speed."""

from __future__ import annotations

from itertools import groupby
from statistics import median
from typing import Sequence

from fusiondoc.model.report import Report
from fusiondoc.model.runs import Iteration, Speed, Try, Verification
from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import bar, section, table
from fusiondoc.reports.wording import count, seconds, size

_ALONE = 3
"""So many equal passes in a row have a line each; more are put together."""


def time_line(context: Context) -> Markup | None:
    """The iterations: profiling, compiling, steady."""
    report = context.report
    if not report.iterations:
        return None
    spans = _spans(report.iterations)
    longest = max((_median(span) or 0.0 for span in spans), default=0.0)
    several = len({one.inputs for one in report.iterations}) > 1
    rows: list[list[Child]] = []
    for span in spans:
        first, last, took = span[0], span[-1], _median(span)
        numbers = str(first.index) if first.index == last.index else f"{first.index}–{last.index}"
        stage = el("span", first.stage or "not known", class_=f"stage {first.stage or ''}".strip())
        said = seconds(took) + (" (median)" if len(span) > 1 and took is not None else "")
        width = bar(took / longest, said, first.stage or "") if took is not None and longest else ""
        made = [
            g.id
            for g in report.groups
            if g.iteration is not None
            and first.index <= g.iteration <= last.index
            and g.phase in (None, first.phase)
        ]
        cells: list[Child] = [
            numbers,
            first.phase,
            stage,
            width,
            said,
            ", ".join(made[:8]) + ("…" if len(made) > 8 else ""),
        ]
        rows.append([*cells, str(first.inputs)] if several else cells)
    columns = [("Pass", ""), ("Phase", ""), ("For", ""), ("", "peak"), ("Took", "n"), ("New groups", "")]
    if several:
        columns.append(("Inputs", "n"))
    profiling = sum(one.stage == "profiling" for one in report.iterations)
    steady = next((one.index for one in report.iterations if one.stage == "steady"), None)
    note = f"{count(profiling, 'pass').replace('passs', 'passes')} went to profiling"
    note += f"; steady from {steady}." if steady is not None else "; none was steady."
    return section("time", "Time line", table("Passes in order", columns, rows), note=note)


def _spans(iterations: Sequence[Iteration]) -> list[list[Iteration]]:
    spans: list[list[Iteration]] = []
    by_phase = sorted(iterations, key=lambda one: one.index)
    for _, same in groupby(
        sorted(by_phase, key=lambda one: one.phase != "forward"),
        key=lambda one: (one.phase, one.stage, one.inputs),
    ):
        span = list(same)
        spans += [span] if len(span) > _ALONE else [[one] for one in span]
    return sorted(spans, key=lambda span: (span[0].index, span[0].phase != "forward"))


def _median(span: Sequence[Iteration]) -> float | None:
    known = [one.seconds for one in span if one.seconds is not None]
    return float(median(known)) if known else None


def speed_view(context: Context) -> Markup | None:
    """Eager against fused, timed without dumps."""
    report = context.report
    if not report.speed:
        return None
    columns = (
        ("Way", ""),
        ("Phase", ""),
        ("Inputs", "n"),
        ("Median", "n"),
        ("From", "n"),
        ("To", "n"),
        ("First pass", "n"),
        ("Peak memory", "n"),
        ("Passes", "n"),
    )
    return section(
        "speed", "Speed", table("Time of a pass", columns, map(_speed, report.speed)), note=report.speed_note
    )


def _speed(row: Speed) -> list[Child]:
    times = (row.ms.median, row.ms.min, row.ms.max, row.first_ms)
    told = [seconds(one / 1e3) if one is not None else "–" for one in times]
    return [row.way, row.phase, str(row.inputs), *told, size(row.memory_bytes), str(row.passes)]


def numbers_view(context: Context) -> Markup | None:
    """``--verify``: fused against eager."""
    rows = context.report.verification
    if not rows:
        return None
    by_name: dict[str, list[Verification]] = {}
    for row in rows:
        by_name.setdefault(row.what, []).append(row)
    order = sorted(by_name.values(), key=lambda of: all(row.same for row in of))
    right = sum(all(row.same for row in of) for of in by_name.values())
    columns = (
        ("Compared with eager", ""),
        ("Same", "n"),
        ("Off by", "n"),
        ("Of its size", "n"),
        ("Allowed", "n"),
        ("", "wide"),
    )
    passes = len({row.iteration for row in rows})
    note = f"{right} of {len(by_name)} results are the same in all of {passes} passes."
    return section(
        "numbers", "Numbers", table("Results against eager", columns, map(_compared, order)), note=note
    )


def _compared(rows: Sequence[Verification]) -> list[Child]:
    same = sum(row.same for row in rows)
    worst = max(rows, key=lambda row: (not row.same, row.max_rel is None, row.max_rel or 0.0))
    remarks = ["by statistics"] if worst.by == "statistics" else []
    remarks += [row.detail for row in (worst, *rows) if row.detail][:1]
    said = el("span", f"{same}/{len(rows)}", class_=None if same == len(rows) else "bad")
    allowed = "equal" if worst.tolerance == 0 else _number(worst.tolerance)
    return [worst.what, said, _number(worst.max_abs), _number(worst.max_rel), allowed, ": ".join(remarks)]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"


def tries_view(context: Context) -> Markup | None:
    """``--try``: the run again with one change each."""
    rows = context.report.tries
    if not rows:
        return None
    columns = (
        ("Change", ""),
        ("Groups", "n"),
        ("Fused", "n"),
        ("Not fused", "n"),
        ("Fallbacks", "n"),
        ("GB/s", "n"),
        ("Steady pass", "n"),
        ("Wrong", "n"),
        ("", "wide"),
    )
    return section(
        "tried",
        "Tried",
        table("Runs with one change each", columns, [_try(row, context.report) for row in rows]),
    )


def _try(row: Try, report: Report) -> list[Child]:
    asked = report.tries[0]
    if row.problem is not None and row is not asked:
        return [row.change, *["–"] * 7, f"failed: {row.problem}"]

    def better(number: int, base: int, more: bool) -> Child:
        good = number > base if more else number < base
        return el("strong", f"{number:,} ({number - base:+,})", class_="good") if good else f"{number:,}"

    return [
        row.change,
        f"{row.groups:,}",
        better(row.ops_fused, asked.ops_fused, True),
        better(row.unfused, asked.unfused, False),
        better(row.fallbacks, asked.fallbacks, False),
        "–" if row.gb_per_s is None else f"{row.gb_per_s:,.0f}",
        seconds(row.steady_seconds),
        "–" if row.wrong is None else str(row.wrong),
        row.problem or "",
    ]
