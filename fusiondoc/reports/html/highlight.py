"""Code with syntax colours: lines of spans with a few classes, for Python, CUDA and TorchScript IR."""

from __future__ import annotations

import re
from typing import Callable, Iterator

from markupsafe import Markup

from fusiondoc.reports import code_colours
from fusiondoc.reports.page_templates import escaped
from fusiondoc.reports.printable import visible

MOST_COLOURED = 200_000
"""Characters of one page that get colours; spans take several times the room of the code."""
FEW_COLOURED = 60_000
"""The same of a page with very many rows: it is its number of elements that a browser takes long for."""

_IR = re.compile(
    r"(?P<c> # .*$)|(?P<f>\b(?:aten|prim|cuda|profiler|fb)::\w+)|(?P<v>%[\w.]+)|(?P<s>\"[^\"]*\")"
)


class Highlighter:
    """Of one page: it stops colouring when the page has enough."""

    def __init__(self, most: int = MOST_COLOURED) -> None:
        self._left = most

    def python(self, text: str) -> list[Markup]:
        """The lines of a Python source."""
        return self._lines(text, code_colours.python)

    def cuda(self, text: str) -> list[Markup]:
        """The lines of a generated kernel."""
        return self._lines(text, code_colours.cuda)

    def ir(self, text: str) -> Markup:
        """TorchScript IR."""
        if len(text) > self._left:
            return Markup("\n").join(plain(text))
        self._left -= len(text)
        return ir(text)

    def _lines(self, text: str, parts: Callable[[str], Iterator[tuple[str, str]]]) -> list[Markup]:
        if len(text) > self._left:
            return plain(text)
        self._left -= len(text)
        lines: list[list[Markup]] = [[]]
        for css, value in parts(text):
            for nth, part in enumerate(value.split("\n")):
                if nth:
                    lines.append([])
                if part:
                    lines[-1].append(_span(css, part))
        return [Markup().join(line) for line in lines]


def plain(text: str) -> list[Markup]:
    return [escaped(line) for line in text.split("\n")]


def ir(text: str) -> Markup:
    """TorchScript IR."""
    lines = []
    for line in text.split("\n"):
        done, parts = 0, []
        for found in _IR.finditer(line):
            parts.append(escaped(line[done : found.start()]))
            parts.append(_span(found.lastgroup or "", found.group()))
            done = found.end()
        lines.append(Markup().join([*parts, escaped(line[done:])]))
    return Markup("\n").join(lines)


def _span(css: str, text: str) -> Markup:
    if not css or text.isspace():
        return escaped(text)
    return Markup('<span class="{}">{}</span>').format(css, visible(text))
