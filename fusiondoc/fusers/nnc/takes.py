"""NNC, the tensor-expression fuser: the operators that it takes, and under which
conditions.

Sources: the sets in torch/csrc/jit/passes/tensorexpr_fuser.cpp (``isSupported``,
``typesAreSupported``) and torch/csrc/jit/runtime/symbolic_shape_registry_util.cpp,
the same from 1.12 to 2.13, compared with the pass itself, run on one graph for each
operator, on 1.12.1 (CPU and CUDA) and 2.13.0 (CPU).

To add an operator, add its row to ``TAKES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.taken_operators import TakenOperators, WithKnob


class Takes(NamedTuple):
    """The conditions of NNC for an operator, beyond those for every operator."""

    knob: str | None = None
    """Taken only with this knob on."""
    device: str | None = None
    """Taken only on this device: "cpu" or "cuda"."""
    dtypes: str | None = None
    """Taken only with tensors of these types: "floating" or "integer"."""
    pairs: bool = False
    """Taken only in the overload with two tensors, not in one that reduces."""
    inference: bool = False
    """Taken only if no gradients are recorded (tensorexpr_fuser.cpp). For aten::cat
    it must see the list, which is in no differentiable graph: it is an input of
    that graph (seen with torch 2.13)."""
    pulled_in: bool = False
    """A view that starts no group; a group takes it in only if nothing else uses
    its result (``scanNode`` and ``canMerge`` of tensorexpr_fuser.cpp)."""
    cast: bool = False
    """A cast that starts no group if its result has the type of its input, as eager
    mode computes nothing there (``unexecutedEagerOp`` of tensorexpr_fuser.cpp)."""
    call: str = ""
    """How to call an overload that NNC takes, if it refuses another one
    (``fixtures/logs/refused_numbers.py``)."""
    call_note: str = ""
    """The sentence after ``call``."""


_ANY = Takes()
_REDUCTION = Takes(knob="nnc_reductions")
_ON_CPU, _ON_GPU = Takes(device="cpu"), Takes(device="cuda")
_FLOATING, _INTEGER = Takes(dtypes="floating"), Takes(dtypes="integer")
_PAIR = Takes(pairs=True)
_IN_INFERENCE = Takes(inference=True)
_PULLED_IN = Takes(pulled_in=True)
_CAST = Takes(cast=True)

TAKES: Mapping[str, Takes] = {
    "aten::abs": _ANY,
    "aten::acos": _ANY,
    "aten::add": _ANY,
    "aten::addcmul": _ANY,
    "aten::__and__": _ANY,
    "aten::asin": _ANY,
    "aten::atan": _ANY,
    "aten::atan2": _ANY,
    "aten::_autocast_to_full_precision": _CAST,
    "aten::_autocast_to_reduced_precision": _CAST,
    "aten::batch_norm": _IN_INFERENCE,
    "aten::_cast_Float": _ANY,
    "aten::cat": _IN_INFERENCE,
    "aten::ceil": _ANY,
    "aten::clamp": _ANY,
    "aten::conv2d": _ON_CPU,
    "aten::_convolution": _ON_CPU,
    "aten::cos": _ANY,
    "aten::cosh": _ANY,
    "aten::div": Takes(
        call="Write torch.floor(x / y) instead of torch.div(x, y, rounding_mode='floor'), and torch.trunc"
        " for 'trunc'.",
    ),
    "aten::elu": _ANY,
    "aten::eq": _ANY,
    "aten::erf": _ON_GPU,
    "aten::erfc": _ON_GPU,
    "aten::exp": _ANY,
    "aten::expm1": _ANY,
    "aten::floor": _ANY,
    "aten::fmod": _FLOATING,
    "aten::frac": _ANY,
    "aten::ge": _ANY,
    "aten::gelu": _ANY,
    "aten::gt": _ANY,
    "aten::hardshrink": _ANY,
    "aten::hardsigmoid": _ANY,
    "aten::hardswish": _ANY,
    "aten::hardtanh": _ANY,
    "aten::isnan": _ANY,
    "aten::le": _ANY,
    "aten::leaky_relu": _ANY,
    "aten::lerp": _ANY,
    "aten::lgamma": _ANY,
    "aten::log": _ANY,
    "aten::log10": _ANY,
    "aten::log1p": _ANY,
    "aten::log2": _ANY,
    "aten::log_softmax": _REDUCTION,
    "aten::__lshift__": _INTEGER,
    "aten::lt": _ANY,
    "aten::matmul": _ON_CPU,
    "aten::max": _PAIR,
    "aten::min": _PAIR,
    "aten::mish": _ANY,
    "aten::mul": _ANY,
    "aten::ne": _ANY,
    "aten::neg": _ANY,
    "aten::__or__": _ANY,
    "aten::pow": Takes(
        dtypes="floating",
        call="Write torch.exp(y * torch.log(x)) for x > 0;",
        call_note="an exponent that is a number is taken as is.",
    ),
    "aten::reciprocal": _ANY,
    "aten::relu": _ANY,
    "aten::relu6": _ANY,
    "aten::remainder": Takes(
        dtypes="floating",
        call="Write x - n * torch.floor(x / n) instead of x % n, where n is a number and x a"
        " floating-point tensor.",
    ),
    "aten::round": _ANY,
    "aten::__rshift__": _INTEGER,
    "aten::rsqrt": _ANY,
    "aten::sigmoid": _ANY,
    "aten::silu": _ANY,
    "aten::sin": _ANY,
    "aten::sinh": _ANY,
    "aten::softmax": _REDUCTION,
    "aten::softplus": _ANY,
    "aten::sqrt": _ANY,
    "aten::sub": _ANY,
    "aten::sum": _REDUCTION,
    "aten::tan": _ANY,
    "aten::tanh": _ANY,
    "aten::threshold": _ANY,
    "aten::to": _CAST,
    "aten::trunc": _ANY,
    "aten::type_as": _ANY,
    "aten::unsqueeze": _PULLED_IN,
    "aten::where": Takes(
        call="Give torch.where tensors: torch.zeros_like(x) or torch.full_like(x, value) for a number.",
    ),
    "aten::__xor__": _ANY,
    "prim::ConstantChunk": _PULLED_IN,
    "prim::ListConstruct": _ANY,
}
"""Operator as printed -> the conditions."""

REDUCTIONS = frozenset(
    op for op, takes in TAKES.items() if takes.knob == "nnc_reductions"
)
"""Operators that NNC takes only with the knob nnc_reductions."""

ON_CPU_ONLY = frozenset(op for op, takes in TAKES.items() if takes.device == "cpu")
ON_GPU_ONLY = frozenset(op for op, takes in TAKES.items() if takes.device == "cuda")
FLOATING_ONLY = frozenset(
    op for op, takes in TAKES.items() if takes.dtypes == "floating"
)
INTEGER_ONLY = frozenset(
    op for op, takes in TAKES.items() if takes.dtypes == "integer"
)
PAIRS_ONLY = frozenset(op for op, takes in TAKES.items() if takes.pairs)
"""Operators whose overload with a dimension, or over all elements, NNC does not
take."""

PULLED_IN = frozenset(op for op, takes in TAKES.items() if takes.pulled_in)

OPERATORS = TakenOperators(
    takes=frozenset(TAKES),
    with_knob=WithKnob(
        "nnc_reductions",
        REDUCTIONS,
        "reductions",
        "torch._C._jit_set_texpr_reductions_enabled(True)",
    ),
    inference_only=frozenset(op for op, takes in TAKES.items() if takes.inference),
    seldom=REDUCTIONS | ON_CPU_ONLY,
    pulled_in=PULLED_IN,
    idle_casts=frozenset(op for op, takes in TAKES.items() if takes.cast),
    pairs_only=PAIRS_ONLY,
    # buildShapeExpressions of tensorexpr_fuser.cpp: a product of [7, 7] and [7, 4]
    # before a sum fails in training (seen with torch 2.13)
    sized_by_broadcast=frozenset(["aten::matmul"]),
    casts_by_constants=True,
)

LIMITS = FuserLimits(
    # torch/csrc/jit/tensorexpr/types.h
    dtypes=frozenset(
        (
            "Float",
            "Double",
            "Half",
            "BFloat16",
            "Bool",
            "Int",
            "Long",
            "Short",
            "Char",
            "Byte",
        )
    ),
    halves_on=frozenset(("cuda",)),
    profiled_sizes=True,  # allShapesAreKnown of torch/csrc/jit/passes/tensorexpr_fuser.cpp
    numbers_for_tensors=True,
    evaluator_without_llvm=True,
    any_size=True,
    stops_at_side_effects=True,
    merges_neighbours=True,
    only_profiled=True,
)
