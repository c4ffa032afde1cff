"""Finding the configuration. Every command imports it, so it imports next to nothing."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.whole_files import read_within

OWN = "fusiondoc.yaml"
SHARED = "pyproject.toml"


def find() -> tuple[str, str] | None:
    """Path and kind ("yaml" or "toml") of the nearest configuration, from the current folder upward.

    ``fusiondoc.yaml`` comes before a ``pyproject.toml`` in the same folder, which counts only if it holds
    ``[tool.fusiondoc]``. The search ends at the folder that holds ``.git``.
    """
    try:
        here = Path.cwd()
    except OSError:  # the current folder is gone
        return None
    for folder in (here, *here.parents):
        own, shared = folder / OWN, folder / SHARED
        if own.is_file():
            return str(own), "yaml"
        if shared.is_file() and _mentions(shared):
            return str(shared), "toml"
        if (folder / ".git").exists():
            return None
    return None


def _mentions(path: Path) -> bool:
    """Whether a parser of TOML may find our table; most files have none, and the parser takes time."""
    try:
        text = read_within(path)
    except OSError:
        return False
    return b"tool" in text and b"fusiondoc" in text
