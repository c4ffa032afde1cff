"""Whether Inductor can compile kernels here: with Triton on a GPU, with a C++
compiler on the CPU. Inductor is neither imported nor run for this: that takes
longer than all other fusers together."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any


def tools_of_inductor(torch: Any) -> tuple[bool, str]:
    """Return whether Inductor can compile kernels here, and a text with its
    compilers or the missing ones.

    The compiler is the one of ``config.cpp.cxx`` (torch/_inductor/config.py, 2.6 to
    2.13).
    """
    compiler = os.environ.get("CXX") or "g++"
    version = _version_of(compiler)
    cpp = None
    if version is not None:
        cpp = "%s %s on the CPU" % (os.path.basename(compiler), version)
    triton = _triton_version()
    if torch.cuda.is_available() and triton is not None:
        return True, "compiles with Triton %s on the GPU%s" % (
            triton,
            ", " + cpp if cpp is not None else "",
        )
    lacking = "torch sees no GPU" if triton is not None else "no Triton"
    if cpp is None:
        return (
            False,
            "%s, and no C++ compiler '%s': it can generate kernels alone, with --no-run"
            % (
                lacking,
                compiler,
            ),
        )
    return True, "compiles with %s; %s" % (cpp, lacking)


def _triton_version() -> str | None:
    from importlib import (
        metadata,
    )  # torch that has Inductor runs on no older Python

    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def _version_of(compiler: str) -> str | None:
    """The version of a program; None if it does not exist."""
    path = shutil.which(compiler)
    if path is None:
        return None
    try:
        done = subprocess.run(
            [path, "-dumpversion"], stdout=subprocess.PIPE, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip()
