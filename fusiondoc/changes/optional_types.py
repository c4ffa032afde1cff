"""Remove ``Optional`` from the type of a value that is always given, or never: ``if
mask is not None`` is then removed.

torch removes a test for None where the type is not Optional. The type of an
argument is its annotation; that of an attribute its annotation in the class, else
the type of its value (torch/csrc/jit/frontend/ir_emitter.cpp, ``emitCondExpr``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fusiondoc.changes.declared_constants import of_self
from fusiondoc.changes.edits import TextEdit
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import (
    Function,
    ParsedFile,
    arguments_of,
    default_of,
    names_in,
    walk,
)
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.reasons.lacking_constants import is_test_for_none


def write(line: Line) -> Iterator[Rewritten]:
    """Yield a rewrite for each test for None of the line."""
    tests = list(_tests_for_none(line))
    given = all(_ran_if_given(line, node) for node in tests)
    for node in tests:
        made = _of_test(line, node, given)
        if made is not None:
            yield made


def _tests_for_none(line: Line) -> Iterator[ast.Compare]:
    """The comparisons of a line with None."""
    for node in line.file.on_line(line.number):
        if (
            not isinstance(node, ast.Compare)
            or line.file.text(node.comparators[0]) != "None"
        ):
            continue
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            yield node


def _ran_if_given(line: Line, node: ast.Compare) -> bool:
    """True if operators of the branch for a value that is not None are in groups,
    or ran. Also True if the branch has no lines of its own, or if the lines that
    ran are not known."""
    ran, branch = line.shown.lines_that_ran, _branch_if_given(line.file, node)
    return ran is None or branch is None or any(number in ran for number in branch)


def _branch_if_given(file: ParsedFile, node: ast.Compare) -> range | None:
    """Return the lines of the branch that runs if the tested value is not None;
    None if there is no such branch."""
    branch = file.parent(node)
    if not isinstance(branch, ast.If):
        return None
    block = branch.body if isinstance(node.ops[0], ast.IsNot) else branch.orelse
    if block:
        return range(file.line(block[0]), file.last_line(block[-1]) + 1)
    return None


def _of_test(line: Line, node: ast.Compare, given: bool) -> Rewritten | None:
    file = line.file
    tested: ast.expr = node.left
    function = file.function_of(node)
    if isinstance(tested, ast.Name) and function is not None:
        if _argument(function, tested.id) is not None:
            return _without_optional(file, function, tested.id, given)
        tested = next(iter(_values(function, tested.id)), tested)
    attribute = of_self(tested)
    if attribute is None:
        return None
    return _of_class(line, node, attribute)


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


def _without_optional(
    file: ParsedFile, function: Function, name: str, given: bool
) -> Rewritten | None:
    """``mask: Tensor`` or ``mask: None = None`` for ``mask: Optional[Tensor] =
    None``, in the function and in those that pass it on. For Python nothing
    changes; TorchScript refuses a call of the other kind."""
    edits: list[TextEdit] = []
    text = "None"
    for one in (function, *_hand_it_on(file, name)):
        argument = _argument(one, name)
        kind = _of_optional(file, argument)
        if argument is None or argument.annotation is None or kind is None:
            continue
        default = default_of(one, argument)
        if given and default is not None and _has_default_before(one, argument):
            return None  # an argument without a default cannot follow one with it
        start, end = file.span(argument.annotation)
        if given:
            text = kind
            end = file.span(default)[1] if default is not None else end
        edits.append(TextEdit(file.source.path, start, end, text))
    if not edits:
        return None
    if given:
        how = "has to be given then"
    else:
        how = "may not be given to TorchScript then"
    note = f"{name} {how}, as in this run"
    return Rewritten(
        f"{name}: {text} instead of Optional",
        tuple(dict.fromkeys(edits)),
        note=note,
    )


def _has_default_before(function: Function, argument: ast.arg) -> bool:
    """True if an argument before it has a default; False for a keyword-only
    argument."""
    given = [*function.args.posonlyargs, *function.args.args]
    before_it = given[: given.index(argument)] if argument in given else []
    return any(default_of(function, one) is not None for one in before_it)


def _hand_it_on(file: ParsedFile, name: str) -> Iterator[Function]:
    """Functions that have an argument of that name, and pass it to another
    function."""
    for node in names_in(file.tree, name):
        function = None
        if file.call_of_argument(node) is not None:
            function = file.function_of(node)
        if function is not None and _argument(function, name) is not None:
            yield function


def _of_optional(file: ParsedFile, argument: ast.arg | None) -> str | None:
    """Return "Tensor" for an argument ``mask: Optional[Tensor]`` or ``mask: Tensor
    | None``."""
    if argument is None or argument.annotation is None:
        return None
    return _inside_optional(file.text(argument.annotation))


def _inside_optional(text: str) -> str | None:
    quote = text[0] if text[:1] in ("'", '"') and text[-1:] == text[:1] else ""
    plain = text.strip("'\"")
    found = re.fullmatch(
        r"(?:\w+\.)*Optional\[(.*)\]", plain, re.S
    ) or re.fullmatch(r"(.*?)\s*\|\s*None", plain, re.S)
    if found is None:
        return None
    return f"{quote}{found.group(1).strip()}{quote}"


def _of_class(line: Line, node: ast.AST, name: str) -> Rewritten | None:
    """Remove the line ``bias: Optional[Tensor]`` from a class: then the type is
    that of the attribute's value."""
    file = line.file
    owner = file.class_of(node)
    for statement in owner.body if owner is not None else ():
        if not isinstance(statement, ast.AnnAssign) or statement.value is not None:
            continue
        if (
            not isinstance(statement.target, ast.Name)
            or statement.target.id != name
        ):
            continue
        if _inside_optional(
            file.text(statement.annotation)
        ) is None or not file.has_own_lines(statement):
            continue
        return Rewritten(
            f"the annotation {file.text(statement)} taken out",
            (file.removed(file.start_of_line(statement), file.after(statement)),),
            note=f"TorchScript then takes {name} as what it holds when it is compiled: a tensor, or None",
            lines=(line.number, file.line(statement)),
        )
    return None


def _example(argument: str, after: str | None, given: bool = True) -> Example:
    text = "def f(x, {}):\n    if mask is not None:\n        x = x * mask\n    return x\n"
    changed = text.format(after) if after is not None else None
    return Example(
        text.format(argument),
        changed,
        Shown(lines_that_ran=(4,) if given else ()),
        2,
        whole=True,
    )


REWRITE = Rewrite(
    ChangeKind.ANNOTATION,
    write,
    fits=lambda line: is_test_for_none(line.shown.detail),
    examples=(
        _example("mask: Optional[Tensor] = None", "mask: Tensor"),
        _example("mask: 'Tensor | None' = None", "mask: 'Tensor'"),
        _example("mask: Optional[Tensor] = None", "mask: None = None", given=False),
        _example("mask: int = 3", None, given=False),
        _example("mask=None", None),
        _example("y: int = 1, mask: Optional[Tensor] = None", None),
    ),
)
