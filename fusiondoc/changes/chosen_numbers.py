"""A number that ``torch.where`` chooses: as it is, or as a tensor where fusers and gradients need one."""

from __future__ import annotations

import ast

from fusiondoc.changes.assigned_names import assigned_last
from fusiondoc.changes.rewrite import Shown
from fusiondoc.changes.source_file import ParsedFile, arguments_of
from fusiondoc.fusers import facts_of
from fusiondoc.operators import ELEMENTWISE, VIEWS


def needs_tensor(shown: Shown) -> bool:
    """Whether the number has to be a tensor: not every fuser has a rule for the overload of a number, and
    torch has no gradient formula for it."""
    return shown.gradients or facts_of(shown.fuser).limits.numbers_for_tensors is False


def is_number(node: ast.expr) -> bool:
    """A literal, with its sign, or ``float('-inf')``."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    called = node.func if isinstance(node, ast.Call) else None
    is_literal = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return is_literal or (isinstance(called, ast.Name) and called.id == "float")


def number_as_tensor(file: ParsedFile, torch: str, number: str, mask: ast.expr) -> str | None:
    """An expression that makes a tensor of a number on the device of a mask; None where the text does not
    show a tensor of that device that the function is given.

    The device of a tensor that the function computes would keep its producer out of the group (FD227).

    Args:
        torch: how the file names torch.
    """
    made_of = _given_tensor(file, mask)
    return None if made_of is None else f"{torch}.full([], {number}, device={made_of}.device)"


def _given_tensor(file: ParsedFile, mask: ast.expr) -> str | None:
    """The argument or attribute that a mask is made of: ``y`` of ``~y``, ``y == 0``, ``y.unsqueeze(1)``."""
    if isinstance(mask, ast.Name):
        return _behind_name(file, mask)
    if isinstance(mask, ast.Attribute):
        return file.text(mask) if _is_of_self(mask) else None
    if isinstance(mask, ast.UnaryOp):
        return _given_tensor(file, mask.operand)
    if isinstance(mask, ast.Subscript):
        return _given_tensor(file, mask.value)
    if isinstance(mask, ast.Compare) and all(map(_is_no_argument, mask.comparators)):
        return _given_tensor(file, mask.left)
    if isinstance(mask, ast.BinOp):
        return _given_tensor(file, mask.right if is_number(mask.left) else mask.left)
    return _behind_call(file, mask) if isinstance(mask, ast.Call) else None


def _behind_name(file: ParsedFile, name: ast.Name) -> str | None:
    """The same of a name: by the last assignment above it, if there is one."""
    assigned = assigned_last(file, name)
    if assigned is not None:
        return _given_tensor(file, assigned)
    function = file.function_of(name)
    given = [argument.arg for argument in arguments_of(function)] if function is not None else []
    return name.id if name.id in given else None


def _behind_call(file: ParsedFile, call: ast.Call) -> str | None:
    """The same of ``y.unsqueeze(1)`` or ``y.abs()``, whose other arguments are numbers."""
    called = call.func
    if not isinstance(called, ast.Attribute) or file.meaning(called) is not None:
        return None
    same_device = f"aten::{called.attr}" in VIEWS | ELEMENTWISE
    only_numbers = all(map(is_number, call.args)) and not call.keywords
    return _given_tensor(file, called.value) if same_device and only_numbers else None


def _is_no_argument(node: ast.expr) -> bool:
    """Whether a comparator is a number or an attribute: of two arguments it does not show which has the
    device of the mask."""
    return is_number(node) or (isinstance(node, ast.Attribute) and _is_of_self(node))


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
