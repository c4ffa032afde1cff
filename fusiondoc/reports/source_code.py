"""The user's lines, where their files are at hand."""

from __future__ import annotations

import os
from pathlib import Path

from fusiondoc.model.report import Texts


def near(source: str) -> str:
    """A source under the current folder without that folder's name; torch's own from ``torch/`` on."""
    here = str(Path.cwd()) + os.sep
    if source.startswith(here):
        return source[len(here) :]
    library = source.rfind("/torch/")
    return source[library + 1 :] if library >= 0 else source


def code_at(source: str | None, texts: Texts | None) -> str | None:
    """The text of ``file:line``, if that file is at hand: kept by the capture, or of the project here."""
    if source is None or texts is None:
        return None
    file, _, line = source.rpartition(":")
    if not line.isdecimal() or len(line) > 9:
        return None
    lines = (texts.source(file) or "").split("\n")
    return lines[int(line) - 1].strip() or None if 0 < int(line) <= len(lines) else None
