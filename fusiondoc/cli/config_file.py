"""Finding the configuration. It is imported by every command, so it does next to nothing."""

from __future__ import annotations

import os
from typing import Optional, Tuple

OWN = "fusiondoc.yaml"
SHARED = "pyproject.toml"


def find(folder: str = ".") -> Optional[Tuple[str, str]]:  # noqa: UP006, UP045
    """Path and kind ("yaml" or "toml") of the nearest configuration, from the folder upward.

    ``fusiondoc.yaml`` comes before a ``pyproject.toml`` in the same folder, which counts only with a table
    ``[tool.fusiondoc]``. The search ends at the folder that holds ``.git``.
    """
    try:
        here = os.path.abspath(folder)  # noqa: PTH100
    except OSError:  # the current folder is gone
        return None
    while True:
        own, shared = os.path.join(here, OWN), os.path.join(here, SHARED)  # noqa: PTH118
        if os.path.isfile(own):  # noqa: PTH113
            return own, "yaml"
        if os.path.isfile(shared) and _mentions(shared):  # noqa: PTH113
            return shared, "toml"
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here or os.path.exists(os.path.join(here, ".git")):  # noqa: PTH110, PTH118
            return None
        here = above


def _mentions(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return False
    return b"fusiondoc" in text and b"tool" in text
