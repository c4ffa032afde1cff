"""The section of the terminal report on operators that are in no group."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.report import Reason, Report, Texts, Unfused
from fusiondoc.reports.source_code import code_at, near
from fusiondoc.reports.text.layout_of_text import MOST_ROWS, STYLES, more
from fusiondoc.reports.wording import NO_OPERATORS


def by_reason(report: Report) -> list[tuple[Reason, list[Unfused]]]:
    """The rows under their reason: stated reasons first, and of these the ones that cost most."""
    reasons: dict[Reason, list[Unfused]] = {}
    for row in report.unfused:
        if row.op not in NO_OPERATORS:
            reasons.setdefault(row.reason, []).append(row)
    return sorted(
        reasons.items(),
        key=lambda item: (not item[0].stated, -sum(row.bytes_moved or 0 for row in item[1])),
    )


def unfused(report: Report, width: int) -> RenderableType | None:
    """Rows under their reason; None without any."""
    reasons = by_reason(report)
    if not reasons:
        return None
    parts: list[RenderableType] = []
    left = MOST_ROWS
    for reason, rows in reasons:
        if left <= 0:
            break
        parts += [_reason(reason), Padding(_rows(rows[:left], width - 3, report.texts), (0, 0, 0, 2))]
        left -= len(rows)
    return Lines(*parts, *more(sum(len(rows) for _, rows in reasons)))


def _reason(reason: Reason) -> Text:
    text = Text(reason.code, style=STYLES["warning"] if reason.stated else "dim")
    text.append(" " + reason.text, style="default")
    return text


def _rows(rows: list[Unfused], width: int, texts: Texts | None) -> Table:
    """Operator, line and code; the code has what the other two leave of ``width`` columns."""
    cells = [(row.op + (f" x{row.count}" if row.count > 1 else ""), _place(row)) for row in rows]
    left = width - sum(max(len(cell[i]) for cell in cells) for i in (0, 1)) - 4
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


def _place(row: Unfused) -> str:
    place = near(row.user_source or row.source or "-")
    return place + (" (backward)" if row.phase == "backward" else "")
