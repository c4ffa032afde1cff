"""Names by which servers identify a finding from build to build: JUnit's cases, the
alerts of SARIF and GitLab.

The text of a name contains no figures that change when code moves, and equal names
are numbered in order.
"""

from __future__ import annotations

import re
from collections import Counter

_LINE_OF_A_FILE = re.compile(r"(?<=\.py):\d+(?::\d+)?\b")
_FIGURE = re.compile(r"\d+")


def without_lines(text: str) -> str:
    """Return the text without the line numbers of Python files in it."""
    return _LINE_OF_A_FILE.sub("", text)


def without_figures(text: str) -> str:
    """The text with 0 for each figure."""
    return _FIGURE.sub("0", text)


class NameCounts:
    """Counts how often each name occurred, in the order of the report."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, ...]] = Counter()

    def number(self, *name: str) -> int:
        """Return which of the equal names this is, from 1."""
        self._seen[name] += 1
        return self._seen[name]
