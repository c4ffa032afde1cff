"""The probe's side of ``records.jsonl``: one JSON object a line, on disk before the next step begins."""

from __future__ import annotations

import json
import sys
from typing import Any


class Records:
    """Appends records; each line has left the process when ``write`` returns, whatever kills it after.

    A full disk ends the records, not the user's program; the log, which the parent writes, tells of it.
    """

    def __init__(self, path: str) -> None:
        self._file: Any = open(path, "ab", buffering=0)  # noqa: SIM115  (open for the life of the process)

    def write(self, record: str, **fields: Any) -> None:
        """One line ``{"record": record, ...}``. What JSON does not know is written as its ``repr``."""
        if self._file is None:
            return
        line = json.dumps(dict(record=record, **fields), default=repr)
        try:
            self._file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError as error:
            self._file = None
            sys.stderr.write("fusiondoc: no more records can be written: %s\n" % error)
