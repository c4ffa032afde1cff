"""The terminal report: its first screen answers "did it fuse, what not, why, how fast"; the sections on speed
and time follow here, the others beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fusiondoc.fusers import TE, titles
from fusiondoc.model import count
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import Formats
from fusiondoc.rendering.drawing import (
    STYLES,
    Detail,
    drawn,
    fields,
    linked,
    plain,
    sparkline,
)
from fusiondoc.rendering.printable import visible_in
from fusiondoc.rendering.terminal_documents import STYLES as TONES
from fusiondoc.rendering.terminal_documents import sections
from fusiondoc.rendering.units import (
    interval,
    milliseconds,
    short_percent,
    whole,
)
from fusiondoc.reports import program_by_itself
from fusiondoc.views.formatting import (
    covered,
    fuser,
    groups_of,
    verdict_on_tries,
    with_near_paths,
    with_near_places,
)
from fusiondoc.views.plan_words import last_word
from fusiondoc.views.report_checks import numbers, numbers_in_a_line, tried
from fusiondoc.views.report_context import Context, can_change
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_frontends import aot, script
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_outside import by_reason, unfused
from fusiondoc.views.report_plan import plan_on_a_terminal
from fusiondoc.views.report_ranks import of_ranks, ranks, ranks_merged
from fusiondoc.views.report_record import log
from fusiondoc.views.report_te import te_plans
from fusiondoc.views.report_times import how_fast, pairs, shapes, speed, where_time_goes
from fusiondoc.views.step_words import sentence

MOST_REASONS = 3


def heading(report: Report, all_of_it: bool = False, with_lines: bool = True) -> RenderableType:
    """What ran, and the verdict: a few lines of name and value.

    Args:
        with_lines: the lines that switch the fuser on in the program itself.
    """
    table = fields()
    if report.target.name:
        table.add_row("Target", report.target.name + _FROZEN.get(report.target.frozen or "", ""))
    env = report.environment
    machine = [
        f"torch {env['torch']}" if env.get("torch") else "",
        env.get("gpu") or "",
        env.get("device") or "",
    ]
    if any(machine):
        table.add_row("Machine", ", ".join(part for part in machine if part))
    table.add_row("Fuser", _fuser(replace(report, te=None), all_of_it))
    if report.te is not None and report.fuser.effective != TE:
        table.add_row("", report.te.in_words)
    knobs = [f"{knob.name}={knob.requested}" for knob in report.knobs if knob.requested is not None]
    if knobs:
        table.add_row("Knobs", ", ".join(knobs))
    if report.ranks is not None:
        table.add_row("Ranks", of_ranks(report.ranks))
    table.add_row("Fused", _verdict(report))
    worst = next((f for f in report.findings if f.severity == "error"), None)
    if worst is not None:
        table.add_row("Problem", Text(worst.message, style=STYLES["error"]))
    own = report.fuser.by_itself
    if own is not None and with_lines:
        table.add_row(program_by_itself.LABEL, Text("\n".join([program_by_itself.lead(own), *own.python])))
    elif own is not None:
        table.add_row(
            program_by_itself.LABEL, f"{program_by_itself.shortly(own)} ({program_by_itself.COMMAND})"
        )
    return table


def summary(report: Report, most_reasons: int = MOST_REASONS) -> Table:
    """Why, how fast, and when: what comes after what to do."""
    table = fields()
    for number, reason in enumerate(_why_not(report, most_reasons)):
        table.add_row("" if number else "Not fused", reason)
    kernels = kernels_in_words(report)
    if kernels:
        table.add_row("Kernels", kernels)
    for number, line in enumerate(_speed(report)):
        table.add_row("" if number else "Speed", line)
    if report.steps is not None:
        table.add_row("Time", sentence(report.steps))
        if report.steps.hint is not None:
            table.add_row("", Text(report.steps.hint, style=STYLES["warning"]))
    if report.tries:
        table.add_row("Tried", verdict_on_tries(report.tries))
    merged = next((f for f in report.findings if f.code == "FD004"), None)
    if merged is not None:
        table.add_row("Variables", Text(f"{merged.message} (FD004)"))
    if report.suppressed:
        codes = ", ".join(sorted({one.code for one in report.suppressed}))
        table.add_row("Suppressed", f"{count(len(report.suppressed), 'finding')} ({codes})")
    when = _when(report)
    if when:
        table.add_row("Iterations", when)
    return table


_FROZEN = {"fusiondoc": ", frozen by fusiondoc (--no-freeze leaves it)", "program": ", frozen by the program"}


def _fuser(report: Report, all_of_it: bool) -> str:
    """On one line; where the requested fuser is missing, the long reason only if it is requested."""
    state = report.fuser
    name = fuser(report, none="none")
    if state.effective == TE:
        return name
    gone = next((f for f in report.findings if f.code == "FD001" and f.in_header), None)
    if gone is not None and not (all_of_it and state.why):
        return f"{name}: {gone.brief or gone.message} (FD001)"
    if not state.why or state.requested is None:
        return name
    why = state.why[len("auto: ") :] if state.why.startswith("auto: ") else state.why
    return f"{name}: {why}"


def _verdict(report: Report) -> Text:
    groups = report.fusion_groups
    unfused = sum(row.count for row in outside(report))
    if report.te is not None and not groups and not report.unfused:
        return Text("nothing: no operator of te.ops was called", style=STYLES["warning"])
    if report.script is not None and not report.script.reached and not groups and report.te is None:
        text = f"nothing: the program never reached TorchScript; it ran {report.script.instead}"
        return Text(text, style=STYLES["warning"])
    if not groups and not report.unfused:
        return Text("unknown: the log shows no plan of an executor", style=STYLES["warning"])
    if not groups:
        text = f"nothing: no fusion group, {count(unfused, 'tensor operator')} outside"
        return Text(text, style=STYLES["warning"])
    each = each_rank(report)
    whose = f"{each.whose}: " if each is not None else ""
    report = each.report if each is not None else report
    unfused = sum(row.count for row in outside(report))
    text = f"{whose}{count(report.fused_operators, 'operator')} in {groups_of(report)}, {unfused:,} not fused"
    share = covered(report, short_percent)
    text += f" ({share})" if share is not None else ""
    fallbacks = sum(f.count for f in report.fallbacks)
    if fallbacks:
        text += f", {count(fallbacks, 'fallback')}"
    return Text(text, style="green" if not unfused and not fallbacks else "")


_TEXT = 140
"""Characters of a reason on the first screen, some two lines; its section has the rest."""


def _why_not(report: Report, most: int) -> list[Text]:
    """The reasons that cost most: ``aten::sort x2: no rule (FD201)``."""
    found: dict[str, Text] = {}
    fixed = {op for f in report.findings if f.code == "FD236" for op in f.ops}
    reasons = [(reason, [row for row in rows if row.op not in fixed]) for reason, rows in by_reason(report)]
    reasons = [one for one in reasons if one[1]]
    # Views and bookkeeping are not what a user looks for first.
    for reason, rows in [one for one in reasons if can_change(one[0].code)] or reasons:
        if reason.code in found or len(found) == most:
            continue
        counts: dict[str, int] = {}
        kept = {row.op: row.keeps_out or 0 for row in rows}
        for row in rows:
            counts[row.op] = counts.get(row.op, 0) + row.count
        names = [op + (f" x{times}" if times > 1 else "") for op, times in counts.items()]
        names.sort(key=lambda name: -kept.get(name.split(" ")[0], 0))
        listed = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
        text = with_near_places(reason.text)
        found[reason.code] = Text(f"{listed}: {_shortened(text)} ({reason.code})")
    return list(found.values())


def _shortened(text: str) -> str:
    """Its clauses that fit, else its words: what decides stands in the first ones."""
    if len(text) <= _TEXT:
        return text
    clauses = re.match(rf"(.{{{_TEXT // 2},{_TEXT}}})[,;:] ", text)
    kept = clauses[1] if clauses else text[:_TEXT].rpartition(" ")[0]
    return f"{kept} …"


def kernels_in_words(report: Report) -> str:
    """How many kernels, how fast, and against which peak."""
    launched = [k for k in report.kernels if k.gb_per_s is not None]
    computed = [k for k in report.kernels if k.implementation is not None]
    if computed and not launched:
        names = Counter(k.implementation for k in computed).most_common(3)
        by = ", ".join(f"{name} x{times}" if times > 1 else str(name) for name, times in names)
        ms = sum(k.ms.median for k in computed if k.ms)
        partitions = count(len(computed), "partition")
        whose = titles(lambda fuser: fuser.partitions)
        return f"{partitions} of {whose}: {by}; {milliseconds(ms)} for one run of each"
    if not launched:
        return count(len(report.kernels), "kernel") if report.kernels else ""
    best = max(k.gb_per_s.median for k in launched if k.gb_per_s)
    slow = min(k.gb_per_s.median for k in launched if k.gb_per_s)
    times = sum(k.ms.median for k in launched if k.ms)
    text = f"{len(report.kernels)}, median {_range(slow, best, whole)} GB/s"
    shares = [k.peak_fraction for k in launched if k.peak_fraction is not None]
    if shares and report.peak is not None:
        share = _range(min(shares), max(shares), short_percent)
        source = PEAK_FROM.get(report.peak.source, report.peak.source)
        text += f" ({share} of {whole(report.peak.gb_per_s)}, {source})"
    text += f", {milliseconds(times)} for one launch of each"
    launch = sum(kernel.bound == "launch" for kernel in report.kernels)
    return text + (f", {launch} launch-bound" if launch else "")


PEAK_FROM = {"given": "as given", "measured": "measured", "driver": "by the driver", "table": "by its name"}


def _range(low: float, high: float, write: Callable[[float], str]) -> str:
    return write(high) if write(low) == write(high) else interval(low, high, write)


def _speed(report: Report) -> list[Text]:
    """Eager against the other way, of the first shape; without times, why there are none."""
    lines = []
    for eager, fused in pairs(report):
        if eager is None or fused is None or fused.inputs != 0:
            continue
        text = Text(f"{fused.phase}: ")
        result = how_fast(eager, fused)
        text.append(result.text, style=TONES[result.tone])
        both = f"{fused.way} {milliseconds(fused.ms.median)}, eager {milliseconds(eager.ms.median)}"
        lines.append(text.append(f" ({both})"))
    if not lines and report.speed_note:
        lines.append(Text(report.speed_note))
    return lines


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
    passes: dict[int, float] = {}
    for one in report.iterations:
        passes[one.index] = passes.get(one.index, 0.0) + (one.seconds or 0.0)
    line = sparkline(list(passes.values()))
    return (line + "  " if line else "") + ", ".join(parts)


_SCREEN = 24
"""Lines of a terminal."""


def _first_screen(report: Report, width: int, detail: Detail) -> list[RenderableType]:
    """What ran, what to do, why and how fast. What the program does by itself makes no screen too long that
    the rest fits on: the lines of code go first, then a reason."""
    if report.fuser.by_itself is None or detail is Detail.ALL:
        return _screen(report, width, detail, True, MOST_REASONS)
    for with_lines, reasons in ((True, MOST_REASONS), (False, MOST_REASONS), (False, MOST_REASONS - 1)):
        parts = _screen(report, width, detail, with_lines, reasons)
        if drawn(Lines(*parts), width, colour=False).rstrip("\n").count("\n") < _SCREEN:
            return parts
    return _screen(report, width, detail, False, MOST_REASONS)


def _screen(
    report: Report, width: int, detail: Detail, with_lines: bool, reasons: int
) -> list[RenderableType]:
    parts: list[RenderableType] = [heading(report, detail is Detail.ALL, with_lines)]
    what_to_do = list(sections((plan_on_a_terminal(report),), width))
    parts += what_to_do
    more = summary(ranks_merged(report), reasons)
    compared = numbers_in_a_line(report)
    if detail is Detail.SUMMARY and compared is not None:
        more.add_row("Numbers", compared)
    if more.row_count:
        parts += [""] * bool(what_to_do) + [more]
    return parts


def render(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
    links: bool = False,
) -> str:
    """The report as text of at most ``width`` columns, commands to copy aside, with ANSI colours if
    ``colour``.

    Args:
        blocks: the place it goes to can show block characters; else its own drawings are plain ASCII.
        detail: how much of it.
        links: codes of findings lead to their pages (OSC 8), for a terminal that knows these.
    """
    report = with_near_paths(visible_in(report))
    last = Text(last_word(report), style="bold")
    if detail is Detail.VERDICT:
        compared = numbers_in_a_line(report)
        more_words = [Text(f"Numbers: {compared}")] if compared is not None else []
        return drawn(Lines(last, *more_words), width, colour)
    parts = _first_screen(report, width, detail)
    report = ranks_merged(report)
    if detail is not Detail.SUMMARY:
        parts += _sections(report, width, detail is Detail.ALL)
        parts += ["", last]
    text = drawn(Lines(*parts), width, colour)
    text = text if blocks else plain(text)
    return linked(text) if links else text


def _sections(report: Report, width: int, every: bool) -> Iterator[RenderableType]:
    """What follows the first screen."""
    run = (speed(report), where_time_goes(report), ranks(report))
    frontends = (script(report), aot(report), te_plans(report))
    yield from sections((*run, *frontends), width)
    context = Context(report, Formats.TERMINAL, every)
    what_fused = (groups(context), unfused(context), fallbacks(context), shapes(report), kernels(report))
    after_it = (numbers(report), tried(report), findings(context), log(report))
    yield from sections((*what_fused, *after_it), width)
