"""Running a target through the runner itself, for tests that need more than the
command line shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import warm_torch

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest, parse_target
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import FusiondocError
from fusiondoc.runner.child import Supervised
from fusiondoc.runner.launch import run


def write(folder: Path, name: str, source: str) -> Path:
    """A file of the user's."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return path


def run_target(
    folder: Path, target: str, **options: Any
) -> tuple[Capture, FusiondocError | None]:
    """Run a target as if from ``folder``: the capture, and the error that its end
    means."""
    options.setdefault("python", Path(sys.executable))
    options.setdefault("timeout", 120)
    request = RunRequest(target=parse_target(target, folder), cwd=folder, **options)
    capture = run(request, CaptureStore(folder))
    return capture, capture.failure()


def records_of(capture: Capture, kind: str | None = None) -> list[dict[str, Any]]:
    """The probe's records as they are in the file now, of one kind or all; a cut
    last line is left out."""
    try:
        lines = (
            (capture.path / "records.jsonl")
            .read_text(encoding="utf-8")
            .splitlines()
        )
    except FileNotFoundError:
        return []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [one for one in found if kind in (None, one["record"])]


def log_of(capture: Capture) -> str:
    return capture.log_path.read_bytes().decode("utf-8", "replace")


_APART = """
import os, runpy, sys
for number, path in ((1, sys.argv[1]), (2, sys.argv[2])):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
del sys.argv[:3]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def python_apart(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """``python()`` with both streams apart and variables of its own; with ``code``,
    as ``python -c CODE``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start, out, err = folder / "start.py", folder / "out", folder / "err"
        start.write_text(_APART)
        if code is not None:
            (folder / "code.py").write_text(code)
            arguments = (folder / "code.py", *arguments)
        done = python(start, out, err, *arguments, cwd=cwd, env=env)
        done.stdout += out.read_text(errors="replace")
        done.stderr = err.read_text(errors="replace")
        return done


def subprocess_of_forks() -> types.SimpleNamespace:
    """``subprocess`` of a script under test: what it runs in this Python is a fork
    (``warm_torch.py``)."""

    def run(
        command: Sequence[object], **options: Any
    ) -> subprocess.CompletedProcess[Any]:
        executable, *arguments = map(str, command)
        assert executable == sys.executable, command
        if arguments[:2] == ["-m", "fusiondoc"]:
            return subprocess.run(
                [*warm_torch.command(), *arguments[2:]], **options
            )
        done = python_apart(*arguments, env=options.get("env"))
        if not options.get("text"):
            done.stdout, done.stderr = done.stdout.encode(), done.stderr.encode()
        if "stderr" in options:
            options["stderr"].write(done.stderr)
        return done

    return types.SimpleNamespace(**{**vars(subprocess), "run": run})


def uses_forks() -> str:
    """A line of a program that runs models itself: its children are forks, as those
    of the tests."""
    path = warm_torch.server()
    own = f"import sys; sys.path.append({str(Path(__file__).parent)!r}); import warm_torch"
    return f"{own}; warm_torch.use({path!r}); del sys.path[-1]\n" if path else ""


def python(
    *arguments: object,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """``python FILE ARGUMENTS``, a fork of a process that has torch
    (``warm_torch.py``). Both streams are in ``stdout``."""
    command = [sys.executable, *map(str, arguments)]
    printed = b""
    with Supervised(
        command, env or dict(os.environ), cwd or Path.cwd(), None
    ) as child:
        more = b"x"
        while more:
            more = os.read(child.pipe, 1 << 16)
            printed += more
        while child.status is None:
            child.look()
    return subprocess.CompletedProcess(
        command, child.status, printed.decode("utf-8", "replace"), ""
    )
