"""Matching an expression of a program with a pattern: an expression of torch such
as ``F.leaky_relu(x, 0.01)``.

Names of the pattern stand for any expression; a number that the replacement repeats
stands for any number, another one for itself. A function of torch matches by any of
its names, and as a method of its first argument. ``inplace`` is left aside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.operators import defaults_of

_NAMES = {"hardtanh": ("input", "min_val", "max_val")}
"""Function -> its arguments (torch/nn/functional.py); for others the first is
``input``."""

_OF_NUMBERS = ("value", "alpha")
"""Keywords of functions of torch that take a number (Scalar)."""

_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List)


class MatchedText(NamedTuple):
    """The program's text for a name or number of the pattern."""

    text: str
    is_atom: bool
    """Whether it needs no parentheses."""
    is_plain: bool
    """Whether it is a name, a chain of names, or a number: it may be computed
    twice."""


Bound = Mapping[str, MatchedText]
"""Name or number in the pattern -> the operand that it matched."""

_Argument = tuple[str | None, ast.expr]
"""Keyword (None for a positional argument) and value."""


def operand(file: ParsedFile, node: ast.expr) -> MatchedText:
    text = _bare(node, file.written(node))
    on_one_line = "\n" not in text and "\r" not in text
    is_plain = re.fullmatch(r"[A-Za-z_][\w.]*|[\d.]+(?:e-?\d+)?", text) is not None
    return MatchedText(text, on_one_line and is_atom(text), is_plain)


def _bare(node: ast.expr, text: str) -> str:
    """Return the text without parentheses around all of it, if the node does not
    need them."""
    if not text.startswith("(") or isinstance(node, (ast.Tuple, ast.GeneratorExp)):
        return text
    try:
        parse_expression(text[1:-1])
    except SyntaxError:
        return text  # "(x) + (y)"
    return text[1:-1]


def parse_expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def is_atom(text: str) -> bool:
    """True if an expression needs no parentheses in any position."""
    return isinstance(parse_expression(f"({text})"), _ATOMS)


class Pattern:
    """An expression to search for. Args: names: the names that stand for any
    expression. after: the replacement; a number that is repeated there stands
    for any number. in_place: also match the method that changes its tensor,
    such as ``x.addcdiv_(y, z)``.
    """

    def __init__(
        self, before: str, names: frozenset[str], after: str, in_place: bool = False
    ) -> None:
        self.in_place = in_place
        self.tree = parse_expression(before)
        self.names = names
        self._before = before
        self._after = after

    def match(self, file: ParsedFile, node: ast.AST) -> Bound | None:
        """Return the operands if the whole node matches the pattern."""
        match = _Match(self, file)
        if isinstance(node, ast.expr) and match.fits(self.tree, node):
            return match.bound
        return None

    def literal(self, node: ast.expr) -> str | None:
        """The text of a literal of the pattern; None for anything else."""
        text = ast.get_source_segment(self._before, node) or ""
        if literal_value(text) is not None:
            return text
        return None

    def is_repeated(self, number: str) -> bool:
        """True if the replacement has the number too."""
        return (
            re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.])", self._after)
            is not None
        )


def literal_value(text: str) -> object:
    """The value of a literal; None for anything else."""
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    return value


class _Match:
    """Matches a pattern against an expression of a file."""

    def __init__(self, pattern: Pattern, file: ParsedFile) -> None:
        self.bound: dict[str, MatchedText] = {}
        self._pattern = pattern
        self._file = file

    def fits(self, pattern: ast.expr, node: ast.expr) -> bool:
        if isinstance(pattern, ast.Name) and pattern.id in self._pattern.names:
            return self._bind(pattern.id, operand(self._file, node))
        literal = self._pattern.literal(pattern)
        if literal is not None:
            return self._fits_literal(literal, self._file.text(node))
        if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
            return self._fits_call(pattern, node)
        if isinstance(pattern, ast.BinOp) and isinstance(node, ast.BinOp):
            same = type(pattern.op) is type(node.op)
            return (
                same
                and self.fits(pattern.left, node.left)
                and self.fits(pattern.right, node.right)
            )
        return False

    def _bind(self, name: str, found: MatchedText) -> bool:
        return self.bound.setdefault(name, found) == found

    def _fits_literal(self, literal: str, text: str) -> bool:
        value = literal_value(text)
        if value is None:
            return False
        if self._pattern.is_repeated(literal):
            is_number = isinstance(value, (int, float)) or value == literal_value(
                literal
            )
            return is_number and self._bind(
                literal, MatchedText(text, not text.startswith("-"), True)
            )
        return value == literal_value(literal)

    def _fits_call(self, pattern: ast.Call, node: ast.Call) -> bool:
        """True if a call matches a function of torch by any of its names, or as a
        method of its first argument."""
        wanted = pattern.func
        if not isinstance(wanted, ast.Attribute):
            return False
        expected = _arguments(pattern)
        is_method = (
            isinstance(wanted.value, ast.Name)
            and wanted.value.id in self._pattern.names
        )
        if is_method:
            expected.insert(0, (None, wanted.value))
        meaning = self._file.meaning(node.func)
        methods = (
            (wanted.attr, f"{wanted.attr}_")
            if self._pattern.in_place
            else (wanted.attr,)
        )
        if (
            meaning is None
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in methods
        ):
            _, tensor = expected.pop(0)
            if _is_self(node.func.value) or not self.fits(tensor, node.func.value):
                return False
        elif meaning not in (
            f"torch.nn.functional.{wanted.attr}",
            f"torch.{wanted.attr}",
        ):
            return False
        given = []
        for argument in _arguments(node):
            if argument[0] != "inplace":
                given.append(argument)
        if meaning is not None:
            given = _in_order(given, _NAMES.get(wanted.attr, ("input",)))
        return self._fit_arguments(expected, given, defaults_of(wanted.attr))

    def _fit_arguments(
        self,
        expected: Sequence[_Argument],
        given: Sequence[_Argument],
        defaults: Sequence[str],
    ) -> bool:
        if len(given) > len(expected) or not _are_written_out(given):
            return False
        named: dict[str | None, ast.expr] = dict(
            one for one in given if one[0] is not None
        )
        positional = [value for keyword, value in given if keyword is None]
        for index, (keyword, value) in enumerate(expected):
            if keyword in named:
                fits = self._fits_named(keyword, value, named.pop(keyword))
            elif keyword is None and index < len(positional):
                fits = self.fits(value, positional[index])
            elif named and len(expected) == 2:  # its only option, by whatever name
                fits = self.fits(value, named.popitem()[1])
            else:
                fits = len(given) < len(expected) and self._fits_default(
                    value, defaults, behind=len(expected) - index
                )
            if not fits:
                return False
        return not named

    def _fits_named(
        self, keyword: str | None, pattern: ast.expr, node: ast.expr
    ) -> bool:
        """True if the value of a keyword matches; for one that takes numbers alone
        any expression does, such as ``value=-lr``."""
        literal = self._pattern.literal(pattern)
        if (
            keyword in _OF_NUMBERS
            and literal is not None
            and self._pattern.is_repeated(literal)
        ):
            return self._bind(literal, operand(self._file, node))
        return self.fits(pattern, node)

    def _fits_default(
        self, value: ast.expr, defaults: Sequence[str], behind: int
    ) -> bool:
        """True if the default of an omitted argument fits: it and the ``behind`` -
        1 arguments after it are the last of ``defaults``."""
        literal = self._pattern.literal(value)
        if literal is None or behind > len(defaults):
            return False
        return self._fits_literal(literal, defaults[-behind])


def _is_self(node: ast.expr) -> bool:
    """True for a call on ``self``: a method of the user's own module may have any
    name."""
    return isinstance(node, ast.Name) and node.id == "self"


def _in_order(given: Sequence[_Argument], names: Sequence[str]) -> list[_Argument]:
    """Convert keyword arguments to positional ones, as far as all arguments before
    them are given."""
    left = list(given)
    found = [argument for argument in left if argument[0] is None]
    for name in names[len(found) :]:
        named = next((argument for argument in left if argument[0] == name), None)
        if named is None:
            break
        found.append((None, named[1]))
        left.remove(named)
    return [*found, *(argument for argument in left if argument[0] is not None)]


def _arguments(call: ast.Call) -> list[_Argument]:
    """The arguments of a call; ``**options`` has an empty keyword."""
    named = [(given.arg or "", given.value) for given in call.keywords]
    return [*((None, value) for value in call.args), *named]


def _are_written_out(given: Sequence[_Argument]) -> bool:
    """True if no argument of a call is ``*values`` or ``**options``."""
    return not any(
        keyword == "" or isinstance(value, ast.Starred) for keyword, value in given
    )
