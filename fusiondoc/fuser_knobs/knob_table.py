"""Every knob: its name in torch, its effect and the versions that have it. Knobs of
one fuser are in the fuser's folder; this file has those of executors and logs.

Facts from the functions of ``torch._C`` in the release wheels 1.11.0 to 2.1.2 and
2.13.0, tried live on 1.12.1 and 2.13.0; effects from the C++ file that each
``source`` names.
"""

from __future__ import annotations

from fusiondoc.fusers import FUSERS, titles
from fusiondoc.fusers.knob_rows import Knob, knob

_EXECUTOR = "torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp"
_FUSER_INTERFACE = "torch/csrc/jit/codegen/fuser/interface.cpp"

_PROFILED = titles(lambda fuser: fuser.by_default)

KNOBS: tuple[Knob, ...] = (
    *(row for fuser in FUSERS.values() for row in fuser.catalogue.knobs),
    knob(
        "autodiff_inlining",
        "executor",
        "_debug_set_autodiff_subgraph_inlining",
        kind="switch",
        default="on",
        does="Puts gradient graphs that are too small back into the graph around them.",
        effect="What went back is not fused when a gradient is needed. Off shows it as "
        "prim::DifferentiableGraph, of one operator even (measured on 1.12.1 and 2.13).",
        source=_EXECUTOR,
    ),
    knob(
        "profiled_runs",
        "executor",
        "_jit_set_num_profiled_runs _jit_get_num_profiled_runs",
        kind="count",
        default="1",
        does="Runs that only record types and shapes before the graph is optimised.",
        effect="Fusion starts in the run after them. With 0 nothing is known of the shapes and nothing "
        "fuses (measured on 1.12.1 and 2.13).",
        source="torch/csrc/jit/runtime/profiling_record.cpp",
    ),
    knob(
        "fusion_strategy",
        "executor",
        "_jit_set_fusion_strategy",
        kind="strategy",
        default="STATIC:2,DYNAMIC:10",
        does="How many times a function is specialised for new input types, and how.",
        effect="STATIC makes groups for exact shapes, DYNAMIC for ranks; after the last one the unfused "
        "copy runs. The public name is torch.jit.set_fusion_strategy.",
        source=_EXECUTOR,
    ),
    knob(
        "bailout_depth",
        "executor",
        "_jit_set_bailout_depth",
        kind="count",
        default="12",
        does="The older form of fusion_strategy: N stands for STATIC:N.",
        effect="Deprecated: torch warns, and the strategy is replaced. Use fusion_strategy.",
        source="torch/csrc/jit/python/init.cpp",
    ),
    knob(
        "profiling_executor",
        "executor",
        "_jit_set_profiling_executor",
        kind="switch",
        default="on",
        does=f"Uses the executor that profiles first, which {_PROFILED} need.",
        effect=f"Off brings the legacy executor back: {_PROFILED} then fuse nothing.",
        source="torch/csrc/jit/runtime/graph_executor.cpp",
    ),
    knob(
        "profiling_mode",
        "executor",
        "_jit_set_profiling_mode",
        kind="switch",
        default="on",
        does="Lets the profiling executor profile; off, it optimises without types.",
        effect="Off, no shapes are known and nothing fuses. Independent of graph_optimize: "
        "each keeps its value when the other changes (measured on 1.12.1 and 2.13).",
        source="torch/csrc/jit/runtime/graph_executor.cpp",
    ),
    knob(
        "graph_optimize",
        "executor",
        "_set_graph_executor_optimize _get_graph_executor_optimize",
        kind="switch",
        default="on",
        does="Lets the executor optimise graphs at all.",
        effect="Off, no pass and no fuser runs. The public name is torch.jit.optimized_execution.",
        source="torch/csrc/jit/runtime/graph_executor.cpp",
    ),
    knob(
        "log_level",
        "log",
        "_jit_set_logging_option _jit_get_logging_option",
        kind="text",
        default="empty (nothing is printed)",
        does="Which files of torch write to the JIT log; the same as PYTORCH_JIT_LOG_LEVEL, at run time.",
        effect="fusiondoc sets the variable itself and merges yours into it.",
        source="torch/csrc/jit/jit_log.cpp",
    ),
    knob(
        "log_stream",
        "log",
        "_jit_set_logging_stream",
        kind="stream",
        default="stderr",
        does="Where the JIT log goes: stdout or stderr.",
        effect="fusiondoc reads both from one pipe, so it need not be set.",
        source="torch/csrc/jit/jit_log.cpp",
    ),
)
