"""Keeps torch's own warnings out of the log while a switch is tried, and loses nothing else that is
printed."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

_WATCH = """
import os, sys
said = os.read(0, 1)
if said != b"k":
    with open(sys.argv[1], "rb") as file:
        os.write(2, file.read())
    os.unlink(sys.argv[1])
"""
"""A process of its own: it waits for the word that all went well. If its pipe closes without it, the
process that tried the switch has died, and what was kept goes to the real stderr after all."""

_WARNING = re.compile(rb"^\[W[^\]\n]*\] Warning: (.*?)(?: \(function .*\))?\r?\n?$")


class KeptStderr:
    """While the block runs, file descriptor 2 is a temporary file.

    C++ warnings of torch go to the descriptor, not to ``sys.stderr``: ``warnings`` gives them, and
    everything else is passed on to the real stderr. If the process dies inside the block, a watcher
    passes all of it on. Where no process can be started nothing is redirected, and the warnings are
    simply printed.
    """

    def __init__(self) -> None:
        self._saved = -1
        self._read_to = 0
        self._path = ""
        self._watcher: Any = None

    def __enter__(self) -> KeptStderr:
        try:
            file, self._path = tempfile.mkstemp(prefix="fusiondoc-stderr-")
        except OSError:
            return self
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCH, self._path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError):
            os.close(file)
            os.unlink(self._path)
            return self
        _flush()
        self._saved = os.dup(2)
        os.dup2(file, 2)
        os.close(file)
        return self

    def warnings(self) -> list[str]:
        """torch's warnings since the last call, without their prefix."""
        if self._saved < 0:
            return []
        _flush()
        with open(self._path, "rb") as file:
            file.seek(self._read_to)
            text = file.read()
        self._read_to += len(text)
        found = []
        for line in text.splitlines(True):
            match = _WARNING.match(line)
            if match is None:
                os.write(self._saved, line)
            else:
                found.append(match.group(1).decode("utf-8", "replace"))
        return found

    def __exit__(self, *error: object) -> None:
        if self._saved < 0:
            return
        self.warnings()
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._saved = -1
        self._watcher.stdin.write(b"k")
        self._watcher.stdin.close()
        self._watcher.wait()
        os.unlink(self._path)


def _flush() -> None:
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.flush()
