"""One run of a target: a child process, a capture of all that it printed, and a bar
that shows its progress."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from fusiondoc.captures.capture import RECORDS, REQUEST, SCHEMA, Capture, write_json
from fusiondoc.captures.commit import commit_of
from fusiondoc.captures.ending import Result, RunSeconds
from fusiondoc.captures.model_identity import model_of
from fusiondoc.captures.probe_records import (
    LIVE_RECORDS,
    FuserSwitch,
    GrowingRecords,
    LiveRecord,
    Loaded,
)
from fusiondoc.captures.process_records import RANKS
from fusiondoc.captures.request import KeptRequest, KeptTarget, RunRequest
from fusiondoc.captures.store import CaptureLocation, cannot_write, while_writing
from fusiondoc.captures.trust import collect, sign
from fusiondoc.errors import CannotRun, ModelFailed
from fusiondoc.fuser_knobs.checks import check_knob
from fusiondoc.runner.child import Child, Ending, NotStarted
from fusiondoc.runner.interpreter import (
    Interpreter,
    inspect,
    launcher_command,
    probe_command,
)
from fusiondoc.runner.run_variables import (
    RunEnvironment,
    fuser_of,
    quiet_environment,
    run_environment,
    traced_into,
)
from fusiondoc.version import __version__, seconds_since_start
from fusiondoc.whole_files import read_within


class Progress(Protocol):
    """Receives the path of the log of a run, and the records of its progress."""

    def record(self, record: LiveRecord) -> None: ...

    def logs_to(self, log: Path) -> None: ...


ShowProgress = Callable[[str], AbstractContextManager[Progress | None]]
"""Context manager: shows the progress of a run with the given label."""


@contextmanager
def no_progress(label: str) -> Iterator[Progress | None]:
    """Context manager: shows nothing."""
    yield None


@contextmanager
def terminal_progress(label: str) -> Iterator[Progress | None]:
    """Context manager: a bar for a run of ``label`` if stderr is a terminal, else
    None; removed at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    # Only here: rich takes longer to import than the rest of the command line.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar, bar.add_task(f"{label}: starting torch", total=None), label)


class _Bar:
    def __init__(self, bar: Any, task: Any, label: str) -> None:
        self._bar = bar
        self._task = task
        self._label = label
        self._fuser = ""

    def record(self, record: LiveRecord) -> None:
        if isinstance(record, FuserSwitch):
            self._fuser = f" under {record.effective}"
            self._show("loading")
        elif isinstance(record, Loaded):
            self._show("running" if record.how == "script" else "first pass")
        else:
            self._bar.update(self._task, total=record.runs, completed=record.index)
            self._show(record.phase)

    def logs_to(self, log: Path) -> None:
        """Do nothing: a bar does not show the log."""

    def _show(self, doing: str) -> None:
        self._bar.update(
            self._task, description=f"{self._label}{self._fuser}: {doing}"
        )


def run(
    request: RunRequest, store: CaptureLocation, progress: Progress | None = None
) -> Capture:
    """Run ``request`` and return its capture, however the child ended:
    ``Capture.failure`` turns that into an error.

    An interruption (Ctrl-C, SIGTERM, SIGHUP) stops the child; its log is kept, and
    ``interrupted`` of the result is True.

    ``seconds`` in the result: ``child``, wall time of the child from start to end;
    ``probe``, the part of it that a run by hand would not need, which is all but
    importing torch and the program, scripting and the passes; ``startup``, the age
    of this process when the run began (0 unless the request comes from a command
    line); ``first_look``, examining the interpreter, whose result is remembered;
    ``overhead``, the sum of ``startup``, ``probe`` and the time of this function
    while the child did not run, without ``first_look``. Reading the log and
    printing the report are not counted.

    Raises:
        UsageError, CannotRun: the run cannot start, or its log cannot be written.
    """
    if not hasattr(os, "killpg"):
        raise CannotRun(
            "models run on Linux and macOS only: this system has no process groups",
            "Run it there, or in WSL; its logs and captures can be read here: fusiondoc parse LOG",
        )
    began = time.perf_counter()
    startup = seconds_since_start() if request.command else 0.0
    request.check()
    interpreter = inspect(request.python)
    looked = time.perf_counter()
    environment = _environment_of(request, interpreter)
    folder = store.new(request.target.slug)
    environment = traced_into(environment, fuser_of(request), folder)
    try:
        with while_writing(folder):
            kept = _kept(request, interpreter, environment).without_secrets()
            write_json(folder / REQUEST, kept.as_json())
            sign(folder, REQUEST)
            with _spec_file(
                folder / "spec.json", request, "script_args" in kept.masked
            ):
                ending = _run_child(
                    request, environment, interpreter.path, folder, progress
                )
            capture = _finished(request, folder, ending)
            done = capture.records.done
            own = done.own_seconds if done is not None else None
            around = time.perf_counter() - looked - ending.seconds
            overhead = None
            if own is not None:
                overhead = round(startup + around + own, 4)
            seconds = RunSeconds(
                child=round(ending.seconds, 4),
                probe=own,
                overhead=overhead,
                startup=round(startup, 4),
                first_look=round(looked - began, 4),
            )
            capture.keep_result(_result(ending, seconds))
    except NotStarted as error:
        raise CannotRun(
            f"{error.filename} cannot be used to start the run: {error.strerror}",
            "Name another interpreter with --python, or start from a folder that is there.",
        ) from None
    except OSError as error:
        raise cannot_write(error, folder) from None
    store.done(folder)
    collect(capture)
    return capture


def _environment_of(
    request: RunRequest, interpreter: Interpreter
) -> RunEnvironment:
    """The variables of the request's run.

    Raises: UsageError, CannotRun: the interpreter has no torch, or a knob or
        variable is not of that torch.
    """
    torch = interpreter.require_torch()
    for name, value in request.knobs.items():
        check_knob(name, value, torch)
    if request.timing or request.profile:
        environment = quiet_environment(os.environ)
    else:
        environment = run_environment(
            torch,
            interpreter.torch_cuda,
            fuser_of(request),
            request.dumps,
            dict(os.environ),
        )
    return replace(environment, set={**environment.set, **request.variables})


def _finished(request: RunRequest, folder: Path, ending: Ending) -> Capture:
    """Return the capture of a finished run, with its ranks signed.

    Raises:
        OSError: the log could not be written.
        ModelFailed: the run has removed its own capture.
    """
    if ending.log_error is not None:
        raise ending.log_error
    if not (folder / REQUEST).exists():
        raise ModelFailed(
            f"{request.target.label} removed the capture of its own run, {folder}",
            "Run it from another folder, with the full path of the target.",
        )
    capture = Capture(folder)
    for rank in capture.ranks:
        if read_within(rank.path / REQUEST) == read_within(folder / REQUEST):
            sign(rank.path, REQUEST)
    if (
        capture.records.done is None
        and ending.away
        and not capture.records.redirected.in_words
    ):
        capture.add_record("redirected", **ending.away)
    return capture


def _run_child(
    request: RunRequest,
    environment: RunEnvironment,
    python: Path,
    folder: Path,
    progress: Progress | None,
) -> Ending:
    records = folder / RECORDS
    spec = folder / "spec.json"
    command = probe_command(python, spec, records)
    if request.launcher:
        command = launcher_command(python, request.launcher, spec, folder)
    child = Child(
        command,
        environment.child(os.environ),
        request.cwd,
        folder / "log",
        request.timeout,
        records,
        kept=request.log_limit << 20,
    )
    if progress is None:
        return child.run()
    first = folder / RANKS / "0" if request.launcher else folder
    progress.logs_to(first / "log")
    tail = _RecordTail(first / RECORDS, progress.record)
    return child.run(tail.read)


@contextlib.contextmanager
def _spec_file(path: Path, request: RunRequest, secret: bool) -> Iterator[None]:
    """Context manager: the file with the probe's spec. If it holds a secret, only
    this user can read it, and the probe removes it after reading."""
    if secret:
        os.close(os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    write_json(path, _spec(request, secret))
    try:
        yield
    finally:
        if secret:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def _spec(request: RunRequest, secret: bool) -> dict[str, Any]:
    return {
        "action": "run",
        "secret": secret
        and not request.launcher,  # several read it; it goes when they have ended
        "target": request.target.as_json(),
        "cwd": str(request.cwd),
        "overlay": dict(request.overlay),
        "record_inputs": request.record_inputs,
        "results": asdict(request.results) if request.results is not None else None,
        "threads": request.threads,
        **request.options().as_json(),
    }


def _kept(
    request: RunRequest, interpreter: Interpreter, environment: RunEnvironment
) -> KeptRequest:
    return KeptRequest(
        schema=SCHEMA,
        fusiondoc=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        command=request.command,
        cwd=str(request.cwd),
        target=KeptTarget(**request.target.as_json()),
        model=request.model or model_of(request.target, request.cwd),
        options=request.options(),
        environment_set=environment.set,
        environment_user=environment.user,
        merged=environment.merged,
        dropped=environment.dropped,
        notes=environment.notes,
        python=str(interpreter.path),
        python_version=interpreter.python,
        torch=interpreter.torch,
        commit=commit_of(
            request.target.path.parent
            if request.target.path is not None
            else request.cwd
        ),
        host=platform.node() or None,
    )


def _result(ending: Ending, seconds: RunSeconds) -> Result:
    return Result(
        ending.exit_status,
        ending.signal,
        ending.timed_out,
        ending.interrupted,
        seconds,
        ending.log_bytes,
        ending.stopped,
    )


class _RecordTail:
    """Passes on each record of progress once, as soon as its line is complete."""

    def __init__(self, path: Path, handle: Callable[[LiveRecord], None]) -> None:
        self._records: GrowingRecords[LiveRecord] = GrowingRecords(
            path, LIVE_RECORDS
        )
        self._handle = handle

    def read(self) -> None:
        """Pass on the records since the last call."""
        for record in self._records.new():
            self._handle(record)
