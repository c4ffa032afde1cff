"""Findings, how to reproduce the run, and how well the log was read."""

from __future__ import annotations

import shlex
from typing import Mapping

from fusiondoc.model.report import Finding, Report
from fusiondoc.reports.html.context import QUOTED, Context, shown
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import code_block, facts, section, table
from fusiondoc.reports.source_code import near
from fusiondoc.reports.wording import count, percent, seconds, size

MOST_SINGLE = 100
"""Findings on single operators; the table of those operators has all."""

_DOING = {"compile": "compiling", "run": "running"}


def findings_view(context: Context) -> Markup:
    """Worst first; findings on single operators come after those on the run."""
    report = context.report
    findings = sorted(report.findings, key=lambda f: f.code.startswith("FD2"))
    main = [f for f in findings if not f.code.startswith("FD2")]
    rest = findings[len(main) :]
    parts: list[Child] = [_finding(finding, context) for finding in main]
    if rest:
        head = el(
            "summary",
            el("span", count(len(rest), "finding"), class_="ops"),
            el("span", "on single operators: the table under Not fused has their reasons", class_="muted"),
        )
        rows = [_finding(finding, context) for finding in rest[:MOST_SINGLE]]
        left = len(rest) - len(rows)
        more = el("p", f"and {left:,} more", class_="note") if left else None
        parts.append(el("details", head, el("div", *rows, more, class_="body"), class_="row"))
    if not parts:
        parts.append(el("p", "None."))
    if report.fallbacks:
        parts.append(_fallbacks(context))
    return section("findings", "Findings", el("div", *parts, class_="stack"))


def _finding(finding: Finding, context: Context) -> Markup:
    head = el(
        "p",
        el("span", f"{finding.severity} {finding.code}", class_=f"sev {finding.severity}"),
        " ",
        el("strong", finding.message),
    )
    where = el("p", shown(finding.source), class_="muted") if finding.source else None
    advice = el("p", finding.advice, class_="advice") if finding.advice else None
    return el("article", head, where, advice, context.quotes(finding.evidence), class_="finding")


def _fallbacks(context: Context) -> Markup:
    columns = (("Group", ""), ("While", ""), ("Times", "n"), ("Error", "wide"), ("In the log", "wide"))
    rows = []
    for one in context.report.fallbacks:
        times = f"{one.count:,}" if one.count_exact else f"at least {one.count:,}"
        link: Child = el("a", one.group, href=f"#{one.group}") if one.group else "not known"
        rows.append([link, _DOING[one.stage], times, one.error or "not known", context.quotes(one.evidence)])
    return table("Fallbacks", columns, rows)


def reproduce_view(context: Context) -> Markup | None:
    """The command, the variables that were set, the machine and the knobs."""
    report = context.report
    target = report.target
    command = target.get("command")
    variables = target.get("environment_set")
    parts: list[Child] = []
    if command:
        parts += [el("h3", "The command"), code_block(_shell(command), "Command")]
    if isinstance(variables, Mapping) and variables:
        lines = [f"export {name}={shlex.quote(str(value))}" for name, value in variables.items()]
        parts += [
            el("h3", "What it set for your program"),
            code_block("\n".join(lines), "Environment variables"),
        ]
    if report.environment:
        parts += [el("h3", "Environment"), facts((name, value) for name, value in report.environment.items())]
    options = target.get("options")
    if isinstance(options, Mapping):
        asked = {str(k): str(v) for k, v in options.items() if v not in (None, False, [], {}, ())}
        parts += [el("h3", "Options"), facts(asked.items())]
    if report.knobs:
        columns = (("Knob", ""), ("Asked", ""), ("Effective", ""), ("Does something", ""))
        rows = [[k.name, k.requested or "–", k.effective or "–", _yes(k.live)] for k in report.knobs]
        parts += [el("h3", "Knobs"), table("Knobs", columns, rows)]
    return section("reproduce", "Reproduce", *parts) if parts else None


def log_view(context: Context) -> Markup:
    """How well the log was read, and where it is kept."""
    report = context.report
    stats = report.parse
    share = percent(stats.recognised / stats.lines) if stats.lines else "–"
    known: list[tuple[str, Child]] = [
        ("Lines", f"{stats.lines:,} ({size(stats.bytes)})"),
        ("Recognised", share),
        ("Of the program itself", f"{stats.user_output:,}"),
        ("Unknown", f"{stats.unrecognised:,}"),
        ("Cut off", f"{stats.truncated:,} blocks" if stats.truncated else None),
        *_times(report),
        ("Files", [el("span", near(file), class_="line") for file in context.log_files()]),
        ("Kept in", str(report.target["capture"]) if report.target.get("capture") else None),
    ]
    unknown = [
        el("li", el("span", f"{u.file}:{u.line}", class_="where"), el("code", u.text))
        for u in stats.first_unrecognised[:QUOTED]
    ]
    return section("log", "Log", facts(known), el("ul", *unknown, class_="quotes") if unknown else None)


def _times(report: Report) -> list[tuple[str, Child]]:
    timing = report.timing
    return [
        ("The model's process", seconds(timing["child"]) if timing.get("child") is not None else None),
        ("Added by fusiondoc", seconds(timing["overhead"]) if timing.get("overhead") is not None else None),
    ]


def _shell(command: object) -> str:
    """The command as one types it; the program's own path says nothing to others."""
    if not isinstance(command, (list, tuple)):
        return str(command)
    words = [str(word) for word in command]
    if words and words[0].endswith(("fusiondoc", "fusiondoc/__main__.py")):
        words[0] = "fusiondoc"
    return " ".join(map(shlex.quote, words))


def _yes(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"
