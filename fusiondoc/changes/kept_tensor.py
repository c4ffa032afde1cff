"""The tensor instead of the number that is read from it: ``limit = a.max().item()`` becomes ``limit =
a.max()``, where every use of the number computes with a tensor, or prints it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.printed_later import is_print
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten
from fusiondoc.changes.source_file import (
    Function,
    ParsedFile,
    arguments_of,
    default_of,
    dotted,
    names_in,
    walk,
)
from fusiondoc.fusers import is_fusible
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import NAMES_OF_REDUCTIONS


def write(line: Line) -> Iterator[Rewritten]:
    """The change of the first such number that the line takes."""
    made = kept_tensor(line.file, line.number, line.gradients)
    if made is not None:
        yield made


def kept_tensor(file: ParsedFile, line: int, detached: bool) -> Rewritten | None:
    """The change of a number that a line takes.

    Args:
        detached: gradients are recorded: as the number, the tensor takes no part in them.
    """
    for read, uses in _numbers_at(file, line):
        made = _kept(file, read, uses, detached)
        if made is not None:
            return made
    return None


def _numbers_at(file: ParsedFile, line: int) -> Iterator[tuple[ast.Call, Sequence[ast.expr]]]:
    """Calls of ``.item()`` whose number a line takes, each with all uses of the number."""
    for node in file.on_line(line):
        function = file.function_of(node)
        if function is None:
            continue
        if isinstance(node, ast.Call) and _reads(node) and isinstance(file.parent(node), ast.BinOp):
            yield node, [node]
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from _number_of_name(file, function, node.id)


def _number_of_name(
    file: ParsedFile, function: Function, name: str
) -> Iterator[tuple[ast.Call, Sequence[ast.expr]]]:
    """The same of a number that a function keeps in a name, which it sets once."""
    every = list(names_in(function, name))
    stores = [use for use in every if not isinstance(use.ctx, ast.Load)]
    made = file.parent(stores[0]) if len(stores) == 1 else None
    if isinstance(made, ast.Assign) and made.targets == stores and _reads(made.value):
        assert isinstance(made.value, ast.Call)
        yield made.value, [use for use in every if use is not stores[0]]


def _reads(node: ast.expr) -> bool:
    """``x.max().item()`` and ``torch.max(x).item()``, of a tensor without dimensions."""
    func = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else None
    if not isinstance(func, ast.Attribute) or func.attr != "item" or node.lineno != node.end_lineno:
        return False
    reduction = func.value
    if (
        not isinstance(reduction, ast.Call)
        or not isinstance(reduction.func, ast.Attribute)
        or reduction.keywords
    ):
        return False
    arguments = 1 if dotted(reduction.func.value) == "torch" else 0
    return reduction.func.attr in NAMES_OF_REDUCTIONS and len(reduction.args) == arguments


def _kept(file: ParsedFile, read: ast.Call, uses: Sequence[ast.expr], detached: bool) -> Rewritten | None:
    function = file.function_of(read)
    assert isinstance(read.func, ast.Attribute) and function is not None
    tensor = file.text(read.func.value)
    after = f"{tensor}.detach()" if detached else tensor
    edits = [file.replaced(read, after)]
    for use in uses:
        call = file.call_of_argument(use)
        if call is not None and use in call.args and is_print(call) and dotted(call.func) == "print":
            edits.append(file.inserted(file.span(use)[1], ".item()"))
        elif not _computes_with_tensor(file, function, use):
            return None
    return Rewritten.expression(f"{tensor}.item()", after, edits)


def _computes_with_tensor(file: ParsedFile, function: Function, use: ast.expr) -> bool:
    """Whether a number is added to, subtracted from, multiplied with or divided by a tensor."""
    above = file.parent(use)
    if not isinstance(above, ast.BinOp) or not isinstance(above.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return False
    return _is_tensor(function, above.right if above.left is use else above.left)


def _is_tensor(function: Function, node: ast.expr, deep: int = 6) -> bool:
    """Whether an expression is a tensor for sure: an argument without a type, or computed of tensors."""
    if not deep:
        return False
    if isinstance(node, ast.BinOp):
        return _is_tensor(function, node.left, deep - 1) or _is_tensor(function, node.right, deep - 1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        computes = is_fusible(f"aten::{node.func.attr}")
        if dotted(node.func.value) in ("torch", "F", "torch.nn.functional"):
            return computes
        return computes and _is_tensor(function, node.func.value, deep - 1)
    return isinstance(node, ast.Name) and _is_name_of_tensor(function, node.id, deep)


def _is_name_of_tensor(function: Function, name: str, deep: int) -> bool:
    """Whether a name is an argument without a type, or all that is assigned to it are tensors."""
    values = []
    for node in walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, ast.Assign)
            values.append(node.value)
    stores = [one for one in names_in(function, name) if isinstance(one.ctx, ast.Store)]
    if len(stores) != len(values):
        return False
    if values:
        return all(_is_tensor(function, value, deep - 1) for value in values)
    return _is_argument_for_tensor(function, name)


def _is_argument_for_tensor(function: Function, name: str) -> bool:
    """Whether a name is an argument that is no number by its type or default."""
    argument = next((one for one in arguments_of(function) if one.arg == name), None)
    if argument is None or name == "self" or default_of(function, argument) is not None:  # it may be a number
        return False
    kind = argument.annotation
    return kind is None or (dotted(kind) or "").rpartition(".")[2] == "Tensor"


def _example(behind: str, after: str | None, kept: str = "x.max()", gradients: bool = False) -> Example:
    """A number that the lines behind read as ``n``."""
    lines = f"n = x.max().item()\n{behind}"
    changed = f"n = {kept}\n{after}" if after is not None else None
    return Example(lines, changed, line=lines.count("\n") + 1, gradients=gradients)


REWRITE = Rewrite(
    ChangeKind.NUMBER,
    write,
    (
        _example("return y * n", "return y * n"),
        _example("return y * n", "return y * n", "x.max().detach()", gradients=True),
        _example("print(n)\nreturn y * n", "print(n.item())\nreturn y * n"),
        _example("return y * n if n > 0 else y", None),
        Example("n = x.item()\nreturn y * n", None, line=2),  # not known to be without dimensions
    ),
)
