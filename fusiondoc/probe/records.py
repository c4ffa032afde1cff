"""The probe's side of ``records.jsonl``: one JSON object a line, on disk before the next step begins."""

from __future__ import annotations

import json
from typing import Any


class Records:
    """Appends records; each line has left the process when ``write`` returns, whatever kills it after."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  (open for the life of the process)

    def write(self, record: str, **fields: Any) -> None:
        """One line ``{"record": record, ...}``. What JSON does not know is written as its ``repr``."""
        line = json.dumps(dict(record=record, **fields), default=repr)
        self._file.write(line.encode("utf-8", "backslashreplace") + b"\n")
