"""Operands of another kind than the fuser takes at an operator: of another dtype, a number that is read from
a tensor, a tensor that is made of a number.

Which operand it is, is told by the types of the operator's inputs in the plan. Whether the cast changes the
result, in its dtype too, is for the comparison of the runs to find.
"""

from __future__ import annotations

import contextlib
from typing import Iterator, Sequence

from fusiondoc.diagnosis.operators import plain_name
from fusiondoc.fixes import Edit, Proposal
from fusiondoc.fixes.fixable import Program, Site
from fusiondoc.fixes.syntax import ParsedFile
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.source import Source

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


def propose(program: Program) -> Iterator[Proposal]:
    """One for each operand to cast, and for each number or tensor that is to be the other."""
    for site in program.sites:
        if site.row.reason.code in _DTYPE_CODES:
            yield from _casts(program, site)
        if site.row.op == "aten::to":
            yield from _type_as(site)
        if site.row.op in ("aten::tensor", "aten::scalar_tensor"):
            yield from _number(site)
    for file in program.files:
        yield from _items(program, file)


# -- dtypes -------------------------------------------------------------------------------------------------


def _casts(program: Program, site: Site) -> Iterator[Proposal]:
    """``torch.fmod(n, 5) * x`` -> ``torch.fmod(n.float(), 5) * x``."""
    nodes = [node for one in program.report.programs for node in one.nodes]
    types = next((one.inputs for one in nodes if one.source == site.row.source and one.op == site.row.op), ())
    dtypes = [text.partition("(")[0] for text in types]
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


def _type_as(site: Site) -> Iterator[Proposal]:
    """``x.to(y.dtype)`` -> ``x.type_as(y)``: no dtype as a constant, and the type of a tensor is known."""
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
        elif not isinstance(of, cst.Name) or keyword == "dtype":
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
