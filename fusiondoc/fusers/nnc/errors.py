"""Errors of NNC: cuda_codegen.cpp (torch/csrc/jit/tensorexpr) puts the words of
NVRTC first, and the source of the kernel behind ``nvrtc compilation failed:``."""

from __future__ import annotations

import re

from fusiondoc.fusers.fuser_errors import KERNEL, FuserErrors

EXPONENT = "exponent"
"""A number with an exponent in the source of a kernel, which NVRTC cannot read."""

ERRORS = FuserErrors(
    forms=(
        (KERNEL, re.compile(r"(default_program\(\d+\): error: .*)")),
        (KERNEL, re.compile(r"(nvrtc: error: .*)")),
    ),
    causes={"extra text after expected end of number": EXPONENT},
    marks=("NVRTC", "CUDA driver error"),
)
