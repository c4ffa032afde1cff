"""Inductor's environment variables: those that change fusion or output, and those
of a run of fusiondoc."""

from __future__ import annotations

from fusiondoc.fusers.inductor.kinds import NAME
from fusiondoc.fusers.knob_rows import FuserDump, Variable, span, variables

ARTIFACTS = ("+fusion", "output_code", "graph_breaks", "recompiles", "perf_hints")
"""Entries of TORCH_LOGS in a run of fusiondoc: torch 2.6, 2.11 and 2.13 know all of
them (torch/_logging)."""

LOGS = "TORCH_LOGS"
TRACE = "TORCH_TRACE"

DUMPS: tuple[FuserDump, ...] = (
    FuserDump(
        "triton",
        NAME,
        "The Triton code of each kernel; on a GPU only.",
        (span("2.6-2.13"),),
        ((LOGS, "output_code"),),
    ),
    FuserDump(
        "cpp",
        NAME,
        "The C++ code of each kernel; on a CPU only.",
        (span("2.6-2.13"),),
        ((LOGS, "output_code"),),
    ),
    FuserDump(
        "output_code",
        NAME,
        "The whole module that Inductor generated for a graph, at its first kernel.",
        (span("2.6-2.13"),),
        ((LOGS, "output_code"),),
    ),
    FuserDump(
        "ir_post_fusion",
        NAME,
        "The loop IR of a graph after fusion, at its first kernel.",
        (span("2.11-2.13"),),
        ((LOGS, "ir_post_fusion"),),
    ),
)

PROFILE = {"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
"""Makes each C++ function record its runs; without it a profile shows none of
them."""

OFF = ("TORCHDYNAMO_DISABLE", "1")
"""With this, functions passed to torch.compile run as Python."""

OWN = {
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # from a cache nothing is lowered, and nothing is seen
    "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no worker processes: errors are of this process
}
"""Further variables of a run of fusiondoc."""

_LOGGING, _CONFIG = "torch/_logging/_internal.py", "torch/_inductor/config.py"

VARIABLES: tuple[Variable, ...] = variables(
    "2.6-2.13",
    (
        LOGS,
        "NAME,+NAME,-NAME",
        "",
        "What torch.compile logs: fusion, output_code and others.",
        _LOGGING,
    ),
    (
        TRACE,
        "a folder",
        "",
        "Where torch.compile writes its structured trace.",
        _LOGGING,
    ),
    (
        "TORCH_COMPILE_DEBUG",
        "0 or 1",
        "0",
        "Writes a folder with the graphs and code of Inductor.",
        "torch/_inductor",
    ),
    (
        "INDUCTOR_PROVENANCE",
        "0 or 1",
        "0",
        "Ties kernels to operators of the graph.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
        "0 or 1",
        "0",
        "1: every graph is compiled, none is taken from a cache.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_FX_GRAPH_CACHE",
        "0 or 1",
        "1",
        "Whether compiled graphs are taken from a cache.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_COMPILE_THREADS",
        "a number",
        "32 at most",
        "How many processes compile kernels.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_MAX_AUTOTUNE",
        "0 or 1",
        "0",
        "Tries templates for products of matrices and convolutions; they can take in what follows.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_FREEZING",
        "0 or 1",
        "0",
        "Makes constants of the weights of a model in eval mode.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_BENCHMARK_FUSION",
        "0 or 1",
        "0",
        "Times both before two nodes are fused.",
        _CONFIG,
    ),
    (
        "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE",
        "0 or 1",
        "0",
        "1: torch's profiler shows each C++ function.",
        _CONFIG,
    ),
    (
        OFF[0],
        "0 or 1",
        "0",
        "1: torch.compile does nothing.",
        "torch/_dynamo/eval_frame.py",
    ),
)
