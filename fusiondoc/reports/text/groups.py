"""The sections of the terminal report on what fused and what did not: fusion groups and the operators that
are in none.
"""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.fusers import is_te
from fusiondoc.model import count
from fusiondoc.model.codes import CODES, Loss
from fusiondoc.model.operator_places import folded, outside
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import SEVERITIES, Group, Report, Unfused
from fusiondoc.model.source import Texts
from fusiondoc.rendering.drawing import MOST_ROWS, STYLES, more
from fusiondoc.rendering.units import size
from fusiondoc.views.formatting import (
    code_at,
    further_values,
    never_ran,
    short_type,
    times,
    where_from,
    with_near_places,
)
from fusiondoc.views.report_ranks import ranks_where
from fusiondoc.views.step_words import takes


def groups(report: Report, every: bool = False) -> RenderableType | None:
    """Every group with its operators, their lines and its types; None without any. Groups of the same
    operators and lines, which differ in their types only, are shown once."""
    if not report.groups:
        return None
    kinds: dict[object, list[Group]] = {}
    for group in report.groups:
        kinds.setdefault(group.id if every else _alike(group), []).append(group)
    parts: list[RenderableType] = []
    shown = list(kinds.values())
    whole = len(shown) if every or len(shown) <= _MOST_WHOLE else _WHOLE_OF_MANY
    for number, alike in enumerate(shown if every else shown[:MOST_ROWS]):
        if number >= whole:
            parts.append(_on_a_line(alike))
            continue
        head = _group_head(alike[0], ranks_where(report, alike[0].id))
        parts += [head, Padding(_group_body(alike[0]), (0, 0, 0, 2))]
        if len(alike) > 1:
            parts.append(Padding(_others(alike[1:]), (0, 0, 0, 2)))
    parts += [] if every else more(len(shown))
    return Lines(*parts)


_MOST_WHOLE, _WHOLE_OF_MANY = 20, 8
"""Up to so many groups are shown with their bodies; of more, so many, and a line for each other one."""


def _on_a_line(alike: list[Group]) -> Text:
    """``G9  5 operators: mul, add, gelu and 2 more  model.py:9``."""
    group = alike[0]
    names = [op.rpartition("::")[2] for op in group.ops]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    line = Text(group.id + times(group), style="bold green")
    line.append(f"  {count(len(names), 'operator')}: {listed}", style="default")
    place = next((node.user_source for node in group.nodes if node.user_source), None)
    where = where_from(place, None) if place is not None else folded(group.layers, 2)
    line.append(f"  {where}" if where else "", style="dim")
    more_alike = sum(one.count for one in alike[1:])
    line.append(f"  and {more_alike} like it" if more_alike else "", style="dim")
    if group.fallback:
        line.append("  FELL BACK", style=STYLES["error"])
    return line


def _alike(group: Group) -> object:
    """What groups that are shown together have in common; a fallback is shown for itself."""
    if group.fallback or group.segments:
        return group.id
    nodes = tuple((node.op, node.source, node.user_source) for node in group.nodes)
    return group.kind, group.phase, group.rank, group.respecialises is not None, nodes


_MOST_NAMED = 8


def _others(alike: list[Group]) -> Text:
    """``and 8 groups like it, for other types: G4 ×3, G7``."""
    named = ", ".join(one.id + times(one) for one in alike[:_MOST_NAMED])
    left = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
    number = sum(one.count for one in alike)
    layers = folded([layer for one in alike for layer in one.layers])
    text = f"and {count(number, 'group')} like it, for other types: {named}{left}"
    return Text(text + (f" ({layers})" if layers else ""), style="dim")


def _group_head(group: Group, ranks: str | None) -> Text:
    head = Text(group.id + times(group), style="bold green")
    head.append(f"  {group.kind}", style="default")
    facts = [group.phase or "phase unknown", count(group.size, "operator")]
    if group.respecialises:
        facts.append(f"specialisation {group.specialisation} of {group.respecialises}")
    if group.time is not None:
        facts.append(f"{takes(group.time)} of a step")
    if group.runs is not None:
        facts.append(f"ran {count(group.runs, 'time')}")
    if group.iteration is not None:
        facts.append(f"from iteration {group.iteration}")
    if group.kernels:
        facts.append("kernels " + ", ".join(group.kernels))
    if ranks is not None:
        facts.append(ranks)
    head.append("  " + ", ".join(facts))
    if group.fallback:
        head.append("  FELL BACK", style=STYLES["error"])
    return head


def _group_body(group: Group) -> RenderableType:
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    if group.layers:
        table.add_row(Text("layer", style="dim"), Text(folded(group.layers), style="default"))
    last = None
    for node in group.nodes:
        source = where_from(node.user_source, node.source)
        table.add_row(node.op, "" if source == last else source)
        last = source
    for name, types, moved in (("in", group.inputs, group.bytes_in), ("out", group.outputs, group.bytes_out)):
        if not types and moved is None:
            continue  # what is not known
        shown = "; ".join(short_type(t) for t in types)
        table.add_row(Text(name, style="dim"), shown + (f"  = {size(moved)}" if moved is not None else ""))
    left_out = further_values(group)
    if left_out is not None:
        table.add_row(Text("left out", style="dim"), left_out)
    return table


def by_reason(report: Report) -> list[tuple[Reason, list[Unfused]]]:
    """The rows of what ran under their reason, those of equal words under one: stated reasons first, and of
    these the ones that cost most; where none is stated, those first that a change of the program can
    mend."""
    of_words: dict[tuple[str, str, bool], list[Unfused]] = {}
    for row in outside(report):
        shown = (row.reason.code, row.reason.text, row.reason.stated)
        of_words.setdefault(shown, []).append(row)
    return sorted(
        ((rows[0].reason, rows) for rows in of_words.values()),
        key=lambda item: (
            not item[0].stated,
            -sum(row.bytes_moved or 0 for row in item[1]),
            _mendable(item[0]) if is_te(item[1][0].op) else (0, ""),
        ),
    )


def _mendable(reason: Reason) -> tuple[int, str]:
    known = CODES.get(reason.code)  # a saved report of a later version can have others
    lost = known is not None and known.loss is not Loss.NONE
    return (SEVERITIES.index(known.severity) if known is not None and lost else 3), reason.code


def unfused(report: Report, width: int, every: bool = False) -> RenderableType | None:
    """Rows under their reason; None without any."""
    reasons = by_reason(report)
    idle = never_ran(report)
    if not reasons and idle is None:
        return None
    parts: list[RenderableType] = []
    left = len(report.unfused) if every else MOST_ROWS
    for reason, rows in reasons:
        if left <= 0:
            break
        parts += [_reason(reason), Padding(_rows(rows[:left], width - 3, report.texts), (0, 0, 0, 2))]
        left -= len(rows)
    parts += [] if every else more(sum(len(rows) for _, rows in reasons))
    if idle is not None:
        parts.append(Text(f"Besides, {idle}", style="dim"))
    return Lines(*parts)


def _reason(reason: Reason) -> Text:
    text = Text(reason.code, style=STYLES["warning"] if reason.stated else "dim")
    text.append(" " + with_near_places(reason.text), style="default")
    return text


def _rows(rows: list[Unfused], width: int, texts: Texts | None) -> Table:
    """Operator, layers over the line, and code, which has what the other two leave of ``width`` columns."""
    cells = [(_operator(row), _place(row)) for row in rows]
    left = width - max(len(line) for op, _ in cells for line in op.split("\n")) - 4
    left -= max(len(line) for _, place in cells for line in place.split("\n"))
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, style="dim")
    for row, cell in zip(rows, cells):
        code = code_at(row.user_source, texts) or ""
        table.add_row(
            *cell, code if len(code) <= left else code[: max(0, left - 1)] + "…" if left > 12 else ""
        )
    return table


def _operator(row: Unfused) -> str:
    """``aten::add x2``, over what they take of a step."""
    took = takes(row.time)
    return row.op + (f" x{row.count}" if row.count > 1 else "") + (f"\n  {took}" if took is not None else "")


def _place(row: Unfused) -> str:
    where = where_from(row.user_source, row.source) or "-"
    layers = folded(row.layers)
    return (layers + "\n" if layers else "") + where + (" (backward)" if row.phase == "backward" else "")
