"""Warnings of torch, from Python and from C++: the fallback warning of all
versions, and others."""

from __future__ import annotations

import re

from fusiondoc.fusers import FUSERS

_FALLBACKS = tuple(
    fuser.log.fallbacks
    for fuser in FUSERS.values()
    if fuser.log.fallbacks is not None
)

FALLBACK = re.compile(b"|".join(fallbacks.form.pattern for fallbacks in _FALLBACKS))
"""The first group that matched is the function that failed, if the version names
it."""
_STAGES = {
    function: stage
    for fallbacks in _FALLBACKS
    for function, stage in fallbacks.stages.items()
}

_CATEGORY = re.compile(rb":\d{1,9}: (?:\w+\.)*\w*Warning: $")
_CPP_SOURCE = re.compile(rb"[\w.+-]+:\d{1,9}$")
_HEAD = 500
"""Number of bytes that are searched before a mark: a path with its line, a
category. Keeps the time for long lines linear."""

CONTINUES = re.compile(
    rb"To debug try disable codegen fallback path|To report the issue, try enable logging"
    rb"| ?\(Triggered internally at "
    rb"| \(function \w|via setting the env| does not have profile information"
)
"""Lines that follow the first line of a torch warning."""

_OF_TORCH = (
    rb"does not have profile information|is deprecated and a no-op|profile_node "
    rb"|bailout depth is deprecated|fmad is disabled for nvrtc"
    rb"|is required to be tensor for linear decompose|are required to decompose|is required to decompose"
    rb"|`torch\.jit\.\w+` is (?:not supported|deprecated)|torch\.jit\.\w+ is deprecated"
)
KNOWN = re.compile(
    b"|".join(
        [
            _OF_TORCH,
            *(
                re.escape(text)
                for fuser in FUSERS.values()
                for text in fuser.log.warnings
            ),
        ]
    )
)
"""Warnings about fusion. A program's own warnings are its output."""

_GONE = tuple(
    fuser.log.gone for fuser in FUSERS.values() if fuser.log.gone is not None
)
_OPTIONS_SET = tuple(
    fuser.log.options_set
    for fuser in FUSERS.values()
    if fuser.log.options_set is not None
)
_LONGEST = 2000
"""Number of bytes of a line that are searched for a printed variable."""


def is_fuser_gone(line: bytes) -> bool:
    """True if a warning states that this torch no longer has a fuser."""
    return any(text in line for text in _GONE)


def are_options_set(line: bytes) -> bool:
    """True if a line shows that the user set a variable of a fuser."""
    return any(form.search(line, 0, _LONGEST) is not None for form in _OPTIONS_SET)


def is_python_warning(line: bytes) -> bool:
    """True if the line contains ``file.py:31: UserWarning: ``, as Python's module
    warnings prints it."""
    at = line.find(b"Warning: ")
    while at >= 0:
        end = at + len(b"Warning: ")
        category = _CATEGORY.search(line, max(0, end - _HEAD), end)
        if category is not None and line[: category.start()].strip():
            return True
        at = line.find(b"Warning: ", end)
    return False


def is_cpp_warning(line: bytes) -> bool:
    """True if the line begins as TORCH_WARN does (c10/util/Logging.cpp): ``[W
    manager.cpp:335] ``."""
    if not line.startswith(b"[W"):
        return False
    end = line.find(b"]")
    return (
        line[end : end + 2] == b"] "
        and _CPP_SOURCE.search(line, max(2, end - _HEAD), end) is not None
    )


def stage_of(function: bytes | None) -> str | None:
    """Return "compile" or "run"; None for torch 1.11, whose text does not state
    it."""
    if function is None:
        return None
    return _STAGES.get(function)
