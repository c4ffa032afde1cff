"""``--time``: how long a pass takes, eager against fused, forward and backward apart.

Nothing is logged or dumped in this process. Both ways run in turns, so that a machine that slows down
slows both.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Sequence

from .failures import Refused, UserError
from .pass_inputs import Shape, parameters_of, tensors_in
from .records import Records
from .verify import eager_twin, unfused

WARM_UP = 5
"""At least so many passes of a way come before those that count: nvFuser profiles in the first, compiles
the forward pass in the second and the backward pass in the third."""
MOST_PASSES = 100
LEAST_PASSES = 5
TURNS = 5
SECONDS = 2.0
"""About so long each way is timed for each shape."""


class Way:
    """``model`` as it is run: "fused", or "eager" (then inside ``unfused``)."""

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self.model = model


class Timing:
    """Times ``scripted`` against ``model``, what it was made from. What is TorchScript already has no
    Python code
    left: its copy, run without optimisation, stands for eager then."""

    def __init__(
        self, torch: Any, scripted: Any, model: Any, shapes: Sequence[Shape], backward: bool, records: Records
    ) -> None:
        self._torch = torch
        self._shapes = shapes
        self._backward = backward
        self._records = records
        copied = isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
        eager = eager_twin(torch, model, "--time") if copied else model
        self._spare_bytes = _size(eager) if copied else 0
        self._eager = "TorchScript without optimisation" if copied else "Python"
        self._ways = [Way("eager", eager), Way("fused", scripted)]

    def run(self, warm_up: int) -> None:
        """A record ``speed`` for each way, shape and phase. Raises UserError or Refused as ``Passes``
        does."""
        for number, shape in enumerate(self._shapes):
            self._shape(number, shape, max(warm_up, WARM_UP))

    def _shape(self, number: int, shape: Shape, warm_up: int) -> None:
        gpu = self._on_gpu(shape)
        warm: dict[str, list[list[float]]] = {}
        for way in self._ways:
            warm[way.name] = [times for _ in range(warm_up) for times in self._block(way, shape, 1, gpu)]
        times: dict[str, list[list[float]]] = {way.name: [] for way in self._ways}
        passes = {way.name: _how_many(warm[way.name]) for way in self._ways}
        for _ in range(TURNS):
            for way in self._ways:
                times[way.name] += self._block(way, shape, -(-passes[way.name] // TURNS), gpu)
        for way in self._ways:
            memory = self._memory(way, shape) if gpu else [None, None]
            for place, phase in enumerate(("forward", "backward")[: 1 + self._backward]):
                measured = sorted(one[place] for one in times[way.name])
                self._records.write(
                    "speed",
                    way=way.name,
                    phase=phase,
                    inputs=number,
                    ms=[round(one, 6) for one in (measured[0], _median(measured), measured[-1])],
                    passes=len(measured),
                    warmup_ms=[round(one[place], 6) for one in warm[way.name]],
                    memory_bytes=memory[place],
                    eager=self._eager,
                    clock="device events" if gpu else "clock of the process",
                )

    def _on_gpu(self, shape: Shape) -> bool:
        tensors = tensors_in(self._torch, self._arguments(shape)) + parameters_of(self._ways[1].model)
        return any(tensor.is_cuda for tensor in tensors)

    def _arguments(self, shape: Shape) -> tuple[Any, ...]:
        try:
            return shape()
        except Refused:
            raise
        except Exception as error:
            raise UserError("inputs") from error

    def _block(self, way: Way, shape: Shape, passes: int, gpu: bool) -> list[list[float]]:
        """Milliseconds of each of ``passes`` passes: [forward] or [forward, backward].

        On a GPU the time is that between two events in the stream. The host runs ahead of the device
        within the block, as it does in a training loop, and waits only at its end.
        """
        marks: list[list[Any]] = []

        def mark() -> None:
            marks[-1].append(self._mark(gpu))

        for _ in range(passes):
            marks.append([])
            self._pass(way, shape, mark)
        if gpu:
            self._torch.cuda.synchronize()
        return [[_between(*pair) for pair in zip(one[::2], one[1::2])] for one in marks]

    def _mark(self, gpu: bool) -> Any:
        if not gpu:
            return time.perf_counter()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _pass(self, way: Way, shape: Shape, mark: Callable[[], None]) -> None:
        """One pass; ``mark`` is called before and after each phase."""
        if way.name == "eager":
            with unfused(self._torch):
                self._phases(way, shape, mark)
        else:
            self._phases(way, shape, mark)

    def _phases(self, way: Way, shape: Shape, mark: Callable[[], None]) -> None:
        torch = self._torch
        arguments = self._arguments(shape)
        tensors = tensors_in(torch, arguments)
        wants_grad = self._backward or any(tensor.requires_grad for tensor in tensors)
        stage = "forward" if way.name == "fused" else "eager"
        try:
            with torch.enable_grad() if wants_grad else torch.no_grad():
                mark()
                output = way.model(*arguments)
                mark()
            if not self._backward:
                return
            stage = "backward" if way.name == "fused" else "eager"
            roots = [one for one in tensors_in(torch, output) if one.requires_grad]
            starts = [torch.ones_like(root) for root in roots]
            mark()
            torch.autograd.backward(roots, starts)
            mark()
        except Exception as error:
            raise UserError(stage) from error
        for tensor in tensors + parameters_of(way.model):
            tensor.grad = None

    def _memory(self, way: Way, shape: Shape) -> list[int | None]:
        """Peak of the allocated memory in forward and backward of one pass, without the copy for eager."""
        cuda = self._torch.cuda
        peaks: list[int | None] = []
        calls = [0]

        def mark() -> None:
            cuda.synchronize()
            if calls[0] % 2:
                peaks.append(int(cuda.max_memory_allocated()) - self._spare_bytes)
            cuda.reset_peak_memory_stats()
            calls[0] += 1

        self._pass(way, shape, mark)
        return peaks if self._backward else [*peaks, None]


def _between(before: Any, after: Any) -> float:
    if isinstance(before, float):
        return float((after - before) * 1e3)
    return float(before.elapsed_time(after))


def _how_many(warm: list[list[float]]) -> int:
    """Passes that fit into the time, by the last of the warm-up."""
    seconds = sum(warm[-1]) / 1e3
    return max(LEAST_PASSES, min(MOST_PASSES, int(SECONDS / seconds) if seconds > 0 else MOST_PASSES))


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _size(model: Any) -> int:
    """Bytes of a module's parameters and buffers on a GPU."""
    buffers = getattr(model, "buffers", None)
    tensors = parameters_of(model) + (list(buffers()) if callable(buffers) else [])
    return sum(one.numel() * one.element_size() for one in tensors if one.is_cuda)
