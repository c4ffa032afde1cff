"""Names by which servers follow a finding from build to build: JUnit's cases, the
alerts of SARIF and GitLab.

The text of a name has no figures that change where code moves, and equal names are
numbered in order.
"""

from __future__ import annotations

import re
from collections import Counter

_LINE_OF_A_FILE = re.compile(r"(?<=\.py):\d+(?::\d+)?\b")
_FIGURE = re.compile(r"\d+")


def without_lines(text: str) -> str:
    """The text without the lines of Python files that it names."""
    return _LINE_OF_A_FILE.sub("", text)


def without_figures(text: str) -> str:
    """The text with 0 for each figure."""
    return _FIGURE.sub("0", text)


class Repeats:
    """Counts how often a name was given, in the order of the report."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, ...]] = Counter()

    def number(self, *name: str) -> int:
        """From 1: which of the equal names this is."""
        self._seen[name] += 1
        return self._seen[name]
