"""Code with syntax colours: lines of spans with a few classes, for Python, CUDA and TorchScript IR."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fusiondoc.reports.page_templates import escaped
from fusiondoc.reports.printable import visible

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MOST_COLOURED = 200_000
"""Characters of one page that get colours; spans take several times the room of the code."""

_CLASSES = {
    "Keyword": "k",
    "Literal.String": "s",
    "Literal.Number": "m",
    "Comment": "c",
    "Name.Function": "f",
}
_CLASSES.update({"Name.Class": "f", "Name.Decorator": "f", "Keyword.Type": "t", "Name.Builtin": "t"})

_IR = re.compile(
    r"(?P<c> # .*$)|(?P<f>\b(?:aten|prim|cuda|profiler|fb)::\w+)|(?P<v>%[\w.]+)|(?P<s>\"[^\"]*\")"
)


class Highlighter:
    """Of one page: it stops colouring when the page has enough."""

    def __init__(self) -> None:
        self._left = MOST_COLOURED

    def python(self, text: str) -> list[Markup]:
        """The lines of a Python source."""
        from pygments.lexers.python import PythonLexer

        return self._lines(text, PythonLexer)

    def cuda(self, text: str) -> list[Markup]:
        """The lines of a generated kernel."""
        from pygments.lexers.c_like import CudaLexer

        return self._lines(text, CudaLexer)

    def _lines(self, text: str, lexer: type[Lexer]) -> list[Markup]:
        if len(text) > self._left:
            return plain(text)
        self._left -= len(text)
        lines = [Markup()]
        for token, value in lexer(stripnl=False, ensurenl=False).get_tokens(text):
            css = _css(token)
            for nth, part in enumerate(value.split("\n")):
                if nth:
                    lines.append(Markup())
                if part:
                    lines[-1] += _span(css, part)
        return lines


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


@lru_cache(maxsize=None)
def _css(token: Any) -> str:
    name = str(token)[len("Token.") :]
    while name:
        if name in _CLASSES:
            return _CLASSES[name]
        name = name.rpartition(".")[0]
    return ""
