"""Finds failures in the lines of one stream: errors of tracebacks, the signal that
ended a process, and the summary of torch's launcher.

Several ranks may write one stream. torch itself puts the rank before the traceback
of an uncaught error (``_distributed_excepthook`` of
torch/distributed/distributed_c10d.py, 2.2 to 2.13) and before the lines of its C++
log (c10/util/Logging.cpp), after any prefix that a launcher puts before all lines.
So that tag is removed here, after the other prefix, and the traceback of each rank
is read separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fusiondoc.fusers.fuser_errors import PROGRAM
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.facts import ErrorSeen, Facts
from fusiondoc.parsers.fuser_work import FuserWork
from fusiondoc.parsers.lines.error_texts import (
    INTERPRETER,
    failing_line,
    read_error,
)
from fusiondoc.parsers.lines.machines import LAUNCHED
from fusiondoc.parsers.lines.torch_warnings import are_options_set

ERROR = re.compile(
    rb"(?:torch\._\w+\.exc\.\w+|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b)"
    rb"(?::(?: .*)?)?$"
)
"""The last line of a Python traceback. Errors of torch's compilers have other
names."""

_OF_COMPILER = re.compile(rb"torch\._\w+\.exc\.")
_GOES_ON = re.compile(rb"torch\._\w+\.exc\.\w+: .* raised:$")
"""An error of torch's compiler that wraps another error, which is on the next line
(torch/_dynamo/exc.py)."""

CRASH = re.compile(
    rb"Segmentation fault|Floating point exception|Illegal instruction|Bus error|Fatal Python error: |"
    rb"\(core dumped\)|^Aborted$|^Killed$|:\s+\d+ Killed\b|: task [\d,-]+: Killed$|"
    rb"terminate called after throwing|interrupted by signal \d|exit code 13[245679]\b|exited on signal \d|"
    rb"[Ss]ignal \d{1,2} ?\(SIG|exitcode +: -\d|exit status -\d|<Signals\.SIG[A-Z]+: |"
    rb"Segfault encountered|\*\*\* SIG[A-Z]+ |Caught signal \d"
)
"""Lines about crashes from bash, Python's faulthandler and subprocess, PyCharm,
torchrun, mpirun, srun, glog, UCX and libstdc++."""

_RANK_OF_TORCH = re.compile(rb"\[rank(\d{1,9})\]: ?")
_RANK_OF_LAUNCHER = re.compile(rb"\bprocess rank (\d{1,9})\b|: task (\d{1,9}): ")
"""The rank in lines of mpirun ("mpirun noticed that process rank 1 with PID 4711 on
node n7 exited on signal 9") and of srun."""

_STACK = re.compile(
    rb"(?:Current thread|Thread) 0x[0-9a-f]+\b.*\(most recent call first\):"
)
"""The first line of a stack that Python's faulthandler prints."""

_LOOSE = re.compile(
    rb"(?:> ?|E +|\[ERROR\] |.{0,200}? MODEL_LOG - )?RuntimeError:(?: |$)"
)
"""An error without its traceback: quoted, or written by pytest, a logger or
TorchServe's worker."""

_MOST = 100
"""Number of errors that are kept."""
_MOST_RANKS = 4096
"""Number of ranks of one stream that are read separately."""
_REST = 6
_REST_OF_COMPILER = 60
"""Number of lines that are kept after an error, and after an error of a compiler:
the kernel's name may follow helper functions, the user's line may follow hints."""
_NEAR = 4
"""A line that is more lines away than this, counting empty lines, does not belong
to an error."""
_LOOKED_AT = 500
"""Number of bytes of a line that are searched for a crash."""


def shows_a_crash(line: bytes) -> bool:
    return CRASH.search(line, 0, _LOOKED_AT) is not None


def without_rank(line: bytes) -> tuple[int | None, bytes]:
    """Return the rank with which torch tags a line, and the line without the
    tag."""
    found = _RANK_OF_TORCH.match(line)
    if found is None:
        return None, line
    return whole_number(found.group(1)), line[found.end() :]


class Failures:
    """Reads, in order, the lines of one stream that the program itself wrote."""

    def __init__(self, facts: Facts, settle: Callable[[], None]) -> None:
        self._facts = facts
        self._settle = settle
        """Records everything that is read but still pending."""
        self._summary = _LauncherSummary(facts, settle)
        self._of_rank: dict[int | None, _OneProcess] = {
            None: _OneProcess(facts, settle, None)
        }

    @property
    def in_traceback(self) -> bool:
        return any(one.in_traceback for one in self._of_rank.values())

    @property
    def idle(self) -> bool:
        """True if no failure is open: its lines are all read."""
        return not self._summary.open and all(
            one.idle for one in self._of_rank.values()
        )

    def take(self, line: bytes, pos: int) -> bool:
        """Read a line; return True if it belongs to a failure."""
        if self._facts.options_set is None and are_options_set(line):
            self._facts.options_set = pos
        if LAUNCHED in line and self._facts.launched is None:
            self._facts.launched = pos
        rank, line = without_rank(line)
        if rank is None and self._summary.takes(line, pos):
            self._process(None).leave_traceback()
            return True
        if _STACK.match(line):
            self._facts.stacks.setdefault(rank, pos)
            return True
        if shows_a_crash(line):
            self._settle()
            named = None
            if rank is None:
                named = _RANK_OF_LAUNCHER.search(line, 0, _LOOKED_AT)
            if named is not None:
                of = whole_number(named.group(1) or named.group(2))
            else:
                of = rank
            self._facts.work.crashed(_text(line), pos, of, _signal_in(line))
            return True
        return self._process(rank).take(line, pos)

    def _process(self, rank: int | None) -> _OneProcess:
        known = self._of_rank.get(rank)
        if known is None:
            if len(self._of_rank) >= _MOST_RANKS:
                return self._of_rank[None]
            known = self._of_rank[rank] = _OneProcess(
                self._facts, self._settle, rank
            )
        return known

    def close(self) -> None:
        for one in self._of_rank.values():
            one.close()
        self._facts.errors.sort(key=lambda error: error.line)
        self._summary.close()


_OF_TORCHSCRIPT = b"Traceback of TorchScript"
"""The first line of ``format_stack_trace`` in
torch/csrc/jit/frontend/source_range.cpp, 1.12 to 2.13."""


class _OneProcess:
    """The errors of one process. ``rank``: the tag that torch puts before its
    lines."""

    def __init__(
        self, facts: Facts, settle: Callable[[], None], rank: int | None
    ) -> None:
        self._facts = facts
        self._settle = settle
        self._rank = rank
        self.in_traceback = False
        self._texts: list[bytes] = []
        """Lines of the error that may continue."""
        self._begun = 0
        self._last = 0
        self._loose = False
        self._frames: list[bytes] | None = None
        """Lines of the last TorchScript traceback; None outside of one."""
        self._work: FuserWork | None = None
        self._unfused: FuserWork | None = None

    @property
    def idle(self) -> bool:
        """True if no failure is open: its lines are all read."""
        return not self.in_traceback and not self._texts

    def take(self, line: bytes, pos: int) -> bool:
        """Read a line; return True if it belongs to a failure."""
        if line.startswith(b"Traceback "):
            self._end()
            self.in_traceback = True
            self._frames = [] if line.startswith(_OF_TORCHSCRIPT) else None
            return True
        if (
            self._frames is not None
            and len(self._frames) < _MOST
            and self.in_traceback
        ):
            self._frames.append(line[:_LOOKED_AT])
        if self.in_traceback and line.startswith(b"  "):
            return True
        if self.in_traceback and ERROR.match(line):
            self.in_traceback = False
            self._begin(line, pos, loose=False)
            return True
        goes_on = (
            len(self._texts) == 1 and _GOES_ON.match(self._texts[0]) is not None
        )
        if not goes_on and (loose := _LOOSE.match(line)) is not None:
            self._begin(
                line[loose.group().rfind(b"RuntimeError") :], pos, loose=True
            )
            return True
        return bool(self._texts) and self._goes_on(line, pos)

    def leave_traceback(self) -> None:
        """End the traceback, since its last line was read elsewhere."""
        self.in_traceback = False

    def close(self) -> None:
        """Finish at the end of the stream."""
        self._end()

    def _begin(self, line: bytes, pos: int, loose: bool) -> None:
        self._end()
        self._settle()
        self._work = self._facts.work.open()
        self._unfused = self._facts.work.unfused()
        self._texts, self._begun, self._last, self._loose = [line], pos, pos, loose

    def _goes_on(self, line: bytes, pos: int) -> bool:
        first = self._texts[0]
        compiler = (
            b"nvrtc" in first
            or b"default_program" in first
            or _OF_COMPILER.match(first) is not None
        )
        # With a tag the line belongs to the rank, however many lines of other ranks
        # come in between.
        far = self._rank is None and pos - self._last > _NEAR
        if far or len(self._texts) > (_REST_OF_COMPILER if compiler else _REST):
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
        introduced = None
        if errors and errors[-1].rank == self._rank:
            introduced = errors[-1]
        if (
            introduced is not None
            and INTERPRETER in introduced.text
            and self._begun - introduced.line < 200
        ):
            errors.pop()  # it only introduces the new error
        if INTERPRETER not in text:
            self._facts.work.over = max(self._facts.work.over, self._begun)
        if len(errors) < _MOST:
            at = self._failing_line()
            errors.append(
                ErrorSeen(
                    text, self._begun, self._work, self._unfused, self._rank, at
                )
            )

    def _failing_line(self) -> str | None:
        """Return ``file:line`` of the operator, if a TorchScript traceback preceded
        the error; else None."""
        frames, self._frames = self._frames, None
        if frames:
            return failing_line(b"\n".join(frames).decode("utf-8", "replace"))
        return None


_CHILD_FAILED = (
    b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"
)
_FIELD = re.compile(rb"  (rank|exitcode) +: (-?\d{1,9})\b")
_SUMMARY_LINES = 20_000
"""Number of lines of a summary: it has seven for each failed process."""


class _LauncherSummary:
    """The summary that torch's launcher prints after a process failed: first the
    processes that the launcher ended, then the process that failed first
    (torch/distributed/elastic/multiprocessing/errors/__init__.py, 1.9 to 2.13)::

        Failures:
        [1]:
          rank      : 0 (local_rank: 0)
          exitcode  : -15 (pid: 4710)  (SIGTERM)
        Root Cause (first observed failure):
        [0]:
          rank      : 1 (local_rank: 1)
          exitcode  : -9 (pid: 4711)  (SIGKILL)
    """

    def __init__(self, facts: Facts, settle: Callable[[], None]) -> None:
        self._facts = facts
        self._settle = settle
        """Records everything that is read but still pending."""
        self._left = 0
        """Number of lines that may still belong to the open summary."""
        self._root = False
        self._rank: int | None = None
        self._first: tuple[str, int, int | None, str | None] | None = None
        """The first signal of a process outside the "Root Cause" section, for a
        summary that is truncated before that section."""

    @property
    def open(self) -> bool:
        return self._left > 0

    def takes(self, line: bytes, pos: int) -> bool:
        """Read a line; return True if it belongs to a summary."""
        if line.startswith(_CHILD_FAILED):
            self._settle()
            self._left, self._root, self._rank = _SUMMARY_LINES, False, None
            return True
        if not self._left:
            return False
        self._left -= 1
        if line.startswith(b"Root Cause (first observed failure)"):
            self._root = True
        elif line.startswith(b"=====") and self._root:
            self._left = 0
        elif (found := _FIELD.match(line)) is not None:
            self._field(
                line, pos, found.group(1), whole_number(found.group(2)) or 0
            )
        elif not _OF_SUMMARY.match(line):
            self._left = 0
            return False
        return True

    def _field(self, line: bytes, pos: int, name: bytes, value: int) -> None:
        if name == b"rank":
            self._rank = value
        elif not self._root:
            if value < 0 and self._first is None:
                self._first = (
                    _text(b" ".join(line.split())),
                    pos,
                    self._rank,
                    _signal_in(line),
                )
        elif value < 0:
            self._first = None
            self._facts.work.crashed(
                _text(b" ".join(line.split())), pos, self._rank, _signal_in(line)
            )
        else:
            self._first = None
            text = f"rank {self._rank} ended with exit status {value}, by torch's launcher"
            self._facts.failed_rank = ErrorSeen(text, pos, None, None, self._rank)

    def close(self) -> None:
        """Finish at the end of the stream."""
        if self._first is not None and self._facts.failed_rank is None:
            self._facts.work.crashed(*self._first)


_OF_SUMMARY = re.compile(
    rb"=====|-----|\[\d{1,9}\]:$|  \w|Failures:$|\s*$|.* FAILED$|\s*<NO_OTHER_FAILURES>"
)


def _text(line: bytes) -> str:
    return line.strip()[:200].decode("utf-8", "replace")


_NAMED_SIGNAL = re.compile(rb"\bSIG[A-Z]{2,9}\b")
_SIGNAL_IN_WORDS = (
    (
        "SIGSEGV",
        re.compile(
            rb"Segmentation fault|Segfault|exit code 139\b|(?:exit status |: )-11\b"
        ),
    ),
    (
        "SIGABRT",
        re.compile(
            rb"^Aborted|terminate called|exit code 134\b|(?:exit status |: )-6\b"
        ),
    ),
    (
        "SIGKILL",
        re.compile(
            rb"\bKilled\b|exit code 137\b|(?:exit status |: )-9\b|signal 9\b"
        ),
    ),
)


def _signal_in(line: bytes) -> str | None:
    """Return the signal that a line about a crash names; None if it names none."""
    named = _NAMED_SIGNAL.search(line, 0, _LOOKED_AT)
    if named is not None:
        return named.group().decode("ascii")
    return next(
        (
            name
            for name, words in _SIGNAL_IN_WORDS
            if words.search(line, 0, _LOOKED_AT)
        ),
        None,
    )
