"""How the time of a step is spent: runs steps of the model, or a whole script,
under ``torch.profiler``. Nothing is logged in this process. The parent reads
torch's trace (``parsers/profiler_trace.py``). Only facts that no trace has are
measured here: the time of a step without the profiler, the bytes that the device
copies in a second, how float32 matrices are multiplied, and how often TorchScript
made a plan (``plans_made``, which ``bench`` uses too: timed steps log nothing)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
from typing import Any, Callable, Iterator

from . import Refused, UserError
from .log_and_records import Records
from .pass_inputs import (
    Shape,
    arguments_of,
    backward_from_ones,
    call,
    on_gpu,
    parameters_of,
    tensors_in,
)

STEP = "fusiondoc step"
"""The name of a step in the trace."""
TRACE = "trace.json.gz"
"""File with the profiled steps, for ``chrome://tracing`` and Perfetto."""
PLACES = "places.json.gz"
"""File with one more, slower step: with the line and the module of each
operator."""

LEAST_WARM_UP = 6
"""nvFuser profiles in the first pass, compiles forward in the second and backward
in the third."""
SECONDS = 0.5
"""Approximate duration of all profiled steps, within these limits:"""
LEAST_STEPS, MOST_STEPS = 3, 20
TURNS = 3
"""Number of loops without the profiler, whose median is used."""
WINDOW = 5.0
"""Seconds of processor time before a script's end that are kept at least; at most
twice as many: a trace of hours would not fit into memory."""
_COPIED = 1 << 26
"""Bytes that a copy on a CPU moves to measure its memory: beyond most caches."""


class StepProfile:
    """Profiles ``model`` on one shape. ``folder`` is the folder of the traces."""

    def __init__(
        self,
        torch: Any,
        model: Any,
        shape: Shape,
        backward: bool,
        records: Records,
        folder: str,
    ) -> None:
        self._torch = torch
        self._model = model
        self._shape = shape
        self._backward = backward
        self._records = records
        self._folder = folder
        self._parameters = parameters_of(model)

    def run(self, warm_up: int) -> None:
        """Write both traces and a record ``profiled``. Raises UserError or Refused
        as ``Passes`` does."""
        torch = self._torch
        cuda = on_gpu(torch, self._model, self._shape)
        for _ in range(max(warm_up, LEAST_WARM_UP)):
            step = self._loop(1, cuda)
        steps = max(
            LEAST_STEPS,
            min(MOST_STEPS, int(SECONDS * 1e3 / step) if step > 0 else MOST_STEPS),
        )
        plain = sorted(self._loop(steps, cuda) for _ in range(TURNS))[TURNS // 2]
        with profiling(
            torch, cuda
        ) as short:  # The first run of a profiler sets it up.
            self._loop(1, cuda)
        del short
        with profiling(torch, cuda) as run:
            profiled = self._loop(steps, cuda)
        run.export_chrome_trace(os.path.join(self._folder, TRACE))
        del run
        with profiling(
            torch, False, record_shapes=True, with_stack=True, with_modules=True
        ) as slow:
            self._loop(1, cuda)
        slow.export_chrome_trace(os.path.join(self._folder, PLACES))
        self._records.write(
            "profiled",
            steps=steps,
            ms=round(profiled / steps, 6),
            unprofiled_ms=round(plain / steps, 6),
            script=False,
            **_device_facts(torch, cuda),
        )

    def _loop(self, steps: int, cuda: bool) -> float:
        """Milliseconds of ``steps`` steps, from an idle device to an idle device:
        between two events of a GPU, else by the clock."""
        torch = self._torch
        if cuda:
            torch.cuda.synchronize()
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
        began = time.perf_counter()
        for _ in range(steps):
            with torch.profiler.record_function(STEP):
                self._step()
        if not cuda:
            return (time.perf_counter() - began) * 1e3
        after.record()
        torch.cuda.synchronize()
        return float(before.elapsed_time(after))

    def _step(self) -> None:
        torch = self._torch
        arguments = arguments_of(self._shape)
        tensors = tensors_in(torch, arguments)
        wants_grad = self._backward or any(
            tensor.requires_grad for tensor in tensors
        )
        stage = "forward"
        try:
            with torch.enable_grad() if wants_grad else torch.no_grad():
                output = call(self._model, arguments)
            if not self._backward:
                return
            stage = "backward"
            backward_from_ones(torch, tensors_in(torch, output))
        except Exception as error:
            raise UserError(stage) from error
        for tensor in tensors + self._parameters:
            tensor.grad = None


def profile_script(
    torch: Any, script: Callable[[], None], records: Records, folder: str
) -> None:
    """Run ``script`` under the profiler, and keep the trace of its end.

    A profiler belongs to the thread that starts it: every ``WINDOW`` seconds of
    processor time a signal lets that thread, which runs the script, begin a new
    trace. Where the script uses the signal itself (``SIGPROF``), or another thread
    runs it, the trace begins once.
    """
    windows = _Windows(torch)
    try:
        with windows.moving():
            script()
    finally:
        path = os.path.join(folder, TRACE)
        kept = windows.end()
        if kept is not None:
            kept.export_chrome_trace(path)
            cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
            records.write(
                "profiled",
                steps=None,
                ms=None,
                unprofiled_ms=None,
                script=True,
                **_device_facts(torch, cuda),
            )


class _Windows:
    """The trace being recorded, and the one before it."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._last: Any = None
        self._began = 0.0
        self._now: Any = None
        self._start()

    def _start(self) -> None:
        self._now = profiling(self._torch, self._torch.cuda.is_available())
        self._now.__enter__()
        self._began = time.process_time()

    def _stop(self) -> None:
        now, self._now = self._now, None
        if now is not None:
            if (
                self._torch.cuda.is_available()
                and self._torch.cuda.is_initialized()
            ):
                self._torch.cuda.synchronize()
            now.__exit__(None, None, None)
            self._last = now

    @contextlib.contextmanager
    def moving(self) -> Iterator[None]:
        """Context manager: the window moves on."""
        if not hasattr(signal, "SIGPROF") or signal.getsignal(
            signal.SIGPROF
        ) not in (None, signal.SIG_DFL):
            yield
            return
        try:
            signal.signal(signal.SIGPROF, self._move)
        except ValueError:  # not the main thread
            yield
            return
        signal.setitimer(signal.ITIMER_PROF, WINDOW, WINDOW)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _move(self, number: int, frame: Any) -> None:
        if self._now is not None:
            self._stop()
            self._start()

    def end(self) -> Any:
        """The trace to keep: the last one, or the one before if the last has hardly
        begun."""
        before, short = self._last, time.process_time() - self._began < WINDOW / 2
        self._stop()
        if short and before is not None:
            return before
        return self._last


def profiling(torch: Any, cuda: bool, host: bool = True, **options: Any) -> Any:
    """torch's profiler, of the host and, with ``cuda``, of the GPU, without an
    import of the compiler.

    Before a trace it checks whether ``torch._inductor`` uses CUDA graphs, which
    imports that and takes seconds (``prepare_trace``, torch/profiler/profiler.py;
    ``_lazy_modules``, torch/__init__.py, 2.13). A program that has not imported it
    uses none."""
    kinds = torch.profiler.ProfilerActivity
    activities = [kinds.CPU] * host + [kinds.CUDA] * cuda
    profile = torch.profiler.profile

    def prepare_trace(self: Any) -> None:
        lazy: set[str] = getattr(torch, "_lazy_modules", set())
        if "torch._inductor" not in sys.modules:
            kept_out = {"_inductor"} & lazy
        else:
            kept_out = set()
        lazy -= kept_out
        try:
            profile.prepare_trace(self)
        finally:
            lazy |= kept_out

    return type("Profile", (profile,), {"prepare_trace": prepare_trace})(
        activities=activities, **options
    )


def _device_facts(torch: Any, cuda: bool) -> dict[str, Any]:
    """``device``, ``gb_per_s`` of a copy on it, and how float32 matrices are
    multiplied."""
    precision = getattr(torch, "get_float32_matmul_precision", None)
    return {
        "device": "cuda" if cuda else "cpu",
        "gb_per_s": _bandwidth(torch, cuda),
        "matmul_precision": precision() if precision is not None else None,
        "allow_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
    }


def _bandwidth(torch: Any, cuda: bool) -> float | None:
    """GB/s, read plus written; None if there is no room to measure it."""
    if cuda:
        from .bandwidth import measured_bandwidth

        try:
            return float(measured_bandwidth(torch)["gb_per_s"])
        except Refused:
            return None
    try:
        source = torch.ones(_COPIED // 4)
        target = torch.empty_like(source)
        times = []
        for _ in range(5):
            began = time.perf_counter()
            target.copy_(source)
            times.append(time.perf_counter() - began)
        return round(2.0 * _COPIED / sorted(times[1:])[1] / 1e9, 1)
    except RuntimeError:
        return None


_SAYS_SO = b"Optimized Graph:"
"""The profiling executor logs this once for every plan that it makes for profiled
types (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13)."""

_FALLBACK = "fallback_function"
"""If a guard fails the plan calls a function of this name (same file,
replaceFallbackGraphWithFallbackFunction), and torch.profiler has an event for every
call of a function of TorchScript (runtime/interpreter.cpp,
checkAndStartRecordFunction)."""


class PlanCount:
    """``plans``: number of plans made in the block; None if torch cannot count
    them."""

    def __init__(self) -> None:
        self.plans: int | None = None


@contextlib.contextmanager
def plans_made(torch: Any, folder: str) -> Iterator[PlanCount]:
    """Context manager: count the plans made in the block. The executor's log is
    switched on, written to a file, and switched off afterwards. Everything else
    that is printed in the block goes to its usual target."""
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
    """Number of guards that failed in ``steps``; None if the profiler does not
    work."""
    try:
        with profiling(torch, cuda=False) as run:
            steps()
        return len([event for event in run.events() if event.name == _FALLBACK])
    except Exception:
        return None
