"""``--time``: how long a step takes, eager against TorchScript, in the loops of ``fusiondoc bench``.

Nothing is logged or dumped in this process. Both ways take a round of steps in turns, so that a machine that
slows down slows both, and nothing of Python runs between the steps of a round but the loop.
"""

from __future__ import annotations

from typing import Any, Sequence

from .benchmark_steps import Given, Steps
from .benchmark_variants import Built
from .pass_inputs import Shape, arguments_of, parameters_of, tensors_in
from .records import Records
from .verify import eager_twin, unfused

ROUNDS = 15
ROUND_SECONDS = 0.1
"""About so long a round lasts."""
MOST_STEPS = 1000
LEAST_STEPS = 3


class _Way:
    """One of the two: "eager" (then inside ``unfused``) or "fused"."""

    def __init__(self, name: str, built: Built, steps: Steps) -> None:
        self.name = name
        self.built = built
        self.steps = steps
        self.number = LEAST_STEPS
        """Steps in a round."""
        self.warm: list[float] = []
        self.rounds: list[float] = []
        """Milliseconds of a step in each round."""


class Timing:
    """Times ``scripted`` against ``model``, what it was made from. What is TorchScript already has no Python
    code left: its copy, run without optimisation, stands for eager then."""

    def __init__(
        self, torch: Any, scripted: Any, model: Any, shapes: Sequence[Shape], backward: bool, records: Records
    ) -> None:
        self._torch = torch
        self._shapes = shapes
        self._backward = backward
        self._records = records
        copied = isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))
        self._unscripted = eager_twin(torch, model, "--time") if copied else model
        self._scripted = scripted
        self._spare_bytes = _size(self._unscripted) if copied else 0
        self._eager = "TorchScript without optimisation" if copied else "Python"

    def run(self, warm_up: int, rounds: int | None = None) -> None:
        """A record ``speed`` for each way, shape and phase.

        Args:
            warm_up: so many steps at least come before those that count.
            rounds: of each way; None: ``ROUNDS``.

        Raises:
            UserError: the model failed.
            Refused: the inputs cannot be used.
        """
        phases = ["forward", "forward+backward"] if self._backward else ["forward"]
        for number, shape in enumerate(self._shapes):
            for phase in phases:
                self._phase(phase, number, shape, warm_up, rounds or ROUNDS)

    def _phase(self, phase: str, number: int, shape: Shape, warm_up: int, rounds: int) -> None:
        arguments = arguments_of(shape)
        given = Given(shape, fixed=arguments_of(shape) is arguments)
        tensors = tensors_in(self._torch, arguments)
        # As in the run that is diagnosed, of which these are the times.
        recorded = self._backward or any(tensor.requires_grad for tensor in tensors)
        gpu = any(tensor.is_cuda for tensor in tensors + parameters_of(self._scripted))
        ways = []
        for name, model in (("eager", self._unscripted), ("fused", self._scripted)):
            built = Built(model)
            if name == "eager":
                built.around = lambda: unfused(self._torch)
            stage = name if name == "eager" else "forward"
            training = phase != "forward"
            ways.append(_Way(name, built, Steps(self._torch, model, given, training, stage, recorded)))
        for way in ways:
            way.warm = way.steps.warm_up(way.built, lambda: None, warm_up)
            fit = int(ROUND_SECONDS / min(way.warm)) if min(way.warm) > 0 else MOST_STEPS
            way.number = max(LEAST_STEPS, min(MOST_STEPS, fit))
        for turn in range(rounds):
            for way in ways if turn % 2 else reversed(ways):
                seconds = way.steps.loop(way.built, way.number, lead=1)
                way.rounds.append(round(seconds / way.number * 1e3, 6))
        for way in ways:
            self._tell(way, phase, number, gpu)

    def _tell(self, way: _Way, phase: str, number: int, gpu: bool) -> None:
        ordered = sorted(way.rounds)
        self._records.write(
            "speed",
            way=way.name,
            phase=phase,
            inputs=number,
            ms=[ordered[0], ordered[len(ordered) // 2], ordered[-1]],
            rounds=way.rounds,
            passes=way.number * len(way.rounds),
            warmup_ms=[round(one * 1e3, 6) for one in way.warm],
            memory_bytes=self._memory(way) if gpu else None,
            eager=self._eager,
        )

    def _memory(self, way: _Way) -> int:
        """Peak of the allocated memory in a step, without the copy for eager."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        way.steps.loop(way.built, 1)
        return int(cuda.max_memory_allocated()) - self._spare_bytes


def _size(model: Any) -> int:
    """Bytes of a module's parameters and buffers on a GPU."""
    buffers = getattr(model, "buffers", None)
    tensors = parameters_of(model) + (list(buffers()) if callable(buffers) else [])
    return sum(one.numel() * one.element_size() for one in tensors if one.is_cuda)
