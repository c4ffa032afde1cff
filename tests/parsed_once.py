"""Logs of ``fixtures/`` never change, so each is parsed once in a process of the
tests, not at every command.

Only what commands and the API read is shared; tests of the parser call it
themselves. A report is frozen, so no test can change what the next one gets.
"""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

from fusiondoc.parsers.read import read_logs
from fusiondoc.workflows import load

FIXTURES = str(Path(__file__).resolve().parent.parent / "fixtures")
MOST_REPORTS = 48
_SIGNATURE = inspect.signature(read_logs)


class _Call:
    """A call of ``read_logs``; equal to one that gives the same report."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        files = [
            (log.name, str(log.path), log.path.stat().st_mtime_ns)
            for log in arguments["logs"]
        ]
        reasons = arguments.get("work_out")
        told = {
            name: one
            for name, one in arguments.items()
            if name not in ("logs", "work_out") and one
        }
        self._same = repr(
            (files, type(reasons), vars(reasons) if reasons else None, told)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)


@functools.lru_cache(maxsize=MOST_REPORTS)
def _once(call: _Call) -> Any:
    return read_logs(**call.arguments)


def _read_logs(*values: Any, **named: Any) -> Any:
    arguments = _SIGNATURE.bind(*values, **named).arguments
    paths = [log.path for log in arguments["logs"]]
    fixed = all(path and str(path.resolve()).startswith(FIXTURES) for path in paths)
    return _once(_Call(dict(arguments))) if fixed else read_logs(*values, **named)


def use() -> None:
    load.read_logs = _read_logs
