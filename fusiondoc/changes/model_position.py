"""The position in a file at which its model is complete: the offset after it, where
lines can be added; and, for a model that is already TorchScript, the expression
that makes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import lines_at
from fusiondoc.changes.source_file import (
    FUNCTIONS,
    Function,
    ParsedFile,
    bound_by_import,
    is_compound,
    names_in,
    walk,
)
from fusiondoc.model import dataclass

_SCRIPTING = ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze")


@dataclass(frozen=True)
class ModelPosition:
    """The position after the construction of the model, before it becomes
    TorchScript. ``lead`` begins each line; ``edits`` create such a position where
    there is none."""

    file: ParsedFile
    name: str
    position: int
    lead: str = ""
    edits: tuple[TextEdit, ...] = ()
    may_freeze: bool = True

    @property
    def where(self) -> str:
        line = self.file.source.text.count("\n", 0, self.position) + 1
        return f"{self.file.source.path}:{line}"

    def insert(self, lines: Sequence[str], rank: int = 0) -> TextEdit:
        """Insert lines, indented with four spaces a level, at this position in the
        style of the file."""
        return lines_at(self.file, self.position, lines, self.lead, rank)


def position_of_model(
    file: ParsedFile, name: str, is_called: bool
) -> ModelPosition | None:
    """Return the position at which a file makes its model; None if no line shows
    it. Args: name: the model's name. is_called: the name is a function that
    returns the model, or its class.
    """
    if "." in name:
        return None
    if is_called:
        return _in_definition(file, name)
    return _at_top(file, name)


def _at_top(file: ParsedFile, name: str) -> ModelPosition | None:
    """After the last simple statement at the top level of the file that mentions
    the name."""
    simple = []
    for statement in file.tree.body:
        if not is_compound(statement):
            simple.append(statement)
    binding = [statement for statement in simple if _binds(statement, name)]
    if not binding:
        return None
    value = _value_of(binding[-1])
    if (
        isinstance(value, ast.Call)
        and file.meaning(value.func) in _SCRIPTING
        and value.args
    ):
        return _before_scripting(file, binding[-1], value)
    last = [statement for statement in simple if _mentions(statement, name)][-1]
    return ModelPosition(file, name, file.after(last))


def _before_scripting(
    file: ParsedFile, statement: ast.stmt, value: ast.Call
) -> ModelPosition | None:
    inner = value.args[0]
    start = file.start_of_line(statement)
    if isinstance(inner, ast.Name):
        return ModelPosition(file, inner.id, start, may_freeze=False)
    if isinstance(inner, ast.Call) and file.meaning(inner.func) in _SCRIPTING:
        return None
    made = file.free_name("net", "unscripted")
    text = f"{made} = {file.text(inner)}{file.newline}"
    edits = (file.inserted(start, text, rank=-3), file.replaced(inner, made))
    return ModelPosition(file, made, start, edits=edits, may_freeze=False)


def _value_of(statement: ast.stmt) -> ast.expr | None:
    """The value of an assignment."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return statement.value
    return None


def _binds(statement: ast.stmt, name: str) -> bool:
    """True if a statement assigns the name, or imports it from a module."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    elif isinstance(statement, ast.ImportFrom):
        return name in bound_by_import(statement)
    return any(
        isinstance(target, ast.Name) and target.id == name for target in targets
    )


def _mentions(statement: ast.stmt, name: str) -> bool:
    """True if the name occurs in a statement, or is the name of the definition."""
    named = (
        name in bound_by_import(statement)
        or getattr(statement, "name", None) == name
    )
    return named or any(names_in(statement, name))


def _in_definition(file: ParsedFile, name: str) -> ModelPosition | None:
    """In the function that returns the model, or at the end of the ``__init__`` of
    its class."""
    for definition in file.tree.body:
        if isinstance(definition, FUNCTIONS) and definition.name == name:
            return _before_return(file, definition)
        if isinstance(definition, ast.ClassDef) and definition.name == name:
            return _end_of_init(file, definition)
    return None


def _end_of_init(file: ParsedFile, owner: ast.ClassDef) -> ModelPosition | None:
    for method in owner.body:
        if isinstance(method, FUNCTIONS) and method.name == "__init__":
            last = method.body[-1]
            in_lines = file.line(last) > file.line(method)
            if in_lines:
                return ModelPosition(
                    file,
                    "self",
                    file.after(last),
                    file.lead(last),
                    may_freeze=False,
                )
            return None
    return None


def _before_return(file: ParsedFile, function: Function) -> ModelPosition | None:
    returns = list(_returns(file, function))
    if len(returns) != 1 or not file.has_own_lines(returns[0]):
        return None
    value, start = returns[0].value, file.start_of_line(returns[0])
    assert value is not None
    lead = file.lead(returns[0])
    if isinstance(value, ast.Name):
        return ModelPosition(file, value.id, start, lead)
    if isinstance(value, ast.Call) and file.meaning(value.func) in _SCRIPTING:
        return None
    made = file.free_name("model", "made")
    text = f"{lead}{made} = {file.text(value)}{file.newline}"
    edits = (file.inserted(start, text, rank=-3), file.replaced(value, made))
    return ModelPosition(file, made, start, lead, edits)


def value_of_model(file: ParsedFile, name: str, is_called: bool) -> ast.expr | None:
    """Return the expression that makes a model as TorchScript:
    ``torch.jit.script(net)`` from ``model = torch.jit.script(net)`` or ``return
    torch.jit.script(net)``. None where the model is changed after that line, or no
    such line is found.

    Args:
        name: of the model.
        is_called: it is a function that returns the model.
    """
    if "." in name:
        return None
    value = _returned(file, name) if is_called else _last_bound(file, name)
    if isinstance(value, (ast.Call, ast.Name)):
        return value
    return None


def _returned(file: ParsedFile, name: str) -> ast.expr | None:
    """The value returned by the function of that name, if it has exactly one
    ``return``."""
    for definition in file.tree.body:
        if isinstance(definition, FUNCTIONS) and definition.name == name:
            returns = list(_returns(file, definition))
            if len(returns) == 1:
                return returns[0].value
            return None
    return None


def _last_bound(file: ParsedFile, name: str) -> ast.expr | None:
    """The value of the last statement at the top level of the file that mentions
    the name, if that statement binds it."""
    mentioning = []
    for statement in file.tree.body:
        if _mentions(statement, name):
            mentioning.append(statement)
    last = mentioning[-1] if mentioning else None
    if last is None or not _binds(last, name) or not file.has_own_lines(last):
        return None
    return _value_of(last)


def _returns(file: ParsedFile, function: Function) -> Iterator[ast.Return]:
    """The ``return`` statements of the function itself that return a value."""
    for node in walk(function):
        if (
            isinstance(node, ast.Return)
            and node.value is not None
            and file.function_of(node) is function
        ):
            yield node
