"""The user's source with what became of each line, as a coverage report shows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusiondoc.model.report import Unfused
from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import group_links, section
from fusiondoc.reports.source_code import near
from fusiondoc.reports.wording import count, outside

WHOLE = 300
"""Files of so many lines are shown whole; of longer ones what is near a marked line."""

AROUND = 6

MOST_LINES = 4_000
"""Of all files of a page."""


_GAP = el("tr", el("td", "⋯", class_="ln"), el("td", "", colspan="3"), class_="gap")


@dataclass
class _Mark:
    groups: dict[str, int] = field(default_factory=dict)
    """Group -> how many of its operators come from the line."""
    outside: list[Unfused] = field(default_factory=list)


def source_view(context: Context) -> Markup | None:
    """None if no line of the user's own program is known."""
    files = _marks(context)
    if not files:
        return None
    left = MOST_LINES
    parts: list[Child] = []
    for name in sorted(files, key=lambda file: -len(files[file])):
        rows = _file(name, files[name], context, left)
        left -= len(rows)
        fused = sum(bool(mark.groups) for mark in files[name].values())
        lost = sum(bool(mark.outside) for mark in files[name].values())
        said = f"{count(fused, 'line')} with fused operators, {lost} with operators outside"
        head = el("summary", el("code", near(name)), el("span", said, class_="muted"))
        body = el(
            "div",
            el("table", el("caption", near(name), class_="sr"), el("tbody", *rows), class_="source"),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label=f"Source {near(name)}",
        )
        parts.append(el("details", head, body, class_="row", open=len(parts) < 3))
        if left <= 0:
            parts.append(el("p", "The page has no room for further lines.", class_="note"))
            break
    return section(
        "source",
        "Source",
        el("div", *parts, class_="stack"),
        note="Lines whose operators are in a group name it; lines with operators outside name the reason.",
    )


def _marks(context: Context) -> dict[str, dict[int, _Mark]]:
    files: dict[str, dict[int, _Mark]] = {}

    def mark(user_source: str) -> _Mark | None:
        file, _, line = user_source.rpartition(":")
        return files.setdefault(file, {}).setdefault(int(line), _Mark()) if line.isdigit() else None

    for group in context.report.groups:
        for node in group.nodes:
            found = mark(node.user_source) if node.user_source else None
            if found is not None:
                found.groups[group.id] = found.groups.get(group.id, 0) + 1
    for row in outside(context.report):
        found = mark(row.user_source) if row.user_source else None
        if found is not None:
            found.outside.append(row)
    return files


def _file(name: str, marks: dict[int, _Mark], context: Context, most: int) -> list[Markup]:
    lines = context.lines_of(name)
    if lines is None:
        note = el(
            "tr",
            el("td", "", class_="ln"),
            el(
                "td", "The file is not at hand; only the marked lines are known.", class_="muted", colspan="3"
            ),
        )
        return [note, *(_row(number, None, marks[number], context) for number in sorted(marks)[:most])]
    coloured = context.highlighter.python("\n".join(lines))
    count_of_lines = len(lines) - (not lines[-1])
    if len(lines) <= WHOLE:
        wanted = set(range(1, count_of_lines + 1))
    else:
        wanted = {n for at in marks for n in range(at - AROUND, at + AROUND + 1) if 0 < n <= count_of_lines}
    rows: list[Markup] = []
    last = 0
    for number in sorted(wanted)[:most]:
        if number != last + 1:
            rows.append(_GAP)
        rows.append(_row(number, coloured[number - 1], marks.get(number), context))
        last = number
    if last < count_of_lines:
        rows.append(_GAP)
    return rows


def _row(number: int, code: Markup | None, mark: _Mark | None, context: Context) -> Markup:
    css: str | None = None
    tags: list[Child] = []
    says: list[str] = []
    if mark is not None:
        css = "both" if mark.groups and mark.outside else "in" if mark.groups else "out"
        if mark.groups:
            tags += group_links(mark.groups, 4)
        for why in list(dict.fromkeys(row.reason.code for row in mark.outside))[:3]:
            tags += [el("span", why, class_=f"swatch {context.hue(why)}"), " "]
        seen: dict[str, int] = {}
        for row in mark.outside:
            seen[row.op] = seen.get(row.op, 0) + row.count
        said = [op + (f" ×{times}" if times > 1 else "") for op, times in list(seen.items())[:4]]
        says = [", ".join(said) + (" …" if len(seen) > 4 else "") + (" not fused" if said else "")]
    cells = [
        el("td", str(number), class_="ln"),
        el("td", *tags, class_="tags"),
        el("td", el("code", code if code is not None else "")),
        el("td", *says, class_="says"),
    ]
    return el("tr", *cells, class_=css)
