"""The text of a program as nodes of its syntax, and the names in it."""

from __future__ import annotations

import ast


def nodes_in(text: str | bytes) -> list[ast.AST] | None:
    """All nodes of a Python file; None if it cannot be parsed."""
    try:
        return list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def name_of(node: ast.AST | None) -> str | None:
    """``b`` of ``a.b``, and ``b`` of ``b``; None of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return None
