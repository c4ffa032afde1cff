"""Headers with which messages of the JIT log begin, if they print graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto

from fusiondoc.fusers import FUSERS, pass_files
from fusiondoc.fusers.fuser_log import FuserLog

POINTER_MADE = b"GraphCache constructor: "
POINTER_RUNS = b"running GraphCache: "
PLAN_FILES = (*pass_files(), "profiling_graph_executor_impl")
"""Files of torch that print plans."""


class GraphKind(Enum):
    """The graph that a message prints, by its header."""

    PASS_BEGINS = auto()
    """The graph with which a fuser's pass begins."""
    PASS_LEAVES = auto()
    """The plan that a fuser's pass leaves."""
    EXECUTED = auto()
    """The plan of an executor."""
    EXECUTED_SIMPLY = auto()
    """The plan of an executor that gave up specialising."""
    GROUPS_MADE = auto()
    """The groups of a pass, before groups that are too small are undone."""
    CACHE = auto()
    """The group for which a kernel cache is made."""
    FALLS_BACK = auto()
    """The group that a fuser fails to compile."""
    PROFILED = auto()
    """A graph that an executor begins to profile."""
    COMPILES = auto()
    """The group for which a fuser compiles a kernel."""


_OF_FUSER: tuple[tuple[GraphKind, Callable[[FuserLog], str | None]], ...] = (
    (GraphKind.PASS_BEGINS, lambda log: log.pass_start),
    (GraphKind.PASS_LEAVES, lambda log: log.plan_header),
    (GraphKind.GROUPS_MADE, lambda log: log.groups_header),
    (GraphKind.CACHE, lambda log: log.cache_header),
    (GraphKind.FALLS_BACK, lambda log: log.fallback_header),
    (GraphKind.COMPILES, lambda log: log.compile_header),
)


def _headers() -> Iterator[tuple[bytes, GraphKind, str]]:
    """Yield the headers of the graphs that fusers print, each with its kind and the
    name of the fuser."""
    for fuser in FUSERS.values():
        for kind, header_in in _OF_FUSER:
            header = header_in(fuser.log)
            if header is not None:
                yield header.encode(), kind, fuser.name


FUSER_OF_HEADER: dict[bytes, str] = {
    header: fuser for header, _, fuser in _headers()
}

KIND_OF_HEADER: dict[bytes, GraphKind] = {
    **{header: kind for header, kind, _ in _headers()},
    b"Optimized Graph:": GraphKind.EXECUTED,
    b"Optimized SimpleExecutor Graph:": GraphKind.EXECUTED_SIMPLY,
    b"After compileSpec optimizations:": GraphKind.EXECUTED,
    b"Profiled Graph:": GraphKind.PROFILED,
}

CACHE_HEADERS = tuple(
    header for header, kind in KIND_OF_HEADER.items() if kind is GraphKind.CACHE
)
FALLBACK_HEADERS = tuple(
    header
    for header, kind in KIND_OF_HEADER.items()
    if kind is GraphKind.FALLS_BACK
)

BEGINS_WORK = (GraphKind.CACHE, GraphKind.FALLS_BACK, GraphKind.COMPILES)
"""A fuser's work on a group begins, which may be unfinished when the process
dies."""
