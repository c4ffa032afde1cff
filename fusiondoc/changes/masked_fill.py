"""``x.masked_fill(mask == 0, -1e9)`` -> ``torch.where(mask == 0, -1e9, x)``: a number is as good as a tensor
there (the overload ScalarSelf of aten::where, in 1.12 to 2.13).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.fusers import facts_of
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import VIEWS

_ARGUMENTS = ("input", "mask", "value")


def write(line: Line) -> Iterator[Rewritten]:
    """The calls of a line, written so.

    Not every fuser has a rule for a number there, and torch has no gradient formula: it becomes a tensor
    then. Whether another value is a tensor does not show.
    """
    as_tensor = line.shown.gradients or facts_of(line.shown.fuser).numbers_for_tensors is False
    for node in line.file.on_line(line.number):
        given = _arguments(line.file, node) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and given is not None:
            made = _rewritten(line.file, node, given, as_tensor)
            if made is not None:
                yield replace(made, sure=not as_tensor or _is_number(given["value"]))


def _rewritten(
    file: ParsedFile, node: ast.Call, given: Mapping[str, ast.expr], as_tensor: bool
) -> Rewritten | None:
    """One call.

    Args:
        as_tensor: a number becomes a tensor, made on the device of the one tensor that the mask is made of.
    """
    torch, imports = spelled(file, "torch")
    mask, value, tensor = (file.whole(given[name]) for name in ("mask", "value", "input"))
    if as_tensor and _is_number(given["value"]):
        made_of = _tensor_of(given["mask"])
        if made_of is None:
            return None
        # The mask's device: that of the tensor itself would keep its producer out of the group (FD227).
        value = f"{torch}.full([], {value}, device={made_of}.device)"
    if tensor.startswith("(") and isinstance(given["input"], ast.BinOp):
        tensor = file.text(given["input"])
    text = f"{torch}.where({mask}, {value}, {tensor})"
    return Rewritten.expression(file.text(node), text, (*imports, file.replaced(node, text)))


def _arguments(file: ParsedFile, node: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of ``x.masked_fill(mask, value)`` or ``torch.masked_fill(x, mask, value)`` by their
    names."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "masked_fill":
        return None
    meaning = file.meaning(node.func)
    positional = [node.func.value, *node.args] if meaning is None else node.args
    if meaning not in (None, "torch.masked_fill") or any(isinstance(one, ast.Starred) for one in positional):
        return None
    given = dict(zip(_ARGUMENTS, positional, strict=False))
    given.update((keyword.arg or "", keyword.value) for keyword in node.keywords)
    return given if set(given) == set(_ARGUMENTS) else None


def _tensor_of(mask: ast.expr) -> str | None:
    """The name of the one tensor that a mask is made of: ``y`` of ``~y``, ``y == 0``, ``y.unsqueeze(1)``."""
    if isinstance(mask, ast.Name):
        return mask.id
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return _tensor_of(mask.operand)
    if isinstance(mask, ast.Compare) and all(map(_is_number, mask.comparators)):
        return _tensor_of(mask.left)
    called = mask.func if isinstance(mask, ast.Call) else None
    if isinstance(mask, ast.Call) and isinstance(called, ast.Attribute) and f"aten::{called.attr}" in VIEWS:
        return _tensor_of(called.value) if all(map(_is_number, mask.args)) and not mask.keywords else None
    return None


def _is_number(node: ast.expr) -> bool:
    """A literal, with its sign, or ``float('-inf')``."""
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    called = node.func if isinstance(node, ast.Call) else None
    is_literal = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return is_literal or (isinstance(called, ast.Name) and called.id == "float")


REWRITE = Rewrite(
    ChangeKind.RECIPE,
    write,
    fits=lambda line: line.shown.plain_op == "aten::masked_fill" and not line.shown.is_taken,
    examples=(
        Example("h = x.masked_fill(y == 0, -1e9) * 2", "h = torch.where(y == 0, -1e9, x) * 2"),
        Example("h = torch.masked_fill(x, y, 0)", "h = torch.where(y, 0, x)"),
        Example(
            "h = x.masked_fill(y, -1e4)",
            "h = torch.where(y, torch.full([], -1e4, device=y.device), x)",
            Shown(gradients=True),
        ),
        Example(
            "h = x.masked_fill(y == 0, -1e4)",
            "h = torch.where(y == 0, torch.full([], -1e4, device=y.device), x)",
            Shown(gradients=True),
        ),
        Example(
            "h = x.masked_fill(~y.unsqueeze(1), 0)",
            "h = torch.where(~y.unsqueeze(1), torch.full([], 0, device=y.device), x)",
            Shown(gradients=True),
        ),
        # Which of two tensors the mask's device is does not show.
        Example("h = x.masked_fill(y > z, -1e4)", None, Shown(gradients=True)),
        Example("h = x.masked_fill(torch.isnan(y), -1e4)", None, Shown(gradients=True)),
        Example("h = x.masked_fill(y, z)", "h = torch.where(y, z, x)", Shown(gradients=True), sure=False),
        Example("h = x.masked_fill(*y)", None),
        Example("h = F.masked_fill(x, y, 0)", None),
    ),
)
