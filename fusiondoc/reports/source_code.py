"""The user's lines, where their files are at hand."""

from __future__ import annotations

import os
from pathlib import Path

from fusiondoc.model.report import Texts
from fusiondoc.model.source import Source, from_package, without_packages


def near(source: str) -> str:
    """A source as it is read best: a package's file from the package's name on (``torch/functional.py:1``),
    one below the current folder without that folder."""
    short = without_packages(source)
    if short != source:
        return short
    here = str(Path.cwd()) + os.sep
    if source.startswith(here):
        return source[len(here) :]
    return from_package(source)


def where_from(user_source: str | None, source: str | None) -> str:
    """Where an operator comes from: the user's line, and that of the package which it leads to.

    ``model.py:12 (torch/nn/functional.py:2987)``; "" where nothing is known.
    """
    if not user_source or not source:
        return near(user_source or source or "")
    inside = without_column(source)
    if inside == user_source or from_package(source) == source:
        return near(user_source)
    return f"{near(user_source)} ({near(inside)})"


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
