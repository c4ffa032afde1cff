"""Where operators come from: line, function and class of the user's program."""

from __future__ import annotations

import ast
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fusiondoc.expectations.expectation import Source
from fusiondoc.model.report import OpNode, Unfused


class Line(NamedTuple):
    """A line of a file, as the log or the probe named it."""

    file: str
    number: int

    def __str__(self) -> str:
        here = str(Path.cwd()) + os.sep
        shown = self.file[len(here) :] if self.file.startswith(here) else self.file
        return f"{shown}:{self.number}"


def line_of(node: OpNode | Unfused) -> Line | None:
    """The user's line of an operator; None where the log cannot tell it."""
    file, _, number = (node.user_source or "").rpartition(":")
    return Line(file, int(number)) if file and number.isdigit() else None


def shown(node: OpNode | Unfused) -> str:
    """The user's line, or what the log names instead; empty without either."""
    line = line_of(node)
    return str(line) if line else node.source or ""


def is_in(line: Line | None, source: Source) -> bool:
    """Whether the line is in the range. The file may be named by the end of its path."""
    if line is None or not ends_with(line.file, source.file):
        return False
    return source.first is None or source.first <= line.number <= (source.last or source.first)


def ends_with(path: str, end: str) -> bool:
    """Whether the last parts of the path are those of ``end``."""
    parts, last = _parts(path), _parts(end)
    return bool(last) and parts[-len(last) :] == last


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]


def names_at(line: Line) -> tuple[str, str] | None:
    """Qualified name of the innermost function around a line and of the innermost class ("" for none).

    None where the file is not at hand, or is no Python that this interpreter reads.
    """
    spans = _definitions(line.file)
    if spans is None:
        return None
    function = owner = ""
    for first, last, name, is_class in spans:
        if first <= line.number <= last:
            function, owner = (function, name) if is_class else (name, owner)
    return function, owner


def named(qualified: str, name: str) -> bool:
    """Whether ``name`` is the end of a qualified name: forward, Block.forward."""
    return bool(qualified) and (qualified == name or qualified.endswith("." + name))


@lru_cache(maxsize=64)
def _definitions(file: str) -> tuple[tuple[int, int, str, bool], ...] | None:
    """(first line, last line, qualified name, whether it is a class), outer ones first."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found: list[tuple[int, int, str, bool]] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        parent, prefix = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            inner = prefix
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{prefix}.{node.name}".lstrip(".")
                found.append(
                    (node.lineno, node.end_lineno or node.lineno, inner, isinstance(node, ast.ClassDef))
                )
            waiting.append((node, inner))
    return tuple(sorted(found, key=lambda one: (one[0], -one[1])))
