"""Meaning of the classes of Inductor's nodes, from torch/_inductor/scheduler.py,
ir.py and mkldnn_ir.py of torch 2.6, 2.11 and 2.13."""

from __future__ import annotations

from fusiondoc.fusers.inductor.compilation import FinalKind
from fusiondoc.fusers.inductor.kinds import CallKind

MULTI_OUTPUT = "MultiOutput"
"""The IR class that takes one result of a call: it computes nothing."""

_FINAL_KINDS = {
    "SchedulerNode": FinalKind.LOOPS,
    "FusedSchedulerNode": FinalKind.LOOPS,
    "OuterLoopFusedSchedulerNode": FinalKind.OUTER_LOOP,
    "ForeachKernelSchedulerNode": FinalKind.FOREACH,
    "FusedMixOrderReductions": FinalKind.MIXED_ORDER,
    "ExternKernelSchedulerNode": FinalKind.CALL,
    "NopKernelSchedulerNode": FinalKind.NOTHING,
}

_CALL_KINDS = {
    "UserDefinedTritonKernel": CallKind.USER_TRITON,
    "RandomSeeds": CallKind.RANDOM_SEED,
    "ComplexView": CallKind.VIEW,
    "InplaceCopyFallback": CallKind.COPY,
    "DeviceCopy": CallKind.COPY,
    "InplaceBernoulliFallback": CallKind.ON_PURPOSE,
    "ScatterFallback": CallKind.ON_PURPOSE,
    "IndexPutFallback": CallKind.ON_PURPOSE,
    "ExternKernelOut": CallKind.LIBRARY,
    "ExternKernelAlloc": CallKind.LIBRARY,
    "_CollectiveKernel": CallKind.COLLECTIVE,
    "_AllReduce_Kernel": CallKind.COLLECTIVE,
    "_AllReduceKernel": CallKind.COLLECTIVE,
    "_WaitKernel": CallKind.COLLECTIVE,
}
_LIBRARY_CLASSES = (
    "Convolution",
    "Linear",
    "QConv",
    "QLinear",
    "MKLPacked",
    "Mkldnn",
    "WeightInt4",
)
"""Prefixes of the classes of oneDNN's calls (mkldnn_ir.py)."""
_OWN_NAMESPACES = ("aten.", "prims.")
READ_WINDOWS = frozenset(
    (
        "prims::_low_memory_max_pool_with_offsets",
        "prims::_low_memory_max_pool_offsets_to_indices",
    )
)
"""Inductor's own operators that read windows of a tensor
(torch/_inductor/inductor_prims.py, 2.13)."""
_VIEWS = ("aten.view_as_real.", "aten.view_as_complex.", "aten.view.dtype")


def final_kind(scheduler_class: str, template: bool = False) -> FinalKind:
    """The kind of a node of the scheduler.

    Args:
        template: a template is among its members.
    """
    kind = _FINAL_KINDS.get(scheduler_class, FinalKind.OTHER)
    if template and kind is FinalKind.LOOPS:
        return FinalKind.TEMPLATE
    return kind


def call_kind(
    ir_class: str, target: str | None, on_purpose: bool | None
) -> CallKind:
    """Why an operator is a call.

    Args: ir_class: of its node: ``FallbackKernel``. target: the overload that it
        calls: ``aten.sort.stable``. on_purpose: Inductor lists the overload among
        those that it leaves to eager code.
    """
    if ir_class in _CALL_KINDS:
        return _CALL_KINDS[ir_class]
    if ir_class.startswith(_LIBRARY_CLASSES):
        return CallKind.LIBRARY
    if ir_class != "FallbackKernel" or target is None:
        return CallKind.UNKNOWN
    if target.startswith("_c10d_functional."):
        return CallKind.COLLECTIVE
    if not target.startswith(_OWN_NAMESPACES):
        return CallKind.CUSTOM
    if target.startswith(_VIEWS):
        return CallKind.VIEW
    if on_purpose:
        return CallKind.ON_PURPOSE
    return CallKind.NO_LOWERING
