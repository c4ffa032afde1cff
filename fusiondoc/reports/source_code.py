"""The user's lines, where their files are at hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fusiondoc.model.report import Texts
from fusiondoc.model.source import Source

_PACKAGE = re.compile(r".*(?:^|[/\\])(?:site|dist)-packages[/\\](?=.)|.*[/\\](?=torch[/\\])", re.DOTALL)
"""What stands before the file of an installed package; torch is one wherever it is."""


def near(source: str) -> str:
    """A source as it is read best: a package's file from the package's name on (``torch/functional.py:1``),
    one below the current folder without that folder."""
    package = _PACKAGE.match(source)
    if package is not None:
        return source[package.end() :]
    here = str(Path.cwd()) + os.sep
    return source[len(here) :] if source.startswith(here) else source


def code_at(source: str | None, texts: Texts | None) -> str | None:
    """The text of ``file:line``, if that file is at hand: kept by the capture, or of the project here."""
    place = Source.parse(source)
    if place is None or texts is None:
        return None
    lines = (texts.source(place.file) or "").split("\n")
    return lines[place.line - 1].strip() or None if 0 < place.line <= len(lines) else None


def without_column(source: str) -> str:
    """``file:line`` of a source that has a column; another text as it is."""
    place = Source.parse(source)
    return place.at_line if place is not None else source
