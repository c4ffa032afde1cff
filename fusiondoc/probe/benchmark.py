"""``fusiondoc bench``: one variant of the model in one phase, timed in rounds that the parent asks for.

Nothing is logged in this process. It warms up, says that it is ready, and then waits: the parent asks the
children of all variants for a round each, in turns, so that a machine that slows down slows all of them.
A round is a plain loop of steps as a training loop has it, without a synchronisation inside.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import time
from typing import Any, Callable, Sequence

from .benchmark_variants import Built, build
from .failures import Refused, UserError
from .pass_inputs import Shape, on_gpu, parameters_of, tensors_in
from .records import Records
from .verify import unfused

FORWARD = "forward"
TRAINING = "forward+backward"

LEAST_WARM_UP = 5
"""Steps: nvFuser profiles in the first, compiles forward in the second and backward in the third."""
MOST_WARM_UP = 30
STEADY = 1.5
"""A step is steady that takes no longer than so many times the shortest of those before it."""
STEADY_STEPS = 3
ROUND_SECONDS = 0.2
"""About so long a round lasts."""
MOST_STEPS = 2000
LEAST_STEPS = 3


class Bench:
    """A variant in one phase.

    Args:
        model: as the user gave it, on its device.
        shape: gives the arguments of a step.
        phase: ``FORWARD`` (no gradients are recorded) or ``TRAINING``.
    """

    def __init__(self, torch: Any, variant: str, model: Any, shape: Shape, phase: str, records: Records):
        self._torch = torch
        self._variant = variant
        self._model = model
        self._shape = shape
        self._training = phase == TRAINING
        self._records = records
        self._parameters = parameters_of(model)
        self._starts: list[Any] = []
        """What the backward pass starts from: ones of each output."""

    def run(self, control: str, trace: bool, knobs: Callable[[], object]) -> None:
        """Build, warm up, then do what ``control`` asks for, a line each, until it ends.

        Raises:
            Refused: this torch or machine cannot run the variant.
            UserError: the model failed.
        """
        torch = self._torch
        # Loading is done beside the others, warming up alone: a compilation beside another takes longer.
        self._records.write("loaded", pid=os.getpid())
        commands = open(control, "rb")  # noqa: SIM115  (for the life of the process)
        if not commands.readline():
            return
        expected = self._expected()
        built = build(torch, self._variant, self._model, self._shape, self._training, trace)
        knobs()
        self._records.write(
            "variant",
            name=self._variant,
            fuser=built.fuser,
            note=built.note,
            inputs=[_described(torch, one) for one in self._arguments()],
        )
        cuda = on_gpu(torch, self._model, self._shape)
        warm = self._warm_up(built, cuda)
        steady = min(warm)
        difference, why_not = self._difference(built, expected)
        del expected
        steps = max(LEAST_STEPS, min(MOST_STEPS, int(ROUND_SECONDS / steady) if steady > 0 else MOST_STEPS))
        before = built.compiled()
        self._records.write(
            "ready",
            steps=steps,
            warmup_s=round(sum(warm), 6),
            compile_s=round(max(0.0, sum(warm) - len(warm) * steady), 6),
            warmup_steps=len(warm),
            max_difference=difference,
            why_no_difference=why_not,
        )
        for line in iter(commands.readline, b""):
            self._obey(built, json.loads(line.decode("utf-8")), steps, cuda)
        after = built.compiled()
        forward, backward = built.groups()
        self._records.write(
            "benched",
            peak_bytes=self._peak(built) if cuda else None,
            recompiles=after - before if after is not None and before is not None else None,
            groups_forward=forward,
            groups_backward=backward,
        )

    def _obey(self, built: Built, command: dict[str, Any], steps: int, cuda: bool) -> None:
        if command["do"] == "round":
            seconds = self._loop(built, steps)
            self._records.write("round", number=command["number"], steps=steps, seconds=seconds)
        elif command["do"] == "profile":
            with contextlib.suppress(Exception):  # A profiler that does not work costs its columns alone.
                self._records.write("profiled", **self._profile(built, max(3, steps // 10), cuda))

    def _loop(self, built: Built, steps: int) -> float:
        """Seconds that ``steps`` steps take, from an idle device to an idle device."""
        torch = self._torch
        gradients = torch.enable_grad() if self._training else torch.no_grad()
        loop = self._train if self._training else self._infer
        with gradients, built.around():
            self._synchronise()
            began = time.perf_counter()
            loop(built.model, steps)
            self._synchronise()
            return time.perf_counter() - began

    # What a step does beside the model must be as little as in a loop written by hand: where the host is the
    # limit, every microsecond of it is in the ratio.

    def _infer(self, model: Any, steps: int) -> None:
        shape = self._shape
        try:
            for _ in range(steps):
                model(*shape())
        except Refused:
            raise
        except Exception as error:
            raise UserError(self._variant) from error

    def _train(self, model: Any, steps: int) -> None:
        shape, parameters, backward = self._shape, self._parameters, self._torch.autograd.backward
        tensor_type = self._torch.Tensor
        flat = not any(isinstance(one, (list, tuple, dict)) for one in self._arguments())
        try:
            for _ in range(steps):
                arguments = shape()
                output = model(*arguments)
                roots = [output] if isinstance(output, tensor_type) else self._roots(output)
                backward(roots, self._starts if len(self._starts) == len(roots) else self._ones(roots))
                for one in arguments if flat else tensors_in(self._torch, arguments):
                    if isinstance(one, tensor_type):
                        one.grad = None
                for one in parameters:
                    one.grad = None
        except Refused:
            raise
        except Exception as error:
            raise UserError(self._variant) from error

    def _roots(self, output: Any) -> list[Any]:
        return [one for one in tensors_in(self._torch, output) if one.requires_grad]

    def _ones(self, roots: list[Any]) -> list[Any]:
        self._starts = [self._torch.ones_like(root) for root in roots]
        return self._starts

    def _arguments(self) -> tuple[Any, ...]:
        try:
            arguments = self._shape()
        except Refused:
            raise
        except Exception as error:
            raise UserError("inputs") from error
        if self._training and not self._learns(arguments):
            raise Refused(
                "inputs",
                "nothing here requires grad, so there is no backward pass to time",
                "Give an input ':grad' (--input 'float32[8,128]:grad') or a module with parameters, or leave "
                "--backward out.",
            )
        return arguments

    def _learns(self, arguments: tuple[Any, ...]) -> bool:
        tensors = tensors_in(self._torch, arguments) + parameters_of(self._model)
        return any(tensor.requires_grad for tensor in tensors)

    def _synchronise(self) -> None:
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def _warm_up(self, built: Built, cuda: bool) -> list[float]:
        """Seconds of each step until they are steady."""
        times: list[float] = []
        while len(times) < MOST_WARM_UP:
            times.append(self._loop(built, 1))
            self._records.write("warm", number=len(times))
            if len(times) >= LEAST_WARM_UP:
                least = min(times)
                if all(one <= STEADY * least for one in times[-STEADY_STEPS:]):
                    break
        return times

    # -- what it computes -----------------------------------------------------------------------------------

    def _expected(self) -> list[list[Any]]:
        """Outputs and gradients of an eager step, twice with other random numbers."""
        torch = self._torch
        twin = copy.deepcopy(self._model) if isinstance(self._model, torch.nn.Module) else self._model
        return [self._results(twin, seed) for seed in (1, 2)]

    def _results(self, model: Any, seed: int, around: Callable[[], Any] | None = None) -> list[Any]:
        torch = self._torch
        torch.manual_seed(seed)
        arguments = copy.deepcopy(self._arguments())
        try:
            gradients = torch.enable_grad() if self._training else torch.no_grad()
            with gradients, around() if around is not None else unfused(torch):
                outputs = tensors_in(torch, model(*arguments))
                roots = [one for one in outputs if one.requires_grad]
                if self._training and roots:
                    torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        except Exception as error:
            raise UserError("eager" if around is None else self._variant) from error
        found = [one.detach().clone() for one in outputs]
        if self._training:
            for tensor in tensors_in(torch, arguments) + parameters_of(model):
                if tensor.grad is not None:
                    found.append(tensor.grad.clone())
                    tensor.grad = None
        return found

    def _difference(self, built: Built, expected: Sequence[list[Any]]) -> tuple[float | None, str | None]:
        """Largest absolute difference of outputs and gradients from the eager step, or why there is none."""
        if self._variant == "eager":
            return 0.0, None
        torch = self._torch
        if not _alike(torch, *expected):
            return None, "the model draws random numbers"
        found = self._results(built.model, 1, built.around)
        if [one.shape for one in found] != [one.shape for one in expected[0]]:
            return None, "it returns other shapes, or gives other tensors gradients, than the eager model"
        return _largest(torch, found, expected[0]), None

    # -- the device -----------------------------------------------------------------------------------------

    def _peak(self, built: Built) -> int:
        """Bytes: the most that a step had allocated on the GPU."""
        cuda = self._torch.cuda
        self._synchronise()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        self._loop(built, 1)
        return int(cuda.max_memory_allocated())

    def _profile(self, built: Built, steps: int, cuda: bool) -> dict[str, Any]:
        """Milliseconds a step in which the device was busy, and a step of the profiled run."""
        if not cuda:
            return {"device_ms": None, "why": "on the CPU the device is the host"}
        from torch.profiler import ProfilerActivity, profile

        self._loop(built, 2)
        with profile(activities=[ProfilerActivity.CUDA]) as run:
            seconds = self._loop(built, steps)
        spans = _device_spans(run.events())
        if not spans:
            return {"device_ms": None, "why": "the profiler shows no kernel (CUPTI is not there)"}
        return {"device_ms": _union(spans) / 1e3 / steps, "step_ms": seconds * 1e3 / steps, "why": None}


def _described(torch: Any, value: Any) -> str:
    """As ``--input`` takes it: ``float32[8,128]:grad``; the type of anything else."""
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).replace("torch.", "")
        return "%s[%s]%s" % (name, ",".join(map(str, value.shape)), ":grad" if value.requires_grad else "")
    return repr(value) if isinstance(value, (bool, int, float)) else type(value).__name__


def _device_spans(events: Any) -> list[tuple[float, float]]:
    """(start, end) in microseconds of every kernel, copy and fill on the GPU."""
    found = []
    for event in events:
        if str(event.device_type).endswith("CUDA") and not getattr(event, "is_user_annotation", False):
            found.append((float(event.time_range.start), float(event.time_range.end)))
    return found


def _union(spans: list[tuple[float, float]]) -> float:
    """Length of what the spans cover together: kernels of several streams overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _alike(torch: Any, one: list[Any], other: list[Any]) -> bool:
    """Whether two eager steps with other seeds gave the same, but for the order of sums."""
    if [a.shape for a in one] != [b.shape for b in other]:
        return False
    return all(
        torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-4, equal_nan=True) if _real(a) else True
        for a, b in zip(one, other)
    )


def _largest(torch: Any, found: list[Any], expected: list[Any]) -> float | None:
    differences = []
    for one, other in zip(found, expected):
        if not one.numel() or not _real(one):
            continue
        a, b = one.double(), other.to(one.device).double()
        apart = (a - b).abs()
        apart = torch.where((a == b) | (torch.isnan(a) & torch.isnan(b)), torch.zeros_like(apart), apart)
        differences.append(float(apart.max()))
    return max(differences) if differences else None


def _real(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())
