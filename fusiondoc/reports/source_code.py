"""The user's lines, where their files are at hand."""

from __future__ import annotations

import os
from pathlib import Path

from fusiondoc.model.report import Texts
from fusiondoc.model.source import Source


def near(source: str) -> str:
    """A source under the current folder without that folder's name; torch's own from ``torch/`` on."""
    here = str(Path.cwd()) + os.sep
    if source.startswith(here):
        return source[len(here) :]
    library = source.rfind("/torch/")
    return source[library + 1 :] if library >= 0 else source


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
