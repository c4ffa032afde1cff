"""Small fragments of HTML for a notebook's output cell: of a report or a
comparison. They have no script, no style sheet and nothing from the network; every
text of the log is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape

from fusiondoc.comparison import Comparison
from fusiondoc.model import count
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import (
    ChangeList,
    Command,
    ListedChange,
    Section,
    Sentences,
)
from fusiondoc.rendering.printable import visible
from fusiondoc.views import comparison_words as words
from fusiondoc.views.formatting import (
    fuser,
    machine,
    near,
    near_paths_of,
    runs_of,
    verdict,
    with_near_paths,
)
from fusiondoc.views.report_plan import plan

MOST_ROWS = 15
"""Most rows of each table; other formats have all."""

_CELL = "text-align:left;vertical-align:top"


def report_fragment(report: Report, notes: Iterable[str] = ()) -> str:
    """Return verdict, plan, groups, operators outside groups with their reasons,
    and findings; ``notes`` are sentences to add."""
    report = with_near_paths(report)
    parts = [
        _line("b", verdict(report)),
        _line("div", _circumstances(report)),
        *_to_do(plan(report)),
    ]
    parts.append(
        _table(
            "Groups",
            ("", "phase", "operators", "first line"),
            [
                (
                    g.id,
                    g.phase or "",
                    ", ".join(runs_of(g.ops)),
                    near(_first(n.user_source for n in g.nodes)),
                )
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
                    f"{row.count:,}",
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
            [
                (f"{f.severity} {f.code}", f.message, f.advice or "")
                for f in report.findings
            ],
        )
    )
    parts += [_line("div", f"note: {note}") for note in notes]
    return "<div>" + "".join(parts) + "</div>"


def comparison_fragment(comparison: Comparison) -> str:
    """Return the changes in a few lines."""
    near_paths = near_paths_of(*(comparison.reports or ()))
    comparison = near_paths.inside(replace(comparison, reports=None))
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


def _to_do(section: Section) -> Iterator[str]:
    """Yield the plan as a numbered list, or the sentence why there is none."""
    if not section.blocks:
        return
    yield f'<div style="font-weight:bold;margin-top:1em">{_safe(section.title)}</div>'
    for block in section.blocks:
        if isinstance(block, ChangeList):
            yield f"<ol>{''.join(map(_step, block.rows))}</ol>"
        elif isinstance(block, Sentences):
            for text in block.lines:
                yield _line("div", text)
        elif isinstance(block, Command):
            yield from _command(block)


def _step(step: ListedChange) -> str:
    lines = [_line("b", ": ".join(part for part in (step.text, step.gain) if part))]
    for text in (step.unlocks, step.position, step.note, step.proof):
        if text:
            lines.append(_line("div", text))
    for code in (step.diff, step.code):
        if code:
            lines.append(_line("pre", code))
    if step.command is not None:
        lines += _command(step.command)
    return f"<li>{''.join(lines)}</li>"


def _command(command: Command) -> list[str]:
    lead = [_line("div", command.lead)] if command.lead else []
    return [
        *lead,
        f'<code style="overflow-wrap:anywhere">{_safe(command.text)}</code>',
    ]


def _circumstances(report: Report) -> str:
    name = report.target.name or ""
    parts = []
    for part in (name, fuser(report), *machine(report)):
        if part:
            parts.append(part)
    return ", ".join(parts)


def _first(values: Iterable[str | None]) -> str:
    return next((value for value in values if value), "")


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    heading = f"{title} ({len(rows):,})" if title else ""
    lines = [_row("th", head)] if any(head) else []
    lines += [_row("td", row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(
            _row("td", (f"and {count(len(rows) - MOST_ROWS, 'more row')}",))
        )
    caption = ""
    if heading:
        caption = (
            f'<caption style="{_CELL};font-weight:bold">{_safe(heading)}</caption>'
        )
    return f'<div style="overflow-x:auto"><table>{caption}{"".join(lines)}</table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return (
        "<tr>"
        + "".join(f'<{tag} style="{_CELL}">{_safe(cell)}</{tag}>' for cell in cells)
        + "</tr>"
    )


def _line(tag: str, text: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>"


def _safe(text: str) -> str:
    return escape(visible(text))
