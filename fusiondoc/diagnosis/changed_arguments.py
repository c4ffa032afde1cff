"""Lines that change in place what their function was called with."""

from __future__ import annotations

import ast

from fusiondoc.diagnosis.changed_lines import changed_tensor, functions_of, last_line, parsed_file
from fusiondoc.model.operators import is_in_place


def changes_argument(text: str, line: int) -> bool:
    """Whether a line changes in place what a function was called with: its caller has that tensor too."""
    parsed = parsed_file(text)
    if parsed is None:
        return False
    nodes = parsed.nodes.get(line, ())
    changed: list[ast.expr | None] = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    for call in parsed.calls(line):
        if isinstance(call.func, ast.Attribute) and is_in_place(call.func.attr):
            changed.append(changed_tensor(call))
    names = {one.id for one in changed if isinstance(one, ast.Name)}
    for function in functions_of(parsed) if names else ():
        if function.lineno <= line <= last_line(function):
            given = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
            if names & given - _bound_before(function, line):
                return True
    return False


def _bound_before(function: ast.FunctionDef, line: int) -> set[str]:
    """Names that a function binds before a line."""
    nodes = list(ast.walk(function))
    augmented = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
    names = [one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    return {one.id for one in names if one.lineno < line and one not in augmented}
