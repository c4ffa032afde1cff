"""Arguments for running an operator whose arguments a log does not hold: most
accept any tensor or number; these need a certain value."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Fit(Enum):
    """The shape or type that a made-up argument must fit, if it has no fixed
    value."""

    POSITIVE = "negative numbers or zero would make the result NaN or infinite; a variance, too"
    SIZES = "the sizes of the result"
    LAST_SIZE = "the last size of the result"


_POSITIVE, _SIZES, _LAST_SIZE = Fit.POSITIVE, Fit.SIZES, Fit.LAST_SIZE

SAMPLE_ARGUMENTS: Mapping[str, Mapping[int, object]] = {
    "aten::batch_norm": {4: _POSITIVE, 5: True, 6: 0.1, 7: 1e-05},
    "aten::_batch_norm_impl_index": {4: _POSITIVE, 5: True, 6: 0.1, 7: 1e-05},
    "aten::_batch_norm_impl_index_backward": {0: 0, 6: _POSITIVE},
    "aten::cat": {1: 0},
    "aten::add": {2: 1},
    "aten::div": {1: _POSITIVE},
    "aten::dropout": {1: 0.5, 2: True},
    "aten::gelu": {1: "none"},
    "aten::gelu_backward": {2: "none"},
    "aten::_grad_sum_to_size": {1: _SIZES},
    "aten::native_dropout": {1: 0.5, 2: True},
    "aten::native_dropout_backward": {2: 2.0},
    "aten::native_layer_norm": {1: _LAST_SIZE, 4: 1e-05},
    "aten::native_layer_norm_backward": {4: _POSITIVE},
    "aten::layer_norm": {1: _LAST_SIZE, 4: 1e-05},
    "aten::lgamma": {0: _POSITIVE},
    "aten::log": {0: _POSITIVE},
    "aten::log10": {0: _POSITIVE},
    "aten::log1p": {0: _POSITIVE},
    "aten::log2": {0: _POSITIVE},
    "aten::log_softmax": {1: -1},
    "aten::_log_softmax_backward_data": {2: -1, 3: 6},
    "aten::to": {1: 6},
    "aten::pow": {0: _POSITIVE},
    "aten::reshape": {1: _SIZES},
    "aten::rsqrt": {0: _POSITIVE},
    "aten::rsub": {2: 1},
    "aten::softmax": {1: -1},
    "aten::_softmax_backward_data": {2: -1, 3: 6},
    "aten::sqrt": {0: _POSITIVE},
    "aten::sub": {2: 1},
    "aten::sum_to_size": {1: _SIZES},
    "aten::view": {1: _SIZES},
    "aten::expand": {1: _SIZES},
}
"""Operator -> index of an argument -> a value for it, or the condition that it must
fit; 6 is torch.float32 (c10/core/ScalarType.h)."""
