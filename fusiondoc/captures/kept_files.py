"""Files that a capture keeps beside the log: source files of the program (which ones may be read, too), and
what nvFuser wrote into the folder where the model ran.

A log may name any file, and a report shows lines of the files that it names. So only Python files of the
project are read: below the project's folder or a folder that the user names, never through a link out of
it. Of packages only a run keeps copies, of files below the folder of packages of its own interpreter.

nvFuser writes ``__tmp_kernel1.cu``, ``.ptx``, ``.cubin`` and ``segmented_fusion1.dot``. It prints
``PRINTING: __tmp_kernel1.cu`` for each but the last kind (seen on torch 2.1.2; for others by the strings in
the binaries of 1.11 to 2.0). Those of a run that was asked for them are moved into its capture.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Iterable, Sequence

from fusiondoc.captures.capture import Capture
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.whole_files import read_within

SOURCES = "sources"
INDEX = "index.json"

MOST_BYTES = 1 << 20
"""Of one file: a larger one is left out."""

MOST_BYTES_IN_ALL = 5 << 20


_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py", ".git", ".hg")
"""What the top folder of a project has in it."""


def project_root(folder: Path) -> Path:
    """The project that ``folder`` belongs to: the nearest folder above with a mark of a project. The user's
    home and what is above it are none; without any it is the folder itself."""
    folder = Path(os.path.realpath(folder))
    home = Path(os.path.realpath(Path.home()))
    for one in (folder, *folder.parents):
        if one in (home, *home.parents):
            break
        if any((one / mark).exists() for mark in _PROJECT):
            return one
    return folder


@dataclass(frozen=True)
class PackageFiles:
    """Files of installed packages that a log names, and the folder that they must be in: that of the
    interpreter which ran the program, not one that the log names."""

    names: frozenset[str] = frozenset()
    folder: Path | None = None


def keep_sources(
    capture: Path,
    files: Iterable[str],
    cwd: Path,
    roots: Sequence[Path] = (),
    packages: PackageFiles = PackageFiles(),
) -> None:
    """Copy the Python files of these names (as the log has them, relative to ``cwd``) into the capture: those
    of the project of ``cwd`` and those below ``roots``; then, while there is room, those of packages.

    ``index.json`` beside them has name -> copy. What cannot be read or written is left out: a report can do
    without it.
    """
    index: dict[str, str] = {}
    size = 0
    folder = capture / SOURCES
    allowed = (project_root(cwd), *roots)
    installed = (packages.folder,) if packages.folder is not None else ()
    mine = set(files)
    wanted = [(name, allowed) for name in sorted(mine)]
    wanted += [(name, installed) for name in sorted(packages.names - mine)]
    for name, below in wanted:
        data = read_source(cwd / name, below)
        if data is None or size + len(data) > MOST_BYTES_IN_ALL:
            continue
        try:
            folder.mkdir(exist_ok=True)
            copy = f"{len(index)}.py"
            (folder / copy).write_bytes(data)
        except OSError:
            break
        index[name] = copy
        size += len(data)
    if index:
        try:
            (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        except OSError:
            return


def kept_source(capture: Path, name: str) -> str | None:
    """The copy of a file that ``keep_sources`` made; None without one, or if the capture is damaged."""
    folder = capture / SOURCES
    try:
        index = json.loads(read_within(folder / INDEX))
    except (OSError, ValueError, RecursionError):
        return None
    copy = index.get(name) if isinstance(index, dict) else None
    if not isinstance(copy, str) or Path(copy).name != copy:
        return None
    data = read_source(folder / copy, (folder,))
    return None if data is None else text_of(data)


def read_source(path: Path, roots: Sequence[Path]) -> bytes | None:
    """A regular Python file of at most a megabyte that really is below one of ``roots``, all links followed;
    None for anything else."""
    try:
        real = Path(os.path.realpath(path))
        inside = any(Path(os.path.realpath(root)) in real.parents for root in roots)
        if real.suffix != ".py" or not inside:
            return None
        told = real.stat()
        if not stat.S_ISREG(told.st_mode) or told.st_size > MOST_BYTES:
            return None
        with real.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        return data if len(data) <= MOST_BYTES else None
    except (OSError, ValueError, RuntimeError):
        return None


def text_of(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


DUMP_FILES = "files"
OPTIONS = {"cuda_to_file": ".cu", "debug_info": ".cu", "ptx": ".ptx", "cubin": ".cubin"}
"""Dumps that write files, with the ending of theirs."""

_DRAWING, _DRAWINGS = "draw_segmented_fusion", "segmented_fusion*.dot"
"""Of these no line tells the names."""

_PRINTING = re.compile(rb"PRINTING: (__tmp_\w+)(\.\w+)")
_SLACK = 2.0
"""Seconds by which the clock of a file system may be behind."""


def collect(capture: Capture) -> list[Path]:
    """Move the files that the run was asked for, said that it wrote, and did write since it began."""
    asked = capture.request.options.dumps
    endings = {OPTIONS[name] for name in asked if name in OPTIONS}
    if not endings and _DRAWING not in asked:
        return []
    here = Path(capture.request.cwd or ".")
    names = _named(capture.log_path) if endings else set()
    if _DRAWING in asked:
        endings.add(".dot")
        names |= {path.name for path in here.glob(_DRAWINGS)}
    began = (capture.path / "request.json").stat().st_mtime - _SLACK
    moved = []
    for name in sorted(names):
        path = here / name
        with contextlib.suppress(OSError):
            if path.suffix in endings and not path.is_symlink() and path.stat().st_mtime >= began:
                folder = capture.path / DUMP_FILES
                folder.mkdir(exist_ok=True)
                moved.append(Path(shutil.move(str(path), str(folder / name))))
    return moved


def texts(capture: Capture) -> dict[str, list[tuple[str, str]]]:
    """Kernel -> (dump, text) of the files in the capture; binary ones are left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    asked = [name for name in capture.request.options.dumps if name in OPTIONS]
    for option in asked:
        for path in sorted((capture.path / DUMP_FILES).glob(f"__tmp_*{OPTIONS[option]}")):
            data = path.read_bytes()
            if b"\0" not in data.rstrip(b"\0"):
                text = data.rstrip(b"\0").decode("utf-8", "replace")
                found.setdefault(path.stem[len("__tmp_") :], []).append((option, text))
    return found


def _named(log: Path) -> set[str]:
    names = set()
    with contextlib.suppress(OSError), log.open("rb") as lines:
        for line in lines:
            found = _PRINTING.search(line) if b"PRINTING: " in line else None
            if found is not None:
                names.add((found.group(1) + found.group(2)).decode("ascii"))
    return names
