"""What the program computes without any fuser, kept or held against that of another version of the program.

``fusiondoc fix`` asks whether a changed program is still the same program: both run as they are written, from
the same seed on the same inputs. Whether the fuser then computes the same is for ``verify`` to say.
"""

from __future__ import annotations

import copy
import random
from typing import Any, Sequence

from .compare import compare_rows, relative
from .failures import UserError
from .pass_inputs import Shape, arguments_of, call, parameters_of, tensors_in
from .records import Records
from .verify import differentiate, eager_twin, random_state, set_random_state, unfused


def tell_results(
    torch: Any, model: Any, shapes: Sequence[Shape], spec: dict[str, Any], records: Records
) -> None:
    """Keep the results of ``model``, or write a record ``same_results`` of how they compare with those kept.

    Args:
        model: as the user gave it; a copy of it runs.
        spec: ``results`` {"file", "compare"}: where they are kept, and whether they are there already.
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
