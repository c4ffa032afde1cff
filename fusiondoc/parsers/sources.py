"""Source ranges as TorchScript prints them, and which of them are lines of the user's own program."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Mapping

_LIBRARY = re.compile(
    r"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3(?:\.\d+)?|torch[/\\](?:nn|_jit_internal|functional"
    r"|jit|autograd|distributed))[/\\.]|^<"
)

SourceMap = Mapping[str, str]
"""``op|source`` -> ``file:line`` of the user's call, as the probe found it in the un-inlined graph."""


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= 9


@lru_cache(maxsize=4096)
def user_line(source: str) -> str | None:
    """``file:line`` if the range is in the user's own files; None for torch's own and for autodiff
    formulas."""
    if _LIBRARY.search(source):
        return None
    file, _, rest = source.rpartition(":")
    path, _, line = file.rpartition(":")
    if not path or not _is_number(line) or not _is_number(rest):
        return None
    return f"{path}:{line}"


def user_source(op: str, source: str | None, known: SourceMap) -> str | None:
    """The line of the user's program an operator comes from, where that can be told."""
    if source is None:
        return None
    return user_line(source) or known.get(f"{op}|{source}") or known.get(f"|{source}")
