"""A survey on the terminal, as a page, as JSON (schema ``fusiondoc.survey/1``), and
its tables as CSV and Parquet for notebooks."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fusiondoc.errors import CannotRun
from fusiondoc.model.survey_answers import (
    Duplicate,
    Gone,
    GroupShare,
    Outlier,
    ReasonShare,
    RunRow,
    Survey,
    Unreadable,
)
from fusiondoc.rendering import pages, terminal_documents
from fusiondoc.rendering.printable import csv_table
from fusiondoc.views.survey_sections import MOST_NARROW, MOST_WIDE, survey_document

TABLES: Mapping[str, type] = {
    "runs": RunRow,
    "groups": GroupShare,
    "gone": Gone,
    "reasons": ReasonShare,
    "outliers": Outlier,
    "unreadable": Unreadable,
    "duplicates": Duplicate,
}
"""Name of a table (and field of the survey) -> the class of its rows."""

FORMATS = ("text", "html", "json", "csv", "parquet")


def as_text(
    survey: Survey, *, width: int = 80, colour: bool = False, blocks: bool = True
) -> str:
    """The survey as text of at most ``width`` columns."""
    return terminal_documents.render(
        survey_document(survey, MOST_NARROW),
        width=width,
        colour=colour,
        blocks=blocks,
    )


def as_page(survey: Survey) -> str:
    """The survey as one self-contained page."""
    return pages.render(survey_document(survey, MOST_WIDE))


def _rows(survey: Survey, table: str) -> tuple[list[str], list[list[Any]]]:
    names = [one.name for one in fields(TABLES[table])]
    rows = []
    for row in getattr(survey, table):
        rows.append([getattr(row, name) for name in names])
    return names, rows


def as_csv(survey: Survey, table: str) -> str:
    """Return a table with a row of headings; lists are joined by ``; ``, unknown
    values are empty. A text that a spreadsheet would calculate is quoted as text,
    and hidden characters are escapes."""
    names, rows = _rows(survey, table)
    return csv_table(names, rows)


def as_parquet(survey: Survey, table: str) -> bytes:
    """Return the same table as a Parquet file, lists as lists.

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
        if kind.startswith("tuple"):
            types.append(arrow.list_(arrow.string()))
        else:
            types.append(kinds[kind])
    columns = []
    for at, kind in enumerate(types):
        values = [row[at] for row in rows]
        columns.append(
            arrow.array(
                [
                    list(value) if isinstance(value, tuple) else value
                    for value in values
                ],
                kind,
            )
        )
    out = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns, names=names), out)
    return bytes(out.getvalue())
