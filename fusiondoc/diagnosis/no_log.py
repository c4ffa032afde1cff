"""Recognises input that was read as a log and is none."""

from __future__ import annotations

from fusiondoc.model.report import Report


def is_no_log(report: Report) -> bool:
    """True if no line of the log, which is no capture, comes from torch or reports
    an error: it is a program, a text, or the output of a run that logged nothing.
    An empty log counts as one, too."""
    stats = report.parse
    if (
        stats.recognised
        or stats.unrecognised
        or report.target.of_capture
        or report.target.capture
    ):
        return False
    return any(f.code == "FD901" for f in report.findings) and all(
        f.code == "FD901" or f.severity == "note" for f in report.findings
    )


def program_of(report: Report) -> str | None:
    """Return the Python file that was read as a log; None if the log has another
    name or there are several logs."""
    name = report.target.name or ""
    if name.endswith(".py") and ", " not in name:
        return name
    return None
