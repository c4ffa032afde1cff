"""``torch.where`` instead of a branch on the value of a tensor: ``if y.sum() > 0: y
= y * 2`` becomes ``y = torch.where(y.sum() > 0, y * 2, y)``. Both sides are
computed, and the value is not waited for.

Only where both sides set one name, or return, and do nothing but compute: operators
of torch that draw no random numbers and change nothing in place. Whether both sides
have one size and type is known after a run alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Rewritten, on_one_line
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.operators import BY_NAME, RANDOM, is_in_place

_COMPARES = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_TRUTHS = ("any", "all")
_NOTE = "both sides are computed, and have to have one size and type; a run takes one of them"


class _Sides(NamedTuple):
    """The values that a branch chooses between, and how it uses them."""

    taken: ast.expr
    other: ast.expr | None
    """None: the value that the name had before."""
    name: str | None
    """The name that is assigned; None where the value is returned."""
    last: ast.stmt
    """The statement that ends it."""


def without_branches(file: ParsedFile) -> Iterator[tuple[ast.If, Rewritten]]:
    """Yield each branch of a file that can be written as ``torch.where``, with its
    rewrite."""
    for node in file.nodes:
        if isinstance(node, ast.If) and _is_truth(file, node.test):
            sides = _sides(file, node)
            if sides is not None and _can_be_written(file, node, sides):
                yield node, _rewritten(file, node, sides)


def _is_truth(file: ParsedFile, test: ast.expr) -> bool:
    """True if a test on tensors is a test of boolean values."""
    if isinstance(test, ast.Compare):
        return (
            len(test.ops) == 1
            and isinstance(test.ops[0], _COMPARES)
            and _is_pure(file, test)
        )
    called = test.func if isinstance(test, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and called.attr in _TRUTHS
        and _is_pure(file, test)
    )


def _sides(file: ParsedFile, node: ast.If) -> _Sides | None:
    first = _only(node.body)
    if isinstance(first, ast.Return):
        last = _only(node.orelse) if node.orelse else _next(file, node)
        if (
            isinstance(last, ast.Return)
            and first.value is not None
            and last.value is not None
        ):
            return _Sides(first.value, last.value, None, last)
        return None
    set_ = _assigned(first)
    if set_ is None:
        return None
    name, taken = set_
    if not node.orelse:
        return _Sides(taken, None, name, node)
    other = _assigned(_only(node.orelse))
    if other is not None and other[0] == name:
        return _Sides(taken, other[1], name, node)
    return None


def _only(block: list[ast.stmt]) -> ast.stmt | None:
    if len(block) == 1:
        return block[0]
    return None


def _next(file: ParsedFile, node: ast.stmt) -> ast.stmt | None:
    """The statement after a node, in its block."""
    block = file.block_of(node)
    at = block.index(node) + 1
    if at < len(block):
        return block[at]
    return None


def _assigned(statement: ast.stmt | None) -> tuple[str, ast.expr] | None:
    """Return the name that a statement assigns, and the value."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return target.id, statement.value
    return None


def _can_be_written(file: ParsedFile, node: ast.If, sides: _Sides) -> bool:
    values = []
    for value in (sides.taken, sides.other):
        if value is not None:
            values.append(value)
    if (
        all(isinstance(value, ast.Constant) for value in values)
        and sides.other is not None
    ):
        return False  # of two numbers it would make a tensor
    text = file.source.text[file.span(node)[0] : file.span(sides.last)[1]]
    return (
        text.startswith("if")
        and "#" not in text
        and all(_is_pure(file, value) for value in values)
    )


_PURE = (
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Constant,
    ast.expr_context,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)


def _is_pure(file: ParsedFile, value: ast.expr) -> bool:
    """True if a value is computed without any side effect."""
    for part in ast.walk(value):
        if isinstance(part, ast.Call):
            if not _is_operator(file, part):
                return False
        elif isinstance(part, ast.keyword):
            if part.arg in (None, "out", "inplace"):
                return False
        elif not isinstance(part, _PURE):
            return False
    return True


def _is_operator(file: ParsedFile, call: ast.Call) -> bool:
    """True if a call runs an operator of torch that draws no random numbers and
    changes nothing."""
    if not isinstance(call.func, ast.Attribute):
        return False
    op = f"aten::{call.func.attr}"
    meaning = file.meaning(call.func)
    is_torchs = meaning is None or meaning.startswith("torch.")
    return is_torchs and op in BY_NAME and op not in RANDOM and not is_in_place(op)


def _rewritten(file: ParsedFile, node: ast.If, sides: _Sides) -> Rewritten:
    torch, imports = spelled(file, "torch")
    other = file.text(sides.other) if sides.other is not None else sides.name
    chosen = (
        f"{torch}.where({file.text(node.test)}, {file.text(sides.taken)}, {other})"
    )
    text = f"return {chosen}" if sides.name is None else f"{sides.name} = {chosen}"
    edit = TextEdit(
        file.source.path, file.span(node)[0], file.span(sides.last)[1], text
    )
    title = on_one_line(f"torch.where instead of if {file.text(node.test)}")
    return Rewritten(
        title, (edit, *imports), note=_NOTE, lines=(file.line(node),), sure=False
    )
