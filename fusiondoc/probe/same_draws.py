"""Random numbers that depend on the shape alone, not on the operator that draws
them. Two versions of a program may draw other numbers from one seed and still
compute the same: on CUDA ``dropout`` is one kernel, and ``dropout_`` draws a mask
by ``bernoulli_`` (aten/src/ATen/native/Dropout.cpp, 1.12 to 2.13).
"""

from __future__ import annotations

from typing import Any, ContextManager, Sequence

from .light_torch import dispatch_mode

_NAMES = """
dropout alpha_dropout feature_dropout feature_alpha_dropout native_dropout bernoulli binomial multinomial
normal normal_functional uniform exponential geometric log_normal cauchy random poisson rrelu rrelu_with_noise
rand rand_like randn randn_like randint randint_like randperm _standard_gamma _sample_dirichlet _fused_dropout
scaled_dot_product_attention lstm gru rnn_tanh rnn_relu miopen_rnn rrelu_with_noise_functional
"""
"""Operators that draw random numbers, some only with a dropout above 0 (tagged
``nondeterministic_seeded`` in aten/src/ATen/native/native_functions.yaml of torch
2.13, and their in-place forms)."""
RANDOM = frozenset("aten::" + name for name in _NAMES.split())


def same_draws(torch: Any) -> ContextManager[object]:
    """Context manager: the n-th draw of a shape uses the n-th seed, and
    ``native_dropout`` the mask of ``dropout_``, so that a draw does not depend on
    other draws before it, or on the operator.

    Raises:
        Exception: this torch cannot intercept every operator.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    drawn: dict[tuple[int, ...], int] = {}

    def dispatch(
        mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = _name(func)
        if _draws(func, name):
            shape = _shape(torch, args)
            drawn[shape] = drawn.get(shape, 0) + 1
            torch.manual_seed(drawn[shape])
            if (
                name == "aten::native_dropout"
                and len(args) == 3
                and args[2] is not False
            ):
                return _masked(torch, args[0], args[1])
        return func(*args, **(kwargs or {}))

    mode: Any = type(
        "SameDraws",
        (dispatch_mode(TorchDispatchMode),),
        {"__torch_dispatch__": dispatch},
    )
    entered: ContextManager[object] = (
        mode() if hasattr(mode, "__enter__") else mode.push()
    )  # 1.12
    return entered


def _name(func: Any) -> str:
    """ "aten::bernoulli" of ``aten.bernoulli_.float``"""
    name = str(func._schema.name)
    if name.endswith("_"):
        return name[:-1]
    return name


def _draws(func: Any, name: str) -> bool:
    return name in RANDOM or any(
        "nondeterministic_seeded" in str(tag) for tag in getattr(func, "tags", ())
    )


def _shape(torch: Any, arguments: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the first tensor, or the requested size."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            return tuple(argument.shape)
        if isinstance(argument, (list, tuple)) and all(
            isinstance(size, int) for size in argument
        ):
            return tuple(argument)
    return ()


def _masked(torch: Any, tensor: Any, probability: float) -> tuple[Any, Any]:
    """The result of ``dropout_``, and its mask."""
    mask = torch.empty_like(tensor).bernoulli_(1 - probability)
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    return tensor * (mask * scale), mask.bool()
