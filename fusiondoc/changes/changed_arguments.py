"""Lines that change in place a tensor that the caller of their function has too: an
argument, an element or a view of one, an attribute of the module."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.changes.out_of_place import (
    assigned_in_place,
    inplace_flag,
    is_method_in_place,
)
from fusiondoc.changes.source_file import (
    Function,
    ParsedFile,
    arguments_of,
    dotted,
    names_in,
)
from fusiondoc.operators import (
    FLAGS,
    HANDS_ON,
    IN_PLACE_ASSIGNS,
    VIEWS,
    is_in_place,
    plain_name,
    sign_of,
)
from fusiondoc.operators.signs import NODE_OF_SIGN

_SHARE = frozenset(op.rpartition("::")[2] for op in VIEWS | HANDS_ON) | {
    "float",
    "double",
    "half",
    "bfloat16",
}
"""Methods and functions whose result may share the memory of their input."""
_OF_ELEMENTS = frozenset(
    ("zip", "enumerate", "list", "tuple", "reversed", "sorted")
)
_MOST_STEPS = 50
"""Limit of the number of names whose assignments are followed."""


def changes_argument(
    file: ParsedFile, line: int, through_calls: bool = True, op: str | None = None
) -> bool:
    """True if a line changes in place a tensor that the caller of its function
    holds too.

    Args:
        through_calls: a function of the program may return its argument.
        op: the in-place operator, as printed; None for any on the line.
    """
    changes = _changes(file, line, op)
    return any(
        _is_callers(file, function, tensor, through_calls)
        for function, tensor in changes
    )


def changes_what_has_another_name(
    file: ParsedFile,
    line: int,
    through_modules: bool = False,
    op: str | None = None,
) -> bool:
    """True if an attribute, or another local name that is read later, may share the
    memory that a line changes in place: ``skip = h`` before ``h += x``.

    Args:
        through_modules: a module may return its argument.
    """
    for function, tensor in _changes(file, line, op):
        whole = _whole(file, tensor)
        if not isinstance(whole, ast.Name):
            continue
        origins = _origins(file, function, tensor, through_modules, through_modules)
        others = {name.id for name, _ in origins} - {whole.id}
        if any(file.reads_after(whole, one) for one in others):
            return True
        if _is_kept(file, function, whole):
            return True
    return False


def changes_result_under_its_name(
    file: ParsedFile, line: int, op: str | None = None
) -> bool:
    """True if a line assigns the changed tensor to a name, so that the old value
    can stay under another name: ``h += x`` and ``y = self.act(h)``. Not for
    ``h.add_(x)`` alone or ``h[0] = x``, after which ``h`` itself is read."""
    for node in _nodes(file, line, op):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            return True
        if (
            isinstance(node, ast.Call)
            and _changed(file, node, True, op is not None) is not None
        ):
            by_name = (
                is_in_place(_last_name(node.func) or "")
                or file.meaning(node.func) is not None
            )
            if not by_name or not isinstance(file.parent(node), ast.Expr):
                return True
    return False


def changes_what_a_call_gave(
    file: ParsedFile, line: int, op: str | None = None
) -> bool:
    """True if a line changes in place the result of a module or function of the
    program that has no name: ``self.act(h).mul_(y)``. The text does not show where
    else that tensor is held."""
    return any(
        _is_of_the_program(_whole(file, tensor))
        for _, tensor in _changes(file, line, op)
    )


def _is_of_the_program(node: ast.expr) -> bool:
    """True for a call of a function of the program, or of a module:
    ``self.act(h)``."""
    name = dotted(node.func) if isinstance(node, ast.Call) else None
    return name is not None and (name.startswith("self.") or "." not in name)


def changes_result_of(
    file: ParsedFile, line: int, functions: AbstractSet[str], op: str | None = None
) -> bool:
    """True if a line changes in place the result of one of these functions or
    methods: ``x.mean(1).mul_(y)``, or ``m *= y`` below ``m = x.mean(1)``."""
    for function, tensor in _changes(file, line, op):
        if isinstance(tensor, ast.Name):
            values = _values(file, function, tensor)[0]
        else:
            values = [tensor]
        if any(
            isinstance(one, ast.Call) and _last_name(one.func) in functions
            for one in values
        ):
            return True
    return False


def _last_name(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return dotted(function)


def is_in_a_container(file: ParsedFile, line: int, op: str | None = None) -> bool:
    """True if the tensor that a line changes in place is an element of a list, a
    tuple or a dictionary of its function, or is appended to one: no plan shows
    where it is read from there."""
    for function, tensor in _changes(file, line, op):
        whole = _whole(file, tensor)
        if isinstance(whole, ast.Name) and _is_contained(file, function, whole):
            return True
    return False


def _changes(
    file: ParsedFile, line: int, op: str | None
) -> Iterator[tuple[Function, ast.expr]]:
    """Yield the tensors that a line changes in place, each with its function: by
    the operator ``op``, if the line shows it; else any module that the line calls
    may be the one that works in place."""
    for node in _nodes(file, line, op):
        flagged = op is not None and _is_called(node, op)
        tensor = _changed(
            file, node, flagged, any_module=op is not None and not flagged
        )
        function = file.function_of(node)
        if tensor is not None and function is not None:
            yield function, tensor


def _nodes(file: ParsedFile, line: int, op: str | None) -> Sequence[ast.AST]:
    """The nodes of a line that call the operator; all nodes if none does."""
    nodes = file.on_line(line)
    return [
        node for node in nodes if op is not None and _is_called(node, op)
    ] or nodes


def _is_called(node: ast.AST, op: str) -> bool:
    """True if a node is an in-place operator, as a call, as an augmented
    assignment, or as an assignment to a part."""
    target = (
        node.targets[0]
        if isinstance(node, ast.Assign)
        else getattr(node, "target", None)
    )
    if op in IN_PLACE_ASSIGNS and isinstance(target, ast.Subscript):
        return True
    if isinstance(node, ast.AugAssign):
        sign = sign_of(op)
        return sign is not None and isinstance(node.op, NODE_OF_SIGN[sign])
    name = plain_name(op)
    return isinstance(node, ast.Call) and _last_name(node.func) in (
        name,
        f"{name}_",
    )


def _origins(
    file: ParsedFile,
    function: Function,
    tensor: ast.expr,
    through_calls: bool,
    through_modules: bool = False,
) -> Iterator[tuple[ast.Name, bool]]:
    """Yield the names whose memory the tensor may share, found through their
    assignments. The flag is True if the name has been assigned on every path to
    this point, so that it no longer holds an argument."""
    todo: list[ast.expr] = [tensor]
    for one in todo:  # todo grows in the loop
        whole = _whole(file, one, copied=one is not tensor)
        if isinstance(whole, ast.Name) and len(todo) <= _MOST_STEPS:
            values, is_first = _values(file, function, whole)
            yield whole, is_first
            todo += values
        else:
            todo += _passed_on(file, whole, through_calls)
            if through_modules:
                todo += _given_to_module(whole)


def _given_to_module(node: ast.expr) -> Sequence[ast.expr]:
    """The arguments of ``self.act(h)``; empty for other expressions."""
    name = dotted(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and name is not None and name.startswith("self."):
        return node.args
    return ()


def _is_kept(file: ParsedFile, function: Function, name: ast.Name) -> bool:
    """True if something else is assigned that shares the memory of a name: ``skip =
    h``, ``z = h.view(-1)``."""
    for use in names_in(function, name.id):
        if not isinstance(use.ctx, ast.Load) or not _is_before(
            file, function, use, name
        ):
            continue
        statement = file.statement_of(use)
        if (
            not isinstance(statement, (ast.Assign, ast.AnnAssign))
            or statement.value is None
        ):
            continue
        if use in _roots(file, statement.value) and _is_needed(
            file, statement, name
        ):
            return True
    return False


def _is_needed(
    file: ParsedFile, statement: ast.Assign | ast.AnnAssign, name: ast.Name
) -> bool:
    """True if a statement also assigns to an attribute, or to another name that is
    read later."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        targets = [statement.target]
    parts = []
    for target in targets:
        for part in getattr(target, "elts", None) or [target]:
            parts.append(part)
    for one in parts:
        if not isinstance(one, ast.Name):
            return True
        if one.id != name.id and file.reads_after(name, one.id):
            return True
    return False


def _is_before(
    file: ParsedFile, function: Function, use: ast.Name, name: ast.Name
) -> bool:
    """True if a use of a name may come before the name's tensor is changed: above
    it, or in a common loop in which the name is not assigned anew."""
    if use.lineno < name.lineno:
        return True
    loops = file.loops_around(name)
    return any(loop in file.parents(use) for loop in loops) and not _made_between(
        file, function, name
    )


def _roots(file: ParsedFile, value: ast.expr) -> list[ast.expr]:
    """The expressions whose memory a value may share."""
    roots, todo = [], [value]
    for one in todo:  # which grows
        whole = _whole(file, one, copied=True)
        roots.append(whole)
        todo += _passed_on(file, whole, through_calls=False)
    return roots


def _is_contained(file: ParsedFile, function: Function, name: ast.Name) -> bool:
    uses = names_in(function, name.id)
    return any(
        _is_held(file, use) and _is_before(file, function, use, name)
        for use in uses
    )


def _is_held(file: ParsedFile, use: ast.Name) -> bool:
    """True if a list, a tuple or a dictionary holds the tensor of a name from here
    on. Lists passed to ``torch.cat`` or returned do not count."""
    above = file.parent(use)
    if isinstance(above, ast.Call):
        return isinstance(above.func, ast.Attribute) and above.func.attr in _KEEPERS
    if not isinstance(above, (ast.List, ast.Tuple, ast.Dict)) or not isinstance(
        use.ctx, ast.Load
    ):
        return False
    return isinstance(
        file.parent(above),
        (ast.Assign, ast.AnnAssign, ast.List, ast.Tuple, ast.Dict),
    )


_KEEPERS = frozenset(("append", "insert", "extend", "setdefault"))


def _made_between(file: ParsedFile, function: Function, name: ast.Name) -> bool:
    """True if a name is assigned anew in the nearest loop around it before its
    tensor is changed there."""
    loop = file.loops_around(name)[0]
    bound = _bound(file, function, name.id)
    return any(
        loop in file.parents(one) and one.lineno < name.lineno for one in bound
    )


def _changed(
    file: ParsedFile, node: ast.AST, flagged: bool, any_module: bool = False
) -> ast.expr | None:
    """Return the tensor that a statement or call changes in place; for ``x[0] = y``
    it is ``x[0]``.

    Args: flagged: a function with a parameter ``inplace`` works in place, whatever
        is passed. any_module: a call by a plain name, too, may be a module that
        works in place.
    """
    if isinstance(node, ast.Call):
        return _changed_by_call(file, node, flagged, any_module)
    return assigned_in_place(node)


def _changed_by_call(
    file: ParsedFile, call: ast.Call, flagged: bool, any_module: bool = False
) -> ast.expr | None:
    """The tensor that a function, a method, or a module with ``inplace=True``
    changes in place."""
    first = call.args[0] if call.args else None
    owner, _, name = (file.meaning(call.func) or "").rpartition(".")
    if owner == "torch.nn.functional" and name in FLAGS:
        if flagged or inplace_flag(call, FLAGS[name]) is not None:
            return first
        return None
    if isinstance(call.func, ast.Attribute) and is_method_in_place(call):
        if owner:
            return first
        return call.func.value
    if not owner and _may_be_module(call.func, any_module):
        return first
    return None


def _may_be_module(called: ast.expr, any_module: bool) -> bool:
    """True for ``self.act``; and for ``layer`` of a loop, where any name may be a
    module."""
    if isinstance(called, ast.Name):
        return any_module and not hasattr(builtins, called.id)
    above = called.value if isinstance(called, ast.Attribute) else None
    return isinstance(above, ast.Name) and above.id == "self"


def _is_callers(
    file: ParsedFile, function: Function, tensor: ast.expr, through_calls: bool
) -> bool:
    """True if the tensor may be an argument that the caller passed, or part of
    one."""
    given = {argument.arg for argument in arguments_of(function)}
    names = _origins(file, function, tensor, through_calls)
    return any(not is_first and name.id in given for name, is_first in names)


def _passed_on(
    file: ParsedFile, node: ast.expr, through_calls: bool
) -> Sequence[ast.expr]:
    """Return the values that an expression may return unchanged: both sides of ``a
    if b else c``, the elements of a tuple or list, and the arguments of a function
    of the program or of a named tuple's class."""
    if isinstance(node, ast.IfExp):
        return node.body, node.orelse
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and through_calls
    ):
        return [*node.args, *(keyword.value for keyword in node.keywords)]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _OF_SEVERAL
    ):
        return node.args
    return ()


_OF_SEVERAL = frozenset(
    ("broadcast_tensors", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d")
)
"""Functions whose results are views of their arguments."""


def _whole(file: ParsedFile, node: ast.expr, copied: bool = False) -> ast.expr:
    """Return the tensor that an expression is an element, an attribute or a view
    of, or that it changes in place.

    Args: copied: the expression is read, so ``x[index]`` with a tensor as index is
        a new tensor; as the target of an assignment it is ``x``.
    """
    while True:
        if copied and isinstance(node, ast.Subscript) and _is_by_tensor(file, node):
            return node
        if isinstance(node, (ast.Subscript, ast.Attribute)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in _SHARE and not is_in_place(node.func.attr):
                return node
            if file.meaning(node.func) is None:
                node = node.func.value
            elif node.args:
                node = node.args[0]
            else:
                return node
        else:
            return node


def _is_by_tensor(file: ParsedFile, node: ast.Subscript) -> bool:
    """True if elements are selected by a tensor: ``table[ids]``, ``x[0, rows]``,
    ``x[y > 0]``."""
    function = file.function_of(node)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return function is not None and any(
        _is_given_tensor(function, part) for part in parts
    )


def _is_given_tensor(function: Function, node: ast.expr) -> bool:
    """True for an argument annotated as a tensor that is never reassigned, elements
    of one, or a comparison or operator on these."""
    if isinstance(node, ast.Subscript):
        return _is_given_tensor(function, node.value)
    if isinstance(node, ast.Compare):
        return _is_given_tensor(function, node.left)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return _is_given_tensor(function, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_given_tensor(function, node.left) or _is_given_tensor(
            function, node.right
        )
    if not isinstance(node, ast.Name) or any(
        isinstance(one.ctx, ast.Store) for one in names_in(function, node.id)
    ):
        return False
    kinds = (one.annotation for one in arguments_of(function) if one.arg == node.id)
    return any(
        (dotted(kind) or "").rpartition(".")[2] == "Tensor" for kind in kinds
    )


def _values(
    file: ParsedFile, function: Function, name: ast.Name
) -> tuple[list[ast.expr], bool]:
    """Return the values that a name may have where it is read, from the assignments
    above it; and True if one of these is made on every path there, so that the name
    no longer holds an argument."""
    found: list[ast.expr] = []
    around = {name, *file.parents(name)}
    above = []
    for one in _bound(file, function, name.id):
        if one.lineno < name.lineno:
            above.append(one)
    for one in sorted(above, key=lambda one: one.lineno, reverse=True):
        found += _value_of(file, one)
        statement = next(up for up in file.parents(one) if isinstance(up, ast.stmt))
        if not around.isdisjoint(file.block_of(statement)) or statement in around:
            return found, True
    return found, False


def _bound(file: ParsedFile, function: Function, name: str) -> Iterator[ast.Name]:
    """The positions at which a name is assigned; ``x += y`` does not count, as it
    assigns the same tensor."""
    for one in names_in(function, name):
        if isinstance(one.ctx, ast.Store) and not isinstance(
            file.parent(one), ast.AugAssign
        ):
            yield one


def _value_of(file: ParsedFile, target: ast.Name) -> Iterator[ast.expr]:
    """Yield the values assigned to a name: for ``a, b = x`` and ``for a in x`` it
    is ``x``, as ``a`` is an element of it."""
    above = file.parent(target)
    if isinstance(above, (ast.Tuple, ast.List)):
        index, statement = above.elts.index(target), file.parent(above)
    else:
        index, statement = None, above
    value = None
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        value = statement.value
    if isinstance(statement, (ast.For, ast.comprehension)):
        value = statement.iter
    if value is None:
        return
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in _OF_ELEMENTS
    ):
        yield from value.args
    elif (
        index is not None
        and isinstance(value, (ast.Tuple, ast.List))
        and len(value.elts) > index
    ):
        yield value.elts[index]
    else:
        yield value
