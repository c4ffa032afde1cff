"""nvFuser: compiles groups for NVIDIA GPUs in TorchScript of torch 1.12 to 2.1."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.nvfuser import errors, knobs, log, takes, words

NVFUSER = Fuser(
    "nvfuser",
    "nvFuser",
    ("CudaFusionGroup",),
    by_default=True,
    instead=("nnc",),
    operators=takes.OPERATORS,
    limits=takes.LIMITS,
    log=log.LOG,
    errors=errors.ERRORS,
    switches=knobs.SWITCHES,
    catalogue=knobs.CATALOGUE,
    words=words.WORDS,
)
