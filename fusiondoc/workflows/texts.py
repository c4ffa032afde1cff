"""The texts that a report refers to: source files and lines of the logs, read when a renderer asks."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Iterator, Mapping, Sequence

from fusiondoc.model.report import Evidence, Report
from fusiondoc.parsers.lines.log_files import LogInput


class LogTexts:
    """Of logs and, if the report is one of a capture, of that capture."""

    def __init__(self, logs: Sequence[LogInput], capture: Path | None = None) -> None:
        self._logs = logs
        self._capture = capture

    def source(self, file: str) -> str | None:
        """The copy in the capture, else the file on disk as seen from the current folder."""
        from fusiondoc.captures.sources import kept_source, read_source, text_of

        kept = kept_source(self._capture, file) if self._capture is not None else None
        if kept is not None:
            return kept
        data = read_source(Path(file))
        return None if data is None else text_of(data)

    def log(self, lines: Iterable[Evidence], graphs: Iterable[Evidence]) -> Mapping[Evidence, str]:
        """Reads the logs once more."""
        from fusiondoc.parsers.excerpts import excerpts

        return excerpts(self._logs, lines, graphs)


def user_files(report: Report) -> set[str]:
    """The files of the user's own program that the report names."""
    return {line.rpartition(":")[0] for line in _user_lines(report)}


def _user_lines(report: Report) -> Iterator[str]:
    yield from (row.user_source for row in report.unfused if row.user_source)
    for group in report.groups:
        yield from (node.user_source for node in group.nodes if node.user_source)
