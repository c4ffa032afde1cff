"""The operators ``te.ops`` of Transformer Engine: a frontend with a fuser of its
own, the operation fuser."""

from fusiondoc.fusers.frontend import Frontend

TE = Frontend(
    "te",
    "Transformer Engine",
    module="transformer_engine",
    fuser="te",
    fuser_title="the operation fuser of Transformer Engine",
    group_prefix="te.ops.",
    switched_by_package=True,
    recipes=("none", "delayed", "current", "block", "mxfp8", "nvfp4"),
)
