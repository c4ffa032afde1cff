"""What a failed run says: warnings of torch; and the first real error of a traceback, classified, out of what
is wrapped around it (``last_words.py`` finds the tracebacks, and the signal that ended a process).

Where the forms come from: torch/csrc/jit/codegen/cuda (third_party/nvfuser/csrc in 2.0 and 2.1), whose
asserts name a file there; executor_utils.cpp, which puts the whole CUDA source before ``CUDA NVRTC compile
error:``; NNC's cuda_codegen.cpp (torch/csrc/jit/tensorexpr), which puts the words of NVRTC first and the
source behind ``nvrtc compilation failed:``; the TorchScript interpreter, which puts its own traceback
before the error (interpreter.cpp); and nvFuser's parallel compilation, which prints ``Error from
segmentation group N:`` for each of its threads (Fuser#3497, #3176).

A traceback gives its last line; the lines behind that one belong to it (an assert of torch over several
lines, the source that NVRTC did not take). An error without a traceback, as people paste it, counts where
it is one of a fuser. Warnings have a Python and a C++ form: the fallback warning of every generation, and
others.
"""

from __future__ import annotations

import re

from fusiondoc.model import dataclass
from fusiondoc.model.source import last_name

CODEGEN = "codegen"
"""nvFuser's own code failed: lowering, scheduling, binding of inputs."""
KERNEL = "kernel"
"""The CUDA source that nvFuser or NNC made does not compile."""
DRIVER = "driver"
"""The CUDA driver refused a kernel, or it failed while it ran."""
OPTION = "option"
"""An unknown word in PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE."""
ARCHITECTURE = "architecture"
"""NVRTC does not know the GPU."""
NO_KERNEL = "no kernel"
"""This build of torch holds no kernel for the GPU."""
BUILTINS = "builtins"
"""A library that NVRTC needs was not found."""
OLD_DRIVER = "old driver"
"""The installed driver is older than the CUDA of this torch."""
PROGRAM = "program"
"""Any other error: the operators fail without fusion too."""

TOOLCHAIN = frozenset((ARCHITECTURE, NO_KERNEL, BUILTINS, OLD_DRIVER))
"""Kinds that say nothing about the fusion: the installation does not fit the GPU."""

OF_FUSER = frozenset((CODEGEN, KERNEL, OPTION))
"""Kinds that are faults of a fuser."""

IN_WORDS = {
    CODEGEN: "nvFuser's code generator failed",
    KERNEL: "the kernel that the fuser wrote does not compile",
    DRIVER: "the CUDA driver reports an error",
    OPTION: "nvFuser does not know an option",
    ARCHITECTURE: "NVRTC does not know this GPU",
    NO_KERNEL: "this torch holds no kernel for this GPU",
    BUILTINS: "a library of NVRTC is missing",
    OLD_DRIVER: "the driver is older than the CUDA of this torch",
    PROGRAM: "the operators themselves fail, without fusion too",
}

MOST = 400
"""Characters of an error that are kept."""


@dataclass(frozen=True)
class FuserError:
    """``where`` is the place in nvFuser's source (``executor_utils.cpp:621``), if the error names one."""

    kind: str
    text: str
    where: str | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text


_PATTERNS = (
    (OPTION, re.compile(r"(Invalid (?:debug dump|disable|enable) option: '[^']*'.*)")),
    (OPTION, re.compile(r"(Parsing PYTORCH_NVFUSER_\w+.*)")),
    (ARCHITECTURE, re.compile(r"((?:nvrtc: error: )?invalid value for --gpu-architecture.*)")),
    (ARCHITECTURE, re.compile(r"(ptxas fatal\s*: Value 'sm_\d+\w?' is not defined.*)")),
    (NO_KERNEL, re.compile(r"((?:CUDA error: )?no kernel image is available.*)")),
    (BUILTINS, re.compile(r"((?:nvrtc: error: )?failed to open \S*nvrtc-builtins.*)")),
    (BUILTINS, re.compile(r"(builtins for \S+ not found.*|NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.*)")),
    (OLD_DRIVER, re.compile(r"(CUDA driver version is insufficient.*|driver on your system is too old.*)")),
    (OLD_DRIVER, re.compile(r"(PTX was compiled with an unsupported toolchain.*)")),
    (KERNEL, re.compile(r"CUDA NVRTC compile error: *(.*)")),
    (KERNEL, re.compile(r"(default_program\(\d+\): error: .*)")),
    (KERNEL, re.compile(r"(nvrtc: error: .*)")),
    (DRIVER, re.compile(r"(CUDA driver error: .*|CUDA error: .*|NVRTC[ _]?(?:ERROR|unknown error).*)")),
)

_ASSERT_MARK = "INTERNAL ASSERT FAILED at "
_ASSERT = re.compile(
    r'"\[?(?P<file>[^"\]]+)(?:\]\([^"]*\))?":(?P<line>\d+)'
    r", please report a bug(?: to PyTorch\.| with repro script to NVFuser at \S+\.(?!\S)|\s*$) ?(?P<text>.*)"
)
"""After the mark; 1.11 has no space before it, some pages make a link of the file, and quotes end early."""

_WHOLE_LINE = ("builtins for", "driver on your system", "PTX was compiled")
"""What begins in the middle of its sentence: the error is the whole line."""


_NVFUSER_FILE = re.compile(r"codegen[/\\]+cuda[/\\]|[nN]v[fF]user[/\\]+csrc[/\\]|Fuser[/\\]+csrc[/\\]")
_NVFUSER_TEXT = re.compile(
    r"No output found for this kernel, aborting|Could not launch kernel as program could not infer"
    r"|Provided device to CUDA fuser is the CPU|legacy executor is not supported by nvfuser"
    r"|nvfuser only supports cuda device|Running (?:the )?CUDA fuser|Attempting to bind T\d+"
    r"|\bT\d+_[glr]\[|\bT\d+\.size\["
)
"""Errors without a place: checks of kernel_cache.cpp, manager.cpp and executor.cpp, and anything that names
nvFuser's own tensors (``T0_g[...]``)."""

_WRAPPER_TEXT = re.compile(
    r"Detected exception while compiling fusion segments|Error messages? from all threads"
)
_BROKEN = re.compile(r"(\S) {0,9}\n(INTERNAL ASSERT FAILED at )|(?<=report a bug to PyTorch\.) {0,9}\n()()")
"""Where pages break an assert into lines."""
INTERPRETER = "The following operation failed in the TorchScript interpreter"
_SEGMENT = re.compile(r"Error from segmentation group \d+: *")
_SOURCE = re.compile(r"\s*(?:$|namespace CudaCodeGen|#define |#pragma |#include |typedef |__global__ |//)")
_PYTHON = re.compile(r"[>\s]*(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception))(?:: ?(.*))?$")


def read_error(text: str) -> FuserError | None:
    """The first real error in the message of an exception, a traceback or the end of a log; None if there is
    none. Later errors follow from the first (csarofeen/pytorch#1319).

    Unwrapped are the interpreter's own traceback, the assert of a parallel compilation around the errors of
    its threads, and the CUDA source in front of what NVRTC says about it.
    """
    wrapper: FuserError | None = None
    lines = _BROKEN.sub(r"\1 \2", text).split("\n")
    for number, line in enumerate(lines):
        found = _error(line)
        if found is None:
            continue
        error, wraps = found
        if not error.text and number + 1 < len(lines):
            error = FuserError(error.kind, lines[number + 1].strip()[:MOST], error.where)
        if not wraps:
            return error
        wrapper = wrapper or error
    return wrapper if wrapper is not None and wrapper.text else None


_SCRIPTED = re.compile(r'^ {2}File "([^"\n]{1,1000})", line (\d{1,9})', re.MULTILINE)
"""Frames of a scripted function, the innermost last (torch/csrc/jit/frontend/source_range.cpp, 1.12 to
2.13)."""
_TRACED = re.compile(r"^([^\s(][^(\n]{0,1000})\((\d{1,9})\): ", re.MULTILINE)
"""Frames of a traced one, as Python's stack was then, the innermost first (torch/csrc/jit/python/
python_tracer.cpp)."""


def failing_line(message: str) -> str | None:
    """``file:line`` of the operator that raised the error in TorchScript's interpreter; None where the
    message has no such traceback."""
    scripted = _SCRIPTED.findall(message)
    if scripted:
        file, line = scripted[-1]
        return f"{file}:{line}"
    traced = _TRACED.search(message)
    return f"{traced[1]}:{traced[2]}" if traced is not None else None


def of_stand_alone(text: str) -> bool:
    """Whether the stand-alone nvFuser wrote it, whose errors name its repository (``nvfCheckFail`` in
    NVIDIA/Fuser's csrc/exceptions.cpp); those of the nvFuser in torch ask to report to PyTorch."""
    return "github.com/NVIDIA/Fuser" in text


def is_of_fuser(text: str) -> bool:
    """Whether the first real error of a message is a fuser's own, or one of the installation under it."""
    error = read_error(text)
    return error is not None and error.kind in OF_FUSER


def fuser_error(text: str) -> FuserError | None:
    """As ``read_error``, of a whole log: errors of the program are passed over."""
    for line in text.split("\n"):
        found = _error(line)
        if found is not None and not found[1] and found[0].kind != PROGRAM:
            return found[0]
    return None


def _error(line: str) -> tuple[FuserError, bool] | None:
    """The error of one line, and whether a later line must say what it is."""
    if INTERPRETER in line:
        return None
    for kind, pattern in _PATTERNS:
        match = pattern.search(line)
        if match is not None:
            text = match.group(1)
            text = line if text.startswith(_WHOLE_LINE) else text
            return FuserError(kind, text.strip().rstrip("`")[:MOST]), False
    line = _SEGMENT.sub("", line)
    python = _PYTHON.match(line)
    message = (python.group(2) or "") if python else line
    match = _assert(message)
    if match is not None:
        return _failed_assert(match, message)
    return _python_error(python, message, line) if python is not None else None


def _failed_assert(match: re.Match[str], message: str) -> tuple[FuserError, bool]:
    """The error of an internal assert of torch, as ``_error`` returns it."""
    text = match.group("text").strip()
    condition = message[: match.start() - len(_ASSERT_MARK)].strip()
    kind = CODEGEN if _NVFUSER_FILE.search(match.group("file")) else PROGRAM
    where = last_name(match.group("file")) + ":" + match.group("line")
    wraps = bool(_WRAPPER_TEXT.search(text)) or text.startswith("namespace CudaCodeGen")
    return FuserError(kind, (_vectorised(text) or text or condition)[:MOST], where), wraps


def _python_error(python: re.Match[str], message: str, line: str) -> tuple[FuserError, bool]:
    """The error of the last line of a traceback, as ``_error`` returns it."""
    if _NVFUSER_TEXT.search(message):
        return FuserError(CODEGEN, message.strip()[:MOST]), False
    if _SOURCE.match(message) and "RuntimeError" in line:
        return FuserError(PROGRAM, ""), True
    return FuserError(PROGRAM, f"{python.group(1)}: {message}".rstrip(": ")[:MOST]), False


def _vectorised(text: str) -> str | None:
    """The assert on strides that are no multiple of the vector's width (executor_utils.cpp,
    validateAlignedVectorizedTensors), without the domain of the whole tensor in between; None if it is
    another one."""
    name, found, rest = text.partition("[")
    _, width, reason = rest.rpartition("] with word size ")
    if not (found and width and name.startswith("Vectorization of ")):
        return None
    return f"{name} with word size {reason}"


def _assert(text: str) -> re.Match[str] | None:
    """The first whole internal assert of a line, from its file on."""
    at = text.find(_ASSERT_MARK)
    while at >= 0:
        at += len(_ASSERT_MARK)
        match = _ASSERT.match(text, at)
        if match is not None:
            return match
        at = text.find(_ASSERT_MARK, at)
    return None


FALLBACK = re.compile(rb"FALLBACK path has been taken(?: inside: (?:[\w:]*::)?(\w+))?")
"""Generations: 1.11 names no function; 1.12 to 2.1 ``compileCudaFusionGroup`` or ``runCudaFusionGroup``, on
Windows with its namespace (torch/csrc/jit/codegen/cuda/manager.cpp, third_party/nvfuser/csrc/manager.cpp)."""

_CATEGORY = re.compile(rb":\d{1,9}: (?:\w+\.)*\w*Warning: $")
_CPP_PLACE = re.compile(rb"[\w.+-]+:\d{1,9}$")
_HEAD = 500
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

FUSER_GONE = b"nvfuser is no longer supported in torch script"

OPTIONS_SET = re.compile(rb"\bPYTORCH_NVFUSER_(?:DUMP|ENABLE|DISABLE)=(?!fallback\b)\w")
"""A shell that prints its commands, or a printed environment; torch's own advice is to set it to fallback."""

STAGES = {b"compileCudaFusionGroup": "compile", b"runCudaFusionGroup": "run"}


def is_python_warning(line: bytes) -> bool:
    """Whether the line has ``file.py:31: UserWarning: `` in it, as the module warnings prints it."""
    at = line.find(b"Warning: ")
    while at >= 0:
        end = at + len(b"Warning: ")
        category = _CATEGORY.search(line, max(0, end - _HEAD), end)
        if category is not None and line[: category.start()].strip():
            return True
        at = line.find(b"Warning: ", end)
    return False


def is_cpp_warning(line: bytes) -> bool:
    """Whether the line begins as TORCH_WARN does (c10/util/Logging.cpp): ``[W manager.cpp:335] ``."""
    if not line.startswith(b"[W"):
        return False
    end = line.find(b"]")
    return line[end : end + 2] == b"] " and _CPP_PLACE.search(line, max(2, end - _HEAD), end) is not None


def stage_of(function: bytes | None) -> str | None:
    """ "compile" or "run"; None for torch 1.11, whose text does not say."""
    return STAGES.get(function) if function is not None else None
