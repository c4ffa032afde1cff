"""Where the user's file makes the target's model: the place behind it, where lines can be added, and of a
model that is TorchScript already the expression that makes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from fusiondoc.fixes import Program
from fusiondoc.fixes.source_file import Edit, ParsedFile, dotted, walk
from fusiondoc.model import dataclass

with contextlib.suppress(ImportError):
    import libcst as cst

_SCRIPTING = ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze")


@dataclass(frozen=True)
class Place:
    """Where the model has been made, and is no TorchScript yet.

    ``lead`` begins each line; ``edits`` have to be made to have such a place.
    """

    file: ParsedFile
    name: str
    position: int
    lead: str = ""
    edits: tuple[Edit, ...] = ()
    may_freeze: bool = True

    @property
    def where(self) -> str:
        line = self.file.source.text.count("\n", 0, self.position) + 1
        return f"{self.file.source.path}:{line}"

    def insert(self, lines: Sequence[str], rank: int = 0) -> Edit:
        """Lines, indented with four spaces a level, put here in the style of the file."""
        return self.file.lines_at(self.position, lines, self.lead, rank)


def place_of_model(program: Program) -> Place | None:
    """Where the target's model is made; None where no line of the user's tells."""
    file = program.target_file
    if file is None:
        return None
    name = program.target.name or "model"
    if "." in name:
        return None
    if program.target.call is not None:
        return _in_definition(file, name)
    return _at_top(file, name)


def _at_top(file: ParsedFile, name: str) -> Place | None:
    lines = [one for one in file.module.body if isinstance(one, cst.SimpleStatementLine)]
    binding = [one for one in lines if _binds(file, one, name)]
    if not binding:
        return None
    statement = binding[-1]
    value = statement.body[0].value if isinstance(statement.body[0], (cst.Assign, cst.AnnAssign)) else None
    if isinstance(value, cst.Call) and file.meaning(value.func) in _SCRIPTING and value.args:
        return _before_scripting(file, name, statement, value)
    last = [one for one in lines if _mentions(one, name)][-1]
    return Place(file, name, file.after(last))


def _before_scripting(
    file: ParsedFile, name: str, statement: cst.SimpleStatementLine, value: cst.Call
) -> Place | None:
    inner = value.args[0].value
    start = file.start_of_line(statement)
    if isinstance(inner, cst.Name):
        return Place(file, inner.value, start, may_freeze=False)
    if isinstance(inner, cst.Call) and file.meaning(inner.func) in _SCRIPTING:
        return None
    made = file.free_name("net", "unscripted")
    text = f"{made} = {file.text(inner)}{file.newline}"
    edits = (file.inserted(start, text, rank=-3), file.replaced(inner, made))
    return Place(file, made, start, edits=edits, may_freeze=False)


def _binds(file: ParsedFile, line: cst.SimpleStatementLine, name: str) -> bool:
    for one in line.body:
        if isinstance(one, cst.Assign):
            if any(isinstance(item.target, cst.Name) and item.target.value == name for item in one.targets):
                return True
        elif isinstance(one, cst.AnnAssign):
            if isinstance(one.target, cst.Name) and one.target.value == name and one.value is not None:
                return True
        elif isinstance(one, cst.ImportFrom) and not isinstance(one.names, cst.ImportStar):
            names = [item.asname.name if item.asname is not None else item.name for item in one.names]
            if any(dotted(item) == name for item in names):
                return True
    return False


def _mentions(line: cst.CSTNode, name: str) -> bool:
    return any(isinstance(one, cst.Name) and one.value == name for one in walk(line))


def _in_definition(file: ParsedFile, name: str) -> Place | None:
    """In the function that returns the model, or at the end of the ``__init__`` of its class."""
    for one in file.module.body:
        if isinstance(one, cst.FunctionDef) and one.name.value == name:
            return _before_return(file, one)
        if isinstance(one, cst.ClassDef) and one.name.value == name:
            inits = [item for item in one.body.body if isinstance(item, cst.FunctionDef)]
            own = [item for item in inits if item.name.value == "__init__"]
            if own and isinstance(own[0].body, cst.IndentedBlock):
                last = own[0].body.body[-1]
                return Place(file, "self", file.after(last), file.lead(last), may_freeze=False)
    return None


def _before_return(file: ParsedFile, function: cst.FunctionDef) -> Place | None:
    returns = _returns(file, function)
    if len(returns) != 1 or not isinstance(file.parent(returns[0]), cst.SimpleStatementLine):
        return None
    value, start = returns[0].value, file.start_of_line(returns[0])
    assert value is not None
    lead = file.lead(returns[0])
    if isinstance(value, cst.Name):
        return Place(file, value.value, start, lead)
    if isinstance(value, cst.Call) and file.meaning(value.func) in _SCRIPTING:
        return None
    made = file.free_name("model", "made")
    text = f"{lead}{made} = {file.text(value)}{file.newline}"
    edits = (file.inserted(start, text, rank=-3), file.replaced(value, made))
    return Place(file, made, start, lead, edits)


def value_of_model(program: Program) -> cst.BaseExpression | None:
    """The expression that makes a model which is TorchScript already: ``torch.jit.script(net)`` of ``model =
    torch.jit.script(net)`` or ``return torch.jit.script(net)``. None where the model is changed after that
    line, or no such line is found."""
    file, name = program.target_file, program.target.name or "model"
    if file is None or "." in name:
        return None
    value = _returned(file, name) if program.target.call is not None else _last_bound(file, name)
    return value if isinstance(value, (cst.Call, cst.Name)) else None


def _returned(file: ParsedFile, name: str) -> cst.BaseExpression | None:
    """What the function of that name returns, if it has one ``return``."""
    for one in file.module.body:
        if isinstance(one, cst.FunctionDef) and one.name.value == name:
            returns = _returns(file, one)
            return returns[0].value if len(returns) == 1 else None
    return None


def _last_bound(file: ParsedFile, name: str) -> cst.BaseExpression | None:
    """The value of the last line at the top of the file that has the name, if that line binds it."""
    lines = [one for one in file.module.body if _mentions(one, name)]
    last = lines[-1] if lines else None
    if not isinstance(last, cst.SimpleStatementLine) or not _binds(file, last, name):
        return None
    only = last.body[0] if len(last.body) == 1 else None
    return only.value if isinstance(only, (cst.Assign, cst.AnnAssign)) else None


def _returns(file: ParsedFile, function: cst.FunctionDef) -> list[cst.Return]:
    """Those of the function itself that return something."""
    every = [one for one in walk(function) if isinstance(one, cst.Return) and one.value is not None]
    return [one for one in every if file.function_of(one) is function]
