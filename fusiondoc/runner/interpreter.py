"""Facts about a Python interpreter, found once through a tiny child and remembered.

They are remembered by the interpreter's path and what decides its packages (PYTHONPATH, PYTHONHOME), and hold
as long as the interpreter and torch's ``version.py`` are the same files: checked by ``stat`` alone, so a
second run starts no extra child.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from fusiondoc.captures.json_fields import read_object
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.runner.probe_call import PROBE, call_probe
from fusiondoc.runner.remembered import Cache, stamp

ANSWER_SECONDS = 60
"""How long an interpreter may take to start and tell its facts; torch is not imported for it."""

_PATH_VARIABLES = ("PYTHONPATH", "PYTHONHOME")


@dataclass(frozen=True)
class Interpreter:
    """``torch`` is the version or None without torch; ``torch_cuda`` the CUDA version of the build or
    None."""

    path: Path
    python: str
    platform: str
    torch: str | None
    torch_cuda: str | None
    torch_hip: str | None
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
    """Whether a small function fused under a fuser, why (not), and on which device."""

    fuser: str
    available: bool
    why: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class Tried:
    """What was found by importing torch and trying: the probe's ``environment`` record, the fusers, and its
    records on knobs."""

    environment: Mapping[str, Any]
    fusers: tuple[TriedFuser, ...]
    knobs: tuple[Mapping[str, Any], ...]


def find_python(text: str | Path) -> Path:
    """The absolute path of ``--python``: a path (``./py`` is the file of this folder), or a name on PATH;
    UsageError if there is none.

    Links are kept: that of a virtual environment is what selects its packages.

    Args:
        text: as the user wrote it. A Path has lost a ``./``, so one without a folder is a file of this folder
            if there is one.
    """
    name = str(text)
    is_path = os.sep in name or name.startswith("~") or (isinstance(text, Path) and text.is_file())
    # Path.expanduser raises for a user that does not exist.
    found = os.path.expanduser(name) if is_path else shutil.which(name)  # noqa: PTH111
    path = Path(found).absolute() if found else Path(name)
    if path.is_dir():
        inside = path / "bin" / "python"
        hint = f"Did you mean {inside}?" if inside.exists() else "Give the path of its python."
        raise UsageError(f"--python {name} is a folder", hint)
    if path.is_symlink() and not path.exists():
        raise UsageError(
            f"{path} is a link to {os.readlink(path)}, which is not there",
            "Make the environment again, or give another interpreter.",
        )
    if not found or not path.exists():
        hint = "Give the path, such as --python .venv/bin/python."
        if not is_path and path.is_file():
            hint = f"It is no command on the PATH. Did you mean .{os.sep}{name}?"
        raise UsageError(f"there is no interpreter '{name}'", hint)
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} cannot be executed", "Give the path of a Python interpreter.")
    return path


def inspect(python: str | Path) -> Interpreter:
    """The facts on an interpreter; UsageError if it is no Python that can run the probe."""
    path = find_python(python)
    key = _key(path)
    cache = Cache("interpreters")
    facts = cache.get(key, _stamps)
    if facts is None:
        records = call_probe(path, {"action": "facts"}, timeout=ANSWER_SECONDS)
        facts = next((record for record in records if record["record"] == "facts"), None)
        if facts is None:
            raise UsageError(f"{path} did not answer as a Python interpreter", "Give the path of a python.")
        # Without torch there is no file whose change would tell of its installation: ask again next time.
        if facts["version_file"]:
            cache.put(key, _stamps(facts), facts)
    return Interpreter(
        path=path,
        python=facts["python"],
        platform=facts["platform"],
        torch=facts["torch"],
        torch_cuda=facts["torch_cuda"],
        torch_hip=facts["torch_hip"],
        version_file=Path(facts["version_file"]) if facts["version_file"] else None,
    )


def try_everything(python: str | Path, fresh: bool = False) -> Tried:
    """Import torch there and try every fuser and knob (a few seconds), or remember what came of it.

    Args:
        fresh: try again, because what a GPU driver gives may have changed.

    Raises:
        CannotRun: there is no torch, or it cannot be imported.
    """
    interpreter = inspect(python)
    interpreter.require_torch()
    key = [*_key(interpreter.path), os.environ.get("CUDA_VISIBLE_DEVICES"), Path("/dev/nvidiactl").exists()]
    cache = Cache("tried")
    tried = None if fresh else cache.get(key, _stamps)
    if tried is None:
        records = call_probe(interpreter.path, {"action": "knobs"}, timeout=300)
        tried = {
            "environment": next((one for one in records if one["record"] == "environment"), {}),
            "fusers": _fusers(records),
            "knobs": [one for one in records if one["record"] == "knob"],
            "version_file": str(interpreter.version_file),
        }
        cache.put(key, _stamps(tried), tried)
    fusers = (read_object(TriedFuser, row) for row in tried["fusers"])
    return Tried(tried["environment"], tuple(one for one in fusers if one is not None), tuple(tried["knobs"]))


def _fusers(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the fusers; one under which the probe itself died says so."""
    names = ("fuser", "available", "why", "device")
    rows = [{name: one[name] for name in names} for one in records if one["record"] == "available"]
    known = {row["fuser"] for row in rows}
    died = next((one["signal"] for one in records if one["record"] == "died"), None)
    for one in records:
        if one["record"] == "trying" and one["fuser"] not in known:
            why = f"a small function under it ended the process ({died or 'no answer'})"
            rows.append({"fuser": one["fuser"], "available": False, "why": why, "device": None})
    return rows


def _key(path: Path) -> list[Any]:
    return [str(path), stamp(path), *(os.environ.get(name) for name in _PATH_VARIABLES)]


def _stamps(facts: Mapping[str, Any]) -> list[Any]:
    """What must be as it was for ``facts`` to hold: torch's version file, and the probe itself."""
    return [stamp(Path(facts["version_file"])), max(path.stat().st_mtime_ns for path in PROBE.glob("*.py"))]
