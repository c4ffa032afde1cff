"""Operators that Inductor compiles to calls, written with others that it compiles
to loops.

An operator becomes a call by ``torch/_inductor/lowering.py`` (``make_fallback``,
and the cases in which a lowering gives up: scans, sorts and searches on a CPU,
complex numbers) or in the backward pass alone, where the forward one is a loop.
``tests/test_compositions.py`` computes each both ways, with gradients, and compares
it with the lowering by Inductor in the installed torch. The definitions come from
the documentation of torch, of ``torch/_decomp`` and of ``torch/_refs``.
"""

from __future__ import annotations

from fusiondoc.fusers.composition import Composition

_EMBEDDING_BAG = (
    "F.embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,"
    " mode='mean', sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None)"
)
_BAG_MODULE = (
    "torch.nn.EmbeddingBag(_num_embeddings, _embedding_dim, max_norm=None, norm_type=2.0,"
    " scale_grad_by_freq=False, mode='mean', sparse=False, _weight=None, include_last_offset=False,"
    " padding_idx=None)"
)
_BAG = "input=torch.tensor([[1, 4], [4, 4], [0, 2]]), weight=torch.randn(5, 8)"
_OF_BAGS = (
    "_embedding_bag _embedding_bag_forward_only _embedding_bag_backward"
    " _embedding_bag_per_sample_weights_backward _embedding_bag_dense_backward"
)

_PAIR_DISTANCES = """\
def pair_distances(x, p: float):
    first, second = torch.triu_indices(x.size(0), x.size(0), 1, device=x.device)
    return torch.linalg.vector_norm(x[first] - x[second], p, -1)
"""

_REPLICATED = """\
def replicated(x, pad):
    for number in range(len(pad) // 2):
        dim, before, after = -1 - number, list(x.shape), list(x.shape)
        before[dim], after[dim] = pad[2 * number], pad[2 * number + 1]
        first, last = x.narrow(dim, 0, 1).expand(before), x.narrow(dim, -1, 1).expand(after)
        x = torch.cat([first, x, last], dim)
    return x
"""

_PARTS_OF_PRODUCT = """\
def parts_of_product(x, y):
    x, sign = torch.view_as_real(x), 2 * torch.arange(2, device=x.device) - 1
    return x * y.real.unsqueeze(-1) + x.flip(-1) * (y.imag.unsqueeze(-1) * sign)
"""
"""The real part and the imaginary part by one formula, so in one kernel."""

_BLOCKS = (
    "input.unflatten(-1, {0})",
    "input.unflatten(-1, {1}).unflatten(-3, {0})",
    "input.unflatten(-1, {2}).unflatten(-3, {1}).unflatten(-5, {0})",
)
"""The last dimensions of ``input`` as pairs: the block, and the position in it."""

_MEAN_OF_BLOCKS = ("mean(-1)", "mean((-3, -1))", "mean((-5, -3, -1))")
_FIRST_MAXIMUM_OF_BLOCKS = (
    "max(-1).values",
    "movedim(-3, -2).flatten(-2).max(-1).values",
    "movedim((-5, -3), (-3, -2)).flatten(-3).max(-1).values",
)
"""Of equal elements the first one, as in pooling: it alone gets the gradient."""

_DIVIDES = "the size of the input is a multiple of that of the output"
_WHOLE = "the size of the input is a multiple of the kernel's"
_IMAGES = (
    "torch.randn(2, 3, 8)",
    "torch.randn(2, 3, 8, 6)",
    "torch.randn(2, 3, 4, 8, 6)",
)
_SIZES = ("4", "(4, 3)", "(2, 4, 3)")
_KERNELS = ("4", "(4, 3)", "(2, 4, 3)")


def _blocks(dimensions: int, form: str, name: str) -> str:
    return _BLOCKS[dimensions - 1].format(
        *(form.format(f"{name}_{n}") for n in range(dimensions))
    )


def _pooling(dimensions: int) -> tuple[Composition, ...]:
    """The poolings to a size, over this number of dimensions: each output is
    computed from a block."""
    given, size = f"{dimensions}d", _SIZES[dimensions - 1]
    image, of_size = (
        _IMAGES[dimensions - 1],
        _blocks(dimensions, "({0}, -1)", "output_size"),
    )
    mean, maximum = (
        _MEAN_OF_BLOCKS[dimensions - 1],
        _FIRST_MAXIMUM_OF_BLOCKS[dimensions - 1],
    )
    return (
        Composition(
            f"_adaptive_avg_pool{given} _adaptive_avg_pool{given}_backward"
            + " _adaptive_avg_pool2d _adaptive_avg_pool2d_backward"
            * (dimensions == 1),
            f"F.adaptive_avg_pool{given}(input, output_size)",
            f"{of_size}.{mean}",
            f"input={image}, output_size={size}",
            module=f"torch.nn.AdaptiveAvgPool{given}(output_size)",
            note=_DIVIDES,
        ),
        Composition(
            f"adaptive_max_pool{given} adaptive_max_pool{given}_backward"
            + " adaptive_max_pool2d adaptive_max_pool2d_backward"
            * (dimensions == 1),
            f"F.adaptive_max_pool{given}(input, output_size, return_indices=False)",
            f"{of_size}.{maximum}",
            f"input={image}, output_size={size}",
            module=f"torch.nn.AdaptiveMaxPool{given}(output_size, return_indices=False)",
            note=_DIVIDES,
            exact=True,
        ),
    )


def _max_pooling(dimensions: int) -> Composition:
    """A pooling whose windows are blocks: Inductor has no lowering of its gradient,
    and on a CPU its replacement adds by a call."""
    given = f"{dimensions}d"
    blocks = _blocks(dimensions, "(-1, {0})", "kernel_size")
    options = (
        "stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False"
    )
    in_module = (
        "stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False"
    )
    return Composition(
        f"max_pool{given}_with_indices max_pool{given}_with_indices_backward scatter_reduce_ scatter_add",
        f"F.max_pool{given}(input, kernel_size, {options})",
        f"{blocks}.{_FIRST_MAXIMUM_OF_BLOCKS[dimensions - 1]}",
        f"input={_IMAGES[dimensions - 1]}, kernel_size={_KERNELS[dimensions - 1]}",
        alike=("stride", "kernel_size"),
        module=f"torch.nn.MaxPool{given}(kernel_size, {in_module})",
        note=_WHOLE,
        exact=True,
    )


_SEARCH = "torch.searchsorted(sorted_sequence, input, out_int32=False, right=False, side=None, sorter=None)"
_VALUES = "input=torch.tensor([[-3.0, 0.5], [0.7, 9.0]])"
_SEARCHED = f"sorted_sequence=torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]), {_VALUES}"
_BUCKETS = "torch.bucketize(input, boundaries, out_int32=False, right=False)"
_BUCKETED = f"{_VALUES}, boundaries=torch.tensor([-1.0, 0.0, 0.5, 2.0])"
_EACH_WITH_EACH = (
    "each value is compared with all of the others: for few of these, and no NaN"
)
_COMPLEX = "torch.randn(4, 8, dtype=torch.complex64)"
_TWO_COMPLEX = f"x={_COMPLEX}, y={_COMPLEX}"

COMPOSITIONS: tuple[Composition, ...] = (
    Composition(
        "_cdist_forward _cdist_backward cdist",
        "torch.cdist(x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary')",
        "torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)",
        "x1=torch.randn(6, 8), x2=torch.randn(4, 8), p=1.0",
    ),
    Composition(
        "_pdist_forward _pdist_backward pdist",
        "F.pdist(input, p=2.0)",
        "pair_distances(input, p)",
        "input=torch.randn(6, 8)",
        helper=_PAIR_DISTANCES,
    ),
    Composition(
        "topk",
        "torch.topk(input, k, dim=-1, largest=True, sorted=True)",
        "torch.max(input, dim, True)",
        "input=torch.randn(4, 8), k=1, dim=0",
        only={"k": 1},
        exact=True,
    ),
    Composition(
        "topk",
        "torch.topk(input, k, dim=-1, largest=True, sorted=True)",
        "torch.min(input, dim, True)",
        "input=torch.randn(4, 8), k=1, largest=False",
        only={"k": 1, "largest": False},
        exact=True,
    ),
    *(
        Composition(
            _OF_BAGS,
            _EMBEDDING_BAG,
            f"F.embedding(input, weight).{reduced}",
            f"{_BAG}, mode='{mode}'",
            only={"mode": mode},
            module=_BAG_MODULE,
            parameters=("weight",),
        )
        for mode, reduced in (
            ("mean", "mean(-2)"),
            ("sum", "sum(-2)"),
            ("max", "max(-2).values"),
        )
    ),
    Composition(
        _OF_BAGS,
        _EMBEDDING_BAG,
        "(F.embedding(input, weight) * per_sample_weights.unsqueeze(-1)).sum(-2)",
        f"{_BAG}, per_sample_weights=torch.randn(3, 2), mode='sum'",
        only={"mode": "sum"},
    ),
    Composition(
        "addbmm",
        "torch.addbmm(input, batch1, batch2, beta=1, alpha=1)",
        "input + torch.bmm(batch1, batch2).sum(0)",
        "input=torch.randn(4, 5), batch1=torch.randn(3, 4, 6), batch2=torch.randn(3, 6, 5)",
    ),
    *(
        Composition(
            "_trilinear bilinear",
            "F.bilinear(input1, input2, weight, bias=None)",
            "(F.linear(input2, weight.flatten(0, 1)).unflatten(-1, weight.shape[:2])"
            f" * input1.unsqueeze(-2)).sum(-1){bias}",
            "input1=torch.randn(4, 5), input2=torch.randn(4, 6), weight=torch.randn(3, 5, 6)"
            + ", bias=torch.randn(3)" * bool(bias),
            module=f"torch.nn.Bilinear(_in1_features, _in2_features, _out_features, bias={bool(bias)})",
            parameters=("weight", "bias") if bias else ("weight",),
        )
        for bias in ("", " + bias")
    ),
    *(one for dimensions in (1, 2, 3) for one in _pooling(dimensions)),
    _max_pooling(2),
    _max_pooling(3),
    Composition(
        "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward",
        "F.pad(input, pad, mode='constant', value=None)",
        "replicated(input, pad)",
        "input=torch.randn(2, 3, 4, 5), pad=(1, 2, 2, 1), mode='replicate'",
        only={"mode": "replicate"},
        helper=_REPLICATED,
    ),
    *(
        Composition(
            "searchsorted",
            _SEARCH,
            f"(sorted_sequence.unsqueeze(-2) {sign} input.unsqueeze(-1)).sum(-1)",
            f"{_SEARCHED}, right={right}",
            only={"right": right},
            note=_EACH_WITH_EACH,
            exact=True,
        )
        for right, sign in ((False, "<"), (True, "<="))
    ),
    *(
        Composition(
            "bucketize",
            _BUCKETS,
            f"(boundaries {sign} input.unsqueeze(-1)).sum(-1)",
            f"{_BUCKETED}, right={right}",
            only={"right": right},
            note=_EACH_WITH_EACH,
            exact=True,
        )
        for right, sign in ((False, "<"), (True, "<="))
    ),
    Composition(
        "isin sort searchsorted",
        "torch.isin(elements, test_elements, assume_unique=False, invert=False)",
        "(elements.unsqueeze(-1) == test_elements.flatten()).any(-1)",
        "elements=torch.arange(24).reshape(4, 6), test_elements=torch.arange(7, 47)",
        note=_EACH_WITH_EACH,
        exact=True,
    ),
    # Complex numbers, of which Inductor generates no code: their parts
    Composition(
        "mul view_as_real",
        "torch.view_as_real(x * y)",
        "parts_of_product(x, y)",
        _TWO_COMPLEX,
        helper=_PARTS_OF_PRODUCT,
    ),
    Composition(
        "abs",
        "torch.abs(input)",
        "torch.linalg.vector_norm(torch.view_as_real(input), dim=-1)",
        f"input={_COMPLEX}",
    ),
    Composition(
        "polar",
        "torch.polar(abs, angle)",
        "torch.view_as_complex(torch.stack([abs * torch.cos(angle), abs * torch.sin(angle)], -1))",
        "abs=torch.rand(4, 8) + 1, angle=torch.randn(4, 8)",
    ),
    Composition(
        "complex",
        "torch.complex(real, imag)",
        "torch.view_as_complex(torch.stack([real, imag], -1))",
        "real=torch.randn(4, 8), imag=torch.randn(4, 8)",
        exact=True,
    ),
)


def compositions_of(op: str) -> tuple[Composition, ...]:
    """The compositions for an operator that is a call, as a report names it:
    ``aten::topk``."""
    return tuple(one for one in COMPOSITIONS if op in one.replaces)
