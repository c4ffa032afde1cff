"""The sections of the terminal report that say what to do now and what was tried (``--try``, ``--verify``),
on fallbacks, findings and the log itself; and the text of ``check``: a line for each expectation, the
broken ones with what was found instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model import count
from fusiondoc.model.change_plan import PlannedChange, Try
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import NO_BACKWARD, Expectation, Verification, furthest_off
from fusiondoc.rendering.drawing import (
    MOST_ROWS,
    STYLES,
    Detail,
    Indented,
    Unbroken,
    WithVariables,
    drawn,
    fields,
    names_and_texts,
    prose,
)
from fusiondoc.rendering.printable import visible_in
from fusiondoc.rendering.units import TERMINAL, difference, ratio, seconds, whole
from fusiondoc.reports.run_words import ONLY_TRYING, TITLE, before_command, gain, no_plan, place, unlocks
from fusiondoc.views.formatting import (
    DOING,
    NO_DIFFERENCE,
    near,
    verdict_on_tries,
    with_near_paths,
    with_near_places,
)
from fusiondoc.views.step_words import takes


def fallbacks(report: Report) -> RenderableType | None:
    """What ran unfused although it had been fused; None without any."""
    if not report.fallbacks:
        return None
    table = fields()
    for fallback in report.fallbacks:
        often = f"{'' if fallback.count_exact else 'at least '}{count(fallback.count, 'time')}"
        lines = ", ".join(f"{e.file}:{e.line}" for e in list(fallback.evidence)[:2])
        doing = DOING.get(fallback.stage, fallback.stage)
        table.add_row(fallback.group or "group unknown", f"while {doing}, {often} ({lines})")
    return table


def findings(report: Report, every: bool = False) -> RenderableType | None:
    """Every finding with its advice; those that say no more than the section of their operators, or the first
    lines, are not repeated."""
    shown = [f for f in report.findings if not f.in_header and (every or not f.in_rows)]
    rest = [f for f in report.findings if f.in_rows and not every]
    if not shown and not rest:
        return Text("none")
    worst = next((f for f in shown if f.severity == "error"), None)
    if worst is not None and not (worst.advice or worst.source or every):
        shown.remove(worst)  # the first screen has all of it
        if not shown and not rest:
            return None
    parts: list[RenderableType] = []
    for finding in shown if every else shown[:MOST_ROWS]:
        parts.append(_finding(finding))
    if rest:
        codes = sorted({f.code for f in rest})
        parts.append(
            prose(
                f"{count(len(rest), 'finding')} on operators above ({', '.join(codes)}): fusiondoc "
                f"explain {codes[0]}"
            )
        )
    return Lines(*parts)


def _finding(finding: Finding) -> RenderableType:
    head = Text(f"{finding.severity} {finding.code}", style=STYLES.get(finding.severity, ""))
    message = finding.message
    if finding.source:
        message = message.replace(finding.source, near(finding.source))
    message = with_near_places(message)
    head.append(f"  {message}", style="default")
    if finding.time is not None:
        head.append(f", {takes(finding.time)} of a step", style="default")
    lines: list[RenderableType] = [head]
    if finding.source:
        lines.append(Indented(Text(near(finding.source), style="dim"), 4))
    if finding.advice:
        lines.append(Indented(WithVariables("→ " + finding.advice), 4))
    return Lines(*lines)


def log(report: Report) -> RenderableType:
    """How the log was read, and where it is kept."""
    stats = report.parse
    if not stats.lines:
        return Text("empty")
    share = stats.recognised / stats.lines
    text = (
        f"{count(stats.lines, 'line')}: {share:.1%} recognised, {stats.user_output:,} of the program's own,"
        f" {stats.unrecognised:,} unknown"
    )
    if stats.truncated:
        text += f", {stats.truncated} blocks cut off"
    lines: list[RenderableType] = [Text(text)]
    for line in stats.first_unrecognised[:3]:
        lines.append(Text(f"  {line.file}:{line.line}: {line.text[:90]}", style="dim"))
    timing = report.timing
    child = timing.get("child")
    if child is not None:
        took = f"{seconds(child)} in the model's process"
        overhead = timing.get("overhead")
        if overhead is not None:
            took += f", {seconds(overhead)} added by fusiondoc"
        lines.append(Text(took))
    if report.target.capture:
        folder = report.target.capture
        lines += [Text("kept; the report again:"), Unbroken(shlex.join(["fusiondoc", "parse", folder]))]
    return Lines(*lines)


def plan(report: Report) -> RenderableType | None:
    """At most three changes, best first; or why there is none. None for a saved report without either."""
    if not report.plan:
        if report.plan_note is None:
            return None
        lines: list[RenderableType] = [Text(no_plan(report), style="bold")]
        lines.append(Padding(prose(report.plan_note), (0, 0, 0, 1)))
        if report.plan_try is not None:
            lines.append(Padding(Text(ONLY_TRYING, style="dim"), (0, 0, 0, 1)))
            lines.append(Unbroken(f" $ {report.plan_try}", "cyan"))
        return Lines(*lines)
    parts: list[RenderableType] = [Text(TITLE, style="bold")]
    problem = next((f.message for f in report.findings if f.severity == "error"), None)
    commands = {change.command for change in report.plan}
    for number, change in enumerate(report.plan, 1):
        parts += _change(number, change, problem)
        if len(commands) > 1 or number == len(report.plan):
            first = before_command(change)
            if first is not None:
                parts.append(_indented(Text(first, style="dim")))
            parts.append(Unbroken(f"    $ {change.command}", "cyan"))
    return Lines(*parts)


def _change(number: int, change: PlannedChange, said: str | None) -> list[RenderableType]:
    """``said``: what the lines above have said already."""
    said_first = prose(change.change, "bold")
    brings = gain(change)
    if brings:
        said_first.append(": ").append(brings, style="green")
    head = Table.grid(pad_edge=False)
    head.add_column(no_wrap=True, width=4)
    head.add_column(overflow="fold")
    head.add_row(Text(f" {number}. ", style="bold"), said_first)
    lines: list[RenderableType] = [head]
    where = place(change)
    if change.unlocks and change.unlocks != said:
        lines.append(_indented(prose(unlocks(change))))
    if where:
        lines.append(_indented(Text(where, style="dim")))
    if change.before is not None and change.after is not None:
        lines += [Unbroken(f"    - {line}", "red") for line in change.before.split("\n")]
        lines += [Unbroken(f"    + {line}", "green") for line in change.after.split("\n")]
    if change.note:
        lines.append(_indented(prose(change.note, "dim")))
    if change.python:
        lines += [Unbroken(f"    {line}", "green") for line in change.python.split("\n")]
    return lines


def _indented(text: Text) -> RenderableType:
    return Padding(text, (0, 0, 0, 4))


def expectation_text(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
    links: bool = False,
) -> str:
    """The outcome of every expectation, in at most ``width`` columns.

    ``blocks`` and ``links`` are for the usual report, which has bars and codes; here nothing is drawn.
    """
    report = with_near_paths(visible_in(report))
    lines: list[RenderableType] = []
    section = ""
    folded = [one for one in report.expectations if one.why == NO_BACKWARD and not one.holds]
    for one in report.expectations:
        if one in folded[1:]:
            continue
        if one.section != section:
            section = one.section
            if section:
                lines.append(Text(section, style="bold"))
        table = names_and_texts(len("BROKEN"))
        word = Text("holds", style="green") if one.holds else Text("BROKEN", style="red")
        table.add_row(word, _sentence(one) if one not in folded else _no_backward(folded, report))
        lines.append(Padding(table, (0, 0, 0, 1)))
        if one in folded:
            lines.append(Unbroken(f"         $ {_command(report, one.file)}", "cyan"))
    broken = any(not one.holds for one in report.expectations)
    last: list[RenderableType] = [Text(_verdict(report), style="red" if broken else "green")]
    compared = numbers(report)
    if compared is not None:
        last.append(Text(f"Numbers: {compared}"))
    if detail is Detail.VERDICT:
        return drawn(Lines(*last), width, colour)
    lines += last
    lines += map(Text, doubts(report))
    if report.suppressed:
        lines.append(Text(f"suppressed findings: {len(report.suppressed)}"))
    if report.target.capture:
        lines.append(Unbroken(f"the whole report: fusiondoc parse {report.target.capture}"))
    return drawn(Lines(*lines), width, colour)


def doubts(report: Report) -> list[str]:
    """What is wrong with the run or its log as a whole, so that expectations may hold or be broken for it."""
    shown = {one.code for one in report.expectations}
    said = (
        f"{finding.severity} {finding.code}: {with_near_places(finding.message)}" + _what_to_change(finding)
        for finding in report.findings
        if finding.severity != "note" and finding.code[:3] in ("FD0", "FD1", "FD9") and not finding.ops
        if finding.code not in shown
    )
    return list(dict.fromkeys(said))


def _what_to_change(finding: Finding) -> str:
    """Of a cause that has a line of the program: the line, and what to do with it."""
    if finding.source is None or finding.advice is None:
        return ""
    return f" ({near(finding.source)}). {finding.advice}"


def broken_expectations(report: Report) -> list[str]:
    """The sentences of the expectations that are broken, and how many that is; the notes on those that hold.
    Nothing if all hold as the file has them."""
    report = with_near_paths(visible_in(report))
    broken = [one for one in report.expectations if not one.holds]
    notes = [f"note: {one.note}" for one in report.expectations if one.holds and one.note]
    if not broken:
        return list(dict.fromkeys(notes))
    return [*(f"BROKEN {_sentence(one)}" for one in broken), *dict.fromkeys(notes), _verdict(report)]


def _verdict(report: Report) -> str:
    broken = sum(not one.holds for one in report.expectations)
    total = len(report.expectations)
    return f"{total - broken} of {total} expectations hold" + (f", {broken} broken" if broken else "")


def _sentence(one: Expectation) -> str:
    if one.holds:
        return f"{one.expected}; found {one.found}" + (f" (note: {one.note})" if one.note else "")
    place = f"{one.file}:{one.line}: " if one.line is not None else ""
    if one.code is not None and one.source is not None:  # not in the file
        place = f"{near(one.source)}: "
    return with_near_places(f"{place}{sentence(one)}")


def _no_backward(these: Sequence[Expectation], report: Report) -> str:
    """All expectations that only a backward pass can hold, in one line."""
    first = these[0]
    lines = ", ".join(str(one.line) for one in these if one.line is not None)
    place = f"{first.file}:{lines}: " if lines else ""
    what = "expects a backward pass" if len(these) == 1 else "expect a backward pass"
    return f"{place}{what}, and this run had none:"


def _command(report: Report, file: str) -> str:
    name = (report.target.name or "") if report.target.capture else ""
    if not name:
        return "fusiondoc check TARGET --backward --expect " + shlex.quote(file)
    return shlex.join(["fusiondoc", "check", name, "--backward", "--expect", file])


def sentence(one: Expectation) -> str:
    """``expected X; found Y: why``."""
    text = f"expected {one.expected}; found {one.found}" + (f": {one.why}" if one.why else "")
    return text + (f" (note: {one.note})" if one.note else "")


def tries(report: Report) -> RenderableType | None:
    """The runs with a change against the run as it was asked for; None without ``--try``. Columns that would
    be empty are left out."""
    if not report.tries:
        return None
    asked, longest = report.tries[0], max(len(row.change) for row in report.tries)
    columns = [
        column
        for column in _COLUMNS
        if column.always or any(column.text(row) not in ("-", "0") for row in report.tries)
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("change", no_wrap=longest <= _MOST_ON_A_LINE)
    for column in columns:
        table.add_column(column.name, justify="right", no_wrap=True)
    for row in report.tries:
        base = report.tries[row.against]
        cells = [Text(column.text(row), style=column.style(row, base)) for column in columns]
        failed = row.problem is not None and row is not asked
        table.add_row(Text(row.change), *([Text("failed", style="bold red")] if failed else cells))
    lines: list[RenderableType] = [table]
    lines += [
        Text(f"{row.change}: {row.problem}", style="dim") for row in report.tries if row.problem is not None
    ]
    if any(row.speed is not None for row in report.tries):
        lines.append(Text("speed: against the run as asked, timed in turns and without logs", style="dim"))
        if any(row.against and row.frozen for row in report.tries):
            lines.append(Text("what is frozen is compared with the first run that is frozen", style="dim"))
    elif any(row.steady_seconds is None and row.groups for row in report.tries):
        why = "no speed where NNC ran through its own evaluator (no LLVM in this torch)"
        lines.append(Text(why, style="dim"))
    lines.append(Text(verdict_on_tries(report.tries), style="bold"))
    return Lines(*lines)


_MOST_ON_A_LINE = 36
"""Characters of a change that is never broken, so that the numbers have room at 80 columns."""


class _Column(NamedTuple):
    name: str
    text: Callable[[Try], str]
    style: Callable[[Try, Try], str] = lambda row, asked: ""
    always: bool = False


def _speed_of_try(row: Try) -> str:
    """Against the run as it was asked for."""
    if row.speed is None:
        return "-"
    return ratio(row.speed.value) if row.speed.differs else NO_DIFFERENCE


_COLUMNS = (
    _Column("groups", lambda row: str(row.groups), always=True),
    _Column(
        "fused",
        lambda row: str(row.ops_fused),
        lambda row, asked: "green" if row.ops_fused > asked.ops_fused else "",
        always=True,
    ),
    _Column(
        "not fused",
        lambda row: str(row.unfused),
        lambda row, asked: "green" if row.unfused < asked.unfused else "",
        always=True,
    ),
    _Column("fallbacks", lambda row: str(row.fallbacks)),
    _Column("GB/s", lambda row: TERMINAL.known(row.gb_per_s, whole)),
    _Column("speed", _speed_of_try),
    _Column(
        "wrong",
        lambda row: TERMINAL.count(row.wrong),
        lambda row, asked: "bold red" if row.wrong else "",
    ),
)


_MOST_COMPARED = 20
_MOST_JUDGED = 5


def numbers(report: Report) -> str | None:
    """The outcome of ``--verify`` in one line: how many results are the same as without a fuser, and the one
    that is furthest off; None without ``--verify``."""
    if not report.verification:
        options = report.target.options
        return "nothing was compared with eager" if options is not None and options.verify else None
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
    off = {row.what for row in report.verification if not row.same}
    passes = len({row.iteration for row in report.verification})
    return f"{len(names - off)} of {len(names)} results are the same in all of {passes} passes"


def verification(report: Report) -> RenderableType | None:
    """One row for each compared tensor, those that differ first; None without ``--verify``."""
    if not report.verification:
        return None
    by_name: dict[str, list[Verification]] = {}
    for row in report.verification:
        by_name.setdefault(row.what, []).append(row)
    rows = sorted(by_name.values(), key=lambda rows: all(row.same for row in rows))
    passes = len({row.iteration for row in report.verification})
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("compared with eager", no_wrap=True)
    for name in ("same", "off by", "of its size", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in rows[:_MOST_COMPARED]:
        table.add_row(*_verified_row(one, passes))
    lines: list[RenderableType] = [Text(_how_many_same(report)), table]
    if len(rows) > _MOST_COMPARED:
        lines.append(Text(f"... {len(rows) - _MOST_COMPARED} more: --format json has all", style="dim"))
    judged = [(one.what, one.judgement) for one in map(furthest_off, rows) if one.judgement]
    lines += [Text(f"{what}: {judgement}") for what, judgement in judged[:_MOST_JUDGED]]
    if len(judged) > _MOST_JUDGED:
        lines.append(Text(f"... and {len(judged) - _MOST_JUDGED} more judged so", style="dim"))
    return Lines(*lines)


def _verified_row(rows: Sequence[Verification], passes: int) -> Sequence[Text]:
    same = sum(row.same for row in rows)
    worst = furthest_off(rows)
    remarks = []
    if worst.by == "statistics":
        remarks.append("by statistics")
    noted = next((row.detail for row in (worst, *rows) if row.detail), None)
    if noted:
        remarks.append(noted)
    return (
        Text(worst.what),
        Text(f"{same}/{len(rows)}", style="" if same == len(rows) else "bold red"),
        Text(TERMINAL.known(worst.max_abs, difference)),
        Text(TERMINAL.known(worst.max_rel, difference)),
        Text("equal" if worst.tolerance == 0 else TERMINAL.known(worst.tolerance, difference)),
        Text(": ".join(remarks), style="dim"),
    )
