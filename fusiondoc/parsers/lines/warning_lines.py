"""Warnings of torch in a log, Python and C++ form: the fallback warning of every generation, and others."""

from __future__ import annotations

import re

FALLBACK = re.compile(rb"FALLBACK path has been taken(?: inside: (?:[\w:]*::)?(\w+))?")
"""Generations: 1.11 names no function; 1.12 to 2.1 ``compileCudaFusionGroup`` or ``runCudaFusionGroup``, on
Windows with its namespace (torch/csrc/jit/codegen/cuda/manager.cpp, third_party/nvfuser/csrc/manager.cpp)."""

_CATEGORY = re.compile(rb":\d{1,9}: (?:\w+\.)*\w*Warning: $")
_CPP_PLACE = re.compile(rb"[\w.+-]+:\d{1,9}$")
_NEAR = 500
"""Bytes that are looked at before a mark: a path with its line, a category. Keeps long lines linear."""

CONTINUES = re.compile(
    rb"To debug try disable codegen fallback path|To report the issue, try enable logging"
    rb"| ?\(Triggered internally at "
    rb"| \(function \w|via setting the env| does not have profile information"
)
"""Lines that follow the first line of a torch warning."""

KNOWN = re.compile(
    rb"nvfuser integration in TorchScript is deprecated|nvfuser is no longer supported in torch script"
    rb"|does not have profile information|is deprecated and a no-op|profile_node "
    rb"|Loading nvfuser library failed"
    rb"|bailout depth is deprecated|fmad is disabled for nvrtc|Double registration of CudaFusionGroup"
    rb"|is required to be tensor for linear decompose|are required to decompose|is required to decompose"
    rb"|`torch\.jit\.\w+` is (?:not supported|deprecated)|torch\.jit\.\w+ is deprecated"
)

NVFUSER_GONE = b"nvfuser is no longer supported in torch script"

OPTIONS_SET = re.compile(rb"\bPYTORCH_NVFUSER_(?:DUMP|ENABLE|DISABLE)=(?!fallback\b)\w")
"""A shell that prints its commands, or a printed environment; torch's own advice is to set it to fallback."""

STAGES = {b"compileCudaFusionGroup": "compile", b"runCudaFusionGroup": "run"}

ERROR = re.compile(rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::(?: .*)?)?$")
"""The last line of a Python traceback."""


def is_python_warning(line: bytes) -> bool:
    """Whether the line has ``file.py:31: UserWarning: `` in it, as the module warnings prints it."""
    at = line.find(b"Warning: ")
    while at >= 0:
        end = at + len(b"Warning: ")
        category = _CATEGORY.search(line, max(0, end - _NEAR), end)
        if category is not None and line[: category.start()].strip():
            return True
        at = line.find(b"Warning: ", end)
    return False


def is_cpp_warning(line: bytes) -> bool:
    """Whether the line begins as TORCH_WARN does (c10/util/Logging.cpp): ``[W manager.cpp:335] ``."""
    if not line.startswith(b"[W"):
        return False
    end = line.find(b"]")
    return line[end : end + 2] == b"] " and _CPP_PLACE.search(line, max(2, end - _NEAR), end) is not None


def stage_of(function: bytes | None) -> str | None:
    """ "compile" or "run"; None for torch 1.11, whose text does not say."""
    return STAGES.get(function) if function is not None else None
