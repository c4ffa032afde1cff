"""What a fuser has to know when it compiles, made known then: attributes of a module that its class declares
constant, a default in the place of an argument that is never given; and numbers that stay tensors.

TorchScript reads an attribute such as ``self.dim`` when it runs, unless the class names it in
``__constants__`` (torch/jit/_recursive.py, ``infer_concrete_type_builder``); an axis or flag read then
is no constant to a fuser, and a branch on it stays.
"""

from __future__ import annotations

import contextlib
import re
from typing import Iterator

from fusiondoc.fixes.edits import Edit, Proposal
from fusiondoc.fixes.fixable import Program, Site
from fusiondoc.fixes.syntax import ParsedFile, walk
from fusiondoc.model.change_plan import ChangeKind

with contextlib.suppress(ImportError):
    import libcst as cst

_ATTRIBUTE = re.compile(r"the attributes? `(\w+)`")


def propose(program: Program) -> Iterator[Proposal]:
    """One for each class, one for each argument and one for each number read from a tensor."""
    classes: dict[tuple[ParsedFile, cst.ClassDef], dict[str, Site]] = {}
    for site in program.sites:
        if not ("constant" in site.row.reason.text or site.row.op.startswith("prim::")):
            continue
        for node in site.file.on_line(site.line):
            found = _own_attribute(site.file, node)
            if found is not None:
                classes.setdefault((site.file, found[0]), {}).setdefault(found[1], site)
            elif isinstance(node, cst.Name):
                yield from _default(site, node)
    for (file, owner), names in classes.items():
        edits = _declared(file, owner, list(names))
        listed = ", ".join(names)
        where = tuple(site.where for site in names.values())
        yield Proposal(ChangeKind.CONSTANT, f"{listed} of {owner.name.value} declared constant", edits, where)
    for file in program.files:
        yield from _numbers(file)


def _own_attribute(file: ParsedFile, node: cst.CSTNode) -> tuple[cst.ClassDef, str] | None:
    """The class and name of ``self.dim``, which only ``__init__`` sets, to a plain value."""
    if not (
        isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self"
    ):
        return None
    if not isinstance(
        file.parent(node), (cst.Arg, cst.If, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)
    ):
        return None
    owner, name = file.class_of(node), node.attr.value
    if owner is None or name == "training" or _is_constant(owner, name):
        return None
    values = [
        (one.value, file.function_of(one))
        for one in walk(owner)
        if isinstance(one, (cst.Assign, cst.AnnAssign)) and name in _set_by(one)
    ]
    if len(values) != 1 or values[0][0] is None:
        return None
    value, function = values[0]
    if function is None or function.name.value != "__init__" or not isinstance(value, _plain()):
        return None
    return owner, name


def _plain() -> tuple[type[cst.CSTNode], ...]:
    return (
        cst.Name,
        cst.Integer,
        cst.Float,
        cst.UnaryOperation,
        cst.SimpleString,
        cst.Tuple,
        cst.BinaryOperation,
    )


def _set_by(node: cst.Assign | cst.AnnAssign) -> list[str]:
    targets = [one.target for one in node.targets] if isinstance(node, cst.Assign) else [node.target]
    return [
        one.attr.value
        for one in targets
        if isinstance(one, cst.Attribute) and isinstance(one.value, cst.Name) and one.value.value == "self"
    ]


def _is_constant(owner: cst.ClassDef, name: str) -> bool:
    """Whether the class says so already, by ``Final`` or ``__constants__``."""
    listed = _constants(owner)
    if listed is not None:
        texts = [one.value.value for one in listed.elements if isinstance(one.value, cst.SimpleString)]
        if name in [text.strip("\"'") for text in texts]:
            return True
    for one in walk(owner.body):
        if isinstance(one, cst.AnnAssign) and isinstance(one.target, (cst.Name, cst.Attribute)):
            target = one.target.value if isinstance(one.target, cst.Name) else one.target.attr.value
            if target == name and "Final" in cst.Module(body=[]).code_for_node(one.annotation.annotation):
                return True
    return False


def _constants(owner: cst.ClassDef) -> cst.List | cst.Tuple | None:
    """The value of ``__constants__`` in the body of a class."""
    for line in owner.body.body:
        for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(one, cst.Assign) and isinstance(one.value, (cst.List, cst.Tuple)):
                names = [item.target.value for item in one.targets if isinstance(item.target, cst.Name)]
                if "__constants__" in names:
                    return one.value
    return None


def _declared(file: ParsedFile, owner: cst.ClassDef, names: list[str]) -> tuple[Edit, ...]:
    listed = _constants(owner)
    texts = ", ".join(f'"{name}"' for name in names)
    if listed is not None and listed.elements:
        return (file.inserted(file.span(listed.elements[-1].value)[1], f", {texts}"),)
    body = owner.body.body
    first = body[0]
    position, node = file.start_of_line(first), first
    if isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Expr) and len(body) > 1:
        position = file.after(first)  # behind the docstring
    elif isinstance(first, cst.FunctionDef) and first.decorators:
        position = file.start_of_line(first.decorators[0])
    start = file.start_of_line(node)
    line = file.source.text[start : file.span(node)[0]]
    lead = line[: len(line) - len(line.lstrip())]
    return (file.lines_at(position, [f"__constants__ = [{texts}]", ""], lead, rank=0),)


def _default(site: Site, node: cst.Name) -> Iterator[Proposal]:
    """The default of an argument in its place: ``dim: int = -1`` that nobody gives."""
    file = site.file
    function, above = file.function_of(node), file.parent(node)
    if function is None or not isinstance(above, cst.Arg) or above.value is not node:
        return
    for one in (*function.params.params, *function.params.kwonly_params):
        if one.name.value == node.value and isinstance(
            one.default, (cst.Integer, cst.UnaryOperation, cst.Name)
        ):
            text = file.text(one.default)
            if isinstance(one.default, cst.Name) and text not in ("True", "False"):
                return
            title = f"{text} instead of the argument {node.value} of {function.name.value}"
            note = f"callers that give {node.value} get {text} all the same"
            yield Proposal(ChangeKind.CONSTANT, title, (file.replaced(node, text),), (site.where,), note)


def _numbers(file: ParsedFile) -> Iterator[Proposal]:
    """``x * scale.item()`` -> ``x * scale``, in functions: the value is not waited for."""
    for node in file.nodes():
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.args:
            continue
        inside = isinstance(file.parent(node), (cst.BinaryOperation, cst.Assign))
        if node.func.attr.value == "item" and inside and file.function_of(node) is not None:
            place, end = file.span(node.func.value)[1], file.span(node)[1]
            title = f"{file.text(node.func.value)} instead of {file.text(node)}"
            edit = Edit(file.source.path, place, end, "")
            note = "what is computed of it stays on the device, and takes part in gradients"
            yield Proposal(ChangeKind.NUMBER, " ".join(title.split()), (edit,), (file.where(node),), note)
