"""Finds and classifies the first real error of a failed run within the text wrapped
around it (``failures.py`` finds the tracebacks, and the signal that ended a
process).

This module has the forms of CUDA's toolchain, of torch's asserts, of Python, and of
the TorchScript interpreter, which prints its own traceback before the error
(interpreter.cpp); the forms of a fuser's own code are in its ``FuserErrors``
(fusers/fuser_errors.py).

The error of a traceback is its last line; the lines after it belong to the error
(an assert of torch over several lines, the source that NVRTC refused). An error
without a traceback, as people paste it, counts only if it is a fuser's.
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
    """Return a sentence for the kind of an error; None for an unknown kind."""
    text = _IN_WORDS.get(kind)
    if text is None:
        return None
    return text.format(fuser=titles(lambda fuser: kind in fuser.errors.kinds))


MOST = 400
"""Number of characters of an error that are kept."""


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
        if self.where:
            return f"{self.text} ({self.where})"
        return self.text

    @property
    def cause(self) -> str | None:
        """The cause that the error states, for errors whose remedy depends on it
        (``FuserErrors.causes``)."""
        return cause_of(self.text)


def cause_of(text: str) -> str | None:
    """Return the cause that the text of an error states, for errors whose remedy
    depends on it (``FuserErrors.causes``); else None."""
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
"""Kind, pattern, and the name of the fuser if only that fuser writes this form."""


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
"""In the order in which they are tried: if NVRTC does not know the GPU, that is not
the fuser's fault."""

_ASSERT_MARK = "INTERNAL ASSERT FAILED at "
_ASSERT = re.compile(
    r'"\[?(?P<file>[^"\]]+)(?:\]\([^"]*\))?":(?P<line>\d+)'
    r", please report a bug(?: to PyTorch\.| with repro script to \w+ at \S+\.(?!\S)|\s*$) ?(?P<text>.*)"
)
"""The text after the mark. 1.11 has no space before it, some pages make a link of
the file, and quotes end early."""

_WHOLE_LINE = ("builtins for", "driver on your system", "PTX was compiled")
"""Beginnings of matches that start in the middle of a sentence: the error is then
the whole line."""

_BROKEN = re.compile(
    r"(\S) {0,9}\n(INTERNAL ASSERT FAILED at )|(?<=report a bug to PyTorch\.) {0,9}\n()()"
)
"""The positions where pages break an assert into lines."""
INTERPRETER = "The following operation failed in the TorchScript interpreter"
_SEGMENT = re.compile(r"Error from segmentation group \d+: *")
_SOURCE = re.compile(
    r"\s*(?:$|namespace CudaCodeGen|#define |#pragma |#include |typedef |__global__ |//)"
)
_PYTHON = re.compile(
    r"[>\s]*(?:[A-Za-z_]\w*\.)*([A-Z]\w*(?:Error|Exception))(?:: ?(.*))?$"
)


def read_error(text: str) -> FuserError | None:
    """Return the first real error in the message of an exception, a traceback or
    the end of a log; None if there is none. Later errors follow from the first
    (csarofeen/pytorch#1319).

    Three wrappers are removed: the interpreter's own traceback, the assert of a
    parallel compilation around the errors of its threads, and the CUDA source
    before NVRTC's message about it.
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
    if wrapper is not None and wrapper.text:
        return wrapper
    return None


_SCRIPTED = re.compile(
    r'^ {2}File "([^"\n]{1,1000})", line (\d{1,9})', re.MULTILINE
)
"""Frames of a scripted function, innermost last
(torch/csrc/jit/frontend/source_range.cpp, 1.12 to 2.13)."""
_TRACED = re.compile(r"^([^\s(][^(\n]{0,1000})\((\d{1,9})\): ", re.MULTILINE)
"""Frames of a traced function: Python's stack during tracing, innermost first
(torch/csrc/jit/python/python_tracer.cpp)."""


_CHANGES_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"
"""An error of autograd (torch/csrc/autograd/VariableTypeUtils.h). In TorchScript
the result of a differentiable graph is such a view while gradients are recorded."""
_CHANGED_RESULT = re.compile(
    r"which is output \d{1,6} of torch::jit::.{0,60}DifferentiableGraph, is at version"
)
"""An error of autograd's saved_variable.cpp: a value that a differentiable graph
keeps for its gradient was changed."""


class ChangedResult(NamedTuple):
    """An error caused by an in-place operator that changes the result of a
    differentiable graph."""

    lines: Sequence[str]
    """``file:line`` of TorchScript's frames at the operator, innermost first; empty
    if the backward pass found the error."""


def changed_result(message: str) -> ChangedResult | None:
    """Return the error of an in-place operator after a differentiable graph; None
    for other errors."""
    frames = [
        f"{file}:{line}" for file, line in reversed(_SCRIPTED.findall(message))
    ]
    if _CHANGES_LEAF in message and frames:
        return ChangedResult(frames)
    if _CHANGED_RESULT.search(message) is None:
        return None
    return ChangedResult(())


def failing_line(message: str) -> str | None:
    """Return ``file:line`` of the operator that raised the error in TorchScript's
    interpreter; None if the message has no such traceback."""
    scripted = _SCRIPTED.findall(message)
    if scripted:
        file, line = scripted[-1]
        return f"{file}:{line}"
    traced = _TRACED.search(message)
    if traced is None:
        return None
    return f"{traced[1]}:{traced[2]}"


def of_stand_alone(text: str) -> bool:
    """True if a stand-alone package of a fuser wrote the text, not torch."""
    marks = (fuser.errors.stand_alone for fuser in FUSERS.values())
    return any(mark is not None and mark in text for mark in marks)


def is_of_fuser(text: str) -> bool:
    """True if the first real error of a message comes from a fuser, or from the
    installation that it needs."""
    error = read_error(text)
    return error is not None and error.kind in OF_FUSER


def fuser_error(text: str) -> FuserError | None:
    """The same as ``read_error`` for a whole log: errors of the program are
    skipped."""
    for line in text.split("\n"):
        found = _error(line)
        if found is not None and not found[1] and found[0].kind != PROGRAM:
            return found[0]
    return None


def _error(line: str) -> tuple[FuserError, bool] | None:
    """Return the error of one line, and True if it only wraps an error on a later
    line; None without an error."""
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
    if python is None:
        return None
    return _python_error(python, message, line)


def _failed_assert(match: re.Match[str], message: str) -> tuple[FuserError, bool]:
    """Return the error of an internal assert of torch, in the form of
    ``_error``."""
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
    """Return the fuser whose source file an assert names; None for other files."""
    for fuser in FUSERS.values():
        if fuser.errors.files is not None and fuser.errors.files.search(file):
            return fuser.name
    return None


def _wraps(fuser: Fuser, text: str) -> bool:
    """True if an assert of a fuser only announces the errors of its threads, or its
    source."""
    errors = fuser.errors
    if errors.wrappers is not None and errors.wrappers.search(text):
        return True
    return errors.source is not None and text.startswith(errors.source)


def _fuser_of_text(message: str) -> str | None:
    """Return the fuser whose code wrote an error that names no file; None for other
    errors."""
    for fuser in FUSERS.values():
        if fuser.errors.texts is not None and fuser.errors.texts.search(message):
            return fuser.name
    return None


def _python_error(
    python: re.Match[str], message: str, line: str
) -> tuple[FuserError, bool]:
    """Return the error of the last line of a traceback, in the form of
    ``_error``."""
    fuser = _fuser_of_text(message)
    if fuser is not None:
        return FuserError(CODEGEN, message.strip()[:MOST], fuser=fuser), False
    if _SOURCE.match(message) and "RuntimeError" in line:
        return FuserError(PROGRAM, ""), True
    return FuserError(
        PROGRAM, f"{python.group(1)}: {message}".rstrip(": ")[:MOST]
    ), False


def _vectorised(text: str) -> str | None:
    """Return the assert on strides that are not a multiple of the vector width
    (executor_utils.cpp, validateAlignedVectorizedTensors), without the domain of
    the tensor inside it; None for another assert."""
    name, found, rest = text.partition("[")
    _, width, reason = rest.rpartition("] with word size ")
    if not (found and width and name.startswith("Vectorization of ")):
        return None
    return f"{name} with word size {reason}"


def _assert(text: str) -> re.Match[str] | None:
    """Return the first complete internal assert of a line, from its file on; None
    without one."""
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
"""The error of validate_outputs in torch/csrc/autograd/engine.cpp."""


class InvalidGradient(NamedTuple):
    """A gradient of a differentiable graph that autograd refused: its sizes, and
    the sizes that were expected."""

    got: tuple[int, ...]
    """The sizes of the gradient."""
    expected: tuple[int, ...]


def invalid_gradient(text: str) -> InvalidGradient | None:
    """Return the gradient that an error refuses; None for another error."""
    found = _OF_GRADIENT.search(text)
    if found is None:
        return None
    return InvalidGradient(_sizes(found.group(1)), _sizes(found.group(2)))


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(whole_numbers(size.strip() for size in text.split(",")))


_LOST_A_RANK = re.compile(
    r"gloo/transport/|ncclRemoteError|remote process exited|Watchdog caught collective operation timeout"
    r"|Connection was likely closed\. Did the remote server shutdown or crash\?"
)
"""Errors of the other ranks after one rank died: from gloo, NCCL
(torch/csrc/distributed/c10d/NCCLUtils.cpp, ProcessGroupNCCL.cpp) and the store
(TCPStore.cpp)."""


def is_lost_rank(text: str) -> bool:
    """True if an error only reports that another rank was lost."""
    return _LOST_A_RANK.search(text) is not None
