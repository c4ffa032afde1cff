"""Whether work grows with the size of its input, whatever else the machine and this
process have to do.

Lines of fusiondoc that are run are counted: the same at every time on every
machine. What C does for one line, such as the search for a pattern, has no count;
that is processor time, without the collecting of what other tests have left, and
only a growth that is there each time is one.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

MOST_GROWTH = 2.3
"""Times as many lines for twice the size; 2.46 is an exponent of 1.3."""

Work = Callable[[], object]


def lines_run(work: Work) -> int:
    """Lines of fusiondoc that ``work`` runs, loops and comprehensions counted each
    time round."""
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return step

    def call(frame: FrameType, event: str, argument: object) -> Any:
        return step if "fusiondoc" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def lines_in_proportion(made: Callable[[int], Work], size: int) -> bool:
    """Lines of ``made(2 * size)`` against those of ``made(size)``; what is cached
    at first is not counted."""
    lines_run(made(max(size // 100, 1)))
    return lines_run(made(2 * size)) < MOST_GROWTH * lines_run(made(size))


def time_in_proportion(made: Callable[[int], Work], size: int) -> bool:
    """Eight times the size, and less than twenty times the time; 64 times where it
    is quadratic."""
    made(size)()
    return any(
        _seconds(made(8 * size)) < 20 * _seconds(made(size)) + 0.3 for _ in range(3)
    )


def _seconds(work: Work) -> float:
    on = gc.isenabled()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(None)  # of coverage, which watches lines and not what C does
    try:
        began = time.process_time()
        work()
        return time.process_time() - began
    finally:
        sys.settrace(before)
        if on:
            gc.enable()
