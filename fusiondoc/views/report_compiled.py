"""torch.compile as a section: the graphs of a program, where their operators are
computed, and operators that several kernels compute."""

from __future__ import annotations

from fusiondoc.model.compiled import Accounts, CompiledGraphRow, CompiledReport
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import (
    Column,
    Formats,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    Count,
    IdLinks,
    Seconds,
    Text,
    Tone,
)
from fusiondoc.views.formatting import near

_MOST_GROUPS = 6
_COLUMNS = (
    Column("graph"),
    Column("phase"),
    Column("groups", wide=True, formats=~Formats.TERMINAL),
    Column("groups", number=True, formats=Formats.TERMINAL),
    Column("operators", number=True, optional=True),
    Column("calls", number=True, optional=True),
    Column("views", number=True, optional=True),
    Column("unknown", number=True, optional=True),
    Column("moves", number=True, optional=True),
    Column("compiled in", number=True, optional=True),
)


def compiled(report: Report) -> Section:
    """Section of each graph with its groups and operators; empty without
    torch.compile."""
    title = "Compiled graphs"
    if report.compiled is None or not report.compiled.graphs:
        return Section("compiled", title)
    graphs = report.compiled.graphs
    rows = tuple(Row(_cells(graph)) for graph in graphs)
    table = Table(_COLUMNS, rows, caption=title, on_terminal=MOST_ROWS)
    return Section(
        "compiled",
        title,
        blocks=(table, Sentences(_again(report.compiled), Tone.DIM)),
    )


def _cells(graph: CompiledGraphRow) -> tuple[Cell, ...]:
    known = graph.accounts or Accounts(0, 0, 0, 0, ())
    is_known = graph.accounts is not None
    if graph.failed is not None:
        state = "failed"
    elif graph.from_cache:
        state = "from a cache"
    else:
        state = ""
    return (
        Text(" ".join(filter(None, (graph.compile_id or "?", state)))),
        Text(graph.phase or ""),
        IdLinks(graph.groups, _MOST_GROUPS),
        Count(len(graph.groups)),
        Count(known.in_groups if is_known else None),
        Count(known.in_calls if is_known else None),
        Count(known.views + known.dead if is_known else None),
        Count(len(known.not_found) or None),
        Bytes(graph.bytes_accessed),
        Seconds(graph.seconds),
    )


def _again(report: CompiledReport) -> tuple[str, ...]:
    """Return the operators that several kernels compute, most often first."""
    rows = sorted(report.computed_again, key=lambda row: -row.times)
    lines = []
    for row in rows[:3]:
        where = f" ({near(row.user_source)})" if row.user_source is not None else ""
        lines.append(
            f"{row.op}{where} is computed {row.times} times, in {', '.join(row.groups[:3])}"
        )
    if len(rows) > len(lines):
        lines.append(
            f"and {len(rows) - len(lines)} more operators are computed several times"
        )
    return tuple(lines)
