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

from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import nvfuser
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


def refused_by_form(node: FlowNode, op: str) -> str | None:
    """What of a node, its overload and the arguments that nvFuser does not profile, its rule refuses: it is
    seen in any print of the node."""
    rule = nvfuser.rule_of(op)
    if rule is None:
        return None
    kinds = kinds_of(node)
    overload = rule.overload
    if overload is not None and "?" not in kinds and not re.fullmatch(overload.takes, kinds):
        return overload.refused(kinds)
    return _bad_argument(node, op, rule)


def refused_because(node: FlowNode, op: str, torch: str | None = None) -> str | None:
    """Which condition of nvFuser's rule for ``op`` a node does not meet, in words; None if all that the log
    shows are met. ``torch``: the version that ran, if known."""
    form = refused_by_form(node, op)
    if form is not None:
        return form
    rule = nvfuser.rule_of(op)
    if torch is not None and op in nvfuser.TAKES and rule is not None and parse_version(torch) < rule.since:
        return f"nvFuser has a rule for it only since torch {'.'.join(map(str, rule.since))}"
    return _bad_tensor(node, rule)


def _bad_argument(node: FlowNode, op: str, rule: nvfuser.Rule) -> str | None:
    operands = node.operands
    for place, argument in rule.none.items():
        if place < len(operands) and operands[place].value != "None" and operands[place].type != "NoneType":
            return f"it gives `{argument}`, which nvFuser's rule takes only as None"
    found = _not_constant(operands, rule.constant)
    if found:
        return found
    dtype = operands[3].value if op in ("aten::sum", "aten::mean") and len(operands) > 3 else None
    if dtype not in (None, "None") and dtype not in _FLOATING:
        return "its `dtype` is not a floating-point type, and nvFuser reduces to no other"
    if op in ("aten::softmax", "aten::log_softmax") and len(operands) > 2 and operands[2].value in _HALVES:
        return "its `dtype` is a half type, and nvFuser's rule takes none there"
    if op == "aten::_softmax" and len(operands) > 2 and operands[2].value in ("1", "True"):
        tensor = parse_type(operands[0].type)
        if isinstance(tensor, TensorType) and tensor.dtype not in (None, "Half"):
            return f"its `half_to_float` is set for a {tensor.dtype} tensor; nvFuser takes only Half there"
    return None


def _bad_tensor(node: FlowNode, rule: nvfuser.Rule | None) -> str | None:
    """Without a rule only the sizes of the tensors count."""
    place = rule.reduces if rule is not None else None
    asked = node.operands if place is None else node.operands[place : place + 1]
    for operand in asked:
        tensor = parse_type(operand.type)
        if isinstance(tensor, TensorType) and tensor.sizes is not None and 0 in tensor.sizes:
            return "a tensor that it takes has no elements (a size is 0)"
    if place is not None and place < len(node.operands):
        tensor = parse_type(node.operands[place].type)
        if isinstance(tensor, TensorType) and tensor.sizes == ():
            return "it reduces a tensor without dimensions"
    found = _not_constant(node.operands, rule.profiled if rule is not None else {})
    if found is None:
        return None
    if all(text == "Tensor" for text in node.outputs):
        return f"{found}, and this code did not run in the profiled passes"
    return f"{found}, and it was not the same in all profiled runs"


def _not_constant(operands: tuple[Operand, ...], names: Mapping[int, str]) -> str | None:
    wrong = [
        (names[place], operands[place].maker)
        for place in names
        if place < len(operands) and operands[place].value is None
    ]
    if not wrong:
        return None
    listed = " and ".join(f"`{name}`" for name, _ in wrong)
    maker = wrong[0][1]
    if len(wrong) > 1:
        how = "arguments of this graph" if not maker else f"results of {maker}"
        return f"its {listed} are {how}, not constants"
    how = "an argument of this graph" if not maker else f"the result of {maker}"
    return f"its {listed} is {how}, not a constant"


BY_DIMENSION = {
    "aten::mean": ("x.mean(dim, keepdim=keep)", "x.mean(2, keepdim=True)"),
    "aten::softmax": ("torch.softmax(x, dim)", "torch.softmax(x, -1)"),
    "aten::log_softmax": ("torch.log_softmax(x, dim)", "torch.log_softmax(x, -1)"),
}
"""Reductions whose dimensions have to be constants: how they are called, and how with constants."""


def to_be_constant(text: str) -> str | None:
    """The arguments that a reason says are not constants; None where it is another reason, or where their
    values differ from run to run."""
    found = re.match(r"its (.+?) (?:is|are) .*, not (?:a constant|constants)$", text)
    return found.group(1) if found else None
