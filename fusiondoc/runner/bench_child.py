"""A child that runs one variant of a model and times a round of steps on each
command."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from fusiondoc.captures.probe_records import GrowingRecords
from fusiondoc.errors import CannotRun
from fusiondoc.model import dataclass
from fusiondoc.runner.child import Child, Ending
from fusiondoc.runner.interpreter import probe_command

_TO_END = 10.0
"""Seconds that the process may take to end."""
_TO_COME_UP = 1.0
"""Seconds to wait for a process that is still being started; it is ended once it
has started."""
_POLL = 0.003
"""Seconds between two looks at the records: short compared with a round, long
compared with a look."""


@dataclass(frozen=True)
class Started:
    """The process that runs the variant."""

    pid: int


@dataclass(frozen=True)
class TorchFacts:
    """The interpreter, torch and GPU on which it runs."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    gpu: str | None = None


@dataclass(frozen=True)
class LoadedModel:
    """The model is loaded; its warm-up waits for a command."""

    pid: int


@dataclass(frozen=True)
class BuiltVariant:
    """The variant has been built."""

    name: str
    fuser: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class InputsOfShape:
    """The inputs of the steps of a shape; with ``sizes`` above 1 the first of that
    many sets, used in turns."""

    shape: int
    inputs: tuple[str, ...] = ()
    sizes: int = 1


@dataclass(frozen=True)
class Warm:
    """A step of the warm-up is done."""

    shape: int


@dataclass(frozen=True)
class WarmedShape:
    """The warm-up with a shape is done. Times in seconds."""

    shape: int
    steps: int
    warmup_s: float
    compile_s: float
    first_ms: float | None = None
    recompiles: int | None = None
    max_difference: float | None = None
    why_no_difference: str | None = None


@dataclass(frozen=True)
class Unfit:
    """The variant failed with a shape that is not the first."""

    shape: int
    type: str = ""
    message: str = ""


@dataclass(frozen=True)
class Warmed:
    """The warm-up is done with all shapes."""

    shapes: int


@dataclass(frozen=True)
class Round:
    """A round of ``steps`` steps took ``seconds``."""

    number: int
    shape: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class ProfiledStep:
    """Milliseconds of a step in which the GPU was busy, or why that is not
    known."""

    shape: int
    device_ms: float | None = None
    step_ms: float | None = None
    why: str | None = None
    device: str | None = None
    """"cuda" or "cpu"."""
    traced: int | None = None
    """Number of steps in the trace in the child's folder; None without a trace."""
    allow_tf32: bool | None = None
    capability: str | None = None
    """Compute capability of the GPU: "9.0"."""


@dataclass(frozen=True)
class Inspected:
    """Peak memory of steady steps on the GPU, and failed guards."""

    shape: int
    guard_failures: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True)
class Benched:
    """The facts at the end: recompilations and groups."""

    recompiles: int | None = None
    groups_forward: int | None = None
    groups_backward: int | None = None
    graphs: int | None = None
    """Number of plans or graphs that were compiled; None if torch does not count
    them."""
    recorded: bool = False
    """Whether the compiler's output for the first inputs was to be recorded."""


@dataclass(frozen=True)
class BenchError:
    """Why it ended. ``type`` is "Refused" if the variant cannot run here."""

    stage: str = ""
    type: str = ""
    message: str = ""
    hint: str | None = None


Reply = (
    Started
    | TorchFacts
    | LoadedModel
    | BuiltVariant
    | InputsOfShape
    | Warm
    | WarmedShape
    | Unfit
    | Warmed
    | Round
    | ProfiledStep
    | Inspected
    | Benched
    | BenchError
)

_KINDS: Mapping[str, type] = {
    "started": Started,
    "environment": TorchFacts,
    "loaded": LoadedModel,
    "variant": BuiltVariant,
    "inputs": InputsOfShape,
    "warm": Warm,
    "ready": WarmedShape,
    "unfit": Unfit,
    "warmed": Warmed,
    "round": Round,
    "profiled": ProfiledStep,
    "inspected": Inspected,
    "benched": Benched,
    "error": BenchError,
}

R = TypeVar("R", LoadedModel, Warmed, Round, ProfiledStep, Inspected, Benched)


class Died(Exception):
    """The child ended, or had to be ended, before it answered; the message gives
    the reason."""


class _Killed(Exception):
    """The process was ended on purpose."""


class BenchChild:
    """Runs the probe's action "bench" in a process of its own.

    Args: spec: the probe's spec, without the control file. folder: an empty folder
        for its files. timeout: seconds for the warm-up, and for each answer after
        it.
    """

    def __init__(
        self,
        python: Path,
        spec: Mapping[str, Any],
        environment: Mapping[str, str],
        cwd: Path,
        folder: Path,
        timeout: float,
    ) -> None:
        self.records = records = folder / "records.jsonl"
        self._records: GrowingRecords[Reply] = GrowingRecords(records, _KINDS)
        self.log = folder / "log"
        self._timeout = timeout
        self._control = folder / "control"
        self._writer: int | None = None
        self._pid: int | None = None
        self._warms_up = False
        self._is_warm = False
        self._problem: BenchError | None = None
        self._ending: Ending | None = None
        self._failed: OSError | None = None
        self._unread: deque[Reply] = deque()
        """Replies that nothing has waited for yet."""
        self._killed = False
        self.facts: TorchFacts | None = None
        self.chosen: BuiltVariant | None = None
        self.inputs: dict[int, InputsOfShape] = {}
        self.ready: dict[int, WarmedShape] = {}
        """The shapes that can be timed."""
        self.unfit: dict[int, str] = {}
        """Why the other shapes cannot be timed."""
        spec_path = folder / "spec.json"
        content = {
            **spec,
            "action": "bench",
            "parent": os.getpid(),
            "control": str(self._control),
        }
        spec_path.write_text(json.dumps(content), encoding="utf-8")
        # No timeout of its own: it waits while others run their rounds.
        self._child = Child(
            probe_command(python, spec_path, records),
            environment,
            cwd,
            self.log,
            float("inf"),
        )
        self._thread = threading.Thread(
            target=self._run, name="fusiondoc bench", daemon=True
        )

    def start(self) -> None:
        """Start the process; it loads the model.

        Raises:
            CannotRun: this system has no named pipes.
        """
        if not hasattr(os, "mkfifo"):
            raise CannotRun(
                "models run on Linux and macOS only: this system has no named pipes",
                "Run it there, or in WSL.",
            )
        os.mkfifo(self._control)
        # For reading too, so that opening does not wait for the child; its end is
        # the end of this process.
        self._writer = os.open(self._control, os.O_RDWR)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._ending = self._child.run(self._end_if_killed)
        except OSError as error:
            self._failed = error
        except _Killed:
            pass

    def _end_if_killed(self) -> None:
        if self._killed:
            raise _Killed  # which ends the process on the way out

    def begin_warm_up(self, record: bool = False) -> None:
        """Tell the child to warm up with every shape as soon as it is loaded,
        concurrently with others. Raises ``Died`` if it has ended.

        Args:
            record: record torch.compile's output for the first inputs.
        """
        self._send({"do": "warm", "record": record})
        self._warms_up = True

    def has_warmed_up(self) -> bool:
        """Wait for the end of a warm-up that has begun; return whether it is warm
        and alive."""
        if not self._is_warm:
            try:
                self._wait(Warmed)
            except Died:
                return False
            self._is_warm = True
        return self.is_alive

    def warm_up(self, record: bool = False) -> None:
        """Let it warm up, once, and wait (``ready`` has the times). If it is warm,
        its steps are measured again: other processes may have slowed them down.
        Raises ``Died`` if it does not. ``record``: as in ``begin_warm_up``."""
        if self._is_warm:
            self._send({"do": "settle"})
        elif not self._warms_up:
            self._wait(LoadedModel)
            self.begin_warm_up(record)
        self._wait(Warmed)
        self._is_warm = True

    def round(self, number: int, shape: int = 0) -> Round:
        """Run a round and wait for its time; raise ``Died`` if there is none."""
        self._send({"do": "round", "number": number, "shape": shape})
        return self._wait(Round)

    def profile(self, shape: int = 0) -> ProfiledStep | None:
        """Profile some steps; None if the profiler does not work."""
        self._send({"do": "profile", "shape": shape})
        try:
            return self._wait(ProfiledStep)
        except Died:
            return None

    def inspect(self, shape: int = 0) -> Inspected | None:
        """Inspect some steps; None if the process dies of that."""
        try:
            self._send({"do": "inspect", "shape": shape})
            return self._wait(Inspected)
        except Died:
            return None

    def end(self) -> Benched | None:
        """Let it end by itself; return its last record, or None if it died."""
        self._close()
        try:
            found = self._wait(Benched)
        except Died:
            return None
        self._thread.join(self._timeout)
        self.kill()
        return found

    @property
    def is_alive(self) -> bool:
        """Whether it accepts commands."""
        return self._writer is not None and self._thread.is_alive()

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._killed = True
        self._close()
        self._take()
        if self._thread.is_alive() and self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(os.getpgid(self._pid), signal.SIGKILL)
        if self._thread.ident is not None:
            self._thread.join(_TO_END if self._pid is not None else _TO_COME_UP)

    def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            os.close(writer)

    def _send(self, command: Mapping[str, Any]) -> None:
        if self._writer is None:
            raise Died(self.why())
        os.write(self._writer, json.dumps(command).encode() + b"\n")

    def _wait(self, kind: type[R]) -> R:
        began = time.perf_counter()
        while True:
            ended = not self._thread.is_alive()
            self._take()
            while self._unread:
                reply = self._unread.popleft()
                began = time.perf_counter()
                if isinstance(reply, kind):
                    return reply
            if ended:
                raise Died(self.why())
            if time.perf_counter() - began > self._timeout:
                self.kill()
                raise Died(f"it gave no answer for {self._timeout:g} s (--timeout)")
            time.sleep(_POLL)

    def _take(self) -> None:
        for reply in self._records.new():
            self._unread.append(reply)
            if isinstance(reply, Started):
                self._pid = reply.pid
            elif isinstance(reply, TorchFacts):
                self.facts = reply
            elif isinstance(reply, BuiltVariant):
                self.chosen = reply
            elif isinstance(reply, InputsOfShape):
                self.inputs[reply.shape] = reply
            elif isinstance(reply, WarmedShape):
                self.ready[reply.shape] = reply
            elif isinstance(reply, Unfit):
                self.unfit[reply.shape] = _reason(reply.type, reply.message)
            elif isinstance(reply, BenchError) and self._problem is None:
                self._problem = reply

    @property
    def problem(self) -> BenchError | None:
        """Its record of the error that ended it, if there is one."""
        self._take()
        return self._problem

    def why(self) -> str:
        """The reason of its end, in a sentence."""
        problem = self.problem
        if problem is not None:
            return _reason(problem.type, problem.message)
        if self._failed is not None:
            return f"it could not be started: {self._failed.strerror}"
        ending = self._ending
        if ending is not None and ending.signal is not None:
            return f"it was ended by {ending.signal}"
        return "it ended before it was done"


def _reason(kind: str, message: str) -> str:
    if kind == "Refused":
        return message
    if message:
        return f"{kind}: {_telling_line(message)}"
    return kind


_ADVICE = "Set TORCHDYNAMO_VERBOSE="
"""Start of the advice at the end of every error of torch.compile
(torch/_dynamo/exc.py, 2.6 to 2.13)."""


def _telling_line(text: str) -> str:
    """Return the line that states the error: the last one; for torch.compile, whose
    message ends in advice, the one after ``backend='...' raised:`` (2.1 to 2.5) or
    the first one; for TorchScript's interpreter, whose last line may be only
    ``RuntimeError:``, the one that it marks."""
    lines = []
    for line in text.strip().split("\n"):
        if line.strip():
            lines.append(line.strip())
    for line, after in itertools.pairwise(lines):
        if line.startswith("backend=") and line.endswith("raised:"):
            return after[:300]
    if any(line.startswith(_ADVICE) for line in lines):
        return lines[0][:300]
    if len(lines) > 1 and lines[-1].endswith("Error:"):
        marked = []
        for line, under in itertools.pairwise(lines):
            if under.endswith("<--- HERE"):
                marked.append(line)
        if marked:
            return (
                f"TorchScript's interpreter fails without a word at {marked[-1]}"[
                    :300
                ]
            )
        return lines[-2][:300]
    if lines:
        return lines[-1][:300]
    return ""
