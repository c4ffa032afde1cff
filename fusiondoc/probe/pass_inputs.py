"""The inputs of a pass: from ``--input`` texts or from the module's ``inputs``."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from .failures import Refused
from .input_text import InputTextError, PlainText, TensorText, parse_input

Shape = Callable[[], "tuple[Any, ...]"]
"""Gives the arguments of one pass; a function of the user's is called anew for every pass."""


def from_texts(torch: Any, texts: Sequence[str], device: Any) -> Shape:
    """One shape from ``--input`` texts: normal random numbers, 0 or 1 for whole numbers, random booleans."""
    values = []
    for text in texts:
        try:
            parsed = parse_input(text)
        except InputTextError as error:
            raise Refused("inputs", str(error)) from None
        if isinstance(parsed, PlainText):
            values.append(parsed.value)
            continue
        try:
            values.append(_random(torch, parsed, device))
        except RuntimeError as error:
            problem = str(error).split("\n")[0]
            raise Refused("inputs", "the input '%s' cannot be made: %s" % (text, problem)) from None
    arguments = tuple(values)
    return lambda: arguments


def _random(torch: Any, parsed: TensorText, device: Any) -> Any:
    dtype = getattr(torch, parsed.dtype)
    if dtype.is_floating_point or dtype.is_complex:
        # CPUs of old torch have no normal_() for half: draw in a type that every device can.
        drawn = torch.complex64 if dtype.is_complex else torch.float32
        tensor = torch.randn(parsed.sizes, dtype=drawn, device=device).to(dtype)
    else:
        tensor = torch.randint(0, 2, parsed.sizes, device=device).to(dtype)
    return tensor.requires_grad_(parsed.grad)


def from_module(torch: Any, given: Any, device: Any, where: str) -> list[Shape]:
    """The shapes of a module's ``inputs``: a tuple, a function that returns one, or a list of tuples.

    Args:
        device: moves the tensors there unless None.
        where: how messages name it, such as ``model.py: inputs``.
    """
    if isinstance(given, list) and given and all(isinstance(one, tuple) for one in given):
        return [_fixed(torch, one, device, "%s[%d]" % (where, number)) for number, one in enumerate(given)]
    if callable(given) and not isinstance(given, torch.Tensor):
        return [lambda: _arguments(torch, given(), device, where + "()")]
    return [_fixed(torch, given, device, where)]


def _fixed(torch: Any, given: Any, device: Any, where: str) -> Shape:
    arguments = _arguments(torch, given, device, where)
    return lambda: arguments


def _arguments(torch: Any, given: Any, device: Any, where: str) -> tuple[Any, ...]:
    if isinstance(given, torch.Tensor):
        given = (given,)
    if not isinstance(given, tuple):
        raise Refused(
            "inputs",
            "%s is of type %s, not a tuple of the model's arguments" % (where, type(given).__name__),
            "Write inputs = (x, y), a function that returns a tuple, or a list of tuples for several shapes.",
        )
    for number, value in enumerate(given):
        if type(value).__module__.split(".")[0] == "numpy":
            raise Refused(
                "inputs",
                "%s[%d] is a numpy %s; TorchScript takes tensors and plain numbers"
                % (where, number, type(value).__name__),
                "Convert it: torch.from_numpy(...) or float(...).",
            )
    return tuple(_ready(torch, value, device) for value in given)


def _ready(torch: Any, value: Any, device: Any) -> Any:
    """``value`` on the device, every tensor that needs grad a leaf: a backward pass frees the graph behind
    one that is none, and the next pass would fail."""
    if isinstance(value, torch.Tensor):
        moved = value if device is None else value.detach().to(device)
        if value.requires_grad and (moved is not value or not value.is_leaf):
            return moved.detach().requires_grad_()
        return moved
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_ready(torch, one, device) for one in value)
    if isinstance(value, dict):
        return {key: _ready(torch, one, device) for key, one in value.items()}
    return value


def tensors_in(torch: Any, value: Any) -> list[Any]:
    """Every tensor in a nest of tuples, lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_in(torch, one)]
    return []


def parameters_of(model: Any) -> list[Any]:
    """Those of a module; none of a function."""
    parameters = getattr(model, "parameters", None)
    return list(parameters()) if callable(parameters) else []


def on_gpu(torch: Any, model: Any, shape: Shape) -> bool:
    """Whether any input or parameter is on a GPU."""
    return any(tensor.is_cuda for tensor in tensors_in(torch, shape()) + parameters_of(model))
