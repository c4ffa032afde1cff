"""nvFuser in logs: the graphs, guards and refusals that its pass prints.

The seven texts of torch/csrc/jit/codegen/cuda/partition.cpp (torch 1.12 to 2.1, level UPDATE); headers and
guards of graph_fuser.cpp there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusiondoc.fusers.fuser_log import Refusals

PASS_START, PLAN_HEADER = "Before Fusion:", "Before Compilation:"

CACHE_HEADER = "GraphCache created for graph"
FALLBACK_HEADER = "`compile_fusion` hits fallback on graph"

SOURCE_LINES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "1.12": {"graph_fuser": (2352, 2432), "kernel_cache": (718, 719, 727), "partition": (233,)},
    "1.13": {"graph_fuser": (2420, 2504), "kernel_cache": (765, 766, 774)},
    "2.0": {"graph_fuser": (2419, 2503), "kernel_cache": (809, 810, 818)},
}
"""Release of torch -> file -> lines: of ``Before Fusion:`` and ``Before Compilation:`` (graph_fuser.cpp), of
``GraphCache constructor``, ``GraphCache created for graph`` and ``running GraphCache`` (kernel_cache.cpp),
and of the statements of partition.cpp; from logs of the wheels of 1.12.1, 1.13.1, 2.0.1 and 2.1.2. 2.0 and
2.1 have the same nvFuser, line for line."""

GUARDS = frozenset(
    (
        "prim::CudaFusionGuard",
        "prim::CudaFusionSizeEq",
        "prim::CudaFusionIvalGuard",
        "prim::CudaFusionViewGuard",
    )
)

REFUSALS = Refusals(
    file="partition",
    mark=b"rejecting node",
    form=re.compile(rb"rejecting node(?: from fusion)? \((.+?)\): (.*)", re.S),
    causes={
        b"node not parsible": ("FD201", "nvfuser_no_rule"),
        b"input scalar type not supported": ("FD202", "input_type"),
        b"output scalar type not supported": ("FD203", "output_type"),
        b"non-cuda device": ("FD204", "not_cuda"),
        b"non element-wise op not supported on SM < 7X": ("FD205", "before_volta"),
        b"bfloat not supported on SM < 8X": ("FD206", "before_ampere"),
        b"outputs device not matching fusion": ("FD207", "device_of_group"),
    },
    other="FD201",
)

WORDS: Mapping[str, str] = {
    "nvfuser_no_rule": "nvFuser has no parsing rule for it",
    "input_type": "nvFuser does not support the type of an input",
    "output_type": "nvFuser does not support the type of an output",
    "not_cuda": "it does not run on a CUDA device",
    "before_volta": "nvFuser fuses only element-wise operators on a GPU older than Volta",
    "before_ampere": "nvFuser needs an Ampere GPU or newer for bfloat16",
    "device_of_group": "it runs on another device than the group",
}
"""Condition -> the reason in a sentence."""

SIGNS = (
    b"PYTORCH_NVFUSER_",
    *(
        b"kernel",
        b"Kernel",
        b"KERNEL (",
        b"nvfuser_",
        b"Fusion",
        b"fusion IR",
        b"Segment",
        b"HostIrContainer",
    ),
    *(b"\nInputs:", b"\nAfter ", b"\n0  ", b"Arguments for ", b"Compute at ", b"Compile ", b"Fus# ", b"***"),
    *(b"Scheduler _", b"ptxas ", b"Max register count: ", b"Propagator::", b"HaloInfo:", b"Index type: "),
    *(b"Parallel dimension map", b"PRINTING: __tmp_", b"SyncMap:", b"segmentation ", b"num_sms="),
)
"""Parts of the lines of its dumps and of those of its package that stands alone."""

KERNEL_NAMES = (
    r"(?:kernel|nvfuser_)(?:\w*_)?\d+\b",
    r"nvfuser_[a-z_]+_f\d+_c\d+_r\d+_g\d+\b",
    r"CudaCodeGen(?:\w*_\d+|\d*)\b",
)
"""``kernel1`` in torch, ``nvfuser_1`` and the long form of the package that stands alone, and a namespace."""
