"""Interpreters of other versions, on the PATH or beneath pyenv: for tests of what
they can import and run."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path


@functools.cache
def python_of(version: str, package: str = "sys") -> Path | None:
    """A Python that works and has ``package``, by its version such as "3.7"; None
    if there is none."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = sorted(root.glob(f"versions/{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    if on_path is not None:
        candidates.append(Path(on_path))
    # Found, not imported: torch takes seconds. Where pyenv has another version
    # switched on, its shim fails.
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    for candidate in candidates:
        if (
            subprocess.run(
                [candidate, "-c", code], capture_output=True, check=False
            ).returncode
            == 0
        ):
            return candidate
    return None
