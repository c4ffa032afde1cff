"""Results of ``check``, kept together with the content of everything they depend
on.

A result is found by its key: fusiondoc, the run as it was requested, the
interpreter with its torch, the environment variables that torch and libraries read,
and the machine (``key_of``). Several results may have one key; each states the
program's files, the names that would shadow its modules, the installed packages and
the variables that the program reads, with a digest of each, and counts only where
all of them are as they were. A program that looks at more than can be stated is not
kept (``why_not_kept``).
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fusiondoc.captures.probe_records import ProgramInputs
from fusiondoc.captures.request import RunRequest
from fusiondoc.errors import FusiondocError
from fusiondoc.model import dataclass
from fusiondoc.model.report import Report
from fusiondoc.model.typed_fields import object_of
from fusiondoc.reports.json_format import plain, read_report, render
from fusiondoc.runner.interpreter import inspect
from fusiondoc.version import __version__
from fusiondoc.whole_files import open_regular, read_within, write_whole
from fusiondoc.workflows.program_reads import Reads, reads_of

SCHEMA = "fusiondoc.cached/1"
MOST_KEPT = 4
"""Most results of one key: those of a few branches."""
_MOST_BYTES = 128 << 20
"""Most bytes of a kept result."""
_PACKAGE = Path(__file__).resolve().parent.parent

VARIABLES = (
    *(
        "PYTHON",
        "TORCH",
        "PYTORCH",
        "ATEN",
        "CUDA",
        "NV",
        "CUDNN",
        "CUBLAS",
        "NCCL",
        "TRITON",
    ),
    *(
        "OMP_",
        "KMP_",
        "GOMP_",
        "MKL_",
        "OPENBLAS_",
        "DNNL_",
        "ONE",
        "LD_",
        "HF_",
        "PATH",
        "CC",
        "CXX",
    ),
)
"""Prefixes of variables that Python, torch, its compilers and libraries read."""


@dataclass(frozen=True)
class CachedReport:
    """A kept result and when its run was."""

    report: Report
    date: str


def digest_of(value: Any) -> str:
    """A digest of a value of JSON."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, default=str).encode()
    ).hexdigest()[:32]


def key_of(request: RunRequest, environment: Mapping[str, str]) -> dict[str, str]:
    """The parts of the key, each with its digest.

    Raises:
        FusiondocError: there is no such interpreter.
    """
    interpreter = inspect(request.python)
    version_file = interpreter.version_file
    known = {}
    for name, value in environment.items():
        if name.startswith(VARIABLES):
            known[name] = value
    parts: dict[str, Any] = {
        "fusiondoc": [__version__, _own_sources()],
        "target": request.target.as_json(),
        "options": plain(request.options()),
        "more": [str(request.cwd), dict(request.variables), dict(request.overlay)],
        "python": [str(interpreter.path), interpreter.python, interpreter.platform],
        "torch": [
            interpreter.torch,
            interpreter.torch_cuda,
            version_file and _of_file(version_file),
        ],
        "environment": known,
        "machine": _machine(),
        "compiler": _compiler(environment),
    }
    return {name: digest_of(value) for name, value in parts.items()}


@cache
def _own_sources() -> str:
    """A digest of fusiondoc's own files: its version alone does not change in a
    checkout."""
    made = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        made.update(path.read_bytes())
    return made.hexdigest()


def _machine() -> list[Any]:
    """Return the processor with its features, the number of cores that this process
    may use, and the GPUs with their driver."""
    processor = ""
    with contextlib.suppress(OSError):
        lines = (
            Path("/proc/cpuinfo")
            .read_text("utf-8", "replace")
            .partition("\n\n")[0]
            .splitlines()
        )
        processor = "\n".join(
            line
            for line in lines
            if line.startswith(("model name", "flags", "Features"))
        )
    cores = (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count()
    )
    gpus = []
    driver = Path("/proc/driver/nvidia")
    for path in (driver / "version", *sorted(driver.glob("gpus/*/information"))):
        with contextlib.suppress(OSError):
            gpus.append(path.read_text("utf-8", "replace"))
    return [platform.machine(), processor, cores, gpus]


def _compiler(environment: Mapping[str, str]) -> list[Any]:
    """Return the C++ compiler that torch.compile uses (torch 2.13, the option
    ``cpp.cxx`` of its configuration), also to find the vector width; its size and
    time stand for its version."""
    name = environment.get("CXX") or (
        "clang++" if sys.platform == "darwin" else "g++"
    )
    path = shutil.which(name, path=environment.get("PATH"))
    if path is None:
        return [name]
    status = Path(path).resolve().stat()
    return [path, status.st_size, status.st_mtime_ns]


def _of_file(path: Path) -> str | None:
    """A digest of a file's content; None if there is no file."""
    made = hashlib.sha256()
    try:
        with open_regular(path) as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                made.update(block)
    except OSError:
        return None
    return made.hexdigest()


# -- the files and variables that a program depends on -------------------------------------------------------


def why_not_kept(inputs: ProgramInputs | None) -> str | None:
    """Return an input of the program that a kept result cannot record, as it is no
    file, package or variable; None if there is none."""
    if inputs is None:
        return "its run recorded no files"
    if inputs.beyond:
        return f"it uses more than files: {', '.join(inputs.beyond[:3])}"
    for name in _own_python(inputs):
        unknown = _reads(name).unknown
        if unknown is not None:
            return f"it reads what is not recorded ({Path(name).name}, {unknown})"
    return None


def _own_python(inputs: ProgramInputs) -> list[str]:
    return [name for name in inputs.files if name.endswith(".py")]


def _reads(name: str) -> Reads:
    try:
        return reads_of(read_within(Path(name)))
    except OSError:
        return reads_of("")


def state_of(
    inputs: ProgramInputs,
    patterns: Sequence[str],
    environment: Mapping[str, str],
    target: Path | None,
) -> dict[str, Any]:
    """Return everything that a result depends on beside its key, with its present
    state."""
    variables: set[str] = set()
    for name in _own_python(inputs):
        variables.update(_reads(name).variables)
    files = {*inputs.files, *([str(target)] if target is not None else [])}
    stated = {
        "files": sorted(files),
        "shadows": inputs.folders,
        "packages": inputs.packages,
        "variables": sorted(variables),
        "names": list(inputs.names),
    }
    return _present_state(stated, patterns, environment)


def _present_state(
    stated: Mapping[str, Any],
    patterns: Sequence[str],
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Return the present state of the files, folders, packages and variables that a
    result lists by name."""
    names = [str(name) for name in stated["names"]]
    return {
        "files": {name: _of_file(Path(name)) for name in stated["files"]},
        "shadows": {
            folder: _entries(folder, names) for folder in stated["shadows"]
        },
        "packages": {folder: _installed(folder) for folder in stated["packages"]},
        "variables": {
            name: digest_of(environment.get(name)) for name in stated["variables"]
        },
        "more files": {pattern: _matching(pattern) for pattern in patterns},
        "names": names,
    }


def _changed_since(name: str, began: float) -> bool:
    try:
        return Path(name).stat().st_mtime >= began
    except OSError:
        return False


def _entries(folder: str, names: Iterable[str]) -> list[str]:
    """The files and folders from which a module of one of these names would be
    imported."""
    wanted = set(names)
    with contextlib.suppress(OSError):
        found = os.listdir(folder)  # noqa: PTH208 - names alone
        return sorted(name for name in found if name.partition(".")[0] in wanted)
    return []


def _installed(folder: str) -> str:
    """A digest of the names of installed packages, which include their versions."""
    endings = (".dist-info", ".egg-info", ".egg-link", ".pth")
    with contextlib.suppress(OSError):
        names = os.listdir(folder)  # noqa: PTH208 - names alone
        return digest_of(sorted(name for name in names if name.endswith(endings)))
    return ""


def _matching(pattern: str) -> dict[str, str | None]:
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - absolute patterns too
    return {name: _of_file(Path(name)) for name in found}


class CheckCache:
    """The kept results in a folder.

    Args:
        environment: the variables of this process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._environment = environment

    def get(
        self, request: RunRequest, patterns: Sequence[str]
    ) -> CachedReport | None:
        """Return the result of a run whose inputs are unchanged; None if there is
        none."""
        for path in self._paths(request):
            try:
                entry = object_of(read_within(path, _MOST_BYTES))
            except OSError:
                continue
            state = entry.get("state")
            if entry.get("schema") != SCHEMA or not isinstance(state, dict):
                continue
            if self._now(state, patterns) == state and isinstance(
                entry.get("date"), str
            ):
                return self._kept(entry, path)
        return None

    def files_of(self, request: RunRequest) -> set[str]:
        """The files that kept results of a run list, whether or not these still
        exist."""
        found: set[str] = set()
        for path in self._paths(request):
            with contextlib.suppress(OSError):
                state = object_of(read_within(path, _MOST_BYTES)).get("state")
                files = state.get("files") if isinstance(state, dict) else None
                found.update(files if isinstance(files, dict) else ())
        return found

    def put(
        self,
        request: RunRequest,
        patterns: Sequence[str],
        inputs: ProgramInputs,
        kept: CachedReport,
        began: float,
    ) -> None:
        """Keep a result. Nothing is kept in a folder that cannot be written, or if
        an input file was changed after the run began (``began``, seconds since
        1970): the run may have read its earlier content."""
        if any(_changed_since(name, began) for name in inputs.files):
            return
        state = state_of(inputs, patterns, self._environment, request.target.path)
        text = render(kept.report)
        if plain(read_report(text.encode(), "the report")) != plain(kept.report):
            return  # reading the report back would lose a part of it
        entry = {
            "schema": SCHEMA,
            "date": kept.date,
            "state": state,
            "report": json.loads(text),
        }
        folder = self._folder_of(request)
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(
                folder / f"{digest_of(state)}.json", json.dumps(entry).encode()
            )
            for old in self._paths(request)[MOST_KEPT:]:
                old.unlink()

    def _folder_of(self, request: RunRequest) -> Path:
        return self.folder / digest_of(key_of(request, self._environment))

    def _paths(self, request: RunRequest) -> list[Path]:
        """The files of the results with the key of a run, newest first."""
        try:
            found = []
            for path in self._folder_of(request).glob("*.json"):
                found.append((path.stat().st_mtime, path))
        except (OSError, FusiondocError):
            return []
        return [path for _, path in sorted(found, reverse=True)]

    def _now(
        self, state: Mapping[str, Any], patterns: Sequence[str]
    ) -> dict[str, Any] | None:
        """Return the present state of everything that a kept result depends on."""
        try:
            return _present_state(state, patterns, self._environment)
        except (KeyError, TypeError):
            return None

    def _kept(self, entry: Mapping[str, Any], path: Path) -> CachedReport | None:
        try:
            report = read_report(json.dumps(entry["report"]).encode(), str(path))
        except (FusiondocError, KeyError):
            return None
        capture = report.target.capture
        if capture is not None and not Path(capture).is_dir():
            report = replace(report, target=replace(report.target, capture=None))
        return CachedReport(report, str(entry["date"]))
