"""Find expressions that have the same sizes, as far as the text shows it."""

from __future__ import annotations

import ast

from fusiondoc.changes.assigned_names import assigned_once, is_argument
from fusiondoc.changes.chosen_numbers import is_number
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.operators import ELEMENTWISE

_MADE_LIKE = (
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "clone",
    "detach",
    "contiguous",
    "float",
)
"""Functions, beside elementwise ones, whose result has the sizes of their
tensor."""


def sizes_of(file: ParsedFile, node: ast.expr) -> str | None:
    """Return the name of a tensor that has the sizes of an expression; None if
    several tensors determine them.

    Two expressions with one such name have the same sizes. A name may have other
    sizes after it is assigned again, but not within one statement.
    """
    if isinstance(node, ast.Name):
        return _sizes_of_name(file, node)
    if isinstance(node, ast.UnaryOp):
        return sizes_of(file, node.operand)
    if isinstance(node, ast.Compare):
        return _of_all(file, [node.left, *node.comparators])
    if isinstance(node, ast.BinOp):
        return _of_all(file, [node.left, node.right])
    if (
        isinstance(node, ast.Call)
        and not node.keywords
        and isinstance(node.func, ast.Attribute)
    ):
        name = node.func.attr
        if f"aten::{name}" in ELEMENTWISE or name in _MADE_LIKE:
            is_function = file.meaning(node.func) is not None
            return _of_all(
                file, node.args if is_function else [node.func.value, *node.args]
            )
    return None


def _sizes_of_name(file: ParsedFile, name: ast.Name) -> str:
    value = assigned_once(file, name)
    made_of = sizes_of(file, value) if value is not None else None
    if made_of is not None:
        return made_of
    if value is not None or is_argument(file, name):
        return name.id
    return f"{name.id} in line {file.line(name)}"


def _of_all(file: ParsedFile, parts: list[ast.expr]) -> str | None:
    """The same for parts that are broadcast together: numbers change nothing."""
    found = set()
    for part in parts:
        if not is_number(part):
            found.add(sizes_of(file, part))
    if len(found) == 1:
        return found.pop()
    return None
