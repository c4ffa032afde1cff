"""The HTML report: one self-contained page that needs no network and runs nothing of the log, with its first
screen (did it fuse, what not, why, how fast; what to do now); and a small fragment for a notebook's output
cell.

Python prepares typed values (the views), ``templates/`` make HTML of them. Style and script are part of the
page; its Content-Security-Policy allows these two by their hashes and nothing else. The fragment of a report
or a comparison has no script, no style sheet and nothing from the network; every text of the log is escaped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from statistics import median

from markupsafe import Markup

from fusiondoc.comparison import Comparison
from fusiondoc.model import count, dataclass
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Finding, Kernel, Report
from fusiondoc.rendering import blocks
from fusiondoc.rendering.hues import colours
from fusiondoc.rendering.pages import TEMPLATES, Room, digest, render_page, style_sheet
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.units import bandwidth, percent, whole
from fusiondoc.rendering.values import Cause, Gauge
from fusiondoc.reports import program_by_itself
from fusiondoc.version import __version__
from fusiondoc.views import comparison_words as words
from fusiondoc.views.formatting import (
    Speedup,
    covered,
    fuser,
    machine,
    near,
    peak_share,
    runs_of,
    speedups,
    verdict,
    with_near_paths,
)
from fusiondoc.views.report_checks import numbers, tried
from fusiondoc.views.report_context import Context
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_frontends import aot, script
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_kernels import kernels, peak_bar
from fusiondoc.views.report_outside import unfused
from fusiondoc.views.report_plan import plan
from fusiondoc.views.report_program import modules, program
from fusiondoc.views.report_ranks import ranks, ranks_merged
from fusiondoc.views.report_record import expectations, log, reproduce
from fusiondoc.views.report_source import source
from fusiondoc.views.report_te import te_plans
from fusiondoc.views.report_times import shapes, speed, time_line, where_time_goes

_MOST = 4


@dataclass(frozen=True)
class Fused:
    """Did it fuse?"""

    answer: str
    bar: Gauge | None = None
    said: str | None = None
    groups: str | None = None
    fallbacks: str | None = None


@dataclass(frozen=True)
class NotFused:
    """What did not? ``tally``: (operator, how many) of the first kinds; ``more``: kinds beyond them."""

    total: int
    tally: tuple[tuple[str, int], ...]
    more: int


@dataclass(frozen=True)
class Why:
    """Why? ``otherwise`` is said where there is neither a problem nor a reason."""

    worst: Finding | None
    reasons: tuple[Cause, ...]
    otherwise: str


@dataclass(frozen=True)
class Light:
    """The kernels that take longest against the peak: (id, name, bar)."""

    median: str
    kernels: tuple[tuple[str, str, Gauge], ...]
    note: str


@dataclass(frozen=True)
class Fast:
    """How fast? ``passes``: nothing else is known, but the time line is."""

    speedups: tuple[Speedup, ...]
    light: Light | None
    note: str | None
    passes: bool


@dataclass(frozen=True)
class Header:
    """Title, machine and the four answers."""

    name: str
    verdict: str
    where: str
    fuser_why: str | None
    by_itself: tuple[str, tuple[str, ...]] | None
    """What the program does without the switches of the run, and the lines that set them."""
    fused: Fused
    not_fused: NotFused
    why: Why
    fast: Fast


def header(context: Context) -> Header:
    report = context.report
    why = report.fuser.why
    why = why[len("auto: ") :] if why and why.startswith("auto: ") else why
    says_more = why is not None and why != "asked for" and why not in fuser(report)
    gone = next((one for one in report.findings if one.in_header), None)
    own = report.fuser.by_itself
    return Header(
        name=report.target.name or "",
        verdict=verdict(report),
        where=" · ".join([*machine(report), fuser(report)]),
        fuser_why=f"{gone.message} ({gone.code})" if gone is not None else why if says_more else None,
        by_itself=(f"The program {program_by_itself.lead(own)}", own.python) if own is not None else None,
        fused=_fused(report),
        not_fused=_not_fused(context),
        why=_why(context),
        fast=_fast(report),
    )


def _fused(report: Report) -> Fused:
    each = each_rank(report)
    whose = f"{each.whose}: " if each is not None else ""
    report = each.report if each is not None else report
    cover, share = report.coverage, covered(report, percent)
    if not report.groups:
        return Fused("No" if report.unfused else "Not known", said="No fusion group in the log.")
    phases = Counter(group.phase for group in report.groups for _ in group.instances)
    named = [f"{phases[phase]} {phase}" for phase in ("forward", "backward") if phases[phase]]
    groups = count(report.fusion_groups, "group") + (f": {', '.join(named)}" if named else "")
    fallen = sum(one.count for one in report.fallbacks)
    fallbacks = count(fallen, "fallback") if fallen else None
    if cover.fraction is None:
        said = f"{whose}{count(report.fused_operators, 'operator')}, {share}" if share is not None else None
        return Fused(str(report.fusion_groups), said=said, groups=groups, fallbacks=fallbacks)
    said = f"{whose}{cover.ops_fused} of {cover.ops_total} operators: {share}"
    return Fused(
        percent(cover.fraction),
        Gauge(cover.fraction, str(share)),
        said,
        groups,
        fallbacks,
    )


def _not_fused(context: Context) -> NotFused:
    """What can be changed first."""
    counts: dict[str, int] = {}
    stated: dict[str, bool] = {}
    for row in outside(context.report):
        counts[row.op] = counts.get(row.op, 0) + row.count
        stated[row.op] = stated.get(row.op, False) or row.reason.stated
    order = sorted(counts, key=lambda op: (op in context.fixed, not stated[op], -counts[op], op))
    tally = tuple((op, counts[op]) for op in order[:_MOST])
    return NotFused(sum(counts.values()), tally, max(0, len(order) - _MOST))


def _why(context: Context) -> Why:
    findings = context.report.findings
    worst = next((f for f in findings if f.severity == "error"), None)
    first = findings[0].message if findings else "Nothing to explain."
    return Why(worst, tuple(context.reasons[: _MOST - (worst is not None)]), first)


def _fast(report: Report) -> Fast:
    timed = [kernel for kernel in report.kernels if kernel.gb_per_s is not None]
    known = tuple(speedups(report)[:_MOST])
    if known or timed:
        return Fast(known, _light(report, timed) if timed else None, report.speed_note, False)
    passes = any(one.seconds is not None for one in report.iterations)
    return Fast((), None, report.speed_note or "The log holds no bandwidth of a kernel.", passes)


def _light(report: Report, timed: list[Kernel]) -> Light:
    """Against the peak bandwidth or, without one, the fastest of them."""
    timed = sorted(timed, key=lambda k: -(k.ms.median if k.ms else 0.0))
    rates = [kernel.gb_per_s.median for kernel in timed if kernel.gb_per_s]
    fastest = max(rates) or 1.0
    rows = []
    for kernel, rate in list(zip(timed, rates))[:_MOST]:
        share = peak_share(kernel, report)
        if share is None:
            bar = Gauge(rate / fastest, f"{bandwidth(rate)}")
        else:
            bar = peak_bar(share, f"{bandwidth(rate)}, {percent(share)} of peak")
        rows.append((kernel.id, kernel.name, bar))
    if report.peak is not None:
        note = f"Peak {bandwidth(report.peak.gb_per_s)} ({report.peak.source})."
    elif peak_share(timed[0], report) is not None:
        note = "Against the memory bandwidth of the device, as its driver tells."
    else:
        note = "Peak of the device not known: bars are against the fastest kernel."
    if any((peak_share(k, report) or 0) > 1 for k in timed):
        note += " Over 100 % the data come from a cache."
    return Light(whole(median(rates)), tuple(rows), note)


_HERE = Path(__file__).resolve().parent


def _sections(context: Context) -> Iterator[blocks.Section]:
    """In the order of the page."""
    report = context.report
    yield plan(report)
    yield expectations(report)
    yield findings(context)
    yield fallbacks(context)
    yield ranks(report)
    yield program(context)
    yield source(context)
    yield modules(context)
    for make in (script, aot, te_plans):
        yield make(report)
    yield groups(context)
    yield unfused(context)
    for make in (kernels, speed, where_time_goes, shapes, time_line, numbers, tried, reproduce, log):
        yield make(report)


def render(report: Report) -> str:
    """The report as a page."""
    report = with_near_paths(report)
    head = header(Context(report))
    context = Context(ranks_merged(report))
    room = Room(len(report.groups) + len(report.kernels) + len(report.unfused))
    style = style_sheet() + colours()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{digest(style)}'; script-src '{digest(script)}'"
    )
    return render_page(
        (_HERE / "templates", TEMPLATES),
        "page.html.jinja",
        version=__version__,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        header=head,
        sections=blocks.shown(tuple(_sections(context)), blocks.Formats.PAGE),
        room=room,
    )


MOST_ROWS = 15
"""Of each table; the whole is in the other formats."""

_CELL = "text-align:left;vertical-align:top"


def report_fragment(report: Report, notes: Iterable[str] = ()) -> str:
    """Verdict, groups, what is not fused and why, and findings; ``notes`` are sentences to add."""
    parts = [_line("b", verdict(report)), _line("div", _circumstances(report))]
    parts.append(
        _table(
            "Groups",
            ("", "phase", "operators", "first line"),
            [
                (g.id, g.phase or "", ", ".join(runs_of(g.ops)), near(_first(n.user_source for n in g.nodes)))
                for g in report.groups
            ],
        )
    )
    parts.append(
        _table(
            "Not fused",
            ("", "times", "where", "why"),
            [
                (
                    row.op,
                    str(row.count),
                    near(row.user_source or row.source or ""),
                    f"{row.reason.text} ({row.reason.code})",
                )
                for row in outside(report)
            ],
        )
    )
    parts.append(
        _table(
            "Findings",
            ("", "", ""),
            [(f"{f.severity} {f.code}", f.message, f.advice or "") for f in report.findings],
        )
    )
    parts += [_line("div", f"note: {note}") for note in notes]
    return "<div>" + "".join(parts) + "</div>"


def comparison_fragment(comparison: Comparison) -> str:
    """What changed, in a few lines."""
    parts = [_line("b", words.changed(comparison))]
    parts.append(
        _table(
            "",
            ("", "", ""),
            [
                (name, near(side.name), words.side(side))
                for name, side in (("A", comparison.a), ("B", comparison.b))
            ],
        )
    )
    parts += [_line("div", note) for note in comparison.notes]
    return "<div>" + "".join(parts) + "</div>"


def _circumstances(report: Report) -> str:
    name = report.target.name or ""
    return ", ".join(part for part in (name, fuser(report), *machine(report)) if part)


def _first(values: Iterable[str | None]) -> str:
    return next((value for value in values if value), "")


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    heading = f"{title} ({len(rows)})" if title else ""
    lines = [_row("th", head)] if any(head) else []
    lines += [_row("td", row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(_row("td", (f"and {count(len(rows) - MOST_ROWS, 'more row')}",)))
    caption = f'<caption style="{_CELL};font-weight:bold">{_safe(heading)}</caption>' if heading else ""
    return f"<table>{caption}{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_CELL}">{_safe(cell)}</{tag}>' for cell in cells) + "</tr>"


def _line(tag: str, text: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>"


def _safe(text: str) -> str:
    return escape(visible(text))
