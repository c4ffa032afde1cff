"""The legacy fuser of TorchScript: the operators that it takes. Its logs are read;
nothing new is added.

Source: torch/csrc/jit/passes/graph_fuser.cpp, compared with the pass itself, run on
one graph for each operator, on 1.12.1 (CPU and CUDA) and 2.13.0 (CPU).
"""

from __future__ import annotations

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.knob_rows import FuserCatalogue, knob, variables
from fusiondoc.fusers.taken_operators import TakenOperators

_NAMES = """
abs acos add addcmul asin atan atan2 _cast_Float cat ceil clamp cos cosh div eq erf erfc exp expm1 floor
fmod frac ge gt le lerp lgamma log log10 log1p log2 logit lt max min mul ne neg pow rand_like reciprocal
relu remainder round rsqrt sigmoid sin sinh sqrt sub tan tanh threshold trunc type_as where
prim::ConstantChunk prim::FusedConcat
"""

TAKES = frozenset(
    name if "::" in name else f"aten::{name}" for name in _NAMES.split()
)
"""Operators as printed."""

_INTERFACE = "torch/csrc/jit/codegen/fuser/interface.cpp"

KNOBS = (
    knob(
        "fuse_on_cpu_legacy",
        "legacy",
        "_jit_override_can_fuse_on_cpu_legacy _jit_can_fuse_on_cpu_legacy",
        kind="switch",
        default="off",
        does="Lets the legacy fuser fuse operators on the CPU.",
        effect="prim::FusionGroup nodes appear, under the legacy executor only (profiling_executor off).",
        source=_INTERFACE,
    ),
)

VARIABLES = (
    *variables(
        "1.11-2.13",
        (
            "PYTORCH_FUSION_DEBUG",
            "0 or 1",
            "0",
            "Prints the kernels of the legacy fuser.",
            "torch/csrc/jit/codegen/fuser/interface.cpp",
        ),
    ),
)

LEGACY = Fuser(
    "legacy",
    "the legacy fuser",
    ("FusionGroup",),
    heading="Legacy fuser",
    can_be_requested=False,
    instead=("nnc",),
    operators=TakenOperators(
        takes=TAKES,
    ),
    switches=FuserSwitches(
        # The plans of the legacy executor are in graph_executor ("After compileSpec
        # optimizations:").
        log_level="profiling_graph_executor_impl:graph_executor",
    ),
    catalogue=FuserCatalogue(
        knobs=KNOBS,
        variables=VARIABLES,
    ),
)
