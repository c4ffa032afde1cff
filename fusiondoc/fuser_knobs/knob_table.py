"""Every knob: what it is called in torch, what it does and in which versions it does it.

Facts from the functions of ``torch._C`` in the release wheels 1.11.0 to 2.1.2 and 2.13.0, tried live on
1.12.1 and 2.13.0; meanings from the C++ file that each ``source`` names.
"""

from __future__ import annotations

from fusiondoc.fuser_knobs import Knob, Span, span

_ALL = span("1.11-2.13")
_FROM_12 = span("1.12-2.13")
_NVFUSER = span("1.11-2.1")
_NVFUSER_12 = span("1.12-2.1")

_INTERFACE = "torch/csrc/jit/codegen/cuda/interface.cpp"
_NNC_PASS = "torch/csrc/jit/passes/tensorexpr_fuser.cpp"
_NNC_KERNEL = "torch/csrc/jit/tensorexpr/kernel.cpp"
_EXECUTOR = "torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp"
_FUSER_INTERFACE = "torch/csrc/jit/codegen/fuser/interface.cpp"


def _knob(
    name: str,
    fuser: str,
    functions: str,
    kind: str,
    default: str,
    does: str,
    effect: str,
    source: str,
    live: Span = _ALL,
    exists: Span | None = None,
) -> Knob:
    setter, _, getter = functions.partition(" ")
    return Knob(
        name, fuser, setter, getter or None, kind, default, does, effect, (live,), (exists or live,), source
    )


KNOBS: tuple[Knob, ...] = (
    _knob(
        "nvfuser",
        "nvfuser",
        "_jit_set_nvfuser_enabled _jit_nvfuser_enabled",
        kind="switch",
        default="on with CUDA in 1.12 to 2.0; off in 1.11 and 2.1",
        does="Fuses operators on the GPU into CUDA kernels with nvFuser.",
        effect="prim::CudaFusionGroup nodes appear. Without a GPU, 1.12 to 2.1 raise an error; from 2.2 "
        "on the call is a no-op that warns on stderr and returns None.",
        source=_INTERFACE,
        live=_NVFUSER,
        exists=_ALL,
    ),
    _knob(
        "single_node",
        "nvfuser",
        "_jit_set_nvfuser_single_node_mode _jit_nvfuser_single_node_mode",
        kind="switch",
        default="off",
        does="Lets a single operator be a fusion group of its own.",
        effect="More and smaller groups: shows which operators nvFuser can take at all, though a group "
        "of one saves no memory traffic.",
        source="torch/csrc/jit/codegen/cuda/graph_fuser.cpp",
        live=_NVFUSER,
        exists=_ALL,
    ),
    _knob(
        "horizontal",
        "nvfuser",
        "_jit_set_nvfuser_horizontal_mode _jit_nvfuser_horizontal_mode",
        kind="switch",
        default="on",
        does="Merges groups that share an input but do not feed each other.",
        effect="Off gives more groups; try it when one group got too large or slow.",
        source="torch/csrc/jit/codegen/cuda/graph_fuser.cpp",
        live=_NVFUSER,
        exists=_ALL,
    ),
    _knob(
        "guard",
        "nvfuser",
        "_jit_set_nvfuser_guard_mode",
        kind="switch",
        default="on",
        does="Checks types and shapes before each run of a group.",
        effect="Off removes prim::CudaFusionGuard and every fallback with it. Unsafe: another shape then "
        "gives wrong results. Only for timing.",
        source="torch/csrc/jit/codegen/cuda/graph_fuser.cpp",
        live=_NVFUSER,
        exists=_ALL,
    ),
    _knob(
        "skip_node_kind",
        "nvfuser",
        "_jit_set_nvfuser_skip_node_kind",
        kind="operators",
        default="none",
        does="Keeps the named operators out of fusion groups.",
        effect="The log rejects them as 'node not parsible'. Good for finding the operator that makes a "
        "group slow or wrong.",
        source="torch/csrc/jit/codegen/cuda/parser.cpp",
        live=_NVFUSER_12,
        exists=_FROM_12,
    ),
    _knob(
        "comparison_callback",
        "nvfuser",
        "_jit_nvfuser_set_comparison_callback",
        kind="function",
        default="none",
        does="Calls a Python function with fused and unfused results of every group run.",
        effect="Takes (run_fallback, function(fused, unfused, graph)), so a program has to set it; "
        "fusiondoc only says whether it exists.",
        source="torch/csrc/jit/codegen/cuda/manager.cpp",
        live=_NVFUSER_12,
        exists=_FROM_12,
    ),
    _knob(
        "nnc",
        "nnc",
        "_jit_set_texpr_fuser_enabled _jit_texpr_fuser_enabled",
        kind="switch",
        default="on",
        does="Fuses operators with NNC, the tensor-expression compiler.",
        effect="prim::TensorExprGroup nodes appear, if the device may be fused too (fuse_on_cpu, "
        "fuse_on_gpu). PYTORCH_TENSOREXPR=0 overrides it.",
        source=_NNC_PASS,
    ),
    _knob(
        "nnc_dynamic_shapes",
        "nnc",
        "_jit_set_texpr_dynamic_shape_enabled _jit_texpr_dynamic_shape_enabled",
        kind="switch",
        default="off",
        does="Makes NNC groups for any size of the dimensions instead of the profiled ones.",
        effect="Guards turn from prim::TypeCheck into prim::TensorExprDynamicGuard; the DYNAMIC steps of "
        "fusion_strategy do the same.",
        source=_NNC_PASS,
    ),
    _knob(
        "nnc_reductions",
        "nnc",
        "_jit_set_texpr_reductions_enabled _jit_texpr_reductions_enabled",
        kind="switch",
        default="off",
        does="Lets NNC fuse aten::sum, aten::softmax and aten::log_softmax.",
        effect="Without it they end a group as 'tensorexpr::isSupported(node)' (measured on 1.12.1 and "
        "2.13).",
        source=_NNC_PASS,
    ),
    _knob(
        "nnc_fallback",
        "nnc",
        "_jit_texpr_set_fallback_allowed _jit_texpr_fallback_allowed",
        kind="switch",
        default="off",
        does="Runs the unfused operators when NNC cannot compile a group, instead of raising an error.",
        effect="Turns a RuntimeError into a slow but right result.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "nnc_must_use_llvm",
        "nnc",
        "_jit_set_te_must_use_llvm_cpu _jit_get_te_must_use_llvm_cpu",
        kind="switch",
        default="on",
        does="Lets NNC fuse on the CPU only where torch was built with LLVM.",
        effect="Off, together with fuse_on_cpu, shows CPU groups on a build without LLVM: what fuses is "
        "true, the speed says nothing.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "nnc_block_code",
        "nnc",
        "_jit_set_te_generate_block_code _jit_get_te_generate_block_code",
        kind="switch",
        default="off",
        does="Makes NNC write code for the Block accelerator, where only aten::add and aten::mul fuse.",
        effect="Leave it off: no CPU or GPU runs that code.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "nnc_cuda_loop_levels",
        "nnc",
        "_jit_set_te_cuda_pointwise_loop_levels _jit_get_te_cuda_pointwise_loop_levels",
        kind="integer",
        default="-1",
        does="Number of loop levels of NNC's CUDA kernels: 2 or 3; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "nnc_cuda_block_count",
        "nnc",
        "_jit_set_te_cuda_pointwise_block_count _jit_get_te_cuda_pointwise_block_count",
        kind="integer",
        default="-1",
        does="Number of blocks that NNC's CUDA kernels launch; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "nnc_cuda_block_size",
        "nnc",
        "_jit_set_te_cuda_pointwise_block_size _jit_get_te_cuda_pointwise_block_size",
        kind="integer",
        default="-1",
        does="Threads in a block of NNC's CUDA kernels; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_NNC_KERNEL,
    ),
    _knob(
        "onednn",
        "onednn",
        "_jit_set_llga_enabled _jit_llga_enabled",
        kind="switch",
        default="off",
        does="Fuses operators on the CPU with oneDNN Graph.",
        effect="prim::oneDNNFusionGroup nodes appear. Made for traced, frozen modules; the public name is "
        "torch.jit.enable_onednn_fusion.",
        source="torch/csrc/jit/codegen/onednn/interface.cpp",
        live=_FROM_12,
    ),
    _knob(
        "fuse_on_cpu",
        "nnc",
        "_jit_override_can_fuse_on_cpu _jit_can_fuse_on_cpu",
        kind="switch",
        default="on where torch was built with LLVM, else off",
        does="Lets NNC fuse operators on the CPU.",
        effect="Off rejects CPU nodes as 'isFusableOnDevice(node)'.",
        source=_FUSER_INTERFACE,
    ),
    _knob(
        "fuse_on_gpu",
        "nnc",
        "_jit_override_can_fuse_on_gpu _jit_can_fuse_on_gpu",
        kind="switch",
        default="on with CUDA, else off",
        does="Lets NNC and the legacy fuser fuse operators on the GPU.",
        effect="Off rejects GPU nodes as 'isFusableOnDevice(node)'. In a build without CUDA it stays off "
        "(measured on 2.13). nvFuser does not ask it.",
        source=_FUSER_INTERFACE,
    ),
    _knob(
        "fuse_on_cpu_legacy",
        "legacy",
        "_jit_override_can_fuse_on_cpu_legacy _jit_can_fuse_on_cpu_legacy",
        kind="switch",
        default="off",
        does="Lets the legacy fuser fuse operators on the CPU.",
        effect="prim::FusionGroup nodes appear, under the legacy executor only (profiling_executor off).",
        source=_FUSER_INTERFACE,
    ),
    _knob(
        "fusion_group_inlining",
        "nnc",
        "_debug_set_fusion_group_inlining _debug_get_fusion_group_inlining",
        kind="switch",
        default="on",
        does="Takes NNC groups of fewer than two operators back.",
        effect="Off keeps groups of one: shows which operators NNC can take at all.",
        source=_EXECUTOR,
    ),
    _knob(
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
    _knob(
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
    _knob(
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
    _knob(
        "bailout_depth",
        "executor",
        "_jit_set_bailout_depth",
        kind="count",
        default="12",
        does="The older form of fusion_strategy: N stands for STATIC:N.",
        effect="Deprecated: torch warns, and the strategy is replaced. Use fusion_strategy.",
        source="torch/csrc/jit/python/init.cpp",
    ),
    _knob(
        "profiling_executor",
        "executor",
        "_jit_set_profiling_executor",
        kind="switch",
        default="on",
        does="Uses the executor that profiles first, which nvFuser and NNC need.",
        effect="Off brings the legacy executor back: nvFuser and NNC then fuse nothing.",
        source="torch/csrc/jit/runtime/graph_executor.cpp",
    ),
    _knob(
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
    _knob(
        "graph_optimize",
        "executor",
        "_set_graph_executor_optimize _get_graph_executor_optimize",
        kind="switch",
        default="on",
        does="Lets the executor optimise graphs at all.",
        effect="Off, no pass and no fuser runs. The public name is torch.jit.optimized_execution.",
        source="torch/csrc/jit/runtime/graph_executor.cpp",
    ),
    _knob(
        "log_level",
        "log",
        "_jit_set_logging_option _jit_get_logging_option",
        kind="text",
        default="empty (nothing is printed)",
        does="Which files of torch write to the JIT log; the same as PYTORCH_JIT_LOG_LEVEL, at run time.",
        effect="fusiondoc sets the variable itself and merges yours into it.",
        source="torch/csrc/jit/jit_log.cpp",
    ),
    _knob(
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
