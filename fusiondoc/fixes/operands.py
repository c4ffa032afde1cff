"""The same operator with operands of the kind that the fuser takes: of another dtype, a tensor instead of a
number that is read from it, a number instead of a tensor that is made of it.

The types of the operator's inputs in the plan tell which operand it is. Whether the change alters the result,
in its dtype too, is for the comparison of the runs to find.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fusiondoc.changes.edits import Edit
from fusiondoc.changes.source_file import ParsedFile, arguments_of, default_of
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import WrongType
from fusiondoc.model.source import Source
from fusiondoc.operators import SIGNS, plain_name
from fusiondoc.operators.signs import NODE_OF_SIGN

_DTYPE_CODES = frozenset(["FD202", "FD203", "FD215", "FD223"])
"""Reasons that are of the dtype of an operand."""

_CASTS = {"Byte": "int", "Char": "int", "Short": "int"}
"""Dtype that a fuser takes nowhere -> the cast to one that holds all its values."""

_WHOLE = frozenset(["Byte", "Char", "Short", "Int", "Long", "Bool"])


def propose(program: Program) -> Iterator[Proposal]:
    """One for each operand to cast, and for each number or tensor that is to be the other."""
    for site in program.sites:
        if site.row.reason.code in _DTYPE_CODES:
            yield from _casts(program, site)
        if site.row.op == "aten::to":
            yield from type_as(site, _types_taken(program, site))
        if site.row.op in ("aten::tensor", "aten::scalar_tensor"):
            yield from number(site)
    for file in program.files:
        yield from items(program, file)


# -- dtypes --------------------------------------------------------------------------------------------------


def _casts(program: Program, site: Site) -> Iterator[Proposal]:
    """``torch.fmod(n, 5) * x`` -> ``torch.fmod(n.float(), 5) * x``."""
    dtypes = [text.partition("(")[0] for text in _types_taken(program, site)]
    detail = site.row.reason.detail
    floats = isinstance(detail, WrongType) and detail.takes == "floating"
    casts = ["float" if floats and dtype in _WHOLE else _CASTS.get(dtype) for dtype in dtypes]
    operands = operands_at(site)
    if not any(casts) or len(operands) != len(casts):
        return
    edits: list[Edit] = []
    titles = []
    for operand, cast in zip(operands, casts, strict=True):
        if cast is not None:
            edits += _called(site.file, operand, f".{cast}()")
            titles.append(f"{site.file.text(operand)} as {cast}")
    title = " ".join(f"{', '.join(titles)} for {site.row.op}".split())
    ops = frozenset([site.row.op])
    yield Proposal(ChangeKind.DTYPE, title, tuple(edits), (site.where,), ops=ops)


def _types_taken(program: Program, site: Site) -> Sequence[str]:
    """The types of the tensors that the site's operator takes, by a plan; none where no plan has it."""
    for plan in program.report.programs:
        for node in plan.nodes:
            if node.source == site.row.source and node.op == site.row.op:
                return node.inputs
    return ()


def operands_at(site: Site) -> Sequence[ast.expr]:
    """The operands of the site's operator that are no literal numbers; none if it is not found."""
    name, file = plain_name(site.row.op), site.file
    source = Source.parse(site.row.source)
    found = [
        (node, operands) for node in file.on_line(site.line) if (operands := _operands(file, node, name))
    ]
    if source is not None and source.line == site.line and source.column is not None:
        exact = [pair for pair in found if file.column(pair[0]) == source.column]
        found = exact or found
    if not found:
        return ()
    return [operand for operand in found[0][1] if not _is_literal(operand)]


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (int, float))
    )


def _operands(file: ParsedFile, node: ast.AST, name: str) -> Sequence[ast.expr]:
    """The operands of an expression that makes the operator of that name; none of another."""
    sign = NODE_OF_SIGN.get(SIGNS.get(f"aten::{name}", ""))
    if isinstance(node, ast.BinOp):
        return (node.left, node.right) if type(node.op) is sign else ()
    if isinstance(node, ast.Compare):
        return (node.left, *node.comparators) if [type(one) for one in node.ops] == [sign] else ()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
        given = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        return given if file.meaning(node.func) is not None else [node.func.value, *given]
    return ()


def _called(file: ParsedFile, node: ast.expr, method: str) -> Iterator[Edit]:
    """A method of an expression, within the parentheses that are around it."""
    start, end = file.span(node)
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    if not plain:
        yield file.inserted(start, "(")
    yield file.inserted(end, method if plain else f"){method}")


def type_as(site: Site, types: Sequence[str] = ()) -> Iterator[Proposal]:
    """``x.to(y.dtype)`` -> ``x.type_as(y)``: no dtype as a constant, and the type of a tensor is known. The
    plan tells whether the ``y`` of ``x.to(y)`` is a tensor: a dtype or a device is none of the types.

    Args:
        types: of the tensors that the operator takes; none where they are not known.
    """
    file = site.file
    for node in file.on_line(site.line):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
            or node.func.attr != "to"
        ):
            continue
        like = _like(file, node, len(types))
        if like is not None:
            edit = Edit(file.source.path, *_method_call(file, node), f"type_as({like})")
            title = " ".join(f"{file.text(node)} as type_as({like})".split())
            yield Proposal(ChangeKind.DTYPE, title, (edit,), (site.where,), ops=frozenset([site.row.op]))


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


# -- numbers and tensors -------------------------------------------------------------------------------------


def number(site: Site) -> Iterator[Proposal]:
    """``x * torch.tensor(0.5, device=x.device)`` -> ``x * 0.5``."""
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, ast.Call) or len(node.args) != 1:
            continue
        if file.meaning(node.func) not in ("torch.tensor", "torch.scalar_tensor"):
            continue
        value = node.args[0]
        if not isinstance(value, ast.Constant) or type(value.value) not in (int, float):
            continue
        if any(option.arg not in ("device", "dtype") for option in node.keywords):
            continue
        text = file.text(value)
        title = " ".join(f"{text} instead of {file.text(node)}".split())
        ops = frozenset([site.row.op])
        yield Proposal(ChangeKind.NUMBER, title, (file.replaced(node, text),), (site.where,), ops=ops)


def items(program: Program, file: ParsedFile) -> Iterator[Proposal]:
    """``x * scale.item()`` and ``x * float(scale)`` -> ``x * scale``, in functions that ran: the value is not
    waited for."""
    for node in file.nodes:
        if not isinstance(node, ast.Call) or not isinstance(file.parent(node), (ast.BinOp, ast.Assign)):
            continue
        tensor = _tensor_read(file, node)
        if tensor is not None and program.ran(file, node):
            title = " ".join(f"{file.text(tensor)} instead of {file.text(node)}".split())
            start, end = file.span(tensor)
            first, last = file.span(node)
            edits = tuple(file.removed(*span) for span in ((first, start), (end, last)) if span[0] < span[1])
            note = "what is computed of it stays on the device, and takes part in gradients"
            yield Proposal(ChangeKind.NUMBER, title, edits, (file.where(node),), note)


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
