"""The true cause behind the reason that NNC states for an operator.

Facts: ``isSupported`` and ``typesAreSupported`` of
torch/csrc/jit/passes/tensorexpr_fuser.cpp, the same from 1.12 to 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.diagnosis.of_fusers.fuser_rules import FuserRules
from fusiondoc.diagnosis.of_fusers.nnc_conditions import (
    CAUSES_OF_ERRORS,
    CONDITIONS,
    OTHER_ERRORS,
)
from fusiondoc.diagnosis.operator_in_plan import OperatorInPlan, is_of_a_formula
from fusiondoc.diagnosis.reasons_of_node import no_rule
from fusiondoc.fusers.nnc import takes
from fusiondoc.model.reasons import (
    Argument,
    Detail,
    NotConstant,
    Overload,
    PythonCall,
    ReductionsOff,
    Stated,
    WrongDevice,
    WrongType,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Remedy
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import PYTHON, Operand

_NUMBERS = ("int", "float", "Scalar", "number", "bool")
_FLOATS = ("Float", "Double", "Half", "BFloat16")


def _refine(operator: OperatorInPlan, stated: Reason) -> Reason:
    """Refine a stated reason. Shapes and devices are checked before the lowering:
    if the operator has no lowering, that is the cause. If it has one, the overload
    or a type is refused."""
    detail: Detail | None = None
    if stated.code in ("FD212", "FD214"):
        lacks = no_rule(operator)
        if (
            lacks is None
            and operator.loose.op in takes.PAIRS_ONLY
            and len(operator.node.operands) != 2
        ):
            lacks = Reason.of(
                "FD233", Overload(operator.loose.op, "nnc", "not_two_tensors")
            )
        return lacks or _not_profiled(operator, stated) or stated
    if stated.code == "FD211":
        detail = _overload(operator)
    elif stated.detail == Stated("types"):
        detail = _types(operator)
    elif stated.detail == Stated("list_elsewhere") and _list_is_given(operator):
        detail = Stated("list_given")
    if detail is None:
        return stated
    return Reason.of(stated.code, detail, stated=True)


def _list_is_given(operator: OperatorInPlan) -> bool:
    """True if its list of tensors is an input of its graph: the caller's list, or,
    where gradients are recorded, a list made outside the differentiable graph
    because no operator of that graph makes its tensors."""
    return (
        operator.node.operands[:1] != () and operator.node.operands[0].maker == ""
    )


def _not_profiled(operator: OperatorInPlan, stated: Reason) -> Reason | None:
    """FD211: types are profiled only for operators that NNC takes
    (``needsProfiledOutput`` and ``needsProfiledInputs`` of
    torch/csrc/jit/runtime/profiling_record.cpp, 1.12 to 2.13, which call
    ``isSupported``). If the types of all inputs are known and that of the result is
    not, or the other way round, NNC does not take the overload, or reductions are
    off. For an operator that may never have run only causes that hold for any types
    are known."""
    node = operator.node
    if stated.code != "FD212" or is_of_a_formula(node.source):
        return None
    known = [parse_type(text) for text in node.inputs]
    typed = [isinstance(one, TensorType) and one.sizes is not None for one in known]
    result_unknown = bool(typed) and all(typed) and set(node.outputs) == {"Tensor"}
    inputs_unknown = "Tensor" in node.inputs
    if not result_unknown and not inputs_unknown:
        return None
    detail = _overload(operator)
    ran = result_unknown or "Tensor" not in node.outputs
    if detail is None or not (
        ran or isinstance(detail, (NotConstant, ReductionsOff))
    ):
        return None
    return Reason.of("FD211", detail)


def _overload(
    operator: OperatorInPlan,
) -> PythonCall | ReductionsOff | NotConstant | Argument | Overload | None:
    op = operator.loose.op
    if op.startswith(PYTHON):
        return PythonCall()
    if op in takes.REDUCTIONS:
        return ReductionsOff()
    if op not in takes.TAKES:
        return None
    types = [operand.type for operand in operator.node.operands]
    if op in takes.PAIRS_ONLY and len(types) != 2:
        return Overload(
            op, "nnc", "all_elements" if len(types) == 1 else "with_indices"
        )
    changing = _changing_arguments(operator) if op == "aten::to" else []
    if changing:
        return NotConstant((), changing[0].maker)
    if any(text in ("Scalar", "number") for text in types):
        return Argument("unknown_number")
    return _other_overload(op, types)


def _changing_arguments(operator: OperatorInPlan) -> list[Operand]:
    """Return the arguments after the first that are neither tensors nor
    constants."""
    operands = []
    for given in operator.node.operands[1:]:
        if given.value is None and given.type != "Tensor":
            operands.append(given)
    return operands


def _other_overload(op: str, types: Sequence[str]) -> Overload:
    """Return an overload by the types of its arguments."""
    if op == "aten::div" and len(types) > 2:
        return Overload(op, "nnc", "rounding_mode")
    if op == "aten::clamp" and not {*types[1:]}.issubset((*_NUMBERS, "NoneType")):
        return Overload(op, "nnc", "tensor_limits")
    if len(types) < 2:
        return Overload(op, "nnc", "other_types", ", ".join(types))
    if types[0] in _NUMBERS:
        return Overload(op, "nnc", "number_first")
    return Overload(op, "nnc", "other_types", _second_type(types))


def _second_type(types: Sequence[str]) -> str:
    """Return the name of the overload, which the second argument decides:
    ``Scalar``, ``Tensor``."""
    if types[1] in _NUMBERS:
        return "Scalar"
    if "ensor" in types[1] or "(" in types[1]:
        return "Tensor"
    return ", ".join(types)


def _types(operator: OperatorInPlan) -> WrongType | WrongDevice | Stated | None:
    op = operator.loose.op
    for tensor in operator.types():
        wrong = (
            _wrong_on_cpu(tensor)
            or _wrong_dtype(op, tensor)
            or _wrong_device(op, tensor)
        )
        if wrong is not None:
            return wrong
    if op == "aten::to":
        return Stated("device_or_argument")
    if op == "aten::unsqueeze":
        return Stated("dim_not_constant")
    return None


def _wrong_on_cpu(tensor: TensorType) -> WrongType | None:
    """Return a type that no operator takes, or few on the CPU."""
    if tensor.dtype == "Byte":
        return WrongType("nnc", tensor.dtype, "none")
    if tensor.dtype == "Half" and tensor.device == "cpu":
        return WrongType("nnc", tensor.dtype, "not_on_cpu")
    if tensor.dtype == "BFloat16" and tensor.device == "cpu":
        return WrongType(
            "nnc", tensor.dtype, "some_on_cpu"
        )  # some operators take it, from 1.13 on
    return None


def _wrong_dtype(op: str, tensor: TensorType) -> WrongType | None:
    """Return a type that this operator does not take."""
    if tensor.dtype is None:
        return None
    if op in takes.FLOATING_ONLY and tensor.dtype not in _FLOATS:
        return WrongType("nnc", tensor.dtype, "floating")
    if op in takes.INTEGER_ONLY and tensor.dtype in _FLOATS:
        return WrongType("nnc", tensor.dtype, "integer")
    return None


def _wrong_device(op: str, tensor: TensorType) -> WrongDevice | None:
    """Return a device on which NNC does not take this operator."""
    if op in takes.ON_GPU_ONLY and tensor.device == "cpu":
        return WrongDevice("gpu_only", "nnc")
    if (
        op in takes.ON_CPU_ONLY
        and tensor.device is not None
        and tensor.device != "cpu"
    ):
        return WrongDevice("cpu_only", "nnc")
    return None


RULES = FuserRules(
    refine=_refine,
    calls={
        op: Remedy(row.call, row.call_note)
        for op, row in takes.TAKES.items()
        if row.call
    },
    conditions=CONDITIONS,
    causes_of_errors=CAUSES_OF_ERRORS,
    other_errors=OTHER_ERRORS,
)
