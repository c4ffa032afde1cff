"""An operand of a dtype that the fuser does not take, cast: ``torch.fmod(n, 5) *
x`` becomes ``torch.fmod(n.float(), 5) * x``.

The types of the operator's inputs in the plan show which operand it is. Whether the
change alters the result, in its dtype too, is for the comparison of the runs to
find.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.rewrite import (
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
    on_one_line,
)
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import WrongType
from fusiondoc.operators import SIGNS, plain_name
from fusiondoc.operators.signs import NODE_OF_SIGN

_CASTS = {"Byte": "int", "Char": "int", "Short": "int"}
"""Dtype that no fuser takes -> the cast to one that holds all its values."""

_WHOLE = frozenset(["Byte", "Char", "Short", "Int", "Long", "Bool"])


def write(line: Line) -> Iterator[Rewritten]:
    """Yield the operator with the necessary casts of its operands."""
    casts = [_cast_of(text.partition("(")[0], line) for text in line.shown.types]
    operands = _operands_at(line)
    if not any(casts) or len(operands) != len(casts):
        return
    edits: list[TextEdit] = []
    titles = []
    for operand, cast in zip(operands, casts, strict=True):
        if cast is not None:
            edits += _called(line.file, operand, f".{cast}()")
            titles.append(f"{line.file.text(operand)} as {cast}")
    yield Rewritten(
        on_one_line(f"{', '.join(titles)} for {line.shown.op}"), tuple(edits)
    )


def _cast_of(dtype: str, line: Line) -> str | None:
    """The method that casts an operand of this dtype."""
    floats = (
        isinstance(line.shown.detail, WrongType)
        and line.shown.detail.takes == "floating"
    )
    if floats and dtype in _WHOLE:
        return "float"
    return _CASTS.get(dtype)


def _operands_at(line: Line) -> Sequence[ast.expr]:
    """The operands of the line's operator that are not literal numbers; empty if
    the operator is not found."""
    name = plain_name(line.shown.op)
    found = []
    for node in line.file.on_line(line.number):
        operands = _operands(line.file, node, name)
        if operands:
            found.append((node, operands))
    exact = []
    for pair in found:
        if line.file.column(pair[0]) == line.column:
            exact.append(pair)
    for _, operands in exact or found:
        return [operand for operand in operands if not _is_literal(operand)]
    return ()


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    )


def _operands(file: ParsedFile, node: ast.AST, name: str) -> Sequence[ast.expr]:
    """The operands of an expression that is the operator of that name; empty for
    other expressions."""
    sign = NODE_OF_SIGN.get(SIGNS.get(f"aten::{name}", ""))
    if isinstance(node, ast.BinOp):
        if type(node.op) is sign:
            return node.left, node.right
        return ()
    if isinstance(node, ast.Compare):
        if [type(one) for one in node.ops] == [sign]:
            return (node.left, *node.comparators)
        return ()
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    ):
        given = []
        for argument in node.args:
            if not isinstance(argument, ast.Starred):
                given.append(argument)
        if file.meaning(node.func) is not None:
            return given
        return [node.func.value, *given]
    return ()


def _called(file: ParsedFile, node: ast.expr, method: str) -> Iterator[TextEdit]:
    """Call a method on an expression, inside the parentheses around it."""
    start, end = file.span(node)
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    if not plain:
        yield file.inserted(start, "(")
    yield file.inserted(end, method if plain else f"){method}")


_FLOAT, _BYTE, _LONG = (
    "Float(4, strides=[1])",
    "Byte(4, strides=[1])",
    "Long(4, strides=[1])",
)
_FLOATS = WrongType("any", "Long", "floating")


def fits(line: Line) -> bool:
    """True if the dtype of an operand is the reason."""
    return line.shown.code in ("FD202", "FD203", "FD215", "FD223")


REWRITE = Rewrite(
    ChangeKind.DTYPE,
    write,
    fits=fits,
    examples=(
        Example(
            "h = x * y",
            "h = x * y.int()",
            Shown("aten::mul", types=(_FLOAT, _BYTE)),
        ),
        Example(
            "h = (y + 1) * x",
            "h = ((y + 1).int()) * x",
            Shown("aten::mul", types=(_BYTE, _FLOAT)),
        ),
        Example(
            "h = x > y[0]",
            "h = x > y[0].int()",
            Shown("aten::gt", types=(_FLOAT, _BYTE)),
        ),
        Example(
            "h = torch.fmod(y, 5) * x",
            "h = torch.fmod(y.float(), 5) * x",
            Shown("aten::fmod", types=(_LONG,), detail=_FLOATS),
        ),
        Example("h = x * y", None, Shown("aten::mul", types=(_FLOAT,))),
        Example("h = x * y", None, Shown("aten::mul", types=(_FLOAT, _FLOAT))),
        Example("h = x + y", None, Shown("aten::mul", types=(_FLOAT, _BYTE))),
    ),
)
