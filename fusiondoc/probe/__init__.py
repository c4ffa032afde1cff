"""The probe runs beside torch, inside the user's interpreter: standard library and
torch only, Python 3.7 upward.

It is started by path (``python .../probe/__main__.py SPEC.json RECORDS.jsonl``),
imports nothing from the rest of the package, and talks back through a file of JSON
lines, never through stdout.

Here: the errors that stop a run, as the user needs to see them, without the probe's
own frames.
"""

from __future__ import annotations

import os
import re
import traceback
from types import TracebackType
from typing import Any

DONE = 0
WRONG_USAGE = 2
MODEL_FAILED = 3
CANNOT_RUN = 4
INTERRUPTED = 130
"""Exit statuses of the probe; the same numbers as fusiondoc's own."""

NO_MORE_RECORDS = "fusiondoc: no more records can be written:"
"""Beginning of the log's line about a full disk or a closed file of records."""

FUSER = "fuser"
"""Name in a record ``switched_off``: the fuser of the run. Other names are knobs of
the executor."""
LOADING, TRACED, RUNNING = "loading", "traced", "running"
"""Stage at which a program switched it off: while it was loaded, in the model's own
code while that was traced, or in a pass (or anywhere in a program that runs as a
script)."""
BEFORE, CALLER = "before", "caller"
"""It was off in a process before its block was recorded, or in a process that had
its model run in a child."""

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
"""The folder of the probe."""


def folder_of(module: Any) -> str:
    """The folder of a package, with a separator at its end."""
    return os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep


def first_line(error: object) -> str:
    """The first line of an error's text: torch appends C++ frames."""
    return str(error).split("\n")[0]


class Refused(Exception):
    """Ends the run without a traceback: ``message`` states the reason, ``hint`` the
    next step, ``status`` is the exit status."""

    def __init__(
        self,
        stage: str,
        message: str,
        hint: str | None = None,
        status: int = WRONG_USAGE,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.hint = hint
        self.status = status


class UserError(Exception):
    """The user's program failed at ``stage``; ``__cause__`` is its exception."""

    def __init__(self, stage: str, hint: str | None = None) -> None:
        super().__init__(stage)
        self.stage = stage
        self.hint = hint


_PLUMBING = tuple(
    os.path.join("", "torch", *parts)
    for parts in (
        ("jit", ""),
        ("_jit_internal.py",),
        ("nn", "modules", "module.py"),
        ("_dynamo", "eval_frame.py"),
    )
)
"""torch's own frames between a call and the user's code or the scripting error:
they do not help the user."""


def _is_noise(filename: str) -> bool:
    return (
        filename.startswith("<frozen importlib")
        or os.path.abspath(filename).startswith(OWN_FOLDER)
        or any(os.sep + part in filename for part in _PLUMBING)
    )


def _strip(trace: traceback.TracebackException, seen: set[int]) -> None:
    if id(trace) in seen:
        return
    seen.add(id(trace))
    frames = [frame for frame in trace.stack if not _is_noise(frame.filename)]
    trace.stack = traceback.StackSummary.from_list(frames)
    for other in (trace.__cause__, trace.__context__):
        if other is not None:
            _strip(other, seen)


def message_of(error: BaseException) -> str:
    """The exception's message; ``__str__`` of a user's class may raise, too."""
    try:
        return _without_own_frames(str(error))
    except Exception as failed:
        return "its message cannot be had (%s in __str__)" % type(failed).__name__


def users_traceback(error: BaseException) -> str:
    """Return ``error``'s traceback as Python prints it, without the frames of the
    probe, of the import system and of torch's calling and scripting code, so that
    the user's frames remain."""
    tb: TracebackType | None = error.__traceback__
    trace = traceback.TracebackException(type(error), error, tb)
    _strip(trace, set())
    lines = list(trace.format())
    if not trace.stack and lines and lines[0].startswith("Traceback "):
        lines = lines[1:]
    return _without_own_frames("".join(lines))


_CPP_FRAME = re.compile(r"^  (.+)\(\d+\): \S+$")


def _without_own_frames(text: str) -> str:
    """Remove the probe's frames from an error's text: an error that passed from
    Python through C++ lists all frames in its text (pybind11: ``At:``, a line
    each)."""
    if "\nAt:\n" not in text:
        return text
    kept = []
    for line in text.split("\n"):
        frame = _CPP_FRAME.match(line)
        if frame is None or not _is_noise(frame.group(1)):
            kept.append(line)
    return "\n".join(kept)


_HINTS = (
    (
        re.compile(r"for argument 'primals_\d+' but instead found type"),
        "AOTAutograd makes every argument an input of its graphs, numbers too, and TorchScript takes tensors "
        "there: bind numbers before the function is wrapped (functools.partial, a closure).",
    ),
    (
        re.compile(r"_lazy_graph_module\.py"),
        "This torch hands a backend graphs whose code is not made yet, which torch.jit.script cannot read: "
        "compile inside torch.fx._lazy_graph_module._force_skip_lazy_graph_module().",
    ),
    (
        re.compile(r"Cannot re-initialize CUDA in forked subprocess"),
        "To switch a fuser on, fusiondoc initialises the GPU before the program starts, and after that torch "
        "lets no forked process use it: start the processes with the method spawn.",
    ),
    (
        re.compile(r"^vector::_M_range_check: __n \(which is 0\)"),
        "If torch.jit.optimize_for_inference made the module: torch cannot run that under oneDNN Graph, with "
        "fusiondoc or without. Freeze it with torch.jit.freeze alone, or use another --fuser.",
    ),
)
"""Pattern of a misleading error of torch -> the advice that helps (seen with torch
2.13)."""


def hint_of(text: str) -> str | None:
    """Advice on an error with this text; None if its own message is clear."""
    return next((hint for pattern, hint in _HINTS if pattern.search(text)), None)
