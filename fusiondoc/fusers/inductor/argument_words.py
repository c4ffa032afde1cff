"""Words that graphs after the post-grad passes give to operators as arguments."""

from __future__ import annotations

ARGUMENT_WORDS = frozenset(
    (
        # approximations, roundings and ways to reduce (schemas of ``aten``)
        *(
            "",
            "none",
            "floor",
            "trunc",
            "mean",
            "sum",
            "amax",
            "amin",
            "prod",
            "max",
        ),
        # operators behind a product (``mkldnn``)
        *(
            "relu",
            "gelu",
            "silu",
            "sigmoid",
            "tanh",
            "add",
            "mul",
            "hardtanh",
            "leaky_relu",
            "swish",
        ),
        # kinds of random numbers
        *("rand", "randn"),
        "linear",
    )
)
