"""Saved results of ``fusiondoc bench``."""

from __future__ import annotations

from pathlib import Path

from fusiondoc.errors import UsageError
from fusiondoc.model.bench import Bench
from fusiondoc.model.suite import Suite
from fusiondoc.reports.json_format import looks_like_bench, looks_like_suite, read_bench, read_suite
from fusiondoc.whole_files import open_given

_MOST_BYTES = 64 << 20


def saved_bench(argument: str) -> Bench | Suite | None:
    """The bench, or the suite, in that file; None if it is something else (a log, a report, a capture).

    Raises:
        UsageError: it is damaged, too large, or of a newer fusiondoc.
    """
    path = Path(argument)
    try:
        if not path.is_file():
            return None
        with open_given(path) as file:
            start = file.read(200)
            if not looks_like_bench(start) and not looks_like_suite(start):
                return None
            data = start + file.read(_MOST_BYTES)
    except OSError:
        return None  # who reads it as a log says why it cannot be read
    if len(data) >= _MOST_BYTES:
        raise UsageError(f"{argument} is larger than any result of fusiondoc bench", "Name another file.")
    return read_suite(data, argument) if looks_like_suite(start) else read_bench(data, argument)


def two_benches(a: str, b: str) -> tuple[Bench, Bench] | tuple[Suite, Suite] | None:
    """Both, if both are benches, or both suites; None if none is either.

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
    if isinstance(old, Suite) and isinstance(new, Suite):
        return old, new
    if isinstance(old, Bench) and isinstance(new, Bench):
        return old, new
    suite, other = (a, b) if isinstance(old, Suite) else (b, a)
    raise UsageError(
        f"{suite} is the result of a suite, and {other} of a bench of one target",
        "Give two of a kind: two of fusiondoc bench --suite NAME, or two of fusiondoc bench TARGET.",
    )
