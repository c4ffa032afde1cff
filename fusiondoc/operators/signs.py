"""The signs of Python's operators, and their classes in ``ast``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

NODE_OF_SIGN: Mapping[str, type[ast.operator | ast.cmpop]] = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "**": ast.Pow,
    "@": ast.MatMult,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
    "<<": ast.LShift,
    ">>": ast.RShift,
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}

SIGN_OF_NODE: Mapping[type[ast.operator | ast.cmpop], str] = {
    node: sign for sign, node in NODE_OF_SIGN.items()
}
