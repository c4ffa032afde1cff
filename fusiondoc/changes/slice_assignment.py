"""Rewrite a slice that is changed in place: ``x[..., :2] *= 2`` -> ``x =
torch.cat([x[..., :2] * 2, x[..., 2:]], -1)``.

No fuser takes aten::add_ of a view, or aten::copy_, and not every one takes
aten::cat. Only slices of one dimension (``x[..., :2]``, ``x[:, 1:3]``) with
constant ends that are both counted from its beginning, and elements of it (``x[...,
0]``). Only numbers, and values that have the sizes of that part: by the text (the
part itself changed by a sign, or an expression of it), or in the run. Where
gradients are recorded nothing is gained: aten::slice has no gradient formula of
TorchScript's, so that a differentiable graph ends there as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusiondoc.changes.assigned_names import outlives_call
from fusiondoc.changes.chosen_numbers import is_number
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import (
    Assigned,
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
    Sizes,
)
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers import taken_by
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import ELEMENTWISE, sign_of
from fusiondoc.operators.signs import SIGN_OF_NODE

_SIGNS = ("+", "-", "*", "/")
_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Call)
_ASSIGNS = "aten::copy_"
_FLOATING = ("Float(", "Double(", "Half(", "BFloat16(", "Tensor")


class _Slice(NamedTuple):
    """A slice ``x[..., begin:end]``; None is the start or end of the dimension."""

    name: ast.Name
    lead: str
    """The index text before the dimension: ``..., ``, or ``:, `` once for each
    dimension before it."""
    dim: int
    begin: int | None
    end: int | None
    is_element: bool = False
    """It is written ``x[..., begin]``, which has one dimension less."""

    def sizes(self, whole: Sizes) -> Sizes | None:
        """The sizes of the part; None if the slice exceeds a tensor of these
        sizes."""
        dim = self.dim if self.dim >= 0 else len(whole) - 1
        begin = self.begin or 0
        if not 0 <= dim < len(whole) or max(begin, self.end or 0) > whole[dim]:
            return None
        size = (self.end if self.end is not None else whole[dim]) - begin
        return (
            *whole[:dim],
            *(() if self.is_element else (size,)),
            *whole[dim + 1 :],
        )

    def text(self, begin: int | None, end: int | None) -> str:
        """The text of a slice of the same dimension."""
        ends = ":".join("" if one is None else str(one) for one in (begin, end))
        return f"{self.name.id}[{self.lead}{ends}]"


def write(line: Line) -> Iterator[Rewritten]:
    """Yield the rewrites of the line's assignments to a slice of one dimension, or
    to an element of it."""
    shown = line.shown
    if shown.gradients or not all(one.startswith(_FLOATING) for one in shown.types):
        return
    if not taken_by("aten::cat", shown.fuser, shown.torch):
        return  # it would be outside groups instead of the assignment
    for node in line.file.on_line(line.number):
        target = _target(node)
        part = _slice(target) if target is not None else None
        if (
            target is None
            or part is None
            or outlives_call(line.file, node, part.name.id)
        ):
            continue
        torch, imports = spelled(line.file, "torch")
        value = _value(line, node, target, part, torch)
        if value is not None:
            yield _rewritten(line.file, node, part, value, (torch, imports))


def _target(node: ast.AST) -> ast.expr | None:
    """Return the target of a statement that assigns exactly one."""
    if isinstance(node, ast.AugAssign) and type(node.op) in SIGN_OF_NODE:
        return node.target
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return node.targets[0]
    return None


def _value(
    line: Line, node: ast.AST, target: ast.expr, part: _Slice, torch: str
) -> str | None:
    """Return the text of the middle part of the replacement; None if its sizes may
    differ from those of the assigned part."""
    file = line.file
    if isinstance(node, ast.AugAssign):
        value = file.text(node.value)
        is_atom = isinstance(node.value, _ATOMS)
        operand = value if is_atom else f"({value})"
        return _kept(
            part,
            f"{file.text(target)} {SIGN_OF_NODE[type(node.op)]} {operand}",
            is_atom=False,
        )
    assert isinstance(node, ast.Assign)
    if is_number(node.value):
        return f"{torch}.full_like({part.text(part.begin, part.end)}, {file.text(node.value)})"
    shown = line.shown.assigned
    in_run = shown is not None and part.sizes(shown.whole) == shown.value
    if in_run or _has_sizes_of(file, node.value, file.text(target)):
        return _kept(part, file.text(node.value), isinstance(node.value, _ATOMS))
    return None


def _kept(part: _Slice, value: str, is_atom: bool) -> str:
    """The value with the dimension of the part added."""
    if not part.is_element:
        return value
    return f"{value if is_atom else f'({value})'}.unsqueeze({part.dim})"


def _slice(target: ast.expr) -> _Slice | None:
    """Parse a slice of a dimension with constant ends, or an element of it; None
    for anything else."""
    if not isinstance(target, ast.Subscript) or not isinstance(
        target.value, ast.Name
    ):
        return None
    index = target.slice
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    lead, last = _lead(parts[:-1]), parts[-1]
    if lead is None:
        return None
    before, dim = lead
    if not isinstance(last, ast.Slice):
        element = _natural(last)
        if element is None or element < 0:
            return None
        return _Slice(
            target.value, before, dim, element or None, element + 1, is_element=True
        )
    ends = [_natural(last.lower), _natural(last.upper)]
    if last.step is not None or -1 in ends or ends == [None, None]:
        return None
    return _Slice(target.value, before, dim, ends[0] or None, ends[1])


def _lead(lead: Sequence[ast.expr]) -> tuple[str, int] | None:
    """Return the index text before a dimension, and the dimension's number."""
    if (
        len(lead) == 1
        and isinstance(lead[0], ast.Constant)
        and lead[0].value is Ellipsis
    ):
        return "..., ", -1
    if all(map(_is_whole, lead)):
        return ":, " * len(lead), len(lead)
    return None


def _is_whole(node: ast.expr) -> bool:
    """True for ``:``."""
    return (
        isinstance(node, ast.Slice)
        and node.lower is node.upper is node.step is None
    )


def _natural(node: ast.expr | None) -> int | None:
    """A constant that counts from the start of the dimension; -1 for any other
    index that is given."""
    if node is None:
        return None
    value = node.value if isinstance(node, ast.Constant) else -1
    if type(value) is int:
        return value
    return -1


def _has_sizes_of(file: ParsedFile, value: ast.expr, part: str) -> bool:
    """True if a value is computed elementwise from a part, so that it has at least
    the part's sizes; a value with larger sizes could not be assigned to it."""
    if file.text(value) == part:
        return True
    return any(
        _has_sizes_of(file, operand, part)
        for operand in _operands_of_its_sizes(file, value)
    )


def _operands_of_its_sizes(file: ParsedFile, value: ast.expr) -> Sequence[ast.expr]:
    """The operands of an elementwise expression, each with at most the sizes of the
    result; empty for other expressions."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        return [value.operand]
    if isinstance(value, ast.BinOp):
        by_elements = type(value.op) in SIGN_OF_NODE and not isinstance(
            value.op, ast.MatMult
        )
        if by_elements:
            return [value.left, value.right]
        return []
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and not value.keywords
    ):
        return _operand_of_call(file, value, value.func)
    return []


def _operand_of_call(
    file: ParsedFile, call: ast.Call, function: ast.Attribute
) -> Sequence[ast.expr]:
    """The tensor of an elementwise method or function of torch whose other
    arguments are numbers."""
    if f"aten::{function.attr}" not in ELEMENTWISE or not all(
        map(is_number, call.args[1:])
    ):
        return []
    owner = (file.meaning(function) or "").rpartition(".")[0]
    if owner == "torch":
        return call.args[:1]
    return [function.value]


def _rewritten(
    file: ParsedFile,
    node: ast.AST,
    part: _Slice,
    value: str,
    named: tuple[str, tuple[TextEdit, ...]],
) -> Rewritten:
    """Rewrite the statement as a line that concatenates the parts. Args: named: the
    file's name for torch, and missing imports.
    """
    torch, imports = named
    pieces = [value]
    if part.begin is not None:
        pieces.insert(0, part.text(None, part.begin))
    if part.end is not None:
        pieces.append(part.text(part.end, None))
    text = f"{part.name.id} = {torch}.cat([{', '.join(pieces)}], {part.dim})"
    return Rewritten(
        f"Write {text} instead of {' '.join(file.text(node).split())}",
        (*imports, file.replaced(node, text)),
        joins=True,
    )


_ADD, _COPY = Shown("aten::add_"), Shown("aten::copy_")
_OF_ROWS = Shown("aten::copy_", assigned=Assigned((4, 6), (4,)))
_BROADCAST = Shown("aten::copy_", assigned=Assigned((4, 6), (1,)))

REWRITE = Rewrite(
    ChangeKind.OUT_OF_PLACE,
    write,
    fits=lambda line: line.shown.op == _ASSIGNS or sign_of(line.shown.op) in _SIGNS,
    examples=(
        Example(
            "x[..., :2] += y[..., :2]",
            "x = torch.cat([x[..., :2] + y[..., :2], x[..., 2:]], -1)",
            _ADD,
        ),
        Example(
            "x[..., 2:] += y[..., 2:]",
            "x = torch.cat([x[..., :2], x[..., 2:] + y[..., 2:]], -1)",
            _ADD,
        ),
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
        Example(
            "x[:, 1:3] += y[:, :2]",
            "x = torch.cat([x[:, :1], x[:, 1:3] + y[:, :2], x[:, 3:]], 1)",
            _ADD,
        ),
        Example("x[:2] += y[:2]", "x = torch.cat([x[:2] + y[:2], x[2:]], 0)", _ADD),
        Example(
            "x[..., :2] = 0.0",
            "x = torch.cat([torch.full_like(x[..., :2], 0.0), x[..., 2:]], -1)",
            _COPY,
        ),
        Example(
            "x[0] = 1.0",
            "x = torch.cat([torch.full_like(x[:1], 1.0), x[1:]], 0)",
            _COPY,
        ),
        Example(
            "w = y[..., 3] * 2.0\nx[..., 0] = w",
            "w = y[..., 3] * 2.0\nx = torch.cat([w.unsqueeze(-1), x[..., 1:]], -1)",
            _OF_ROWS,
            line=2,
        ),
        Example("x[..., 0] = y", None, _COPY),  # its sizes do not show
        Example("x[..., 0] = y", None, _BROADCAST),  # broadcast
        Example("x[..., i] += y", None, _ADD),
        Example(
            "x[..., :2] += y[..., :2]", None, Shown("aten::add_", fuser="none")
        ),  # takes no cat
        Example("x[..., :2] = y", None, _COPY),
        Example("x[..., :2] = x[..., :2].mean()", None, _COPY),
        Example(
            "x[..., -2:] += y", None, _ADD
        ),  # how many come before it does not show
        Example("x[..., ::2] += y", None, _ADD),
        Example("x[:, ::2] += y", None, _ADD),
        Example("x[y, :2] += z", None, _ADD),
        Example("x[..., :2] += y", None, Shown("aten::add_", gradients=True)),
        Example(
            "x[..., :2] += y",
            None,
            Shown("aten::add_", types=("Long(4, strides=[1])",)),
        ),
        Example("self.s[..., :2] += y", None, _ADD),
    ),
)
