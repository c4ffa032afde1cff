"""What can go wrong, each with the exit status of the contract. One handler prints them: ``cli.main``."""

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
"""A fault of fusiondoc's own (EX_SOFTWARE of sysexits.h): never 1, which CI reads as findings."""
INTERRUPTED = 130


class FusiondocError(Exception):
    """A failure that a user can act on: ``message`` says what happened, ``hint`` what to do next."""

    exit_code = WRONG_USAGE

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def in_one_line(self) -> str:
        """The line that tells what failed, at most 200 characters: of a traceback the one that names the
        error, or that of the compiler in it; else the last."""
        lines = [line.rstrip() for line in self.message.split("\n") if line.strip()]
        said = _of_exception(lines)
        compiler = (line for line in said if _OF_COMPILER.search(line))
        told = next(compiler, said[0] if said else lines[-1] if lines else type(self).__name__)
        return told.strip()[:200]


_TRACEBACK = re.compile(r"Traceback (?:of TorchScript.*)?\(most recent call last\):")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)(?:: |$)")
_FRAME = "<--- HERE"
"""TorchScript marks the place in a frame's lines so, of which the first begins where the user's does."""
_TRACED_FRAME = re.compile(r"\S.{0,1000}\(\d+\): \S+\Z")
"""A frame of a traced function: Python's stack as it was then, ``model.py(390): forward``."""
_OF_COMPILER = re.compile(r"\(\d+\): error: |\bnvrtc: error: ")
"""Of a kernel that NVRTC does not take: the whole source stands behind it (NNC), or before it (nvFuser)."""


def _of_exception(lines: Sequence[str]) -> Sequence[str]:
    """What the exception says, often in several lines: behind the last traceback, or where the user's code
    has no part in it, behind the first line. None of a message without an exception."""
    heads = [number for number, line in enumerate(lines) if _TRACEBACK.match(line)]
    if not heads:
        return lines[1:] if len(lines) > 1 and _EXCEPTION.match(lines[1]) else []
    below = list(dropwhile(_TRACED_FRAME.match, lines[heads[-1] + 1 :]))
    marks = [number for number, line in enumerate(below) if line.endswith(_FRAME)]
    return list(dropwhile(lambda line: line[0].isspace(), below[marks[-1] + 1 :] if marks else below))


class UsageError(FusiondocError):
    """An unknown file, option, knob or dump name, or input that cannot be read (status 2)."""


class NotFound(UsageError):
    """An argument names nothing that exists: no log, file or capture.

    Args:
        explained: the hint says what this argument means or could mean, not only what an argument may be.
    """

    def __init__(self, message: str, hint: str | None = None, explained: bool = False) -> None:
        super().__init__(message, hint)
        self.explained = explained


class ModelFailed(FusiondocError):
    """The user's own program failed; its traceback is in the message (status 3)."""

    exit_code = MODEL_FAILED


class CannotRun(FusiondocError):
    """This machine or this torch cannot do it; the hint says what would (status 4)."""

    exit_code = CANNOT_RUN


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known words, or the known words when none is near."""
    names = sorted(set(known))
    return nearest(word, names) or "Known: " + ", ".join(names) + "."


def nearest(word: str, known: Iterable[str]) -> str | None:
    """A sentence that names the nearest known words; None when none is near."""
    from difflib import get_close_matches  # only here: every start would wait for it

    near = get_close_matches(word, sorted(set(known)), n=3, cutoff=0.6)
    if not near:
        return None
    return "Did you mean " + " or ".join(f"'{name}'" for name in near) + "?"
