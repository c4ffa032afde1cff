"""Files that nvFuser writes into the folder where the model runs: ``__tmp_kernel1.cu``, ``.ptx``, ``.cubin``,
``segmented_fusion1.dot``.

It prints ``PRINTING: __tmp_kernel1.cu`` for each but the last kind (seen on torch 2.1.2; for others by the
strings in the binaries of 1.11 to 2.0). Those of a run that was asked for them are moved into its capture.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from fusiondoc.captures.capture import Capture

FOLDER = "files"
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
                folder = capture.path / FOLDER
                folder.mkdir(exist_ok=True)
                moved.append(Path(shutil.move(str(path), str(folder / name))))
    return moved


def texts(capture: Capture) -> dict[str, list[tuple[str, str]]]:
    """Kernel -> (dump, text) of the files in the capture; binary ones are left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    asked = [name for name in capture.request.options.dumps if name in OPTIONS]
    for option in asked:
        for path in sorted((capture.path / FOLDER).glob(f"__tmp_*{OPTIONS[option]}")):
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
