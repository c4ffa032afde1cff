"""The finding codes for NNC's messages on operators that it refuses
(``fusers/nnc/log.py``)."""

from __future__ import annotations

from fusiondoc.model.code_kinds import Cause
from fusiondoc.model.finding_code import (
    DYNAMIC_SIZES,
    MORE_RUNS,
    OTHER_FUSER,
    REDUCTIONS,
    Code,
)
from fusiondoc.model.remedies import Remedy

OF_NNC = (
    Code(
        "FD211",
        "warning",
        "NNC does not support the operator",
        remedy=Remedy(
            "Replace it with operators that NNC fuses, or accept that it splits the groups around it."
        ),
        tries=(REDUCTIONS, OTHER_FUSER),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD212",
        "warning",
        "NNC does not know the shapes",
        remedy=Remedy(
            "Run it in the first passes, so that its shapes are profiled, without views of unknown shape"
            " and branches around it."
        ),
        tries=(MORE_RUNS, DYNAMIC_SIZES),
        cause=Cause.SETTING,
    ),
    Code(
        "FD213",
        "warning",
        "NNC may not fuse on this device",
        remedy=Remedy(
            "Turn fusion on for its device: torch._C._jit_override_can_fuse_on_cpu(True) or ..._on_gpu(True)."
        ),
        cause=Cause.SETTING,
    ),
    Code(
        "FD214",
        "note",
        "NNC found no single device for the operator",
        remedy=Remedy("Give it tensor inputs on one device."),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD215",
        "warning",
        "NNC does not support the types",
        remedy=Remedy(
            "Use another type, such as float32, which NNC takes everywhere, and constant arguments."
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD216",
        "note",
        "Order or shared memory prevents moving the operator into the group",
        remedy=Remedy(
            "Reorder the program so that nothing between the operator and the group depends on it,"
            " and avoid in-place changes."
        ),
    ),
    Code(
        "FD217",
        "note",
        "The operator is switched off by PYTORCH_TENSOREXPR_DONT_FUSE",
        remedy=Remedy("Remove it from PYTORCH_TENSOREXPR_DONT_FUSE."),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD218",
        "warning",
        "The group would have too many arguments",
        remedy=Remedy(
            "Split the block: a group takes at most 128 inputs and outputs."
        ),
    ),
    Code(
        "FD219",
        "note",
        "NNC states another condition that failed",
        remedy=Remedy(
            "Change the operator's arguments;",
            "the condition in the reason names those that NNC requires.",
        ),
        tries=(REDUCTIONS, OTHER_FUSER),
        cause=Cause.OPERATOR,
    ),
)
