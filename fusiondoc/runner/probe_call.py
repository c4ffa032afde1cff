"""Starting the probe: its command line, and short calls that only ask for facts."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.runner.child import Child, Ending
from fusiondoc.runner.supervised import NotStarted

PROBE = Path(__file__).resolve().parent.parent / "probe"

_MOST_OUTPUT = 16 << 20
"""Bytes that a call may print; more is no answer of a Python."""

_GIVE_A_PYTHON = "Give the path of a Python interpreter, such as --python .venv/bin/python."


def probe_command(python: Path, spec: Path, records: Path) -> list[str]:
    """The command that runs the probe in ``python``."""
    return [str(python), str(PROBE / "__main__.py"), str(spec), str(records)]


def call_probe(python: Path, spec: dict[str, Any], timeout: float) -> list[dict[str, Any]]:
    """The records of an action that runs no program of the user's; if a signal ended the probe, the last
    one is ``{"record": "died", "signal": name}``.

    Raises:
        UsageError: it is no Python, or one that is too old.
        CannotRun: the probe says that it cannot, or nothing in time.
        KeyboardInterrupt: the user interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as name:
        folder = Path(name)
        spec_path, records_path, log = folder / "spec.json", folder / "records.jsonl", folder / "log"
        spec_path.write_text(json.dumps(spec), encoding="utf-8")
        command = probe_command(python, spec_path, records_path)
        try:
            ending = _run(command, folder, log, timeout)
        except NotStarted as error:
            why = error.strerror
            if error.errno == errno.ENOENT and python.exists():
                why = "what its first line (#!) names is not there"
            raise UsageError(f"{python} cannot be run: {why}", _GIVE_A_PYTHON) from None
        lines = records_path.read_bytes().split(b"\n") if records_path.exists() else []
        last = _last_line(log)
    records = [json.loads(line) for line in lines if line.endswith(b"}")]
    _check(python, ending, timeout)
    for record in records:
        if record["record"] == "error":
            raise CannotRun(record["message"], record.get("hint"))
    if ending.signal is not None and records:
        return [*records, {"record": "died", "signal": ending.signal}]
    if ending.exit_status != 0:
        said = last or (f"died of {ending.signal}" if ending.signal else f"exit status {ending.exit_status}")
        raise UsageError(f"{python} cannot run the probe: {said}", "It needs Python 3.7 or newer (--python).")
    return records


def _run(command: list[str], folder: Path, log: Path, timeout: float) -> Ending:
    if hasattr(os, "killpg"):
        return Child(command, os.environ, folder, log, timeout, limit=_MOST_OUTPUT).run()
    # Windows has no sessions and process groups of this kind.
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
    except subprocess.TimeoutExpired:
        return Ending(timed_out=True)
    except OSError as error:
        raise NotStarted(error.errno, error.strerror, command[0]) from None
    return Ending(done.returncode)


def _check(python: Path, ending: Ending, timeout: float) -> None:
    if ending.log_error is not None:
        raise CannotRun(
            f"{python} could not be asked: {ending.log_error.strerror} in {tempfile.gettempdir()}",
            "Free some space there, or set TMPDIR to another folder.",
        )
    if ending.interrupted:
        raise KeyboardInterrupt
    if ending.too_much:
        raise UsageError(
            f"{python} printed {ending.log_bytes >> 20} MB and did not answer as a Python interpreter",
            _GIVE_A_PYTHON,
        )
    if ending.timed_out:
        raise CannotRun(
            f"{python} did not answer in {timeout:g} s and was stopped",
            f"Try it by hand: {python} -c 'import torch'; or choose another interpreter with --python.",
        )


def _last_line(log: Path) -> str:
    """The last line with anything in it, shortened."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4000))
        text = file.read().decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else "?" for c in text.rpartition("\n")[2][:300])
