"""A Python interpreter: calls of the probe in it, and facts about it, found once
through a tiny child and remembered.

The key is the interpreter's path and the variables that select its packages
(PYTHONPATH, PYTHONHOME). The facts are valid as long as the interpreter and torch's
``version.py`` are the same files: checked by ``stat`` alone, so a second run starts
no extra child.

The memory bandwidth of a GPU, measured by the probe and remembered by the GPU's
name.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.model import dataclass
from fusiondoc.model.runs import TriedKnob
from fusiondoc.model.typed_fields import read_object
from fusiondoc.runner import Cache, remember_bandwidth, stamp
from fusiondoc.runner.child import Child, Ending, NotStarted
from fusiondoc.whole_files import open_regular, read_within

PROBE = Path(__file__).resolve().parent.parent / "probe"

_MOST_OUTPUT = 16 << 20
"""Most bytes that a call may print; more cannot be the answer of a Python."""

_HOME_OF_ANOTHER = (
    "PYTHONHOME is set, which gives every Python the library of one: unset it, or give a script that unsets"
    " it and PYTHONPATH before it runs that Python (--python)."
)
_GIVE_A_PYTHON = (
    "Give the path of a Python interpreter, such as --python .venv/bin/python."
)


def probe_command(python: Path, spec: Path, records: Path) -> list[str]:
    """Return the command that runs the probe in ``python``."""
    return [str(python), str(PROBE / "__main__.py"), str(spec), str(records)]


def launcher_command(
    python: Path, options: Sequence[str], spec: Path, capture: Path
) -> list[str]:
    """Return the command with which torch's own launcher starts the probe of each
    rank."""
    start = str(PROBE / "rank_process.py")
    return [
        str(python),
        "-m",
        "torch.distributed.run",
        *options,
        start,
        str(spec),
        str(capture),
    ]


def call_probe(
    python: Path, spec: dict[str, Any], timeout: float
) -> list[dict[str, Any]]:
    """Return the records of an action that runs no user program; if a signal ended
    the probe, the last one is ``{"record": "died", "signal": name}``.

    Raises:
        UsageError: it is no Python, or one that is too old.
        CannotRun: the probe reports that it cannot, or does not answer in time.
        KeyboardInterrupt: the user interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="fusiondoc-") as name:
        folder = Path(name)
        spec_path, records_path, log = (
            folder / "spec.json",
            folder / "records.jsonl",
            folder / "log",
        )
        spec_path.write_text(json.dumps(spec), encoding="utf-8")
        command = probe_command(python, spec_path, records_path)
        try:
            ending = _run(command, folder, log, timeout)
        except NotStarted as error:
            why = error.strerror
            if error.errno == errno.ENOENT and python.exists():
                why = "what its first line (#!) names is not there"
            raise UsageError(
                f"{python} cannot be run: {why}", _GIVE_A_PYTHON
            ) from None
        lines = []
        if records_path.exists():
            lines = read_within(records_path).split(b"\n")
        last = _last_line(log)
    records = []
    for line in lines:
        if line.endswith(b"}"):
            records.append(json.loads(line))
    _check(python, ending, timeout)
    for record in records:
        if record["record"] == "error":
            raise CannotRun(record["message"], record.get("hint"))
    if ending.signal is not None and records:
        return [*records, {"record": "died", "signal": ending.signal}]
    if ending.exit_status != 0:
        reason = last or (
            f"died of {ending.signal}"
            if ending.signal
            else f"exit status {ending.exit_status}"
        )
        if "PYTHONHOME" in os.environ:
            hint = _HOME_OF_ANOTHER
        else:
            hint = "It needs Python 3.7 or newer (--python)."
        raise UsageError(f"{python} cannot run the probe: {reason}", hint)
    return records


def _run(command: list[str], folder: Path, log: Path, timeout: float) -> Ending:
    if hasattr(os, "killpg"):
        return Child(
            command, os.environ, folder, log, timeout, limit=_MOST_OUTPUT
        ).run()
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
            f"{python} did not run: {ending.log_error.strerror} in {tempfile.gettempdir()}",
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
    """The last non-empty line, shortened."""
    with open_regular(log) as file:
        file.seek(max(0, log.stat().st_size - 4000))
        text = file.read().decode("utf-8", "replace").strip()
    parts = []
    for c in text.rpartition("\n")[2][:300]:
        parts.append(c if c.isprintable() else "?")
    return "".join(parts)


ANSWER_SECONDS = 60
"""Seconds that an interpreter may take to start and print its facts; torch is not
imported for it."""

_PATH_VARIABLES = ("PYTHONPATH", "PYTHONHOME")


@dataclass(frozen=True)
class Interpreter:
    """``torch`` is the version or None without torch; ``torch_cuda`` the CUDA
    version of the build or None."""

    path: Path
    python: str
    platform: str
    torch: str | None
    torch_cuda: str | None
    version_file: Path | None

    def require_torch(self) -> str:
        """The torch version; CannotRun without torch."""
        if self.torch is None:
            raise CannotRun(
                f"{self.path} (Python {self.python}) has no torch",
                "Install it there (pip install torch), or choose another interpreter with --python.",
            )
        return self.torch


@dataclass(frozen=True)
class TriedFuser:
    """Whether a small function was fused under a fuser, the reason, and on which
    device."""

    fuser: str
    available: bool
    why: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class TorchFound:
    """Python, torch and the GPU of an interpreter that has imported torch
    (``torch_environment`` of probe/environment.py)."""

    python: str
    executable: str
    platform: str
    machine: str
    torch: str
    cuda: str | None = None
    hip: str | None = None
    llvm: bool = False
    """torch was built with LLVM, so that it can compile groups for the CPU."""
    gpu: str | None = None
    capability: tuple[int, ...] | None = None
    gpu_count: int | None = None
    driver: str | None = None
    gpu_memory_gb_per_s: float | None = None
    """In 10^9 bytes a second, from the driver's clock rate and bus width."""


@dataclass(frozen=True)
class Tried:
    """The results of importing torch and trying its fusers and knobs."""

    environment: TorchFound
    fusers: tuple[TriedFuser, ...]
    knobs: tuple[TriedKnob, ...]


def find_python(text: str | Path) -> Path:
    """The absolute path of ``--python``: a path (``./py`` is the file of this
    folder), or a name on PATH; UsageError if there is none.

    Links are not resolved: the link in a virtual environment selects its packages.

    Args:
        text: as the user wrote it. A Path has lost a ``./``, so one without a folder is a file of this folder
            if there is one.
    """
    name = str(text)
    is_path = (
        os.sep in name
        or name.startswith("~")
        or (isinstance(text, Path) and text.is_file())
    )
    # Path.expanduser raises for a user that does not exist.
    found = os.path.expanduser(name) if is_path else shutil.which(name)  # noqa: PTH111
    path = Path(found).absolute() if found else Path(name)
    if path.is_dir():
        inside = path / "bin" / "python"
        if inside.exists():
            hint = f"Did you mean {inside}?"
        else:
            hint = "Give the path of its python."
        raise UsageError(f"--python {name} is a folder", hint)
    if path.is_symlink() and not path.exists():
        raise UsageError(
            f"{path} is a link to {path.readlink()}, which is not there",
            "Make the environment again, or give another interpreter.",
        )
    if not found or not path.exists():
        hint = "Give the path, such as --python .venv/bin/python."
        if not is_path and path.is_file():
            hint = f"It is no command on the PATH. Did you mean .{os.sep}{name}?"
        raise UsageError(f"there is no interpreter '{name}'", hint)
    if not os.access(path, os.X_OK):
        raise UsageError(
            f"{path} cannot be executed", "Give the path of a Python interpreter."
        )
    return path


def inspect(python: str | Path) -> Interpreter:
    """Return the facts on an interpreter; UsageError if it is no Python that can
    run the probe."""
    path = find_python(python)
    key = _key(path)
    cache = Cache("interpreters")
    facts = cache.get(key, _stamps)
    if facts is None:
        records = call_probe(path, {"action": "facts"}, timeout=ANSWER_SECONDS)
        facts = None
        for record in records:
            if record["record"] == "facts":
                facts = record
                break
        if facts is None:
            raise UsageError(
                f"{path} did not answer as a Python interpreter",
                "Give the path of a python.",
            )
        # Without torch there is no file whose change would show its installation:
        # try again next time.
        if facts["version_file"]:
            cache.put(key, _stamps(facts), facts)
    return Interpreter(
        path=path,
        python=facts["python"],
        platform=facts["platform"],
        torch=facts["torch"],
        torch_cuda=facts["torch_cuda"],
        version_file=Path(facts["version_file"]) if facts["version_file"] else None,
    )


def try_everything(python: str | Path, fresh: bool = False) -> Tried:
    """Import torch in that interpreter and try every fuser and knob (a few
    seconds), or return the remembered results.

    Args:
        fresh: try again, because the state of the GPU driver may have changed.

    Raises:
        CannotRun: there is no torch, or it cannot be imported.
    """
    interpreter = inspect(python)
    interpreter.require_torch()
    key = [
        *_key(interpreter.path),
        os.environ.get("CUDA_VISIBLE_DEVICES"),
        Path("/dev/nvidiactl").exists(),
    ]
    cache = Cache("tried")
    tried = None if fresh else cache.get(key, _stamps)
    if tried is None:
        records = call_probe(interpreter.path, {"action": "knobs"}, timeout=300)
        tried = {
            "environment": next(
                (record for record in records if record["record"] == "environment"),
                None,
            ),
            "fusers": _fusers(records),
            "knobs": [record for record in records if record["record"] == "knob"],
            "version_file": str(interpreter.version_file),
        }
        cache.put(key, _stamps(tried), tried)
    environment = read_object(TorchFound, tried["environment"])
    if environment is None:
        raise CannotRun(
            f"torch of {interpreter.path} did not report its version",
            f"See if it works: {interpreter.path} -c 'import torch'",
        )
    fusers = (read_object(TriedFuser, row) for row in tried["fusers"])
    knobs = (read_object(TriedKnob, row) for row in tried["knobs"])
    return Tried(
        environment,
        tuple(fuser for fuser in fusers if fuser is not None),
        tuple(knob for knob in knobs if knob is not None),
    )


def _fusers(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the fusers; one during whose trial the probe died gets a
    row with that reason."""
    names = ("fuser", "available", "why", "device")
    rows = []
    for record in records:
        if record["record"] == "available":
            rows.append({name: record[name] for name in names})
    known = {row["fuser"] for row in rows}
    died = None
    for record in records:
        if record["record"] == "died":
            died = record["signal"]
            break
    for record in records:
        if record["record"] == "trying" and record["fuser"] not in known:
            why = f"a small function under it ended the process ({died or 'no answer'})"
            rows.append(
                {
                    "fuser": record["fuser"],
                    "available": False,
                    "why": why,
                    "device": None,
                }
            )
    return rows


def _key(path: Path) -> list[Any]:
    return [
        str(path),
        stamp(path),
        *(os.environ.get(name) for name in _PATH_VARIABLES),
    ]


def _stamps(facts: Mapping[str, Any]) -> list[Any]:
    """The files whose change invalidates ``facts``: torch's version file, and the
    probe itself."""
    return [
        stamp(Path(facts["version_file"])),
        max(path.stat().st_mtime_ns for path in PROBE.glob("*.py")),
    ]


@dataclass(frozen=True)
class CopyBandwidth:
    """GB/s (10^9 bytes): read plus written by a copy within the GPU's memory, for
    the median copy."""

    gpu: str
    gb_per_s: float
    copied_bytes: int


def measure_bandwidth(python: str | Path) -> CopyBandwidth:
    """Let the probe copy within the GPU's memory (a second or two), and remember
    the result.

    Raises:
        CannotRun: there is no torch, no GPU, or the probe died.
    """
    interpreter = inspect(python)
    interpreter.require_torch()
    records = call_probe(interpreter.path, {"action": "bandwidth"}, timeout=300)
    record = next(
        (record for record in records if record["record"] == "bandwidth"), None
    )
    if record is None:
        died = next(
            (record["signal"] for record in records if record["record"] == "died"),
            "no answer",
        )
        raise CannotRun(
            f"the copy that measures the bandwidth did not end ({died})",
            "See whether another program fills the GPU; or give the figure: --peak GB_PER_S.",
        )
    found = CopyBandwidth(record["gpu"], record["gb_per_s"], record["copied_bytes"])
    value = {
        "gb_per_s": found.gb_per_s,
        "copied_bytes": found.copied_bytes,
        "python": str(interpreter.path),
    }
    remember_bandwidth(found.gpu, value)
    return found
