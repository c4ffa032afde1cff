"""A suite on the terminal, as JSON (schema ``fusiondoc.suite/1``), Markdown and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.model.bench import Suite
from fusiondoc.reports.benchmark.documents import COLUMNS, could_not_run, rows_of
from fusiondoc.reports.benchmark.suite_grids import (
    Figure,
    Grid,
    figures,
    grids,
    interpreter_short,
    missing,
    remarks,
    sources,
)
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.printable import in_json, markdown, visible_in
from fusiondoc.reports.text.layout_of_text import drawn, fields
from fusiondoc.reports.text.layout_of_text import plain as without_blocks

_STYLES = {"faster": "green", "slower": "yellow", "absent": "dim", "": ""}


def device(suite: Suite) -> str:
    """The GPU's name, or that there is none."""
    for case in suite.cases:
        if case.bench is not None and case.bench.environment.get("gpu"):
            return case.bench.environment["gpu"]
    return "CPU"


def render(suite: Suite, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The suite as text of at most ``width`` columns; the arguments are those of the report's."""
    suite = visible_in(suite)
    head = fields()
    head.add_row("Suite", f"{suite.suite}, {'small' if suite.small else 'full'} sizes")
    for one in suite.interpreters():
        head.add_row("Python", f"{one.replace('Python ', '', 1)}, {device(suite)}")
    parts: list[RenderableType] = [head]
    for grid in grids(suite):
        title = Text(grid.title, style="bold").append(f"  {grid.note}", style="not bold dim")
        parts += ["", title, Padding(_table(grid, suite), (0, 0, 0, 1))]
    parts += [Text(f"\n→ {line}") for line in remarks(suite)]
    published = figures(suite)
    if published:
        parts += ["", Text("Published, and here", style="bold").append("  of eager's", style="not bold dim")]
        parts += [Padding(_figures(published, suite), (0, 0, 0, 1))]
        parts += [Text(f" [{number}] {what}") for number, what in enumerate(sources(published), 1)]
        parts += ["", Text("Why they differ", style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 1)) for line in suite.why_different]
    parts += could_not_run(missing(suite))
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else without_blocks(text)


def _table(grid: Grid, suite: Suite) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("case", no_wrap=True)
    several = len(suite.interpreters()) > 1
    if several:
        table.add_column("torch", no_wrap=True)
    for name in [*([grid.eager] if grid.eager else []), *grid.variants]:
        table.add_column(name.replace("aot-", "aot-\n"), justify="right", no_wrap=True, vertical="top")
    above = None
    last = None
    for row in grid.rows:
        if row.block != above:
            table.add_row(Text(row.block, style="bold"))
            above, last = row.block, None
        cells = [Text(f" {row.sizes}" if row.sizes != last else "")]
        last = row.sizes
        if several:
            cells.append(
                Text(interpreter_short(suite, row.interpreter).replace("torch ", "", 1), style="dim")
            )
        if grid.eager:
            cells.append(Text(row.eager or "-"))
        cells += [Text(cell.text, style=_STYLES[cell.style]) for cell in row.cells]
        table.add_row(*cells)
    return table


def _figures(published: Sequence[Figure], suite: Suite) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("figure", "published", "here"):
        table.add_column(name, overflow="fold")
    several = len(suite.interpreters()) > 1
    notes = sources(published)
    for one in published:
        here = "\n".join(f"{where}: {value}" if several else value for where, value in one.here)
        number = notes.index(one.what) + 1
        table.add_row(Text(one.of), Text(one.published).append(f" [{number}]", style="dim"), Text(here))
    return table


def as_json(suite: Suite) -> str:
    """Keys in the order of the schema; what is not known is null."""
    data = plain(suite)
    assert isinstance(data, dict)
    first = {"schema": data.pop("schema")}
    return in_json(json.dumps({**first, **data}, indent=2, ensure_ascii=False)) + "\n"


def as_markdown(suite: Suite) -> str:
    """A table for each thing measured; speeds with their 95 % intervals."""
    where = ", ".join(suite.interpreters())
    sizes = "small sizes" if suite.small else "full sizes"
    lines = [f"### Suite {markdown(suite.suite)}", "", markdown(f"{where}, {device(suite)}; {sizes}"), ""]
    several = len(suite.interpreters()) > 1
    for grid in grids(suite):
        heads = [
            "case",
            *(["torch"] if several else []),
            *([grid.eager] if grid.eager else []),
            *grid.variants,
        ]
        lines += [f"**{grid.title}** ({grid.note})", "", "| " + " | ".join(heads) + " |"]
        left = 2 if several else 1
        lines.append("|" + "---|" * left + "--:|" * (len(heads) - left))
        for row in grid.rows:
            cells = [f"{row.block} {row.sizes}"]
            cells += [interpreter_short(suite, row.interpreter).replace("torch ", "", 1)] if several else []
            cells += [row.eager or "-"] if grid.eager else []
            cells += [f"{one.text} ({one.interval})" if one.interval else one.text for one in row.cells]
            lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        lines.append("")
    lines += [f"- {markdown(line)}" for line in remarks(suite)]
    published = figures(suite)
    if published:
        lines += [
            "",
            "**Published, and here** (of eager's)",
            "",
            "| figure | published | here |",
            "|---|---|---|",
        ]
        for one in published:
            here = "; ".join(f"{where}: {value}" if several else value for where, value in one.here)
            cells = [one.of, f"{one.published}, {one.what}", here]
            lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
        lines += ["", "Why they differ:", ""]
        lines += [f"- {markdown(line)}" for line in suite.why_different]
    absent = missing(suite)
    if absent:
        lines += ["", "Could not run:", ""]
        lines += [f"- {markdown(name)}: {markdown(why)}" for name, why in absent]
    return "\n".join(lines).rstrip() + "\n"


def as_csv(suite: Suite) -> str:
    """The rows of every bench, behind the case that they are of."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["suite", "block", "sizes", *COLUMNS])
    for case in suite.cases:
        for row in rows_of(case.bench) if case.bench is not None else ():
            table.writerow([suite.suite, case.block, case.sizes, *row])
        if case.bench is None:
            empty = (case.reason if name == "reason" else None for name in COLUMNS)
            table.writerow([suite.suite, case.block, case.sizes, *empty])
    return out.getvalue()
