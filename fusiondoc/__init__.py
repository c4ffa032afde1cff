"""A doctor for operator fusion in TorchScript and torch.compile.

``parse``, ``diagnose``, ``compare``, ``bench``, ``render``, ``survey`` and
``capture`` are those of :mod:`fusiondoc.api`, which is imported when one of them is
used: the command line, which is in :mod:`fusiondoc.cli`, starts without it.
"""

from typing import TYPE_CHECKING, Any

from fusiondoc.version import __version__  # first of all, as its time counts

if TYPE_CHECKING:
    from fusiondoc.api import (
        Bench,
        Comparison,
        LiveRun,
        Report,
        bench,
        capture,
        compare,
        diagnose,
        parse,
        render,
        survey,
    )

_API = (
    "Bench",
    "Comparison",
    "LiveRun",
    "Report",
    "bench",
    "capture",
    "compare",
    "diagnose",
    "parse",
    "render",
    "survey",
)

__all__ = [
    "Bench",
    "Comparison",
    "LiveRun",
    "Report",
    "__version__",
    "bench",
    "capture",
    "compare",
    "diagnose",
    "parse",
    "render",
    "survey",
]


def __getattr__(name: str) -> Any:
    if name not in _API:
        raise AttributeError(f"module 'fusiondoc' has no attribute '{name}'")
    from fusiondoc import api

    value = globals()[name] = getattr(api, name)
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *_API})
