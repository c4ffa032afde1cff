"""Whether results are the same: ``--verify`` runs every pass once more without fusion, on the same inputs;
and ``fusiondoc fix`` asks whether a changed program is still the same program.

For that both run as they are written, without any fuser, from the same seed on the same inputs; whether the
fuser then computes the same is for ``--verify`` to say.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
from typing import Any, Iterator, Sequence

from . import CANNOT_RUN, Refused, UserError
from .compare import (
    compare_rows,
    compare_statistics,
    random_flow,
    relative,
    statistics,
)
from .log_and_records import Records
from .pass_inputs import Shape, arguments_of, call, named_of, parameters_of, tensors_in

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


def tell_results(
    torch: Any, model: Any, shapes: Sequence[Shape], spec: dict[str, Any], records: Records
) -> None:
    """Keep the results of ``model``, or write a record ``same_results`` of how they compare with those kept.

    Args:
        model: as the user gave it; a copy of it runs.
        spec: ``results`` {"file", "compare"}: where they are kept, and whether they already exist.
    """
    wanted = spec["results"]
    before, pythons = random_state(torch), random.getstate()
    shaken: list[Any] = []
    try:
        found = [_of_shape(torch, model, shape, number, spec) for number, shape in enumerate(shapes)]
        if not wanted["compare"]:
            shaken = [_of_shape(torch, model, shape, number, spec, 1) for number, shape in enumerate(shapes)]
    finally:
        random.setstate(pythons)
        set_random_state(torch, before)
    if not wanted["compare"]:
        torch.save([rows for rows, _ in found], wanted["file"])
        coarsest = _coarsest(torch, model, shapes)
        for number, ((rows, _), (others, _)) in enumerate(zip(found, shaken)):
            results = _compared(torch, others, rows, coarsest)
            records.write("rounding", iteration=0, inputs=number, results=results)
        return
    kept = torch.load(wanted["file"])
    coarsest = _coarsest(torch, model, shapes)
    for number, (rows, drew) in enumerate(found):
        theirs = kept[number] if number < len(kept) else []
        results = _compared(torch, rows, theirs, coarsest)
        records.write(
            "same_results", iteration=0, inputs=number, random=["drawn"] if drew else [], results=results
        )


def _of_shape(
    torch: Any, model: Any, shape: Shape, number: int, spec: dict[str, Any], shake: int = 0
) -> tuple[list[Any], bool]:
    """The rows of one pass, and whether random numbers were drawn in it.

    Args:
        shake: change every parameter and input by about so many roundings before.
    """
    twin = eager_twin(torch, model, "fix")
    torch.manual_seed(number)
    random.seed(number)
    arguments = copy.deepcopy(arguments_of(shape))
    if shake:
        _shake(torch, parameters_of(twin) + tensors_in(torch, arguments), shake)
    torch.manual_seed(number)
    backward = spec["backward"]
    wants_grad = backward or any(one.requires_grad for one in tensors_in(torch, arguments))
    state = random_state(torch)
    stage = "forward"
    try:
        with unfused(torch), torch.enable_grad() if wants_grad else torch.no_grad():
            outputs = tensors_in(torch, call(twin, arguments))
            stage = "backward"
            if backward:
                differentiate(torch, outputs)
    except Exception as error:
        raise UserError(stage) from error
    drew = not all(torch.equal(one, other) for one, other in zip(state, random_state(torch)))
    rows = [("forward", "output %d" % i, one) for i, one in enumerate(outputs)]
    for i, one in enumerate(tensors_in(torch, arguments)):
        rows.append(("forward", "argument %d after the call" % i, one))
        if backward and one.requires_grad:
            rows.append(("backward", "grad of argument %d" % i, one.grad))
    if backward:
        named = getattr(twin, "named_parameters", list)
        rows += [("backward", "grad " + name, one.grad) for name, one in named() if one.requires_grad]
    return [(phase, what, _plain(one)) for phase, what, one in rows], drew


def _shake(torch: Any, tensors: list[Any], roundings: int) -> None:
    """How far results then are apart is what roundings alone do to this program: a fused kernel rounds at
    other places."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in tensors:
            if one.is_floating_point():
                sign = torch.randint(0, 2, one.shape, generator=generator) * 2 - 1
                one.mul_((1 + sign * roundings * torch.finfo(one.dtype).eps).to(one.device, one.dtype))


def _plain(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().clone().cpu()


def _coarsest(torch: Any, model: Any, shapes: Sequence[Shape]) -> float:
    tensors = parameters_of(model)
    for shape in shapes:
        tensors = tensors + tensors_in(torch, arguments_of(shape))
    return max([relative(torch, one.dtype) for one in tensors], default=0.0)


def _compared(torch: Any, ours: list[Any], theirs: list[Any], coarsest: float) -> list[dict[str, Any]]:
    """Another dtype is another result, and the words are those of two versions of a program."""
    rows = compare_rows(torch, ours, theirs, coarsest)
    for row in rows:
        row["same"] = row["same"] and row["dtype_same"]
        if row["detail"]:
            row["detail"] = row["detail"].replace("eager", "before").replace("fused run", "changed program")
    return rows
