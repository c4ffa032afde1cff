"""A number that ``torch.where`` chooses, written as a number, or as a tensor where
fusers and gradients need one."""

from __future__ import annotations

import ast

from fusiondoc.changes.assigned_names import assigned_last, is_argument
from fusiondoc.changes.rewrite import Shown
from fusiondoc.changes.source_file import ParsedFile, arguments_of, dotted
from fusiondoc.fusers import facts_of
from fusiondoc.operators import ELEMENTWISE, VIEWS


def needs_tensor(shown: Shown) -> bool:
    """True if the number has to be a tensor: not every fuser has a rule for the
    overload with a number, and torch has no gradient formula for it."""
    return (
        shown.gradients or facts_of(shown.fuser).limits.numbers_for_tensors is False
    )


def is_number(node: ast.expr) -> bool:
    """True for a literal, with its sign, or ``float('-inf')``."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    called = node.func if isinstance(node, ast.Call) else None
    is_literal = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return is_literal or (isinstance(called, ast.Name) and called.id == "float")


def is_given_number(file: ParsedFile, node: ast.expr) -> bool:
    """True for an argument of the function that is annotated as a number and never
    reassigned."""
    function = file.function_of(node)
    if (
        function is None
        or not isinstance(node, ast.Name)
        or not is_argument(file, node)
    ):
        return False
    kinds = []
    for one in arguments_of(function):
        if one.arg == node.id:
            kinds.append(dotted(one.annotation))
    return kinds in (["float"], ["int"])


def number_as_tensor(
    file: ParsedFile, torch: str, number: str, mask: ast.expr
) -> str | None:
    """Return an expression that makes a tensor of a number on the device of a mask;
    None if the text shows no argument that is a tensor on that device.

    The device of a tensor that the function computes would keep its producer out of
    the group (FD227).

    Args:
        torch: how the file names torch.
    """
    device = _device(file, mask)
    if device is None:
        return None
    return f"{torch}.full([], {number}, device={device})"


def _device(file: ParsedFile, mask: ast.expr) -> str | None:
    """The device of the argument or attribute that a mask is computed from (``y``
    of ``~y``, ``y == 0``, ``y.unsqueeze(1)``), or the device on which it is
    created: ``torch.arange(n, device=x.device) < y``."""
    if isinstance(mask, ast.Name):
        return _behind_name(file, mask)
    if isinstance(mask, ast.Attribute):
        if _is_of_self(mask):
            return f"{file.text(mask)}.device"
        return None
    if isinstance(mask, ast.UnaryOp):
        return _device(file, mask.operand)
    if isinstance(mask, ast.Subscript):
        return _device(file, mask.value)
    if isinstance(mask, ast.Compare):
        return _of_comparison(file, mask)
    if isinstance(mask, ast.BinOp):
        return _device(file, mask.right if is_number(mask.left) else mask.left)
    if isinstance(mask, ast.Call):
        return _behind_call(file, mask)
    return None


def _of_comparison(file: ParsedFile, mask: ast.Compare) -> str | None:
    """The device of a comparison. Of two arguments it is not known which has the
    mask's device, as one may be a scalar tensor on the host; a tensor with
    dimensions has it."""
    if all(map(_is_no_argument, mask.comparators)):
        return _device(file, mask.left)
    made = (_made_on(file, one) for one in (mask.left, *mask.comparators))
    return next((device for device in made if device is not None), None)


def _behind_name(file: ParsedFile, name: ast.Name) -> str | None:
    """The device of a name, by the last assignment above it, if there is one."""
    assigned = assigned_last(file, name)
    if assigned is not None:
        return _device(file, assigned)
    if is_argument(file, name):
        return f"{name.id}.device"
    return None


def _behind_call(file: ParsedFile, call: ast.Call) -> str | None:
    """The device of ``y.unsqueeze(1)`` or ``y.abs()``, whose other arguments are
    numbers; and of a call that creates a tensor."""
    made = _made_on(file, call)
    called = call.func
    if (
        made is not None
        or not isinstance(called, ast.Attribute)
        or file.meaning(called) is not None
    ):
        return made
    op = f"aten::{called.attr}"
    only_numbers = all(map(is_number, call.args)) and not call.keywords
    keeps = op in VIEWS or (
        only_numbers and (op in ELEMENTWISE or called.attr in _CASTS)
    )
    if keeps:
        return _device(file, called.value)
    return None


_CASTS = ("bool", "float", "long", "int")
_TRIANGLES = ("torch.triu", "torch.tril")
_MAKERS = (
    "torch.arange",
    "torch.ones",
    "torch.zeros",
    "torch.full",
    "torch.linspace",
)


def _made_on(file: ParsedFile, node: ast.expr) -> str | None:
    """The device on which a tensor with dimensions is created: ``x.device`` of an
    argument or attribute, from ``torch.ones(t, t, device=x.device)``, or a
    triangle, a view or a part of that."""
    if isinstance(node, ast.Name):
        assigned = assigned_last(file, node)
        if assigned is None:
            return None
        return _made_on(file, assigned)
    if isinstance(node, ast.Subscript):
        if _keeps_dimensions(node.slice):
            return _made_on(file, node.value)
        return None
    if isinstance(node, ast.Call):
        return _made_by_call(file, node)
    return None


def _made_by_call(file: ParsedFile, call: ast.Call) -> str | None:
    """The same for a call."""
    meaning = file.meaning(call.func)
    if meaning in _TRIANGLES and call.args:
        return _made_on(file, call.args[0])
    if meaning in _MAKERS and call.args:
        device = None
        for given in call.keywords:
            if given.arg == "device":
                device = given.value
                break
        if device is not None and _is_given(file, device):
            return file.text(device)
        return None
    called = call.func
    if meaning is not None or not isinstance(called, ast.Attribute):
        return None
    keeps = f"aten::{called.attr}" in VIEWS or called.attr in _CASTS
    if keeps:
        return _made_on(file, called.value)
    return None


def _keeps_dimensions(index: ast.expr) -> bool:
    """True if the part of a tensor has no fewer dimensions: ``[None, :]``."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        isinstance(part, ast.Slice)
        or (isinstance(part, ast.Constant) and part.value in (None, ...))
        for part in parts
    )


def _is_given(file: ParsedFile, device: ast.expr) -> bool:
    """True for ``x.device`` where ``x`` is an argument or an attribute of
    ``self``."""
    if not isinstance(device, ast.Attribute) or device.attr != "device":
        return False
    tensor = device.value
    if isinstance(tensor, ast.Name):
        return is_argument(file, tensor)
    return isinstance(tensor, ast.Attribute) and _is_of_self(tensor)


def _is_no_argument(node: ast.expr) -> bool:
    """True if a comparator is a number or an attribute: of two arguments it is not
    known which has the device of the mask."""
    return is_number(node) or (
        isinstance(node, ast.Attribute) and _is_of_self(node)
    )


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
