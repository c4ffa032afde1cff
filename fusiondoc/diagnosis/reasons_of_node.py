"""Reasons in the operator itself: its name, its types, its device."""

from __future__ import annotations

from collections.abc import Sequence

from fusiondoc.diagnosis.operator_in_plan import (
    NOTHING_TO_GAIN,
    OperatorInPlan,
    at,
    is_of_a_formula,
)
from fusiondoc.fusers import facts_of, scalar_types
from fusiondoc.graph.detours import once_a_flow
from fusiondoc.model.reasons import (
    AbsentGradients,
    Condition,
    ControlFlow,
    Dimensions,
    FullGroup,
    InPlace,
    NoRule,
    NothingToGain,
    PythonCall,
    Unprofiled,
    WithBlock,
    WritesOut,
    WrongDevice,
    WrongType,
)
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.operators import (
    BY_NAME,
    ELEMENTWISE,
    MAKERS,
    MAY_COPY,
    VIEWS,
    WITH_PARTNER,
    is_in_place,
    of,
)
from fusiondoc.operators.kinds import OperatorKind
from fusiondoc.parsers.ir.types import TensorType, in_order, is_tensor, parse_type
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, PYTHON, Flow


def control_flow(operator: OperatorInPlan) -> Reason | None:
    """FD229: a branch or loop is no operator, and divides the graph."""
    if operator.node.kind != CONTROL:
        if operator.loose.op in ("prim::Enter", "prim::Exit"):
            return Reason.of("FD229", WithBlock())
        return None
    condition = operator.node.condition or Condition("unknown")
    return Reason.of(
        "FD229",
        ControlFlow(condition, in_formula=is_of_a_formula(operator.node.source)),
    )


def bookkeeping(operator: OperatorInPlan) -> Reason | None:
    """FD235: a node that the gradient executor adds for gradients that may be
    absent."""
    if operator.loose.op.startswith("prim::Autograd"):
        return Reason.of("FD235", AbsentGradients())
    return None


def nothing_to_gain(operator: OperatorInPlan) -> Reason | None:
    """FD226: a view, a constant, an attribute."""
    op = operator.loose.op
    if op == "aten::add_" and _counts_batches(operator):
        return Reason.of("FD226", NothingToGain("counts_batches"))
    if op not in NOTHING_TO_GAIN:
        return None
    if op in MAKERS:
        return Reason.of("FD226", NothingToGain("makes"))
    if op in MAY_COPY:
        return Reason.of("FD226", _view_or_copy(operator))
    if op in VIEWS or op == "prim::ConstantChunk":
        return Reason.of("FD226", NothingToGain("views"))
    return Reason.of("FD226", NothingToGain("hands_on"))


_REORDERS = VIEWS & of(OperatorKind.TRANSPOSES | OperatorKind.SELECTS)
"""Views after which the memory order differs from the order of the elements."""


def _view_or_copy(operator: OperatorInPlan) -> NothingToGain:
    """Return whether an operator that copies only if necessary copies here."""
    copies = _copies(operator)
    if copies:
        return NothingToGain("copies", operator.fuser)
    if copies is not None:
        return NothingToGain(
            "is_contiguous" if operator.loose.op == "aten::contiguous" else "views"
        )
    for index in sorted(operator.node.before):
        node = operator.flow.nodes[index]
        if node.op in _REORDERS:
            return NothingToGain("may_copy", operator.fuser, at(node))
    return NothingToGain("may_copy", operator.fuser)


def _copies(operator: OperatorInPlan) -> bool | None:
    """Return whether it copies, by the types of its input and result; None if these
    do not show it."""
    contiguous = operator.loose.op == "aten::contiguous"
    taken, made = (
        _first_tensor(operator.node.inputs),
        _first_tensor(operator.node.outputs),
    )
    if taken is not None and taken.sizes is not None and taken.strides is not None:
        if in_order(taken):
            return False
        if contiguous:
            return True
        if made is not None and made.sizes is not None:
            return not can_view(taken, made.sizes)
    if (
        not contiguous
        and made is not None
        and made.strides is not None
        and not in_order(made)
    ):
        return False  # a copy would be in order
    return None


def _first_tensor(types: Sequence[str]) -> TensorType | None:
    parsed = parse_type(types[0]) if types else None
    if isinstance(parsed, TensorType):
        return parsed
    return None


def can_view(tensor: TensorType, sizes: Sequence[int | None]) -> bool:
    """True if a tensor can be viewed with other sizes without a copy: contiguous
    dimensions can be split and merged (``computeStride_impl`` of
    aten/src/ATen/TensorUtils.cpp)."""
    if tensor.sizes is None or tensor.strides is None:
        return False
    left = [size or 0 for size in sizes if size != 1]
    for elements in _pieces(tensor.sizes, tensor.strides):
        together = 1
        while together < elements and left:
            together *= left.pop()
        if together != elements:
            return False
    return not left


def _pieces(
    sizes: Sequence[int | None], strides: Sequence[int | None]
) -> Sequence[int]:
    """Return the number of elements of each contiguous run of dimensions, innermost
    first."""
    pieces: list[int] = []
    step = 0
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size == 1:
            continue
        if pieces and stride == step:
            pieces[-1] *= size or 0
        else:
            pieces.append(size or 0)
        step = (stride or 0) * (size or 0)
    return pieces


def _counts_batches(operator: OperatorInPlan) -> bool:
    """True if it is ``num_batches_tracked.add_(1)`` of
    torch/nn/modules/batchnorm.py."""
    source = operator.node.source or ""
    return "/nn/modules/batchnorm.py:" in source


_HAS_ANOTHER = ELEMENTWISE & WITH_PARTNER
"""Element-wise operators that also have an in-place version."""


def in_place(operator: OperatorInPlan) -> Reason | None:
    """FD230: fusers take no operators that change their inputs."""
    op = operator.loose.op
    if not is_in_place(op):
        if _writes_out(operator):
            return Reason.of("FD230", WritesOut())
        return None
    plain, fusible = op[:-1], None
    if operator.takes(plain):
        fusible = True
    elif operator.fuser is not None and plain in _HAS_ANOTHER:
        fusible = False
    return Reason.of("FD230", InPlace(plain, fusible, operator.fuser))


def _writes_out(operator: OperatorInPlan) -> bool:
    """True if it is given more tensors than any overload takes: the last is `out`.
    For an element-wise operator a number counts as well, as in ``mul(x, 2,
    out=y)``: no overload has a tensor after its numbers."""
    row = BY_NAME.get(operator.loose.op)
    if row is None or row.tensors is None:
        return False
    tensors = [is_tensor(operand.type) for operand in operator.node.operands]
    given = len(tensors) if operator.loose.op in ELEMENTWISE else sum(tensors)
    return given > row.tensors and tensors[-1]


def dtype(operator: OperatorInPlan) -> Reason | None:
    """FD223: complex, quantised and other scalar types. The reserve tensor of a
    batch norm is not checked, as a pass may remove it (partition.cpp,
    checkInputTensorTypes and checkOutputTensorTypes)."""
    fuser = operator.fuser or ""
    allowed = facts_of(fuser).limits.dtypes
    if allowed is None:
        return None
    op = operator.loose.op
    for tensor in operator.types():
        if op.startswith("aten::_batch_norm_impl_index") and tensor.dtype == "Byte":
            continue
        if tensor.dtype is not None and tensor.dtype not in allowed:
            return Reason.of("FD223", WrongType(fuser, tensor.dtype, "none"))
    return None


def dimensions(operator: OperatorInPlan) -> Reason | None:
    """FD224: a tensor has more dimensions than the fuser's kernels can have."""
    most = facts_of(operator.fuser).limits.most_dimensions
    if most is None:
        return None
    for tensor in operator.types():
        if tensor.sizes is not None and len(tensor.sizes) > most:
            return Reason.of(
                "FD224", Dimensions(len(tensor.sizes), most, operator.fuser)
            )
    return None


def device(operator: OperatorInPlan) -> Reason | None:
    """FD221 and FD222: tensors on several devices, or on one that the fuser does
    not compile for."""
    known = [t for t in operator.types() if t.device is not None]
    not_on_cpu = (
        operator.fuser is not None
        and "cpu" not in facts_of(operator.fuser).limits.devices
    )
    if (
        known
        and not_on_cpu
        and all(t.sizes == () and t.device == "cpu" for t in known)
    ):
        return Reason.of("FD222", WrongDevice("numbers_on_cpu", operator.fuser))
    devices = set()
    for t in operator.types():
        if t.device is not None and t.sizes != ():
            devices.add(t.device)
    if len(devices) > 1:
        return Reason.of(
            "FD221", WrongDevice("several", operator.fuser, tuple(sorted(devices)))
        )
    if not_on_cpu and devices == {"cpu"}:
        return Reason.of("FD222", WrongDevice("cpu", operator.fuser))
    return None


def no_rule(operator: OperatorInPlan) -> Reason | None:
    """FD233: the fuser does not take this operator."""
    if operator.loose.op in operator.catalogue:
        return None
    if operator.loose.op.startswith(PYTHON):
        return Reason.of("FD233", PythonCall())
    return Reason.of("FD233", NoRule(operator.loose.op, operator.fuser))


def untyped(operator: OperatorInPlan) -> Reason | None:
    """FD232: no types were profiled for its tensors, while they were for others."""
    if not operator.node.inputs or any(
        text not in ("Tensor", "Tensor?", "") for text in operator.node.inputs
    ):
        return None
    with_tensors, typed = _profiled(operator.flow)
    if typed * 2 > with_tensors - 1:  # the others: this one has tensors and no type
        return Reason.of("FD232", Unprofiled("not_in_first_passes"))
    return None


@once_a_flow
def _profiled(flow: Flow) -> tuple[int, int]:
    """Return how many nodes take tensors, and for how many of them a type was
    profiled."""
    names = tuple(scalar_types())
    with_tensors = []
    for node in flow.nodes:
        if node.inputs:
            with_tensors.append(node.inputs)
    return len(with_tensors), sum(
        any(text.startswith(names) for text in one) for one in with_tensors
    )


_MOST_ARGUMENTS = 128
"""Arguments of a kernel: NVRTC_KERNEL_ARG_LIMIT, subgraphArgLimit in torch."""


def many_arguments(operator: OperatorInPlan) -> Reason | None:
    """FD234: the neighbouring group is full: inputs and outputs of both add up,
    constants included (torch/csrc/jit/codegen/cuda/graph_fuser.cpp, tryFuse)."""
    for node in operator.neighbours(operator.node):
        if (
            node.kind == GROUP
            and node.arguments + operator.node.arguments > _MOST_ARGUMENTS
        ):
            return Reason.of("FD234", FullGroup(node.arguments, _MOST_ARGUMENTS))
    return None
