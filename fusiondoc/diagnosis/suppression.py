"""Findings that the user suppressed: by the configuration, or by a comment in the program.

``ignore = ["FD201", "FD226:model.py:31"]``, and ``# fusiondoc: ignore[FD201]`` on the line of a finding.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Sequence

from fusiondoc.captures.kept_files import project_root, read_source, text_of
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.codes import CODES
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.runs import Suppressed
from fusiondoc.model.source import Source, path_ends_with

_COMMENT = re.compile(r"#\s*fusiondoc:\s*ignore\b(?:\s*\[([^\]]*)\])?", re.IGNORECASE)
_RULE = re.compile(r"(\w+)(?::(.+?)(?::([0-9]{1,9}))?)?\Z")


@dataclass(frozen=True)
class Ignore:
    """An entry of ``ignore``: a code, and where it is given a file (the end of its path) and a line."""

    text: str
    code: str
    file: str | None = None
    line: int | None = None

    def covers(self, finding: Finding) -> bool:
        """Whether it is on this finding."""
        if finding.code != self.code:
            return False
        if self.file is None:
            return True
        place = Source.parse(finding.source)
        file, line = (place.file, place.line) if place is not None else (finding.source or "", None)
        return path_ends_with(file, self.file) and self.line in (None, line)


def parse_ignore(text: str) -> Ignore:
    """``FD226``, ``FD226:model.py`` or ``FD226:model.py:31``; UsageError for an unknown code."""
    match = _RULE.match(text.strip())
    code = match.group(1).upper() if match else text
    if match is None or code not in CODES:
        raise UsageError(f"'{code}' is not a finding code", did_you_mean(code, CODES))
    line = match.group(3)
    return Ignore(text, code, match.group(2), int(line) if line else None)


def suppress(report: Report, ignore: Sequence[Ignore]) -> tuple[Report, list[str]]:
    """The report with the suppressed findings moved to ``suppressed``, and what is wrong with comments."""
    kept, gone, notes = [], [], []
    lines = _Lines(report)
    for finding in report.findings:
        by = next((f"config: {one.text}" for one in ignore if one.covers(finding)), None)
        if by is None:
            codes, place = _comment(finding.source, lines)
            notes += [
                f"{place}: there is no finding {code} to ignore. {did_you_mean(code, CODES)}"
                for code in codes or ()
                if code not in CODES
            ]
            if codes is not None and (not codes or finding.code in codes):
                by = f"comment: {place}"
        if by is None:
            kept.append(finding)
        else:
            gone.append(Suppressed(finding.code, finding.severity, finding.message, finding.source, by))
    if not gone:
        return report, list(dict.fromkeys(notes))
    return replace(report, findings=tuple(kept), suppressed=tuple(gone)), list(dict.fromkeys(notes))


class _Lines:
    """Lines of the program: a log may name any file, so only Python files of the project are read, as they
    are now, or the copies that the capture kept."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._root = project_root(Path.cwd())
        self._files: dict[str, list[str]] = {}

    def line(self, place: Source) -> str:
        """ "" where the file cannot be read or is shorter."""
        if place.file not in self._files:
            data = read_source(Path(place.file), (self._root,))
            texts = self._report.texts
            kept = text_of(data) if data is not None else texts.source(place.file) if texts else None
            self._files[place.file] = (kept or "").split("\n")
        lines = self._files[place.file]
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""


def _comment(source: str | None, lines: _Lines) -> tuple[list[str] | None, str]:
    """The codes in the comment on the line of a finding: None without one, empty for all codes; the line."""
    place = Source.parse(source)
    if place is None:
        return None, ""
    match = _COMMENT.search(lines.line(place))
    if match is None:
        return None, ""
    codes = re.split(r"[\s,]+", (match.group(1) or "").strip().upper())
    here = str(Path.cwd()) + os.sep
    shown = place.at_line
    return [code for code in codes if code], shown[len(here) :] if shown.startswith(here) else shown
