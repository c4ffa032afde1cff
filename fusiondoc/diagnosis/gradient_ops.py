"""Operators with a gradient formula of TorchScript: those a prim::DifferentiableGraph can hold.

Where gradients are recorded, the fusion passes look only into differentiable graphs, so an operator without
a formula is fused by nobody and cuts the region that it stands in. Formulas are those of
torch/csrc/jit/runtime/symbolic_script.cpp and torch/csrc/jit/runtime/autodiff.cpp (isDifferentiable); the
list is what the pass that makes the regions takes on torch 1.12.1, 2.1.2 and 2.13.0, tried on a graph an
operator, and what differentiable graphs of 1.12.1 to 2.1.2 were seen to hold. aten::silu has a formula in
2.1.2 and 2.13.0, and none in 1.12.1.
"""

from __future__ import annotations

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
