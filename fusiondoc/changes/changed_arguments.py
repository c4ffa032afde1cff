"""Lines that change in place a tensor that their function was called with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.source_file import Function, ParsedFile, arguments_of, walk
from fusiondoc.operators import is_in_place


def changes_argument(file: ParsedFile, line: int) -> bool:
    """Whether a line changes in place an argument of its function: the caller has that tensor too."""
    for node in file.on_line(line):
        tensor = _changed(file, node)
        function = file.function_of(node)
        if isinstance(tensor, ast.Name) and function is not None:
            given = {argument.arg for argument in arguments_of(function)}
            if tensor.id in given and tensor.id not in _bound_before(function, line):
                return True
    return False


def _changed(file: ParsedFile, node: ast.AST) -> ast.expr | None:
    """The tensor that a statement or call changes in place; of ``x[0] = y`` it is ``x``."""
    if isinstance(node, ast.AugAssign):
        return _whole(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return _whole(node.targets[0])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if not is_in_place(node.func.attr):
        return None
    if file.meaning(node.func) is None:
        return node.func.value
    return node.args[0] if node.args else None


def _whole(node: ast.expr) -> ast.expr:
    """The tensor of an element."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _bound_before(function: Function, line: int) -> Iterator[str]:
    """Names that a function assigns before a line; ``x += y`` assigns no other tensor."""
    nodes = list(walk(function))
    augmented = {node.target for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        is_bound = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if isinstance(node, ast.Name) and is_bound and node not in augmented and node.lineno < line:
            yield node.id
