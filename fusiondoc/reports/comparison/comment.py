"""A comparison as Markdown, for a comment on a pull request. Every word from a log is escaped."""

from __future__ import annotations

import re
from typing import Iterator

from fusiondoc.comparison.differences import Comparison, GroupChange
from fusiondoc.reports.comparison import words
from fusiondoc.reports.source_code import near

MOST_ROWS = 30
"""Rows of a part; comments are limited in size, the JSON has all."""


def render(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown."""
    return "\n".join(_lines(comparison)) + "\n"


def _lines(comparison: Comparison) -> Iterator[str]:
    yield "### fusiondoc: " + ("nothing changed" if comparison.same else escape(words.changed(comparison)))
    yield ""
    yield "| | A | B |"
    yield "|---|---|---|"
    for name, a, b in (
        ("", near(comparison.a.name), near(comparison.b.name)),
        ("torch", comparison.a.torch or "?", comparison.b.torch or "?"),
        ("groups", str(comparison.a.groups), str(comparison.b.groups)),
        ("fused", words.coverage(comparison.a), words.coverage(comparison.b)),
        ("kernels", str(comparison.a.kernels), str(comparison.b.kernels)),
        ("fallbacks", str(comparison.a.fallbacks), str(comparison.b.fallbacks)),
    ):
        yield f"| {name} | {escape(a)} | {escape(b)} |"
    for one in comparison.differences:
        yield f"| {escape(one.name)} | {escape(one.a or 'not set')} | {escape(one.b or 'not set')} |"
    for title, rows in (
        ("Groups", [row for change in comparison.groups for row in _group(change)]),
        ("Not fused", [f"{_WORDS[row.change]}: {escape(words.unfused(row))}" for row in comparison.unfused]),
        (
            "Fallbacks",
            [f"{_WORDS[row.change]}: {escape(words.fallback(row))}" for row in comparison.fallbacks],
        ),
        ("Kernels", list(_kernels(comparison))),
        (
            "Model",
            [
                f"**{one.speed.change}** {one.way} {one.phase}: {escape(words.speed(one.speed))}"
                for one in comparison.speed
            ],
        ),
        (
            "Findings",
            list(_findings(comparison)),
        ),
        ("What cannot be compared", [escape(note) for note in comparison.notes]),
    ):
        if rows:
            yield from ("", f"#### {title}", "")
            shown = rows[:MOST_ROWS]
            yield from (row if row.startswith("  ") else f"- {row}" for row in shown)
            if len(rows) > MOST_ROWS:
                yield f"- ... {len(rows) - MOST_ROWS} more lines: `--format json` has all"


_WORDS = {"came": "**new**", "gone": "gone", "reason": "other reason", "count": "other count"}


def _group(change: GroupChange) -> Iterator[str]:
    where = words.place(change.b or change.a)
    yield f"**{' and '.join(change.kinds)}** {escape(words.group_head(change))}" + (
        f" at {code(where)}" if where else ""
    )
    for text in words.nodes(change.ops_gone):
        yield f"  - no longer in it: {escape(text)}"
    for text in words.nodes(change.ops_added):
        yield f"  - new in it: {escape(text)}"
    for text in words.types(change) if "types" in change.kinds else ():
        yield f"  - {code(text)}"
    for row in change.because:
        yield f"  - not fused now: {escape(words.unfused(row))}"
    if change.speed is not None and change.speed.change is not None:
        yield f"  - {escape(words.speed(change.speed))}"


def _findings(comparison: Comparison) -> Iterator[str]:
    shown, rest = words.findings(comparison)
    for row in shown:
        finding = row.finding
        yield f"{_WORDS[row.change]}: {finding.severity} {finding.code} {escape(finding.message)}"
    if rest:
        yield escape(rest)


def _kernels(comparison: Comparison) -> Iterator[str]:
    shown, counted = words.only_bytes(comparison)
    for change in shown:
        facts = [fact for fact in words.kernel_facts(change) if not fact.startswith("nvFuser")]
        yield f"{escape(words.kernel_head(change))}: {escape('; '.join(facts) or change.kinds[0])}"
    if counted:
        yield escape(counted)


def escape(text: str) -> str:
    """The text as text: no Markdown, no HTML, no mention of a user."""
    text = re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return " ".join(text.split())


def code(text: str) -> str:
    """The text as code, whatever backticks it holds."""
    text = " ".join(text.split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if "`" in text else ""
    return f"{fence}{pad}{text}{pad}{fence}"
