"""Warnings of torch, and what a program says when it fails: the error of a traceback, the signal that ended
it.

Warnings have a Python and a C++ form: the fallback warning of every generation, and others.

A traceback gives its last line; the lines behind that one belong to it (an assert of torch over several
lines, the source that NVRTC did not take). An error without a traceback, as people paste it, counts where
it is one of a fuser.
"""

from __future__ import annotations

import re
from typing import Callable

from fusiondoc.parsers.facts import ErrorSeen, Facts
from fusiondoc.parsers.lines.error_texts import PROGRAM, read_error
from fusiondoc.parsers.work import Work

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


CRASH = re.compile(
    rb"Segmentation fault|Floating point exception|Illegal instruction|Bus error|Fatal Python error: |"
    rb"\(core dumped\)|^Aborted$|terminate called after throwing|interrupted by signal \d|"
    rb"exit code 13[24569]\b|[Ss]ignal \d{1,2} ?\(SIG|exitcode +: -\d|exit status -\d|<Signals\.SIG[A-Z]+: |"
    rb"Segfault encountered|\*\*\* SIG[A-Z]+ |Caught signal \d"
)
"""Of bash, Python's faulthandler and subprocess, PyCharm, torchrun, glog, UCX and libstdc++."""

_LOOSE = re.compile(rb"(?:> ?|E +|\[ERROR\] )?RuntimeError:(?: |$)")
"""An error without its traceback: quoted, of pytest, of a logger."""

_MOST = 100
"""Errors that are kept."""
_REST = 6
_REST_OF_NVRTC = 60
"""Lines that are kept behind an error: its kernel's name stands behind NNC's helper functions."""
_NEAR = 4
"""Lines further on, empty ones included, belong to nothing."""
_LOOKED_AT = 500
"""Bytes of a line that can tell of a crash."""

_INTERPRETER = "The following operation failed in the TorchScript interpreter"


def tells_of_a_crash(line: bytes) -> bool:
    return CRASH.search(line, 0, _LOOKED_AT) is not None


class LastWords:
    """Takes the lines of one stream that are the program's own, in order."""

    def __init__(self, facts: Facts, settle: Callable[[], None]) -> None:
        self._facts = facts
        self._settle = settle
        """Takes what is read but not noted yet."""
        self._traceback = False
        self._texts: list[bytes] = []
        """Of the error that may go on."""
        self._begun = 0
        self._last = 0
        self._loose = False
        self._work: Work | None = None

    def take(self, line: bytes, pos: int) -> bool:
        """A line; whether it tells of a failure."""
        if tells_of_a_crash(line):
            self._settle()
            self._facts.work.crashed(line.strip()[:200].decode("utf-8", "replace"), pos)
            return True
        if line.startswith(b"Traceback "):
            self._end()
            self._traceback = True
            return True
        if self._traceback and line.startswith(b"  "):
            return True
        if self._traceback and ERROR.match(line):
            self._traceback = False
            self._begin(line, pos, loose=False)
            return True
        if (loose := _LOOSE.match(line)) is not None:
            self._begin(line[loose.group().rfind(b"RuntimeError") :], pos, loose=True)
            return True
        return bool(self._texts) and self._goes_on(line, pos)

    def close(self) -> None:
        self._end()

    def _begin(self, line: bytes, pos: int, loose: bool) -> None:
        self._end()
        self._settle()
        self._work = self._facts.work.open()
        self._texts, self._begun, self._last, self._loose = [line], pos, pos, loose

    def _goes_on(self, line: bytes, pos: int) -> bool:
        first = self._texts[0]
        compiler = b"nvrtc" in first or b"default_program" in first
        if pos - self._last > _NEAR or len(self._texts) > (_REST_OF_NVRTC if compiler else _REST):
            self._end()
            return False
        self._texts.append(line[2:] if line.startswith(b"> ") else line)
        self._last = pos
        return True

    def _end(self) -> None:
        if not self._texts:
            return
        text = b"\n".join(self._texts).decode("utf-8", "replace")
        self._texts = []
        errors = self._facts.errors
        if self._loose:
            read = read_error(text)
            if read is None or read.kind == PROGRAM:
                return
        if errors and _INTERPRETER in errors[-1].text and self._begun - errors[-1].line < 200:
            errors.pop()  # it only introduces this one
        if _INTERPRETER not in text:
            self._facts.work.over = max(self._facts.work.over, self._begun)
        if len(errors) < _MOST:
            errors.append(ErrorSeen(text, self._begun, self._work))
