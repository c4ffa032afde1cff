"""Which operators each fuser can take into a group, and which change their input, what makes those and what
is written instead; by name as printed (``aten::add``).

"Can" means: for some types, shapes and arguments. A rule may still refuse a node, say for a dimension that is
not a constant. Sources:

* nvFuser: the parse rules of torch/csrc/jit/codegen/cuda/parser.cpp (third_party/nvfuser/csrc/parser.cpp in
  2.0 and 2.1), compared with the schemas in the libraries of the release wheels 1.11.0, 1.12.1, 1.13.1, 2.0.1
  and 2.1.2. aten::linear has a rule for being profiled only and is left out.
* NNC: the sets in torch/csrc/jit/passes/tensorexpr_fuser.cpp and
  torch/csrc/jit/runtime/symbolic_shape_registry_util.cpp, compared with what the pass fuses when run on one
  graph an operator, on 1.12.1 (CPU and CUDA) and 2.13.0 (CPU).
* oneDNN Graph: torch/csrc/jit/codegen/onednn/graph_helper.cpp, compared with runs on 2.13.0.
* legacy: torch/csrc/jit/passes/graph_fuser.cpp, compared in the same way as NNC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from fusiondoc.fuser_knobs import Version, parse_version

_ELEMENTWISE = """
abs acos add addcmul asin atan atan2 ceil clamp cos cosh div eq erf erfc exp expm1 floor fmod frac ge gt le
lerp lgamma log log10 log1p log2 lt max min mul ne neg pow reciprocal relu remainder round rsqrt sigmoid sin
sinh sqrt sub tan tanh threshold trunc type_as where
"""
"""What nvFuser, NNC and the legacy fuser all take."""

_BITWISE = "__and__ __lshift__ __or__ __rshift__ __xor__"

_NVFUSER_SINCE = {
    "1.11": _ELEMENTWISE
    + _BITWISE
    + """
    _autocast_to_full_precision _autocast_to_reduced_precision _batch_norm_impl_index
    _batch_norm_impl_index_backward _grad_sum_to_size _softmax _softmax_backward_data amax atanh batch_norm
    bitwise_not dropout gelu gelu_backward instance_norm layer_norm mean native_batch_norm native_dropout
    native_dropout_backward native_layer_norm native_layer_norm_backward rand_like silu softmax softplus sum
    sum_to_size threshold_backward to prim::add_optional
    """,
    "1.12": """
    _log_softmax_backward_data amin bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
    isfinite isinf isnan isneginf isposinf isreal log_softmax native_batch_norm_backward rsub std
    tanh_backward var prim::flatten_copy prim::reshape_copy prim::squeeze_copy prim::unsqueeze_copy
    prim::view_copy """,
    "1.13": "_to_copy leaky_relu prim::expand_as_copy prim::expand_copy",
    "2.0": "prim::permute_copy prim::t_copy prim::transpose_copy",
}

_NNC = (
    _ELEMENTWISE
    + _BITWISE
    + """
    _autocast_to_full_precision _autocast_to_reduced_precision _cast_Float _convolution batch_norm cat
    conv2d elu gelu hardshrink hardsigmoid hardswish hardtanh isnan leaky_relu log_softmax matmul mish relu6
    silu softmax softplus sum to unsqueeze prim::ConstantChunk prim::ListConstruct
    """
)
"""The sum and the softmaxes only with the knob nnc_reductions; matmul and convolutions on the CPU only."""

_ONEDNN = """
_convolution _log_softmax _softmax abs add addmm avg_pool2d batch_norm bmm cat clamp contiguous conv2d
convolution div elu exp gelu hardswish hardtanh layer_norm leaky_relu linear log matmul max_pool2d
max_pool2d_with_indices mm mul permute relu relu6 round sigmoid softmax sqrt square tanh prim::ListConstruct
"""

_LEGACY = _ELEMENTWISE + "_cast_Float logit rand_like cat prim::ConstantChunk prim::FusedConcat"


def _named(text: str) -> list[str]:
    return [word if "::" in word else "aten::" + word for word in text.split()]


VIEWS = frozenset(_named("expand expand_as flatten permute reshape squeeze t transpose unsqueeze view"))
"""Operators that move no data. nvFuser takes them into a group as prim::*_copy and gives them back when no
group wants them, so one outside a group is no loss."""

PERMUTATIONS = frozenset(_named("flip fliplr flipud roll rot90"))
"""Operators whose result has the elements of their input, each once, at another place."""

COPIES = frozenset(
    _named(
        "cat chunk clone contiguous embedding gather index index_select movedim narrow repeat"
        " repeat_interleave select slice split split_with_sizes stack swapaxes take take_along_dim"
        " tensor_split tile unbind unflatten unfold"
    )
)
"""Operators whose results have elements of their inputs, some of them or some more than once."""

PLACES_ELEMENTS = VIEWS | PERMUTATIONS | COPIES
"""Operators that compute nothing: what works on each element by itself can be done before them as well as
after them, with the same result."""

OF_EACH_ELEMENT = frozenset(
    ["tanh", "sigmoid", "relu", "exp", "log", "sqrt", "rsqrt", "abs", "neg", "erf", "sin", "cos"]
)
"""Functions and methods of one tensor that compute each element by itself."""

OF_MANY_ELEMENTS = re.compile(
    r"norm|softmax|sum|mean|var|std|a?max$|a?min$|prod|any|all|sort|scatter|gather|prim::"
)
"""Operators, by parts of their names, whose results are no function of single elements; control flow."""


_LIBRARY = """
_convolution _native_multi_head_attention adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d
adaptive_max_pool2d addbmm addmm avg_pool1d avg_pool2d avg_pool3d bernoulli bernoulli_ bmm conv1d conv2d
conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution convolution_backward
cross_entropy_loss cudnn_convolution einsum embedding embedding_backward embedding_bag
embedding_dense_backward fft_fft fft_ifft fft_irfft fft_rfft grid_sampler gru linear lstm matmul
max_pool1d max_pool2d max_pool2d_with_indices max_pool3d mm mv nll_loss nll_loss_nd normal_ outer rnn_relu
rnn_tanh scaled_dot_product_attention uniform_ upsample_bilinear2d upsample_nearest2d
"""

LIBRARY = frozenset(_named(_LIBRARY))
"""Operators with kernels of their own (cuBLAS, cuDNN, ATen, random numbers): no program is better without
them, and fusers take them, if at all, only with some arguments."""


OLDEST_NVFUSER: Version = (1, 12)
"""The oldest torch whose nvFuser is looked after here."""

NVFUSER_SINCE: dict[str, Version] = {
    op: parse_version(version) for version, ops in _NVFUSER_SINCE.items() for op in _named(ops)
}
"""Operator -> the first torch whose nvFuser takes it."""

BY_FUSER: dict[str, frozenset[str]] = {
    "nvfuser": frozenset(NVFUSER_SINCE),
    "nnc": frozenset(_named(_NNC)),
    "onednn": frozenset(_named(_ONEDNN)),
    "legacy": frozenset(_named(_LEGACY)),
}


def fusible_by(op: str, torch_version: str | None = None) -> frozenset[str]:
    """The fusers that can take the operator into a group; with a version, nvFuser only if its rules there
    do."""
    fusers = {fuser for fuser, ops in BY_FUSER.items() if op in ops}
    if torch_version is not None and "nvfuser" in fusers:
        version = parse_version(torch_version)
        if not NVFUSER_SINCE[op] <= version <= (2, 1):
            fusers.discard("nvfuser")
    return frozenset(fusers)


def taken_by(op: str, fuser: str, torch_version: str | None = None) -> bool:
    """Whether a fuser has a rule for the operator, for some arguments; without a version, in any version."""
    if torch_version is None:
        return op in BY_FUSER.get(fuser, ())
    return fuser in fusible_by(op, torch_version)


def is_fusible(op: str) -> bool:
    """Whether some fuser can take the operator, and something is lost if none does: false for views."""
    return op not in VIEWS and any(op in ops for ops in BY_FUSER.values())


_FORMULAS = """
_autocast_to_full_precision _autocast_to_reduced_precision _batch_norm_impl_index _dim_arange
_grad_sum_to_size _slow_conv2d_forward abs acos adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d add addcmul addmm asin atan avg_pool2d batch_norm bmm cat ceil clamp contiguous cos
cosh div dot dropout embedding eq erf erfc exp expm1 floor fmod frac ge gelu gt hardshrink hardsigmoid
hardswish hardtanh index layer_norm le leaky_relu lerp linear log log10 log1p log2 log_softmax logsumexp
lt matmul max max_pool2d mean min mm mul mv native_dropout native_layer_norm ne neg nll_loss nonzero
permute pow reciprocal relu relu6 remainder round rsqrt rsub sigmoid silu sin sinh softmax softplus sqrt
squeeze stack std sub t tan tanh threshold to trunc type_as unbind unsqueeze var where
"""

WITH_FORMULA = frozenset(f"aten::{name}" for name in _FORMULAS.split()) | {"prim::ConstantChunk"}
"""Kinds of nodes that a differentiable graph can hold, for some of their overloads and arguments."""


_DUNDERS = frozenset(f"__i{name}__" for name in ("and", "or", "xor", "lshift", "rshift"))


@cache
def is_in_place(op: str) -> bool:
    """Whether it changes its first argument, as its name says: ``aten::add_``, ``mine::scale_`` and
    ``aten::__iand__`` do, ``aten::__and__`` does not.

    Args:
        op: as printed, or the name of a method or function.
    """
    name = op.rpartition(":")[2]
    return (name.endswith("_") and not name.endswith("__")) or name in _DUNDERS


def plain_name(op: str) -> str:
    """The name of the operator that makes a new tensor: ``aten::relu_`` and ``aten::relu`` -> "relu"."""
    name = op.rpartition(":")[2]
    return f"__{name[3:]}" if name in _DUNDERS else name if name.startswith("__") else name.rstrip("_")


SIGNS: Mapping[str, str] = {
    "add_": "+",
    "sub_": "-",
    "mul_": "*",
    "div_": "/",
    "pow_": "**",
    "bitwise_and_": "&",
    "bitwise_or_": "|",
    "bitwise_xor_": "^",
    "__iand__": "&",
    "__ior__": "|",
    "__ixor__": "^",
    "__ilshift__": "<<",
    "__irshift__": ">>",
}
"""Operator -> the sign of the statement that makes it: ``x += y`` (torch/_tensor.py;
torch/csrc/jit/frontend/ir_emitter.cpp, ``emitAugAssignment``)."""


def sign_of(op: str) -> str | None:
    """ "+" of ``aten::add_``, which ``x += y`` makes."""
    return SIGNS.get(op.rpartition(":")[2])


class Flag(NamedTuple):
    """Where ``inplace`` stands among the arguments, from 0."""

    of_function: int | None
    """Of the function of torch.nn.functional with the operator's name; None where there is none."""
    modules: Mapping[str, int]
    """Modules of torch.nn that call it -> of their constructor."""


FLAGS: Mapping[str, Flag] = {
    "relu": Flag(1, {"ReLU": 0}),
    "relu6": Flag(1, {"ReLU6": 0}),
    "hardtanh": Flag(3, {"Hardtanh": 2, "ReLU6": 0}),
    "hardswish": Flag(1, {"Hardswish": 0}),
    "hardsigmoid": Flag(1, {"Hardsigmoid": 0}),
    "silu": Flag(1, {"SiLU": 0}),
    "mish": Flag(1, {"Mish": 0}),
    "elu": Flag(2, {"ELU": 1}),
    "selu": Flag(1, {"SELU": 0}),
    "celu": Flag(2, {"CELU": 1}),
    "leaky_relu": Flag(2, {"LeakyReLU": 1}),
    "threshold": Flag(3, {"Threshold": 2}),
    "rrelu": Flag(4, {"RReLU": 2}),
    "dropout": Flag(3, {"Dropout": 1}),
    "dropout1d": Flag(3, {"Dropout1d": 1}),
    "dropout2d": Flag(3, {"Dropout2d": 1}),
    "dropout3d": Flag(3, {"Dropout3d": 1}),
    "alpha_dropout": Flag(3, {"AlphaDropout": 1}),
    "feature_alpha_dropout": Flag(3, {"FeatureAlphaDropout": 1}),
}
"""Operator (or function) -> where its flag ``inplace`` is (torch/nn/functional.py,
torch/nn/modules/activation.py and dropout.py, 1.12 to 2.13)."""

CALLED_BY: Mapping[str, tuple[str, ...]] = {
    **{name: tuple(flag.modules) for name, flag in FLAGS.items()},
    "gelu": ("GELU",),
    "softplus": ("Softplus",),
}
"""Operator -> the modules of torch.nn that call it."""

MODULE_FLAGS: Mapping[str, int] = {name: at for flag in FLAGS.values() for name, at in flag.modules.items()}
"""Module of torch.nn -> where ``inplace`` is among the arguments of its constructor."""

WITH_FLAG = frozenset(f"aten::{name}_" for name in FLAGS)
"""Operators that modules of torch.nn call in place if ``inplace`` is set."""

CONTROL_FLOW = frozenset(["prim::If", "prim::Loop"])
"""Branches and loops: the interpreter's own work, for which no kernel runs."""

IN_PLACE_ASSIGNS = frozenset(f"aten::{name}_" for name in ("copy", "index_put", "masked_scatter", "scatter"))
"""What ``x[...] = y`` is, and what has no version without the underscore that does the same alone."""

FILLS: Mapping[str, str] = {
    "aten::fill_": "torch.full_like(x, value)",
    "aten::zero_": "torch.zeros_like(x)",
    "aten::normal_": "torch.randn_like(x)",
    "aten::uniform_": "torch.rand_like(x)",
}
"""Operators whose name without the underscore is no method of a tensor (torch/_tensor_docs.py, 1.12 to 2.13),
and what makes a filled one."""

ONLY_IN_PLACE = IN_PLACE_ASSIGNS.union(FILLS)
"""Operators that have no version without the underscore that does the same."""

ALL_OUT_OF_PLACE = """\
# or from outside, before torch.jit.script: a scripted module refuses it
for module in model.modules():
    if hasattr(module, "inplace"):
        module.inplace = False"""
"""For modules that a package makes. Set on a scripted module it is a RuntimeError, "Can't set constant"
(torch 2.13)."""
