"""The same operator, written otherwise where it stands: out of place, or with operands of the kind that the
fuser takes. (Others in its place: ``recipes_in_code.py``.)

Out of place: ``x += y``, ``x.add_(y)``, ``F.relu(x, inplace=True)``, and ``nn.ReLU(inplace=True)`` where the
user makes it. No fuser takes an operator that changes its input, and a differentiable graph ends before it.
What else sees the change (an argument of the caller, a view) is for the comparison of the runs to find; what
is certain to be seen, state that outlives the call, is not offered.

Operands: of another dtype, a number that is read from a tensor, a tensor that is made of a number. Which
operand it is, is told by the types of the operator's inputs in the plan. Whether the cast changes the result,
in its dtype too, is for the comparison of the runs to find.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from fusiondoc.diagnosis.operators import (
    FILLS,
    FLAGS,
    MODULE_FLAGS,
    is_in_place,
    plain_name,
    sign_of,
)
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.fixes.source_file import Edit, ParsedFile, dotted, walk
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.source import Source

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


def propose_out_of_place(program: Program) -> Iterator[Proposal]:
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


with contextlib.suppress(ImportError):
    import libcst as cst

_DTYPE_CODES = frozenset(["FD202", "FD203", "FD215", "FD223"])
"""Reasons that are of the dtype of an operand."""

_CASTS = {"Byte": "int", "Char": "int", "Short": "int"}
"""Dtype that a fuser takes nowhere -> the cast to one that holds all its values."""

_WHOLE = frozenset(["Byte", "Char", "Short", "Int", "Long", "Bool"])

_SIGNS = {
    "add": "Add", "sub": "Subtract", "mul": "Multiply", "div": "Divide", "remainder": "Modulo",
    "pow": "Power", "__and__": "BitAnd", "__or__": "BitOr", "__xor__": "BitXor", "bitwise_and": "BitAnd",
    "bitwise_or": "BitOr", "gt": "GreaterThan", "lt": "LessThan", "ge": "GreaterThanEqual",
    "le": "LessThanEqual", "eq": "Equal",
    "ne": "NotEqual",
}  # fmt: skip
"""Operator -> libcst's name of the sign that makes it."""


def propose_operands(program: Program) -> Iterator[Proposal]:
    """One for each operand to cast, and for each number or tensor that is to be the other."""
    for site in program.sites:
        if site.row.reason.code in _DTYPE_CODES:
            yield from _casts(program, site)
        if site.row.op == "aten::to":
            yield from _type_as(site, _types_taken(program, site))
        if site.row.op in ("aten::tensor", "aten::scalar_tensor"):
            yield from _number(site)
    for file in program.files:
        yield from _items(program, file)


# -- dtypes -------------------------------------------------------------------------------------------------


def _casts(program: Program, site: Site) -> Iterator[Proposal]:
    """``torch.fmod(n, 5) * x`` -> ``torch.fmod(n.float(), 5) * x``."""
    dtypes = [text.partition("(")[0] for text in _types_taken(program, site)]
    floats = "floating-point tensors only" in site.row.reason.text
    casts = ["float" if floats and one in _WHOLE else _CASTS.get(one) for one in dtypes]
    operands = operands_at(site)
    if not any(casts) or len(operands) != len(casts):
        return
    edits: list[Edit] = []
    titles = []
    for operand, cast in zip(operands, casts):
        if cast is not None:
            edits += _called(site.file, operand, f".{cast}()")
            titles.append(f"{site.file.text(operand)} as {cast}")
    title = " ".join(f"{', '.join(titles)} for {site.row.op}".split())
    ops = frozenset([site.row.op])
    yield Proposal(ChangeKind.DTYPE, title, tuple(edits), (site.where,), ops=ops)


def _types_taken(program: Program, site: Site) -> Sequence[str]:
    """The types of the tensors that the site's operator takes, by a plan; none where no plan has it."""
    nodes = [node for one in program.report.programs for node in one.nodes]
    return next((one.inputs for one in nodes if one.source == site.row.source and one.op == site.row.op), ())


def operands_at(site: Site) -> Sequence[cst.BaseExpression]:
    """The operands of the site's operator that are no literal numbers; none if it is not found."""
    name, file = plain_name(site.row.op), site.file
    place = Source.parse(site.row.source)
    found = [(node, of) for node in file.on_line(site.line) if (of := _operands(file, node, name))]
    if place is not None and place.line == site.line and place.column is not None:
        exact = [one for one in found if file.column(one[0]) == place.column]
        found = exact or found
    if not found:
        return ()
    return [one for one in found[0][1] if not isinstance(one, (cst.BaseNumber, cst.UnaryOperation))]


def _operands(file: ParsedFile, node: cst.CSTNode, name: str) -> Sequence[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and type(node.operator).__name__ == _SIGNS.get(name):
        return node.left, node.right
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        only = node.comparisons[0]
        return (node.left, only.comparator) if type(only.operator).__name__ == _SIGNS.get(name) else ()
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name:
        given = [one.value for one in node.args if one.keyword is None and not one.star]
        return given if file.meaning(node.func) is not None else [node.func.value, *given]
    return ()


def _called(file: ParsedFile, node: cst.BaseExpression, method: str) -> Iterator[Edit]:
    """A method of an expression, within the parentheses that are around it."""
    start, end = file.span(node)
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    if not plain:
        yield file.inserted(start, "(")
    yield file.inserted(end, method if plain else f"){method}")


def _type_as(site: Site, types: Sequence[str] = ()) -> Iterator[Proposal]:
    """``x.to(y.dtype)`` -> ``x.type_as(y)``: no dtype as a constant, and the type of a tensor is known. Of
    ``x.to(y)`` the plan tells whether ``y`` is a tensor: a dtype or a device is none of the types.

    Args:
        types: of the tensors that the operator takes; none where they are not known.
    """
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
            continue
        given = node.args[0]
        keyword = given.keyword.value if given.keyword is not None else None
        if node.func.attr.value != "to" or keyword not in (None, "dtype", "other"):
            continue
        of = given.value
        if isinstance(of, cst.Attribute) and of.attr.value == "dtype" and file.meaning(of) is None:
            of = of.value
        elif not isinstance(of, cst.Name) or keyword == "dtype" or len(types) == 1:
            continue
        tail = Edit(file.source.path, file.span(node.func.attr)[0], file.span(node)[1], "")
        edit = Edit(tail.path, tail.start, tail.end, f"type_as({file.text(of)})")
        title = " ".join(f"{file.text(node)} as type_as({file.text(of)})".split())
        ops = frozenset([site.row.op])
        yield Proposal(ChangeKind.DTYPE, title, (edit,), (site.where,), ops=ops)


# -- numbers and tensors ------------------------------------------------------------------------------------


def _number(site: Site) -> Iterator[Proposal]:
    """``x * torch.tensor(0.5, device=x.device)`` -> ``x * 0.5``."""
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, cst.Call) or not node.args:
            continue
        if file.meaning(node.func) not in ("torch.tensor", "torch.scalar_tensor"):
            continue
        value, options = node.args[0], node.args[1:]
        if not isinstance(value.value, (cst.Float, cst.Integer)) or value.keyword is not None:
            continue
        if any(one.keyword is None or one.keyword.value not in ("device", "dtype") for one in options):
            continue
        number = file.text(value.value)
        title = " ".join(f"{number} instead of {file.text(node)}".split())
        ops = frozenset([site.row.op])
        yield Proposal(ChangeKind.NUMBER, title, (file.replaced(node, number),), (site.where,), ops=ops)


def _items(program: Program, file: ParsedFile) -> Iterator[Proposal]:
    """``x * scale.item()`` and ``x * float(scale)`` -> ``x * scale``, in functions that ran: the value is not
    waited for."""
    for node in file.nodes():
        if not isinstance(node, cst.Call) or not _reads_number(node):
            continue
        if not isinstance(file.parent(node), (cst.BinaryOperation, cst.Assign)) or not program.ran(
            file, node
        ):
            continue
        called, tensor = node.func, None
        if isinstance(called, cst.Attribute) and called.attr.value == "item" and not node.args:
            tensor = called.value
        elif isinstance(called, cst.Name) and called.value == "float" and len(node.args) == 1:
            tensor = node.args[0].value
            if not isinstance(tensor, cst.Name) or not _is_argument(file, tensor):
                continue
        if tensor is not None:
            title = f"{file.text(tensor)} instead of {file.text(node)}"
            start, end = file.span(tensor)
            first, last = file.span(node)
            path = file.source.path
            edits = tuple(one for one in (Edit(path, first, start, ""), Edit(path, end, last, ""))
                          if one.start < one.end)  # fmt: skip
            note = "what is computed of it stays on the device, and takes part in gradients"
            yield Proposal(ChangeKind.NUMBER, " ".join(title.split()), edits, (file.where(node),), note)


def _reads_number(node: cst.Call) -> bool:
    called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(called, cst.Name) and called.value in ("item", "float")


def _is_argument(file: ParsedFile, node: cst.Name) -> bool:
    """Whether it may be a tensor that the function is given."""
    function = file.function_of(node)
    given = [] if function is None else [*function.params.params, *function.params.kwonly_params]
    for one in given:
        if one.name.value == node.value and one.default is None:
            told = one.annotation
            return told is None or file.text(told.annotation).rpartition(".")[2] == "Tensor"
    return False
