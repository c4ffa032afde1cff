"""The first real error of a failed run, classified, out of what is wrapped around
it (``failures.py`` finds the tracebacks, and the signal that ended a process).

Here are the forms of CUDA's toolchain, of torch's asserts, of Python, and of the
TorchScript interpreter, which puts its own traceback before the error
(interpreter.cpp); those of a fuser's own code are its ``FuserErrors``
(fusers/fuser_errors.py).

A traceback gives its last line; the lines behind that one belong to it (an assert
of torch over several lines, the source that NVRTC did not take). An error without a
traceback, as people paste it, counts where it is one of a fuser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from re import Pattern
from typing import NamedTuple

from fusiondoc.fusers import FUSERS, titles
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_errors import (
    ARCHITECTURE,
    BUILTINS,
    CODEGEN,
    DRIVER,
    KERNEL,
    NO_KERNEL,
    OF_FUSER,
    OLD_DRIVER,
    OPTION,
    PROGRAM,
)
from fusiondoc.model import dataclass
from fusiondoc.model.source import last_name
from fusiondoc.numbers import whole_numbers

_IN_WORDS = {
    CODEGEN: "{fuser}'s code generator failed",
    KERNEL: "the kernel that the fuser wrote does not compile",
    DRIVER: "the CUDA driver reports an error",
    OPTION: "{fuser} does not know an option",
    ARCHITECTURE: "NVRTC does not know this GPU",
    NO_KERNEL: "this torch holds no kernel for this GPU",
    BUILTINS: "a library of NVRTC is missing",
    OLD_DRIVER: "the driver is older than the CUDA of this torch",
    PROGRAM: "the operators themselves fail, without fusion too",
}


def in_words(kind: str) -> str | None:
    """What failed, by the kind of the error; None for a kind that is not known."""
    text = _IN_WORDS.get(kind)
    return (
        None
        if text is None
        else text.format(fuser=titles(lambda fuser: kind in fuser.errors.kinds))
    )


MOST = 400
"""Characters of an error that are kept."""


@dataclass(frozen=True)
class FuserError:
    """An error of the fuser, of the installation under it or of the program."""

    kind: str
    text: str
    where: str | None = None
    """The position in the source of the fuser (``executor_utils.cpp:621``), if the
    error names one."""
    fuser: str | None = None
    """The fuser whose own code, kernel or variable failed; None for other kinds of
    errors."""

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text

    @property
    def cause(self) -> str | None:
        """The cause that the error states, where what to do depends on it
        (``FuserErrors.causes``)."""
        return cause_of(self.text)


def cause_of(text: str) -> str | None:
    """The cause that the text of an error states, where what to do depends on it
    (``FuserErrors.causes``)."""
    for fuser in FUSERS.values():
        for words, cause in fuser.errors.causes.items():
            if words in text:
                return cause
    return None


_TOOLCHAIN_FORMS = (
    (
        ARCHITECTURE,
        re.compile(r"((?:nvrtc: error: )?invalid value for --gpu-architecture.*)"),
    ),
    (
        ARCHITECTURE,
        re.compile(r"(ptxas fatal\s*: Value 'sm_\d+\w?' is not defined.*)"),
    ),
    (NO_KERNEL, re.compile(r"((?:CUDA error: )?no kernel image is available.*)")),
    (
        BUILTINS,
        re.compile(r"((?:nvrtc: error: )?failed to open \S*nvrtc-builtins.*)"),
    ),
    (
        BUILTINS,
        re.compile(
            r"(builtins for \S+ not found.*|NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.*)"
        ),
    ),
    (
        OLD_DRIVER,
        re.compile(
            r"(CUDA driver version is insufficient.*|driver on your system is too old.*)"
        ),
    ),
    (OLD_DRIVER, re.compile(r"(PTX was compiled with an unsupported toolchain.*)")),
)
_DRIVER_FORM = re.compile(
    r"(CUDA driver error: .*|CUDA error: .*|NVRTC[ _]?(?:ERROR|unknown error).*)"
)

_Form = tuple[str, "Pattern[str]", "str | None"]
"""Kind, form, and the name of the fuser that alone writes it."""


def _of_fusers(kind: str) -> Iterator[_Form]:
    for fuser in FUSERS.values():
        for of_kind, pattern in fuser.errors.forms:
            if of_kind == kind:
                yield kind, pattern, fuser.name


_FORMS: tuple[_Form, ...] = (
    *_of_fusers(OPTION),
    *((kind, pattern, None) for kind, pattern in _TOOLCHAIN_FORMS),
    *_of_fusers(KERNEL),
    (DRIVER, _DRIVER_FORM, None),
)
"""In the order in which they are tried: that NVRTC does not know the GPU is no
fault of the fuser."""

_ASSERT_MARK = "INTERNAL ASSERT FAILED at "
_ASSERT = re.compile(
    r'"\[?(?P<file>[^"\]]+)(?:\]\([^"]*\))?":(?P<line>\d+)'
    r", please report a bug(?: to PyTorch\.| with repro script to \w+ at \S+\.(?!\S)|\s*$) ?(?P<text>.*)"
)
"""After the mark; 1.11 has no space before it, some pages make a link of the file,
and quotes end early."""

_WHOLE_LINE = ("builtins for", "driver on your system", "PTX was compiled")
"""What begins in the middle of its sentence: the error is the whole line."""

_BROKEN = re.compile(
    r"(\S) {0,9}\n(INTERNAL ASSERT FAILED at )|(?<=report a bug to PyTorch\.) {0,9}\n()()"
)
"""Where pages break an assert into lines."""
INTERPRETER = "The following operation failed in the TorchScript interpreter"
_SEGMENT = re.compile(r"Error from segmentation group \d+: *")
_SOURCE = re.compile(
    r"\s*(?:$|namespace CudaCodeGen|#define |#pragma |#include |typedef |__global__ |//)"
)
_PYTHON = re.compile(
    r"[>\s]*(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception))(?:: ?(.*))?$"
)


def read_error(text: str) -> FuserError | None:
    """The first real error in the message of an exception, a traceback or the end
    of a log; None if there is none. Later errors follow from the first
    (csarofeen/pytorch#1319).

    Unwrapped are the interpreter's own traceback, the assert of a parallel
    compilation around the errors of its threads, and the CUDA source in front of
    what NVRTC says about it.
    """
    wrapper: FuserError | None = None
    lines = _BROKEN.sub(r"\1 \2", text).split("\n")
    for number, line in enumerate(lines):
        found = _error(line)
        if found is None:
            continue
        error, wraps = found
        if not error.text and number + 1 < len(lines):
            error = replace(error, text=lines[number + 1].strip()[:MOST])
        if not wraps:
            return error
        wrapper = wrapper or error
    return wrapper if wrapper is not None and wrapper.text else None


_SCRIPTED = re.compile(
    r'^ {2}File "([^"\n]{1,1000})", line (\d{1,9})', re.MULTILINE
)
"""Frames of a scripted function, the innermost last
(torch/csrc/jit/frontend/source_range.cpp, 1.12 to 2.13)."""
_TRACED = re.compile(r"^([^\s(][^(\n]{0,1000})\((\d{1,9})\): ", re.MULTILINE)
"""Frames of a traced one, as Python's stack was then, the innermost first
(torch/csrc/jit/python/ python_tracer.cpp)."""


_CHANGES_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
"""Of autograd (torch/csrc/autograd/VariableTypeUtils.h); in TorchScript the result
of a differentiable graph is one while gradients are recorded."""
_CHANGED_RESULT = re.compile(
    r"which is output \d{1,6} of torch::jit::.{0,60}DifferentiableGraph, is at version"
)
"""Of autograd's saved_variable.cpp: what a differentiable graph keeps for its
gradient was changed."""


class ChangedResult(NamedTuple):
    """An error that an operator in place makes which changes the result of a
    differentiable graph."""

    lines: Sequence[str]
    """``file:line`` of the frames of TorchScript at the operator, the innermost
    first; none where the backward pass found it."""


def changed_result(message: str) -> ChangedResult | None:
    """The error of an operator in place behind a differentiable graph; None of any
    other."""
    frames = [
        f"{file}:{line}" for file, line in reversed(_SCRIPTED.findall(message))
    ]
    if _CHANGES_LEAF in message and frames:
        return ChangedResult(frames)
    return (
        ChangedResult(()) if _CHANGED_RESULT.search(message) is not None else None
    )


def failing_line(message: str) -> str | None:
    """``file:line`` of the operator that raised the error in TorchScript's
    interpreter; None where the message has no such traceback."""
    scripted = _SCRIPTED.findall(message)
    if scripted:
        file, line = scripted[-1]
        return f"{file}:{line}"
    traced = _TRACED.search(message)
    return f"{traced[1]}:{traced[2]}" if traced is not None else None


def of_stand_alone(text: str) -> bool:
    """Whether a package of a fuser that stands alone wrote it, instead of torch."""
    marks = (fuser.errors.stand_alone for fuser in FUSERS.values())
    return any(mark is not None and mark in text for mark in marks)


def is_of_fuser(text: str) -> bool:
    """Whether the first real error of a message is a fuser's own, or one of the
    installation under it."""
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
    for kind, pattern, fuser in _FORMS:
        match = pattern.search(line)
        if match is not None:
            text = match.group(1)
            text = line if text.startswith(_WHOLE_LINE) else text
            return FuserError(
                kind, text.strip().rstrip("`")[:MOST], fuser=fuser
            ), False
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
    where = last_name(match.group("file")) + ":" + match.group("line")
    fuser = _fuser_of_file(match.group("file"))
    wraps = any(_wraps(fuser, text) for fuser in FUSERS.values())
    shown = (_vectorised(text) or text or condition)[:MOST]
    if fuser is None:
        return FuserError(PROGRAM, shown, where), wraps
    return FuserError(CODEGEN, shown, where, fuser), wraps


def _fuser_of_file(file: str) -> str | None:
    """The fuser whose source file an assert names."""
    for fuser in FUSERS.values():
        if fuser.errors.files is not None and fuser.errors.files.search(file):
            return fuser.name
    return None


def _wraps(fuser: Fuser, text: str) -> bool:
    """Whether an assert of a fuser only says that the errors of its threads, or its
    source, follow."""
    errors = fuser.errors
    if errors.wrappers is not None and errors.wrappers.search(text):
        return True
    return errors.source is not None and text.startswith(errors.source)


def _fuser_of_text(message: str) -> str | None:
    """The fuser whose code wrote an error that names no file."""
    for fuser in FUSERS.values():
        if fuser.errors.texts is not None and fuser.errors.texts.search(message):
            return fuser.name
    return None


def _python_error(
    python: re.Match[str], message: str, line: str
) -> tuple[FuserError, bool]:
    """The error of the last line of a traceback, as ``_error`` returns it."""
    fuser = _fuser_of_text(message)
    if fuser is not None:
        return FuserError(CODEGEN, message.strip()[:MOST], fuser=fuser), False
    if _SOURCE.match(message) and "RuntimeError" in line:
        return FuserError(PROGRAM, ""), True
    return FuserError(
        PROGRAM, f"{python.group(1)}: {message}".rstrip(": ")[:MOST]
    ), False


def _vectorised(text: str) -> str | None:
    """The assert on strides that are no multiple of the vector's width
    (executor_utils.cpp, validateAlignedVectorizedTensors), without the domain of
    the whole tensor in between; None if it is another one."""
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


_OF_GRADIENT = re.compile(
    r"DifferentiableGraphBackward returned an invalid gradient at index \d+ - got \[([\d, ]*)\] but expected"
    r" shape compatible with \[([\d, ]*)\]"
)
"""torch/csrc/autograd/engine.cpp, validate_outputs."""


class InvalidGradient(NamedTuple):
    """A gradient of a differentiable graph that autograd refused."""

    got: tuple[int, ...]
    """Its sizes."""
    expected: tuple[int, ...]


def invalid_gradient(text: str) -> InvalidGradient | None:
    """The gradient that an error refuses; None for another error."""
    found = _OF_GRADIENT.search(text)
    return (
        None
        if found is None
        else InvalidGradient(_sizes(found.group(1)), _sizes(found.group(2)))
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(whole_numbers(size.strip() for size in text.split(",")))


_LOST_A_RANK = re.compile(
    r"gloo/transport/|ncclRemoteError|remote process exited|Watchdog caught collective operation timeout"
    r"|Connection was likely closed\. Did the remote server shutdown or crash\?"
)
"""How the other ranks end when one of them died: of gloo, of NCCL
(torch/csrc/distributed/c10d/NCCLUtils.cpp, ProcessGroupNCCL.cpp) and of the store
(TCPStore.cpp)."""


def is_lost_rank(text: str) -> bool:
    """Whether an error only says that another rank was lost."""
    return _LOST_A_RANK.search(text) is not None
