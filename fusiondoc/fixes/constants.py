"""What a fuser has to know when it compiles, made known then: attributes of a module that its class declares
constant, a default in the place of an argument that is never given, a type without ``Optional`` for what is
always given.

TorchScript reads an attribute such as ``self.dim`` when it runs, unless the class names it in
``__constants__`` (torch/jit/_recursive.py, ``infer_concrete_type_builder``); an axis or flag read then
is not a constant to a fuser, and a branch on it stays. A test for None goes where the type is not Optional:
that of an argument is its annotation, that of an attribute its annotation in the class, else what it holds
(torch/csrc/jit/frontend/ir_emitter.cpp, ``emitCondExpr``).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.fixes.source_file import Edit, ParsedFile, walk
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
        if site.row.op == "prim::If" and "None" in site.row.reason.text:
            yield from _optional(program, site)
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
    """The default of an argument in its place, ``dim: int = -1`` that nobody gives; the argument goes, so
    that a call that gives it fails, and is not quietly given something else."""
    file, name = site.file, node.value
    function = file.function_of(node)
    inside = (cst.Arg, cst.If, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)
    if function is None or not isinstance(file.parent(node), inside):
        return
    params = list(function.params.params)
    at = next((index for index, one in enumerate(params) if one.name.value == name), 0)
    value = params[at].default if at else None
    plain = isinstance(value, (cst.Integer, cst.UnaryOperation)) and not value.lpar
    flag = isinstance(value, cst.Name) and value.value in ("True", "False")
    if value is None or not (plain or flag) or _is_set(function, name) or _is_named(file, function, name):
        return
    text = file.text(value)
    before = params[at - 1]
    last = before.default or (before.annotation.annotation if before.annotation else before.name)
    if isinstance(last, cst.BaseExpression) and last.lpar:
        return
    edits = [Edit(file.source.path, file.span(last)[1], file.span(value)[1], "")]
    for one in walk(function.body):
        above = file.parent(one)
        if not isinstance(one, cst.Name) or one.value != name or isinstance(above, cst.Attribute):
            continue
        if not (isinstance(above, cst.Arg) and above.keyword is one):
            alone = isinstance(above, (cst.Arg, cst.If, cst.Element)) or not text.startswith("-")
            edits.append(file.replaced(one, text if alone else f"({text})"))
    title = f"{text} instead of the argument {name} of {function.name.value}"
    note = f"calls that give {name} fail then"
    yield Proposal(ChangeKind.CONSTANT, title, tuple(edits), (site.where,), note)


def _is_set(function: cst.FunctionDef, name: str) -> bool:
    """Whether a function sets a name, or has another function that may."""
    return any(
        (
            isinstance(one, (cst.AssignTarget, cst.AugAssign, cst.For, cst.NamedExpr))
            and _binds(one.target, name)
        )
        or isinstance(one, (cst.FunctionDef, cst.Lambda))
        for one in walk(function.body)
    )


def _binds(target: cst.CSTNode, name: str) -> bool:
    return any(isinstance(one, cst.Name) and one.value == name for one in walk(target))


def _is_named(file: ParsedFile, function: cst.FunctionDef, name: str) -> bool:
    """Whether a call in the file gives the argument by its name."""
    for one in file.nodes():
        if isinstance(one, cst.Arg) and one.keyword is not None and one.keyword.value == name:
            call = file.parent(one)
            called = call.func if isinstance(call, cst.Call) else None
            called = called.attr if isinstance(called, cst.Attribute) else called
            if isinstance(called, cst.Name) and called.value in (function.name.value, "self"):
                return True
    return False


# -- Optional -----------------------------------------------------------------------------------------------


def _optional(program: Program, site: Site) -> Iterator[Proposal]:
    """``if mask is not None``, where mask is always given, or never."""
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
            continue
        only = node.comparisons[0]
        if not isinstance(only.operator, (cst.Is, cst.IsNot)) or file.text(only.comparator) != "None":
            continue
        tested = node.left
        function = file.function_of(node)
        if isinstance(tested, cst.Name) and function is not None:
            name = tested.value
            if _argument(function, name) is not None:
                yield from _told(file, function, name, site, _is_given(program, file, node, only.operator))
                continue
            tested = next((one for one in _values(function, name)), tested)
        if isinstance(tested, cst.Attribute) and file.text(tested.value) == "self":
            yield from _of_class(file, node, tested.attr.value, site)


def _argument(function: cst.FunctionDef, name: str) -> cst.Param | None:
    """The argument of that name."""
    every = (*function.params.params, *function.params.kwonly_params)
    return next((one for one in every if one.name.value == name), None)


def _values(function: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression]:
    """What is assigned to a name."""
    for one in walk(function):
        if isinstance(one, cst.Assign) and any(
            isinstance(item.target, cst.Name) and item.target.value == name for item in one.targets
        ):
            yield one.value


def _is_given(program: Program, file: ParsedFile, node: cst.Comparison, operator: cst.BaseCompOp) -> bool:
    """Whether the run gave it: operators of the branch for that are in groups, or ran."""
    branch = file.parent(node)
    if not isinstance(branch, cst.If):
        return True
    body = branch.body if isinstance(operator, cst.IsNot) else branch.orelse
    if body is None:
        return True
    lines = range(file.line(body), file.last_line(body) + 1)
    return any(path == file.source.path and line in lines for path, line in program.lines_that_ran)


def _told(
    file: ParsedFile, function: cst.FunctionDef, name: str, site: Site, given: bool
) -> Iterator[Proposal]:
    """``mask: Tensor`` or ``mask: None = None`` for ``mask: Optional[Tensor] = None``, in the function and in
    those that hand it on. Python calls it as ever; TorchScript refuses a call of the other kind."""
    edits: list[Edit] = []
    text = "None"
    for one in (function, *_hand_it_on(file, name)):
        argument = _argument(one, name)
        kind = _of_optional(file, argument)
        if argument is None or argument.annotation is None or kind is None:
            continue
        params = list(one.params.params)
        at = params.index(argument) if argument in params else 0
        if given and argument.default is not None and any(p.default is not None for p in params[:at]):
            return  # an argument without a default cannot follow one with it
        start, end = file.span(argument.annotation.annotation)
        if given:
            text = kind
            end = file.span(argument.default)[1] if argument.default is not None else end
        edits.append(Edit(file.source.path, start, end, text))
    if edits:
        title = f"{name}: {text} instead of Optional"
        how = "has to be given then" if given else "may not be given to TorchScript then"
        note = f"{name} {how}, as in this run"
        every, ops = tuple(dict.fromkeys(edits)), frozenset(["prim::If"])
        yield Proposal(ChangeKind.ANNOTATION, title, every, (site.where,), note, ops=ops)


def _hand_it_on(file: ParsedFile, name: str) -> Iterator[cst.FunctionDef]:
    """Functions that have an argument of that name, and give it to another."""
    for node in file.nodes():
        if isinstance(node, cst.Arg) and isinstance(node.value, cst.Name) and node.value.value == name:
            function = file.function_of(node)
            if function is not None and _argument(function, name) is not None:
                yield function


def _of_optional(file: ParsedFile, argument: cst.Param | None) -> str | None:
    """ "Tensor" of an argument ``mask: Optional[Tensor]`` or ``mask: Tensor | None``."""
    if argument is None or argument.annotation is None:
        return None
    return _inside_optional(file.text(argument.annotation.annotation))


def _inside_optional(text: str) -> str | None:
    quote = text[0] if text[:1] in ("'", '"') and text[-1:] == text[:1] else ""
    plain = text.strip("'\"")
    found = re.fullmatch(r"(?:\w+\.)*Optional\[(.*)\]", plain, re.S) or re.fullmatch(
        r"(.*?)\s*\|\s*None", plain, re.S
    )
    return f"{quote}{found.group(1).strip()}{quote}" if found is not None else None


def _of_class(file: ParsedFile, node: cst.CSTNode, name: str, site: Site) -> Iterator[Proposal]:
    """The line ``bias: Optional[Tensor]`` of a class taken out: then the type is that of what it holds."""
    owner = file.class_of(node)
    for line in owner.body.body if owner is not None else ():
        if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
            continue
        only = line.body[0]
        if not isinstance(only, cst.AnnAssign) or only.value is not None:
            continue
        if isinstance(only.target, cst.Name) and only.target.value == name:
            if _inside_optional(file.text(only.annotation.annotation)) is None:
                continue
            edit = Edit(file.source.path, file.start_of_line(line), file.after(line), "")
            title = f"the annotation {file.text(only)} taken out"
            note = f"TorchScript then takes {name} as what it holds when it is compiled: a tensor, or None"
            where = (site.where, file.where(only))
            yield Proposal(ChangeKind.ANNOTATION, title, (edit,), where, note, ops=frozenset(["prim::If"]))
