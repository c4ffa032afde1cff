"""The errors that a user can act on, each with its exit status. ``cli.main`` alone
prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile

FINDINGS_FOUND = 1
"""Exit status: ``--fail-on`` was reached or an expectation is broken."""
WRONG_USAGE = 2
MODEL_FAILED = 3
CANNOT_RUN = 4
OWN_FAULT = 70
"""A fault of fusiondoc's own (EX_SOFTWARE of sysexits.h): never 1, which CI reads
as findings."""
INTERRUPTED = 130


class FusiondocError(Exception):
    """A failure that a user can act on.

    Attributes:
        message: what failed, and below it the output of the program, if any.
        hint: the next step.
    """

    exit_code = WRONG_USAGE

    def __init__(
        self, message: str, hint: str | None = None, output: str = ""
    ) -> None:
        """``output``: the user's program's traceback, or its last lines of
        output."""
        self.message = f"{message}\n{output}" if output else message
        super().__init__(self.message)
        self.hint = hint
        self.in_one_line = (_line_of_failure(output) or message.partition("\n")[0])[
            :200
        ]
        """The failure: the line of the output that states it, else the first line
        of the message."""


def _line_of_failure(output: str) -> str | None:
    """The line of a program's output that states the failure: in a traceback that
    of the compiler's error, else that of the exception; without a traceback the
    last line. None for an empty output."""
    lines = []
    for line in output.split("\n"):
        if line.strip():
            lines.append(line.rstrip())
    exception_lines = _of_exception(lines)
    compiler = (line for line in exception_lines if _OF_COMPILER.search(line))
    if exception_lines:
        return next(compiler, exception_lines[0]).strip()
    if lines:
        return lines[-1].strip()
    return None


_TRACEBACK = re.compile(
    r"Traceback (?:of TorchScript.*)?\(most recent call last\):"
)
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)(?:: |$)")
_FRAME = "<--- HERE"
"""TorchScript's marker of the failing position in the source lines of a frame."""
_TRACED_FRAME = re.compile(r"\S.{0,1000}\(\d+\): \S+\Z")
"""A frame of a traced function: Python's stack at that time, ``model.py(390):
forward``."""
_OF_COMPILER = re.compile(r"\(\d+\): error: |\bnvrtc: error: ")
"""The compiler's error line of a kernel that NVRTC rejects. The kernel source is
before or after it, depending on the fuser's message."""


def _of_exception(lines: Sequence[str]) -> Sequence[str]:
    """The lines of the exception's own text: those after the last traceback, or all
    if no line of the user's code is involved. Empty for an output without an
    exception."""
    heads = []
    for number, line in enumerate(lines):
        if _TRACEBACK.match(line):
            heads.append(number)
    if not heads:
        if lines and _EXCEPTION.match(lines[0]):
            return lines
        return []
    below = list(dropwhile(_TRACED_FRAME.match, lines[heads[-1] + 1 :]))
    marks = []
    for number, line in enumerate(below):
        if line.endswith(_FRAME):
            marks.append(number)
    return list(
        dropwhile(
            lambda line: line[0].isspace(),
            below[marks[-1] + 1 :] if marks else below,
        )
    )


class UsageError(FusiondocError):
    """An unknown file, option, knob or dump name, or input that cannot be read
    (status 2)."""


class NotFound(UsageError):
    """An argument names nothing that exists: no log, file or capture.

    Args: explained: the hint names a meaning of this very argument, not only the
        kinds of arguments allowed.
    """

    def __init__(
        self, message: str, hint: str | None = None, explained: bool = False
    ) -> None:
        super().__init__(message, hint)
        self.explained = explained


class ModelFailed(FusiondocError):
    """The user's own program failed; its traceback is in the message (status 3)."""

    exit_code = MODEL_FAILED


class CannotRun(FusiondocError):
    """This machine or this torch cannot do it; the hint names a machine or torch
    that can (status 4)."""

    exit_code = CANNOT_RUN


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known words, or with the known words if
    none is near."""
    names = sorted(set(known))
    return nearest(word, names) or "Known: " + ", ".join(names) + "."


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return a sentence with the nearest known words; None if none is near."""
    from difflib import (
        get_close_matches,
    )  # only here: every start would wait for it

    names = sorted(set(known))
    with_zeros = word.replace("O", "0")  # a code with the letter O for zero
    if with_zeros in names:
        near = [with_zeros]
    else:
        near = get_close_matches(word, names, n=3, cutoff=0.6)
    if not near:
        return None
    return "Did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
