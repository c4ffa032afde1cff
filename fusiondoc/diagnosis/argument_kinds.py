"""The arguments of a node as letters, one for each kind, so that regular
expressions can match overloads."""

from __future__ import annotations

from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import FlowNode, Operand

_KINDS = {
    "int": "i",
    "float": "f",
    "number": "S",
    "Scalar": "S",
    "bool": "b",
    "str": "s",
    "Device": "D",
    "NoneType": "N",
    "int[]": "l",
    "bool[]": "m",
    "Tensor[]": "L",
}


def kinds_of(node: FlowNode) -> str:
    """Return one letter for each argument of a node."""
    return "".join(_kind(operand) for operand in node.operands)


def _kind(operand: Operand) -> str:
    text = operand.type
    if operand.value == "None":
        return "N"
    if isinstance(parse_type(text), TensorType) or text in ("Tensor", "Tensor?"):
        return "T"
    return _KINDS.get(text.rstrip("?"), "?")
