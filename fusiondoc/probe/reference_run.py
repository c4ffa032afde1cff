"""Whether results differ from eager by more than rounding: the eager pass is run
once more in float64.

The method is that of ``torch._dynamo.utils.same`` with its ``fp64_ref``: fused
results are wrong if they are farther from the float64 results than eager's own are,
by a clear factor. Model and floating-point inputs are copied to float64; a dispatch
mode widens casts, tensors that the program makes, and tensors that it holds itself,
so that ``x.half()`` inside rounds nothing. Autocast leaves float64 alone
(``is_eligible`` in aten/src/ATen/autocast_mode.h).

The mode also finds the least precise type that the eager run computes in, which no
result need show.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import re
import time
from typing import Any, Callable, ContextManager, Iterable, Sequence

from . import UserError, first_line
from .light_torch import dispatch_mode
from .pass_inputs import Arguments, named_of, parameters_of, tensors_in
from .same_results import (
    eager_twin,
    has_pattern,
    least_size,
    plain,
    random_state,
    relative,
    set_random_state,
    type_name,
)

FACTOR = 3.0
"""Largest ratio between the errors of fused and of eager results: dynamo allows 2
for float32 and 3 for float16, for the root mean square. The largest error, which
shows a single wrong element, varies more."""
FACTOR_OF_FEW = 10.0
FEW = 10
"""Results with at most this number of elements may be near the reference by chance
(10 in dynamo too)."""

_EVIDENT = 0.1
"""If eager's error is at most this share of the tolerance of the result's own type,
then no narrower type was involved. For few elements that may be chance."""

_MOST_BYTES = 4 << 30
"""Most bytes of parameters, buffers and inputs in float64."""
_MOST_SECONDS = 60.0
"""Most seconds of all these runs of a process."""
_SLOWER = 4.0
"""A run in float64 takes about this many times as long as the eager one."""

_ALIAS = re.compile(r"Tensor\([a-z]")
_WIDE = ("float64", "float32")

Run = Callable[[Any, "tuple[Any, ...]"], "dict[str, Any]"]
"""An eager pass of a model with arguments: its results by name."""


class Start:
    """The state at the start of a pass: copies of arguments and buffers, and the
    random state."""

    def __init__(
        self,
        number: int,
        arguments: tuple[Any, ...],
        buffers: dict[str, Any],
        state: list[Any],
    ) -> None:
        self.number = number
        self.arguments = arguments
        self.buffers = buffers
        self.state = state


class Reference:
    """Results of a run in a wider type, by name; ``problem`` states why there are
    none, or none in float64.

    ``dtype`` is the type of the run, ``computed_in`` the least precise type that
    eager computes in (None where torch cannot watch it), and ``narrowest`` that of
    the wider run itself."""

    def __init__(
        self,
        computed_in: str | None,
        problem: str | None,
        dtype: str = "",
        results: dict[str, Any] | None = None,
        narrowest: str | None = None,
    ) -> None:
        self.computed_in = computed_in
        self.problem = problem
        self.dtype = dtype
        self.results = results or {}
        self.narrowest = narrowest


class References:
    """Makes the references of a process, within limits of memory and time."""

    def __init__(self, torch: Any, twin: Any) -> None:
        self._torch = torch
        self._twin = twin
        self._left = _MOST_SECONDS
        self._types: dict[int, set[str]] = {}
        self._failed: dict[int, str] = {}

    def of(self, start: Start, run: Run, seconds: float) -> Reference:
        """Return the reference of a pass; never raises.

        Args:
            seconds: duration of the eager pass.
        """
        torch, number = self._torch, start.number
        began, state = time.perf_counter(), random_state(torch)
        try:
            problem = self._failed.get(number) or self._too_much(start, seconds)
            if problem:
                return Reference(
                    least_precise(torch, self._types.get(number, ())), problem
                )
            made = self._made(start, run)
            if made.problem and not made.dtype:
                self._failed[number] = made.problem
            return made
        finally:
            set_random_state(torch, state)
            self._left -= time.perf_counter() - began

    def _too_much(self, start: Start, seconds: float) -> str | None:
        tensors = parameters_of(self._twin) + list(start.buffers.values())
        tensors += tensors_in(self._torch, start.arguments)
        size = 8 * sum(tensor.numel() for tensor in tensors)
        if size > min(_MOST_BYTES, self._free(tensors) // 3):
            return (
                "the model takes %.1f GB in float64, too much for the memory or for this check"
                % (size / 1e9)
            )
        if seconds * _SLOWER > self._left:
            return "such runs would take more than %d s" % _MOST_SECONDS
        return None

    def _free(self, tensors: Sequence[Any]) -> int:
        """Free bytes of the model's device; for the CPU from /proc/meminfo
        (Linux)."""
        if any(tensor.is_cuda for tensor in tensors):
            return int(self._torch.cuda.mem_get_info()[0])
        with contextlib.suppress(OSError, ValueError, IndexError), open(
            "/proc/meminfo", "rb"
        ) as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) << 10
        return 3 * _MOST_BYTES

    def _made(self, start: Start, run: Run) -> Reference:
        torch = self._torch
        types = self._types.get(start.number)
        if types is None:
            types = self._types[start.number] = self._computed_in(start, run)
        computed_in = least_precise(torch, types)
        reason = ""
        for name in _WIDE:
            if computed_in == name:
                reason = reason or "eager computes in %s itself" % name
                break
            seen: set[str] = set()
            wide = getattr(torch, name)
            try:
                set_random_state(torch, start.state)
                model = self._copied(start)
                if hasattr(model, "_apply"):
                    model._apply(
                        lambda tensor, wide=wide: widened(torch, tensor, wide)
                    )
                arguments = _wide_copies(torch, start.arguments, wide, {})
                with watching(torch, seen, wide):
                    results = run(model, arguments)
            except Exception as error:
                reason = reason or "it does not run in %s: %s" % (
                    name,
                    _described(error),
                )
                continue
            return Reference(
                computed_in,
                reason or None,
                name,
                results,
                least_precise(torch, seen),
            )
        return Reference(computed_in, reason)

    def _computed_in(self, start: Start, run: Run) -> set[str]:
        """Types in which the eager pass computes; empty if it cannot be watched."""
        seen: set[str] = set()
        try:
            set_random_state(self._torch, start.state)
            with watching(self._torch, seen, None):
                run(self._copied(start), copy.deepcopy(start.arguments))
        except Exception:
            return set()
        return seen

    def _copied(self, start: Start) -> Any:
        """A copy of the twin, which later passes need, in its state at the start of
        the pass."""
        model = eager_twin(self._torch, self._twin)
        if start.buffers:
            with self._torch.no_grad():
                for name, buffer in model.named_buffers():
                    if name in start.buffers:
                        buffer.copy_(start.buffers[name])
        return model


def _described(error: BaseException) -> str:
    if isinstance(error, UserError):
        error = error.__cause__ or error
    text = first_line(error).strip()
    if text:
        return "%s: %s" % (type(error).__name__, text)
    return type(error).__name__


def least_precise(torch: Any, names: Iterable[str]) -> str | None:
    """The floating-point type with the largest tolerance among ``names``."""
    known = sorted((relative(torch, name), name) for name in names)
    if known and known[-1][0]:
        return known[-1][1]
    return None


def _wider(torch: Any, dtype: Any, wide: Any) -> Any:
    """The type to which ``dtype`` is widened; None if it is not narrower, or
    integral."""
    if dtype.is_complex:
        wide = torch.complex128 if wide == torch.float64 else torch.complex64
    elif not dtype.is_floating_point:
        return None
    narrower = (
        torch.empty(0, dtype=dtype).element_size()
        < torch.empty(0, dtype=wide).element_size()
    )
    if narrower:
        return wide
    return None


def widened(torch: Any, tensor: Any, wide: Any) -> Any:
    """``tensor`` in ``wide`` if its type is floating-point and narrower."""
    dtype = _wider(torch, tensor.dtype, wide)
    if dtype is None:
        return tensor
    return tensor.to(dtype)


def _wide_copies(torch: Any, value: Any, wide: Any, made: dict[int, Any]) -> Any:
    """Copies of the arguments for the wider run; a tensor that is passed twice
    stays a single one."""
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            copied = widened(torch, value.detach().clone(), wide)
            made[id(value)] = copied.requires_grad_(value.requires_grad)
        return made[id(value)]
    if isinstance(value, Arguments):
        named = {}
        for name, inner in named_of(value).items():
            named[name] = _wide_copies(torch, inner, wide, made)
        return Arguments.of(
            (_wide_copies(torch, inner, wide, made) for inner in value), named
        )
    if isinstance(value, (list, tuple)):
        copies = [_wide_copies(torch, inner, wide, made) for inner in value]
        if hasattr(value, "_fields"):
            return type(value)(*copies)
        return type(value)(copies)
    if isinstance(value, dict):
        held = copy.copy(value)
        for key, inner in value.items():
            held[key] = _wide_copies(torch, inner, wide, made)
        return held
    return copy.deepcopy(value)


class _Widening:
    """Widens the arguments and results of operators to ``wide``.

    Operators that write to an argument or return a view of it get the argument
    unchanged: they need that very tensor.
    """

    def __init__(self, torch: Any, wide: Any) -> None:
        self._torch = torch
        self._wide = wide
        self._kinds: dict[Any, tuple[bool, bool]] = {}

    def arguments(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments to call an operator with."""
        functional, reads_bits = self._kind_of(func)
        if reads_bits:
            return args, kwargs
        change = self._value if functional else self._dtype
        return tuple(map(change, args)), {
            name: change(value) for name, value in kwargs.items()
        }

    def result(self, func: Any, result: Any) -> Any:
        """The result, widened if the operator creates it: ``torch.zeros()`` and the
        like."""
        functional, _ = self._kind_of(func)
        if functional and isinstance(result, self._torch.Tensor):
            return widened(self._torch, result, self._wide)
        return result

    def _kind_of(self, func: Any) -> tuple[bool, bool]:
        """Whether it writes to no argument and returns no view, and whether it
        reinterprets bits as another type."""
        if func not in self._kinds:
            # torch 1.12 shows aliases in the schema's text only: "Tensor(a!) self".
            schema = str(func._schema)
            self._kinds[func] = (
                _ALIAS.search(schema) is None,
                schema.startswith("aten::view.dtype"),
            )
        return self._kinds[func]

    def _dtype(self, value: Any) -> Any:
        if isinstance(value, self._torch.dtype):
            return _wider(self._torch, value, self._wide) or value
        return value

    def _value(self, value: Any) -> Any:
        if isinstance(value, self._torch.Tensor):
            return widened(self._torch, value, self._wide)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._value, value))
        return self._dtype(value)


def watching(torch: Any, seen: set[str], wide: Any) -> ContextManager[Any]:
    """Context manager: ``seen`` collects the floating-point types of operators'
    results; with ``wide``, arguments, ``dtype=`` and results of operators are
    widened. Without dispatch modes (before torch 1.12) the context does nothing."""
    try:
        dispatch: Any = importlib.import_module("torch.utils._python_dispatch")
        base: Any = dispatch_mode(dispatch.TorchDispatchMode)
    except (ImportError, AttributeError):
        return contextlib.nullcontext()
    widening = _Widening(torch, wide) if wide is not None else None

    class Watching(base):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if widening is not None:
                args, kwargs = widening.arguments(func, args, kwargs)
            result = func(*args, **kwargs)
            if widening is not None:
                result = widening.result(func, result)
            for tensor in tensors_in(torch, result):
                if tensor.is_floating_point():
                    seen.add(type_name(tensor.dtype))
            return result

    if hasattr(base, "__enter__"):
        return Watching()
    # torch 1.12: push_torch_dispatch_mode creates the mode itself.
    return dispatch.push_torch_dispatch_mode(Watching)  # type: ignore[no-any-return]


# -- the judgement -----------------------------------------------------------------------------------------


def judge(
    torch: Any,
    row: dict[str, Any],
    what: str,
    pair: tuple[Any, Any],
    reference: Reference,
    largest: float,
) -> dict[str, Any]:
    """Judge again a result that differs from eager by value; return its row.

    Args:
        pair: fused and eager tensor, of one shape.
        largest: as for ``compare_values``.
    """
    row = dict(row, computed_in=reference.computed_in, no_float64=reference.problem)
    own = row["tolerance"]
    coarse = max(own, relative(torch, reference.computed_in)) if own else 0.0
    exact = reference.results.get(what)
    offs, problem = None, reference.problem
    if reference.dtype:
        offs, problem = _offs(torch, pair, exact, own, largest)
    if offs is None:
        row.update(no_float64=problem, tolerance=coarse)
        row["same"] = (
            bool(own) and not has_pattern(torch, *pair) and row["max_rel"] <= coarse
        )
        return row
    fused_off, eager_off, finite_differs = offs
    few = pair[0].numel() <= FEW
    exactly = (
        bool(reference.narrowest) and relative(torch, reference.narrowest) <= own
    )
    if exactly and not few and eager_off <= _EVIDENT * own:
        coarse = own
    factor = FACTOR_OF_FEW if few else FACTOR
    row.update(
        reference=reference.dtype,
        eager_off=eager_off,
        fused_off=fused_off,
        tolerance=coarse,
    )
    row["same"] = not finite_differs and fused_off <= max(
        coarse, factor * eager_off
    )
    return row


def _offs(
    torch: Any, pair: tuple[Any, Any], exact: Any, tolerance: float, largest: float
) -> tuple[tuple[float, float, bool] | None, str | None]:
    """The largest relative distance of fused and of eager from the reference (for
    whole numbers: the share of different elements), and whether fused is finite, or
    not finite, where both others disagree; or a sentence why the reference cannot
    judge."""
    if (
        exact is None
        or exact.shape != pair[0].shape
        or exact.is_complex() != pair[1].is_complex()
    ):
        return None, "it gives another kind of result in a wider type"
    f, e, r = (plain(torch, tensor) for tensor in (*pair, exact.to(pair[0].device)))
    if not tolerance:
        if r.is_floating_point():
            return None, "it gives another kind of result in a wider type"
        return (_share(f != r), _share(e != r), False), None
    f, e, r = f.double(), e.double(), r.double()
    in_fused, in_eager, in_exact = (torch.isfinite(tensor) for tensor in (f, e, r))
    if bool((in_eager & ~in_exact).any()):
        return None, "it gives numbers that are not finite in a wider type"
    size = r.abs().clamp(min=least_size(e[in_eager], largest))

    def off(values: Any, finite: Any) -> float:
        finite = finite & in_exact
        if bool(finite.any()):
            return float(((values - r).abs() / size)[finite].max())
        return 0.0

    # Eager may overflow where a group, which keeps float32 between its operators,
    # does not, or the other way round.
    wrong = torch.where(
        in_exact, ~in_fused & in_eager, ~_equal(f, r) & ~_equal(f, e)
    )
    return (off(f, in_fused), off(e, in_eager), bool(wrong.any())), None


def _equal(a: Any, other: Any) -> Any:
    return (a == other) | ((a != a) & (other != other))


def _share(where: Any) -> float:
    if where.numel():
        return float(where.double().mean())
    return 0.0
