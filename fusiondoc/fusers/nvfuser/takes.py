"""nvFuser: the operators that it takes, since which torch, and the conditions for
their arguments.

Sources: the parse rules of torch/csrc/jit/codegen/cuda/parser.cpp
(third_party/nvfuser/csrc/parser.cpp in 2.0 and 2.1), compared with the schemas in
the libraries of the release wheels 1.11.0, 1.12.1, 1.13.1, 2.0.1 and 2.1.2; for
arguments, ``registerJitOperator`` there and the results of ``isNodeParsible`` in
the libraries of 1.12.1, 1.13.1 and 2.1.2 for some 270 nodes
(``fixtures/nvfuser-rules.txt``). aten::linear has a rule for being profiled only
and is left out.

To add an operator, add its row to ``TAKES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_words import GivenOverload
from fusiondoc.fusers.knob_rows import Version, span
from fusiondoc.fusers.taken_operators import TakenOperators


class RuleOverload(NamedTuple):
    """The overload of an operator that has a rule."""

    takes: str
    """Regular expression for the kinds of its arguments, a letter each: those of
    ``kinds_of`` in diagnosis/argument_kinds.py."""
    refused: Callable[[str], GivenOverload]
    """Argument kinds of a refused overload -> a name for that overload."""


class ParseRule(NamedTuple):
    """The parse rule of an operator. Arguments are identified by index."""

    since: Version
    overload: RuleOverload | None = None
    """None: all overloads that TorchScript prints have a rule."""
    constant: Mapping[int, str] = {}
    """Arguments that must be constants, and that nvFuser does not profile, with
    their names."""
    profiled: Mapping[int, str] = {}
    """Arguments that must be constants, and that nvFuser profiles
    (``insertProfileIValue``)."""
    none: Mapping[int, str] = {}
    """Arguments that must be None."""
    floating: int | None = None
    """Index of the argument `dtype`, which must be a floating-point type if it is
    given."""
    no_half: int | None = None
    """Index of the argument `dtype`, which must not be a half type if it is
    given."""
    reduces: int | None = None
    """Index of the argument that it reduces: this must have dimensions and
    elements."""
    sized: bool = False
    """If only the size of its result is read, nvFuser computes the size with
    ``prim::ReductionSizes`` (graph_fuser.cpp, buildShapeExpressions)."""
    kernel: tuple[str, ...] = ()
    """The forms in which a printed kernel shows it: its expressions in order,
    separated by commas."""
    switched_off: bool = False
    """There is a rule, but no pass makes such nodes: a comment in graph_fuser.cpp
    states that aten::view is disabled, and no log of 1.13 to 2.1 has such a
    node."""


def _always(given: GivenOverload) -> Callable[[str], GivenOverload]:
    return lambda kinds: given


def _refused_reduction(kinds: str) -> GivenOverload:
    if len(kinds) == 2:
        return "all_dimensions"
    return "without_dim"


def _refused_variance(kinds: str) -> GivenOverload:
    if len(kinds) == 2:
        return "all_dimensions"
    return "correction"


def _refused_extreme(kinds: str) -> GivenOverload:
    if len(kinds) == 1:
        return "all_elements"
    return "with_indices"


def _refused_cast(kinds: str) -> GivenOverload:
    if kinds[1:2] == "D":
        return "device"
    if kinds[1:2] == "T":
        return "dtype_of_tensor"
    if len(kinds) == 8:
        return "layout_or_device"
    return "other_arguments"


_NUMBER = "[ifSb]"
_TWO_TENSORS = RuleOverload("TT", _always("number"))
_REDUCTION = RuleOverload("T[lN][b?].", _refused_reduction)
_VARIANCE = RuleOverload("T[lN]bb", _refused_variance)
_EXTREME = RuleOverload("TT", _refused_extreme)
_DIV = RuleOverload(f"T(T|{_NUMBER})", _always("rounding_mode"))
_ROUND = RuleOverload("T", _always("decimals"))
_WHERE = RuleOverload("TTT", _always("chosen_number"))
_CLAMP = RuleOverload(f"T({_NUMBER}|N)({_NUMBER}|N)", _always("tensor_limits"))
_TO = RuleOverload("T[iN]bb.", _refused_cast)

_NORM = ("Welford, -, *, +, rsqrt, *, *, +", "Welford, -, *, +, rsqrt, *")
_DROPOUT = ("rand, <, *, *",)

_V11, _V12, _V13, _V20 = (1, 11), (1, 12), (1, 13), (2, 0)

TAKES: Mapping[str, ParseRule] = {
    "aten::__and__": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::__lshift__": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::__or__": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::__rshift__": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::__xor__": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::_autocast_to_full_precision": ParseRule(_V11),
    "aten::_autocast_to_reduced_precision": ParseRule(_V11),
    "aten::_batch_norm_impl_index": ParseRule(
        _V11, profiled={5: "training"}, reduces=0
    ),
    "aten::_batch_norm_impl_index_backward": ParseRule(
        _V11, profiled={8: "train", 10: "output_mask"}, reduces=1
    ),
    "aten::_grad_sum_to_size": ParseRule(_V11, profiled={1: "size"}, reduces=0),
    "aten::_log_softmax_backward_data": ParseRule(
        _V12, constant={2: "dim", 3: "input_dtype"}, reduces=0
    ),
    "aten::_softmax": ParseRule(
        _V11, constant={1: "dim", 2: "half_to_float"}, reduces=0
    ),
    "aten::_softmax_backward_data": ParseRule(
        _V11, constant={2: "dim", 3: "input_dtype"}, reduces=0
    ),
    "aten::_to_copy": ParseRule(
        _V13,
        profiled={1: "dtype"},
        none={2: "layout", 3: "device", 4: "pin_memory", 6: "memory_format"},
    ),
    "aten::abs": ParseRule(_V11, kernel=("abs",)),
    "aten::acos": ParseRule(_V11, kernel=("acos",)),
    "aten::add": ParseRule(_V11, kernel=("*, +", "+")),
    "aten::addcmul": ParseRule(_V11),
    "aten::amax": ParseRule(
        _V11,
        profiled={1: "dim", 2: "keepdim"},
        reduces=0,
        kernel=("reduction max",),
    ),
    "aten::amin": ParseRule(
        _V12,
        profiled={1: "dim", 2: "keepdim"},
        reduces=0,
        kernel=("reduction min",),
    ),
    "aten::asin": ParseRule(_V11, kernel=("asin",)),
    "aten::atan": ParseRule(_V11, kernel=("atan",)),
    "aten::atan2": ParseRule(_V11),
    "aten::atanh": ParseRule(_V11),
    "aten::batch_norm": ParseRule(_V11, profiled={5: "training"}, reduces=0),
    "aten::bitwise_and": ParseRule(_V12, overload=_TWO_TENSORS),
    "aten::bitwise_left_shift": ParseRule(_V12, overload=_TWO_TENSORS),
    "aten::bitwise_not": ParseRule(_V11),
    "aten::bitwise_or": ParseRule(_V12, overload=_TWO_TENSORS),
    "aten::bitwise_right_shift": ParseRule(_V12, overload=_TWO_TENSORS),
    "aten::bitwise_xor": ParseRule(_V12, overload=_TWO_TENSORS),
    "aten::ceil": ParseRule(_V11, kernel=("ceil",)),
    "aten::clamp": ParseRule(_V11, overload=_CLAMP),
    "aten::cos": ParseRule(_V11, kernel=("cos",)),
    "aten::cosh": ParseRule(_V11, kernel=("cosh",)),
    "aten::div": ParseRule(_V11, overload=_DIV, kernel=("/",)),
    "aten::dropout": ParseRule(_V11, profiled={2: "train"}, kernel=_DROPOUT),
    "aten::eq": ParseRule(_V11, kernel=("==",)),
    "aten::erf": ParseRule(_V11, kernel=("erf",)),
    "aten::erfc": ParseRule(_V11, kernel=("erfc",)),
    "aten::exp": ParseRule(_V11, kernel=("exp",)),
    "aten::expm1": ParseRule(_V11, kernel=("expm1",)),
    "aten::floor": ParseRule(_V11, kernel=("floor",)),
    "aten::fmod": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::frac": ParseRule(_V11, kernel=("frac",)),
    "aten::ge": ParseRule(_V11, kernel=(">=",)),
    "aten::gelu": ParseRule(_V11, profiled={1: "approximate"}, kernel=("gelu",)),
    "aten::gelu_backward": ParseRule(_V11, profiled={2: "approximate"}),
    "aten::gt": ParseRule(_V11, kernel=(">",)),
    "aten::instance_norm": ParseRule(_V11, reduces=0),
    "aten::isfinite": ParseRule(_V12),
    "aten::isinf": ParseRule(_V12),
    "aten::isnan": ParseRule(_V12),
    "aten::isneginf": ParseRule(_V12),
    "aten::isposinf": ParseRule(_V12),
    "aten::isreal": ParseRule(_V12),
    "aten::layer_norm": ParseRule(
        _V11, profiled={1: "normalized_shape"}, reduces=0, kernel=_NORM
    ),
    "aten::le": ParseRule(_V11, kernel=("<=",)),
    "aten::leaky_relu": ParseRule(_V13),
    "aten::lerp": ParseRule(_V11),
    "aten::lgamma": ParseRule(_V11, kernel=("lgamma",)),
    "aten::log": ParseRule(_V11, kernel=("log",)),
    "aten::log10": ParseRule(_V11, kernel=("log10",)),
    "aten::log1p": ParseRule(_V11, kernel=("log1p",)),
    "aten::log2": ParseRule(_V11, kernel=("log2",)),
    "aten::log_softmax": ParseRule(
        _V12, constant={1: "dim"}, profiled={2: "dtype"}, no_half=2, reduces=0
    ),
    "aten::lt": ParseRule(_V11, kernel=("<",)),
    "aten::max": ParseRule(_V11, overload=_EXTREME),
    "aten::mean": ParseRule(
        _V11,
        overload=_REDUCTION,
        constant={1: "dim", 2: "keepdim"},
        floating=3,
        reduces=0,
        sized=True,
        kernel=("reduction add, /", "reduction add, *"),
    ),
    "aten::min": ParseRule(_V11, overload=_EXTREME),
    "aten::mul": ParseRule(_V11, kernel=("*",)),
    "aten::native_batch_norm": ParseRule(_V11, profiled={5: "training"}, reduces=0),
    "aten::native_batch_norm_backward": ParseRule(
        _V12, profiled={7: "train", 9: "output_mask"}, reduces=1
    ),
    "aten::native_dropout": ParseRule(_V11, profiled={2: "train"}, kernel=_DROPOUT),
    "aten::native_dropout_backward": ParseRule(_V11),
    "aten::native_layer_norm": ParseRule(
        _V11, profiled={1: "normalized_shape"}, reduces=0, kernel=_NORM
    ),
    "aten::native_layer_norm_backward": ParseRule(
        _V11, profiled={2: "normalized_shape", 7: "output_mask"}, reduces=0
    ),
    "aten::ne": ParseRule(_V11, kernel=("!=",)),
    "aten::neg": ParseRule(_V11, kernel=("-x",)),
    "aten::pow": ParseRule(_V11, kernel=("pow",)),
    "aten::rand_like": ParseRule(
        _V11, none={1: "dtype", 2: "layout", 5: "memory_format"}
    ),
    "aten::reciprocal": ParseRule(_V11, kernel=("reciprocal",)),
    "aten::relu": ParseRule(_V11, kernel=("relu",)),
    "aten::remainder": ParseRule(_V11, overload=_TWO_TENSORS),
    "aten::round": ParseRule(_V11, overload=_ROUND, kernel=("round",)),
    "aten::rsqrt": ParseRule(_V11, kernel=("rsqrt",)),
    "aten::rsub": ParseRule(_V12, kernel=("-",)),
    "aten::sigmoid": ParseRule(_V11, kernel=("sigmoid",)),
    "aten::silu": ParseRule(_V11, kernel=("silu",)),
    "aten::sin": ParseRule(_V11, kernel=("sin",)),
    "aten::sinh": ParseRule(_V11, kernel=("sinh",)),
    "aten::softmax": ParseRule(
        _V11,
        constant={1: "dim"},
        profiled={2: "dtype"},
        no_half=2,
        reduces=0,
        kernel=("reduction max, -, exp, reduction add, /",),
    ),
    "aten::softplus": ParseRule(_V11),
    "aten::sqrt": ParseRule(_V11, kernel=("sqrt",)),
    "aten::std": ParseRule(_V12, overload=_VARIANCE, reduces=0, sized=True),
    "aten::sub": ParseRule(_V11, kernel=("*, -", "-")),
    "aten::sum": ParseRule(
        _V11,
        overload=_REDUCTION,
        profiled={1: "dim", 2: "keepdim"},
        floating=3,
        reduces=0,
        sized=True,
        kernel=("reduction add",),
    ),
    "aten::sum_to_size": ParseRule(_V11, profiled={1: "size"}, reduces=0),
    "aten::tan": ParseRule(_V11, kernel=("tan",)),
    "aten::tanh": ParseRule(_V11, kernel=("tanh",)),
    "aten::tanh_backward": ParseRule(_V12),
    "aten::threshold": ParseRule(_V11),
    "aten::threshold_backward": ParseRule(_V11),
    "aten::to": ParseRule(
        _V11, overload=_TO, profiled={1: "dtype"}, none={4: "memory_format"}
    ),
    "aten::trunc": ParseRule(_V11, kernel=("trunc",)),
    "aten::type_as": ParseRule(_V11),
    "aten::var": ParseRule(_V12, overload=_VARIANCE, reduces=0, sized=True),
    "aten::where": ParseRule(_V11, overload=_WHERE, kernel=("where",)),
    "prim::add_optional": ParseRule(_V11),
    "prim::expand_as_copy": ParseRule(_V13),
    "prim::expand_copy": ParseRule(_V13, constant={1: "size"}),
    "prim::flatten_copy": ParseRule(_V12, switched_off=True),
    "prim::permute_copy": ParseRule(_V20, profiled={1: "dims"}),
    "prim::reshape_copy": ParseRule(_V12, switched_off=True),
    "prim::squeeze_copy": ParseRule(_V12, switched_off=True),
    "prim::t_copy": ParseRule(_V20),
    "prim::transpose_copy": ParseRule(_V20, profiled={1: "dim0", 2: "dim1"}),
    "prim::unsqueeze_copy": ParseRule(_V12, switched_off=True),
    "prim::view_copy": ParseRule(_V12, switched_off=True),
}
"""Operator as printed -> its rule."""

COPY_OF: Mapping[str, str] = {
    name: re.sub(r"prim::(\w+)_copy", r"aten::\1", name)
    for name in TAKES
    if name.endswith("_copy") and name.startswith("prim::")
}
"""nvFuser's stand-ins for views -> the views. Its pass makes them
(``replaceAliasOpsWithCopy`` of graph_fuser.cpp) and restores the views outside
groups; the stand-ins cannot run outside its groups
(torch/csrc/jit/codegen/cuda/interface.cpp, 1.12 to 2.1)."""

VIEWS = frozenset(COPY_OF.values())
"""Views that have such a stand-in."""

FUSED_VIEWS_SINCE: Mapping[str, Version] = {
    view: TAKES[copy].since
    for copy, view in COPY_OF.items()
    if not TAKES[copy].switched_off
}
"""Views that nvFuser takes into a group, and the first torch whose nvFuser does so.
In 1.12 it takes none (https://github.com/csarofeen/pytorch/issues/1700)."""


def rule_of(op: str) -> ParseRule | None:
    """The rule of an operator, or that of the stand-in of a view."""
    return TAKES.get(op) or TAKES.get(f"prim::{op.removeprefix('aten::')}_copy")


@cache
def taken_in(version: Version) -> frozenset[str]:
    """The operators for which nvFuser of a torch version has a rule; after 2.1,
    those of 2.1."""
    return frozenset(op for op, rule in TAKES.items() if rule.since <= version)


def views_taken_in(version: Version | None) -> frozenset[str]:
    """The views that nvFuser of a torch version takes; for None, that of the
    newest."""
    if version is None:
        return frozenset(FUSED_VIEWS_SINCE)
    views = set()
    for op, since in FUSED_VIEWS_SINCE.items():
        if since <= version:
            views.add(op)
    return frozenset(views)


def rule_since(op: str) -> Version | None:
    """The first torch whose nvFuser has a rule for an operator, or takes a view
    into a group."""
    rule = TAKES.get(op)
    if rule is not None:
        return rule.since
    return FUSED_VIEWS_SINCE.get(op)


OPERATORS = TakenOperators(
    takes=frozenset(TAKES),
    taken_in=taken_in,
    rule_since=rule_since,
    versions=("1.12.0", "1.13.0", "2.1.0"),
    views_in=views_taken_in,
    stand_ins=COPY_OF,
    with_dimensions_only=frozenset(
        op for op, rule in TAKES.items() if rule.overload in (_REDUCTION, _VARIANCE)
    ),
    pairs_only=frozenset(
        op for op, rule in TAKES.items() if rule.overload is _EXTREME
    ),
    # Only operators of programs; arguments that nvFuser profiles need not be
    # constants.
    by_constant_dimension=frozenset(
        op
        for op, rule in TAKES.items()
        if rule.constant.get(1) == "dim" and not op.startswith("aten::_")
    ),
    sized_reductions=frozenset(op for op, rule in TAKES.items() if rule.sized),
    expressions={op: rule.kernel for op, rule in TAKES.items()},
)

LIMITS = FuserLimits(
    joins_readers=True,  # horizontal fusion, ``scanNode`` of graph_fuser.cpp
    stops_at_side_effects=True,
    since=(1, 12),  # the oldest whose nvFuser is looked after here
    until=(2, 1),
    in_builds=span("1.10-2.1"),
    where="torch 1.12 to 2.1 with CUDA (on Linux with Python 3.8 to 3.11: pip install torch==2.1.2) and"
    " an NVIDIA GPU; then --python PATH",
    devices=frozenset(("cuda",)),
    # torch/csrc/jit/codegen/cuda/type.cpp, isSupportedTypeByDevice
    dtypes=frozenset(
        ("Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long")
    ),
    numbers_for_tensors=False,
    # Without the profiling executor its pass still makes groups, and refuses to
    # compile them: "legacy executor is not supported by nvfuser"
    # (kernel_cache.cpp).
    only_profiled=True,
    most_dimensions=8,  # torch/csrc/jit/codegen/cuda/utils.h, MAX_DIMS
)
