"""nvFuser in logs: the graphs, guards and refusals that its pass prints.

The seven texts of torch/csrc/jit/codegen/cuda/partition.cpp (torch 1.12 to 2.1,
level UPDATE); headers and guards of graph_fuser.cpp there.
"""

from __future__ import annotations

import re

from fusiondoc.fusers.fuser_log import FuserLog, Refusals
from fusiondoc.fusers.nvfuser import dumps, errors

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

LOG = FuserLog(
    pass_file="graph_fuser",
    pass_start="Before Fusion:",
    plan_header="Before Compilation:",
    # If both are on, nvFuser's pass runs after NNC's on the same graph (seen in a
    # log of torch 2.1.2).
    follows="nnc",
    cache_header="GraphCache created for graph",
    fallback_header="`compile_fusion` hits fallback on graph",
    # Source lines of ``Before Fusion:`` and ``Before Compilation:``
    # (graph_fuser.cpp), of ``GraphCache constructor``, ``GraphCache created for
    # graph`` and ``running GraphCache`` (kernel_cache.cpp), and of the statements
    # of partition.cpp; from logs of the wheels of 1.12.1, 1.13.1, 2.0.1 and 2.1.2.
    # 2.0 and 2.1 have the same nvFuser, line for line.
    source_lines={
        "1.12": {
            "graph_fuser": (2352, 2432),
            "kernel_cache": (718, 719, 727),
            "partition": (233,),
        },
        "1.13": {"graph_fuser": (2420, 2504), "kernel_cache": (765, 766, 774)},
        "2.0": {"graph_fuser": (2419, 2503), "kernel_cache": (809, 810, 818)},
    },
    guards=frozenset(
        (
            "prim::CudaFusionGuard",
            "prim::CudaFusionSizeEq",
            "prim::CudaFusionIvalGuard",
            "prim::CudaFusionViewGuard",
        )
    ),
    refusals=REFUSALS,
    fallbacks=errors.FALLBACKS,
    warnings=errors.WARNINGS,
    gone=errors.GONE,
    options_set=errors.OPTIONS_SET,
    # Parts of the lines of its dumps and of the dumps of its stand-alone package.
    signs=(
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
        *(
            b"\nInputs:",
            b"\nAfter ",
            b"\n0  ",
            b"Arguments for ",
            b"Compute at ",
            b"Compile ",
            b"Fus# ",
            b"***",
        ),
        *(
            b"Scheduler _",
            b"ptxas ",
            b"Max register count: ",
            b"Propagator::",
            b"HaloInfo:",
            b"Index type: ",
        ),
        *(
            b"Parallel dimension map",
            b"PRINTING: __tmp_",
            b"SyncMap:",
            b"segmentation ",
            b"num_sms=",
        ),
    ),
    dump_kinds=dumps.KINDS,
    # ``kernel1`` in torch; ``nvfuser_1``, and its long form with a namespace, in
    # the stand-alone package.
    kernel_names=(
        r"(?:kernel|nvfuser_)(?:\w*_)?\d+\b",
        r"nvfuser_[a-z_]+_f\d+_c\d+_r\d+_g\d+\b",
        r"CudaCodeGen(?:\w*_\d+|\d*)\b",
    ),
    profile_names=(
        r"run_fused_kernel\Z",
    ),  # torch/csrc/jit/codegen/cuda/manager.cpp
    writes_to_stdout=True,
)
