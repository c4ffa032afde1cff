"""Finds the expressions of the fusion IR that each operator of a group became.

The nodes of the group's graph are parsed in order (parser.cpp), and each makes its
expressions before the next does: so the tensors of the IR, by number, are in the
order of the nodes. The log does not show where the expressions of a node end. An
operator is recognised by the expressions that it must become, in order; broadcasts,
casts, copies and arithmetic on scalars may occur anywhere. The expressions are
assigned only if there is exactly one way to assign all operators and all
expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fusiondoc.fusers import FUSERS
from fusiondoc.parsers.kernels.dump_kernel import Expression

_PASSIVE = frozenset(
    ("broadcast", "cast", "set", "squeeze", "expand", "full", "constant")
)
"""Expressions that accompany others: they do not identify an operator."""

_MOST_TEXT = 2000
"""Number of characters of an expression that are read."""

_FUNCTION = re.compile(r"\b([A-Za-z_]\w*) ?\(")
_CAST = re.compile(
    r"\((?:float|double|__half|__bfloat|int|int64_t|bool|half|bfloat16)\)\(|__[a-z0-9]{1,20}2[a-z0-9]{1,20}\("
)
_BINARY = re.compile(r"\n[ \t]+(==|!=|<=|>=|\+|-|\*|/|<|>|&|\||\^|%|//)\s")
_INFIX = re.compile(r"\S \s*(==|!=|<=|>=|\+|-|\*|/|<|>|&|\|)\s")
_REDUCTION = re.compile(r"op = (\w+)")
_BRACKETS = re.compile(r"\[.*?\]|\{.*?\}")
_COPY = re.compile(r"T\d+_\w*\[[^\n]*\];?$")

_FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    op: tuple(tuple(form.split(", ")) for form in forms)
    for fuser in FUSERS.values()
    for op, forms in fuser.operators.expressions.items()
}
"""Operator -> the forms in which a kernel shows it; each form is a tuple of the
words of its expressions (see ``_word``)."""

_FUNCTIONS = frozenset(op[6:] for op, forms in _FORMS.items() if (op[6:],) in forms)
"""Functions that have the name of their operator."""

_NO_EXPRESSION = frozenset(
    ("prim::ListConstruct", "prim::TupleConstruct", "aten::size", "prim::Constant")
)


_Ways = dict[int, tuple[int, "tuple[int, int] | None"]]
"""Number of expressions assigned so far -> (number of ways, where 2 means several;
start and number of expressions of the last operator)."""


def expressions_of_operators(
    ops: Sequence[str], expressions: Sequence[Expression]
) -> list[tuple[int, ...]] | None:
    """Return the indexes of each operator's expressions; None if they are not
    certain."""
    words = []
    for index, word in enumerate(map(_word, expressions)):
        if word not in _PASSIVE:
            words.append((index, word))
    names = [word for _, word in words]
    if None in names:
        return None
    ways: list[_Ways] = [{0: (1, None)}]
    for op in ops:
        ways.append(_next_ways(op, names, ways[-1]))
    end = ways[-1].get(len(names))
    if end is None or end[0] != 1:
        return None
    found: list[tuple[int, ...]] = []
    at = len(names)
    for reached in reversed(ways[1:]):
        step = reached[at][1]
        assert step is not None
        start, length = step
        found.append(tuple(index for index, _ in words[start : start + length]))
        at = start
    return found[::-1]


def _next_ways(op: str, names: Sequence[str | None], ways: _Ways) -> _Ways:
    """Return the ways after the next operator has got its expressions."""
    reached: _Ways = {}
    for start, (count, _) in ways.items():
        for length in _lengths(op, names, start):
            before = reached.get(start + length, (0, None))[0]
            reached[start + length] = (min(2, before + count), (start, length))
    return reached


def _lengths(op: str, names: Sequence[str | None], start: int) -> list[int]:
    """Return the numbers of expressions from ``start`` on that the operator may
    have become."""
    if op in _NO_EXPRESSION:
        return [0]
    forms = _FORMS.get(op, ())
    lengths = []
    for form in forms:
        if tuple(names[start : start + len(form)]) == form:
            lengths.append(len(form))
    return lengths


def _word(expression: Expression) -> str | None:
    """Return the operation of an expression as one word; None for a line of unknown
    form."""
    text = expression.text[:_MOST_TEXT]
    if text.startswith("Welford"):
        return "Welford"
    if _CAST.match(text):
        return "cast"
    function = _FUNCTION.match(text)
    if function is not None:
        return _word_of_function(function.group(1), text)
    binary = _BINARY.search(text) or _INFIX.search(_BRACKETS.sub("", text))
    if binary:
        return binary.group(1)
    if text.startswith("-T"):
        return "-x"
    if _COPY.match(text):
        return "set"
    return None


def _word_of_function(name: str, text: str) -> str | None:
    if name == "reduction":
        kind = _REDUCTION.search(text)
        if kind:
            return f"reduction {kind.group(1)}"
        return None
    if name in ("rng_uniform", "randLike", "Philox"):
        return "rand"
    if name in _PASSIVE or name in _FUNCTIONS:
        return name
    untyped = name[:-1]  # as in sqrtf
    if untyped in _FUNCTIONS:
        return untyped
    return name
