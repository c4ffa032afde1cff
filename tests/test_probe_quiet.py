"""What is kept off stderr while knobs are tried comes out all the same if the
process dies."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_CODE = r"""
import os
from fusiondoc.probe.log_and_records import KeptStderr
with KeptStderr() as kept:
    os.write(2, b"[W1121 11:09:26.058830941 init.cpp:816] Warning: a no-op (function operator())\n")
    os.write(2, b"somebody else\n")
    END
    print(kept.warnings())
os.write(2, b"afterwards\n")
"""


def _run(end: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _CODE.replace("END", end)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def _left_behind() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("fusiondoc-stderr-*"))


def test_warnings_are_kept_and_everything_else_is_passed_on():
    done = _run("pass")
    assert done.stdout == "['a no-op']\n"
    assert done.stderr == "somebody else\nafterwards\n"


def test_a_crash_loses_nothing_and_leaves_no_file():
    before = _left_behind()
    done = _run("os.abort()")
    assert done.returncode != 0
    assert "Warning: a no-op" in done.stderr and "somebody else" in done.stderr
    assert _left_behind() <= before
