"""``x.masked_fill(mask == 0, -1e9)`` -> ``torch.where(mask == 0, -1e9, x)``: a number is as good as a tensor
there (the overload ScalarSelf of aten::where, in 1.12 to 2.13).
"""

from __future__ import annotations

import ast

from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind


def write(line: Line) -> list[Rewritten]:
    """The calls of a line, written so."""
    return masked_fill(line.file, line.number, line.as_tensor)


_ARGUMENTS = ("input", "mask", "value")


def masked_fill(file: ParsedFile, line: int, as_tensor: bool, only_numbers: bool = False) -> list[Rewritten]:
    """The calls of a line, written so.

    Args:
        as_tensor: a number becomes a tensor: not every fuser has a rule for that overload, and torch no
            gradient formula. The tensor is made on the mask's device, which has to have a name.
        only_numbers: a value that is no literal number is left: it is not known whether it is a tensor.
    """
    found = []
    for node in file.on_line(line):
        if isinstance(node, ast.Call):
            made = _rewritten(file, node, as_tensor, only_numbers)
            found += [made] if made is not None else []
    return found


def _rewritten(file: ParsedFile, node: ast.Call, as_tensor: bool, only_numbers: bool) -> Rewritten | None:
    given = _arguments(file, node)
    if given is None or (only_numbers and not _is_number(given["value"])):
        return None
    torch, imports = spelled(file, "torch")
    mask, value, tensor = (file.whole(given[name]) for name in ("mask", "value", "input"))
    if as_tensor and _is_number(given["value"]):
        if not isinstance(given["mask"], ast.Name):
            return None
        # The mask's device: that of the tensor itself would keep its producer out of the group (FD227).
        value = f"{torch}.full([], {value}, device={mask}.device)"
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
    (
        Example("h = x.masked_fill(y == 0, -1e9) * 2", "h = torch.where(y == 0, -1e9, x) * 2"),
        Example("h = torch.masked_fill(x, y, 0)", "h = torch.where(y, 0, x)"),
        Example(
            "h = x.masked_fill(y, -1e4)",
            "h = torch.where(y, torch.full([], -1e4, device=y.device), x)",
            as_tensor=True,
        ),
        Example("h = x.masked_fill(y == 0, -1e4)", None, as_tensor=True),  # the mask would be computed twice
        Example("h = x.masked_fill(*y)", None),
        Example("h = F.masked_fill(x, y, 0)", None),
    ),
)
