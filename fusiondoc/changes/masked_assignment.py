"""Elements assigned by a mask: ``x[x < 0] = 0.0`` -> ``x = torch.where(x < 0, 0.0,
x)``.

No fuser takes aten::index_put_, and a differentiable graph ends before it. A mask
that has fewer dimensions than the tensor stands for rows of it, which
``torch.where`` would broadcast the other way: the rewrite is sure where the text
shows that both have the same sizes. Other names of the tensor do not show in the
text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.assigned_names import assigned_once, outlives_call
from fusiondoc.changes.chosen_numbers import (
    is_given_number,
    is_number,
    needs_tensor,
    number_as_tensor,
)
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.same_sizes import sizes_of
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import ELEMENTWISE, MASKS
from fusiondoc.operators.signs import SIGN_OF_NODE

_FINITE = (ast.Add, ast.Sub, ast.Mult)
"""Signs of operators with a finite gradient wherever their operands are finite."""
_FLOATING = ("Float(", "Double(", "Half(", "BFloat16(")
_NOTE = "for tensors of a floating-point type"
_OTHER_TYPES = ("Long(", "Int(", "Short(", "Char(", "Byte(", "Bool(")


class _Assignment(NamedTuple):
    """``name[mask] = value``, or ``name[mask] sign= value``."""

    name: ast.Name
    mask: ast.expr
    value: ast.expr
    sign: str | None


def write(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """Yield the rewrite of an assignment by a mask."""
    found = _assignment(node)
    if found is None or outlives_call(line.file, node, found.name.id):
        return
    made = _rewritten(line, node, found)
    if made is not None:
        yield made


def _assignment(node: ast.AST) -> _Assignment | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, sign = node.targets[0], None
    elif isinstance(node, ast.AugAssign):
        target, sign = node.target, SIGN_OF_NODE.get(type(node.op))
        if sign is None:
            return None
    else:
        return None
    if not isinstance(target, ast.Subscript) or not isinstance(
        target.value, ast.Name
    ):
        return None
    return _Assignment(target.value, target.slice, node.value, sign)


def _rewritten(line: Line, node: ast.AST, found: _Assignment) -> Rewritten | None:
    file = line.file
    if not _is_mask(file, found.mask) or (
        line.shown.types[:1] and _is_of_integers(line.shown.types[0])
    ):
        return None
    torch, imports = spelled(file, "torch")
    value = _chosen(line, found, torch)
    if value is None:
        return None
    name = found.name.id
    text = f"{name} = {torch}.where({file.whole(found.mask)}, {value}, {name})"
    if line.shown.types[:1] and line.shown.types[0].startswith(_FLOATING):
        note = None
    else:
        note = _NOTE
    return Rewritten(
        f"Write {text} instead of {' '.join(file.text(node).split())}",
        (*imports, file.replaced(node, text)),
        note=note,
        sure=_has_same_sizes(line, found),
    )


def _is_of_integers(shown: str) -> bool:
    return shown.startswith(_OTHER_TYPES)


def _is_mask(file: ParsedFile, index: ast.expr) -> bool:
    """True if an index is a boolean tensor: a comparison, or an expression of
    comparisons."""
    if isinstance(index, ast.Compare):
        return len(index.ops) == 1 and not isinstance(
            index.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        )
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.Invert) and _is_mask(file, index.operand)
    if isinstance(index, ast.BinOp):
        signs = isinstance(index.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
        return signs and _is_mask(file, index.left) and _is_mask(file, index.right)
    if isinstance(index, ast.Name):
        value = assigned_once(file, index)
        return value is not None and _is_mask(file, value)
    if isinstance(index, ast.Call) and isinstance(index.func, ast.Attribute):
        owner = (file.meaning(index.func) or "torch.").rpartition(".")[0]
        return owner == "torch" and index.func.attr in MASKS
    return False


def _has_same_sizes(line: Line, found: _Assignment) -> bool:
    """True if mask and tensor have the same sizes: by the text, or as both have one
    dimension."""
    mask = sizes_of(line.file, found.mask)
    return line.shown.rank == 1 or (
        mask is not None and mask == sizes_of(line.file, found.name)
    )


# -- the value -----------------------------------------------------------------------------------------------


def _chosen(line: Line, found: _Assignment, torch: str) -> str | None:
    """Return the value for all elements; None unless it is a function of each
    element alone."""
    file = line.file
    if is_number(found.value) or is_given_number(file, found.value):
        number = file.whole(found.value)
        if found.sign is not None:
            return f"{found.name.id} {found.sign} {number}"
        if needs_tensor(line.shown):
            return number_as_tensor(file, torch, number, found.mask)
        return number
    masked = list(_masked(file, found.value, file.text(found.mask)))
    if not masked or not _is_of_each_element(line, found.value, masked):
        return None
    text = _without_masks(file, found.value, masked)
    is_atom = found.value in masked or file.is_parenthesised(found.value)
    if found.sign is None:
        return text
    return f"{found.name.id} {found.sign} {text if is_atom else f'({text})'}"


def _masked(
    file: ParsedFile, value: ast.expr, mask: str
) -> Iterator[ast.Subscript]:
    """The parts of a value that select elements of a tensor by the same mask:
    ``y[mask]``."""
    for node in ast.walk(value):
        is_part = isinstance(node, ast.Subscript) and isinstance(
            node.value, ast.Name
        )
        if (
            isinstance(node, ast.Subscript)
            and is_part
            and file.text(node.slice) == mask
        ):
            yield node


def _is_of_each_element(
    line: Line, value: ast.expr, masked: list[ast.Subscript]
) -> bool:
    """True if a value is computed elementwise from such elements and numbers. If
    gradients are recorded, only operators with a finite gradient everywhere are
    allowed: ``torch.where`` multiplies the gradient of elements that it does not
    choose by zero, and infinity times zero is no number.
    """
    if value in masked or is_number(value):
        return True
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.USub) and _is_of_each_element(
            line, value.operand, masked
        )
    if isinstance(value, ast.BinOp):
        if line.shown.gradients and not (
            isinstance(value.op, _FINITE) or _is_whole_power(value)
        ):
            return False
        both = (value.left, value.right)
        return type(value.op) in SIGN_OF_NODE and all(
            _is_of_each_element(line, one, masked) for one in both
        )
    if (
        isinstance(value, ast.Call)
        and not value.keywords
        and not line.shown.gradients
    ):
        return _is_elementwise_call(line, value, masked)
    return False


def _is_whole_power(value: ast.BinOp) -> bool:
    """True for ``x ** 2`` with a whole exponent."""
    power = value.right.value if isinstance(value.right, ast.Constant) else None
    return isinstance(value.op, ast.Pow) and type(power) is int and power > 0


def _is_elementwise_call(
    line: Line, call: ast.Call, masked: list[ast.Subscript]
) -> bool:
    """True for ``torch.exp(x[mask])`` and ``x[mask].exp()``."""
    if (
        not isinstance(call.func, ast.Attribute)
        or f"aten::{call.func.attr}" not in ELEMENTWISE
    ):
        return False
    owner = (line.file.meaning(call.func) or "").rpartition(".")[0]
    given = [*call.args] if owner == "torch" else [call.func.value, *call.args]
    return all(_is_of_each_element(line, one, masked) for one in given)


def _without_masks(
    file: ParsedFile, value: ast.expr, masked: list[ast.Subscript]
) -> str:
    """The text of a value with ``y`` for each ``y[mask]``."""
    start, end = file.outer_span(value)
    text = ""
    for node in sorted(masked, key=lambda one: file.span(one)[0]):
        text += file.source.text[start : file.span(node.value)[1]]
        start = file.span(node)[1]
    return text + file.source.text[start:end]


_PUT = Shown("aten::index_put_")
_GRADIENTS = Shown("aten::index_put_", gradients=True)

REWRITE = Rewrite(
    ChangeKind.OUT_OF_PLACE,
    partial(in_all_calls, write),
    fits=lambda line: line.shown.op in ("aten::index_put_", "aten::index"),
    examples=(
        Example("x[x < 0] = 0.0", "x = torch.where(x < 0, 0.0, x)", _PUT),
        Example("x[~(x > 0)] *= 2", "x = torch.where(~(x > 0), x * 2, x)", _PUT),
        Example(
            "x[x < 0] += y[x < 0] + 1",
            "x = torch.where(x < 0, x + (y + 1), x)",
            _PUT,
        ),
        Example(
            "x[y < 0] = 0.0", "x = torch.where(y < 0, 0.0, x)", _PUT, sure=False
        ),
        Example(
            "x[y < 0] = 0.0",
            "x = torch.where(y < 0, 0.0, x)",
            Shown("aten::index_put_", rank=1),
        ),
        Example(
            "x[x < 0] = 0.0",
            "x = torch.where(x < 0, torch.full([], 0.0, device=x.device), x)",
            _GRADIENTS,
        ),
        Example(
            "h = x - 1\nm = h.abs() < 1.0\nh[m] = 0.5 * h[m] ** 2",
            "h = x - 1\nm = h.abs() < 1.0\nh = torch.where(m, 0.5 * h ** 2, h)",
            _GRADIENTS,
            line=3,
        ),
        Example(
            "x[x > 0] = torch.log(x[x > 0])",
            "x = torch.where(x > 0, torch.log(x), x)",
            _PUT,
        ),
        Example("x[x.gt(0)] = 2", "x = torch.where(x.gt(0), 2, x)", _PUT),
        Example(
            "x[torch.isnan(x)] = 0.0",
            "x = torch.where(torch.isnan(x), 0.0, x)",
            _PUT,
        ),
        Example("x[x.argmax()] = 0.0", None, _PUT),
        Example(
            "x[x > 0] = torch.log(x[x > 0])", None, _GRADIENTS
        ),  # infinity times zero
        Example("x[x > 0] = 1 / x[x > 0]", None, _GRADIENTS),
        Example("x[x > 0] = x[x > 0].mean()", None, _PUT),
        Example("x[x > 0] = x[x > 0].cumsum(0)", None, _PUT),
        Example("x[x > 0] = y", None, _PUT),
        Example("x[y] = 0.0", None, _PUT),  # indices or a mask
        Example("x[0] = 0.0", None, _PUT),
        Example("self.s[self.s < 0] = 0.0", None, _PUT),
        Example("global n\nn[n < 0] = 0.0", None, _PUT, line=2),
        Example(
            "x[x > 0] = 0.5",
            None,
            Shown("aten::index_put_", types=("Long(4, strides=[1])",)),
        ),
    ),
)
