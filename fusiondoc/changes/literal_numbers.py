"""Use a number instead of a tensor made from it: ``x * torch.tensor(0.5,
device=x.device)`` becomes ``x * 0.5``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
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
    """Yield the rewrite of such a tensor."""
    file = line.file
    value = _number_of(file, node)
    if value is not None:
        text = file.text(value)
        title = on_one_line(f"{text} instead of {file.text(node)}")
        yield Rewritten(title, (file.replaced(node, text),))


def _number_of(file: ParsedFile, node: ast.AST) -> ast.expr | None:
    """The literal number from which a call makes a tensor."""
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    if file.meaning(node.func) not in ("torch.tensor", "torch.scalar_tensor"):
        return None
    if any(option.arg not in ("device", "dtype") for option in node.keywords):
        return None
    value = node.args[0]
    is_number = isinstance(value, ast.Constant) and type(value.value) in (
        int,
        float,
    )
    if is_number:
        return value
    return None


REWRITE = Rewrite(
    ChangeKind.NUMBER,
    partial(in_all_calls, write),
    fits=lambda line: line.shown.op in ("aten::tensor", "aten::scalar_tensor"),
    examples=(
        Example(
            "h = x * torch.tensor(0.5, device=x.device)",
            "h = x * 0.5",
            Shown("aten::tensor"),
        ),
        Example(
            "h = x * torch.tensor(0.5) + torch.tensor(2)",
            "h = x * 0.5 + 2",
            Shown("aten::tensor"),
        ),
        Example("h = torch.tensor([0.5])", None, Shown("aten::tensor")),
        Example("h = torch.tensor(y)", None, Shown("aten::tensor")),
        Example(
            "h = torch.tensor(0.5, requires_grad=True)", None, Shown("aten::tensor")
        ),
    ),
)
