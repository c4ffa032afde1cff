"""A comparison as Markdown, for a comment on a pull request. Every word from a log is escaped."""

from __future__ import annotations

from typing import Iterator, Sequence

from fusiondoc.comparison.differences import Comparison, GroupChange
from fusiondoc.reports.comparison import words
from fusiondoc.reports.printable import markdown, markdown_code
from fusiondoc.reports.source_code import near

MOST_ROWS = 30
"""Rows of a part; comments are limited in size, the JSON has all."""

MOST_OF_A_PART = 6_000
"""Characters: the seven parts and the table of settings stay below GitHub's 65,536 for a comment together."""

_LONGEST = 400
"""Characters of one name or message, before they are escaped; those of a real log are shorter."""


def render(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown."""
    return "\n".join(_lines(words.for_readers(comparison))) + "\n"


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
    yield from _fitting(
        [
            f"| {escape(one.name)} | {escape(one.a or 'not set')} | {escape(one.b or 'not set')} |"
            for one in comparison.differences
        ]
    )
    for title, rows in (
        ("Groups", [row for change in comparison.groups for row in _group(change)]),
        (
            "Not fused",
            [f"{_came(row.change)}: {escape(words.unfused(row))}" for row in comparison.unfused],
        ),
        (
            "Fallbacks",
            [f"{_came(row.change)}: {escape(words.fallback(row))}" for row in comparison.fallbacks],
        ),
        ("Kernels", list(_kernels(comparison))),
        (
            "Model",
            [
                f"**{one.speed.change}** {escape(f'{one.way} {one.phase}: {words.speed(one.speed)}')}"
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
            shown = _fitting(rows)
            yield from (row if row.startswith("  ") else f"- {row}" for row in shown)
            if len(rows) > len(shown):
                yield f"- ... {len(rows) - len(shown)} more lines: `--format json` has all"


def _fitting(rows: Sequence[str]) -> list[str]:
    """The first rows of a part, as far as its room goes."""
    shown: list[str] = []
    room = MOST_OF_A_PART
    for row in rows[:MOST_ROWS]:
        room -= len(row) + 3
        if room < 0:
            break
        shown.append(row)
    return shown


_WORDS = {"came": "**new**", "gone": "gone", "reason": "other reason", "count": "other count"}


def _came(change: str) -> str:
    return _WORDS.get(change, "changed")


def _group(change: GroupChange) -> Iterator[str]:
    where = words.place(change.b or change.a)
    yield f"**{escape(' and '.join(change.kinds))}** {escape(words.group_head(change))}" + (
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
        yield f"{_came(row.change)}: {escape(f'{finding.severity} {finding.code} {finding.message}')}"
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
    """The text as text, and not without end."""
    return markdown(_cut(text))


def code(text: str) -> str:
    """The text as code, and not without end."""
    return markdown_code(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
