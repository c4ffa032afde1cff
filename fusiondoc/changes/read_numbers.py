"""Use a tensor instead of the number that is read from it: ``limit =
a.max().item()`` becomes ``limit = a.max()``, and ``x * float(scale)`` becomes ``x *
scale``. The program then does not wait for the value.

It is certainly harmless if the tensor has no dimensions and every use of the number
computes with a tensor or prints it; else a comparison of two runs has to show it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.printed_later import is_print
from fusiondoc.changes.rewrite import (
    Example,
    Line,
    Rewrite,
    Rewritten,
    Shown,
    on_one_line,
)
from fusiondoc.changes.source_file import (
    Function,
    ParsedFile,
    arguments_of,
    default_of,
    dotted,
    names_in,
    walk,
)
from fusiondoc.fusers import is_fusible
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import NAMES_OF_REDUCTIONS


def write(line: Line) -> Iterator[Rewritten]:
    """Yield a rewrite for each number that the line reads, directly or through a
    name."""
    for read in dict.fromkeys(_numbers_at(line.file, line.number)):
        yield tensor_instead(line.file, read, line.shown.gradients)


def numbers_read(file: ParsedFile) -> Iterator[ast.Call]:
    """The calls of a file that read a number which is then used in a
    computation."""
    for node in file.nodes:
        if not isinstance(node, ast.Call) or _tensor_read(file, node) is None:
            continue
        if isinstance(file.parent(node), (ast.BinOp, ast.Assign)):
            yield node


def tensor_instead(file: ParsedFile, read: ast.Call, gradients: bool) -> Rewritten:
    """Replace such a call by its tensor.

    Args: gradients: True if gradients are recorded. As a number takes no part in
        them, a rewrite that is sure then detaches the tensor.
    """
    uses = _uses(file, read)
    exact = None
    if uses and _is_of_reduction(read):
        exact = _exactly(file, read, uses, gradients)
    return exact or _without_reading(file, read)


_NOTE = "what is computed of it stays on the device, and takes part in gradients"


def _without_reading(file: ParsedFile, read: ast.Call) -> Rewritten:
    """Replace the call by its tensor alone."""
    tensor = _tensor_read(file, read)
    assert tensor is not None
    title = on_one_line(f"{file.text(tensor)} instead of {file.text(read)}")
    start, end = file.span(tensor)
    first, last = file.span(read)
    spans = ((first, start), (end, last))
    edits = tuple(file.removed(*span) for span in spans if span[0] < span[1])
    return Rewritten(title, edits, note=_NOTE, lines=(file.line(read),), sure=False)


# -- numbers and their uses ----------------------------------------------------------------------------------


def _numbers_at(file: ParsedFile, line: int) -> Iterator[ast.Call]:
    """The calls whose number a line uses."""
    for node in file.on_line(line):
        function = file.function_of(node)
        if function is None:
            continue
        if isinstance(node, ast.Call) and _tensor_read(file, node) is not None:
            if isinstance(file.parent(node), ast.BinOp):
                yield node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            made = _set_once(file, function, node.id)
            if (
                made is not None
                and isinstance(made.value, ast.Call)
                and _tensor_read(file, made.value)
            ):
                yield made.value


def _set_once(file: ParsedFile, function: Function, name: str) -> ast.Assign | None:
    """The only statement of a function that assigns a name."""
    stores = []
    for use in names_in(function, name):
        if not isinstance(use.ctx, ast.Load):
            stores.append(use)
    made = file.parent(stores[0]) if len(stores) == 1 else None
    if isinstance(made, ast.Assign) and made.targets == stores:
        return made
    return None


def _uses(file: ParsedFile, read: ast.Call) -> Sequence[ast.expr]:
    """All uses of a number: an operand, or the uses of the name that holds it;
    empty if they are not known."""
    above, function = file.parent(read), file.function_of(read)
    if isinstance(above, ast.BinOp):
        return [read]
    target = above.targets[0] if isinstance(above, ast.Assign) else None
    if not isinstance(target, ast.Name) or function is None:
        return []
    if _set_once(file, function, target.id) is not above:
        return []
    return [use for use in names_in(function, target.id) if use is not target]


def _tensor_read(file: ParsedFile, node: ast.Call) -> ast.expr | None:
    """The tensor from which ``scale.item()`` or ``float(scale)`` reads the
    number."""
    called = node.func
    if (
        isinstance(called, ast.Attribute)
        and called.attr == "item"
        and not (node.args or node.keywords)
    ):
        return called.value
    if (
        isinstance(called, ast.Name)
        and called.id == "float"
        and len(node.args) == 1
    ):
        tensor, function = node.args[0], file.function_of(node)
        if (
            isinstance(tensor, ast.Name)
            and function is not None
            and _is_argument_for_tensor(function, tensor.id)
        ):
            return tensor
    return None


# -- sure to do no harm --------------------------------------------------------------------------------------


def _is_of_reduction(node: ast.Call) -> bool:
    """True for ``x.max().item()`` and ``torch.max(x).item()``, which read a tensor
    without dimensions."""
    func = node.func
    if not isinstance(func, ast.Attribute) or node.lineno != node.end_lineno:
        return False
    reduction = func.value
    if not isinstance(reduction, ast.Call) or not isinstance(
        reduction.func, ast.Attribute
    ):
        return False
    arguments = 1 if dotted(reduction.func.value) == "torch" else 0
    plain = len(reduction.args) == arguments and not reduction.keywords
    return plain and reduction.func.attr in NAMES_OF_REDUCTIONS


def _exactly(
    file: ParsedFile, read: ast.Call, uses: Sequence[ast.expr], gradients: bool
) -> Rewritten | None:
    """Replace the number by the tensor, and by its number again where it is
    printed; None if another use needs a number."""
    function, tensor = file.function_of(read), _tensor_read(file, read)
    assert tensor is not None and function is not None
    text = file.text(tensor)
    after = f"{text}.detach()" if gradients else text
    edits = [file.replaced(read, after)]
    for use in uses:
        call = file.call_of_argument(use)
        if (
            call is not None
            and use in call.args
            and is_print(call)
            and dotted(call.func) == "print"
        ):
            edits.append(file.inserted(file.span(use)[1], ".item()"))
        elif not _computes_with_tensor(file, function, use):
            return None
    return Rewritten.expression(f"{text}.item()", after, edits)


def _computes_with_tensor(
    file: ParsedFile, function: Function, use: ast.expr
) -> bool:
    """True if a number is added to, subtracted from, multiplied with or divided by
    a tensor."""
    above = file.parent(use)
    if not isinstance(above, ast.BinOp) or not isinstance(
        above.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)
    ):
        return False
    return _is_tensor(function, above.right if above.left is use else above.left)


def _is_tensor(function: Function, node: ast.expr, deep: int = 6) -> bool:
    """True if an expression is certainly a tensor: an argument without annotation,
    or computed from tensors."""
    if not deep:
        return False
    if isinstance(node, ast.BinOp):
        return _is_tensor(function, node.left, deep - 1) or _is_tensor(
            function, node.right, deep - 1
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        computes = is_fusible(f"aten::{node.func.attr}")
        if dotted(node.func.value) in ("torch", "F", "torch.nn.functional"):
            return computes
        return computes and _is_tensor(function, node.func.value, deep - 1)
    return isinstance(node, ast.Name) and _is_name_of_tensor(
        function, node.id, deep
    )


def _is_name_of_tensor(function: Function, name: str, deep: int) -> bool:
    """True if a name is an argument without annotation, or if only tensors are
    assigned to it."""
    values = []
    for node in walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            assert isinstance(node, ast.Assign)
            values.append(node.value)
    stores = []
    for one in names_in(function, name):
        if isinstance(one.ctx, ast.Store):
            stores.append(one)
    if len(stores) != len(values):
        return False
    if values:
        return all(_is_tensor(function, value, deep - 1) for value in values)
    return _is_argument_for_tensor(function, name)


def _is_argument_for_tensor(function: Function, name: str) -> bool:
    """True if a name is an argument that is no number by its annotation or
    default."""
    argument = None
    for one in arguments_of(function):
        if one.arg == name:
            argument = one
            break
    if (
        argument is None
        or name == "self"
        or default_of(function, argument) is not None
    ):  # it may be a number
        return False
    kind = argument.annotation
    return kind is None or (dotted(kind) or "").rpartition(".")[2] == "Tensor"


def _example(
    behind: str, after: str, kept: str = "x.max()", gradients: bool = False
) -> Example:
    """An example with a number that the lines ``behind`` read as ``n``."""
    lines = f"n = x.max().item()\n{behind}"
    return Example(
        lines,
        f"n = {kept}\n{after}",
        Shown(gradients=gradients),
        lines.count("\n") + 1,
    )


REWRITE = Rewrite(
    ChangeKind.NUMBER,
    write,
    (
        _example("return y * n", "return y * n"),
        _example(
            "return y * n", "return y * n", "x.max().detach()", gradients=True
        ),
        _example("print(n)\nreturn y * n", "print(n.item())\nreturn y * n"),
        Example("h = x * y.item()", "h = x * y", sure=False),
        Example("h = x * float(y)", "h = x * y", sure=False),
        Example(
            "n = x.max().item()\ny = y * n\nreturn n",
            "n = x.max()\ny = y * n\nreturn n",
            line=2,
            sure=False,
        ),
        Example("for _ in range(y.item()):\n    x = x + 1", None),
        Example(
            "def f(x, n: int):\n    return x * float(n)\n", None, line=2, whole=True
        ),
    ),
)
