"""What keeps an operator out of every group for itself: its kind, its types, its device."""

from __future__ import annotations

import re

from fusiondoc.diagnosis.operators import BY_FUSER
from fusiondoc.diagnosis.surroundings import NOTHING_TO_GAIN, Place, reason
from fusiondoc.model.fusers import fuser_title
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import CONTROL

_IN_PLACE = re.compile(r"aten::\w*[^\W_]_$")

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
    return reason(
        "FD229", f"control flow ({place.node.condition}) ends the group before it and begins another after"
    )


def bookkeeping(place: Place) -> Reason | None:
    """FD235: what the gradient executor adds for gradients that may be absent."""
    if place.loose.op.startswith("prim::Autograd"):
        return reason("FD235", "the gradient executor adds it to deal with gradients that may be absent")
    return None


def nothing_to_gain(place: Place) -> Reason | None:
    """FD226: a view, a constant, an attribute."""
    if place.loose.op in NOTHING_TO_GAIN:
        return reason("FD226", "it makes a view or a constant and computes nothing that a kernel could save")
    return None


def in_place(place: Place) -> Reason | None:
    """FD230: fusers leave operators alone that change their inputs."""
    if not _IN_PLACE.match(place.loose.op):
        return None
    text = "it changes its input in place"
    if place.takes(place.loose.op[:-1]):
        text += f"; {place.loose.op[:-1]} could be fused"
    return reason("FD230", text)


def dtype(place: Place) -> Reason | None:
    """FD223: complex, quantised and other scalar types."""
    allowed = DTYPES.get(place.fuser)
    for tensor in place.types():
        if tensor.dtype is not None and allowed is not None and tensor.dtype not in allowed:
            return reason("FD223", f"{fuser_title(place.fuser)} does not fuse {tensor.dtype} tensors")
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
    devices = {t.device for t in place.types() if t.device is not None and t.sizes != ()}
    if len(devices) > 1:
        return reason("FD221", f"its tensors are on several devices: {', '.join(sorted(devices))}")
    if place.fuser == "nvfuser" and devices == {"cpu"}:
        return reason("FD222", "its tensors are on the CPU; nvFuser compiles only for the GPU")
    return None


def no_rule(place: Place) -> Reason | None:
    """FD233: the catalogue of the fuser does not have it."""
    if place.loose.op in BY_FUSER[place.fuser]:
        return None
    return reason("FD233", f"{fuser_title(place.fuser)} has no rule for {place.loose.op}")


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
