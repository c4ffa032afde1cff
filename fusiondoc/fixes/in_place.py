"""Operators that work in place, written out of place: ``x += y``, ``x.add_(y)``, ``F.relu(x, inplace=True)``,
and ``nn.ReLU(inplace=True)`` where the user makes it.

No fuser takes an operator that changes its input, and a differentiable graph ends before it. What else sees
the change (an argument of the caller, a view) is for the comparison of the runs to find; what is certain to
be seen, state that outlives the call, is not offered.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

from fusiondoc.diagnosis.operators import (
    FILLS,
    FLAGS,
    MODULE_FLAGS,
    is_in_place,
    plain_name,
    sign_of,
)
from fusiondoc.fixes import Edit, Proposal
from fusiondoc.fixes.fixable import Program, Site
from fusiondoc.fixes.syntax import ParsedFile, dotted, walk
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_STATEMENTS = {
    "+": "AddAssign",
    "-": "SubtractAssign",
    "*": "MultiplyAssign",
    "/": "DivideAssign",
    "**": "PowerAssign",
    "&": "BitAndAssign",
    "|": "BitOrAssign",
    "^": "BitXorAssign",
    "<<": "LeftShiftAssign",
    ">>": "RightShiftAssign",
}
"""Sign -> libcst's name of the operator of ``x += y``."""

_NO_VERSION = frozenset(
    [
        *(
            "apply",
            "cauchy",
            "copy",
            "exponential",
            "fill",
            "fill_diagonal",
            "geometric",
            "log_normal",
            "map",
        ),
        *("map2", "normal", "random", "requires_grad", "resize_as_sparse", "set", "share_memory", "uniform"),
        "zero",
    ]
)
"""Methods in place of a tensor that have no version without the underscore (torch.Tensor, 2.13)."""

_TORCH = ("torch", "torch.nn.functional")


def propose(program: Program) -> Iterator[Proposal]:
    """One proposal for each line of the user's, and one for each call that makes a module in place."""
    for site in program.sites:
        if is_in_place(site.row.op):
            edits = _edits_at(site)
            if edits:
                ops = frozenset([site.row.op])
                yield Proposal(
                    ChangeKind.OUT_OF_PLACE, f"{site.row.op} out of place", edits, (site.where,), ops=ops
                )
    ops = frozenset(row.op for row in program.rows if is_in_place(row.op))
    if ops:
        yield from _constructors(program, ops)


def _edits_at(site: Site) -> tuple[Edit, ...]:
    file, op = site.file, site.row.op
    found: dict[Edit, None] = {}
    for node in file.on_line(site.line):
        if isinstance(node, cst.AugAssign):
            found.update(dict.fromkeys(_augmented(file, node, op)))
        elif isinstance(node, cst.Call):
            found.update(dict.fromkeys(_call(file, node, plain_name(op))))
    return tuple(found)


def _augmented(file: ParsedFile, node: cst.AugAssign, op: str) -> Iterator[Edit]:
    """``x += y`` -> ``x = x + y``: of names only, an attribute or element is state."""
    sign = sign_of(op)
    if sign is None or type(node.operator).__name__ != _STATEMENTS[sign]:
        return
    if not isinstance(node.target, cst.Name) or _outlives(file, node):
        return
    start = file.span(node.target)[1]
    end = file.span(node.value)[0]
    place = file.source.text.index(f"{sign}=", start, end)
    yield Edit(file.source.path, place, place + len(sign) + 1, f"= {node.target.value} {sign}")
    if not _binds_tighter(node.value, sign):
        first, last = file.span(node.value)
        yield file.inserted(first, "(")
        yield file.inserted(last, ")")


def _outlives(file: ParsedFile, node: cst.AugAssign) -> bool:
    """Whether the name is one of the module or of a function around: others may hold the same tensor."""
    function = file.function_of(node)
    if function is None:
        return True
    assert isinstance(node.target, cst.Name)
    return any(
        isinstance(one, (cst.Global, cst.Nonlocal))
        and node.target.value in [item.name.value for item in one.names]
        for one in walk(function)
    )


def _binds_tighter(value: cst.BaseExpression, sign: str) -> bool:
    """Whether ``x sign value`` needs no parentheses around the value."""
    if value.lpar or isinstance(
        value,
        (
            cst.Name,
            cst.Attribute,
            cst.Call,
            cst.Subscript,
            cst.BaseNumber,
            cst.List,
            cst.Tuple,
            cst.BaseString,
        ),
    ):
        return not (isinstance(value, cst.Tuple) and not value.lpar)
    if isinstance(value, cst.UnaryOperation):
        return isinstance(value.operator, (cst.Minus, cst.Plus, cst.BitInvert)) and sign in (
            "+",
            "-",
            "*",
            "/",
        )
    if isinstance(value, cst.BinaryOperation):
        products = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply, cst.Power)
        return isinstance(value.operator, products) and sign in ("+", "-")
    return False


def _call(file: ParsedFile, node: cst.Call, name: str) -> Iterator[Edit]:
    meaning = file.meaning(node.func) or ""
    owner, _, last = meaning.rpartition(".")
    if owner in _TORCH:
        if last == f"{name}_":
            yield from _assigned(file, node, node.args[0].value if node.args else None)
            yield from _without_underscore(file, node)
        elif last == name:
            flag = _flag(node, FLAGS[name].of_function if name in FLAGS else None)
            if flag is not None:
                yield from _assigned(file, node, node.args[0].value if node.args else None)
                yield file.replaced(flag, "False")
        return
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == f"{name}_":
        receiver = _receiver(node)
        if name in _NO_VERSION:
            yield from _filled(file, node, name)
        elif isinstance(receiver, cst.Name) or not isinstance(receiver, (cst.Attribute, cst.Subscript)):
            edits = list(_assigned(file, node, receiver))
            if edits or not _mentioned_later(file, node, receiver):
                yield from edits
                yield from _without_underscore(file, node)


def _filled(file: ParsedFile, node: cst.Call, name: str) -> Iterator[Edit]:
    """``x.zero_()`` alone -> ``x = torch.zeros_like(x)``; ``x.fill_(v)`` -> ``x = torch.full_like(x, v)``."""
    made = FILLS.get(f"aten::{name}_")
    if made is None or len(node.args) != made.count("value") or not isinstance(node.func, cst.Attribute):
        return
    tensor = node.func.value
    if not isinstance(tensor, cst.Name) or not isinstance(file.parent(node), cst.Expr):
        return
    torch, imports = file.spelled("torch")
    called = made.partition("(")[0].partition(".")[2]
    values = "".join(f", {file.text(one)}" for one in node.args)
    yield from imports
    yield file.replaced(node, f"{tensor.value} = {torch}.{called}({tensor.value}{values})")


def _receiver(node: cst.Call) -> cst.BaseExpression:
    """What the first call of a chain is on: ``x`` of ``x.add_(y).mul_(z)``."""
    assert isinstance(node.func, cst.Attribute)
    inner = node.func.value
    return _receiver(inner) if isinstance(inner, cst.Call) and _in_place(inner) else inner


def _in_place(node: cst.Call) -> bool:
    """Whether it is a call of a method in place."""
    return isinstance(node.func, cst.Attribute) and is_in_place(node.func.attr.value)


def _without_underscore(file: ParsedFile, node: cst.Call) -> Iterator[Edit]:
    func = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    assert isinstance(func, cst.Name)
    end = file.span(func)[1]
    yield Edit(file.source.path, end - 1, end, "")
    inner = node.func.value if isinstance(node.func, cst.Attribute) else None
    # The rest of a chain: x.add_(y).mul_(z) changes x twice.
    if isinstance(inner, cst.Call) and _in_place(inner):
        yield from _without_underscore(file, inner)


def _assigned(file: ParsedFile, node: cst.Call, changed: cst.BaseExpression | None) -> Iterator[Edit]:
    """``x = `` before a call that stands alone: its result was thrown away."""
    above: cst.CSTNode | None = file.parent(node)
    while isinstance(above, (cst.Attribute, cst.Call)):
        above = file.parent(above)
    if isinstance(above, cst.Expr) and isinstance(changed, cst.Name):
        yield file.inserted(file.span(above)[0], f"{changed.value} = ")


def _mentioned_later(file: ParsedFile, node: cst.Call, receiver: cst.BaseExpression) -> bool:
    """Whether the changed name is read again: ``y = x.add_(1)`` changes x too."""
    if not isinstance(receiver, cst.Name):
        statement = file.statement_of(node)
        return isinstance(statement, cst.Expr)
    function = file.function_of(node)
    statement = file.statement_of(node)
    if function is None or statement is None:
        return True
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if any(isinstance(one.target, cst.Name) and one.target.value == receiver.value for one in targets):
        return False
    end = file.span(statement)[1]
    loops = [one for one in file.parents(node) if isinstance(one, (cst.For, cst.While))]
    start = min([end, *(file.span(one)[0] for one in loops)])
    own = set(walk(statement))
    return any(
        isinstance(one, cst.Name)
        and one.value == receiver.value
        and one not in own
        and file.span(one)[0] >= start
        for one in walk(function)
    )


def _flag(node: cst.Call, place: int | None) -> cst.Name | None:
    """The ``True`` that says ``inplace``."""
    for index, argument in enumerate(node.args):
        by_name = argument.keyword is not None and argument.keyword.value == "inplace"
        by_place = argument.keyword is None and not argument.star and index == place
        if by_name or by_place:
            value = argument.value
            return value if isinstance(value, cst.Name) and value.value == "True" else None
    return None


def _constructors(program: Program, ops: frozenset[str]) -> Iterator[Proposal]:
    """``nn.ReLU(inplace=True)`` and ``partial(nn.ReLU, inplace=True)`` in the files of the run."""
    for file in program.files:
        for node in file.nodes():
            if not isinstance(node, cst.Call):
                continue
            kind, place = module_class(file, node.func), None
            if kind is not None:
                place = MODULE_FLAGS.get(kind)
            elif file.meaning(node.func) == "functools.partial" and node.args:
                kind = module_class(file, node.args[0].value)
            flag = _flag(node, place) if kind in MODULE_FLAGS else None
            if flag is not None:
                title = f"{dotted(node.func)}(inplace=False)"
                edit = file.replaced(flag, "False")
                yield Proposal(ChangeKind.NOT_INPLACE, title, (edit,), (file.where(node),), ops=ops)


def module_class(file: ParsedFile, node: cst.BaseExpression) -> str | None:
    """ "ReLU" for what names torch.nn.ReLU."""
    meaning = file.meaning(node) or ""
    for prefix in (
        "torch.nn.modules.activation.",
        "torch.nn.modules.dropout.",
        "torch.nn.modules.",
        "torch.nn.",
    ):
        if meaning.startswith(prefix):
            rest = meaning[len(prefix) :]
            return rest if "." not in rest else None
    return None
