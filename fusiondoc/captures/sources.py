"""Copies of the program's source files in a capture, so that a report can show them on any machine later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Iterable

FOLDER = "sources"
INDEX = "index.json"

MOST_BYTES = 1 << 20
"""Of one file: a larger one is left out."""

MOST_BYTES_IN_ALL = 5 << 20


def keep_sources(capture: Path, files: Iterable[str], cwd: Path) -> None:
    """Copy the Python files of these names (as the log has them, relative to ``cwd``) into the capture.

    ``index.json`` beside them has name -> copy. What cannot be read or written is left out: a report can do
    without it.
    """
    index: dict[str, str] = {}
    size = 0
    folder = capture / FOLDER
    for name in sorted(set(files)):
        data = read_source(cwd / name)
        if data is None or size + len(data) > MOST_BYTES_IN_ALL:
            continue
        try:
            folder.mkdir(exist_ok=True)
            copy = f"{len(index)}.py"
            (folder / copy).write_bytes(data)
        except OSError:
            break
        index[name] = copy
        size += len(data)
    if index:
        try:
            (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        except OSError:
            return


def kept_source(capture: Path, name: str) -> str | None:
    """The copy of a file that ``keep_sources`` made; None without one, or if the capture is damaged."""
    folder = capture / FOLDER
    try:
        index = json.loads((folder / INDEX).read_bytes())
    except (OSError, ValueError):
        return None
    copy = index.get(name) if isinstance(index, dict) else None
    if not isinstance(copy, str) or Path(copy).name != copy:
        return None
    data = read_source(folder / copy)
    return None if data is None else text_of(data)


def read_source(path: Path) -> bytes | None:
    """A Python file of at most a megabyte; None for anything else. A log may name any file: only sources are
    shown."""
    try:
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        return path.read_bytes()
    except (OSError, ValueError):
        return None


def text_of(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
