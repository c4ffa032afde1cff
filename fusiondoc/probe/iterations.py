"""The passes: forward, and backward if asked for, marked in the log and written to the records;
and for ``--time``, how long a step takes, eager against TorchScript, in the loops of ``fusiondoc bench``.

Nothing is logged or dumped in a process that is timed. Both ways take a round of steps in turns, so that a
machine that slows down slows both, and nothing of Python runs between the steps of a round but the loop.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import Refused, UserError, hint_of
from .benchmark_steps import Built, Given, Steps
from .log_and_records import LOG, Records, mark
from .models import signature
from .pass_inputs import Shape, arguments_of, call, named_of, parameters_of, tensors_in
from .verify import eager_twin, unfused

if TYPE_CHECKING:
    from .verify import Verifier

_WRONG_INPUT = re.compile(
    r"Expected a value of type|expected at most|missing value for argument|Unknown keyword argument"
    r"|takes \d+ positional arguments? but|missing \d+ required positional"
)
"""What TorchScript says (function_schema_inl.h, pybind_utils.h) when arguments do not fit the schema."""


class Passes:
    """Runs ``model`` ``runs`` times on each shape, one shape after the other; with a ``verifier`` every pass
    is compared with an eager one."""

    def __init__(
        self,
        torch: Any,
        model: Any,
        shapes: Sequence[Shape],
        runs: int,
        backward: bool,
        records: Records,
        verifier: Verifier | None = None,
    ) -> None:
        self._torch = torch
        self._model = model
        self._shapes = shapes
        self._runs = runs
        self._backward = backward
        self._records = records
        self._verifier = verifier
        self._total = runs * len(shapes)
        self._told = False
        self._away: dict[str, str] = {}

    def run(self) -> None:
        """Raises UserError (the model raised) or Refused (unfit inputs, nothing to differentiate)."""
        index = 0
        for number, shape in enumerate(self._shapes):
            for _ in range(self._runs):
                index += 1
                self._one(index, number, shape)
        mark("end")

    def _one(self, index: int, number: int, shape: Shape) -> None:
        torch = self._torch
        arguments = arguments_of(shape)
        tensors = tensors_in(torch, arguments)
        # Without --backward a model runs as in inference unless an input asks for grad; parameters always do.
        wants_grad = self._backward or any(tensor.requires_grad for tensor in tensors)
        verifier = self._verifier
        comparison = verifier.start(arguments) if verifier is not None else None
        with torch.enable_grad() if wants_grad else torch.no_grad():
            output = self._timed(index, number, "forward", lambda: self._forward(arguments))
        outputs = tensors_in(torch, output)
        gradients: dict[str, Any] = {}
        if self._backward:
            if not any(one.requires_grad for one in outputs):
                raise Refused(
                    "backward",
                    "--backward: no output of the model requires grad",
                    "Make an input require grad (--input 'float32[8,128]:grad', or requires_grad=True), "
                    "or use a module with parameters.",
                )
            self._timed(index, number, "backward", lambda: self._differentiate(outputs))
            if verifier is not None:
                gradients = verifier.gradients(self._model, arguments)
            for tensor in tensors + self._parameters():
                tensor.grad = None
        if comparison is not None:
            from .verify import Results

            comparison.finish(index, number, Results(outputs, gradients), wants_grad, self._backward)

    def _timed(self, index: int, number: int, phase: str, work: Callable[[], Any]) -> Any:
        mark("iteration %d/%d %s inputs %d" % (index, self._total, phase, number))
        self._tell_of(LOG.away())
        with LOG.in_place(), LOG.told_when_put_back(self._records.write):
            began = time.perf_counter()
            result = work()
            if self._torch.cuda.is_initialized():
                self._torch.cuda.synchronize()
            turned = LOG.away()
        if turned and turned != self._away:
            # In the pass itself, or nothing was left to put back: something is missing from the log.
            self._away = turned
            self._records.write("redirected", **turned)
        self._records.write(
            "iteration",
            index=index,
            runs=self._total,
            phase=phase,
            inputs=number,
            seconds=round(time.perf_counter() - began, 6),
        )
        return result

    def _tell_of(self, away: dict[str, str]) -> None:
        """Say once that the program's own descriptors are not those of the log."""
        if away and not self._told and LOG.descriptor >= 0:
            self._told = True
            ways = " and ".join("%s %s" % one for one in sorted(away.items()))
            text = "the program's %s; during the passes both go to the log all the same" % ways
            self._records.write("note", text=text)

    def _forward(self, arguments: tuple[Any, ...]) -> Any:
        try:
            return call(self._model, arguments)
        except Exception as error:
            text = str(error)
            inside = "TorchScript interpreter" in text or self._in_users_code(error)
            if _WRONG_INPUT.search(text) and not inside:
                declared = signature(self._model)
                told = [_described(self._torch, value) for value in arguments]
                told += [
                    "%s=%s" % (name, _described(self._torch, one))
                    for name, one in named_of(arguments).items()
                ]
                given = ", ".join(told)
                raise Refused(
                    "inputs",
                    "the inputs do not fit the model: %s\ngiven: (%s)" % (text.split("\n")[0], given),
                    hint_of(text) or ("The model is declared as %s." % declared if declared else None),
                ) from None
            raise UserError("forward") from error

    def _in_users_code(self, error: BaseException) -> bool:
        """Whether it was raised behind a function of the program's: by a call with arguments of its own."""
        trace = error.__traceback__
        torchs = os.path.dirname(os.path.abspath(self._torch.__file__)) + os.sep
        own = os.path.dirname(os.path.abspath(__file__)) + os.sep
        while trace is not None:
            file = trace.tb_frame.f_code.co_filename
            if not file.startswith((torchs, own, "<")):
                return True
            trace = trace.tb_next
        return False

    def _differentiate(self, outputs: list[Any]) -> None:
        torch = self._torch
        try:
            if self._verifier is not None:
                self._verifier.differentiate(outputs)
                return
            roots = [one for one in outputs if one.requires_grad]
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        except Exception as error:
            raise UserError("backward") from error

    def _parameters(self) -> list[Any]:
        parameters = getattr(self._model, "parameters", None)
        return list(parameters()) if callable(parameters) else []


def _described(torch: Any, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "%s%s" % (str(value.dtype).replace("torch.", ""), list(value.shape))
    return type(value).__name__


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
