"""Whether two tensors are the same, fused and eager; and ways to run a program
without a fuser."""

from __future__ import annotations

import contextlib
import copy
import io
from typing import Any, Callable, Iterator, Sequence, Tuple

from . import CANNOT_RUN, Refused, first_line
from .light_torch import backward

RELATIVE = {
    "float64": 1e-8,
    "complex128": 1e-8,
    "float32": 1e-4,
    "complex64": 1e-4,
    "float16": 1e-2,
}
"""Relative tolerance of a value, by dtype. Fused kernels add in another order and
keep intermediates in float32, so these are some hundred rounding units of the type;
whole numbers and booleans must be equal."""

_BFLOAT16 = 4e-2
_FLOOR = 1e-3
"""Smaller values are treated as this large: they may be differences of
intermediates with rounding errors."""

_MEAN, _STD, _ZEROS = "mean", "std", "zeros"
_SIGMAS = 6.0


def relative(torch: Any, dtype: Any) -> float:
    """The tolerance of a dtype or its name; 0 for whole numbers and booleans."""
    name = type_name(dtype)
    if name == "bfloat16":
        return _BFLOAT16
    return RELATIVE.get(name, 0.0)


def compare_values(
    torch: Any, fused: Any, eager: Any, tolerance: float, largest: float
) -> dict[str, Any]:
    """Compare two tensors by value.

    A value is the same if the difference is at most ``tolerance`` times the largest
    of: the eager value, a tenth of the largest one in the tensor, a hundredth of
    ``largest`` (of all outputs, or of all gradients), and 1e-3. ``max_rel`` is the
    largest difference over that.
    """
    row = compare_kind(fused, eager)
    if fused is None or eager is None or fused.shape != eager.shape:
        return row
    f, e = plain(torch, fused), plain(torch, eager)
    if not tolerance:
        row["tolerance"] = 0.0
        different = int((f != e).sum()) if f.numel() else 0
        row["same"] = different == 0
        if different:
            row["max_abs"] = _number((f.double() - e.double()).abs().max())
            row["detail"].append(
                "%d of %d elements differ" % (different, f.numel())
            )
        else:
            row["max_abs"] = row["max_rel"] = 0.0
        return row
    row["tolerance"] = tolerance
    f, e = f.double(), e.double()
    pattern = _pattern(torch, f, e)
    if pattern:
        row["same"] = False
        row["detail"].append(pattern)
    finite = torch.isfinite(f) & torch.isfinite(e)
    f, e = f[finite], e[finite]
    if not f.numel():
        row["max_abs"] = row["max_rel"] = 0.0
        return row
    off = (f - e).abs()
    size = e.abs()
    row["max_abs"] = _number(off.max())
    row["max_rel"] = _number((off / size.clamp(min=least_size(e, largest))).max())
    if row["max_rel"] > tolerance:
        row["same"] = False
    return row


def least_size(values: Any, largest: float) -> float:
    """The least size by which differences from finite ``values`` are divided."""
    return max(
        0.1 * float(values.abs().max()) if values.numel() else 0.0,
        0.01 * largest,
        _FLOOR,
    )


Named = Tuple[str, str, Any]
"""Phase, name and tensor (or None) of a result."""


def compare_rows(
    torch: Any,
    ours: Sequence[Named],
    theirs: Sequence[Named],
    tolerance: float,
    second: Callable[[str, Any, Any, dict[str, Any], float], dict[str, Any]]
    | None = None,
) -> list[dict[str, Any]]:
    """Compare by value; return a row for each result of either side, those that
    only ``theirs`` has last.

    Args:
        tolerance: the least tolerance for results of any floating-point type.
        second: called for another row where values differ, with name, both tensors, row, and the largest
            magnitude among the results of the phase.
    """
    left = {what: tensor for _, what, tensor in theirs}
    largest = {}
    for phase in ("forward", "backward"):
        largest[phase] = largest_of(
            torch, [tensor for p, _, tensor in theirs if p == phase]
        )
    rows = []
    for phase, what, tensor in ours:
        other = left.pop(what, None)
        own = relative(torch, other.dtype) if other is not None else 0.0
        row = compare_values(
            torch,
            tensor,
            other,
            max(own, tolerance) if own else 0.0,
            largest[phase],
        )
        if (
            second is not None
            and not row["same"]
            and tensor is not None
            and other is not None
        ):
            row = second(what, tensor, other, row, largest[phase])
        rows.append(_named_row(phase, what, row))
    for p, what, tensor in theirs:
        if what in left:
            rows.append(_named_row(p, what, compare_kind(None, tensor)))
    return rows


def _named_row(phase: str, what: str, row: dict[str, Any]) -> dict[str, Any]:
    return dict(
        row, phase=phase, what=what, detail="; ".join(row["detail"]) or None
    )


def compare_kind(fused: Any, eager: Any) -> dict[str, Any]:
    """A row that compares shape, dtype and strides."""
    row: dict[str, Any] = {
        "same": True,
        "max_abs": None,
        "max_rel": None,
        "tolerance": None,
        "dtype_same": True,
        "strides_same": True,
        "by": "value",
        "detail": [],
    }
    if fused is None or eager is None:
        row["same"] = fused is eager
        if not row["same"]:
            row["detail"].append(
                "missing in the %s run" % ("fused" if fused is None else "eager")
            )
        return row
    if fused.dtype != eager.dtype:
        row["dtype_same"] = False
        row["detail"].append(
            "%s, eager %s" % (type_name(fused.dtype), type_name(eager.dtype))
        )
    if fused.shape != eager.shape:
        row["same"] = False
        row["detail"].append(
            "shape %s, eager %s" % (list(fused.shape), list(eager.shape))
        )
    elif _strides(fused) != _strides(eager):
        row["strides_same"] = False
        row["detail"].append(
            "strides %s, eager %s" % (list(fused.stride()), list(eager.stride()))
        )
    return row


def statistics(torch: Any, tensor: Any) -> dict[str, float]:
    """Mean, standard deviation and share of zeros, of the finite values."""
    values = plain(torch, tensor).double().flatten()
    values = values[torch.isfinite(values)]
    if not values.numel():
        return {_MEAN: 0.0, _STD: 0.0, _ZEROS: 0.0}
    return {
        _MEAN: float(values.mean()),
        _STD: float(values.std(unbiased=False)),
        _ZEROS: float((values == 0).double().mean()),
    }


def compare_statistics(
    torch: Any, fused: Any, eager: Any, draws: Sequence[dict[str, float]] = ()
) -> dict[str, Any]:
    """Compare two tensors that depend on random numbers. Their statistics may
    differ by six standard errors and a tenth, or by three times the spread of
    ``draws``, from eager runs with other random numbers: elements that share a
    random number are fewer independent ones than they seem.
    """
    row = compare_kind(fused, eager)
    row["by"] = "statistics"
    if fused is None or eager is None or fused.shape != eager.shape:
        return row
    f, e = statistics(torch, fused), statistics(torch, eager)
    error = _SIGMAS / max(1, fused.numel()) ** 0.5
    deviation = max(f[_STD], e[_STD])
    allowed = {
        _MEAN: deviation * (1.5 * error + 0.1),
        _STD: deviation * (1.5 * error + 0.1),
        _ZEROS: 0.75 * error + 0.05,
    }
    off = {name: abs(f[name] - e[name]) for name in f}
    for name in allowed:
        seen = [e[name]] + [draw[name] for draw in draws]
        allowed[name] = max(
            allowed[name] + 1e-6, 3 * (max(seen) - min(seen)) if draws else 0.0
        )
    new_nan = bool(torch.isnan(plain(torch, fused)).any()) and not bool(
        torch.isnan(plain(torch, eager)).any()
    )
    row["same"] = not new_nan and all(off[name] <= allowed[name] for name in off)
    row["max_abs"] = max(off.values())
    row["detail"].append(
        ", ".join(
            "%s %.4g, eager %.4g" % (name, f[name], e[name])
            for name in (_MEAN, _STD, _ZEROS)
        )
        + (", NaN in the fused run only" if new_nan else "")
    )
    return row


def largest_of(torch: Any, tensors: Sequence[Any]) -> float:
    """The largest finite magnitude in any of the tensors."""
    largest = 0.0
    for tensor in tensors:
        if (
            tensor is None
            or not (tensor.is_floating_point() or tensor.is_complex())
            or not tensor.numel()
        ):
            continue
        values = plain(torch, tensor)
        values = values[torch.isfinite(values)]
        if values.numel():
            largest = max(largest, float(values.abs().max()))
    return largest


def plain(torch: Any, tensor: Any) -> Any:
    """The values as a dense tensor of real numbers."""
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor


def _pattern(torch: Any, fused: Any, eager: Any) -> str | None:
    """Describe where NaN and infinities occur in only one of the tensors."""
    for name, where in (
        ("NaN", torch.isnan),
        ("inf", lambda t: t == float("inf")),
        ("-inf", lambda t: t == float("-inf")),
    ):
        in_fused, in_eager = where(fused), where(eager)
        if not torch.equal(in_fused, in_eager):
            return "%s in %d elements, eager %d" % (
                name,
                int(in_fused.sum()),
                int(in_eager.sum()),
            )
    return None


def has_pattern(torch: Any, fused: Any, eager: Any) -> bool:
    """True if NaN or infinities occur in only one of the tensors."""
    f, e = plain(torch, fused), plain(torch, eager)
    return f.is_floating_point() and _pattern(torch, f, e) is not None


def _strides(tensor: Any) -> Any:
    """The significant strides: those of dimensions with more than one element."""
    if str(tensor.layout) != "torch.strided" or not tensor.numel():
        return None
    strides = []
    for size, stride in zip(tensor.shape, tensor.stride()):
        if size > 1:
            strides.append(stride)
    return strides


def type_name(dtype: Any) -> str:
    """ "float16" """
    return str(dtype).replace("torch.", "")


def _number(tensor: Any) -> float:
    return float(tensor)


# -- the program without a fuser ---------------------------------------------------------------------------


def eager_twin(torch: Any, model: Any, option: str = "--verify") -> Any:
    """A copy of the model as the user gave it, taken before it is scripted or
    frozen.

    A TorchScript model has no Python code left: it is saved and loaded again,
    because a copy would share the executors, and with them the fused plans;
    ``unfused`` then keeps the copy from being optimised. A Python function is
    returned as it is.
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
            "%s: the model cannot be copied for the eager run: %s"
            % (option, first_line(error)),
            "Leave %s out, or keep what cannot be copied out of the model."
            % option,
            CANNOT_RUN,
        ) from None


@contextlib.contextmanager
def unfused(torch: Any) -> Iterator[None]:
    """Context manager: TorchScript runs unoptimised, and without the JIT log: its
    plans are not those of the model under test."""
    switch = torch._C
    levels = switch._jit_get_logging_option()
    # torch.jit.optimized_execution (torch/jit/_fuser.py) does the same, but its
    # call would be counted as one of the program.
    optimizes = switch._get_graph_executor_optimize()
    switch._jit_set_logging_option("")
    switch._set_graph_executor_optimize(False)
    try:
        yield
    finally:
        switch._set_graph_executor_optimize(optimizes)
        switch._jit_set_logging_option(levels)


def cotangents(torch: Any, outputs: Sequence[Any]) -> list[Any]:
    """The gradients of the outputs from which a backward pass starts: fixed normal
    random numbers; None for integral outputs. With ones many gradients, such as
    that of a normalisation, would be zero up to rounding."""
    made = []
    for number, output in enumerate(outputs):
        made.append(_cotangent(torch, number, output))
    return made


def _cotangent(torch: Any, number: int, output: Any) -> Any:
    if not (output.is_floating_point() or output.is_complex()):
        return None
    generator = torch.Generator().manual_seed(1000 + number)
    drawn = torch.randn(output.shape, generator=generator)
    return drawn.to(device=output.device, dtype=output.dtype)


def differentiate(
    torch: Any, outputs: list[Any], starts: Sequence[Any] | None = None
) -> None:
    """Run the backward pass from every output that requires grad. Args: starts: for
    a run in another type, the numbers from which the eager run started.
    """
    roots = []
    for i, output in enumerate(outputs):
        if output.requires_grad:
            roots.append((i, output))
    if not roots:
        return
    if starts is None:
        starts = cotangents(torch, outputs)
    given = []
    for i, root in roots:
        given.append(starts[i].to(device=root.device, dtype=root.dtype))
    backward(torch, [root for _, root in roots], given)


def random_state(torch: Any) -> list[Any]:
    """The state of the CPU's generator, then of each GPU's if CUDA is in use."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), *cuda]


def set_random_state(torch: Any, state: list[Any]) -> None:
    """Restore a state that ``random_state`` returned."""
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state_all(state[1:])


def same_state(torch: Any, state: list[Any], other: list[Any]) -> bool:
    return len(state) == len(other) and all(
        torch.equal(a, b) for a, b in zip(state, other)
    )
