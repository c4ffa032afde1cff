"""Local names of a function: the values assigned to them, and whether another name
may refer to the same tensor."""

from __future__ import annotations

import ast

from fusiondoc.changes.source_file import (
    ParsedFile,
    arguments_of,
    dotted,
    names_in,
    walk,
)


def assigned_once(file: ParsedFile, name: ast.Name) -> ast.expr | None:
    """The value of a local name that its function assigns once, before it is read.

    None for an argument, for a name that is assigned again (``x += y``), and for
    one of the module or of a function around. Elements of the name may be assigned
    (``x[0] = y``): dtype, device and sizes stay.
    """
    function = file.function_of(name)
    if function is None or name.id in {
        argument.arg for argument in arguments_of(function)
    }:
        return None
    stores = []
    for one in names_in(function, name.id):
        if isinstance(one.ctx, ast.Store):
            stores.append(one)
    if len(stores) != 1:
        return None
    statement = file.parent(stores[0])
    is_plain = isinstance(statement, ast.Assign) and statement.targets == stores
    before = stores[0].lineno < name.lineno
    if isinstance(statement, ast.Assign) and is_plain and before:
        return statement.value
    return None


def assigned_to(file: ParsedFile, attribute: str) -> list[ast.expr]:
    """All values that lines of the file assign to an attribute: ``self.act``."""
    assignments = [node for node in file.nodes if isinstance(node, ast.Assign)]
    values = []
    for one in assignments:
        if any(dotted(target) == attribute for target in one.targets):
            values.append(one.value)
    return values


def assigned_last(file: ParsedFile, name: ast.Name) -> ast.expr | None:
    """Return the value of the last assignment to a name above its line, anywhere in
    its function; for ``x += y`` it is ``x``. None if there is none, or if several
    names are assigned together."""
    function = file.function_of(name)
    if function is None:
        return None
    above = []
    for one in names_in(function, name.id):
        if isinstance(one.ctx, ast.Store) and one.lineno < name.lineno:
            above.append(one)
    statement = None
    if above:
        statement = file.parent(max(above, key=lambda one: one.lineno))
    if isinstance(statement, ast.AugAssign):
        return statement.target
    is_plain = isinstance(statement, ast.Assign) and isinstance(
        statement.targets[0], ast.Name
    )
    if isinstance(statement, ast.Assign) and is_plain:
        return statement.value
    return None


def is_argument(file: ParsedFile, name: ast.Name) -> bool:
    """True if the name is an argument of its function that is never assigned
    again."""
    function = file.function_of(name)
    if function is None or name.id not in {
        argument.arg for argument in arguments_of(function)
    }:
        return False
    return not any(
        isinstance(one.ctx, ast.Store) for one in names_in(function, name.id)
    )


def outlives_call(file: ParsedFile, node: ast.AST, name: str) -> bool:
    """True if the name belongs to the module or to an enclosing function: others
    may hold the same tensor."""
    function = file.function_of(node)
    if function is None:
        return True
    return any(
        isinstance(one, (ast.Global, ast.Nonlocal)) and name in one.names
        for one in walk(function)
    )
