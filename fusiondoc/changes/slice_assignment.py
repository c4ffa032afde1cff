"""A slice changed in place: ``x[..., :2] *= 2`` -> ``x = torch.cat([x[..., :2] * 2, x[..., 2:]], -1)``.

No fuser takes aten::add_ of a view, or aten::copy_, and not every one takes aten::cat. Only slices of the
last dimension with constant ends that are both counted from its beginning and elements of it
(``x[..., 0]``), and only values that have the sizes of that part by the text: the part itself changed by a
sign, or an expression of it. Where gradients are recorded nothing is gained: aten::slice has no gradient
formula of TorchScript's, so that a differentiable graph ends there as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusiondoc.changes.assigned_names import outlives_call
from fusiondoc.changes.chosen_numbers import is_number
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers import taken_by
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import ELEMENTWISE, sign_of
from fusiondoc.operators.signs import SIGN_OF_NODE

_SIGNS = ("+", "-", "*", "/")
_ASSIGNS = "aten::copy_"
_FLOATING = ("Float(", "Double(", "Half(", "BFloat16(", "Tensor")


class _Slice(NamedTuple):
    """``x[..., begin:end]``; None for an end of the dimension."""

    name: ast.Name
    begin: int | None
    end: int | None
    is_element: bool = False
    """It is written ``x[..., begin]``, which has a dimension less."""


def write(line: Line) -> Iterator[Rewritten]:
    """Each assignment of the line to a slice of the last dimension."""
    shown = line.shown
    if shown.gradients or not all(one.startswith(_FLOATING) for one in shown.types):
        return
    if not taken_by("aten::cat", shown.fuser, shown.torch):
        return  # it would be outside groups instead of the assignment
    for node in line.file.on_line(line.number):
        target, value = _assigned(line.file, node)
        part = _slice(target) if target is not None else None
        if target is None or value is None or part is None:
            continue
        if not outlives_call(line.file, node, part.name.id):
            yield _rewritten(line.file, node, part, value)


def _assigned(file: ParsedFile, node: ast.AST) -> tuple[ast.expr | None, str | None]:
    """The part that a statement assigns, and the text of its new value; None where its sizes do not show."""
    if isinstance(node, ast.AugAssign) and type(node.op) in SIGN_OF_NODE:
        value = file.text(node.value)
        is_atom = isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Call))
        operand = value if is_atom else f"({value})"
        return node.target, f"{file.text(node.target)} {SIGN_OF_NODE[type(node.op)]} {operand}"
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if _has_sizes_of(file, node.value, file.text(target)):
            return target, file.text(node.value)
    return None, None


def _slice(target: ast.expr) -> _Slice | None:
    """A slice of the last dimension with constant ends, or an element of it; None of anything else."""
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        return None
    index = target.slice
    if not isinstance(index, ast.Tuple) or len(index.elts) != 2:
        return None
    before, last = index.elts
    if not isinstance(before, ast.Constant) or before.value is not Ellipsis:
        return None
    if not isinstance(last, ast.Slice):
        element = _natural(last)
        if element is None or element < 0:
            return None
        return _Slice(target.value, element or None, element + 1, is_element=True)
    ends = [_natural(last.lower), _natural(last.upper)]
    if last.step is not None or -1 in ends or ends == [None, None]:
        return None
    return _Slice(target.value, ends[0] or None, ends[1])


def _natural(node: ast.expr | None) -> int | None:
    """A constant that counts from the beginning; -1 for anything else that is given."""
    if node is None:
        return None
    value = node.value if isinstance(node, ast.Constant) else -1
    return value if type(value) is int else -1


def _has_sizes_of(file: ParsedFile, value: ast.expr, part: str) -> bool:
    """Whether a value is computed of a part, each element by itself, so that it has at least its sizes: a
    value of more could not be assigned to it."""
    if file.text(value) == part:
        return True
    return any(_has_sizes_of(file, operand, part) for operand in _operands_of_its_sizes(file, value))


def _operands_of_its_sizes(file: ParsedFile, value: ast.expr) -> Sequence[ast.expr]:
    """The operands of an element-wise expression of which each has at most the sizes of its result; none of
    another expression."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return [value.operand]
    if isinstance(value, ast.BinOp):
        by_elements = type(value.op) in SIGN_OF_NODE and not isinstance(value.op, ast.MatMult)
        return [value.left, value.right] if by_elements else []
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.keywords:
        return _operand_of_call(file, value, value.func)
    return []


def _operand_of_call(file: ParsedFile, call: ast.Call, function: ast.Attribute) -> Sequence[ast.expr]:
    """The tensor that an element-wise method or function of torch is called on, its other arguments
    numbers."""
    if f"aten::{function.attr}" not in ELEMENTWISE or not all(map(is_number, call.args[1:])):
        return []
    owner = (file.meaning(function) or "").rpartition(".")[0]
    return call.args[:1] if owner == "torch" else [function.value]


def _rewritten(file: ParsedFile, node: ast.AST, part: _Slice, value: str) -> Rewritten:
    torch, imports = spelled(file, "torch")
    name = part.name.id
    pieces = [f"({value}).unsqueeze(-1)" if part.is_element else value]
    if part.begin is not None:
        pieces.insert(0, f"{name}[..., :{part.begin}]")
    if part.end is not None:
        pieces.append(f"{name}[..., {part.end}:]")
    text = f"{name} = {torch}.cat([{', '.join(pieces)}], -1)"
    return Rewritten(
        f"Write {text} instead of {' '.join(file.text(node).split())}",
        (*imports, file.replaced(node, text)),
    )


_ADD, _COPY = Shown("aten::add_"), Shown("aten::copy_")

REWRITE = Rewrite(
    ChangeKind.OUT_OF_PLACE,
    write,
    fits=lambda line: line.shown.op == _ASSIGNS or sign_of(line.shown.op) in _SIGNS,
    examples=(
        Example("x[..., :2] += y[..., :2]", "x = torch.cat([x[..., :2] + y[..., :2], x[..., 2:]], -1)", _ADD),
        Example("x[..., 2:] += y[..., 2:]", "x = torch.cat([x[..., :2], x[..., 2:] + y[..., 2:]], -1)", _ADD),
        Example(
            "x[..., 2:4] *= y[..., :1] - 1",
            "x = torch.cat([x[..., :2], x[..., 2:4] * (y[..., :1] - 1), x[..., 4:]], -1)",
            Shown("aten::mul_"),
        ),
        Example(
            "x[..., 0:2] = (x[..., 0:2] * 2.0 - 0.5) * 3",
            "x = torch.cat([(x[..., 0:2] * 2.0 - 0.5) * 3, x[..., 2:]], -1)",
            _COPY,
        ),
        Example(
            "x[..., 0:2] = torch.exp(x[..., 0:2])",
            "x = torch.cat([torch.exp(x[..., 0:2]), x[..., 2:]], -1)",
            _COPY,
        ),
        Example(
            "x[..., 0] += y[..., 1]",
            "x = torch.cat([(x[..., 0] + y[..., 1]).unsqueeze(-1), x[..., 1:]], -1)",
            _ADD,
        ),
        Example(
            "x[..., 2] = x[..., 2] * 0.5 - 1.0",
            "x = torch.cat([x[..., :2], (x[..., 2] * 0.5 - 1.0).unsqueeze(-1), x[..., 3:]], -1)",
            _COPY,
        ),
        Example("x[..., -1] += y", None, _ADD),
        Example("x[..., 0] = y", None, _COPY),  # its sizes do not show
        Example("x[..., i] += y", None, _ADD),
        Example("x[..., :2] += y[..., :2]", None, Shown("aten::add_", fuser="none")),  # takes no cat
        Example("x[..., :2] = 0.0", None, _COPY),  # a number is broadcast
        Example("x[..., :2] = y", None, _COPY),
        Example("x[..., :2] = x[..., :2].mean()", None, _COPY),
        Example("x[..., -2:] += y", None, _ADD),  # how many come before it does not show
        Example("x[..., ::2] += y", None, _ADD),
        Example("x[:2] += y", None, _ADD),
        Example("x[..., :2] += y", None, Shown("aten::add_", gradients=True)),
        Example("x[..., :2] += y", None, Shown("aten::add_", types=("Long(4, strides=[1])",))),
        Example("self.s[..., :2] += y", None, _ADD),
    ),
)
