"""The first screen: did it fuse, what not, why, how fast.

What to do now, at the top of the page.
"""

from __future__ import annotations

from collections import Counter
from statistics import median

from fusiondoc.model import count, dataclass
from fusiondoc.model.modules_and_neighbours import outside
from fusiondoc.model.report import Finding, Kernel, Report
from fusiondoc.reports.html.page_context import Context, ReasonKind
from fusiondoc.reports.run_words import ONLY_TRYING, before_command, gain, no_plan, place, unlocks
from fusiondoc.reports.wording_and_source import (
    Speedup,
    covered,
    fuser,
    machine,
    peak_share,
    percent,
    speedups,
    verdict,
)

_MOST = 4


@dataclass(frozen=True)
class Bar:
    """A bar of ``share`` (0 to 1, more is over) of its room; ``label`` says the same in words."""

    share: float
    label: str
    kind: str = ""

    @property
    def width(self) -> str:
        """Of 100; what is more than nothing shows."""
        return f"{min(100.0, max(1.5, self.share * 100)):.1f}" if self.share > 0 else "0"


def peak_bar(share: float, label: str) -> Bar:
    """A share of the peak; over it the data come from a cache."""
    return Bar(share, label, "over" if share > 1 else "")


@dataclass(frozen=True)
class Fused:
    """Did it fuse?"""

    answer: str
    bar: Bar | None = None
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
    reasons: tuple[ReasonKind, ...]
    otherwise: str


@dataclass(frozen=True)
class Light:
    """The kernels that take longest against the peak: (id, name, bar)."""

    median: str
    kernels: tuple[tuple[str, str, Bar], ...]
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
    return Header(
        name=report.target.name or "",
        verdict=verdict(report),
        where=" · ".join([*machine(report), fuser(report)]),
        fuser_why=f"{gone.message} ({gone.code})" if gone is not None else why if says_more else None,
        fused=_fused(report),
        not_fused=_not_fused(context),
        why=_why(context),
        fast=_fast(report),
    )


def _fused(report: Report) -> Fused:
    cover, share = report.coverage, covered(report, percent)
    if not report.groups:
        return Fused("No" if report.unfused else "Not known", said="No fusion group in the log.")
    phases = Counter(group.phase for group in report.groups for _ in group.instances)
    named = [f"{phases[phase]} {phase}" for phase in ("forward", "backward") if phases[phase]]
    groups = count(report.fusion_groups, "group") + (f": {', '.join(named)}" if named else "")
    fallen = sum(one.count for one in report.fallbacks)
    fallbacks = count(fallen, "fallback") if fallen else None
    if cover.fraction is None:
        said = f"{count(report.fused_operators, 'operator')}, {share}" if share is not None else None
        return Fused(str(report.fusion_groups), said=said, groups=groups, fallbacks=fallbacks)
    said = f"{cover.ops_fused} of {cover.ops_total} operators: {share}"
    return Fused(
        percent(cover.fraction),
        Bar(cover.fraction, str(share)),
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
            bar = Bar(rate / fastest, f"{rate:,.0f} GB/s")
        else:
            bar = peak_bar(share, f"{rate:,.0f} GB/s, {percent(share)} of peak")
        rows.append((kernel.id, kernel.name, bar))
    if report.peak is not None:
        note = f"Peak {report.peak.gb_per_s:,.0f} GB/s ({report.peak.source})."
    elif peak_share(timed[0], report) is not None:
        note = "Against the memory bandwidth of the device, as its driver tells."
    else:
        note = "Peak of the device not known: bars are against the fastest kernel."
    if any((peak_share(k, report) or 0) > 1 for k in timed):
        note += " Over 100 % the data come from a cache."
    return Light(f"{median(rates):,.0f}", tuple(rows), note)


@dataclass(frozen=True)
class Step:
    """A change of the plan; ``diff``: its lines, with - and +."""

    change: str
    gain: str
    where: str
    unlocks: str
    diff: str | None
    note: str | None
    python: str | None
    first: str | None
    command: str


@dataclass(frozen=True)
class Plan:
    """At most three steps, best first; without any ``note`` says why."""

    note: str | None
    steps: tuple[Step, ...]
    to_try: str | None = None
    """What only trying tells: the command."""
    trying: str = ONLY_TRYING
    title: str | None = None
    """Instead of "Do this first"."""


def plan_view(context: Context) -> Plan | None:
    """None for a saved report that has none."""
    report = context.report
    if not report.plan and report.plan_note is None:
        return None
    note = None if report.plan else f"{report.plan_note}."
    steps = tuple(
        Step(
            one.change,
            gain(one),
            place(one),
            unlocks(one),
            _diff(one.before, one.after),
            one.note,
            one.python,
            before_command(one),
            one.command,
        )
        for one in report.plan
    )
    return Plan(note, steps, report.plan_try, title=None if steps else no_plan(report))


def _diff(before: str | None, after: str | None) -> str | None:
    if before is None or after is None:
        return None
    rows = [f"- {row}" for row in before.split("\n")]
    return "\n".join([*rows, *(f"+ {row}" for row in after.split("\n"))])
