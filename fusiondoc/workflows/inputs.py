"""The two sides of a comparison: logs, captures, folders of logs, saved reports."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.store import FOLDER, CaptureStore
from fusiondoc.errors import UsageError
from fusiondoc.model.report import Report
from fusiondoc.parsers.lines.log_files import LogInput, read_chunks
from fusiondoc.reports.json_reading import looks_like_report, read_report
from fusiondoc.workflows.load import is_capture, report_from, report_of

_MOST_REPORT_BYTES = 1 << 30


def side(argument: str) -> Report:
    """The report that an argument names; its name is the argument, with what it was made of.

    A file is a saved JSON report or a log (both may be compressed), a folder a capture or a folder of logs,
    ``-`` a log from stdin; anything else is the name of a capture, or a part of it that only one has.

    Raises:
        UsageError: there is no such thing, or it cannot be read.
    """
    report = _read(argument)
    name = "stdin" if argument == "-" else argument
    inner = str(report.target.get("name") or "")
    if _named_json(Path(argument)) or "capture" in report.target:
        name += f" ({inner})" if inner not in ("", argument) else ""
    return replace(report, target={**report.target, "name": name})


def _read(argument: str) -> Report:
    path = Path(argument)
    if argument != "-" and not path.exists():
        return _named(argument)
    if argument != "-" and path.is_file():
        report = _saved(argument, path)
        if report is not None:
            return report
    if path.is_dir() and not is_capture(path):
        saved = sorted(path.glob("*.json"))
        if saved and not any(p.suffix != ".json" for p in path.iterdir() if p.is_file()):
            raise UsageError(f"{argument} holds JSON files and no log", f"Name one of them: {saved[0]}")
    return report_from([argument])


def _saved(argument: str, path: Path) -> Report | None:
    """The report in a file, if it is one and no log."""
    chunks = read_chunks(LogInput(argument, path))
    start = next(chunks, b"")
    if not _named_json(path) and not looks_like_report(start):
        return None
    data = [start]
    size = len(start)
    for chunk in chunks:
        data.append(chunk)
        size += len(chunk)
        if size > _MOST_REPORT_BYTES:
            raise UsageError(f"{argument} is larger than any report", "Compare the logs themselves.")
    return read_report(b"".join(data), argument)


def _named_json(path: Path) -> bool:
    return re.search(r"\.json(\.(gz|xz|bz2|zst))?\Z", path.name.lower()) is not None


def _named(argument: str) -> Report:
    store = CaptureStore()
    try:
        return report_of(store.get(argument))
    except UsageError as error:
        if error.message.startswith(f"there is no capture '{argument}'"):
            raise UsageError(
                f"There is no log, folder, report or capture '{argument}'",
                error.hint if store.paths() else f"Name a file; there are no captures in {FOLDER}/ here.",
            ) from None
        raise
