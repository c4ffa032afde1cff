"""Calls of torch that a compiler leaves to eager code, written with operators that
it compiles, by the table of its compositions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.assigned_names import assigned_to
from fusiondoc.changes.by_recipe import rewritten_call
from fusiondoc.changes.out_of_place import module_class
from fusiondoc.changes.pattern import (
    MatchedText,
    literal_value,
    operand,
    parse_expression,
)
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.rewrite import Line, Rewritten
from fusiondoc.changes.source_file import ParsedFile, dotted
from fusiondoc.fusers.composition import Composition
from fusiondoc.model import dataclass

_OWNERS = ("torch", "torch.nn.functional", "torch.special")
_MOST_PARTS = 3
"""Most parts of an argument that is one number for each dimension, or one for
all."""


def by_composition(
    file: ParsedFile, line: int, compositions: Iterable[Composition]
) -> Iterator[Rewritten]:
    """Yield the rewrites of a line by the compositions that match one of its
    calls."""
    for one in compositions:
        yield from in_all_calls(partial(_written, one), Line(file, line))


def _written(one: Composition, line: Line, node: ast.AST) -> Iterator[Rewritten]:
    file = line.file
    if not isinstance(node, ast.Call):
        return
    given = _given_to_function(file, node, one) or _given_to_module(file, node, one)
    bound = _bound(file, given, one) if given is not None else None
    if bound is not None:
        recipe = Recipe(
            of=one.of,
            before=one.call,
            after=one.after,
            inputs="",
            ops="",
            helper=one.helper,
        )
        tensors = set()
        for name, found in bound.items():
            if literal_value(found.text) is None:
                tensors.add(name)
        made = rewritten_call(file, node, recipe, bound, frozenset(tensors))
        yield replace(made, note=one.note, sure=False)


@dataclass(frozen=True)
class _Signature:
    """The arguments of a call, each with its default or None; arguments that are
    expressions are not listed."""

    name: str
    arguments: Mapping[str, ast.expr | None]
    expression: ast.expr | None = None
    """Pattern that the only argument has to match."""


@lru_cache(maxsize=1000)
def _signature(call: str) -> _Signature:
    tree = parse_expression(call)
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute)
    names = {
        argument.id: None
        for argument in tree.args
        if isinstance(argument, ast.Name)
    }
    defaults = {}
    for given in tree.keywords:
        if given.arg is not None:
            defaults[given.arg] = given.value
    expression = tree.args[0] if tree.args and not names else None
    return _Signature(tree.func.attr, {**names, **defaults}, expression)


Given = Mapping[str, ast.expr]


def _given_to_function(
    file: ParsedFile, node: ast.Call, one: Composition
) -> Given | None:
    """Return the arguments of a function of torch, or of the same function as a
    method of its first argument."""
    signature = _signature(one.call)
    method = node.func
    meaning = file.meaning(method)
    positional = list(node.args)
    if (
        meaning is None
        and isinstance(method, ast.Attribute)
        and method.attr == signature.name
    ):
        if dotted(method.value) == "self":
            return None  # a method of the user's module may have any name
        positional.insert(0, method.value)
    elif meaning is None or meaning not in {
        f"{owner}.{signature.name}" for owner in _OWNERS
    }:
        return None
    if signature.expression is not None:
        only = positional[0] if len(positional) == 1 and not node.keywords else None
        return _operands(signature.expression, only)
    return _by_name(signature, positional, node)


def _operands(pattern: ast.expr, node: ast.expr | None) -> Given | None:
    """Return the operands of an arithmetic expression by the names in the
    pattern."""
    if isinstance(pattern, ast.Name):
        if node is None:
            return None
        return {pattern.id: node}
    if not isinstance(pattern, ast.BinOp) or not isinstance(node, ast.BinOp):
        return None
    if type(pattern.op) is not type(node.op):
        return None
    left, right = (
        _operands(pattern.left, node.left),
        _operands(pattern.right, node.right),
    )
    if left is not None and right is not None:
        return {**left, **right}
    return None


def _by_name(
    signature: _Signature, positional: list[ast.expr], node: ast.Call
) -> Given | None:
    """Return the arguments of a call by their names; None if it has others, or if
    they are not written out."""
    names = list(signature.arguments)
    if len(positional) > len(names) or any(
        isinstance(value, ast.Starred) for value in positional
    ):
        return None
    given = dict(zip(names, positional))
    for keyword in node.keywords:
        if (
            keyword.arg is None
            or keyword.arg not in signature.arguments
            or keyword.arg in given
        ):
            return None
        given[keyword.arg] = keyword.value
    return given


def _given_to_module(
    file: ParsedFile, node: ast.Call, one: Composition
) -> Given | None:
    """The same for ``self.pool(x)``, with the arguments of the line that assigns
    the module to the attribute."""
    name = dotted(node.func) or ""
    if one.module is None or not name.startswith("self."):
        return None
    signature = _signature(one.module)
    made = _constructor(file, name, signature.name)
    options = None
    if made is not None:
        options = _by_name(signature, list(made.args), made)
    if options is None or not _same(signature, options):
        return None
    tensors = {
        name_: None
        for name_ in _signature(one.call).arguments
        if name_ not in signature.arguments and name_ not in one.parameters
    }
    given = _by_name(_Signature(name, tensors), list(node.args), node)
    if given is None:
        return None
    parameters = {own: parse_expression(f"{name}.{own}") for own in one.parameters}
    known = {}
    for own, value in options.items():
        if own in _signature(one.call).arguments and own not in _OF_MODULES:
            known[own] = value
    return {**known, **parameters, **given}


def _constructor(file: ParsedFile, attribute: str, kind: str) -> ast.Call | None:
    """Return ``nn.MaxPool2d(2)`` from ``self.pool = nn.MaxPool2d(2)``; None if
    several lines assign it."""
    found = assigned_to(file, attribute)
    made = found[0] if len(found) == 1 else None
    if isinstance(made, ast.Call) and module_class(file, made.func) == kind:
        return made
    return None


_OF_MODULES = ("bias", "_weight")
"""Options of modules that mean something else than the argument of a call, or that
have no such argument."""


def _same(signature: _Signature, options: Given) -> bool:
    """True if options of a module that the call cannot express have the values of
    the table."""
    for name in _OF_MODULES:
        wanted, value = signature.arguments.get(name), options.get(name)
        if value is not None and (
            wanted is None or ast.dump(value) != ast.dump(wanted)
        ):
            return False
        if (
            name == "bias"
            and wanted is not None
            and value is None
            and not _is_true(wanted)
        ):
            return False  # a module has one if nothing else is given
    return True


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _bound(
    file: ParsedFile, given: Given, one: Composition
) -> dict[str, MatchedText] | None:
    """Return the operands by the names that ``after`` reads; None if an argument
    does not meet its condition."""
    signature = _signature(one.call)
    read = set()
    for node in ast.walk(parse_expression(one.after)):
        if isinstance(node, ast.Name):
            read.add(node.id)
    bound: dict[str, MatchedText] = {}
    for name, default in signature.arguments.items():
        value = given.get(name, default)
        if name in read:
            if value is None or (name not in given and _is_none(value)):
                return None
            bound[name] = _operand(file, value, name in given)
        elif any(f"{name}_{number}" in read for number in range(_MOST_PARTS)):
            parts = _parts(file, value, read, name)
            if parts is None:
                return None
            bound.update(parts)
        elif not _as_wanted(name, given, default, one):
            return None
    if signature.expression is not None:
        bound.update(
            {name: _operand(file, value, True) for name, value in given.items()}
        )
    return bound


def _operand(file: ParsedFile, value: ast.expr, is_given: bool) -> MatchedText:
    """Return ``value`` as text: in the program's words; a default, or a parameter
    of a module, in its own."""
    if is_given and file.parent(value) is not None:
        return operand(file, value)
    text = ast.unparse(value)
    return MatchedText(text, not text.startswith("-"), True)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _parts(
    file: ParsedFile, value: ast.expr | None, read: set[str], name: str
) -> dict[str, MatchedText] | None:
    """Return ``size_0`` and ``size_1`` for ``(4, 3)``, and for ``4``."""
    number = sum(f"{name}_{index}" in read for index in range(_MOST_PARTS))
    if isinstance(value, (ast.Tuple, ast.List)):
        values = list(value.elts)
    elif isinstance(value, ast.Constant) and type(value.value) is int:
        values = [value] * number
    else:
        return None
    known = []
    for part in values:
        if not _is_none(part):
            known.append(operand(file, part))
    if len(known) != number or not all(part.is_plain for part in known):
        return None
    return {f"{name}_{index}": part for index, part in enumerate(known)}


def _as_wanted(
    name: str, given: Given, default: ast.expr | None, one: Composition
) -> bool:
    """True if an argument that ``after`` does not read has the required value."""
    value = given.get(name, default)
    if name in one.only:
        return isinstance(value, ast.Constant) and value.value == one.only[name]
    if name not in given:
        return default is not None
    if (
        default is not None
        and value is not None
        and ast.dump(value) == ast.dump(default)
    ):
        return True
    if one.alike is None or name != one.alike[0] or value is None:
        return False
    other = given.get(one.alike[1])
    return other is not None and ast.dump(value) == ast.dump(other)
