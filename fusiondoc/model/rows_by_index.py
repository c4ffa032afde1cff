"""Rows of a report by their index."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.model.report import Report, Unfused


def rows_by_index(report: Report) -> Mapping[int | None, Unfused]:
    """Return the rows of ``unfused`` by ``Unfused.index``, which is
    ``ProgramNode.row``; None has no entry."""
    rows: dict[int | None, Unfused] = {}
    for row in report.unfused:
        if row.index is not None:
            rows[row.index] = row
    return rows
