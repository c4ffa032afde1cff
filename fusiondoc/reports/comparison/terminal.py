"""A comparison on a terminal: what changed, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.comparison import Comparison, GroupChange
from fusiondoc.model import count
from fusiondoc.rendering.drawing import (
    MOST_ROWS,
    STYLES,
    Detail,
    Indented,
    WithVariables,
    drawn,
    fields,
    more,
    plain,
)
from fusiondoc.rendering.printable import visible_in
from fusiondoc.reports import comparison as words
from fusiondoc.reports.formatting import near, near_paths_of

_BAD, _GOOD, _OTHER = "red", "green", "yellow"

_KIND_STYLES = {
    **dict.fromkeys(("gone", "split", "slower", "came"), _BAD),
    **dict.fromkeys(("added", "merged", "faster"), _GOOD),
}

_SIGNS = {"came": "+", "gone": "-", "reason": "~", "count": "~"}


def render(
    comparison: Comparison,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
) -> str:
    """The comparison as text of at most ``width`` columns, with ANSI colours if ``colour``.

    Args:
        blocks: the place it goes to can show arrows; else they are plain ASCII.
        detail: how much of it: what changed in one line, the first lines, or all.
    """
    near_paths = near_paths_of(*(comparison.reports or ()))
    comparison = near_paths.inside(visible_in(replace(comparison, reports=None)))
    if detail in (Detail.VERDICT, Detail.SUMMARY):
        short = Text(words.changed(comparison)) if detail is Detail.VERDICT else _summary(comparison)
        text = drawn(Lines(*_unrelated(comparison), short), width, colour)
        return text if blocks else plain(text)
    parts: list[RenderableType] = [*_unrelated(comparison), _summary(comparison)]
    for title, part in (
        ("Settings", _settings(comparison)),
        ("Groups", _groups(comparison)),
        ("Not fused", _unfused(comparison)),
        ("Fallbacks", _fallbacks(comparison)),
        ("Kernels", _kernels(comparison)),
        ("Model", _model(comparison)),
        ("Findings", _findings(comparison)),
        ("What cannot be compared", _notes(comparison)),
    ):
        if part is not None:
            parts += ["", Text(title, style="bold"), Padding(part, (0, 0, 0, 1))]
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain(text)


def _unrelated(comparison: Comparison) -> list[RenderableType]:
    """The first line, where there is nothing to compare."""
    return [Text(comparison.unrelated, style=_BAD)] if comparison.unrelated is not None else []


def _summary(comparison: Comparison) -> RenderableType:
    table = fields()
    for name, one in (("A", comparison.a), ("B", comparison.b)):
        table.add_row(name, f"{near(one.name)}: {words.side(one)}")
    style = "" if comparison.same else _OTHER
    table.add_row("Changed", Text(words.changed(comparison), style=style))
    same = [count(comparison.groups_same, "group")]
    if comparison.a.kernels or comparison.b.kernels:
        same.append(count(comparison.kernels_same, "kernel"))
    table.add_row("Same", ", ".join(same))
    return table


def _rows() -> Table:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _settings(comparison: Comparison) -> RenderableType | None:
    if not comparison.differences:
        return None
    table = _rows()
    for one in comparison.differences:
        table.add_row(one.kind, f"{one.name}: {one.a or 'not set'} {words.ARROW} {one.b or 'not set'}")
    return table


def _groups(comparison: Comparison) -> RenderableType | None:
    if not comparison.groups:
        return None
    parts: list[RenderableType] = []
    for change in comparison.groups[:MOST_ROWS]:
        head = Text()
        for kind in change.kinds:
            head.append(f"{kind} ", style=_KIND_STYLES.get(kind, _OTHER))
        head.append(f" {words.group_head(change)}")
        where = words.place(change.b or change.a)
        if where:
            head.append(f"  {where}", style="dim")
        parts += [head, Padding(_lines(_group_lines(change)), (0, 0, 0, 2))]
    return Lines(*parts, *more(len(comparison.groups)))


def _group_lines(change: GroupChange) -> list[str]:
    lines = words.sides_of(change)
    lines += [f"- {text}" for text in words.nodes(change.ops_gone)]
    lines += [f"+ {text}" for text in words.nodes(change.ops_added)]
    if "types" in change.kinds:
        lines += words.types(change)
    lines += [f"not fused now: {words.unfused(row)}" for row in words.once_each(change.because)]
    if change.speed is not None and change.speed.change is not None:
        lines.append(words.speed(change.speed))
    return lines


def _lines(lines: Iterable[str]) -> RenderableType:
    return Lines(*(Text(line, overflow="fold") for line in lines))


def _signed(rows: Sequence[tuple[str, str]]) -> RenderableType | None:
    """Rows with what came marked ``+`` and what is gone ``-``."""
    if not rows:
        return None
    table = _rows()
    for change, text in rows[:MOST_ROWS]:
        style = _KIND_STYLES.get(change, _OTHER) if change != "gone" else _GOOD
        table.add_row(Text(_SIGNS.get(change, "~"), style=style), text)
    return Lines(table, *more(len(rows)))


def _unfused(comparison: Comparison) -> RenderableType | None:
    return _signed([(row.change, words.unfused(row)) for row in words.once_each(comparison.unfused)])


def _fallbacks(comparison: Comparison) -> RenderableType | None:
    return _signed([(row.change, words.fallback(row)) for row in comparison.fallbacks])


def _kernels(comparison: Comparison) -> RenderableType | None:
    shown, counted = words.only_bytes(comparison)
    if not comparison.kernels:
        return None
    table = _rows()
    for change in shown[:MOST_ROWS]:
        facts = [fact for fact in words.kernel_facts(change) if not fact.startswith("nvFuser")]
        table.add_row(words.kernel_head(change), "\n".join(facts) or change.kinds[0])
    parts: list[RenderableType] = [table] if shown else []
    parts += more(len(shown))
    if counted:
        parts.append(Text(counted, style="dim"))
    return Lines(*parts)


def _model(comparison: Comparison) -> RenderableType | None:
    if not comparison.speed:
        return None
    table = _rows()
    for one in comparison.speed:
        inputs = f" (inputs {one.inputs + 1})" if one.inputs else ""
        table.add_row(f"{one.way} {one.phase}{inputs}", f"{one.speed.change}: {words.speed(one.speed)}")
    return table


def _findings(comparison: Comparison) -> RenderableType | None:
    if not comparison.findings:
        return None
    parts: list[RenderableType] = []
    shown, rest = words.findings(comparison)
    for row in shown[:MOST_ROWS]:
        finding = row.finding
        came = row.change == "came"
        line = Text(_SIGNS.get(row.change, "~") + " ", style=_BAD if came else _GOOD)
        line.append(
            f"{finding.severity} {finding.code}", style=STYLES.get(finding.severity, "") if came else "dim"
        )
        line.append(f"  {finding.message}", style="default" if came else "dim")
        if finding.source and near(finding.source) not in finding.message:
            line.append(f"  {near(finding.source)}", style="dim")
        parts.append(line)
        if came and finding.advice and finding.severity != "note":
            parts.append(Indented(WithVariables(f"{words.ARROW} {finding.advice}"), 4))
    parts += more(len(shown))
    if rest:
        parts.append(Text(rest))
    return Lines(*parts)


def _notes(comparison: Comparison) -> RenderableType | None:
    return _lines(comparison.notes) if comparison.notes else None
