"""Operators in place written out of place: ``x += y``, ``x.add_(y)``,
``torch.relu_(x)`` and ``F.relu(x, inplace=True)``.

No fuser takes an operator that changes its input, and a differentiable graph ends
before it. A rewrite is refused only if the update is certainly visible elsewhere:
state that outlives the call (an attribute, an element, a global name), and a name
that is read again after ``y = x.add_(1)``, which changes ``x`` too. Other names of
the same tensor (an argument of the caller, a view) cannot be seen in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fusiondoc.changes.assigned_names import outlives_call
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.inserted_lines import spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.operators import (
    FILLS,
    FLAGS,
    VIEWS,
    WITHOUT_PLAIN,
    is_in_place,
    plain_name,
    sign_of,
)
from fusiondoc.operators.signs import NODE_OF_SIGN

_NO_VERSION = frozenset(
    [*map(plain_name, WITHOUT_PLAIN), "apply", "map", "map2", "share_memory"]
)
"""In-place methods of a tensor that have no version without the underscore
(torch.Tensor, 2.13)."""

_OWNERS = ("torch", "torch.nn.functional")

_ATOMS = (
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.Constant,
    ast.JoinedStr,
    ast.List,
)
_PRODUCTS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult, ast.Pow)


def write(line: Line) -> Iterator[Rewritten]:
    """Yield the line with every call of the operator written out of place."""
    edits = out_of_place(line.file, line.number, line.shown.op)
    if edits:
        yield Rewritten(f"{line.shown.op} out of place", edits)


def out_of_place(file: ParsedFile, line: int, op: str) -> tuple[TextEdit, ...]:
    """Return the edits that write every call of an operator on a line out of place;
    empty if that is refused. Args: op: the operator as printed, such as
    ``aten::add_``.
    """
    found: dict[TextEdit, None] = {}
    for node in file.on_line(line):
        if isinstance(node, ast.AugAssign):
            found.update(dict.fromkeys(_augmented(file, node, op)))
        elif isinstance(node, ast.Call):
            found.update(dict.fromkeys(_call(file, node, plain_name(op))))
    return tuple(found)


# -- x += y --------------------------------------------------------------------------------------------------


def _augmented(
    file: ParsedFile, node: ast.AugAssign, op: str
) -> Iterator[TextEdit]:
    """``x += y`` -> ``x = x + y``, for names only: an attribute or element is
    state."""
    sign = sign_of(op)
    if sign is None or not isinstance(node.op, NODE_OF_SIGN[sign]):
        return
    if not isinstance(node.target, ast.Name) or outlives_call(
        file, node, node.target.id
    ):
        return
    start, end = file.span(node.target)[1], file.span(node.value)[0]
    start = file.source.text.index(f"{sign}=", start, end)
    yield TextEdit(
        file.source.path, start, start + len(sign) + 1, f"= {node.target.id} {sign}"
    )
    if not _binds_tighter(file, node.value, sign):
        yield from file.parenthesised(node.value)


def _binds_tighter(file: ParsedFile, value: ast.expr, sign: str) -> bool:
    """True if ``x sign value`` needs no parentheses around the value."""
    if isinstance(value, _ATOMS) or file.is_parenthesised(value):
        return True
    if isinstance(value, ast.Tuple):
        return file.text(value).startswith("(")
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.Not) and sign in ("+", "-", "*", "/")
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, _PRODUCTS)
        and sign in ("+", "-")
    )


# -- calls ---------------------------------------------------------------------------------------------------


def _call(file: ParsedFile, node: ast.Call, name: str) -> Iterator[TextEdit]:
    """Return the edits of an operator's call; ``name`` is the operator's without
    the underscore."""
    owner, _, last = (file.meaning(node.func) or "").rpartition(".")
    if owner in _OWNERS:
        yield from _function(file, node, name, last)
    elif isinstance(node.func, ast.Attribute) and node.func.attr == f"{name}_":
        yield from _method(file, node, name)


def _function(
    file: ParsedFile, node: ast.Call, name: str, called: str
) -> Iterator[TextEdit]:
    """Edit ``torch.relu_(x)`` and ``F.relu(x, inplace=True)``."""
    flag = inplace_flag(node, FLAGS.get(name))
    assigned = _assigned(file, node, node.args[0]) if node.args else None
    if assigned is None:
        return
    if called == f"{name}_":
        yield from (*assigned, *_without_underscore(file, node))
    elif called == name and flag is not None:
        yield from (*assigned, file.replaced(flag, "False"))


def _method(file: ParsedFile, node: ast.Call, name: str) -> Iterator[TextEdit]:
    """``x.add_(y)`` -> ``x = x.add(y)`` if it is a statement, else ``x.add(y)``."""
    if name in _NO_VERSION:
        yield from _filled(file, node, name)
        return
    assigned = _assigned(file, node, _receiver(node))
    if assigned is not None:
        yield from (
            *assigned,
            *_without_underscore(file, _last_in_place(file, node)),
        )


def _filled(file: ParsedFile, node: ast.Call, name: str) -> Iterator[TextEdit]:
    """The statement ``x.zero_()`` -> ``x = torch.zeros_like(x)``; ``x.fill_(v)`` ->
    ``x = torch.full_like(x, v)``."""
    made = FILLS.get(f"aten::{name}_")
    if (
        made is None
        or len(node.args) != made.count("value")
        or not isinstance(node.func, ast.Attribute)
    ):
        return
    tensor = node.func.value
    if not isinstance(tensor, ast.Name) or not isinstance(
        file.parent(node), ast.Expr
    ):
        return
    torch, imports = spelled(file, "torch")
    called = made.partition("(")[0].partition(".")[2]
    values = "".join(f", {file.text(value)}" for value in node.args)
    yield from imports
    yield file.replaced(
        node, f"{tensor.id} = {torch}.{called}({tensor.id}{values})"
    )


def _receiver(node: ast.Call) -> ast.expr:
    """The tensor of the first call of a chain: ``x`` of ``x.add_(y).mul_(z)``."""
    assert isinstance(node.func, ast.Attribute)
    inner = node.func.value
    if isinstance(inner, ast.Call) and is_method_in_place(inner):
        return _receiver(inner)
    return inner


def assigned_name(file: ParsedFile, node: ast.Call) -> str | None:
    """Return ``x = ``, to insert before the replacement of a statement
    ``x.add_(y)``, or "" if the statement uses its result. None if the change of
    ``x`` would be missed later, or continues in the same statement."""
    if _last_in_place(file, node) is not node or _receiver(node) is not getattr(
        node.func, "value", None
    ):
        return None
    edits = _assigned(file, node, _receiver(node))
    if edits is None:
        return None
    return "".join(edit.text for edit in edits)


def is_method_in_place(node: ast.Call) -> bool:
    """True for a call of an in-place method."""
    return isinstance(node.func, ast.Attribute) and is_in_place(node.func.attr)


def assigned_in_place(node: ast.AST) -> ast.expr | None:
    """The tensor, or the part of one, that an assignment changes in place: ``x`` of
    ``x += y``, ``x[0]`` of ``x[0] = y``."""
    if isinstance(node, ast.AugAssign):
        return node.target
    targets = node.targets if isinstance(node, ast.Assign) else ()
    for target in targets:
        if isinstance(target, ast.Subscript):
            return target
    return None


def _last_in_place(file: ParsedFile, node: ast.Call) -> ast.Call:
    """Return the last call of a chain of in-place methods: if only ``x.add_(y)``
    were rewritten, ``mul_`` would change the new tensor."""
    while True:
        method = file.parent(node)
        above = file.parent(method) if isinstance(method, ast.Attribute) else None
        if (
            not isinstance(above, ast.Call)
            or above.func is not method
            or not is_method_in_place(above)
        ):
            return node
        node = above


def _without_underscore(file: ParsedFile, node: ast.Call) -> Iterator[TextEdit]:
    end = file.span(node.func)[1]
    called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if called.rstrip("_") not in _NO_VERSION:
        yield file.removed(end - 1, end)
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    # The rest of a chain: x.add_(y).mul_(z) changes x twice.
    if isinstance(inner, ast.Call) and is_method_in_place(inner):
        yield from _without_underscore(file, inner)


def _assigned(
    file: ParsedFile, node: ast.Call, changed: ast.expr
) -> tuple[TextEdit, ...] | None:
    """Insert ``x = `` before a call that is a statement: its result was discarded.
    No edit if the statement uses the result; None if the difference would be
    visible: the tensor is state, or its name is read again.

    Args:
        changed: the tensor that the call changes.
    """
    while (viewed := _viewed(file, changed)) is not None:
        changed = viewed
    if isinstance(changed, (ast.Attribute, ast.Subscript)):
        return None
    last = _last_in_place(file, node)
    if isinstance(file.statement_of(node), ast.Expr):
        alone = isinstance(file.parent(last), ast.Expr) and isinstance(
            changed, ast.Name
        )
        if not alone or _receiver(last) is not _receiver(node):
            return None
        assert isinstance(changed, ast.Name)
        return (file.inserted(file.span(last)[0], f"{changed.id} = "),)
    if isinstance(changed, ast.Name) and file.reads_after(node, changed.id):
        return None
    return ()


def _viewed(file: ParsedFile, node: ast.expr) -> ast.expr | None:
    """The tensor with which ``x.view(4, -1)`` shares memory."""
    called = node.func if isinstance(node, ast.Call) else None
    is_view = isinstance(called, ast.Attribute) and f"aten::{called.attr}" in VIEWS
    if isinstance(called, ast.Attribute) and is_view and not file.meaning(called):
        return called.value
    return None


# -- inplace=True --------------------------------------------------------------------------------------------


def inplace_flag(node: ast.Call, index: int | None) -> ast.expr | None:
    """Return the ``True`` that a call passes as ``inplace``. Args: index: position
    of ``inplace`` among the positional arguments, from 0.
    """
    flags = []
    for given in node.keywords:
        if given.arg == "inplace":
            flags.append(given.value)
    if index is not None and not flags and index < len(node.args):
        flags = [node.args[index]]
    for flag in flags:
        if isinstance(flag, ast.Constant) and flag.value is True:
            return flag
    return None


def modules_in_place(file: ParsedFile) -> Iterator[tuple[ast.Call, str, TextEdit]]:
    """``nn.ReLU(inplace=True)`` and ``partial(nn.ReLU, inplace=True)``: the call,
    the module's class, and its edit."""
    for node in file.nodes:
        if not isinstance(node, ast.Call):
            continue
        kind, index = module_class(file, node.func), None
        if kind is not None:
            index = FLAGS.get(kind)
        elif file.meaning(node.func) == "functools.partial" and node.args:
            kind = module_class(file, node.args[0])
        flag = inplace_flag(node, index) if kind in FLAGS else None
        if flag is not None and kind is not None:
            yield node, kind, file.replaced(flag, "False")


def functions_in_place(file: ParsedFile, op: str) -> Iterator[TextEdit]:
    """The edits of ``F.relu(x, inplace=True)`` anywhere in a file, if the operator
    is ``aten::relu_``."""
    name = plain_name(op)
    for node in file.nodes:
        if (
            isinstance(node, ast.Call)
            and file.meaning(node.func) == f"torch.nn.functional.{name}"
        ):
            yield from _function(file, node, name, name)


_MODULES = (
    "torch.nn.modules.activation",
    "torch.nn.modules.dropout",
    "torch.nn.modules",
    "torch.nn",
)


def module_class(file: ParsedFile, node: ast.expr) -> str | None:
    """Return "ReLU" for an expression that names torch.nn.ReLU."""
    owner, _, name = (file.meaning(node) or "").rpartition(".")
    if owner in _MODULES:
        return name
    return None


REWRITE = Rewrite(
    ChangeKind.OUT_OF_PLACE,
    write,
    fits=lambda line: is_in_place(line.shown.op),
    examples=(
        Example("x += y", "x = x + y", Shown("aten::add_")),
        Example(
            "x += y if z else 1", "x = x + (y if z else 1)", Shown("aten::add_")
        ),
        Example("x.mul_(y).add_(z)", "x = x.mul(y).add(z)", Shown("aten::add_")),
        Example(
            "return (x * 2).add_(1)", "return (x * 2).add(1)", Shown("aten::add_")
        ),
        Example("F.relu(x, True)", "x = F.relu(x, False)", Shown("aten::relu_")),
        Example("self.s += y", None, Shown("aten::add_")),
        Example("x[0] += y", None, Shown("aten::add_")),
        Example("h = x.add_(y)\nreturn h + x", None, Shown("aten::add_")),
        Example("global n\nn += y", None, Shown("aten::add_"), line=2),
    ),
)
