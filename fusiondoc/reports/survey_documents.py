"""A survey on the terminal, as a page, as JSON (schema ``fusiondoc.survey/1``), and its tables as CSV and
Parquet for notebooks."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.errors import CannotRun
from fusiondoc.model import count, dataclass
from fusiondoc.model.survey_answers import (
    MOST_SLOWEST,
    Duplicate,
    Gone,
    GroupShare,
    Outlier,
    ReasonShare,
    RunRow,
    Survey,
    Unreadable,
)
from fusiondoc.rendering.printable import csv_table, in_json, visible_in
from fusiondoc.rendering.units import TERMINAL, digits, milliseconds, percent, seconds, size
from fusiondoc.reports import losses_in_words
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.text import drawn
from fusiondoc.reports.text import fields as names_and_values
from fusiondoc.reports.text import plain as without_blocks

TABLES: Mapping[str, type] = {
    "runs": RunRow,
    "groups": GroupShare,
    "gone": Gone,
    "reasons": ReasonShare,
    "outliers": Outlier,
    "unreadable": Unreadable,
    "duplicates": Duplicate,
}
"""Name of a table (and field of the survey) -> what a row of it is."""

FORMATS = ("text", "html", "json", "csv", "parquet")
_MOST_SHOWN = 8
_MOST_ON_PAGE = 500


@dataclass(frozen=True)
class Shown:
    """A table as people read it: a heading for each column, and cells of text."""

    name: str
    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    said: tuple[tuple[str, str], ...]
    """The same rows for a terminal: what it is about, and the rest as a sentence."""
    left: int = 0
    """Rows that are not shown."""


def verdict(survey: Survey) -> str:
    """What it all comes to, in a sentence."""
    text = f"{count(len(survey.runs), 'run')} of {count(len(survey.models), 'model')}"
    gone = {group for one in survey.gone for group in one.groups}
    text += f": {count(len(survey.groups), 'group')}, {len(gone)} of them gone"
    text += f", {survey.moved:,} moved to other lines" if survey.moved else ""
    slow = len(survey.outliers) + survey.outliers_left_out
    return text + (f", {count(slow, 'slow kernel')}" if slow else "")


def facts(survey: Survey) -> list[tuple[str, str]]:
    """What was read, and what was not."""
    work = survey.work
    by = f"{work.engine} engine" + (f", {count(work.workers, 'worker')}" if work.workers else "")
    found = [("Read", f"{count(len(survey.runs), 'run')} in {seconds(work.seconds)} ({by})")]
    dates = sorted(row.date for row in survey.runs if row.date is not None)
    if dates:
        found.append(("From", f"{dates[0]} to {dates[-1]}"))
    for name, title in (("torch", "Torch"), ("gpu", "GPUs"), ("driver", "Drivers")):
        counts = Counter(value for row in survey.runs if (value := getattr(row, name)) is not None)
        if counts:
            said = ", ".join(f"{value} ({counts[value]})" for value in sorted(counts))
            found.append((title, said))
    nameless = sum(row.model is None for row in survey.runs)
    if nameless > 1:
        text = f"{nameless:,} runs do not tell it and count as one; --model-from takes it from their paths"
        found.append(("Model", text))
    if survey.duplicates:
        first = survey.duplicates[0]
        found.append(
            (
                "Same",
                f"{count(len(survey.duplicates), 'file')} with the content of another, first {first.run}",
            )
        )
    if survey.unreadable:
        worst = survey.unreadable[0]
        found.append(("Not read", f"{count(len(survey.unreadable), 'file')}, first {worst.run}: {worst.why}"))
    if survey.ignored:
        found.append(("Ignored", f"{count(survey.ignored, 'file')}, by name neither report nor log"))
    if work.lost_workers:
        died = count(work.lost_workers, "worker")
        found.append(("Lost", f"{died} died; what they had went to others, or is named as not read"))
    return found


def tables(survey: Survey, most: int) -> list[Shown]:
    """The answers, each at most so many rows."""
    partial = [one for one in survey.groups if one.share < 1]
    by_time = any(one.ms for one in survey.reasons)
    cost = "time of a profiled step" if by_time else "memory traffic"
    made = [
        _shown(
            "gone",
            "Gone",
            "fewer runs have it since; one row a loss",
            losses_in_words.HEADS,
            survey.gone,
            losses_in_words.cells,
            lambda one: (losses_in_words.title(one), losses_in_words.sentence(one)),
            most,
        ),
        _shown(
            "groups",
            "Groups in some runs only",
            f"{len(survey.groups) - len(partial)} more are in all runs of their model",
            ("group", "model", "runs", "share", "fell back"),
            partial,
            lambda one: (
                _group(one),
                one.model or "-",
                f"{one.runs:,} of {one.runs_of_model:,}",
                percent(one.share),
                f"{one.fell_back:,}",
            ),
            lambda one: (
                f"{_group(one)} ({one.model})" if one.model else _group(one),
                f"in {one.runs:,} of {count(one.runs_of_model, 'run')} ({percent(one.share)})"
                + (f", fell back in {one.fell_back:,}" if one.fell_back else ""),
            ),
            most,
        ),
        _shown(
            "reasons",
            "Why operators are in no group",
            f"by {cost}",
            ("code", "operator", "runs", "nodes", "bytes", "ms", "why"),
            survey.reasons,
            lambda one: (
                one.code,
                one.op,
                f"{one.runs:,}",
                f"{one.nodes:,}",
                TERMINAL.known(one.bytes, size),
                TERMINAL.known(one.ms, digits),
                one.text,
            ),
            lambda one: (
                f"{one.code} {one.op}",
                f"in {count(one.runs, 'run')}, {count(one.nodes, 'node')}"
                + (f", {milliseconds(one.ms)}" if one.ms else "")
                + (f", {size(one.bytes)}" if one.bytes else "")
                + f": {one.text}",
            ),
            most,
        ),
        _shown(
            "outliers",
            "Kernels that are slow in one run",
            "against the median of that kernel on that GPU" + _left_out(survey),
            ("kernel", "run", "GPU", "ms", "median", "times"),
            survey.outliers,
            lambda one: (
                one.kernel,
                one.run,
                one.gpu or "-",
                digits(one.ms),
                digits(one.median_ms),
                f"{one.ratio:.2f}",
            ),
            lambda one: (
                one.kernel,
                f"{one.ratio:.1f} times the median of {count(one.runs, 'run')}"
                f" ({milliseconds(one.ms)} against {milliseconds(one.median_ms)}): {one.run}",
            ),
            most,
        ),
    ]
    return [one for one in made if one.rows]


def _shown(
    name: str,
    title: str,
    note: str,
    heads: tuple[str, ...],
    rows: Sequence[Any],
    cells: Callable[[Any], tuple[str, ...]],
    said: Callable[[Any], tuple[str, str]],
    most: int,
) -> Shown:
    shown = rows[:most]
    left = max(0, len(rows) - most)
    return Shown(name, title, note, heads, tuple(map(cells, shown)), tuple(map(said, shown)), left)


def _left_out(survey: Survey) -> str:
    left = survey.outliers_left_out
    return f"; the {MOST_SLOWEST} slowest runs of each, {left:,} more are left out" if left else ""


def _group(one: GroupShare) -> str:
    names = [op.rpartition("::")[2] for op in one.ops]
    text = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    own = [place for place in one.places if not place.startswith("<string>")] or list(one.places)
    return text + (" (backward)" if one.phase == "backward" else "") + (f" at {own[0]}" if own else "")


def as_text(survey: Survey, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The survey as text of at most ``width`` columns."""
    survey = visible_in(survey)
    head = names_and_values()
    for name, value in facts(survey):
        head.add_row(name, value)
    parts: list[RenderableType] = [head]
    for table in tables(survey, _MOST_SHOWN):
        parts += ["", Text(table.title, style="bold").append(f"  {table.note}", style="not bold dim")]
        for title, rest in table.said:
            parts += [Padding(Text(title), (0, 0, 0, 1)), Padding(Text(rest, style="dim"), (0, 0, 0, 3))]
        if table.left:
            parts.append(Text(f" ... {table.left:,} more: --format json has all", style="dim"))
    parts += ["", Text(verdict(survey), style="bold")]
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else without_blocks(text)


_NUMBERS = {
    "runs",
    "share",
    "share before",
    "share since",
    "runs since",
    "fell back",
    "nodes",
    "bytes",
    "ms",
    "median",
    "times",
}
"""Headings of columns of numbers."""


def as_page(survey: Survey) -> str:
    """The survey as one self-contained page."""
    from fusiondoc.reports.benchmark.page_parts import Page, PageTable, Row, Section
    from fusiondoc.reports.benchmark.page_parts import drawn as page_of
    from fusiondoc.reports.benchmark.suite_grids import Cell

    sections = [Section("read", "What was read", facts=tuple(facts(survey)))]
    for one in tables(survey, _MOST_ON_PAGE):
        heads = tuple((name, "n" if name in _NUMBERS else "") for name in one.heads)
        rows = tuple(Row(tuple(Cell(text) for text in row)) for row in one.rows)
        note = one.note + (f"; {one.left:,} more rows are in the JSON" if one.left else "")
        sections.append(Section(one.name, one.title, note, tables=(PageTable(heads, rows),)))
    for name, title in (("unreadable", "Not read"), ("duplicates", "Copies")):
        found = getattr(survey, name)[:_MOST_ON_PAGE]
        if found:
            told = tuple((row.run, row.why if name == "unreadable" else row.same_as) for row in found)
            sections.append(Section(name, title, facts=told))
    where = ", ".join(value for name, value in facts(survey) if name in ("Read", "From"))
    return page_of(Page("survey", verdict(survey), where, tuple(sections), "survey"))


def as_json(survey: Survey) -> str:
    """Keys in the order of the schema; what is not known is null."""
    data = plain(survey)
    first = {"schema": data.pop("schema")}
    return in_json(json.dumps({**first, **data}, indent=1, ensure_ascii=False)) + "\n"


def _rows(survey: Survey, table: str) -> tuple[list[str], list[list[Any]]]:
    names = [one.name for one in fields(TABLES[table])]
    rows = [[getattr(row, name) for name in names] for row in getattr(survey, table)]
    return names, rows


def as_csv(survey: Survey, table: str) -> str:
    """A table with a row of headings; lists are joined by ``; ``, what is not known is empty. A text that a
    spreadsheet would calculate is quoted as text, and hidden characters are escapes."""
    names, rows = _rows(survey, table)
    return csv_table(names, rows)


def as_parquet(survey: Survey, table: str) -> bytes:
    """The same table as a Parquet file, lists as lists.

    Raises:
        CannotRun: the package pyarrow is missing.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise CannotRun(
            "Parquet needs the package pyarrow, which is not installed",
            "pip install 'fusiondoc[parquet]', or choose --format csv.",
        ) from None
    names, rows = _rows(survey, table)
    kinds = {"str": arrow.string(), "int": arrow.int64(), "float": arrow.float64()}
    types = []
    for one in fields(TABLES[table]):
        kind = str(one.type).partition(" |")[0]
        types.append(arrow.list_(arrow.string()) if kind.startswith("tuple") else kinds[kind])
    columns = [
        arrow.array([list(row[at]) if isinstance(row[at], tuple) else row[at] for row in rows], kind)
        for at, kind in enumerate(types)
    ]
    out = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns, names=names), out)
    return bytes(out.getvalue())
