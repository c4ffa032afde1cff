"""For ``fusiondoc fix``: compare the results of a changed program with those of the
unchanged one.

Both run as Python code without any fuser, with the same seed and inputs;
``--verify`` compares fused results with eager ones (``passes.py``). Results that
differ are judged as there, by the results of the unchanged program in float64.
"""

from __future__ import annotations

import contextlib
import copy
import random
import time
from typing import Any, Sequence

from . import UserError
from .log_and_records import Records
from .pass_inputs import Shape, arguments_of, call, parameters_of, tensors_in
from .reference_run import Reference, References, Start, judge
from .same_draws import same_draws
from .same_results import (
    compare_rows,
    compare_statistics,
    cotangents,
    differentiate,
    eager_twin,
    random_state,
    relative,
    same_state,
    set_random_state,
    statistics,
    unfused,
)

SAME_DRAWS = "same draws"
"""A way in which results were compared: by value, in passes whose random numbers
depend on the shape alone."""

_DRAWS = 3
"""Number of runs with other random numbers, to see how much their statistics
vary."""


def keep_or_compare_results(
    torch: Any,
    model: Any,
    shapes: Sequence[Shape],
    spec: dict[str, Any],
    records: Records,
) -> None:
    """Keep the results of ``model``, or write a record ``same_results`` with their
    comparison to kept ones. Args: model: the user's model; a copy of it runs. spec:
    ``results`` {"file",
        "compare"}: where they are kept, and whether they already exist.
    """
    wanted = spec["results"]
    before, pythons = random_state(torch), random.getstate()
    try:
        if wanted["compare"]:
            _hold_against(
                torch, model, shapes, spec, torch.load(wanted["file"]), records
            )
        else:
            torch.save(_keep(torch, model, shapes, spec, records), wanted["file"])
    finally:
        random.setstate(pythons)
        set_random_state(torch, before)


def _keep(
    torch: Any,
    model: Any,
    shapes: Sequence[Shape],
    spec: dict[str, Any],
    records: Records,
) -> list[dict[str, Any]]:
    """Return the results of each shape, to be kept; also record how much rounding
    alone changes them.

    ``rows``: the results. ``drew``: random numbers were drawn. ``alike``: the
    results with random numbers that depend on the shape alone; None where this
    torch cannot do that, and then ``draws`` has those of other seeds.
    ``reference``: those of a run in float64.
    """
    kept = []
    coarsest = _coarsest(torch, model, shapes)
    wider = References(torch, model)
    for number, shape in enumerate(shapes):
        own = Pass(torch, model, shape, number, spec)
        shaken = Pass(torch, model, shape, number, spec, shake=1)
        if own.drew:
            alike = _with_same_draws(torch, model, shape, number, spec)
        else:
            alike = own.rows
        seeds = (
            range(number + 1000, number + 1000 + _DRAWS) if alike is None else ()
        )
        draws = [Pass(torch, model, shape, seed, spec).rows for seed in seeds]
        reference = _plain_reference(own.reference(wider))
        kept.append(
            {
                "rows": own.rows,
                "drew": own.drew,
                "alike": alike,
                "draws": draws,
                "reference": reference,
            }
        )
        results = _compared(torch, shaken.rows, own.rows, coarsest)
        records.write("rounding", iteration=0, inputs=number, results=results)
    return kept


def _hold_against(
    torch: Any,
    model: Any,
    shapes: Sequence[Shape],
    spec: dict[str, Any],
    kept: list[dict[str, Any]],
    records: Records,
) -> None:
    """Compare with the kept results, and write a record for each shape.

    A version that draws other random numbers from the same seed is compared once
    more with random numbers that depend on the shape alone, or where this torch
    cannot do that, by statistics."""
    coarsest = _coarsest(torch, model, shapes)
    nothing: dict[str, Any] = {
        "rows": [],
        "drew": False,
        "alike": [],
        "draws": [],
        "reference": None,
    }
    for number, shape in enumerate(shapes):
        theirs = kept[number] if number < len(kept) else nothing
        own = Pass(torch, model, shape, number, spec)
        made = theirs["reference"]
        reference = Reference(*made) if made is not None and not own.drew else None
        results = _compared(torch, own.rows, theirs["rows"], coarsest, reference)
        if (own.drew or theirs["drew"]) and not all(row["same"] for row in results):
            if theirs["alike"] is None:
                results = _compared(
                    torch, own.rows, theirs["rows"], coarsest, draws=theirs["draws"]
                )
            else:
                alike = _with_same_draws(torch, model, shape, number, spec)
                if alike is not None:
                    results = _compared(torch, alike, theirs["alike"], coarsest)
                    results = [dict(row, by=SAME_DRAWS) for row in results]
        random_ops = ["drawn"] if own.drew else []
        records.write(
            "same_results",
            iteration=0,
            inputs=number,
            random=random_ops,
            results=results,
        )


def _with_same_draws(
    torch: Any, model: Any, shape: Shape, number: int, spec: dict[str, Any]
) -> list[Any] | None:
    """The rows of a pass whose random numbers depend on the shape alone; None if
    this torch cannot do it."""
    try:
        return Pass(torch, model, shape, number, spec, alike=True).rows
    except Exception:
        return None


class Pass:
    """One pass of a copy of the model, which raises UserError; ``rows`` are its
    results, on the CPU, and ``drew`` is True if random numbers were drawn in it.

    Args:
        number: the number of the shape, used as the seed.
        shake: first change every parameter and input by about so many roundings.
        alike: make random numbers depend on the shape alone.
    """

    def __init__(
        self,
        torch: Any,
        model: Any,
        shape: Shape,
        number: int,
        spec: dict[str, Any],
        shake: int = 0,
        alike: bool = False,
    ) -> None:
        self._torch = torch
        self._alike = alike
        self._backward = spec["backward"]
        twin = eager_twin(torch, model, "fix")
        torch.manual_seed(number)
        random.seed(number)
        arguments = copy.deepcopy(arguments_of(shape))
        if shake:
            _shake(torch, parameters_of(twin) + tensors_in(torch, arguments), shake)
        torch.manual_seed(number)
        self._start = Start(
            number, copy.deepcopy(arguments), {}, random_state(torch)
        )
        self._starts: list[Any] | None = None
        began = time.perf_counter()
        self.rows = self._results(twin, arguments)
        self._seconds = time.perf_counter() - began
        self.drew = not same_state(torch, self._start.state, random_state(torch))

    def reference(self, references: References) -> Reference | None:
        """Return the wider reference; None if it would draw other random
        numbers."""
        if self.drew:
            return None
        if self._backward:
            outputs = []
            for _, what, tensor in self.rows:
                if what.startswith("output "):
                    outputs.append(tensor)
            self._starts = cotangents(self._torch, outputs)
        return references.of(self._start, self._wider, self._seconds)

    def _wider(self, model: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        random.seed(self._start.number)
        tensors = {}
        for _, what, tensor in self._results(model, arguments, self._starts):
            tensors[what] = tensor
        return tensors

    def _results(
        self,
        twin: Any,
        arguments: tuple[Any, ...],
        starts: Sequence[Any] | None = None,
    ) -> list[Any]:
        torch, backward = self._torch, self._backward
        wants_grad = backward or any(
            tensor.requires_grad for tensor in tensors_in(torch, arguments)
        )
        stage = "forward"
        try:
            draws = same_draws(torch) if self._alike else contextlib.nullcontext()
            with unfused(
                torch
            ), torch.enable_grad() if wants_grad else torch.no_grad(), draws:
                outputs = tensors_in(torch, call(twin, arguments))
                stage = "backward"
                if backward:
                    differentiate(torch, outputs, starts)
        except Exception as error:
            raise UserError(stage) from error
        rows = []
        for i, output in enumerate(outputs):
            rows.append(("forward", "output %d" % i, output))
        for i, tensor in enumerate(tensors_in(torch, arguments)):
            rows.append(("forward", "argument %d after the call" % i, tensor))
            if backward and tensor.requires_grad:
                rows.append(("backward", "grad of argument %d" % i, tensor.grad))
        if backward:
            named = getattr(twin, "named_parameters", list)
            for name, parameter in named():
                if parameter.requires_grad:
                    rows.append(("backward", "grad " + name, parameter.grad))
        return [(phase, what, _kept(tensor)) for phase, what, tensor in rows]


def _shake(torch: Any, tensors: list[Any], roundings: int) -> None:
    """Change each element by ``roundings`` units of rounding. The change of the
    results then shows the effect of rounding alone on this program: a fused kernel
    rounds at other points of the computation."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in tensors:
            if tensor.is_floating_point():
                sign = (
                    torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
                )
                tensor.mul_(
                    (1 + sign * roundings * torch.finfo(tensor.dtype).eps).to(
                        tensor.device, tensor.dtype
                    )
                )


def _kept(tensor: Any) -> Any:
    if tensor is None:
        return None
    return tensor.detach().clone().cpu()


def _coarsest(torch: Any, model: Any, shapes: Sequence[Shape]) -> float:
    tensors = parameters_of(model)
    for shape in shapes:
        tensors = tensors + tensors_in(torch, arguments_of(shape))
    return max([relative(torch, tensor.dtype) for tensor in tensors], default=0.0)


def _plain_reference(made: Reference | None) -> tuple[Any, ...] | None:
    """The reference as a plain tuple, which ``torch.load`` reads without any class
    of ours."""
    if made is None:
        return None
    return made.computed_in, made.problem, made.dtype, made.results, made.narrowest


def _compared(
    torch: Any,
    ours: list[Any],
    theirs: list[Any],
    coarsest: float,
    reference: Reference | None = None,
    draws: Sequence[list[Any]] = (),
) -> list[dict[str, Any]]:
    """The rows of a comparison of two versions of a program, in which a result of
    another dtype differs.

    Args:
        draws: their results with other random numbers: results that differ by value are then compared by
            statistics.
    """

    def again(
        what: str, own: Any, other: Any, row: dict[str, Any], largest: float
    ) -> dict[str, Any]:
        if draws:
            named = []
            for rows in draws:
                for _, name, tensor in rows:
                    if name == what and tensor is not None:
                        named.append(tensor)
            return compare_statistics(
                torch, own, other, [statistics(torch, tensor) for tensor in named]
            )
        if reference is None or own.shape != other.shape or not row["dtype_same"]:
            return row
        return judge(torch, row, what, (own, other), reference, largest)

    rows = compare_rows(torch, ours, theirs, coarsest, again)
    for row in rows:
        row["same"] = row["same"] and row["dtype_same"]
        if row["detail"]:
            row["detail"] = (
                row["detail"]
                .replace("eager", "before")
                .replace("fused run", "changed program")
            )
    return rows
