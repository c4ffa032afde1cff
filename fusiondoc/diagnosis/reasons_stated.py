"""The true cause behind what nvFuser or NNC states of an operator.

Facts on NNC: ``isSupported`` and ``typesAreSupported`` of torch/csrc/jit/passes/tensorexpr_fuser.cpp, the
same from 1.12 to 2.13.
"""

from __future__ import annotations

from fusiondoc.diagnosis.nvfuser_rules import refused_because
from fusiondoc.diagnosis.operators import BY_FUSER
from fusiondoc.diagnosis.reasons_of_node import dimensions, dtype, no_rule
from fusiondoc.diagnosis.surroundings import Place, aten, by_version
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.rejections import NO_TYPES


def refine_nvfuser(place: Place, stated: Reason) -> Reason:
    """What nvFuser calls "not parsible" may be an overload or an argument that its rule refuses, and "scalar
    type not supported" a tensor of too many dimensions (partition.cpp, isFusibleNode)."""
    if stated.code == "FD201" and place.takes(place.loose.op):
        cause = refused_because(place.node, place.loose.op, place.torch) or by_version(place, place.loose.op)
        text = (
            cause
            or "nvFuser has a rule for it, and refused it here for an argument that the log does not show"
        )
        return Reason(stated.code, text, True)
    if stated.code in ("FD202", "FD203"):
        found = dimensions(place) or dtype(place)
        if found is not None:
            return Reason(stated.code, found.text, True)
    return stated


_REDUCTIONS = aten("sum softmax log_softmax")
_NUMBERS = ("int", "float", "Scalar", "number", "bool")
_FLOATS = ("Float", "Double", "Half", "BFloat16")

_FLOATS_ONLY = aten("fmod remainder pow")
_INTEGERS_ONLY = aten("__lshift__ __rshift__")
_ON_CPU_ONLY = aten("conv2d _convolution matmul")
_ON_GPU_ONLY = aten("erf erfc")


def refine_nnc(place: Place, stated: Reason) -> Reason:
    """Shapes and devices are asked for before the lowering: of an operator without one, they are not what it
    lacks. Where there is one, the overload or a type is refused."""
    text = None
    if stated.code in ("FD212", "FD214"):
        return no_rule(place) or stated
    if stated.code == "FD211":
        text = _overload(place)
    elif stated.code == "FD215" and stated.text == NO_TYPES:
        text = _types(place)
    return stated if text is None else Reason(stated.code, text, True)


def _overload(place: Place) -> str | None:
    op = place.loose.op
    if op in _REDUCTIONS:
        return "reductions are off (`nnc_reductions`)"
    if op not in BY_FUSER["nnc"]:
        return None
    types = [operand.type for operand in place.node.operands]
    if op == "aten::to":
        loose = [one for one in place.node.operands[1:] if one.value is None and one.type != "Tensor"]
        if loose:
            maker = f"the result of {loose[0].maker}" if loose[0].maker else "an argument of this graph"
            return f"NNC takes aten::to only with constant arguments, and one is {maker}"
    if any(text in ("Scalar", "number") for text in types):
        return "an input is a number of an unknown type, as from .item()"
    word = ", ".join(types)
    if len(types) > 1:
        word = (
            "Scalar" if types[1] in _NUMBERS else "Tensor" if "ensor" in types[1] or "(" in types[1] else word
        )
    return f"NNC has a rule for {op}, but not for this overload ({word})"


def _types(place: Place) -> str | None:
    op = place.loose.op
    for tensor in place.types():
        if tensor.dtype == "Byte":
            return "NNC does not fuse Byte tensors"
        if tensor.dtype == "Half" and tensor.device == "cpu":
            return "NNC does not fuse Half tensors on the CPU"
        if tensor.dtype == "BFloat16" and tensor.device == "cpu":
            return "NNC does not take it of BFloat16 tensors on the CPU"  # of some it does, from 1.13 on
        if tensor.dtype is not None and op in _FLOATS_ONLY and tensor.dtype not in _FLOATS:
            return f"NNC takes it of floating-point tensors only, and this one is {tensor.dtype}"
        if op in _INTEGERS_ONLY and tensor.dtype in _FLOATS:
            return f"NNC takes it of integer tensors only, and this one is {tensor.dtype}"
        if op in _ON_GPU_ONLY and tensor.device == "cpu":
            return "NNC takes it on the GPU only"
        if op in _ON_CPU_ONLY and tensor.device is not None and tensor.device != "cpu":
            return "NNC takes it on the CPU only"
    if op == "aten::to":
        return "it changes the device, or an argument of it is no constant"
    if op == "aten::unsqueeze":
        return "its `dim` is no constant"
    return None
