"""The finding codes for nvFuser's messages on operators that it refuses
(``fusers/nvfuser/log.py``)."""

from __future__ import annotations

from fusiondoc.model.code_kinds import Cause
from fusiondoc.model.finding_code import OTHER_FUSER, Code
from fusiondoc.model.remedies import Remedy

OF_NVFUSER = (
    Code(
        "FD201",
        "warning",
        "nvFuser has no rule for the operator",
        remedy=Remedy(
            "Replace it with operators that nvFuser fuses, or accept that it splits the groups around it."
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD202",
        "warning",
        "nvFuser does not support the type of an input",
        remedy=Remedy(
            "Cast the input to float16, bfloat16, float32 or float64 first;",
            "ranks above 8 are rejected too: reshape.",
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD203",
        "warning",
        "nvFuser does not support the type of an output",
        remedy=Remedy(
            "Cast the output to float16, bfloat16, float32 or float64;",
            "ranks above 8 are rejected too: reshape.",
        ),
        tries=(OTHER_FUSER,),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD204",
        "warning",
        "The operator does not run on a CUDA device",
        remedy=Remedy(
            "Move its tensors to the GPU (.to('cuda'));",
            "one CPU tensor keeps the operator out.",
        ),
        cause=Cause.OPERATOR,
    ),
    Code(
        "FD205",
        "note",
        "The GPU is too old to fuse anything but elementwise operators",
        remedy=Remedy(
            "On this GPU only element-wise operators fuse: use a Volta GPU or newer."
        ),
        cause=Cause.SETTING,
    ),
    Code(
        "FD206",
        "note",
        "The GPU is too old to fuse bfloat16",
        remedy=Remedy(
            "Use float16 or float32 on this GPU;", "bfloat16 fuses from Ampere on."
        ),
        cause=Cause.SETTING,
    ),
    Code(
        "FD207",
        "warning",
        "The operator runs on another device than the group",
        remedy=Remedy("Keep all tensors of the block on one GPU."),
    ),
)
