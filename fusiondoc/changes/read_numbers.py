"""A tensor instead of the number that is read from it: ``x * scale.item()`` and ``x * float(scale)`` become
``x * scale``. The value is not waited for.

``kept_tensor.py`` does the same where the plan has to be sure of it; this is for the comparison of two runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, on_one_line
from fusiondoc.changes.source_file import ParsedFile, arguments_of, default_of
from fusiondoc.model.change_plan import ChangeKind

_NOTE = "what is computed of it stays on the device, and takes part in gradients"


def numbers_read(file: ParsedFile) -> Iterator[ast.Call]:
    """The calls of a file that read a number which something is computed of."""
    for node in file.nodes:
        if not isinstance(node, ast.Call) or _tensor_read(file, node) is None:
            continue
        if isinstance(file.parent(node), (ast.BinOp, ast.Assign)):
            yield node


def without_reading(file: ParsedFile, node: ast.Call) -> Rewritten:
    """The tensor in the place of such a call."""
    tensor = _tensor_read(file, node)
    assert tensor is not None
    title = on_one_line(f"{file.text(tensor)} instead of {file.text(node)}")
    start, end = file.span(tensor)
    first, last = file.span(node)
    spans = ((first, start), (end, last))
    edits = tuple(file.removed(*span) for span in spans if span[0] < span[1])
    return Rewritten(title, edits, note=_NOTE, lines=(file.line(node),))


def write(line: Line) -> Iterator[Rewritten]:
    """One for each number that is read on the line."""
    for node in numbers_read(line.file):
        if line.file.line(node) == line.number:
            yield without_reading(line.file, node)


def _tensor_read(file: ParsedFile, node: ast.Call) -> ast.expr | None:
    """The tensor of which ``scale.item()`` or ``float(scale)`` reads the number."""
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "item" and not (node.args or node.keywords):
        return called.value
    if isinstance(called, ast.Name) and called.id == "float" and len(node.args) == 1:
        tensor = node.args[0]
        return tensor if isinstance(tensor, ast.Name) and _is_argument(file, tensor) else None
    return None


def _is_argument(file: ParsedFile, node: ast.Name) -> bool:
    """Whether it may be a tensor that the function is given."""
    function = file.function_of(node)
    if function is None:
        return False
    for argument in arguments_of(function):
        if argument.arg == node.id and default_of(function, argument) is None:
            kind = argument.annotation
            return kind is None or file.text(kind).rpartition(".")[2] == "Tensor"
    return False


REWRITE = Rewrite(
    ChangeKind.NUMBER,
    write,
    (
        Example("h = x * y.item()", "h = x * y"),
        Example("h = x * float(y)", "h = x * y"),
        Example("for _ in range(y.item()):\n    x = x + 1", None),
        Example("def f(x, n: int):\n    return x * float(n)\n", None, line=2, whole=True),
    ),
)
