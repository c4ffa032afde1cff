"""Two ways to run ``fusiondoc ARGS``: in this process, which is fast, and as the
process that a user starts.

Both take the same arguments and give the same result, so that a test changes from
one to the other by the name of its fixture: ``fusiondoc`` (in this process) or
``fusiondoc_process``. A real process is for what only a process has: signals,
closed streams, pipes, start time, what is imported, the status of the interpreter.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""``run(*args, cwd=None, env=None, input=None)``: exit status, stdout and stderr of
``fusiondoc ARGS``."""


def runs_of_processes(folder: Path, cache: Path) -> Run:
    """Every call starts a process, in ``folder`` unless ``cwd`` says otherwise."""

    def run(
        *args: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **options: object,
    ):
        return subprocess.run(
            [sys.executable, "-m", "fusiondoc", *map(str, args)],
            cwd=str(cwd or folder),
            env=_environment(cache, env),
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
            **options,  # type: ignore[call-overload]
        )

    return run


def runs_in_this_process(folder: Path, cache: Path) -> Run:
    """Every call is ``main()`` of the command line, with its own streams, folder
    and environment.

    An exception that ``main()`` does not turn into a message is not caught: it is a
    fault, and the test fails with its traceback.
    """

    def run(
        *args: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
    ):
        command = list(map(str, args))
        with _standing_in(cwd or folder, _environment(cache, env)):
            encoding, errors = _encoding()
            out, err = (
                _stream(encoding, errors),
                _stream(encoding, "backslashreplace"),
            )
            with _streams(_stream(encoding, errors, input or ""), out, err):
                status = _status_of_main(command)
        return subprocess.CompletedProcess(command, status, _text(out), _text(err))

    return run


def run_in_a_fork(
    arguments: Sequence[object],
    folder: Path,
    environment: Mapping[str, str],
    stdin: int,
    seconds: float,
) -> subprocess.CompletedProcess[str]:
    """``fusiondoc ARGUMENTS`` in a fork of this process, which has it imported: for
    what may never end.

    Raises:
        TimeoutExpired: it took longer, and was ended with its children.
    """
    command = list(map(str, arguments))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                os.setsid()
                for number, given in enumerate((stdin, out.fileno(), err.fileno())):
                    os.dup2(given, number)
                sys.stdin, sys.stdout, sys.stderr = (
                    os.fdopen(0),
                    os.fdopen(1, "w"),
                    os.fdopen(2, "w"),
                )
                with _standing_in(folder, environment):
                    status = _status_of_main(command)
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(status)
        ended = os.pidfd_open(pid)
        late = not select.select([ended], [], [], seconds)[0]
        os.close(ended)
        if late:
            os.killpg(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if late:
            raise subprocess.TimeoutExpired(command, seconds)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            command, status, out.read().decode(), err.read().decode()
        )


def _environment(cache: Path, extra: Mapping[str, str] | None) -> dict[str, str]:
    """That of the tests without what steers torch, fusiondoc or CI; ``extra`` comes
    last."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTORCH_", "FUSIONDOC_", "GITHUB_"))
    }
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )
    environment["FUSIONDOC_CACHE"] = str(cache)
    environment.setdefault("COLUMNS", "80")
    environment.update(extra or {})
    return environment


def _encoding() -> tuple[str, str]:
    """Encoding and error handler that Python would give its standard streams in
    this environment."""
    name, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    return name or "utf-8", errors or "strict"


def _status_of_main(command: list[str]) -> int:
    # Not at the top: conftest.py imports this file before coverage is measured.
    from fusiondoc.cli import main

    try:
        main(command)
    except SystemExit as stop:
        return (
            stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        )
    raise AssertionError("main() ends by SystemExit")


@contextlib.contextmanager
def _standing_in(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    before, was = dict(os.environ), Path.cwd()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(was)


@contextlib.contextmanager
def _streams(
    stdin: io.TextIOWrapper, stdout: io.TextIOWrapper, stderr: io.TextIOWrapper
) -> Iterator[None]:
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = stdin, stdout, stderr
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def _stream(encoding: str, errors: str, content: str = "") -> io.TextIOWrapper:
    """A text stream over bytes, as the real ones are: a command may write either to
    it."""
    return io.TextIOWrapper(
        io.BytesIO(content.encode(encoding)), encoding, errors, newline="\n"
    )


def _text(stream: io.TextIOWrapper) -> str:
    """All that was written, with line ends as a process's text output has them."""
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
