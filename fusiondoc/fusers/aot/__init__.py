"""AOTAutograd (``memory_efficient_fusion``) in front of TorchScript and its
fusers."""

from fusiondoc.fusers.frontend import Frontend

AOT = Frontend(
    "aot",
    "AOTAutograd",
    variants=("aot", "aot-default"),
)
