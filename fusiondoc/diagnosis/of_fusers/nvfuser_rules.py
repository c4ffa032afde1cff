"""The condition of nvFuser's parse rule that a node does not meet
(``fusiondoc/fusers/nvfuser/takes.py``).

Versions differ in the operators and views that have a rule, not in a rule's
conditions on arguments. A rule belongs to one overload, by its schema; its merge
query may refuse more: a tensor without elements (``isInputNonSizeZeroTensor``; for
a reduction or a norm only the tensor that it reduces counts), a reduction of a
tensor without dimensions (``isReductionNonCompatibleTensor``), an argument that is
not a constant, an explicit memory format. Arguments that ``insertProfileIValue``
profiles are constants in the pass if the profiled runs agree on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from fusiondoc.diagnosis.argument_kinds import kinds_of
from fusiondoc.diagnosis.of_fusers.fuser_rules import FuserRules
from fusiondoc.diagnosis.operator_in_plan import OperatorInPlan, by_version
from fusiondoc.diagnosis.reasons_of_node import dimensions, dtype
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers.fuser_errors import OPTION
from fusiondoc.fusers.nvfuser import takes
from fusiondoc.fusers.nvfuser.errors import INVALID_STRIDE
from fusiondoc.model.reasons import Argument, NewerRule, NotConstant, Overload
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Remedy
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import FlowNode, Operand

_FLOATING = {"5", "6", "7", "15"}
"""Numbers of ScalarType: Half, Float, Double, BFloat16 (c10/core/ScalarType.h)."""

_HALVES = {"5", "15"}


def refused_by_form(
    node: FlowNode, op: str
) -> Overload | NotConstant | Argument | None:
    """Return why nvFuser's rule for ``op`` refuses the node's overload or an
    argument that nvFuser does not profile: any print of the node shows it."""
    rule = takes.rule_of(op)
    if rule is None:
        return None
    kinds = kinds_of(node)
    overload = rule.overload
    if (
        overload is not None
        and "?" not in kinds
        and not re.fullmatch(overload.takes, kinds)
    ):
        return Overload(op, "nvfuser", overload.refused(kinds))
    return _bad_argument(node, op, rule)


def refused_because(
    node: FlowNode, op: str, torch: str | None = None
) -> Overload | NotConstant | Argument | NewerRule | None:
    """Return the condition of nvFuser's rule for ``op`` that a node does not meet;
    None if it meets all that the log shows.

    Args:
        torch: the version that ran, if known.
    """
    form = refused_by_form(node, op)
    if form is not None:
        return form
    rule = takes.rule_of(op)
    if (
        torch is not None
        and op in takes.TAKES
        and rule is not None
        and parse_version(torch) < rule.since
    ):
        return NewerRule(
            ".".join(map(str, rule.since)), torch_known=True, fuser="nvfuser"
        )
    return _bad_tensor(node, rule)


def _bad_argument(
    node: FlowNode, op: str, rule: takes.ParseRule
) -> NotConstant | Argument | None:
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
    if (
        op == "aten::_softmax"
        and len(operands) > 2
        and operands[2].value in ("1", "True")
    ):
        tensor = parse_type(operands[0].type)
        if isinstance(tensor, TensorType) and tensor.dtype not in (None, "Half"):
            return Argument("half_to_float", "half_to_float", tensor.dtype)
    return None


def _value(operands: tuple[Operand, ...], index: int | None) -> str | None:
    """Return the value of an argument; None if it is not given or not constant."""
    if index is not None and index < len(operands):
        return operands[index].value
    return None


def _bad_tensor(
    node: FlowNode, rule: takes.ParseRule | None
) -> NotConstant | Argument | None:
    """Return the condition that a tensor or profiled argument does not meet.
    Without a rule only the sizes of the tensors are checked."""
    reduced = rule.reduces if rule is not None else None
    if reduced is None:
        checked = node.operands
    else:
        checked = node.operands[reduced : reduced + 1]
    for operand in checked:
        tensor = parse_type(operand.type)
        if (
            isinstance(tensor, TensorType)
            and tensor.sizes is not None
            and 0 in tensor.sizes
        ):
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


def _not_constant(
    operands: tuple[Operand, ...], names: Mapping[int, str]
) -> NotConstant | None:
    """Return the arguments among ``names`` (by position) that are no constants."""
    wrong = []
    for position in names:
        if position < len(operands) and operands[position].value is None:
            wrong.append(position)
    if not wrong:
        return None
    return NotConstant(
        tuple(names[position] for position in wrong), operands[wrong[0]].maker
    )


def _refine(operator: OperatorInPlan, stated: Reason) -> Reason:
    """Refine a stated reason: "not parsible" may be an overload or an argument that
    the rule refuses, and "scalar type not supported" a tensor of too many
    dimensions (partition.cpp, isFusibleNode)."""
    if stated.code == "FD201" and operator.takes(operator.loose.op):
        cause = refused_because(
            operator.node, operator.loose.op, operator.torch
        ) or by_version(operator, operator.loose.op)
        return Reason.of(stated.code, cause or Argument("not_shown"), stated=True)
    if stated.code in ("FD202", "FD203"):
        found = dimensions(operator) or dtype(operator)
        if found is not None and found.detail is not None:
            return Reason.of(stated.code, found.detail, stated=True)
    return stated


def _left(operator: OperatorInPlan) -> Reason | None:
    """FD201: the overload or an argument that the rule refuses, as any print of the
    node shows it."""
    cause = refused_by_form(operator.node, operator.loose.op)
    if cause is None:
        return None
    return Reason.of("FD201", cause)


def _refusal(
    node: FlowNode, torch: str | None
) -> Overload | NotConstant | Argument | NewerRule | None:
    return refused_because(node, node.op, torch)


_CAUSES_OF_ERRORS: Mapping[str | None, str | Remedy] = {
    OPTION: "Remove the unknown word from the variable: fusiondoc knobs lists those that this torch knows.",
    INVALID_STRIDE: Remedy(
        "The rows of an input do not start at a multiple of the vector that the kernel was compiled for.",
        "Make that input contiguous before the block (.contiguous()), or pad its last dimension;"
        " without PYTORCH_NVFUSER_DISABLE=fallback the group runs as unfused operators instead.",
    ),
}

RULES = FuserRules(
    refine=_refine,
    refusal=_refusal,
    left=_left,
    causes_of_errors=_CAUSES_OF_ERRORS,
    other_errors="Take the operator that the error names, or the last of the group, out of fusion (--knob"
    " skip_node_kind=OPERATOR), or unset PYTORCH_NVFUSER_DISABLE=fallback: the group then runs unfused.",
)
