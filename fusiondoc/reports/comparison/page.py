"""A comparison as one self-contained page: no script, no network, light and dark. Everything is escaped."""

from __future__ import annotations

from html import escape
from typing import Iterable, Iterator

from fusiondoc.comparison.differences import Comparison, GroupChange, KernelChange
from fusiondoc.reports.comparison import words
from fusiondoc.reports.source_code import near

_STYLE = """
:root { color-scheme: light dark; --bad: #b3261e; --good: #1b6e2e; --other: #8a5a00; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #7fd48f; --other: #f0b95a; } }
body { font: 16px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
code, li { font-size: .92em; }
ul { margin: 0; padding-left: 1.2rem; }
.bad { color: var(--bad); } .good { color: var(--good); } .other { color: var(--other); }
.kind { font-weight: 600; white-space: nowrap; }
@media print { body { margin: 0; max-width: none; } }
"""

_BAD = ("gone", "split", "slower", "came")
_GOOD = ("added", "merged", "faster")
_MARKS = {"came": "new", "gone": "gone", "reason": "other reason", "count": "other count"}


def render(comparison: Comparison) -> str:
    """The comparison as a page of HTML."""
    title = "fusiondoc: " + ("nothing changed" if comparison.same else "what changed")
    body = "\n".join(_body(comparison))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def _body(comparison: Comparison) -> Iterator[str]:
    yield f"<p>{escape(words.changed(comparison))}</p>"
    sides = (("A", comparison.a), ("B", comparison.b))
    yield from _table(
        "Sides",
        ("", "report", "in figures"),
        ((name, escape(near(one.name)), escape(words.side(one))) for name, one in sides),
    )
    yield from _table(
        "Settings",
        ("", "name", "A", "B"),
        (
            (one.kind, escape(one.name), escape(one.a or "not set"), escape(one.b or "not set"))
            for one in comparison.differences
        ),
    )
    yield from _table(
        "Groups",
        ("change", "groups", "from", "details"),
        (
            (
                " ".join(_mark(kind, kind) for kind in change.kinds),
                escape(words.group_head(change)),
                f"<code>{escape(words.place(change.b or change.a))}</code>",
                _list(_details(change)),
            )
            for change in comparison.groups
        ),
    )
    for title, rows in (
        ("Not fused", [(row.change, words.unfused(row)) for row in comparison.unfused]),
        ("Fallbacks", [(row.change, words.fallback(row)) for row in comparison.fallbacks]),
    ):
        yield from _table(title, ("change", "what"), ((_came(c), escape(text)) for c, text in rows))
    shown, counted = words.only_bytes(comparison)
    yield from _table("Kernels", ("change", "kernel", "details"), map(_kernel, shown))
    if counted:
        yield f"<p>{escape(counted)}.</p>"
    yield from _table(
        "Model",
        ("change", "way", "time"),
        (
            (
                _mark(str(one.speed.change), str(one.speed.change)),
                escape(f"{one.way} {one.phase}"),
                escape(words.speed(one.speed)),
            )
            for one in comparison.speed
        ),
    )
    yield from _table(
        "Findings",
        ("change", "code", "what"),
        (
            (
                _came(row.change),
                escape(f"{row.finding.severity} {row.finding.code}"),
                escape(row.finding.message)
                + (
                    f"<br>{escape(row.finding.advice)}" if row.finding.advice and row.change == "came" else ""
                ),
            )
            for row in comparison.findings
        ),
    )
    if comparison.notes:
        yield "<h2>What cannot be compared</h2>"
        yield _list(comparison.notes)


def _details(change: GroupChange) -> Iterator[str]:
    if "split" in change.kinds:
        yield from (f"{ref.id}: {words.operators([ref])}" for ref in change.b)
    elif "merged" in change.kinds:
        yield from (f"{ref.id} of A: {words.operators([ref])}" for ref in change.a)
    yield from (f"no longer in it: {text}" for text in words.nodes(change.ops_gone))
    yield from (f"new in it: {text}" for text in words.nodes(change.ops_added))
    if "types" in change.kinds:
        yield from words.types(change)
    yield from (f"not fused now: {words.unfused(row)}" for row in change.because)
    if change.speed is not None and change.speed.change is not None:
        yield words.speed(change.speed)


def _kernel(change: KernelChange) -> tuple[str, str, str]:
    facts = [fact for fact in words.kernel_facts(change) if not fact.startswith("nvFuser")]
    marks = " ".join(_mark(kind, kind) for kind in change.kinds if kind != "bytes")
    return marks, escape(words.kernel_head(change)), _list(facts)


def _mark(kind: str, text: str) -> str:
    style = "bad" if kind in _BAD else "good" if kind in _GOOD else "other"
    return f'<span class="kind {style}">{escape(text)}</span>'


def _came(change: str) -> str:
    style = "good" if change == "gone" else "bad" if change == "came" else "other"
    return f'<span class="kind {style}">{_MARKS[change]}</span>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _table(title: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A part with a table; nothing without a row. Cells are HTML already."""
    cells = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    if cells:
        head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
        yield f"<h2>{escape(title)}</h2>"
        yield f"<table><thead><tr>{head}</tr></thead><tbody>"
        yield from (f"<tr>{row}</tr>" for row in cells)
        yield "</tbody></table>"
