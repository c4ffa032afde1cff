"""The first screen: did it fuse, what not, why, how fast."""

from __future__ import annotations

from statistics import median

from fusiondoc.model.report import Kernel, Report
from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.markup import Child, Markup, el, join
from fusiondoc.reports.html.parts import bar
from fusiondoc.reports.wording import (
    count,
    fuser,
    machine,
    outside,
    peak_share,
    percent,
    speedups,
    verdict,
)

_MOST = 4


def header(context: Context) -> Markup:
    """Title, machine and the four answers."""
    report = context.report
    where = [*machine(report), fuser(report)]
    return el(
        "header",
        el(
            "p",
            el("span", "fusiondoc", class_="mark"),
            " ",
            str(report.target.get("name") or ""),
            class_="eyebrow",
        ),
        el("h1", verdict(report)),
        el("p", " · ".join(where), class_="lead"),
        el("p", _why_this_fuser(report.fuser.why), class_="note") if report.fuser.why else None,
        el("div", _fused(report), _not_fused(report), _why(context), _fast(report), class_="cards"),
    )


def _why_this_fuser(why: str) -> str:
    return why[len("auto: ") :] if why.startswith("auto: ") else why


def _card(question: str, *children: Child) -> Markup:
    return el("div", el("h2", question), *children, class_="card")


def _fused(report: Report) -> Markup:
    cover = report.coverage
    if not report.groups:
        answer = "No" if report.unfused else "Not known"
        return _card("Did it fuse?", el("p", answer, class_="big"), el("p", "No fusion group in the log."))
    phases = [group.phase for group in report.groups]
    named = [f"{phases.count(phase)} {phase}" for phase in ("forward", "backward") if phase in phases]
    parts: list[Child] = []
    if cover.fraction is not None:
        text = f"{percent(cover.fraction)} of the operators that a fuser can fuse"
        parts += [el("p", percent(cover.fraction), class_="big"), bar(cover.fraction, text)]
        parts.append(
            el("p", f"{cover.ops_fused} of {cover.ops_total} operators that a fuser can fuse are in groups")
        )
    else:
        parts.append(el("p", str(len(report.groups)), class_="big"))
    parts.append(
        el(
            "p",
            count(len(report.groups), "group") + (f": {', '.join(named)}" if named else ""),
            class_="muted",
        )
    )
    fallbacks = sum(one.count for one in report.fallbacks)
    if fallbacks:
        parts.append(
            el(
                "p",
                el("a", f"{count(fallbacks, 'fallback')}", href="#findings"),
                " to the unfused operators",
                class_="bad",
            )
        )
    return _card("Did it fuse?", *parts)


def _not_fused(report: Report) -> Markup:
    counts: dict[str, int] = {}
    stated: dict[str, bool] = {}
    for row in outside(report):
        counts[row.op] = counts.get(row.op, 0) + row.count
        stated[row.op] = stated.get(row.op, False) or row.reason.stated
    if not counts:
        return _card(
            "What did not?", el("p", "0", class_="big"), el("p", "No tensor operator outside the groups.")
        )
    order = sorted(counts, key=lambda op: (not stated[op], -counts[op], op))
    items = [el("li", el("code", op), el("span", f"{counts[op]:,}", class_="n")) for op in order[:_MOST]]
    more = len(order) - _MOST
    return _card(
        "What did not?",
        el("p", f"{sum(counts.values()):,}", class_="big"),
        el("ul", *items, class_="tally"),
        el("p", el("a", f"{more} more kinds" if more > 1 else "1 more kind", href="#unfused"), class_="muted")
        if more > 0
        else None,
    )


def _why(context: Context) -> Markup:
    worst = next((f for f in context.report.findings if f.severity == "error"), None)
    parts: list[Child] = []
    if worst is not None:
        parts.append(el("p", el("span", worst.code, class_="sev error"), " ", worst.message))
    for reason in context.reasons[: _MOST - (worst is not None)]:
        swatch = el("span", reason.code, class_=f"swatch {reason.hue}")
        parts.append(el("p", swatch, " ", reason.text, el("span", f" ×{reason.count:,}", class_="muted")))
    if not parts:
        first = next(iter(context.report.findings), None)
        parts.append(el("p", first.message if first else "Nothing to explain."))
    return _card("Why?", el("div", *parts, class_="whys"))


def _fast(report: Report) -> Markup:
    parts: list[Child] = list(_speedup(report))
    timed = [kernel for kernel in report.kernels if kernel.gb_per_s is not None]
    if timed:
        parts.append(_speed_of_light(report, timed))
    if not parts:
        why = report.speed_note or "The log holds no bandwidth of a kernel."
        parts.append(el("p", why, class_="muted"))
        if any(one.seconds is not None for one in report.iterations):
            parts.append(el("p", el("a", "Time of the passes", href="#time"), class_="muted"))
    elif report.speed_note:
        parts.append(el("p", report.speed_note, class_="muted"))
    return _card("How fast?", *parts)


def _speedup(report: Report) -> list[Child]:
    """Fused against eager, where both were timed."""
    return [el("p", el("strong", one.verdict), f" {one.text}") for one in speedups(report)[:_MOST]]


def _speed_of_light(report: Report, timed: list[Kernel]) -> Markup:
    """The kernels that take longest, against the peak bandwidth or, without one, the fastest of them."""
    timed = sorted(timed, key=lambda k: -(k.ms.median if k.ms else 0.0))
    fastest = max(kernel.gb_per_s.median for kernel in timed if kernel.gb_per_s)
    rows = []
    for kernel in timed[:_MOST]:
        assert kernel.gb_per_s is not None
        share = peak_share(kernel, report)
        rate = f"{kernel.gb_per_s.median:,.0f} GB/s"
        if share is None:
            label, width = rate, kernel.gb_per_s.median / fastest
        else:
            label, width = f"{rate}, {percent(share)} of peak", share
        name = el("a", kernel.id, href=f"#{kernel.id}", title=kernel.name)
        rows.append(
            el(
                "li",
                name,
                bar(width, label, "over" if share is not None and share > 1 else ""),
                el("span", label, class_="n"),
            )
        )
    rates = [kernel.gb_per_s.median for kernel in timed if kernel.gb_per_s]
    if report.peak is not None:
        note = f"Peak {report.peak.gb_per_s:,.0f} GB/s ({report.peak.source})."
    elif peak_share(timed[0], report) is not None:
        note = "Against the memory bandwidth of the device, as its driver tells."
    else:
        note = "Peak of the device not known: bars are against the fastest kernel."
    return join(
        (
            el("p", f"{median(rates):,.0f}", el("small", " GB/s median"), class_="big"),
            el("ul", *rows, class_="light"),
            el(
                "p",
                note,
                " Over 100 % the data come from a cache."
                if any((peak_share(k, report) or 0) > 1 for k in timed)
                else None,
                class_="muted",
            ),
        )
    )
