"""A position in a source file as logs and reports write it: ``file:line`` or ``file:line:column``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_WRITTEN = re.compile(r"(.+?):([0-9]{1,9})(?::([0-9]{1,9}))?\Z", re.DOTALL)


PACKAGES = (
    r"(?:torch(?:vision|audio|text)?|transformers|timm|diffusers|accelerate|lightning(?:_fabric)?"
    r"|pytorch_lightning|deepspeed|apex|xformers|fairseq2?|monai|kornia|torch_geometric|einops)"
)
"""Packages whose files are told wherever they are installed (``pip install --target``), as a pattern."""


@dataclass(frozen=True)
class Source:
    """Where something stands in a source file. Reports hold it as text; ``parse`` reads that text."""

    file: str
    """As printed. TorchScript has ``<string>`` for the formulas of its autodiff
    (torch/csrc/jit/frontend/source_range.cpp prints the name of the source)."""
    line: int
    """From 1."""
    column: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Source | None:
        """The position that a text names; None if it names none.

        A drive letter and other colons in the file's name are no line: ``C:\\m.py:3:4`` is line 3 of
        ``C:\\m.py``.
        """
        return _parsed(text) if text else None

    def __str__(self) -> str:
        return self.at_line if self.column is None else f"{self.at_line}:{self.column}"

    @property
    def at_line(self) -> str:
        """``file:line``, without the column."""
        return f"{self.file}:{self.line}"

    @property
    def has_file(self) -> bool:
        """False for ``<string>`` and its like, which are no files."""
        return not self.file.startswith("<")


@lru_cache(maxsize=8192)
def _parsed(text: str) -> Source | None:
    found = _WRITTEN.match(text)
    if found is None:
        return None
    file, line, column = found.groups()
    return Source(file, int(line), None if column is None else int(column))


_INSTALLED = re.compile(r".*(?:^|[/\\])(?:site|dist)-packages[/\\](?=.)", re.DOTALL)


def without_packages(source: str) -> str:
    """A file of an installed package from the package's name on: ``torch/nn/functional.py:1``."""
    found = _INSTALLED.match(source)  # not sub, which looks from every place on
    return source[found.end() :] if found else source


def path_ends_with(path: str, end: str) -> bool:
    """Whether the last parts of a path are those of ``end``, whatever separates them."""
    parts, last = _parts(path), _parts(end)
    return bool(last) and parts[-len(last) :] == last


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
