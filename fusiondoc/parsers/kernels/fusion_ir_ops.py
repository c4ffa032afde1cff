"""Which expressions of the fusion IR an operator of a group became.

nvFuser parses the nodes of the group's graph in order (parser.cpp), and each makes its expressions before the
next does: so the tensors of the IR, by number, are in the order of the nodes. Nothing printed says where one
node ends. An operator is told by the expressions that it must become, in order; broadcasts, casts, copies and
arithmetic on scalars may stand anywhere. Only if every operator and every expression has its place, and in
one way only, is it said; else nothing is.
"""

from __future__ import annotations

import re
from typing import Sequence

from fusiondoc.parsers.kernels.segmentation import Expression

_PASSIVE = frozenset(("broadcast", "cast", "set", "squeeze", "expand", "full", "constant"))
"""Expressions that come with others: no operator is told by them."""

_MOST_TEXT = 2000
"""Characters of an expression that are looked at."""

_FUNCTION = re.compile(r"\b([A-Za-z_]\w*) ?\(")
_CAST = re.compile(
    r"\((?:float|double|__half|__bfloat|int|int64_t|bool|half|bfloat16)\)\(|__[a-z0-9]{1,20}2[a-z0-9]{1,20}\("
)
_BINARY = re.compile(r"\n[ \t]+(==|!=|<=|>=|\+|-|\*|/|<|>|&|\||\^|%|//)\s")
_INFIX = re.compile(r"\S \s*(==|!=|<=|>=|\+|-|\*|/|<|>|&|\|)\s")
_REDUCTION = re.compile(r"op = (\w+)")

_ONE = {
    "aten::add": "+",
    "aten::sub": "-",
    "aten::rsub": "-",
    "aten::mul": "*",
    "aten::div": "/",
    "aten::lt": "<",
    "aten::le": "<=",
    "aten::gt": ">",
    "aten::ge": ">=",
    "aten::eq": "==",
    "aten::ne": "!=",
    "aten::sum": "reduction add",
    "aten::amax": "reduction max",
    "aten::amin": "reduction min",
    "aten::where": "where",
    "aten::pow": "pow",
    "aten::neg": "-x",
}
"""Operators that become one expression."""

_SEVERAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "aten::add": (("*", "+"),),
    "aten::sub": (("*", "-"),),
    "aten::mean": (("reduction add", "/"), ("reduction add", "*")),
    "aten::dropout": (("rand", "<", "*", "*"),),
    "aten::native_dropout": (("rand", "<", "*", "*"),),
    "aten::native_layer_norm": (
        ("Welford", "-", "*", "+", "rsqrt", "*", "*", "+"),
        ("Welford", "-", "*", "+", "rsqrt", "*"),
    ),
    "aten::layer_norm": (
        ("Welford", "-", "*", "+", "rsqrt", "*", "*", "+"),
        ("Welford", "-", "*", "+", "rsqrt", "*"),
    ),
    "aten::softmax": (("reduction max", "-", "exp", "reduction add", "/"),),
}

_FUNCTIONS = frozenset(
    [
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "expm1",
        "floor",
        "frac",
        "gelu",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "relu",
        "round",
        "rsqrt",
        "sigmoid",
        "silu",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ]
)
"""Those that have the name of their operator (with an ``f`` for single precision)."""

_NO_EXPRESSION = frozenset(("prim::ListConstruct", "prim::TupleConstruct", "aten::size", "prim::Constant"))


def places(ops: Sequence[str], expressions: Sequence[Expression]) -> list[tuple[int, ...]] | None:
    """Of each operator, the indexes of its expressions; None where that cannot be told."""
    tokens = [(i, token) for i, token in enumerate(map(_token, expressions)) if token not in _PASSIVE]
    names = [token for _, token in tokens]
    if None in names:
        return None
    ways: list[dict[int, tuple[int, tuple[int, int] | None]]] = [{0: (1, None)}]
    for op in ops:
        reached: dict[int, tuple[int, tuple[int, int] | None]] = {}
        for start, (count, _) in ways[-1].items():
            for length in _lengths(op, names, start):
                before = reached.get(start + length, (0, None))[0]
                reached[start + length] = (min(2, before + count), (start, length))
        ways.append(reached)
    end = ways[-1].get(len(names))
    if end is None or end[0] != 1:
        return None
    found: list[tuple[int, ...]] = []
    at = len(names)
    for reached in reversed(ways[1:]):
        step = reached[at][1]
        assert step is not None
        start, length = step
        found.append(tuple(index for index, _ in tokens[start : start + length]))
        at = start
    return found[::-1]


def _lengths(op: str, names: Sequence[str | None], start: int) -> list[int]:
    """How many expressions from ``start`` on the operator may be."""
    if op in _NO_EXPRESSION:
        return [0]
    short = op.rpartition("::")[2]
    forms = list(_SEVERAL.get(op, ()))
    if op in _ONE:
        forms.append((_ONE[op],))
    elif short in _FUNCTIONS:
        forms.append((short,))
    return [len(form) for form in forms if tuple(names[start : start + len(form)]) == form]


def _token(expression: Expression) -> str | None:
    """What computes it, in one word; None if the line is not understood."""
    text = expression.text[:_MOST_TEXT]
    if text.startswith("Welford"):
        return "Welford"
    if _CAST.match(text):
        return "cast"
    binary = _BINARY.search(text) or _INFIX.search(re.sub(r"\[.*?\]|\{.*?\}", "", text))
    if binary and not _FUNCTION.match(text):
        return binary.group(1)
    named = _FUNCTION.match(text)
    if named is None:
        if text.startswith("-T"):
            return "-x"
        return "set" if re.match(r"T\d+_\w*\[[^\n]*\];?$", text) else None
    name = named.group(1)
    if name == "reduction":
        kind = _REDUCTION.search(text)
        return f"reduction {kind.group(1)}" if kind else None
    if name in ("rng_uniform", "randLike", "Philox"):
        return "rand"
    if name in _PASSIVE:
        return name
    return name[:-1] if name[:-1] in _FUNCTIONS and name not in _FUNCTIONS else name
