"""Which condition of nvFuser's parse rule a node does not meet (the rules: ``fusiondoc/fusers/nvfuser.py``).

Versions differ in the operators and views that have a rule, not in what a rule asks of an argument. A rule
belongs to one overload, by its schema; its merge query may refuse more: a tensor without elements
(``isInputNonSizeZeroTensor``; of a reduction or a norm only the tensor that it reduces counts), a reduction
of a tensor without dimensions (``isReductionNonCompatibleTensor``), an argument that is not a constant, an
explicit memory format. Arguments that ``insertProfileIValue`` profiles are constants in the pass if the
profiled runs agree on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import nvfuser
from fusiondoc.model.reasons import Argument, Detail, NewerRule, NotConstant, Overload
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


def fused_views(torch: str | None) -> frozenset[str]:
    """The views that nvFuser of this torch takes; without a version, that of the newest."""
    return nvfuser.views_taken_in(None if torch is None else parse_version(torch))


_FLOATING = {"5", "6", "7", "15"}
"""Numbers of ScalarType: Half, Float, Double, BFloat16 (c10/core/ScalarType.h)."""

_HALVES = {"5", "15"}


def kinds_of(node: FlowNode) -> str:
    """One letter for each argument of a node."""
    return "".join(_kind(operand) for operand in node.operands)


def _kind(operand: Operand) -> str:
    text = operand.type
    if operand.value == "None":
        return "N"
    if isinstance(parse_type(text), TensorType) or text in ("Tensor", "Tensor?"):
        return "T"
    return _KINDS.get(text.rstrip("?"), "?")


def refused_by_form(node: FlowNode, op: str) -> Overload | NotConstant | Argument | None:
    """Why nvFuser's rule for ``op`` refuses the node's overload or an argument that nvFuser does not profile:
    any print of the node shows it."""
    rule = nvfuser.rule_of(op)
    if rule is None:
        return None
    kinds = kinds_of(node)
    overload = rule.overload
    if overload is not None and "?" not in kinds and not re.fullmatch(overload.takes, kinds):
        return Overload(op, "nvfuser", overload.refused(kinds))
    return _bad_argument(node, op, rule)


def refused_because(
    node: FlowNode, op: str, torch: str | None = None
) -> Overload | NotConstant | Argument | NewerRule | None:
    """Which condition of nvFuser's rule for ``op`` a node does not meet; None if all that the log shows are
    met. ``torch``: the version that ran, if known."""
    form = refused_by_form(node, op)
    if form is not None:
        return form
    rule = nvfuser.rule_of(op)
    if torch is not None and op in nvfuser.TAKES and rule is not None and parse_version(torch) < rule.since:
        return NewerRule(".".join(map(str, rule.since)), torch_known=True)
    return _bad_tensor(node, rule)


def _bad_argument(node: FlowNode, op: str, rule: nvfuser.Rule) -> NotConstant | Argument | None:
    operands = node.operands
    for position, argument in rule.none.items():
        given = operands[position] if position < len(operands) else None
        if given is not None and given.value != "None" and given.type != "NoneType":
            return Argument("given", argument)
    found = _not_constant(operands, rule.constant)
    if found is not None:
        return found
    dtype = _value(operands, rule.floating)
    if dtype not in (None, "None") and dtype not in _FLOATING:
        return Argument("not_floating", "dtype")
    if _value(operands, rule.no_half) in _HALVES:
        return Argument("half", "dtype")
    if op == "aten::_softmax" and len(operands) > 2 and operands[2].value in ("1", "True"):
        tensor = parse_type(operands[0].type)
        if isinstance(tensor, TensorType) and tensor.dtype not in (None, "Half"):
            return Argument("half_to_float", "half_to_float", tensor.dtype)
    return None


def _value(operands: tuple[Operand, ...], index: int | None) -> str | None:
    """The value of an argument; None where it is not given or not constant."""
    return operands[index].value if index is not None and index < len(operands) else None


def _bad_tensor(node: FlowNode, rule: nvfuser.Rule | None) -> NotConstant | Argument | None:
    """Without a rule only the sizes of the tensors count."""
    reduced = rule.reduces if rule is not None else None
    checked = node.operands if reduced is None else node.operands[reduced : reduced + 1]
    for operand in checked:
        tensor = parse_type(operand.type)
        if isinstance(tensor, TensorType) and tensor.sizes is not None and 0 in tensor.sizes:
            return Argument("no_elements")
    if reduced is not None and reduced < len(node.operands):
        tensor = parse_type(node.operands[reduced].type)
        if isinstance(tensor, TensorType) and tensor.sizes == ():
            return Argument("no_dimensions")
    found = _not_constant(node.operands, rule.profiled if rule is not None else {})
    if found is None:
        return None
    ran = any(text != "Tensor" for text in node.outputs)
    return replace(found, runs="differ" if ran else "not_profiled")


def _not_constant(operands: tuple[Operand, ...], names: Mapping[int, str]) -> NotConstant | None:
    """The arguments among ``names`` (by position) that are no constants."""
    wrong = [position for position in names if position < len(operands) and operands[position].value is None]
    if not wrong:
        return None
    return NotConstant(tuple(names[position] for position in wrong), operands[wrong[0]].maker)


def to_be_constant(detail: Detail | None) -> str | None:
    """The arguments that could be written as constants, for a sentence; None where it is another reason, or
    where their values differ from run to run."""
    if not isinstance(detail, NotConstant) or detail.runs is not None or not detail.arguments:
        return None
    return " and ".join(f"`{name}`" for name in detail.arguments)
