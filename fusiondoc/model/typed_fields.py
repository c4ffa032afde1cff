"""Types of a dataclass's fields as objects, also on Python 3.8, which cannot evaluate how they are written.

``str | None`` and ``tuple[int, ...]`` are never evaluated in a module that begins with ``from __future__
import annotations``. ``typing.get_type_hints`` evaluates them, which needs Python 3.10 for the first and 3.9
for the second; so it gets them rewritten, as ``Union[str, None]`` and ``Tuple[int, ...]``.
"""

from __future__ import annotations

import ast
import math
import sys
import typing
from dataclasses import fields
from functools import lru_cache
from typing import Any, Mapping

_GENERIC = {"tuple": "Tuple", "list": "List", "dict": "Dict", "set": "Set", "frozenset": "FrozenSet"}


@lru_cache(maxsize=None)
def field_types(kind: type) -> Mapping[str, Any]:
    """Field name -> its type in terms of ``typing``: ``Union[str, None]``, ``Tuple[int, ...]``, a class.

    Raises:
        NameError: an annotation names what its module does not have at run time.
    """
    return _evaluated({field.name: str(field.type) for field in fields(kind)}, kind.__module__)


def property_type(kind: type, name: str) -> Any:
    """The type of a property's value."""
    getter = getattr(kind, name).fget
    return _evaluated(getter.__annotations__, kind.__module__)["return"]


def _evaluated(annotations: Mapping[str, str], module: str) -> Mapping[str, Any]:
    code = {name: _expression(text) for name, text in annotations.items()}
    names = {**vars(typing), **vars(sys.modules[module])}
    types = {name: eval(one, names) for name, one in code.items()}
    return typing.get_type_hints(type("Evaluated", (), {"__annotations__": types}), names)


def _expression(annotation: str) -> Any:
    """Code that evaluates to the type on every Python."""
    tree = _Rewritten().visit(ast.parse(annotation, mode="eval"))
    return compile(ast.fix_missing_locations(tree), "<annotation>", "eval")


class _Rewritten(ast.NodeTransformer):
    """``a | b`` is ``Union[a, b]``, ``tuple[...]`` is ``Tuple[...]``."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        union = ast.parse("Union[0]", mode="eval").body
        assert isinstance(union, ast.Subscript) and isinstance(node.op, ast.BitOr)
        both = ast.Tuple(elts=[node.left, node.right], ctx=ast.Load())
        # Before Python 3.9 what is in the brackets has a node of its own.
        if sys.version_info < (3, 9):
            union.slice = ast.Index(value=both)
        else:
            union.slice = both
        return union

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name(id=_GENERIC.get(node.id, node.id), ctx=node.ctx)


def is_figure(value: float) -> bool:
    """Whether a number of a JSON file is one to count with: finite, a whole one of 64 bits.

    Python's ``json`` reads ``1e400``, ``Infinity`` and whole numbers of any length, which no report has and
    which overflow in a division.
    """
    return -(2**63) <= value < 2**63 if isinstance(value, int) else math.isfinite(value)


def sound(value: Any) -> Any:
    """What ``json.loads`` made, without what no JSON may hold or no encoding can write: infinities are
    None, halves of surrogate pairs question marks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [sound(one) for one in value]
    if isinstance(value, dict):
        return {sound(name): sound(one) for name, one in value.items()}
    return value
