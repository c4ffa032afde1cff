"""The inputs of a pass: from ``--input`` texts or from the module's ``inputs``.

Texts are ``float32[8,128,1024]:grad``, ``int64[4]``, ``0.5``, ``True``, ``None``,
``[2, 3]``; an argument by name is ``mask=float32[8,128]``. Reading them needs no
torch, so that a mistake is reported before a process starts."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import warnings
from collections.abc import Mapping
from typing import Any, Callable, Iterable, Sequence

from . import Refused, UserError, first_line
from .light_torch import backward

DTYPES = (
    "bfloat16",
    "bool",
    "complex128",
    "complex64",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
    "uint8",
)
"""Names of ``torch.dtype`` with which every torch from 1.12 on can create
tensors."""

_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "long": "int64",
}

_NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=(.*)\Z", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)\s*\[")


class InputTextError(ValueError):
    """The text cannot be read; the message names the column (from 1) and the
    expected syntax."""

    def __init__(self, text: str, column: int, problem: str) -> None:
        shown = text if len(text) <= 200 else text[:200] + "..."
        super().__init__(
            "cannot read the input '%s': column %d: %s" % (shown, column, problem)
        )


class TensorText:
    """A tensor to make: its dtype's name, its sizes (none: a scalar tensor), and
    whether it needs grad."""

    def __init__(self, dtype: str, sizes: tuple[int, ...], grad: bool) -> None:
        self.dtype = dtype
        self.sizes = sizes
        self.grad = grad


class PlainText:
    """A number, boolean, None, string, or a list or tuple of them, as a literal."""

    def __init__(self, value: Any) -> None:
        self.value = value


def named_input(text: str) -> tuple[str | None, str]:
    """(name, text) of ``NAME=TEXT``, an argument passed by name; (None, text) for
    another."""
    named = _NAMED.match(text)
    if named is not None:
        return named.group(1), named.group(2)
    return None, text


def parse_input(text: str) -> TensorText | PlainText:
    """Read one ``--input``; raises InputTextError."""
    start = _WORD.match(text)
    if start is not None:
        return _tensor(text, start)
    stripped = text.strip()
    spelling = {"true": "True", "false": "False", "none": "None", "": "None"}.get(
        stripped.lower(), stripped
    )
    if not stripped:
        raise InputTextError(
            text, 1, "expected a value such as float32[8,128], 0.5 or True"
        )
    try:
        with warnings.catch_warnings():  # of the compiler, on texts such as 1if
            warnings.simplefilter("ignore")
            return PlainText(ast.literal_eval(spelling))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    word = re.match(r"[A-Za-z_][A-Za-z_0-9]*", stripped)
    if word is not None and word.group() in DTYPES + tuple(_ALIASES):
        raise InputTextError(
            text,
            len(text.rstrip()) + 1,
            "expected '[' and sizes, such as %s[8,128]; %s[] is one number"
            % (word.group(), word.group()),
        )
    raise InputTextError(
        text,
        1,
        "expected a tensor such as float32[8,128], a number, True, False or None",
    )


def _tensor(text: str, start: re.Match[str]) -> TensorText:
    name = start.group(1)
    dtype = _ALIASES.get(name, name)
    if dtype not in DTYPES:
        near = difflib.get_close_matches(name, DTYPES + tuple(_ALIASES), n=1)
        if near:
            hint = "did you mean %s?" % near[0]
        else:
            hint = "known: " + ", ".join(DTYPES)
        raise InputTextError(
            text, start.start(1) + 1, "no dtype '%s'; %s" % (name, hint)
        )
    close = text.find("]", start.end())
    if close < 0:
        raise InputTextError(text, len(text) + 1, "expected ']' after the sizes")
    sizes = _sizes(text, start.end(), close)
    rest = text[close + 1 :].rstrip()
    if rest and not rest.startswith(":"):
        raise InputTextError(
            text, close + 2, "expected ':grad' or the end, found '%s'" % rest
        )
    option = rest[1:].strip()
    if rest and option != "grad":
        raise InputTextError(
            text, close + 3, "no option '%s'; did you mean grad?" % option
        )
    if option and not dtype.startswith(("float", "bfloat", "complex")):
        raise InputTextError(
            text,
            close + 2,
            "%s tensors have no gradient; only floating point ones" % dtype,
        )
    return TensorText(dtype, sizes, bool(option))


def _sizes(text: str, begin: int, close: int) -> tuple[int, ...]:
    inside = text[begin:close]
    if not inside.strip():
        return ()
    sizes: list[int] = []
    column = begin
    for part in inside.split(","):
        word = part.strip()
        at = column + len(part) - len(part.lstrip()) + 1
        if not re.match(r"[0-9]+\Z", word):
            found = "found '%s'" % word if word else "found nothing"
            raise InputTextError(
                text, at, "expected a size (a whole number from 0), %s" % found
            )
        if len(word) > 18:
            raise InputTextError(
                text, at, "no tensor has a size of %d digits" % len(word)
            )
        sizes.append(int(word))
        column += len(part) + 1
    return tuple(sizes)


Shape = Callable[[], "tuple[Any, ...]"]
"""Returns the arguments of one pass; a user's function is called anew for every
pass."""


class Arguments(tuple):  # type: ignore[type-arg]
    """The arguments of a call: positional arguments are its items, keyword
    arguments are ``named``."""

    named: dict[str, Any]

    @classmethod
    def of(cls, positional: Iterable[Any], named: Mapping[str, Any]) -> Arguments:
        made = cls(positional)
        made.named = dict(named)
        return made


def arguments_of(shape: Shape) -> tuple[Any, ...]:
    """The arguments of the next pass.

    Raises:
        Refused: a model cannot be called with them.
        UserError: the user's function that makes them failed.
    """
    try:
        return shape()
    except Refused:
        raise
    except Exception as error:
        raise UserError("inputs") from error


def named_of(arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The keyword arguments."""
    if isinstance(arguments, Arguments):
        return arguments.named
    return {}


def call(model: Any, arguments: tuple[Any, ...]) -> Any:
    """Call ``model`` with its arguments."""
    return model(*arguments, **named_of(arguments))


def by_position(model: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments by position, for a caller that accepts no others;
    omitted arguments between them get their defaults.

    Raises: Refused: the model takes one of them by name alone, or takes none of
        that name.
    """
    named = named_of(arguments)
    if not named:
        return tuple(arguments)
    called = getattr(model, "forward", model)
    try:
        bound = inspect.signature(called).bind(*arguments, **named)
    except (TypeError, ValueError) as error:
        raise Refused(
            "inputs",
            "the inputs do not fit the model: %s" % error,
            "The names in inputs are those of the arguments of forward().",
        ) from None
    last = max(
        [len(arguments)]
        + [
            position
            for position, name in enumerate(bound.signature.parameters, 1)
            if name in named
        ]
    )
    bound.apply_defaults()
    if bound.kwargs:
        raise Refused(
            "inputs",
            "%s can be given by name only, which does not work here"
            % ", ".join(sorted(bound.kwargs)),
            "Wrap the model in a function that takes it by position.",
        )
    return tuple(bound.args)[:last]


def positional(model: Any, shape: Shape) -> Shape:
    """Return a shape whose arguments are all positional."""
    if named_of(arguments_of(shape)):
        return lambda: by_position(model, shape())
    return shape


def from_texts(torch: Any, texts: Sequence[str], device: Any) -> Shape:
    """One shape from ``--input`` texts, ``NAME=TEXT`` for an argument by name:
    normal random numbers, 0 or 1 for whole numbers, random booleans."""
    values: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, given = named_input(text)
        value = _made(torch, given, device)
        if name is None:
            values.append(value)
        else:
            named[name] = value
    arguments = Arguments.of(values, named) if named else tuple(values)
    return lambda: arguments


def _made(torch: Any, text: str, device: Any) -> Any:
    try:
        parsed = parse_input(text)
    except InputTextError as error:
        raise Refused("inputs", str(error)) from None
    if isinstance(parsed, PlainText):
        return parsed.value
    try:
        return _random(torch, parsed, device)
    except RuntimeError as error:
        problem = first_line(error)
        raise Refused(
            "inputs", "the input '%s' cannot be made: %s" % (text, problem)
        ) from None


def _random(torch: Any, parsed: TensorText, device: Any) -> Any:
    dtype = getattr(torch, parsed.dtype)
    if dtype.is_floating_point or dtype.is_complex:
        # CPUs of old torch have no normal_() for half: draw in a type that every
        # device can.
        drawn = torch.complex64 if dtype.is_complex else torch.float32
        tensor = torch.randn(parsed.sizes, dtype=drawn, device=device).to(dtype)
    else:
        tensor = torch.randint(0, 2, parsed.sizes, device=device).to(dtype)
    return tensor.requires_grad_(parsed.grad)


def from_module(torch: Any, given: Any, device: Any, where: str) -> list[Shape]:
    """The shapes of a module's ``inputs``: a tuple, a dictionary of arguments by
    name, a function that returns either, or a list of them.

    Args: device: the device to move tensors to, unless None. where: its name in
        messages, such as ``model.py: inputs``.
    """
    if (
        isinstance(given, list)
        and given
        and all(isinstance(shape, (tuple, Mapping)) for shape in given)
    ):
        shapes = []
        for number, arguments in enumerate(given):
            shapes.append(
                _fixed(torch, arguments, device, "%s[%d]" % (where, number))
            )
        return shapes
    if callable(given) and not isinstance(given, torch.Tensor):
        return [lambda: _arguments(torch, given(), device, where + "()")]
    return [_fixed(torch, given, device, where)]


def _fixed(torch: Any, given: Any, device: Any, where: str) -> Shape:
    arguments = _arguments(torch, given, device, where)
    return lambda: arguments


def _arguments(torch: Any, given: Any, device: Any, where: str) -> tuple[Any, ...]:
    if isinstance(given, torch.Tensor):
        given = (given,)
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        for name, value in given.items():
            _no_numpy(value, "%s[%r]" % (where, name))
        return Arguments.of(
            (),
            {name: _ready(torch, value, device) for name, value in given.items()},
        )
    if not isinstance(given, tuple):
        raise Refused(
            "inputs",
            "%s is of type %s, not a tuple of the model's arguments"
            % (where, type(given).__name__),
            "Write inputs = (x, y), a dictionary of arguments by name, a function that returns either, or a "
            "list of them for several shapes.",
        )
    for number, value in enumerate(given):
        _no_numpy(value, "%s[%d]" % (where, number))
    return tuple(_ready(torch, value, device) for value in given)


def _no_numpy(value: Any, where: str) -> None:
    if type(value).__module__.split(".")[0] == "numpy":
        raise Refused(
            "inputs",
            "%s is a numpy %s; TorchScript takes tensors and plain numbers"
            % (where, type(value).__name__),
            "Convert it: torch.from_numpy(...) or float(...).",
        )


def _ready(torch: Any, value: Any, device: Any) -> Any:
    """Move ``value`` to the device, and make every tensor that needs grad a leaf: a
    backward pass frees the graph behind a tensor that is no leaf, and the next pass
    would fail."""
    if isinstance(value, torch.Tensor):
        moved = value if device is None else value.detach().to(device)
        if value.requires_grad and (moved is not value or not value.is_leaf):
            return moved.detach().requires_grad_()
        return moved
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_ready(torch, inner, device) for inner in value)
    if isinstance(value, dict):
        return {key: _ready(torch, inner, device) for key, inner in value.items()}
    return value


def tensor_text(tensor: Any) -> str:
    """A tensor in the notation of ``--input``: ``float32[8,128]:grad``."""
    dtype = str(tensor.dtype).replace("torch.", "")
    sizes = ",".join(map(str, tensor.shape))
    return "%s[%s]%s" % (dtype, sizes, ":grad" if tensor.requires_grad else "")


def backward_from_ones(torch: Any, outputs: Sequence[Any]) -> None:
    """Run the backward pass from every output that requires grad, each with a
    gradient of ones."""
    roots = [output for output in outputs if output.requires_grad]
    backward(torch, roots, [torch.ones_like(root) for root in roots])


def tensors_in(torch: Any, value: Any) -> list[Any]:
    """Every tensor in a nest of tuples, lists and dicts, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Arguments):
        value = list(value) + list(value.named.values())
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        tensors = []
        for inner in value:
            tensors.extend(tensors_in(torch, inner))
        return tensors
    return []


def parameters_of(model: Any) -> list[Any]:
    """The parameters of a module; empty for a function."""
    parameters = getattr(model, "parameters", None)
    if callable(parameters):
        return list(parameters())
    return []


def on_gpu(torch: Any, model: Any, shape: Shape) -> bool:
    """True if any input or parameter is on a GPU."""
    return any(
        tensor.is_cuda
        for tensor in tensors_in(torch, shape()) + parameters_of(model)
    )
