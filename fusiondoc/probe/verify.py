"""``--verify``: every pass runs once more without fusion, on the same inputs; the results are compared."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any, Iterator

from .compare import (
    compare_rows,
    compare_statistics,
    random_flow,
    relative,
    statistics,
)
from .failures import CANNOT_RUN, Refused, UserError
from .pass_inputs import call, named_of, tensors_in
from .records import Records

_DRAWS = 3
"""Eager runs with other random numbers, to see how far statistics are apart by themselves."""


def eager_twin(torch: Any, model: Any, option: str = "--verify") -> Any:
    """A copy of the model as the user gave it, taken before it is scripted or frozen.

    What is TorchScript already has no Python code left: it is written out and read back, because a copy
    would share the executors, and with them the fused plans; ``unfused`` then keeps the copy from being
    optimised. Functions of Python are their own copies.
    """
    try:
        if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            buffer = io.BytesIO()
            torch.jit.save(model, buffer)
            buffer.seek(0)
            return torch.jit.load(buffer)
        return copy.deepcopy(model)
    except Exception as error:
        raise Refused(
            "verify",
            "%s: the model cannot be copied for the eager run: %s" % (option, str(error).split("\n")[0]),
            "Leave %s out, or keep what cannot be copied out of the model." % option,
            CANNOT_RUN,
        ) from None


@contextlib.contextmanager
def unfused(torch: Any) -> Iterator[None]:
    """TorchScript in the block runs as it was written, and says nothing in the JIT log: its plans are not
    those of the model under test."""
    switch = torch._C
    levels = switch._jit_get_logging_option()
    switch._jit_set_logging_option("")
    try:
        with torch.jit.optimized_execution(False):
            yield
    finally:
        switch._jit_set_logging_option(levels)


def _cotangent(torch: Any, number: int, output: Any) -> Any:
    """What the backward pass of an output starts from: fixed normal random numbers. With ones many gradients,
    such as that of a normalisation, are zero but for roundings."""
    generator = torch.Generator().manual_seed(1000 + number)
    drawn = torch.randn(output.shape, generator=generator)
    return drawn.to(device=output.device, dtype=output.dtype)


def differentiate(torch: Any, outputs: list[Any]) -> None:
    """The backward pass from every output that requires grad."""
    roots = [(one, _cotangent(torch, i, one)) for i, one in enumerate(outputs) if one.requires_grad]
    if roots:
        torch.autograd.backward([one for one, _ in roots], [start for _, start in roots])


class Verifier:
    """Compares every pass of ``scripted`` with the same pass of ``twin``."""

    def __init__(self, torch: Any, scripted: Any, twin: Any, records: Records) -> None:
        self._torch = torch
        self._scripted = scripted
        self._twin = twin
        self._records = records
        self._flow = random_flow(torch, scripted)

    def start(self, arguments: tuple[Any, ...]) -> Comparison:
        """To be called before the fused pass: inputs may be changed in it, random numbers will be drawn."""
        torch = self._torch
        self._copy_buffers()
        return Comparison(torch, self, copy.deepcopy(arguments), random_state(torch))

    def differentiate(self, outputs: list[Any]) -> None:
        """The backward pass from every output that requires grad."""
        differentiate(self._torch, outputs)

    def gradients(self, model: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        """Gradients by name, those of the arguments first; they are cleared."""
        torch = self._torch
        found: dict[str, Any] = {}
        for name, tensor in [*_named(torch, self._names(), arguments), *_parameters(model)]:
            if tensor.requires_grad and name not in found:
                found[name] = tensor.grad
                tensor.grad = None
        return found

    def _names(self) -> list[str]:
        schema = getattr(getattr(self._scripted, "forward", self._scripted), "schema", None)
        if schema is None:
            return []
        # The first argument of a method is the module itself.
        first = 1 if isinstance(self._scripted, self._torch.jit.ScriptModule) else 0
        return [one.name for one in schema.arguments[first:]]

    def _copy_buffers(self) -> None:
        """The twin begins each pass with the buffers (running means ...) of the model under test."""
        torch = self._torch
        if not (hasattr(self._twin, "named_buffers") and hasattr(self._scripted, "named_buffers")):
            return
        own = dict(self._twin.named_buffers())
        with torch.no_grad():
            for name, buffer in self._scripted.named_buffers():
                if name in own and own[name].shape == buffer.shape:
                    own[name].copy_(buffer)

    def eager(self, arguments: tuple[Any, ...], wants_grad: bool, backward: bool) -> Results:
        """One eager pass."""
        torch = self._torch
        try:
            with unfused(torch), torch.enable_grad() if wants_grad else torch.no_grad():
                outputs = tensors_in(torch, call(self._twin, arguments))
                if backward:
                    self.differentiate(outputs)
        except Exception as error:
            raise UserError("verify") from error
        return Results(outputs, self.gradients(self._twin, arguments) if backward else {})

    def coarsest(self, arguments: tuple[Any, ...]) -> float:
        """The tolerance of the least exact type among inputs and parameters."""
        torch = self._torch
        tensors = tensors_in(torch, arguments) + [one for _, one in _parameters(self._scripted)]
        return max([relative(torch, tensor.dtype) for tensor in tensors], default=0.0)

    def random_ops(self, drew: bool) -> list[str]:
        """The random operators, if random numbers were drawn at all."""
        return self._flow.ops if drew and self._flow is not None else []

    def is_random(self, drew: bool, output: int | None) -> bool:
        """Whether an output (None: a gradient) may depend on random numbers."""
        hangs = self._flow.outputs if self._flow is not None and self._flow.ops else None
        if not drew or hangs is None:
            return drew
        return any(hangs) if output is None else hangs[output : output + 1] != [False]

    def write(self, **fields: Any) -> None:
        self._records.write("verify", **fields)


class Results:
    """What a pass gave: output tensors, and gradients by name."""

    def __init__(self, outputs: list[Any], gradients: dict[str, Any]) -> None:
        self.outputs = outputs
        self.gradients = gradients

    def named(self) -> list[tuple[str, str, int | None, Any]]:
        """(phase, what, number of the output, tensor)"""
        rows: list[tuple[str, str, int | None, Any]] = [
            ("forward", "output %d" % i, i, one) for i, one in enumerate(self.outputs)
        ]
        rows += [("backward", "grad " + name, None, one) for name, one in self.gradients.items()]
        return rows


class Comparison:
    """One pass: made before the fused run, ``finish`` after it."""

    def __init__(self, torch: Any, verifier: Verifier, arguments: tuple[Any, ...], state: Any) -> None:
        self._torch = torch
        self._verifier = verifier
        self._arguments = arguments
        self._state = state

    def finish(self, index: int, number: int, fused: Results, wants_grad: bool, backward: bool) -> None:
        """Run the eager twin from the same state, compare, and write the record."""
        torch, verifier = self._torch, self._verifier
        after = random_state(torch)
        set_random_state(torch, self._state)
        spare = copy.deepcopy(self._arguments)
        tolerance = verifier.coarsest(self._arguments)
        eager = verifier.eager(self._arguments, wants_grad, backward)
        drew = not _same_state(torch, self._state, random_state(torch))
        with torch.no_grad():
            rows = self._rows(fused, eager, tolerance, drew, spare, wants_grad, backward)
        set_random_state(torch, after)
        ops = verifier.random_ops(drew)
        verifier.write(iteration=index, inputs=number, random=ops, results=rows)

    def _rows(
        self,
        fused: Results,
        eager: Results,
        tolerance: float,
        drew: bool,
        spare: tuple[Any, ...],
        wants_grad: bool,
        backward: bool,
    ) -> list[dict[str, Any]]:
        torch, verifier = self._torch, self._verifier
        outputs = {what: output for _, what, output, _ in fused.named()}
        draws: list[dict[str, Any]] = []

        def by_statistics(what: str, tensor: Any, other: Any, row: dict[str, Any]) -> dict[str, Any]:
            if not verifier.is_random(drew, outputs[what]):
                return row
            row = compare_statistics(torch, tensor, other)
            if row["same"]:
                return row
            if not draws:
                draws.extend(self._draw(spare, wants_grad, backward))
            seen = [statistics(torch, draw[what]) for draw in draws if draw.get(what) is not None]
            return compare_statistics(torch, tensor, other, seen)

        ours, theirs = ([(p, what, one) for p, what, _, one in of.named()] for of in (fused, eager))
        return compare_rows(torch, ours, theirs, tolerance, by_statistics)

    def _draw(self, spare: tuple[Any, ...], wants_grad: bool, backward: bool) -> list[dict[str, Any]]:
        """Results of eager passes with other random numbers."""
        found = []
        for _ in range(_DRAWS):
            arguments = copy.deepcopy(spare)
            results = self._verifier.eager(arguments, wants_grad, backward)
            found.append({what: tensor for _, what, _, tensor in results.named()})
        return found


def _parameters(model: Any) -> list[tuple[str, Any]]:
    named = getattr(model, "named_parameters", None)
    return list(named()) if callable(named) else []


def _named(torch: Any, names: list[str], arguments: tuple[Any, ...]) -> list[tuple[str, Any]]:
    found = []
    given = [(names[i] if i < len(names) else "input %d" % i, value) for i, value in enumerate(arguments)]
    for name, value in given + list(named_of(arguments).items()):
        tensors = tensors_in(torch, value)
        single = isinstance(value, torch.Tensor)
        found += [(name if single else "%s[%d]" % (name, k), one) for k, one in enumerate(tensors)]
    return found


def random_state(torch: Any) -> list[Any]:
    """Of the CPU's generator, then of each GPU's where CUDA is in use."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *cuda]


def set_random_state(torch: Any, state: list[Any]) -> None:
    """Back to what ``random_state`` gave."""
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])


def _same_state(torch: Any, one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))
