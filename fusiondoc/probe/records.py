"""The probe's side of ``records.jsonl``: one JSON object a line, on disk before the next step begins;
and how long the user's own work took, so that the rest can be counted as fusiondoc's overhead."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import Any, Iterator

from .failures import NO_MORE_RECORDS
from .stdio import above_standard, identity


class Records:
    """Appends records; each line has left the process when ``write`` returns, whatever kills it after.

    The program may close every descriptor (``os.closerange``), and open files of its own under their numbers:
    the file is written only through a descriptor that still leads to it, and else opened again. A full disk
    ends the records, not the user's program; the log, which the parent writes, tells of it.
    """

    def __init__(self, path: str, process: int | None = None) -> None:
        """``process``: the number of a process that the program started, which its records then name."""
        self._path = os.path.abspath(path)
        self.process = process
        # A plain number: a file object would close it at its end, when it may be another file's.
        self._file = self._opened()
        self._identity = identity(self._file)
        self._ended = False
        self._why = "closed"

    @property
    def path(self) -> str:
        """Of the file, absolute."""
        return self._path

    def write(self, record: str, **fields: Any) -> None:
        """One line ``{"record": record, ...}``. What JSON does not know is written as its ``repr``."""
        if self._ended:
            if record == "done":
                self._complain()  # again, where the end of the log is looked at
            return
        if self.process is not None:
            fields["process"] = self.process
        line = json.dumps(dict(record=record, **fields), default=repr)
        try:
            if identity(self._file) != self._identity:
                self._file = self._opened()
                self._identity = identity(self._file)
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._ended = True
            self._why = str(error)
            self._complain()

    def _complain(self) -> None:
        with contextlib.suppress(Exception):  # the program may have put anything there
            sys.stderr.write("%s %s\n" % (NO_MORE_RECORDS, self._why))

    def close(self) -> None:
        """No more will be written; for a process that goes on."""
        self._ended = True
        if identity(self._file) == self._identity:
            os.close(self._file)

    def _opened(self) -> int:
        # Not as a standard descriptor that the program has closed: C++ would write to it.
        return above_standard(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644))


class Clock:
    """``users_seconds``: inside ``users_work()``, which is what a run by hand needs too (importing torch
    and the program, scripting, the passes). All other time since ``started`` is the probe's own."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.users_seconds = 0.0
        self._depth = 0

    @contextlib.contextmanager
    def users_work(self) -> Iterator[None]:
        began = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.users_seconds += time.perf_counter() - began

    def seconds(self) -> float:
        """Since the first line of the probe."""
        return time.perf_counter() - self.started

    def own_seconds(self) -> float:
        """What the probe needed for itself."""
        return self.seconds() - self.users_seconds
