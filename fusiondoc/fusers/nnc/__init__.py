"""NNC, the tensor-expression fuser: compiles groups for the CPU and the GPU in
TorchScript."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.nnc import errors, knobs, log, takes

NNC = Fuser(
    "nnc",
    "NNC",
    ("TensorExprGroup",),
    old_nodes=(
        "tensorexpr::Group",
    ),  # before torch 1.7 (passes/tensorexpr_fuser.cpp of 1.6)
    by_default=True,
    instead=("nvfuser", "onednn"),
    operators=takes.OPERATORS,
    limits=takes.LIMITS,
    log=log.LOG,
    errors=errors.ERRORS,
    switches=knobs.SWITCHES,
    catalogue=knobs.CATALOGUE,
    words=log.WORDS,
)
