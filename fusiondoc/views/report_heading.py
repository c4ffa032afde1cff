"""The first lines of a report: target, machine, whether it fused, what did not
fuse, why, and how fast. On a terminal they are names and values, on a page four
cards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median

from fusiondoc.fusers import (
    compiles_python,
    fusers_of_frontends,
    titles,
    without_plan,
)
from fusiondoc.model import count, multiple
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Finding, Kernel, Report, Unfused
from fusiondoc.model.runs import Peak
from fusiondoc.rendering.blocks import (
    Block,
    Card,
    CodeBlock,
    NamedValues,
    Sentences,
)
from fusiondoc.rendering.units import (
    bandwidth,
    interval,
    milliseconds,
    percent,
    short_percent,
    whole,
)
from fusiondoc.rendering.values import (
    Cell,
    Count,
    Gauge,
    IdLinks,
    Snippet,
    Status,
    Text,
    Tone,
)
from fusiondoc.views import program_by_itself
from fusiondoc.views.formatting import (
    covered,
    fused_in_words,
    fuser,
    groups_of,
    machine,
    peak_share,
    speedups,
    verdict_on_tries,
    with_short_positions,
)
from fusiondoc.views.report_boundaries import through_memory
from fusiondoc.views.report_context import ReportContext, can_change
from fusiondoc.views.report_kernels import peak_bar
from fusiondoc.views.report_outside import by_reason
from fusiondoc.views.report_ranks import of_ranks
from fusiondoc.views.report_times import how_fast, pairs
from fusiondoc.views.step_words import sentence

MOST_REASONS = 3
"""Most reasons on the first screen of a terminal."""
_MOST = 4
"""Most rows of a card."""
_Fact = tuple[str, str | Cell]

# -- target and machine, on a terminal -----------------------------------------------------------------------


def heading(
    report: Report,
    all_of_it: bool = False,
    with_lines: bool = True,
    whole_problem: bool = True,
) -> NamedValues:
    """The target, the machine, the fuser, and the verdict.

    Args:
        all_of_it: with the whole reason why a fuser is missing.
        with_lines: with the lines that switch the fuser on in the program itself.
        whole_problem: with the whole message of the worst finding.
    """
    return NamedValues(
        tuple(_heading(report, all_of_it, with_lines, whole_problem))
    )


def _heading(
    report: Report, all_of_it: bool, with_lines: bool, whole_problem: bool
) -> Iterator[_Fact]:
    if report.target.name:
        yield (
            "Target",
            report.target.name + _FROZEN.get(report.target.frozen or "", ""),
        )
    env = report.environment
    torch = f"torch {env['torch']}" if env.get("torch") else ""
    parts = []
    for part in (torch, env.get("gpu"), env.get("device")):
        if part:
            parts.append(part)
    if parts:
        yield "Machine", ", ".join(parts)
    yield "Fuser", _fuser(replace(report, te=None), all_of_it)
    if (
        report.te is not None
        and report.fuser.effective not in fusers_of_frontends()
    ):
        yield "", report.te.in_words
    knobs = []
    for knob in report.knobs:
        if knob.requested is not None:
            knobs.append(f"{knob.name}={knob.requested}")
    if knobs:
        yield "Knobs", ", ".join(knobs)
    if report.ranks is not None:
        yield "Ranks", of_ranks(report.ranks)
    yield "Fused", _fused(report)
    worst = _worst(report)
    if worst is not None:
        if whole_problem:
            message = worst.message
        else:
            message = f"{shortened(worst.message)} ({worst.code})"
        yield "Problem", Text(message, Tone.BAD)
    yield from _by_itself(report, with_lines)


_FROZEN = {
    "fusiondoc": ", frozen by fusiondoc (--no-freeze leaves it)",
    "program": ", frozen by the program",
}


def _worst(report: Report) -> Finding | None:
    for finding in report.findings:
        if finding.severity == "error":
            return finding
    return None


def _by_itself(report: Report, with_lines: bool) -> Iterator[_Fact]:
    own = report.fuser.by_itself
    if own is None:
        return
    if with_lines:
        text = "\n".join([program_by_itself.lead(own), *own.python])
    else:
        text = f"{program_by_itself.shortly(own)} ({program_by_itself.COMMAND})"
    yield program_by_itself.LABEL, text


def _fuser(report: Report, all_of_it: bool) -> str:
    """Return the fuser on one line; the long reason of a missing fuser, which is
    usual, only if ``all_of_it``."""
    state = report.fuser
    name = fuser(report, none="none")
    if state.effective in fusers_of_frontends() or report.compiled is not None:
        return name
    gone = None
    for f in report.findings:
        if f.code == "FD001" and f.in_header:
            gone = f
            break
    if gone is not None and not (all_of_it and state.why):
        return f"{name}: {gone.brief or gone.message} (FD001)"
    if not state.why or state.requested is None:
        return name
    return f"{name}: {state.why.removeprefix('auto: ')}"


def _fused(report: Report) -> Text:
    """Return how many operators are in how many groups."""
    nothing = _nothing(report)
    if nothing is not None:
        return Text(nothing, Tone.DOUBTFUL)
    each = each_rank(report)
    whose = f"{each.whose}: " if each is not None else ""
    report = each.report if each is not None else report
    unfused = sum(row.count for row in outside(report))
    text = f"{whose}{fused_in_words(report)} in {groups_of(report)}, {unfused:,} not fused"
    share = covered(report, short_percent)
    if share is not None:
        text += f" ({share})"
    fallbacks = report.times_fallen_back
    if fallbacks:
        text += f", {count(fallbacks, 'fallback')}"
    return Text(text, Tone.PLAIN if unfused or fallbacks else Tone.GOOD)


def _nothing(report: Report) -> str | None:
    """Return why there is no group; None if there are some."""
    if report.fusion_groups:
        return None
    if report.te is not None and not report.unfused:
        return "nothing: no operator of te.ops was called"
    if (
        report.script is not None
        and not report.script.reached
        and report.te is None
    ):
        return f"nothing: the program never reached TorchScript; it ran {report.script.instead}"
    if report.views_alone:
        return (
            f"nothing: {count(report.views_alone, 'view')}, which compute nothing"
        )
    if not report.unfused:
        return f"unknown: {without_plan(report.frontend)}"
    unfused = sum(row.count for row in outside(report))
    return f"nothing: no fusion group, {count(unfused, 'tensor operator')} outside"


# -- why, how fast and when, on a terminal -------------------------------------------------------------------


def summary(
    report: Report, most_reasons: int = MOST_REASONS, minor: bool = True
) -> NamedValues:
    """Why operators are not fused, and how fast the run is: the lines after the
    plan. ``minor``: with variables, suppressed findings and iterations."""
    facts = [*_summary(report, most_reasons), *(_minor(report) if minor else ())]
    return NamedValues(tuple(facts))


def _summary(report: Report, most_reasons: int) -> Iterator[_Fact]:
    yield from _named_once("Not fused", _why_not(report, most_reasons))
    if report.compiled is not None and report.boundaries:
        yield "Boundaries", through_memory(report.boundaries)
    kernels = kernels_in_words(report)
    if kernels:
        yield "Kernels", kernels
    yield from _named_once("Speed", _speed(report))
    if report.steps is not None:
        yield "Time", sentence(report.steps)
        if report.steps.hint is not None:
            yield "", Text(report.steps.hint, Tone.DOUBTFUL)
    if report.tries:
        yield "Tried", verdict_on_tries(report.tries)


def _minor(report: Report) -> Iterator[_Fact]:
    merged = None
    for finding in report.findings:
        if finding.code == "FD004":
            merged = finding
            break
    if merged is not None:
        yield "Variables", f"{merged.message} (FD004)"
    if report.suppressed:
        codes = ", ".join(sorted({finding.code for finding in report.suppressed}))
        yield "Suppressed", f"{count(len(report.suppressed), 'finding')} ({codes})"
    when = _when(report)
    if when:
        yield "Iterations", when


def _named_once(name: str, values: Iterable[str | Cell]) -> Iterator[_Fact]:
    """Yield the values one below the other, the first with the name."""
    for value in values:
        yield name, value
        name = ""


_TEXT = 140
"""Most characters of a reason on the first screen, about two lines; its section has
the rest."""


def _why_not(report: Report, most: int) -> list[str]:
    """Return the reasons that cost most: ``aten::sort x2: no rule (FD201)``."""
    fixed: set[str] = set()
    for finding in report.findings:
        if finding.code == "FD236":
            fixed.update(finding.ops)
    reasons = []
    for reason, rows in by_reason(report):
        hopeful = [row for row in rows if row.op not in fixed]
        if hopeful:
            reasons.append((reason, hopeful))
    # Users do not look for views and bookkeeping first.
    reasons = [found for found in reasons if can_change(found[0].code)] or reasons
    lines: dict[str, str] = {}
    for reason, rows in reasons:
        if reason.code not in lines and len(lines) < most:
            text = shortened(with_short_positions(reason.text))
            lines[reason.code] = f"{_operators(rows)}: {text} ({reason.code})"
    return list(lines.values())


def _operators(rows: Sequence[Unfused]) -> str:
    """Return ``aten::sort x2, aten::cumsum and 3 more``: first the operators that
    keep most others out of groups."""
    counts: dict[str, int] = {}
    kept = {row.op: row.keeps_out or 0 for row in rows}
    for row in rows:
        counts[row.op] = counts.get(row.op, 0) + row.count
    order = sorted(counts, key=lambda op: -kept[op])
    names = [op + multiple(counts[op]) for op in order]
    return ", ".join(names[:2]) + (
        f" and {len(names) - 2} more" if len(names) > 2 else ""
    )


def shortened(text: str) -> str:
    """Return the clauses that fit, else the words that fit: the first clauses hold
    the essential part."""
    if len(text) <= _TEXT:
        return text
    clauses = re.match(rf"(.{{{_TEXT // 2},{_TEXT}}})[,;:] ", text)
    kept = clauses[1] if clauses else text[:_TEXT].rpartition(" ")[0]
    return f"{kept} …"


def kernels_in_words(report: Report) -> str:
    """Return how many kernels there are, how fast they are, and relative to which
    peak."""
    launched = []
    for kernel in report.kernels:
        if kernel.gb_per_s is not None:
            launched.append(kernel)
    computed = []
    for kernel in report.kernels:
        if kernel.implementation is not None:
            computed.append(kernel)
    if launched:
        return _launches(report, launched)
    if computed:
        return _partitions(computed)
    if report.kernels:
        return count(len(report.kernels), "kernel")
    return ""


def _partitions(computed: Sequence[Kernel]) -> str:
    names = Counter(kernel.implementation for kernel in computed).most_common(3)
    by = ", ".join(f"{name}{multiple(number)}" for name, number in names)
    ms = sum(kernel.ms.median for kernel in computed if kernel.ms)
    partitions = count(len(computed), "partition")
    whose = titles(lambda fuser: fuser.limits.partitions)
    return f"{partitions} of {whose}: {by}; {milliseconds(ms)} for one run of each"


def _launches(report: Report, launched: Sequence[Kernel]) -> str:
    rates = []
    for kernel in launched:
        if kernel.gb_per_s:
            rates.append(kernel.gb_per_s.median)
    ms = sum(kernel.ms.median for kernel in launched if kernel.ms)
    text = f"{len(report.kernels):,}, median {_range(min(rates), max(rates), whole)} GB/s"
    shares = []
    for kernel in launched:
        if kernel.peak_fraction is not None:
            shares.append(kernel.peak_fraction)
    if shares and report.peak is not None:
        text += f" ({_of_peak(shares, report.peak)})"
    text += f", {milliseconds(ms)} for one launch of each"
    bound = sum(kernel.bound == "launch" for kernel in report.kernels)
    return text + (f", {bound} launch-bound" if bound else "")


PEAK_FROM = {
    "given": "as given",
    "measured": "measured",
    "driver": "by the driver",
    "table": "by its name",
}


def _of_peak(shares: Sequence[float], peak: Peak) -> str:
    share = _range(min(shares), max(shares), short_percent)
    return f"{share} of {whole(peak.gb_per_s)}, {PEAK_FROM.get(peak.source, peak.source)}"


def _range(low: float, high: float, write: Callable[[float], str]) -> str:
    if write(low) == write(high):
        return write(high)
    return interval(low, high, write)


def _speed(report: Report) -> Iterator[Text]:
    """Yield eager compared with the other way, for the first shape; without times,
    why there are none."""
    is_timed = False
    for eager, other in pairs(report):
        if eager is None or other is None or other.inputs != 0:
            continue
        result = how_fast(eager, other)
        both = f"{other.way} {milliseconds(other.ms.median)}, eager {milliseconds(eager.ms.median)}"
        is_timed = True
        yield Text(f"{other.phase}: {result.text} ({both})", result.tone)
    if not is_timed and report.speed_note:
        yield Text(report.speed_note)


def _when(report: Report) -> str:
    """Return how many passes were profiled, when the first group appeared, and how
    long a pass took."""
    if not report.iterations or compiles_python(report.frontend):
        return ""  # no pass is profiled
    profiling = 0
    for iteration in report.iterations:
        if iteration.stage == "profiling":
            profiling += 1
    parts = [f"{profiling} of {count(len(report.iterations), 'pass')} profiled"]
    first = min(
        (group.iteration for group in report.groups if group.iteration is not None),
        default=None,
    )
    if first is not None:
        parts.append(f"first group in pass {first}")
    steady = None
    for iteration in report.iterations:
        if iteration.stage == "steady":
            steady = iteration
            break
    if steady is not None:
        parts.append(f"steady from pass {steady.index}")
    return ", ".join(parts) + _first_and_last_pass(report)


def _first_and_last_pass(report: Report) -> str:
    """Return ``; the first took 1.2 s, the last 3.4 ms``; "" if passes have no
    times."""
    passes: dict[int, float] = {}
    for iteration in report.iterations:
        passes[iteration.index] = passes.get(iteration.index, 0.0) + (
            iteration.seconds or 0.0
        )
    times = [time for time in passes.values() if time > 0]
    if len(times) < 2:
        return ""
    return f"; the first took {milliseconds(times[0] * 1e3)}, the last {milliseconds(times[-1] * 1e3)}"


# -- the head of a page --------------------------------------------------------------------------------------


def lead(report: Report) -> str:
    """Return the machine and the fuser, on a line."""
    return " · ".join([*machine(report), fuser(report)])


def notes(report: Report) -> tuple[Block, ...]:
    """Blocks on why this fuser was used, and on the fuser of the program without
    the switches of the run."""
    blocks: list[Block] = [Sentences(tuple(_why_this_fuser(report)), Tone.DIM)]
    own = report.fuser.by_itself
    if own is not None:
        blocks.append(
            Sentences((f"The program {program_by_itself.lead(own)}",), Tone.DIM)
        )
        blocks.append(
            CodeBlock("\n".join(own.python), "Lines that switch the fuser on")
        )
    return tuple(blocks)


def _why_this_fuser(report: Report) -> Iterator[str]:
    gone = next((finding for finding in report.findings if finding.in_header), None)
    why = (report.fuser.why or "").removeprefix("auto: ")
    if gone is not None:
        yield f"{gone.message} ({gone.code})"
    elif why and why not in fuser(report):
        yield why


def cards(context: ReportContext) -> tuple[Card, ...]:
    """The four cards: did it fuse, what did not, why, how fast?"""
    return (
        _fused_card(context.report),
        _outside_card(context),
        _why_card(context),
        _fast_card(context.report),
    )


def _fused_card(report: Report) -> Card:
    title = "Did it fuse?"
    if not report.groups:
        answer = "No" if report.unfused else "Not known"
        return Card(
            title, answer, blocks=(Sentences(("No fusion group in the log.",)),)
        )
    phases = Counter(
        group.phase for group in report.groups for _ in group.instances
    )
    each = each_rank(report)
    whose = f"{each.whose}: " if each is not None else ""
    report = each.report if each is not None else report
    cover, share = report.coverage, covered(report, percent)
    named = []
    for phase in ("forward", "backward"):
        if phases[phase]:
            named.append(f"{phases[phase]:,} {phase}")
    groups = count(report.fusion_groups, "group") + (
        f": {', '.join(named)}" if named else ""
    )
    fallen = report.times_fallen_back
    fallbacks = (
        (f"{count(fallen, 'fallback')} to the unfused operators",) if fallen else ()
    )
    below = (
        Sentences((groups,), Tone.DIM),
        Sentences(fallbacks, Tone.BAD, link="fallbacks"),
    )
    if cover.fraction is None:
        text = (
            (f"{whose}{count(report.fused_operators, 'operator')}, {share}",)
            if share is not None
            else ()
        )
        return Card(
            title, f"{report.fusion_groups:,}", blocks=(Sentences(text), *below)
        )
    text = (
        f"{whose}{cover.ops_fused:,} of {count(cover.ops_total or 0, 'operator')}: {share}",
    )
    bar = Gauge(cover.fraction, str(share))
    return Card(
        title, percent(cover.fraction), bar=bar, blocks=(Sentences(text), *below)
    )


def _outside_card(context: ReportContext) -> Card:
    """Card of the operators outside groups; those that can be changed come
    first."""
    counts: dict[str, int] = {}
    stated: dict[str, bool] = {}
    for row in outside(context.report):
        counts[row.op] = counts.get(row.op, 0) + row.count
        stated[row.op] = stated.get(row.op, False) or row.reason.stated
    order = sorted(
        counts,
        key=lambda op: (op in context.fixed, not stated[op], -counts[op], op),
    )
    rows = tuple((Snippet(op), Count(counts[op])) for op in order[:_MOST])
    nothing = () if rows else ("No tensor operator outside the groups.",)
    left = len(order) - _MOST
    more = (count(left, "more kind"),) if left > 0 else ()
    below = (Sentences(nothing), Sentences(more, Tone.DIM, link="unfused"))
    return Card(
        "What did not?", f"{sum(counts.values()):,}", rows=rows, blocks=below
    )


def _why_card(context: ReportContext) -> Card:
    worst = _worst(context.report)
    rows: list[tuple[Cell, ...]] = []
    if worst is not None:
        rows.append((Status(worst.code, Tone.BAD), Text(worst.message)))
    for reason in context.reasons[: _MOST - len(rows)]:
        rows.append((reason,))
    if context.report.findings:
        first = context.report.findings[0].message
    else:
        first = "Nothing to explain."
    return Card(
        "Why?", rows=tuple(rows), blocks=(Sentences(() if rows else (first,)),)
    )


def _fast_card(report: Report) -> Card:
    """Card of the ways that were timed, and of the kernels that take longest; else
    of the passes."""
    title = "How fast?"
    timed = []
    for kernel in report.kernels:
        if kernel.gb_per_s is not None:
            timed.append(kernel)
    known = tuple(
        f"{speedup.verdict} {speedup.text}" for speedup in speedups(report)[:_MOST]
    )
    note = report.speed_note
    if not known and not timed:
        return _passes_card(title, report)
    below = Sentences((note,) if note else (), Tone.DIM)
    if not timed:
        return Card(title, blocks=(Sentences(known), below))
    timed.sort(key=lambda kernel: -(kernel.ms.median if kernel.ms else 0.0))
    rates = []
    for kernel in timed:
        if kernel.gb_per_s:
            rates.append(kernel.gb_per_s.median)
    rows = []
    for kernel in timed[:_MOST]:
        rows.append(_kernel(kernel, report, max(rates) or 1.0))
    return Card(
        title,
        whole(median(rates)),
        "GB/s median",
        rows=tuple(rows),
        blocks=(
            Sentences(known),
            Sentences((_against(report, timed),), Tone.DIM),
            below,
        ),
    )


def _passes_card(title: str, report: Report) -> Card:
    """Card of a run in which at most the passes were timed."""
    is_known = any(iteration.seconds is not None for iteration in report.iterations)
    line = ("Time of the passes",) if is_known else ()
    nothing = report.speed_note or "The log holds no bandwidth of a kernel."
    return Card(
        title,
        blocks=(
            Sentences((nothing,), Tone.DIM),
            Sentences(line, Tone.DIM, link="time"),
        ),
    )


def _kernel(kernel: Kernel, report: Report, fastest: float) -> tuple[Cell, ...]:
    """Row of a kernel with its bar relative to the peak bandwidth or, without one,
    the fastest kernel."""
    rate = kernel.gb_per_s.median if kernel.gb_per_s else 0.0
    share = peak_share(kernel, report)
    if share is None:
        bar = Gauge(rate / fastest, bandwidth(rate))
    else:
        bar = peak_bar(share, f"{bandwidth(rate)}, {percent(share)} of peak")
    return IdLinks((kernel.id,)), bar, Text(bar.label)


def _against(report: Report, timed: Sequence[Kernel]) -> str:
    """Return a sentence on the reference value of the kernels' bars."""
    shares = [peak_share(kernel, report) for kernel in timed]
    if report.peak is not None:
        text = f"Peak {bandwidth(report.peak.gb_per_s)} ({report.peak.source})."
    elif shares[0] is not None:
        text = (
            "Against the memory bandwidth of the device, as its driver reports it."
        )
    else:
        text = "Peak of the device not known: bars are against the fastest kernel."
    if any((share or 0) > 1 for share in shares):
        text += " Above 100 % the data come from a cache."
    return text
