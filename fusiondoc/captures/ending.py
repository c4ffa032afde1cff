"""How a run ended (``result.json``), and the consequence for the user: nothing, or
an error with its exit status; and the program's position at that time. All other
modules use this module's result."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from fusiondoc.captures.probe_records import Failure, ProbeRecords
from fusiondoc.errors import (
    CANNOT_RUN,
    WRONG_USAGE,
    CannotRun,
    FusiondocError,
    ModelFailed,
    UsageError,
)
from fusiondoc.model import dataclass
from fusiondoc.probe import NO_MORE_RECORDS
from fusiondoc.whole_files import open_regular

_SHOWN_LINES = 5
_TAIL_BYTES = 4000
_OWN = ("[fusiondoc] ", "fusiondoc: ")
"""Prefixes of the probe's own lines in the log."""


class Ended(Enum):
    """How a run came to its end; the first that applies, in this order."""

    INTERRUPTED = "interrupted"
    TIMED_OUT = "timed out"
    SIGNAL = "signal"
    DONE = "done"
    FAILED = "failed"
    UNFINISHED = "not finished"
    """It still runs, or fusiondoc itself was killed."""


@dataclass(frozen=True)
class RunSeconds:
    """How the time of a run was spent; ``runner.launch.run`` defines each part."""

    child: float | None = None
    probe: float | None = None
    overhead: float | None = None
    startup: float | None = None
    first_look: float | None = None


@dataclass(frozen=True)
class Result:
    """The end of the child, as seen by the parent."""

    exit_status: int | None = None
    signal: str | None = None
    """Name of the signal, such as SIGSEGV; the exit status is None then."""
    timed_out: bool = False
    interrupted: bool = False
    seconds: RunSeconds = RunSeconds()
    log_bytes: int | None = None
    stopped: str | None = None
    """The signal that had stopped the program (SIGSTOP) when its time was over."""

    @property
    def ended(self) -> Ended:
        if self.interrupted:
            return Ended.INTERRUPTED
        if self.timed_out:
            return Ended.TIMED_OUT
        if self.signal:
            return Ended.SIGNAL
        if self.exit_status is None:
            return Ended.UNFINISHED
        if self.exit_status == 0:
            return Ended.DONE
        return Ended.FAILED

    @property
    def in_words(self) -> str:
        """A text such as "died of SIGSEGV"."""
        if self.ended is Ended.SIGNAL:
            return f"died of {self.signal}"
        return (
            f"failed (status {self.exit_status})"
            if self.ended is Ended.FAILED
            else self.ended.value
        )

    @property
    def cut_short(self) -> bool:
        """The run did not come to its end: messages missing in its log prove
        nothing."""
        return self.ended in (Ended.INTERRUPTED, Ended.TIMED_OUT, Ended.SIGNAL)


def ended_early(result: Result, records: ProbeRecords) -> bool:
    """True if the program ended its process itself before the probe had finished. A
    script may do that at any time (os._exit), if its status is 0."""
    if records.done is not None or records.error is not None:
        return False
    ended = result.ended
    return ended is Ended.FAILED or (
        ended is Ended.DONE and records.target.how != "script"
    )


def failure_of(
    result: Result,
    records: ProbeRecords,
    label: str,
    timeout: float | None,
    log: Path,
) -> FusiondocError | None:
    """Return the error that ended a run, or None. An interruption is no error.
    Args: label: the target's name in messages. timeout: the time limit of the
    run in seconds.
    """
    if result.ended is Ended.INTERRUPTED:
        return None
    if result.ended is Ended.TIMED_OUT:
        return _timed_out(result, records, label, timeout, log)
    if result.ended is Ended.SIGNAL:
        if records.done is None or records.error is not None:
            return ModelFailed(
                f"{label} died of {result.signal}",
                _after_signal(result.signal, log),
            )
        return ModelFailed(
            f"{label} completed all passes, and its process died of {result.signal} as it ended",
            "What was captured is whole: fusiondoc parse reports it.",
        )
    return _failed_with_status(result, records, label, log)


def _timed_out(
    result: Result,
    records: ProbeRecords,
    label: str,
    timeout: float | None,
    log: Path,
) -> FusiondocError:
    within = f"in {timeout:g} s" if timeout is not None else "in time"
    if records.error is not None:
        hint = f"After that its process did not end {within}: {_GOES_ON}; {_where(log)}."
        return ModelFailed(
            _failure_message(records.error, label), hint, _traceback(records.error)
        )
    if records.done is not None:
        return ModelFailed(
            f"{label} completed all passes, but its process did not end {within} and was stopped",
            f"{_GOES_ON}; {_where(log)}. What was captured is whole: fusiondoc parse reports it.",
        )
    if result.stopped is not None:
        return ModelFailed(
            f"{label} was stopped by {result.stopped} and did not go on {within}, so it was ended",
            f"It stops itself, or something else does; {_where(log)}.",
        )
    return ModelFailed(
        f"{label} did not end {within} and was stopped",
        f"{_where(log)}. --timeout gives it more time.",
    )


def _failed_with_status(
    result: Result, records: ProbeRecords, label: str, log: Path
) -> FusiondocError | None:
    """The error of a run that ended by itself; None if it completed."""
    status, failure = result.exit_status, records.error
    hint = f"The whole output is in {log}."
    if failure is not None:
        kind = {WRONG_USAGE: UsageError, CANNOT_RUN: CannotRun}.get(
            status or 0, ModelFailed
        )
        output = _traceback(failure)
        if not output and kind is ModelFailed:
            output = _last_lines(log)
        return kind(_failure_message(failure, label), failure.hint or hint, output)
    done = records.done is not None
    unwritten = None if done else _unwritten_records(log)
    if unwritten is not None:
        return ModelFailed(
            f"the records of {label} could not be written: {unwritten}",
            "Free some space there, or lift the limit that the program set (RLIMIT_FSIZE, RLIMIT_NOFILE).",
        )
    if not status and not ended_early(result, records):
        return None
    when = "after" if done else "before"
    return ModelFailed(
        f"{label} ended with exit status {status} {when} all passes were done",
        hint,
        _last_lines(log),
    )


_GOES_ON = "A thread that is no daemon, or an atexit function, goes on"


def _where(log: Path) -> str:
    """The last lines of the log before the process was ended."""
    if where_it_was(log) is not None:
        return f"{log} ends with Python's stack at that moment"
    return f"the whole output is in {log}"


def _unwritten_records(log: Path) -> str | None:
    """Why the probe stopped writing records, if the end of the log states it."""
    lines = []
    for line in _tail(log).split("\n"):
        if line.startswith(NO_MORE_RECORDS):
            lines.append(line)
    if lines:
        return lines[-1][len(NO_MORE_RECORDS) :].strip()
    return None


OF_SIGNAL = {
    "SIGKILL": "Try smaller inputs: most often the kernel sends SIGKILL when memory runs out (dmesg and the"
    " container's events show it).",
    "SIGXCPU": "Raise its limit of CPU time, which was reached (ulimit -t).",
}
"""Signals that come from outside, and leave no time to print a stack."""


def _after_signal(signal: str | None, log: Path) -> str:
    failure = OF_SIGNAL.get(signal or "")
    if failure is not None:
        return failure
    if where_it_was(log) is not None:
        return f"{log} ends with Python's stack at that moment."
    return f"{log} does not hold Python's stack at that moment; its last lines show how far the program got."


def _traceback(failure: Failure) -> str:
    return (failure.traceback or "").rstrip()


def _failure_message(failure: Failure, label: str) -> str:
    if not failure.traceback:
        return failure.message or f"{label} failed"
    doing = {
        "import": "could not be imported",
        "call": "could not be made",
        "script": "cannot be scripted",
        "trace": "cannot be traced",
        "inputs": "failed while making its inputs",
        "forward": "failed in the forward pass",
        "backward": "failed in the backward pass",
        "verify": "failed in the eager run that --verify compares with",
        "eager": "failed in the eager run that --time compares with",
        "exit": "ended the process",
    }.get(failure.stage, "failed")
    return f"{label} {doing}"


_JIT_LINE = re.compile(r"\[(?:DUMP|DEBUG|UPDATE|SOURCE) [\w.]+:\d+\]")
"""The prefix of torch/csrc/jit/jit_log.cpp, 1.12 to 2.13."""


def _last_lines(log: Path) -> str:
    """The last lines printed by the program itself."""
    tail = _tail(log).rstrip().split("\n")
    lines = [
        line
        for line in tail
        if not line.startswith(_OWN) and not _JIT_LINE.match(line)
    ][-_SHOWN_LINES:]
    if any(lines):
        return "\n".join(lines)
    return ""


def _tail(log: Path, size: int = _TAIL_BYTES) -> str:
    try:
        with open_regular(log) as file:
            file.seek(max(0, log.stat().st_size - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


_STACK = re.compile(
    r'^  File "(?P<file>[^"\n]{1,500})", line (?P<line>\d{1,9}) in ', re.MULTILINE
)
_CURRENT = re.compile(
    r"^(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):$",
    re.MULTILINE,
)
_STACK_BYTES = 64 << 10
_LIBRARIES = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python",
    "<frozen",
    "<string>",
)


def where_it_was(log: Path) -> str | None:
    """``file:line`` of the program at which a signal ended a process, from the
    stack that Python's faulthandler printed at the end of its log; None without a
    stack."""
    text = _tail(log, _STACK_BYTES)
    starts = [header.end() for header in _CURRENT.finditer(text)]
    if not starts:
        return None
    frames = [
        (frame["file"], frame["line"])
        for frame in _STACK.finditer(text, starts[-1])
    ]
    own = []
    for call in frames:
        if not any(part in call[0] for part in _LIBRARIES):
            own.append(call)
    file_, line = (own or frames or [("", "")])[0]
    if file_:
        return f"{file_}:{line}"
    return None
