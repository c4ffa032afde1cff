"""Saved results of ``fusiondoc bench``."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.model.bench import Bench
from fusiondoc.reports.json_format import looks_like_bench, read_bench
from fusiondoc.whole_files import open_given

_MOST_BYTES = 64 << 20


def saved_bench(argument: str) -> Bench | None:
    """The bench in that file; None if it is something else (a log, a report, a capture).

    Raises:
        UsageError: it is damaged, too large, or of a newer fusiondoc.
    """
    path = Path(argument)
    try:
        if not path.is_file():
            return None
        with open_given(path) as file:
            start = file.read(200)
            if not looks_like_bench(start):
                return None
            data = start + file.read(_MOST_BYTES)
    except OSError:
        return None  # who reads it as a log says why it cannot be read
    if len(data) >= _MOST_BYTES:
        raise UsageError(f"{argument} is larger than any result of fusiondoc bench", "Name another file.")
    return read_bench(data, argument)


def two_benches(a: str, b: str) -> tuple[Bench, Bench] | None:
    """Both, if both are benches; None if none is.

    Raises:
        UsageError: one is and the other is not.
    """
    old, new = saved_bench(a), saved_bench(b)
    if old is None and new is None:
        return None
    if old is None or new is None:
        bench, other = (b, a) if old is None else (a, b)
        raise UsageError(
            f"{bench} is a result of fusiondoc bench, and {other} is none",
            "Give two of them: fusiondoc bench TARGET -o NAME.json.",
        )
    return old, new
