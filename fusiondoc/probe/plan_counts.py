"""How often TorchScript made a plan, and how many guards of plans did not hold; timed steps log nothing."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any, Callable, Iterator

from .step_profile import profiling

_SAYS_SO = b"Optimized Graph:"
"""The profiling executor logs it once for every plan that it makes for profiled types
(torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13)."""

_FALLBACK = "fallback_function"
"""Where a guard does not hold the plan calls a function of this name (same file,
replaceFallbackGraphWithFallbackFunction), and torch.profiler has an event for every call of a function of
TorchScript (runtime/interpreter.cpp, checkAndStartRecordFunction)."""


class PlanCount:
    """``plans``: how many were made in the block; None where torch cannot be asked."""

    def __init__(self) -> None:
        self.plans: int | None = None


@contextlib.contextmanager
def plans_made(torch: Any, folder: str) -> Iterator[PlanCount]:
    """Count the plans that are made in the block: the executor's log is on in it, goes to a file, and is off
    again behind it. Everything else that is printed there goes where it would have gone."""
    count = PlanCount()
    switch = getattr(torch._C, "_jit_set_logging_option", None)
    if switch is None:
        yield count
        return
    file, path = tempfile.mkstemp(prefix="plans-", dir=folder)
    saved = os.dup(2)
    os.dup2(file, 2)
    before = torch._C._jit_get_logging_option()
    switch("profiling_graph_executor_impl")
    try:
        yield count
    finally:
        switch(before)
        os.dup2(saved, 2)
        os.close(file)
        with open(path, "rb") as written:
            count.plans = 0
            for line in written:
                if b"profiling_graph_executor_impl.cpp" not in line:
                    os.write(saved, line)
                elif _SAYS_SO in line:
                    count.plans += 1
        os.close(saved)
        os.unlink(path)


def failed_guards(torch: Any, steps: Callable[[], object]) -> int | None:
    """Guards that did not hold in ``steps``; None where the profiler does not work."""
    try:
        with profiling(torch, cuda=False) as run:
            steps()
        return len([event for event in run.events() if event.name == _FALLBACK])
    except Exception:
        return None
