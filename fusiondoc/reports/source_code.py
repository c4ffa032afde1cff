"""The user's lines, where their files are at hand."""

from __future__ import annotations

import linecache
import os
from pathlib import Path


def near(source: str) -> str:
    """A source under the current folder without that folder's name; torch's own from ``torch/`` on."""
    here = str(Path.cwd()) + os.sep
    if source.startswith(here):
        return source[len(here) :]
    library = source.rfind("/torch/")
    return source[library + 1 :] if library >= 0 else source


def code_at(source: str | None) -> str | None:
    """The text of ``file:line``, if that file can be read here; paths start at the current folder."""
    if source is None:
        return None
    file, _, line = source.rpartition(":")
    if not line.isdigit() or not Path(file).is_file():
        return None
    return linecache.getline(file, int(line)).strip() or None
