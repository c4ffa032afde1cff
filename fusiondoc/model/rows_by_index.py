"""Rows of a report by the numbers by which others name them."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.model.report import Report, Unfused


def rows_by_index(report: Report) -> Mapping[int | None, Unfused]:
    """``ProgramNode.row`` -> that row of ``unfused``; nothing for None."""
    return {row.index: row for row in report.unfused if row.index is not None}
