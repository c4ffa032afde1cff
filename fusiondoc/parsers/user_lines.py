"""Which sources that a log names are lines of the user's own program, and the user's line of the others."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Mapping

from fusiondoc.model.source import PACKAGES, Source

_LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3(?:\.\d+)?|torch[/\\](?:nn|_jit_internal|functional"
    rf"|jit|autograd|distributed)|site[/\\]{PACKAGES})[/\\.]|^<"
)

SourceMap = Mapping[str, str]
"""``op|source`` -> ``file:line`` of the user's call, as the probe found it in the un-inlined graph."""


@lru_cache(maxsize=4096)
def user_line(source: str) -> str | None:
    """``file:line`` if the range is in the user's own files; None for torch's own and for autodiff
    formulas."""
    if _LIBRARY.search(source):
        return None
    found = Source.parse(source)
    return found.at_line if found is not None and found.column is not None else None


def user_source(op: str, source: str | None, known: SourceMap) -> str | None:
    """The line of the user's program an operator comes from, where that can be told."""
    if source is None:
        return None
    return user_line(source) or known.get(f"{op}|{source}") or known.get(f"|{source}")
