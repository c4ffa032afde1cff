"""Lines of the user's program that a report names, and the function and class
around them."""

from __future__ import annotations

import ast
import os
import warnings
from functools import lru_cache
from pathlib import Path

from fusiondoc.expectations import SourceRange
from fusiondoc.model.report import OpNode, Unfused
from fusiondoc.model.source import Source, from_package, path_ends_with
from fusiondoc.whole_files import read_within


def line_of(node: OpNode | Unfused) -> Source | None:
    """The user's line of an operator; None if the log does not have it."""
    return Source.parse(node.user_source)


def near(line: Source) -> str:
    """``file:line``, relative to the current folder."""
    here = str(Path.cwd()) + os.sep
    if line.file.startswith(here):
        return line.at_line[len(here) :]
    return line.at_line


def shown(node: OpNode | Unfused) -> str:
    """The user's line, or the line that the log names instead; empty if there is
    neither."""
    line = line_of(node)
    if line:
        return near(line)
    return from_package(node.source or "")


def is_in(line: Source | None, wanted: SourceRange) -> bool:
    """True if the line is in the range. The file may be given by the end of its
    path."""
    if line is None or not path_ends_with(line.file, wanted.file):
        return False
    return wanted.first is None or wanted.first <= line.line <= (
        wanted.last or wanted.first
    )


def names_at(line: Source) -> tuple[str, str] | None:
    """Qualified name of the innermost function around a line and of the innermost
    class ("" for none).

    None if the file is not available, or is no Python that this interpreter can
    parse.
    """
    try:
        known = Path(line.file).stat()
    except (OSError, ValueError):
        return None
    spans = _definitions(line.file, known.st_mtime_ns, known.st_size)
    if spans is None:
        return None
    function = owner = ""
    for first, last, name, is_class in spans:
        if first <= line.line <= last:
            function, owner = (function, name) if is_class else (name, owner)
    return function, owner


def named(qualified: str, name: str) -> bool:
    """True if ``name`` is the end of a qualified name: forward, Block.forward."""
    return bool(qualified) and (qualified == name or qualified.endswith("." + name))


_MOST_SOURCE = 1 << 20
"""Most bytes of a source file, as a log may name any file."""


@lru_cache(maxsize=64)
def _definitions(
    file: str, _changed: int, _size: int
) -> tuple[tuple[int, int, str, bool], ...] | None:
    """(first line, last line, qualified name, whether it is a class), outer ones
    first. Read again if the file has changed."""
    try:
        with (
            warnings.catch_warnings()
        ):  # of the compiler, on literals such as "\\d"
            warnings.simplefilter("ignore")
            tree = None
            if file.endswith(".py"):
                tree = ast.parse(read_within(Path(file), _MOST_SOURCE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if tree is None:
        return None
    found: list[tuple[int, int, str, bool]] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        parent, prefix = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            inner = prefix
            if isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                inner = f"{prefix}.{node.name}".lstrip(".")
                found.append(
                    (
                        node.lineno,
                        node.end_lineno or node.lineno,
                        inner,
                        isinstance(node, ast.ClassDef),
                    )
                )
            waiting.append((node, inner))
    return tuple(sorted(found, key=lambda span: (span[0], -span[1])))
