"""``x.to(y.dtype)`` -> ``x.type_as(y)``: then no dtype has to be a constant, and
the type of the tensor is known. The plan shows whether the ``y`` of ``x.to(y)`` is
a tensor: a dtype or a device is none of the types. ``x.type(y.dtype)`` is the same
operator; of ``x.to(y.device, y.dtype)`` type_as takes both from ``y``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
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


def write(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """Yield the rewrite of a call of ``to`` or ``type`` with the dtype of a
    tensor."""
    file = line.file
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or node.func.attr not in _CALLS
    ):
        return
    like = _like(file, node, len(line.shown.types))
    if like is None:
        return
    edit = TextEdit(file.source.path, *_method_call(file, node), f"type_as({like})")
    title = on_one_line(f"{file.text(node)} as type_as({like})")
    is_dtype = ".dtype" in file.text(node)[len(file.text(node.func)) :]
    yield Rewritten(title, (edit,), sure=is_dtype or len(line.shown.types) > 1)


_CALLS = ("to", "type")


def _like(file: ParsedFile, node: ast.Call, tensors: int) -> str | None:
    """The tensor whose dtype a call uses."""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if len(node.args) + len(given) == 2:
        first, second = [*node.args, *given.values()]
        device = given.get("device", first)
        dtype = given.get("dtype", second)
        both = _owner_of(file, device, "device"), _owner_of(file, dtype, "dtype")
        if device is not dtype and both[0] == both[1]:
            return both[0]
        return None
    if len(node.args) + len(given) != 1 or not {"dtype", "other"}.issuperset(given):
        return None
    value = next(iter([*node.args, *given.values()]))
    owner = _owner_of(file, value, "dtype")
    if owner is not None:
        return owner
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    is_tensor = (
        isinstance(value, ast.Name)
        and called == "to"
        and "dtype" not in given
        and tensors != 1
    )
    if is_tensor:
        return file.written(value)
    return None


def _owner_of(file: ParsedFile, value: ast.expr, name: str) -> str | None:
    """Return ``y`` for ``y.dtype``; None for ``torch.dtype``."""
    is_of_one = (
        isinstance(value, ast.Attribute)
        and value.attr == name
        and file.meaning(value) is None
    )
    if is_of_one and isinstance(value, ast.Attribute):
        return file.written(value.value)
    return None


def _method_call(file: ParsedFile, node: ast.Call) -> tuple[int, int]:
    """The span of ``to(y)`` in ``x.to(y)``."""
    assert isinstance(node.func, ast.Attribute)
    return file.span(node.func)[1] - len(node.func.attr), file.span(node)[1]


_FLOAT = "Float(4, strides=[1])"

REWRITE = Rewrite(
    ChangeKind.DTYPE,
    partial(in_all_calls, write),
    fits=lambda line: line.shown.op == "aten::to",
    examples=(
        Example(
            "h = x.to(y.dtype) * z.to(y.dtype)",
            "h = x.type_as(y) * z.type_as(y)",
            Shown("aten::to"),
        ),
        Example("h = x.to(y.dtype)", "h = x.type_as(y)", Shown("aten::to")),
        Example("h = x.to(dtype=y.dtype)", "h = x.type_as(y)", Shown("aten::to")),
        Example("h = x.type(y.dtype)", "h = x.type_as(y)", Shown("aten::to")),
        Example(
            "h = x.to(y.device, y.dtype)", "h = x.type_as(y)", Shown("aten::to")
        ),
        Example(
            "h = x.to(device=y.device, dtype=y.dtype)",
            "h = x.type_as(y)",
            Shown("aten::to"),
        ),
        Example(
            "h = x.to(dtype=y.dtype, device=y.device)",
            "h = x.type_as(y)",
            Shown("aten::to"),
        ),
        Example(
            "h = x.to(y)",
            "h = x.type_as(y)",
            Shown("aten::to", types=(_FLOAT, _FLOAT)),
        ),
        Example("h = x.to(y)", "h = x.type_as(y)", Shown("aten::to"), sure=False),
        Example(
            "h = x.to(y)", None, Shown("aten::to", types=(_FLOAT,))
        ),  # y is a dtype
        Example(
            "h = x.to(y.to(z.dtype).dtype)",
            "h = x.type_as(y.type_as(z))",
            Shown("aten::to"),
        ),
        Example("h = x.to(torch.half)", None, Shown("aten::to")),
        Example("h = x.to(y.device)", None, Shown("aten::to")),
        Example("h = x.to(y.dtype, True)", None, Shown("aten::to")),
        Example("h = x.to(y.device, z.dtype)", None, Shown("aten::to")),
        Example('h = x.type("torch.FloatTensor")', None, Shown("aten::to")),
    ),
)
