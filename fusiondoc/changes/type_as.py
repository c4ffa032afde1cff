"""``x.to(y.dtype)`` -> ``x.type_as(y)``: no dtype as a constant, and the type of a tensor is known. The plan
shows whether the ``y`` of ``x.to(y)`` is a tensor: a dtype or a device is none of the types.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.edits import Edit
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown, on_one_line
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind


def write(line: Line) -> Iterator[Rewritten]:
    """One for each call of ``to`` that takes the dtype of a tensor."""
    file = line.file
    for node in file.on_line(line.number):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            like = _like(file, node, len(line.shown.types))
            if like is not None:
                edit = Edit(file.source.path, *_method_call(file, node), f"type_as({like})")
                title = on_one_line(f"{file.text(node)} as type_as({like})")
                is_dtype = file.text(node).rstrip(" )").endswith(".dtype")
                yield Rewritten(title, (edit,), sure=is_dtype or len(line.shown.types) > 1)


def _like(file: ParsedFile, node: ast.Call, tensors: int) -> str | None:
    """The tensor of which a call of ``to`` takes the dtype."""
    if len(node.args) + len(node.keywords) != 1:
        return None
    keyword = node.keywords[0].arg if node.keywords else ""
    given = node.keywords[0].value if node.keywords else node.args[0]
    if keyword not in ("", "dtype", "other"):
        return None
    if isinstance(given, ast.Attribute) and given.attr == "dtype" and file.meaning(given) is None:
        return file.text(given.value)
    is_tensor = isinstance(given, ast.Name) and keyword != "dtype" and tensors != 1
    return file.text(given) if is_tensor else None


def _method_call(file: ParsedFile, node: ast.Call) -> tuple[int, int]:
    """The characters of ``to(y)`` in ``x.to(y)``."""
    assert isinstance(node.func, ast.Attribute)
    return file.span(node.func)[1] - len(node.func.attr), file.span(node)[1]


_FLOAT = "Float(4, strides=[1])"

REWRITE = Rewrite(
    ChangeKind.DTYPE,
    write,
    fits=lambda line: line.shown.op == "aten::to",
    each_call=True,
    examples=(
        Example("h = x.to(y.dtype) * z.to(y.dtype)", "h = x.type_as(y) * z.type_as(y)", Shown("aten::to")),
        Example("h = x.to(y.dtype)", "h = x.type_as(y)", Shown("aten::to")),
        Example("h = x.to(dtype=y.dtype)", "h = x.type_as(y)", Shown("aten::to")),
        Example("h = x.to(y)", "h = x.type_as(y)", Shown("aten::to", types=(_FLOAT, _FLOAT))),
        Example("h = x.to(y)", "h = x.type_as(y)", Shown("aten::to"), sure=False),
        Example("h = x.to(y)", None, Shown("aten::to", types=(_FLOAT,))),  # y is a dtype
        Example("h = x.to(torch.half)", None, Shown("aten::to")),
        Example("h = x.to(y.device)", None, Shown("aten::to")),
        Example("h = x.to(y.dtype, True)", None, Shown("aten::to")),
    ),
)
