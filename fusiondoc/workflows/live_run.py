"""A capture of this process: its fusers' messages inside a ``with`` block, and the
report of it."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from fusiondoc.captures.capture import RECORDS, REQUEST, SCHEMA, Capture, write_json
from fusiondoc.captures.commit import commit_of
from fusiondoc.captures.ending import Result, RunSeconds
from fusiondoc.captures.model_identity import check_model_name, of_file
from fusiondoc.captures.request import IN_PROCESS, KeptRequest, KeptTarget
from fusiondoc.captures.store import CaptureStore, cannot_write, while_writing
from fusiondoc.captures.trust import sign
from fusiondoc.errors import CannotRun, UsageError, did_you_mean
from fusiondoc.fuser_knobs.checks import DUMP, JIT_LOG
from fusiondoc.fusers import (
    FUSER_OF_KIND,
    FUSERS,
    facts_of,
    fuser_of_dumps,
    requests,
)
from fusiondoc.model.report import Report
from fusiondoc.probe import (
    BEFORE,
    FUSER,
    RUNNING,
    environment,
    live_capture,
    te_plans,
)
from fusiondoc.probe.frontends import FusedModules
from fusiondoc.probe.fusers import (
    compiler_watch,
    off_in_process,
    switched_on,
    write_compiled,
)
from fusiondoc.probe.live_capture import LateWatch
from fusiondoc.probe.log_and_records import Records
from fusiondoc.probe.own_switches import OwnSwitches
from fusiondoc.probe.program_watch import ProgramWatch
from fusiondoc.probe.switch_watch import SwitchWatch
from fusiondoc.runner.capped_log import WatchedLog
from fusiondoc.runner.run_variables import run_environment
from fusiondoc.version import __version__
from fusiondoc.views.program_by_itself import sentence
from fusiondoc.whole_files import open_regular
from fusiondoc.workflows.load import report_of

LOG_LIMIT = 1024
"""Most MiB of a log that are kept, as for a run in a child."""
_LOOK_SECONDS = 0.2

_RUNNING = threading.Lock()
_entered_at = ""
"""The line at which the running capture was entered: only one can run, as
descriptors 1 and 2 belong to the whole process."""


class LiveRun:
    """Capture of the fusers' messages in this process inside a ``with`` block; see
    :func:`fusiondoc.capture`.

    Attributes:
        path: the folder of the capture; ``fusiondoc parse PATH`` reports it again, in any process.
        ended: True once the block was left.
        log: a file with everything written to descriptors 1 and 2 inside the block,
            in true order; a part of it if it is long.
    """

    path: Path
    log: Path
    ended = False

    def __init__(
        self,
        folder: Path | None,
        fuser: str,
        dumps: Sequence[str],
        log_limit: int = LOG_LIMIT,
        name: str | None = None,
        keep: bool = False,
        model_name: str | None = None,
    ) -> None:
        if fuser not in requests():
            raise UsageError(
                f"unknown fuser '{fuser}'", did_you_mean(fuser, requests())
            )
        self._store = CaptureStore(
            folder, name=name, keep=keep, notify=self._print_line
        )
        self._fuser = fuser
        if log_limit < 1:
            raise UsageError(
                f"log_limit={log_limit}", "It is a number of MiB, 1 at least."
            )
        self._dumps = tuple(dumps)
        self._model = None if model_name is None else check_model_name(model_name)
        self._log_limit = log_limit << 20
        self._notes: list[str] = []
        self._undo: contextlib.ExitStack | None = None
        self._report: Report | None = None
        self._torch: Any = None
        self._switched_on: str | None = None

    def _print_line(self, line: str) -> None:
        if line.startswith("note: "):
            self._notes.append(line[len("note: ") :])
        else:
            self._notes.append(line)

    def __enter__(self) -> LiveRun:
        """Start to record.

        Raises:
            UsageError: another capture of this process has not ended, or this one has; or nothing can be
                written.
            CannotRun: there is no torch.
        """
        global _entered_at
        if self.ended:
            raise UsageError(
                "this capture has ended; each block needs its own",
                "with fusiondoc.capture() as run:",
            )
        if not _RUNNING.acquire(blocking=False):
            raise UsageError(
                f"a capture of this process is running already (entered at {_entered_at})",
                "The file descriptors that it records belong to the whole process: leave that block first. "
                "One block may run several models.",
            )
        undo = contextlib.ExitStack()
        try:
            undo.callback(_RUNNING.release)
            caller = _caller(sys._getframe(1))
            _entered_at = _caller_line(caller)
            self._model = self._model or _model_at(caller)
            self._start(_entered_at, undo)
        except BaseException:
            undo.close()
            raise
        self._undo = undo
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore everything; an exception of the block propagates."""
        undo, self._undo = self._undo, None
        if undo is None:
            return
        self.ended = True
        undo.close()
        if (
            os.getpid() != self._process
        ):  # a fork inside the block: the parent keeps the capture
            return
        with contextlib.suppress(OSError):
            self._finish(kind)

    @property
    def report(self) -> Report:
        """The report, made at the first access. Its numbers are those of
        ``fusiondoc parse PATH``.

        Raises:
            UsageError: the block has not ended.
        """
        if not self.ended:
            raise UsageError(
                "there is no report before the block ends",
                "Read run.report after the with statement.",
            )
        if self._report is None:
            self._report = report_of(Capture(self.path))
        return self._report

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on settings that this torch does not take at run time, and on how
        to set them before it starts."""
        return (*self._notes, *(self._after() if self.ended else ()))

    def __repr__(self) -> str:
        if self.ended:
            state = "ended"
        elif self._undo is not None:
            state = "running"
        else:
            state = "not started"
        return f"<fusiondoc capture, {state}: {getattr(self, 'path', self._store.folder)}>"

    # -- entering -------------------------------------------------------------------------------------------

    def _start(self, caller_line: str, undo: contextlib.ExitStack) -> None:
        try:
            torch = self._torch = live_capture.import_torch()
        except ImportError as error:
            raise CannotRun(
                f"this Python has no torch: {error}",
                "Install it (pip install torch), or read a saved log: fusiondoc.parse('train.log').",
            ) from None
        switches = live_capture.LogSwitches(torch)
        self._switched_on = switched_on(torch)
        level, variables, notes = self._wanted(torch, switches)
        self._notes += notes
        self.path = self._new_folder()
        self.log = self.path / "log"
        self._began = time.perf_counter()
        self._process = os.getpid()
        request = KeptRequest(
            schema=SCHEMA,
            fusiondoc=__version__,
            created=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            cwd=str(Path.cwd()),
            target=KeptTarget(caller_line, IN_PROCESS),
            model=self._model,
            environment_set={JIT_LOG: level, **variables},
            python=sys.executable,
            python_version=platform.python_version(),
            torch=str(torch.__version__),
            commit=commit_of(Path.cwd()),
            host=platform.node() or None,
        ).as_json()
        request["options"] = {
            "dumps": list(self._dumps)
        }  # no knob or dump was requested
        try:
            write_json(self.path / REQUEST, request)
            sign(self.path, REQUEST)
            self.log.touch()
        except OSError as error:
            raise cannot_write(error, self.path) from None
        others = threading.active_count() - 1
        if others:
            self._notes.append(
                f"{others} other thread{'s were' if others > 1 else ' was'} running: what they print and"
                " compile inside the block is in the log too"
            )
        undo.enter_context(while_writing(self.path))
        undo.enter_context(switches.on(level, variables))
        written = contextlib.ExitStack()
        undo.callback(self._in_this_process, written.close)
        self._records = Records(str(self.path / RECORDS))
        self._aot = LateWatch(torch, self._records)
        self._modules = FusedModules(torch, self._records, self._aot)
        for what in off_in_process(torch):
            if what != FUSER or self._switched_on == "none":
                self._records.write("switched_off", what=what, when=BEFORE)
        self._switches = SwitchWatch(
            torch, self._records, self._switched_on, own=OwnSwitches(torch)
        )
        self._switches.stage = RUNNING
        undo.callback(self._switches.stop)
        self._switches.start()
        self._program = ProgramWatch(torch, self._records)
        undo.callback(self._program.stop)
        self._program.start()
        self._te = te_plans.Waiting(self._records)
        undo.callback(self._te.stop)
        self._aot.after_import[te_plans.OPS] = self._te.imported
        undo.callback(self._aot.stop)
        self._aot.start()
        self._compiled = compiler_watch(torch, self._records)
        undo.callback(self._compiled.stop)
        self._compiled.start()
        undo.callback(self._modules.stop)
        self._modules.start(defined=True)
        move = undo.enter_context(
            live_capture.redirected(str(self.log), self._notes.append)
        )
        log = WatchedLog(self.log, self._log_limit, lambda path: move(str(path)))
        written.callback(log.close)
        undo.enter_context(_looked_at(log))

    def _in_this_process(self, do: Callable[[], None]) -> None:
        """Call ``do``, but not in a fork of the program that leaves the block
        too."""
        if os.getpid() == self._process:
            with contextlib.suppress(OSError):
                do()

    def _wanted(
        self, torch: Any, switches: live_capture.LogSwitches
    ) -> tuple[str, dict[str, str], list[str]]:
        """Return the log level, the variables to set in the block, and notes about
        them."""
        version, cuda = str(torch.__version__), torch.version.cuda
        fuser = self._fuser
        if (
            fuser == "auto"
            and self._switched_on is not None
            and _is_chosen_by_name(self._switched_on)
        ):
            fuser = self._switched_on
        # The level in effect, which need not be that of the environment.
        user = {**os.environ, JIT_LOG: switches.level()}
        if facts_of(fuser).switches.log_list is not None:
            return (
                switches.level(),
                {},
                [],
            )  # read when torch is imported: its objects tell the same
        wanted = dict(run_environment(version, cuda, fuser, self._dumps, user).set)
        level = wanted.pop(JIT_LOG)
        notes = []
        if not switches.at_run_time:
            notes.append(
                f"torch {version} reads {JIT_LOG} once; if TorchScript has compiled something before this"
                f" block, set it where the program starts: export {JIT_LOG}='{level}'"
            )
        verbosity = wanted.pop("PYTORCH_JIT_TYPE_VERBOSITY", None)
        if verbosity is not None:
            notes.append(
                "PYTORCH_JIT_TYPE_VERBOSITY is below 3, and torch reads it once: the log lacks types. Set it"
                " where the program starts: export PYTORCH_JIT_TYPE_VERBOSITY=3"
            )
        printing = []
        for own in map(facts_of, (fuser, self._switched_on)):
            if own.switches.dump_variable == DUMP:
                printing.append(own)
        if DUMP in wanted and printing:
            notes.append(
                f"{printing[0].title} reads {DUMP} once, at its first kernel: what it prints goes on after"
                " the block, until the process ends"
            )
        return level, wanted, notes

    def _new_folder(self) -> Path:
        try:
            return self._store.new("block")
        except UsageError as error:
            # A program that would run without the capture must not fail because of
            # it.
            folder = Path(tempfile.mkdtemp(prefix="fusiondoc-"))
            self._notes.append(f"{error.message}; the capture is in {folder}")
            return folder

    # -- leaving --------------------------------------------------------------------------------------------

    def _finish(self, kind: type[BaseException] | None) -> None:
        """Write the facts around the run and its outcome."""
        torch = self._torch
        records = self._records
        self._aot.finish()
        self._modules.finish()
        self._te.end(None)
        self._compiled.finish()
        self._switches.write_own_fuser()
        self._program.finish(block=True)
        self._switches.finish()
        # A CUDA call in a program that has made none would prevent it from forking.
        records.write(
            "environment",
            **environment.torch_environment(
                torch, device=torch.cuda.is_initialized()
            ),
        )
        records.write("target", how=IN_PROCESS, label=_entered_at, signature=None)
        now = switched_on(torch)
        # torch.jit.fuser inside the block switches another one on, and back.
        if now == self._switched_on and not (
            now == "none" and _names_a_group(self.log)
        ):
            records.write(
                "fuser", requested=None, effective=now, live=None, why=None
            )
        if self._compiled.graphs and not _names_a_group(self.log):
            write_compiled(
                records, {"fuser": "auto"}, "the block calls torch.compile"
            )
        records.write("done", seconds=None, own_seconds=None)
        records.close()
        ended_well = kind is None or issubclass(kind, SystemExit)
        Capture(self.path).keep_result(
            Result(
                exit_status=0 if ended_well else 1,
                interrupted=kind is not None
                and issubclass(kind, KeyboardInterrupt),
                seconds=RunSeconds(
                    child=round(time.perf_counter() - self._began, 4)
                ),
                log_bytes=self.log.stat().st_size,
            )
        )
        self._store.done(self.path)

    def _after(self) -> list[str]:
        """Notes on the parts that the report shows to be missing."""
        report = self.report
        own = fuser_of_dumps()
        if (
            any(group.kind in own.kinds for group in report.groups)
            and not report.kernels
        ):
            wanted = run_environment(
                str(self._torch.__version__),
                self._torch.version.cuda,
                own.name,
                self._dumps,
                {},
            ).set.get(DUMP)
            return [
                f"{own.title} had read {DUMP} before this block, so no kernel is in the log. Set it where the"
                f" program starts: export {DUMP}={wanted}"
            ]
        if report.fuser.by_itself is None:
            return []
        return [sentence(report.fuser.by_itself)]


@contextlib.contextmanager
def _looked_at(log: WatchedLog) -> Iterator[None]:
    """Context manager: a thread keeps the log within its limit. A pipe to a thread
    would not work: code that prints while it holds Python's lock would wait for
    that thread for ever."""
    ended = threading.Event()

    def look() -> None:
        with contextlib.suppress(
            OSError
        ):  # a full disk is no reason to stop the program
            while not ended.wait(_LOOK_SECONDS):
                log.look()

    thread = threading.Thread(target=look, name="fusiondoc log", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_chosen_by_name(fuser: str) -> bool:
    """True if the registry has the fuser and "auto" never chooses it."""
    return fuser in FUSERS and not facts_of(fuser).by_default


def _names_a_group(log: Path) -> bool:
    """Whether a fusion group is printed anywhere in the log."""
    if not log.stat().st_size:
        return False
    with (
        open_regular(log) as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return any(
            data.find(kind) >= 0
            for kind in (f"{kind}_".encode() for kind in FUSER_OF_KIND)
        )


def _caller(frame: FrameType | None) -> FrameType | None:
    """The frame that enters the block, outside of fusiondoc."""
    own = (str(Path(__file__).parent.parent) + os.sep, contextlib.__file__)
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame = frame.f_back
    return frame


def _caller_line(frame: FrameType | None) -> str:
    """``train.py:12``."""
    if frame is None:
        return "block"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _model_at(frame: FrameType | None) -> str | None:
    """Name the file and function of the block as a model; None if it is in no file
    (a notebook)."""
    if frame is None or not Path(frame.f_code.co_filename).is_file():
        return None
    function = frame.f_code.co_name
    entry = "" if function.startswith("<") else f":{function}"
    file = frame.f_code.co_filename
    return of_file(Path(file), entry, file + entry, Path.cwd())
