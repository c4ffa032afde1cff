"""What keeps an operator out of every group for itself: its kind, its types, its device."""

from __future__ import annotations

from fusiondoc.diagnosis.surroundings import (
    MAKERS,
    NO_KERNEL,
    NOTHING_TO_GAIN,
    Place,
    aten,
    is_in_place,
    is_of_a_formula,
    reason,
)
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import CONTROL

DTYPES = {
    "nvfuser": {"Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long"},
    "nnc": {"Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long", "Short", "Char", "Byte"},
}
"""Scalar types that a group takes: torch/csrc/jit/codegen/cuda/type.cpp (isSupportedTypeByDevice) and
torch/csrc/jit/tensorexpr/types.h."""

_MOST_DIMENSIONS = 8
"""nvFuser's kernels take tensors of up to 8 dimensions (torch/csrc/jit/codegen/cuda/utils.h, MAX_DIMS)."""


def control_flow(place: Place) -> Reason | None:
    """FD229: a branch or loop is no operator, and cuts the graph in two."""
    if place.node.kind != CONTROL:
        return None
    condition = place.node.condition
    if is_of_a_formula(place.node.source):
        return reason("FD229", f"control flow ({condition}) in one of torch's own gradient formulas")
    return reason("FD229", f"control flow ({condition}) ends the group before it and begins another after")


def bookkeeping(place: Place) -> Reason | None:
    """FD235: what the gradient executor adds for gradients that may be absent."""
    if place.loose.op.startswith("prim::Autograd"):
        return reason("FD235", "the gradient executor adds it to deal with gradients that may be absent")
    return None


def nothing_to_gain(place: Place) -> Reason | None:
    """FD226: a view, a constant, an attribute."""
    op = place.loose.op
    if op == "aten::add_" and _counts_batches(place):
        return reason(
            "FD226", "it counts the batches that a batch norm has seen: one number, nothing to save"
        )
    if op not in NOTHING_TO_GAIN:
        return None
    if op in MAKERS:
        return reason("FD226", "it makes a new tensor and computes nothing that a kernel could save")
    if op == "aten::contiguous":
        same = place.node.inputs[:1] == place.node.outputs[:1] and place.node.inputs[:1] != ("Tensor",)
        if same:
            return reason("FD226", "its input is contiguous already: it hands it on and computes nothing")
        return reason(
            "FD226", f"it copies its input into another layout, which {place.fuser_name} has no rule for"
        )
    if op in NO_KERNEL or op == "prim::ConstantChunk":
        return reason(
            "FD226", "it makes a view: it moves no data and computes nothing that a kernel could save"
        )
    return reason("FD226", "it hands a tensor on and computes nothing that a kernel could save")


def _counts_batches(place: Place) -> bool:
    """Whether it is ``num_batches_tracked.add_(1)`` of torch/nn/modules/batchnorm.py."""
    source = place.node.source or ""
    return "/nn/modules/batchnorm.py:" in source


_HAS_ANOTHER = aten("hardswish hardsigmoid hardtanh elu selu celu mish relu6 masked_fill dropout")
"""Operators that come in place as an option of their torch.nn module or function."""


def in_place(place: Place) -> Reason | None:
    """FD230: fusers leave operators alone that change their inputs."""
    op = place.loose.op
    if not is_in_place(op):
        return None
    text = "it changes its input in place"
    if place.takes(op[:-1]):
        text += f"; {op[:-1]} could be fused"
    elif place.fuser is not None and op[:-1] in _HAS_ANOTHER:
        text += f"; {place.fuser_name} has no rule for {op[:-1]} either"
    return reason("FD230", text)


def dtype(place: Place) -> Reason | None:
    """FD223: complex, quantised and other scalar types. Not that of the reserve of a batch norm, which
    nvFuser throws away (partition.cpp, checkInputTensorTypes and checkOutputTensorTypes)."""
    allowed = DTYPES.get(place.fuser or "")
    if allowed is None:
        return None
    op = place.loose.op
    for tensor in place.types():
        if op.startswith("aten::_batch_norm_impl_index") and tensor.dtype == "Byte":
            continue
        if tensor.dtype is not None and tensor.dtype not in allowed:
            return reason("FD223", f"{place.fuser_name} does not fuse {tensor.dtype} tensors")
    return None


def dimensions(place: Place) -> Reason | None:
    """FD224: nvFuser's kernels stop at 8 dimensions."""
    if place.fuser == "nvfuser":
        for tensor in place.types():
            if tensor.sizes is not None and len(tensor.sizes) > _MOST_DIMENSIONS:
                return reason("FD224", f"a tensor of {len(tensor.sizes)} dimensions; nvFuser takes up to 8")
    return None


def device(place: Place) -> Reason | None:
    """FD221 and FD222: tensors on several devices, or on one that the fuser does not compile for."""
    known = [t for t in place.types() if t.device is not None]
    if known and place.fuser == "nvfuser" and all(t.sizes == () and t.device == "cpu" for t in known):
        return reason("FD222", "it computes with numbers on the CPU; nvFuser compiles only for the GPU")
    devices = {t.device for t in place.types() if t.device is not None and t.sizes != ()}
    if len(devices) > 1:
        return reason("FD221", f"its tensors are on several devices: {', '.join(sorted(devices))}")
    if place.fuser == "nvfuser" and devices == {"cpu"}:
        return reason("FD222", "its tensors are on the CPU; nvFuser compiles only for the GPU")
    return None


def no_rule(place: Place) -> Reason | None:
    """FD233: the catalogue of the fuser does not have it."""
    if place.loose.op in place.catalogue:
        return None
    if place.fuser is None:
        return reason("FD233", f"no fuser has a rule for {place.loose.op}")
    return reason("FD233", f"{place.fuser_name} has no rule for {place.loose.op}")


def untyped(place: Place) -> Reason | None:
    """FD232: nothing was profiled for its tensors, while it was for others."""
    if not place.node.inputs or any(text not in ("Tensor", "Tensor?", "") for text in place.node.inputs):
        return None
    others = [n for n in place.flow.nodes if n is not place.node and n.inputs]
    typed = [n for n in others if any(text.startswith(tuple(DTYPES["nnc"])) for text in n.inputs)]
    if others and len(typed) * 2 > len(others):
        return reason(
            "FD232", "the types of its inputs were not profiled: that code did not run in the first passes"
        )
    return None
