"""What keeps an operator out of every group for itself: its kind, its types, its device.

The true cause behind what nvFuser or NNC states of an operator.

Facts on NNC: ``isSupported`` and ``typesAreSupported`` of torch/csrc/jit/passes/tensorexpr_fuser.cpp, the
same from 1.12 to 2.13.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.diagnosis.detours import once_a_flow
from fusiondoc.diagnosis.nvfuser_rules import refused_because
from fusiondoc.diagnosis.surroundings import (
    NOTHING_TO_GAIN,
    Place,
    at,
    by_version,
    is_of_a_formula,
    reason,
)
from fusiondoc.fusers import BY_FUSER, nnc
from fusiondoc.model.operator_kinds import Kind
from fusiondoc.model.operators import (
    BY_NAME,
    ELEMENTWISE,
    MAKERS,
    MAY_COPY,
    VIEWS,
    WITH_PARTNER,
    is_in_place,
    of,
)
from fusiondoc.model.report import Reason
from fusiondoc.parsers.ir.types import TensorType, in_order, is_tensor, parse_type
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, PYTHON, Flow
from fusiondoc.parsers.jit.rejections import NO_TYPES

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
        if place.loose.op in ("prim::Enter", "prim::Exit"):
            return reason("FD229", "it begins or ends a with block, and operators are not moved past that")
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
    if op in MAY_COPY:
        return reason("FD226", _view_or_copy(place))
    if op in VIEWS or op == "prim::ConstantChunk":
        return reason(
            "FD226", "it makes a view: it moves no data and computes nothing that a kernel could save"
        )
    return reason("FD226", "it hands a tensor on and computes nothing that a kernel could save")


_REORDERS = VIEWS & of(Kind.TRANSPOSES | Kind.SELECTS)
"""Views after which the memory is not in the order of the elements."""

_VIEW = "it makes a view: it moves no data and computes nothing that a kernel could save"


def _view_or_copy(place: Place) -> str:
    """Whether an operator that copies only where it must does so here."""
    contiguous = place.loose.op == "aten::contiguous"
    view = "its input is contiguous already: it hands it on and computes nothing" if contiguous else _VIEW
    taken = parse_type(place.node.inputs[0]) if place.node.inputs else None
    made = parse_type(place.node.outputs[0]) if place.node.outputs else None
    if isinstance(taken, TensorType) and taken.sizes is not None and taken.strides is not None:
        sizes = taken.sizes if contiguous else made.sizes if isinstance(made, TensorType) else None
        if in_order(taken):
            return view
        if contiguous or (sizes is not None and not can_view(taken, sizes)):
            whose = "no fuser has a" if place.fuser is None else f"{place.fuser_name} has no"
            return f"it copies its input into another layout, which {whose} rule for"
        if sizes is not None:
            return view
    if not contiguous and isinstance(made, TensorType) and made.strides is not None and not in_order(made):
        return view  # a copy would be in order
    reordered = [n for n in map(place.flow.nodes.__getitem__, sorted(place.node.before)) if n.op in _REORDERS]
    after = f", as after {reordered[0].op}{at(reordered[0])}" if reordered else ""
    lacks = "no fuser has a rule" if place.fuser is None else f"{place.fuser_name} has no rule"
    return (
        "it hands its input on, and copies it where its memory is in another order"
        f"{after}: {lacks} for either"
    )


def can_view(tensor: TensorType, sizes: Sequence[int | None]) -> bool:
    """Whether a tensor can be seen with other sizes without a copy: dimensions that lie in one piece can be
    split and merged (``computeStride_impl`` of aten/src/ATen/TensorUtils.cpp)."""
    if tensor.sizes is None or tensor.strides is None:
        return False
    pieces: list[int] = []
    step = 0
    for size, stride in reversed(list(zip(tensor.sizes, tensor.strides))):
        if size == 1:
            continue
        if pieces and stride == step:
            pieces[-1] *= size or 0
        else:
            pieces.append(size or 0)
        step = stride * (size or 0)
    left = [size or 0 for size in sizes if size != 1]
    for piece in pieces:
        together = 1
        while together < piece and left:
            together *= left.pop()
        if together != piece:
            return False
    return not left


def _counts_batches(place: Place) -> bool:
    """Whether it is ``num_batches_tracked.add_(1)`` of torch/nn/modules/batchnorm.py."""
    source = place.node.source or ""
    return "/nn/modules/batchnorm.py:" in source


_HAS_ANOTHER = ELEMENTWISE & WITH_PARTNER
"""Operators that compute, and come in place too."""


def in_place(place: Place) -> Reason | None:
    """FD230: fusers leave operators alone that change their inputs."""
    op = place.loose.op
    if not is_in_place(op):
        return reason("FD230", WRITES_OUT) if _writes_out(place) else None
    text = "it changes its input in place"
    if place.takes(op[:-1]):
        text += f"; {op[:-1]} could be fused"
    elif place.fuser is not None and op[:-1] in _HAS_ANOTHER:
        text += f"; {place.fuser_name} has no rule for {op[:-1]} either"
    return reason("FD230", text)


WRITES_OUT = "it writes its result into the tensor given as `out`"


def _writes_out(place: Place) -> bool:
    """Whether it is given more tensors than any overload takes: the last is `out`."""
    row = BY_NAME.get(place.loose.op)
    if row is None or row.tensors is None:
        return False
    tensors = [is_tensor(operand.type) for operand in place.node.operands]
    return sum(tensors) > row.tensors and tensors[-1]


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


PYTHON_CALL = "it is a call of a Python function, into which no fuser sees"


def no_rule(place: Place) -> Reason | None:
    """FD233: the catalogue of the fuser does not have it."""
    if place.loose.op in place.catalogue:
        return None
    if place.loose.op.startswith(PYTHON):
        return reason("FD233", PYTHON_CALL)
    if place.fuser is None:
        return reason("FD233", f"no fuser has a rule for {place.loose.op}")
    return reason("FD233", f"{place.fuser_name} has no rule for {place.loose.op}")


def untyped(place: Place) -> Reason | None:
    """FD232: nothing was profiled for its tensors, while it was for others."""
    if not place.node.inputs or any(text not in ("Tensor", "Tensor?", "") for text in place.node.inputs):
        return None
    with_tensors, typed = _profiled(place.flow)
    if typed * 2 > with_tensors - 1:  # the others: this one has tensors and no type
        return reason(
            "FD232", "the types of its inputs were not profiled: that code did not run in the first passes"
        )
    return None


@once_a_flow
def _profiled(flow: Flow) -> tuple[int, int]:
    """How many nodes take tensors, and for how many of them a type was profiled."""
    names = tuple(DTYPES["nnc"])
    with_tensors = [node.inputs for node in flow.nodes if node.inputs]
    return len(with_tensors), sum(any(text.startswith(names) for text in one) for one in with_tensors)


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


_NUMBERS = ("int", "float", "Scalar", "number", "bool")
_FLOATS = ("Float", "Double", "Half", "BFloat16")


def refine_nnc(place: Place, stated: Reason) -> Reason:
    """Shapes and devices are asked for before the lowering: of an operator without one, they are not what it
    lacks. Where there is one, the overload or a type is refused."""
    text = None
    if stated.code in ("FD212", "FD214"):
        lacks = no_rule(place)
        if lacks is None and place.loose.op in nnc.PAIRS_ONLY and len(place.node.operands) != 2:
            lacks = reason("FD233", f"{place.fuser_name} takes {place.loose.op} of two tensors only")
        return lacks or _not_profiled(place, stated) or stated
    if stated.code == "FD211":
        text = _overload(place)
    elif stated.code == "FD215" and stated.text == NO_TYPES:
        text = _types(place)
    return stated if text is None else Reason(stated.code, text, True)


def _not_profiled(place: Place, stated: Reason) -> Reason | None:
    """FD211: results are profiled only of what NNC takes (``needsProfiledOutput`` of
    torch/csrc/jit/runtime/profiling_record.cpp, 1.12 to 2.13): where the types of all inputs are known and
    that of the result is not, NNC does not take the overload, or reductions are off."""
    node = place.node
    known = [parse_type(text) for text in node.inputs]
    typed = [isinstance(one, TensorType) and one.sizes is not None for one in known]
    if stated.code != "FD212" or not typed or not all(typed) or set(node.outputs) != {"Tensor"}:
        return None
    text = None if is_of_a_formula(node.source) else _overload(place)
    return reason("FD211", text) if text is not None else None


def _overload(place: Place) -> str | None:
    op = place.loose.op
    if op.startswith(PYTHON):
        return PYTHON_CALL
    if op in nnc.REDUCTIONS:
        return "reductions are off (`nnc_reductions`)"
    if op not in BY_FUSER["nnc"]:
        return None
    types = [operand.type for operand in place.node.operands]
    if op in nnc.PAIRS_ONLY and len(types) != 2:
        what = "reduces over all dimensions" if len(types) == 1 else "gives indices too"
        return f"it {what}, and NNC takes {op} of two tensors only"
    if op == "aten::to":
        loose = [one for one in place.node.operands[1:] if one.value is None and one.type != "Tensor"]
        if loose:
            maker = f"the result of {loose[0].maker}" if loose[0].maker else "an argument of this graph"
            return f"NNC takes aten::to only with constant arguments, and one is {maker}"
    if any(text in ("Scalar", "number") for text in types):
        return "an input is a number of an unknown type, as from .item()"
    if op == "aten::div" and len(types) > 2:
        return "NNC has a rule for aten::div, but not for this overload (with a rounding mode)"
    word = ", ".join(types)
    if len(types) > 1 and types[0] in _NUMBERS:
        return f"NNC has a rule for {op}, but not for this overload (a number before the tensor)"
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
        if tensor.dtype is not None and op in nnc.FLOATING_ONLY and tensor.dtype not in _FLOATS:
            return f"NNC takes it of floating-point tensors only, and this one is {tensor.dtype}"
        if op in nnc.INTEGER_ONLY and tensor.dtype in _FLOATS:
            return f"NNC takes it of integer tensors only, and this one is {tensor.dtype}"
        if op in nnc.ON_GPU_ONLY and tensor.device == "cpu":
            return "NNC takes it on the GPU only"
        if op in nnc.ON_CPU_ONLY and tensor.device is not None and tensor.device != "cpu":
            return "NNC takes it on the CPU only"
    if op == "aten::to":
        return "it changes the device, or an argument of it is not a constant"
    if op == "aten::unsqueeze":
        return "its `dim` is not a constant"
    return None


_MOST_ARGUMENTS = 128
"""NVRTC_KERNEL_ARG_LIMIT of nvFuser, subgraphArgLimit of NNC."""


def many_arguments(place: Place) -> Reason | None:
    """FD234: the group next to it is full. nvFuser adds up all inputs and outputs of both, constants too
    (torch/csrc/jit/codegen/cuda/graph_fuser.cpp, tryFuse)."""
    for node in place.neighbours(place.node):
        if node.kind == GROUP and node.arguments + place.node.arguments > _MOST_ARGUMENTS:
            return reason(
                "FD234",
                f"with it the group next to it ({node.arguments} inputs and outputs) would have more than"
                f" {_MOST_ARGUMENTS}",
            )
    return None
