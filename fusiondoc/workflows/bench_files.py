"""Saved results of ``fusiondoc bench``."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.model.bench import Bench
from fusiondoc.reports.json_format import looks_like_bench, read_bench


def saved_bench(argument: str) -> Bench | None:
    """The bench in that file; None if it is something else (a log, a report, a capture).

    Raises:
        UsageError: it is damaged, or of a newer fusiondoc.
    """
    path = Path(argument)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            if not looks_like_bench(file.read(200)):
                return None
            file.seek(0)
            return read_bench(file.read(), argument)
    except OSError as error:
        raise UsageError(f"{argument} cannot be read: {error.strerror}", None) from None


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
