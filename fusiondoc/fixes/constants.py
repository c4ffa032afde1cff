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

import ast
import re
from collections.abc import Iterator

from fusiondoc.changes.edits import Edit
from fusiondoc.changes.inserted_lines import before, is_docstring, lines_at
from fusiondoc.changes.source_file import (
    FUNCTIONS,
    Function,
    ParsedFile,
    arguments_of,
    default_of,
    names_in,
    walk,
)
from fusiondoc.fixes import Program, Proposal, Site
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons import ControlFlow
from fusiondoc.model.reasons.lacking_constants import lacks_constant

_CONDITIONS = (ast.If, ast.BoolOp, ast.Compare, ast.UnaryOp)


def propose(program: Program) -> Iterator[Proposal]:
    """One for each class, one for each argument and one for each number read from a tensor."""
    classes: dict[tuple[ParsedFile, ast.ClassDef], dict[str, Site]] = {}
    for site in program.sites:
        detail = site.row.reason.detail
        if not (lacks_constant(detail) or site.row.op.startswith("prim::")):
            continue
        if isinstance(detail, ControlFlow) and detail.condition.on == "test_for_none":
            yield from _optional(program, site)
            continue
        for node in site.file.on_line(site.line):
            found = _own_attribute(site.file, node)
            if found is not None:
                classes.setdefault((site.file, found[0]), {}).setdefault(found[1], site)
            elif isinstance(node, ast.Name):
                yield from _default(site, node)
    for (file, owner), names in classes.items():
        edits = _declared(file, owner, list(names))
        title = f"{', '.join(names)} of {owner.name} declared constant"
        where = tuple(site.where for site in names.values())
        yield Proposal(ChangeKind.CONSTANT, title, edits, where)


def _decides(file: ParsedFile, node: ast.expr) -> bool:
    """Whether it is an argument of a call, or part of a condition."""
    return file.call_of_argument(node) is not None or isinstance(file.parent(node), _CONDITIONS)


# -- attributes ----------------------------------------------------------------------------------------------


def _own_attribute(file: ParsedFile, node: ast.AST) -> tuple[ast.ClassDef, str] | None:
    """The class and name of ``self.dim``, which only ``__init__`` sets, to a plain value."""
    name = _of_self(node)
    if name is None or not isinstance(node, ast.Attribute) or not _decides(file, node):
        return None
    owner = file.class_of(node)
    if owner is None or name == "training" or _is_constant(file, owner, name):
        return None
    assigned = [one for one in walk(owner) if name in _set_by(one)]
    function = file.function_of(assigned[0]) if len(assigned) == 1 else None
    value = getattr(assigned[0], "value", None) if assigned else None
    if function is None or function.name != "__init__" or not _is_plain(value):
        return None
    return owner, name


def _of_self(node: ast.AST) -> str | None:
    """``dim`` of ``self.dim``."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    is_self = isinstance(owner, ast.Name) and owner.id == "self"
    return node.attr if isinstance(node, ast.Attribute) and is_self else None


def _is_plain(value: ast.AST | None) -> bool:
    return isinstance(value, (ast.Name, ast.Constant, ast.UnaryOp, ast.Tuple, ast.BinOp))


def _set_by(node: ast.AST) -> list[str]:
    """The attributes of ``self`` that a statement assigns."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [name for name in map(_of_self, targets) if name is not None]


def _is_constant(file: ParsedFile, owner: ast.ClassDef, name: str) -> bool:
    """Whether the class says so already, by ``Final`` or ``__constants__``."""
    listed = _constants(owner)
    texts = [one.value for one in listed.elts if isinstance(one, ast.Constant)] if listed is not None else []
    if name in texts:
        return True
    annotated = (one for one in walk(owner) if isinstance(one, ast.AnnAssign))
    return any(
        name == (one.target.id if isinstance(one.target, ast.Name) else getattr(one.target, "attr", None))
        and "Final" in file.text(one.annotation)
        for one in annotated
    )


def _constants(owner: ast.ClassDef) -> ast.List | ast.Tuple | None:
    """The value of ``__constants__`` in the body of a class."""
    for statement in owner.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.List, ast.Tuple)):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if "__constants__" in names:
                return statement.value
    return None


def _declared(file: ParsedFile, owner: ast.ClassDef, names: list[str]) -> tuple[Edit, ...]:
    """The names added to ``__constants__``, or a line with it at the start of the class."""
    listed = _constants(owner)
    texts = ", ".join(f'"{name}"' for name in names)
    if listed is not None and listed.elts:
        return (file.inserted(file.span(listed.elts[-1])[1], f", {texts}"),)
    first = owner.body[0]
    has_more = len(owner.body) > 1
    offset = file.after(first) if is_docstring(first) and has_more else before(file, first)
    return (lines_at(file, offset, [f"__constants__ = [{texts}]", ""], file.lead(first), rank=0),)


# -- arguments -----------------------------------------------------------------------------------------------


def _default(site: Site, node: ast.Name) -> Iterator[Proposal]:
    """The default of an argument in its place, ``dim: int = -1`` that nobody gives; the argument goes, so
    that a call that gives it fails, and is not quietly given something else."""
    file, name = site.file, node.id
    function = file.function_of(node)
    if function is None or not _decides(file, node):
        return
    given = [*function.args.posonlyargs, *function.args.args]
    index = next((index for index, one in enumerate(given) if one.arg == name), 0)
    value = default_of(function, given[index]) if index else None
    if value is None or not _is_number_or_flag(file, value):
        return
    if _is_set(function, name) or _is_named(file, function, name):
        return
    text = file.text(value)
    last = default_of(function, given[index - 1]) or given[index - 1]
    if isinstance(last, ast.expr) and file.is_parenthesised(last):
        return
    edits = [file.removed(file.span(last)[1], file.span(value)[1])]
    for use in (use for statement in function.body for use in names_in(statement, name)):
        if isinstance(file.parent(use), ast.Attribute):
            continue
        above = file.parent(use)
        alone = file.call_of_argument(use) or isinstance(above, (ast.If, ast.List, ast.Tuple, ast.Set))
        edits.append(file.replaced(use, text if alone or not text.startswith("-") else f"({text})"))
    title = f"{text} instead of the argument {name} of {function.name}"
    note = f"calls that give {name} fail then"
    yield Proposal(ChangeKind.CONSTANT, title, tuple(edits), (site.where,), note)


def _is_number_or_flag(file: ParsedFile, value: ast.expr) -> bool:
    """A whole number, an operator on one (``-1``), or a flag."""
    plain = isinstance(value, ast.UnaryOp) or (
        isinstance(value, ast.Constant) and isinstance(value.value, int)
    )
    return plain and not file.is_parenthesised(value)


def _is_set(function: Function, name: str) -> bool:
    """Whether a function sets a name, or has another function that may."""
    for statement in function.body:
        for node in walk(statement):
            if isinstance(node, (*FUNCTIONS, ast.Lambda)):
                return True
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
                return True
    return False


def _is_named(file: ParsedFile, function: Function, name: str) -> bool:
    """Whether a call in the file gives the argument by its name."""
    for call in file.nodes:
        if isinstance(call, ast.Call) and any(given.arg == name for given in call.keywords):
            called = (
                call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
            )
            if called in (function.name, "self"):
                return True
    return False


# -- Optional ------------------------------------------------------------------------------------------------


def _optional(program: Program, site: Site) -> Iterator[Proposal]:
    """``if mask is not None``, where mask is always given, or never."""
    file = site.file
    for node in file.on_line(site.line):
        if not isinstance(node, ast.Compare) or file.text(node.comparators[0]) != "None":
            continue
        if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            continue
        tested: ast.expr = node.left
        function = file.function_of(node)
        if isinstance(tested, ast.Name) and function is not None:
            name = tested.id
            if _argument(function, name) is not None:
                yield from _without_optional(file, function, name, site, _is_given(program, file, node))
                continue
            tested = next(iter(_values(function, name)), tested)
        attribute = _of_self(tested)
        if attribute is not None:
            yield from _of_class(file, node, attribute, site)


def _argument(function: Function, name: str) -> ast.arg | None:
    """The argument of that name."""
    return next((one for one in arguments_of(function) if one.arg == name), None)


def _values(function: Function, name: str) -> Iterator[ast.expr]:
    """The values that are assigned to a name."""
    for node in walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == name for one in targets
        ):
            yield node.value


def _is_given(program: Program, file: ParsedFile, node: ast.Compare) -> bool:
    """True if the branch for a given (not None) argument ran: operators of it are in groups, or ran."""
    branch = file.parent(node)
    if not isinstance(branch, ast.If):
        return True
    block = branch.body if isinstance(node.ops[0], ast.IsNot) else branch.orelse
    if not block:
        return True
    lines = range(file.line(block[0]), file.last_line(block[-1]) + 1)
    return any(path == file.source.path and line in lines for path, line in program.lines_that_ran)


def _without_optional(
    file: ParsedFile, function: Function, name: str, site: Site, given: bool
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
        default = default_of(one, argument)
        if given and default is not None and _has_default_before(one, argument):
            return  # an argument without a default cannot follow one with it
        start, end = file.span(argument.annotation)
        if given:
            text = kind
            end = file.span(default)[1] if default is not None else end
        edits.append(Edit(file.source.path, start, end, text))
    if edits:
        title = f"{name}: {text} instead of Optional"
        how = "has to be given then" if given else "may not be given to TorchScript then"
        note = f"{name} {how}, as in this run"
        every, ops = tuple(dict.fromkeys(edits)), frozenset(["prim::If"])
        yield Proposal(ChangeKind.ANNOTATION, title, every, (site.where,), note, ops=ops)


def _has_default_before(function: Function, argument: ast.arg) -> bool:
    """Whether an argument before it has a default; of one that is given by name alone, no."""
    given = [*function.args.posonlyargs, *function.args.args]
    before_it = given[: given.index(argument)] if argument in given else []
    return any(default_of(function, one) is not None for one in before_it)


def _hand_it_on(file: ParsedFile, name: str) -> Iterator[Function]:
    """Functions that have an argument of that name, and give it to another."""
    for node in names_in(file.tree, name):
        function = file.function_of(node) if file.call_of_argument(node) is not None else None
        if function is not None and _argument(function, name) is not None:
            yield function


def _of_optional(file: ParsedFile, argument: ast.arg | None) -> str | None:
    """ "Tensor" of an argument ``mask: Optional[Tensor]`` or ``mask: Tensor | None``."""
    if argument is None or argument.annotation is None:
        return None
    return _inside_optional(file.text(argument.annotation))


def _inside_optional(text: str) -> str | None:
    quote = text[0] if text[:1] in ("'", '"') and text[-1:] == text[:1] else ""
    plain = text.strip("'\"")
    found = re.fullmatch(r"(?:\w+\.)*Optional\[(.*)\]", plain, re.S) or re.fullmatch(
        r"(.*?)\s*\|\s*None", plain, re.S
    )
    return f"{quote}{found.group(1).strip()}{quote}" if found is not None else None


def _of_class(file: ParsedFile, node: ast.AST, name: str, site: Site) -> Iterator[Proposal]:
    """The line ``bias: Optional[Tensor]`` of a class taken out: then the type is that of the value it
    holds."""
    owner = file.class_of(node)
    for statement in owner.body if owner is not None else ():
        if not isinstance(statement, ast.AnnAssign) or statement.value is not None:
            continue
        if not isinstance(statement.target, ast.Name) or statement.target.id != name:
            continue
        if _inside_optional(file.text(statement.annotation)) is None or not file.has_own_lines(statement):
            continue
        edit = file.removed(file.start_of_line(statement), file.after(statement))
        title = f"the annotation {file.text(statement)} taken out"
        note = f"TorchScript then takes {name} as what it holds when it is compiled: a tensor, or None"
        where = (site.where, file.where(statement))
        yield Proposal(ChangeKind.ANNOTATION, title, (edit,), where, note, ops=frozenset(["prim::If"]))
