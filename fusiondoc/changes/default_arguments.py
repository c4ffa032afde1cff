"""Replace an argument that calls leave at its default, ``dim: int = -1``, by the
default: then a fuser knows the value when it compiles. The argument is removed, so
that a call that passes it fails rather than having its value ignored."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from fusiondoc.changes.declared_constants import decides, fits
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten
from fusiondoc.changes.source_file import (
    FUNCTIONS,
    Function,
    ParsedFile,
    default_of,
    names_in,
    walk,
)
from fusiondoc.model.change_plan import ChangeKind


def write(line: Line) -> Iterator[Rewritten]:
    """Yield a rewrite for each argument that the line reads."""
    for node in line.file.on_line(line.number):
        if isinstance(node, ast.Name) and decides(line.file, node):
            made = _with_default(line.file, node)
            if made is not None:
                yield made


def _with_default(file: ParsedFile, node: ast.Name) -> Rewritten | None:
    """Replace a name by its default, wherever the function reads it."""
    name, function = node.id, file.function_of(node)
    if (
        function is None
        or _is_set(function, name)
        or _is_named(file, function, name)
    ):
        return None
    found = _default_and_before(file, function, name)
    if found is None:
        return None
    value, last = found
    text = file.text(value)
    edits = [file.removed(file.span(last)[1], file.span(value)[1])]
    for use in (
        use for statement in function.body for use in names_in(statement, name)
    ):
        if not isinstance(file.parent(use), ast.Attribute):
            edits.append(file.replaced(use, _as_operand(file, use, text)))
    title = f"{text} instead of the argument {name} of {function.name}"
    return Rewritten(title, tuple(edits), note=f"calls that give {name} fail then")


def _default_and_before(
    file: ParsedFile, function: Function, name: str
) -> tuple[ast.expr, ast.AST] | None:
    """Return the default of an argument, and the node before the argument: the
    argument before it, or that one's default."""
    given = [*function.args.posonlyargs, *function.args.args]
    for before, argument in itertools.pairwise(given):
        value = default_of(function, argument)
        if (
            argument.arg != name
            or value is None
            or not _is_number_or_flag(file, value)
        ):
            continue
        last = default_of(function, before) or before
        parenthesised = isinstance(last, ast.expr) and file.is_parenthesised(last)
        if parenthesised:
            return None
        return value, last
    return None


def _as_operand(file: ParsedFile, use: ast.Name, text: str) -> str:
    """Return the default as an operand, in parentheses if its sign needs them."""
    alone = isinstance(file.parent(use), (ast.If, ast.List, ast.Tuple, ast.Set))
    if alone or file.call_of_argument(use) or not text.startswith("-"):
        return text
    return f"({text})"


def _is_number_or_flag(file: ParsedFile, value: ast.expr) -> bool:
    """True for a whole number, an operator on one (``-1``), or a flag."""
    plain = isinstance(value, ast.UnaryOp) or (
        isinstance(value, ast.Constant) and isinstance(value.value, int)
    )
    return plain and not file.is_parenthesised(value)


def _is_set(function: Function, name: str) -> bool:
    """True if a function assigns a name, or contains another function that may."""
    for statement in function.body:
        for node in walk(statement):
            if isinstance(node, (*FUNCTIONS, ast.Lambda)):
                return True
            if (
                isinstance(node, ast.Name)
                and node.id == name
                and not isinstance(node.ctx, ast.Load)
            ):
                return True
    return False


def _is_named(file: ParsedFile, function: Function, name: str) -> bool:
    """True if a call in the file passes the argument by its name."""
    for call in file.nodes:
        if isinstance(call, ast.Call) and any(
            given.arg == name for given in call.keywords
        ):
            called = (
                call.func.attr
                if isinstance(call.func, ast.Attribute)
                else getattr(call.func, "id", None)
            )
            if called in (function.name, "self"):
                return True
    return False


def _example(arguments: str, body: str, after: str | None = None) -> Example:
    before = f"def f({arguments}):\n    {body}\n"
    return Example(before, after, line=before.count("\n"), whole=True)


REWRITE = Rewrite(
    ChangeKind.CONSTANT,
    write,
    fits=fits,
    examples=(
        _example(
            "x, dim=-1",
            "return g(x, dim) ** dim",
            "def f(x):\n    return g(x, -1) ** (-1)\n",
        ),
        _example("x, dim", "return g(x, dim)"),
        _example("dim=-1", "return g(x, dim)"),  # nothing is before it
        _example("x, dim=-1", "dim = 1\n    return g(x, dim)"),
        _example("x, dim=-1", "f(x, dim=1)\n    return g(x, dim)"),
    ),
)
