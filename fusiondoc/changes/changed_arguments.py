"""Lines that change in place a tensor that the caller of their function has too: an argument, an element or a
view of one, an attribute of the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.source_file import Function, ParsedFile, arguments_of, names_in
from fusiondoc.operators import HANDS_ON, VIEWS, is_in_place

_SHARE = frozenset(op.rpartition("::")[2] for op in VIEWS | HANDS_ON) | {
    "float",
    "double",
    "half",
    "bfloat16",
}
"""Methods and functions whose result may have the memory of their input."""
_OF_ELEMENTS = frozenset(("zip", "enumerate", "list", "tuple", "reversed", "sorted"))
_MOST_STEPS = 50
"""Names that are followed to what is assigned to them."""


def changes_argument(file: ParsedFile, line: int) -> bool:
    """Whether a line changes in place what the caller of its function has too."""
    for node in file.on_line(line):
        tensor = _changed(file, node)
        function = file.function_of(node)
        if tensor is not None and function is not None and _is_callers(file, function, tensor):
            return True
    return False


def _changed(file: ParsedFile, node: ast.AST) -> ast.expr | None:
    """The tensor that a statement or call changes in place; of ``x[0] = y`` it is ``x[0]``."""
    if isinstance(node, ast.AugAssign):
        return node.target
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return node.targets[0]
    return _changed_by_call(file, node) if isinstance(node, ast.Call) else None


def _changed_by_call(file: ParsedFile, call: ast.Call) -> ast.expr | None:
    if not isinstance(call.func, ast.Attribute) or not is_in_place(call.func.attr):
        return None
    if file.meaning(call.func) is None:
        return call.func.value
    return call.args[0] if call.args else None


def _is_callers(file: ParsedFile, function: Function, tensor: ast.expr) -> bool:
    """Whether the tensor may be one that the function was called with, or part of one."""
    given = {argument.arg for argument in arguments_of(function)}
    todo: list[ast.expr] = [tensor]
    for one in todo:  # which grows
        whole = _whole(file, one)
        if not isinstance(whole, ast.Name) or len(todo) > _MOST_STEPS:
            continue
        values, is_first = _values(file, function, whole)
        if not is_first and whole.id in given:
            return True
        todo += values
    return False


def _whole(file: ParsedFile, node: ast.expr) -> ast.expr:
    """What an expression is an element, an attribute or a view of, or what it changes in place."""
    while True:
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SHARE and not is_in_place(node.func.attr):
                return node
            if file.meaning(node.func) is None:
                node = node.func.value
            elif node.args:
                node = node.args[0]
            else:
                return node
        else:
            return node


def _values(file: ParsedFile, function: Function, name: ast.Name) -> tuple[list[ast.expr], bool]:
    """What a name may stand for where it is read, by the assignments above it; and whether one of these is
    made on every way there, so that it is no argument any more."""
    found: list[ast.expr] = []
    around = {name, *file.parents(name)}
    above = [one for one in _bound(file, function, name.id) if one.lineno < name.lineno]
    for one in sorted(above, key=lambda one: one.lineno, reverse=True):
        found += _value_of(file, one)
        statement = next(up for up in file.parents(one) if isinstance(up, ast.stmt))
        if not around.isdisjoint(file.block_of(statement)) or statement in around:
            return found, True
    return found, False


def _bound(file: ParsedFile, function: Function, name: str) -> Iterator[ast.Name]:
    """Where a name is assigned; ``x += y`` assigns no other tensor."""
    for one in names_in(function, name):
        if isinstance(one.ctx, ast.Store) and not isinstance(file.parent(one), ast.AugAssign):
            yield one


def _value_of(file: ParsedFile, target: ast.Name) -> Iterator[ast.expr]:
    """What is assigned to a name: of ``a, b = x`` and of ``for a in x`` it is ``x``, as an element of it."""
    above = file.parent(target)
    if isinstance(above, (ast.Tuple, ast.List)):
        place, statement = above.elts.index(target), file.parent(above)
    else:
        place, statement = None, above
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) else None
    if isinstance(statement, (ast.For, ast.comprehension)):
        value = statement.iter
    if value is None:
        return
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _OF_ELEMENTS:
        yield from value.args
    elif place is not None and isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) > place:
        yield value.elts[place]
    else:
        yield value
