"""Steps of a model timed in rounds: for ``fusiondoc bench`` one variant in one
phase, in rounds that the parent requests; for ``--time`` eager against TorchScript,
in turns in this process.

Nothing is logged in this process while it is timed. A round is a plain loop of
steps as a training loop has it, without a synchronisation inside. For a bench it
warms up with each shape, in order, records that it is ready, and then waits: the
parent requests a round of each variant's child in turns, so that a machine that
slows down slows all of them.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
from typing import Any, Callable, Sequence

from . import Refused, UserError, first_line
from .benchmark_steps import Built, Given, Steps, build
from .fusers import TORCHSCRIPT, traced_on_cpu
from .log_and_records import Records
from .pass_inputs import (
    Shape,
    arguments_of,
    backward_from_ones,
    on_gpu,
    parameters_of,
    tensor_text,
    tensors_in,
)
from .same_results import eager_twin, unfused
from .step_profile import MOST_STEPS as MOST_TRACED
from .step_profile import STEP, failed_guards, plans_made, profiling

FORWARD = "forward"
TRAINING = "forward+backward"

LEAD = 5
"""A round first runs one uncounted step for every so many counted ones."""
MOST_STEPS = 2000
LEAST_STEPS = 3
TRACE = "trace-%d.json.gz"
"""File with steps of that shape under the profiler, with the operators."""


class _Warm:
    """A shape after its warm-up."""

    def __init__(self, steps: Steps, number: int) -> None:
        self.steps = steps
        self.number = number
        """Number of steps in a round."""


class Bench:
    """A variant in one phase.

    Args:
        model: the user's model, on its device.
        shapes: arguments of the steps of each shape.
        phase: ``FORWARD`` (no gradients are recorded) or ``TRAINING``.
    """

    def __init__(
        self,
        torch: Any,
        variant: str,
        model: Any,
        shapes: Sequence[Given],
        phase: str,
        records: Records,
    ) -> None:
        self._torch = torch
        self._variant = variant
        self._model = model
        self._training = phase == TRAINING
        self._shapes = []
        for given in shapes:
            self._shapes.append(Steps(torch, model, given, self._training, variant))
        self._records = records
        self._warm: dict[int, _Warm] = {}
        self._folder = ""
        self._seconds = 0.0
        self._is_recorded = False
        """Whether to record what a compiler makes for the first inputs."""

    def run(
        self, control: str, trace: bool, seconds: float, knobs: Callable[[], object]
    ) -> None:
        """Build, warm up, then obey the commands in the file ``control``, a JSON
        line each, until it ends.

        Args:
            seconds: approximate duration of a round.

        Raises:
            Refused: this torch or machine cannot run the variant.
            UserError: the model failed.
        """
        torch = self._torch
        self._folder = os.path.dirname(control)
        self._seconds = seconds
        # Loading runs concurrently with others, warming up alone: concurrent
        # compilations take longer.
        self._records.write("loaded", pid=os.getpid())
        commands = open(control, "rb")  # noqa: SIM115  (for the life of the process)
        begins = commands.readline()
        if not begins:
            return
        self._is_recorded = bool(json.loads(begins.decode("utf-8")).get("record"))
        first = self._shapes[0]
        expected = self._expected(first)
        example = first.given.example
        built = build(
            torch, self._variant, self._model, example, self._training, trace
        )
        knobs()
        self._records.write(
            "variant", name=self._variant, fuser=built.fuser, note=built.note
        )
        cuda = on_gpu(torch, self._model, example)
        self._warm_up(built, 0, expected, cuda)
        del expected
        for number in range(1, len(self._shapes)):
            try:
                self._warm_up(
                    built, number, self._expected(self._shapes[number]), cuda
                )
            except (Refused, UserError) as error:
                # The other shapes can still be timed.
                failed = error.__cause__ if isinstance(error, UserError) else error
                self._records.write(
                    "unfit",
                    shape=number,
                    type=type(failed).__name__,
                    message=str(failed),
                )
        before = built.compiled()
        self._records.write("warmed", shapes=len(self._warm))
        for line in iter(commands.readline, b""):
            self._obey(built, json.loads(line.decode("utf-8")), cuda)
        after = built.compiled()
        forward, backward = built.groups()
        recompiles = None
        if after is not None and before is not None:
            recompiles = after - before
        self._records.write(
            "benched",
            recompiles=recompiles,
            groups_forward=forward,
            groups_backward=backward,
            graphs=after,
            recorded=self._is_recorded and built.recorded is not None,
        )

    def _warm_up(
        self, built: Built, shape: int, expected: list[list[Any]], cuda: bool
    ) -> None:
        """Run steps of this shape until their times are steady, and record the time
        of the warm-up."""
        steps = self._shapes[shape]
        described = [_described(self._torch, value) for value in steps.example()]
        self._records.write(
            "inputs", shape=shape, inputs=described, sizes=steps.given.sizes
        )
        after_each_step = lambda: self._records.write("warm", shape=shape)  # noqa: E731
        first = []
        if not shape and steps.given.sizes > 1:
            # As in the tutorial: the first size is measured alone, so that the cost
            # of the others is seen separately.
            alone = Steps(
                self._torch,
                self._model,
                Given(steps.given.example),
                self._training,
                self._variant,
            )
            first = self._compile(built, alone, after_each_step)
        compiled = built.compiled()
        recompiles: int | None = None if self._variant == "eager" else 0
        if not shape and steps.given.sizes == 1:
            warm = self._compile(built, steps, after_each_step)
        elif self._variant in TORCHSCRIPT:
            with plans_made(self._torch, self._folder) as count:
                warm = steps.warm_up(built, after_each_step)
            recompiles = count.plans
        else:
            warm = steps.warm_up(built, after_each_step)
            now = built.compiled()
            recompiles = None
            if now is not None and compiled is not None:
                recompiles = now - compiled
        steady = min(warm)
        sizes = steps.given.sizes
        difference, why_not = self._difference(built, steps, expected)
        whole = self._steps_of_round(steady, sizes)
        self._warm[shape] = _Warm(steps, whole)
        self._records.write(
            "ready",
            shape=shape,
            steps=whole,
            warmup_s=round(sum(first) + sum(warm), 6),
            compile_s=round(
                max(
                    0.0,
                    sum(first)
                    + sum(warm)
                    - (len(first) / sizes + len(warm)) * steady,
                ),
                6,
            ),
            first_ms=round(warm[0] / sizes * 1e3, 6),
            recompiles=recompiles,
            max_difference=difference,
            why_no_difference=why_not,
        )

    def _compile(
        self, built: Built, steps: Steps, after_each_step: Callable[[], object]
    ) -> list[float]:
        """Run the warm-up in which the variant is compiled. Hooks that record it
        are active only here, not in the counted steps."""
        recorded = built.recorded if self._is_recorded else None
        if recorded is not None:
            recording = recorded(self._records)
        else:
            recording = contextlib.nullcontext()
        with recording:
            return steps.warm_up(built, after_each_step)

    def _steps_of_round(self, steady: float, sizes: int) -> int:
        """Number of steps, of ``steady`` seconds each, for about the duration of a
        round."""
        number = self._seconds / steady * sizes if steady > 0 else MOST_STEPS
        return (
            max(1, round(max(LEAST_STEPS, min(MOST_STEPS, number)) / sizes)) * sizes
        )

    def _settle(self, built: Built) -> None:
        """Measure the steps once more: other processes may have slowed down the
        warm-up."""
        for warm in self._warm.values():
            steady = min(warm.steps.warm_up(built, lambda: None))
            warm.number = self._steps_of_round(steady, warm.steps.given.sizes)
        self._records.write("warmed", shapes=len(self._warm))

    def _obey(self, built: Built, command: dict[str, Any], cuda: bool) -> None:
        if command["do"] == "settle":
            self._settle(built)
            return
        shape = command["shape"]
        steps, number = self._warm[shape].steps, self._warm[shape].number
        if command["do"] == "round":
            seconds = steps.loop(
                built, number, lead=_whole(number, LEAD, steps.given.sizes)
            )
            self._records.write(
                "round",
                number=command["number"],
                shape=shape,
                steps=number,
                seconds=seconds,
            )
        elif command["do"] == "profile":
            few = max(3, _whole(number, 10, steps.given.sizes))
            try:
                found = self._profile(built, steps, few, cuda)
            except Exception as error:  # Without a profiler its columns stay empty.
                found = {
                    "device_ms": None,
                    "why": "the profiler failed: %s" % first_line(error),
                }
            traced = self._trace(
                built, steps, few, cuda, os.path.join(self._folder, TRACE % shape)
            )
            device = "cuda" if cuda else "cpu"
            facts = _matrix_facts(self._torch) if cuda else {}
            self._records.write(
                "profiled",
                shape=shape,
                device=device,
                traced=traced,
                **found,
                **facts,
            )
        elif command["do"] == "inspect":
            self._records.write(
                "inspected",
                shape=shape,
                guard_failures=self._failed_guards(built, steps),
                peak_bytes=self._peak(built, steps) if cuda else None,
            )

    def _failed_guards(self, built: Built, steps: Steps) -> int | None:
        if self._variant not in TORCHSCRIPT:
            return None
        return failed_guards(
            self._torch, lambda: steps.loop(built, steps.given.sizes)
        )

    # -- results --------------------------------------------------------------------------------------------

    def _expected(self, steps: Steps) -> list[list[Any]]:
        """Outputs and gradients of an eager step, twice with other random
        numbers."""
        torch = self._torch
        if isinstance(self._model, torch.nn.Module):
            twin = copy.deepcopy(self._model)
        else:
            twin = self._model
        arguments = steps.example()
        return [self._results(twin, arguments, seed) for seed in (1, 2)]

    def _results(
        self,
        model: Any,
        given: tuple[Any, ...],
        seed: int,
        around: Callable[[], Any] | None = None,
    ) -> list[Any]:
        torch = self._torch
        torch.manual_seed(seed)
        arguments = copy.deepcopy(given)
        try:
            gradients = torch.enable_grad() if self._training else torch.no_grad()
            fusion = around() if around is not None else unfused(torch)
            with gradients, fusion:
                outputs = tensors_in(torch, model(*arguments))
                if self._training and any(
                    output.requires_grad for output in outputs
                ):
                    backward_from_ones(torch, outputs)
        except Exception as error:
            raise UserError("eager" if around is None else self._variant) from error
        found = [output.detach().clone() for output in outputs]
        if self._training:
            for tensor in tensors_in(torch, arguments) + parameters_of(model):
                if tensor.grad is not None:
                    found.append(tensor.grad.clone())
                    tensor.grad = None
        return found

    def _difference(
        self, built: Built, steps: Steps, expected: Sequence[list[Any]]
    ) -> tuple[float | None, str | None]:
        """Largest absolute difference of outputs and gradients from the eager step,
        or why there is none."""
        if self._variant == "eager":
            return 0.0, None
        torch = self._torch
        if not _alike(torch, *expected):
            return None, "the model draws random numbers"
        found = self._results(built.model, steps.example(), 1, built.around)
        if [result.shape for result in found] != [
            result.shape for result in expected[0]
        ]:
            return (
                None,
                "it returns other shapes, or gives other tensors gradients, than the eager model",
            )
        return _largest(torch, found, expected[0]), None

    # -- the device -----------------------------------------------------------------------------------------

    def _peak(self, built: Built, steps: Steps) -> int:
        """Largest number of bytes allocated on the GPU in a step."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        steps.loop(built, steps.given.sizes)
        return int(cuda.max_memory_allocated())

    def _profile(
        self, built: Built, steps: Steps, number: int, cuda: bool
    ) -> dict[str, Any]:
        """Milliseconds of a step in which the device was busy, and of a profiled
        step."""
        if not cuda:
            return {"device_ms": None, "why": "on the CPU the device is the host"}
        with profiling(self._torch, cuda, host=False) as run:
            seconds = steps.loop(built, number)
        spans = _device_spans(run.events())
        if not spans:
            return {
                "device_ms": None,
                "why": "the profiler shows no kernel (CUPTI is not there)",
            }
        return {
            "device_ms": _union(spans) / 1e3 / number,
            "step_ms": seconds * 1e3 / number,
            "why": None,
        }

    def _trace(
        self, built: Built, steps: Steps, most: int, cuda: bool, path: str
    ) -> int | None:
        """Write a trace of steps with the operators on the host. Return the number
        of steps; None if there is no usable trace. The loop is the timed one, and
        counts as one step for the profiler.
        """
        if not (cuda or traced_on_cpu(self._variant)):
            return None
        sizes = steps.given.sizes
        number = max(1, min(most, MOST_TRACED) // sizes) * sizes
        try:
            with profiling(
                self._torch, cuda
            ):  # The first run of a profiler sets it up.
                steps.loop(built, sizes)
            step = self._torch.profiler.record_function(STEP)
            with profiling(self._torch, cuda) as run, step:
                steps.loop(built, number)
            run.export_chrome_trace(path)
        except Exception:  # As above: only the parts are lost.
            return None
        return number


def _matrix_facts(torch: Any) -> dict[str, Any]:
    """How float32 matrices are multiplied, and on which GPU."""
    capability = ".".join(map(str, torch.cuda.get_device_capability()))
    return {
        "allow_tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "capability": capability,
    }


def _whole(steps: int, part: int, sizes: int) -> int:
    """Return a ``part``-th of the steps, rounded to whole passes over the sizes, at
    least one pass."""
    return max(1, round(steps / part / sizes)) * sizes


def _described(torch: Any, value: Any) -> str:
    """An input in the notation of ``--input``; the class of a value that this
    cannot express."""
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if isinstance(value, (bool, int, float)):
        return repr(value)
    return type(value).__name__


def _device_spans(events: Any) -> list[tuple[float, float]]:
    """(start, end) in microseconds of every kernel, copy and fill on the GPU."""
    found = []
    for event in events:
        if str(event.device_type).endswith("CUDA") and not getattr(
            event, "is_user_annotation", False
        ):
            found.append(
                (float(event.time_range.start), float(event.time_range.end))
            )
    return found


def _union(spans: list[tuple[float, float]]) -> float:
    """Length of the union of the spans, in their unit, as kernels of several
    streams overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _alike(torch: Any, first: list[Any], other: list[Any]) -> bool:
    """True if two eager steps with different seeds have equal results, up to the
    order of sums."""
    if [a.shape for a in first] != [b.shape for b in other]:
        return False
    return all(
        torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-4, equal_nan=True)
        if _real(a)
        else True
        for a, b in zip(first, other)
    )


def _largest(torch: Any, found: list[Any], expected: list[Any]) -> float | None:
    differences = []
    for result, other in zip(found, expected):
        if not result.numel() or not _real(result):
            continue
        a, b = result.double(), other.to(result.device).double()
        apart = (a - b).abs()
        apart = torch.where(
            (a == b) | (torch.isnan(a) & torch.isnan(b)),
            torch.zeros_like(apart),
            apart,
        )
        differences.append(float(apart.max()))
    if differences:
        return max(differences)
    return None


def _real(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())


ROUNDS = 15
ROUND_SECONDS = 0.1
"""Approximate duration of a round."""
MOST_TIMED = 1000
"""Most steps of a round of ``--time``."""


class _Way:
    """One of the two ways to run: "eager" (then inside ``unfused``) or "fused"."""

    def __init__(self, name: str, built: Built, steps: Steps) -> None:
        self.name = name
        self.built = built
        self.steps = steps
        self.number = LEAST_STEPS
        """Number of steps in a round."""
        self.warm: list[float] = []
        self.rounds: list[float] = []
        """Milliseconds of a step in each round."""


class Timing:
    """Times ``scripted`` against the ``model`` that it was made from. A model that
    is TorchScript already has no Python code left: a copy that runs without
    optimisation is then its eager form."""

    def __init__(
        self,
        torch: Any,
        scripted: Any,
        model: Any,
        shapes: Sequence[Shape],
        backward: bool,
        records: Records,
    ) -> None:
        self._torch = torch
        self._shapes = shapes
        self._backward = backward
        self._records = records
        copied = isinstance(
            model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)
        )
        self._unscripted = eager_twin(torch, model, "--time") if copied else model
        self._scripted = scripted
        self._spare_bytes = _size(self._unscripted) if copied else 0
        self._eager = "TorchScript without optimisation" if copied else "Python"

    def run(self, warm_up: int, rounds: int | None = None) -> None:
        """Write a record ``speed`` for each way, shape and phase. Args: warm_up:
            least number of steps before the counted ones. rounds: number of rounds
            of each way; None: ``ROUNDS``.

        Raises:
            UserError: the model failed.
            Refused: the inputs cannot be used.
        """
        phases = ["forward", "forward+backward"] if self._backward else ["forward"]
        for number, shape in enumerate(self._shapes):
            for phase in phases:
                self._phase(phase, number, shape, warm_up, rounds or ROUNDS)

    def _phase(
        self, phase: str, number: int, shape: Shape, warm_up: int, rounds: int
    ) -> None:
        arguments = arguments_of(shape)
        given = Given(shape, fixed=arguments_of(shape) is arguments)
        tensors = tensors_in(self._torch, arguments)
        # As in the diagnosed run, whose times these are.
        recorded = self._backward or any(tensor.requires_grad for tensor in tensors)
        gpu = any(
            tensor.is_cuda for tensor in tensors + parameters_of(self._scripted)
        )
        ways = []
        for name, model in (("eager", self._unscripted), ("fused", self._scripted)):
            built = Built(model)
            if name == "eager":
                built.around = lambda: unfused(self._torch)
            stage = name if name == "eager" else "forward"
            training = phase != "forward"
            ways.append(
                _Way(
                    name,
                    built,
                    Steps(self._torch, model, given, training, stage, recorded),
                )
            )
        for way in ways:
            way.warm = way.steps.warm_up(way.built, lambda: None, warm_up)
            if min(way.warm) > 0:
                fit = int(ROUND_SECONDS / min(way.warm))
            else:
                fit = MOST_TIMED
            way.number = max(LEAST_STEPS, min(MOST_TIMED, fit))
        for turn in range(rounds):
            for way in ways if turn % 2 else reversed(ways):
                seconds = way.steps.loop(way.built, way.number, lead=1)
                way.rounds.append(round(seconds / way.number * 1e3, 6))
        for way in ways:
            self._write_speed(way, phase, number, gpu)

    def _write_speed(self, way: _Way, phase: str, number: int, gpu: bool) -> None:
        ordered = sorted(way.rounds)
        self._records.write(
            "speed",
            way=way.name,
            phase=phase,
            inputs=number,
            ms=[ordered[0], ordered[len(ordered) // 2], ordered[-1]],
            rounds=way.rounds,
            passes=way.number * len(way.rounds),
            warmup_ms=[round(seconds * 1e3, 6) for seconds in way.warm],
            memory_bytes=self._memory(way) if gpu else None,
            eager=self._eager,
        )

    def _memory(self, way: _Way) -> int:
        """Peak of the allocated memory in a step, without the memory of the copy
        for eager."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        way.steps.loop(way.built, 1)
        return int(cuda.max_memory_allocated()) - self._spare_bytes


def _size(model: Any) -> int:
    """Bytes of a module's parameters and buffers on a GPU."""
    buffers = getattr(model, "buffers", None)
    tensors = parameters_of(model) + (list(buffers()) if callable(buffers) else [])
    total = 0
    for tensor in tensors:
        if tensor.is_cuda:
            total += tensor.numel() * tensor.element_size()
    return total
