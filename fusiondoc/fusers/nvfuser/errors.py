"""Errors and warnings of nvFuser.

torch/csrc/jit/codegen/cuda (third_party/nvfuser/csrc in 2.0 and 2.1): its asserts
name a file there; executor_utils.cpp puts the whole CUDA source before ``CUDA NVRTC
compile error:``; its parallel compilation prints ``Error from segmentation group
N:`` for each of its threads (Fuser#3497, #3176).
"""

from __future__ import annotations

import re

from fusiondoc.fusers.fuser_errors import KERNEL, OPTION, FuserErrors
from fusiondoc.fusers.fuser_log import Fallbacks

INVALID_STRIDE = "invalid_stride"
"""The rows of an input do not start at multiples of the vector size that a kernel
was compiled for."""
LEGACY_EXECUTOR = "legacy_executor"
"""The profiling executor is off."""

ERRORS = FuserErrors(
    forms=(
        (
            OPTION,
            re.compile(
                r"(Invalid (?:debug dump|disable|enable) option: '[^']*'.*)"
            ),
        ),
        (OPTION, re.compile(r"(Parsing PYTORCH_NVFUSER_\w+.*)")),
        (KERNEL, re.compile(r"CUDA NVRTC compile error: *(.*)")),
    ),
    files=re.compile(
        r"codegen[/\\]+cuda[/\\]|[nN]v[fF]user[/\\]+csrc[/\\]|Fuser[/\\]+csrc[/\\]"
    ),
    # Checks of kernel_cache.cpp, manager.cpp and executor.cpp, and anything that
    # names nvFuser's own tensors (``T0_g[...]``).
    texts=re.compile(
        r"No output found for this kernel, aborting|Could not launch kernel as program could not infer"
        r"|Provided device to CUDA fuser is the CPU|legacy executor is not supported by nvfuser"
        r"|nvfuser only supports cuda device|Running (?:the )?CUDA fuser|Attempting to bind T\d+"
        r"|\bT\d+_[glr]\[|\bT\d+\.size\["
    ),
    wrappers=re.compile(
        r"Detected exception while compiling fusion segments|Error messages? from all threads"
    ),
    source="namespace CudaCodeGen",
    causes={
        "not possible due to invalid stride": INVALID_STRIDE,
        "legacy executor": LEGACY_EXECUTOR,
    },
    # ``nvfCheckFail`` in NVIDIA/Fuser's csrc/exceptions.cpp; the nvFuser in torch
    # requests a report to PyTorch.
    stand_alone="github.com/NVIDIA/Fuser",
    marks=("codegen/cuda", "nvfuser"),
)

FALLBACKS = Fallbacks(
    form=re.compile(
        rb"FALLBACK path has been taken(?: inside: (?:[\w:]*::)?(\w+))?"
    ),
    stages={b"compileCudaFusionGroup": "compile", b"runCudaFusionGroup": "run"},
)
"""Generations: 1.11 names no function; 1.12 to 2.1 ``compileCudaFusionGroup`` or
``runCudaFusionGroup``, on Windows with its namespace
(torch/csrc/jit/codegen/cuda/manager.cpp, third_party/nvfuser/csrc/manager.cpp)."""

GONE = b"nvfuser is no longer supported in torch script"

WARNINGS = (
    b"nvfuser integration in TorchScript is deprecated",
    GONE,
    b"Loading nvfuser library failed",
    b"Double registration of CudaFusionGroup",
)

OPTIONS_SET = re.compile(
    rb"\bPYTORCH_NVFUSER_(?:DUMP|ENABLE|DISABLE)=(?!fallback\b)\w"
)
"""Matches a shell that prints its commands, or a printed environment; torch itself
advises to set the variable to fallback."""
