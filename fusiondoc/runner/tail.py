"""Following the probe's records while it writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable


class RecordTail:
    """Hands on each record once, as soon as its line is complete."""

    def __init__(self, path: Path, handle: Callable[[dict[str, Any]], None]) -> None:
        self._path = path
        self._handle = handle
        self._read = 0

    def read(self) -> None:
        """Hand on what has come since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return
        complete = data[: data.rfind(b"\n") + 1]
        self._read += len(complete)
        for line in complete.splitlines():
            self._handle(json.loads(line))
