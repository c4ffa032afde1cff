"""What each fuser must be told to log so that a report can be made."""

from __future__ import annotations

LOG_LEVELS = {
    "nvfuser": "profiling_graph_executor_impl:>partition:graph_fuser:>>kernel_cache:manager",
    "nnc": "profiling_graph_executor_impl:>>tensorexpr_fuser",
    # graph_helper says which operators oneDNN Graph does not take ("Making aten::tanh a wildcard").
    "onednn": "profiling_graph_executor_impl:>>graph_helper",
    # The legacy executor's plans are in graph_executor ("After compileSpec optimizations:").
    "legacy": "profiling_graph_executor_impl:graph_executor",
    "none": "profiling_graph_executor_impl",
}
"""Fuser -> value of PYTORCH_JIT_LOG_LEVEL. With less a fuser says nothing; with more the log grows and tells
no more."""

DUMPS = ("cuda_kernel", "launch_param", "dump_eff_bandwidth", "ptxas_verbose")
"""Options of PYTORCH_NVFUSER_DUMP that the kernel table of a report is made of."""
