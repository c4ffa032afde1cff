"""Refuse a file that is no log, or an empty one, if it is to be compared. ``parse``
accepts them: it reports on any log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fusiondoc.diagnosis.no_log import is_no_log
from fusiondoc.errors import UsageError
from fusiondoc.model import count
from fusiondoc.model.report import Report
from fusiondoc.workflows import ReportSource, SourceKind

_RECORD = "Record one: fusiondoc diagnose FILE.py; or as fusiondoc explain FD901 shows, for your own run."


def refuse_what_is_no_log(
    sources: Sequence[ReportSource], report: Report, empty: bool
) -> None:
    """Refuse logs without any line of torch; ``empty``: empty ones too.

    Raises:
        UsageError: they have none.
    """
    if any(
        source.kind in (SourceKind.CAPTURE, SourceKind.REPORT) for source in sources
    ) or not is_no_log(report):
        return
    parts = []
    for source in sources[:3]:
        parts.append("stdin" if source.kind is SourceKind.STDIN else source.text)
    names = ", ".join(parts)
    lines = report.parse.lines
    if not lines:
        if empty:
            raise UsageError(
                f"{names} is an empty log: there is nothing to compare with",
                _RECORD,
            )
        return
    program = None
    for source in sources:
        if Path(source.text).suffix == ".py":
            program = source.text
            break
    if program is not None:
        raise UsageError(
            f"{program} is a Python program, not a log",
            f"Run it, and name its capture: fusiondoc diagnose {program}",
        )
    if lines == 1:
        none = "its only line is not"
    else:
        none = f"none of its {count(lines, 'line')} is"
    raise UsageError(
        f"{names} is no log of torch: {none} from a fuser or a pass of TorchScript",
        _RECORD,
    )
