"""``x.masked_fill(mask == 0, -1e9)`` -> ``torch.where(mask == 0, -1e9, x)``: a
number is accepted like a tensor there (the overload ScalarSelf of aten::where, in
1.12 to 2.13). So is ``x.masked_fill_(mask, -1e9)``, where nothing else can see that
``x`` changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.chosen_numbers import (
    is_number,
    needs_tensor,
    number_as_tensor,
)
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.out_of_place import assigned_name, is_method_in_place
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind

_ARGUMENTS = ("input", "mask", "value")


def write(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """Yield the rewrite of a call. Whether a value that is no literal number is a
    tensor cannot be seen in the text."""
    as_tensor = needs_tensor(line.shown)
    given = _arguments(line.file, node) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and given is not None:
        made = _rewritten(line.file, node, given, as_tensor)
        if made is not None:
            yield replace(made, sure=not as_tensor or is_number(given["value"]))


def _rewritten(
    file: ParsedFile, node: ast.Call, given: Mapping[str, ast.expr], as_tensor: bool
) -> Rewritten | None:
    """Rewrite one call.

    Args: as_tensor: convert a number to a tensor, on the device of the one tensor
        that the mask is computed from.
    """
    torch, imports = spelled(file, "torch")
    mask, value, tensor = (
        file.whole_written(given[name]) for name in ("mask", "value", "input")
    )
    if as_tensor and is_number(given["value"]):
        made = number_as_tensor(file, torch, value, given["mask"])
        if made is None:
            return None
        value = made
    assigned = assigned_name(file, node) if is_method_in_place(node) else ""
    if assigned is None:
        return None
    if tensor.startswith("(") and isinstance(given["input"], ast.BinOp):
        tensor = file.written(given["input"])
    text = f"{assigned}{torch}.where({mask}, {value}, {tensor})"
    return Rewritten.expression(
        file.text(node), text, (*imports, file.replaced(node, text))
    )


def _arguments(file: ParsedFile, node: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of ``x.masked_fill(mask, value)`` or ``torch.masked_fill(x,
    mask, value)`` by their names; also of the in-place method."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in (
        "masked_fill",
        "masked_fill_",
    ):
        return None
    meaning = file.meaning(node.func)
    positional = [node.func.value, *node.args] if meaning is None else node.args
    if meaning not in (None, "torch.masked_fill") or any(
        isinstance(one, ast.Starred) for one in positional
    ):
        return None
    given = dict(zip(_ARGUMENTS, positional, strict=False))
    given.update((keyword.arg or "", keyword.value) for keyword in node.keywords)
    if set(given) == set(_ARGUMENTS):
        return given
    return None


_IN_PLACE = Shown("aten::masked_fill_")

REWRITE = Rewrite(
    ChangeKind.RECIPE,
    partial(in_all_calls, write),
    fits=lambda line: (
        line.shown.plain_op == "aten::masked_fill" and not line.shown.is_taken
    ),
    examples=(
        Example(
            "h = x.masked_fill(y == 0, -1e9) * 2",
            "h = torch.where(y == 0, -1e9, x) * 2",
        ),
        Example(
            "h = x.masked_fill(y, 0) + z.masked_fill(y, 1)",
            "h = torch.where(y, 0, x) + torch.where(y, 1, z)",
        ),
        Example(
            "h = (x.masked_fill(y, 0) + 1).masked_fill(z, 1)",
            "h = torch.where(z, 1, torch.where(y, 0, x) + 1)",
        ),
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
        Example(
            "m = torch.triu(torch.ones(4, 4, device=x.device), 1) > 0\nh = x.masked_fill(m, -1e4)",
            "m = torch.triu(torch.ones(4, 4, device=x.device), 1) > 0\n"
            "h = torch.where(m, torch.full([], -1e4, device=x.device), x)",
            Shown(gradients=True),
            2,
        ),
        Example(
            "h = x.masked_fill(torch.arange(4, device=y.device)[None, :] < z.unsqueeze(1), 0)",
            "h = torch.where(torch.arange(4, device=y.device)[None, :] < z.unsqueeze(1),"
            " torch.full([], 0, device=y.device), x)",
            Shown(gradients=True),
        ),
        Example(
            "h = x.masked_fill(torch.arange(4, device=y.device)[0] < z, 0)",
            None,
            Shown(gradients=True),
        ),
        # The text does not show which of two tensors has the mask's device.
        Example("h = x.masked_fill(y > z, -1e4)", None, Shown(gradients=True)),
        Example(
            "h = x.masked_fill(torch.isnan(y), -1e4)", None, Shown(gradients=True)
        ),
        Example(
            "h = x.masked_fill(y, z)",
            "h = torch.where(y, z, x)",
            Shown(gradients=True),
            sure=False,
        ),
        Example(
            "x = x * 2\nx.masked_fill_(y, -1e9)",
            "x = x * 2\nx = torch.where(y, -1e9, x)",
            _IN_PLACE,
            2,
        ),
        Example(
            "h = (x * 2).masked_fill_(y, 0)",
            "h = torch.where(y, 0, x * 2)",
            _IN_PLACE,
        ),
        Example("h = x.masked_fill_(y, 0)\nreturn h + x", None, _IN_PLACE),
        Example("self.s.masked_fill_(y, 0)", None, _IN_PLACE),
        Example("h = x.masked_fill(*y)", None),
        Example("h = F.masked_fill(x, y, 0)", None),
    ),
)
