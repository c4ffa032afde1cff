"""NNC's knobs, environment variables and dumps.

Facts from the functions of ``torch._C`` and the names that the release wheels
1.11.0 to 2.1.2 and 2.13.0 read, tried live on 1.12.1 and 2.13.0; meanings from the
C++ file that each ``source`` names.
"""

from __future__ import annotations

from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.knob_rows import (
    FuserCatalogue,
    FuserDump,
    Knob,
    Variable,
    knob,
    span,
    variables,
)
from fusiondoc.fusers.nnc.takes import REDUCTIONS

_PASS = "torch/csrc/jit/passes/tensorexpr_fuser.cpp"
_DONT_FUSE = "PYTORCH_TENSOREXPR_DONT_FUSE"
_KERNEL = "torch/csrc/jit/tensorexpr/kernel.cpp"
_EXECUTOR = "torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp"
_FUSER_INTERFACE = "torch/csrc/jit/codegen/fuser/interface.cpp"

KNOBS: tuple[Knob, ...] = (
    knob(
        "nnc",
        "nnc",
        "_jit_set_texpr_fuser_enabled _jit_texpr_fuser_enabled",
        kind="switch",
        default="on",
        does="Fuses operators with NNC, the tensor-expression compiler.",
        effect="prim::TensorExprGroup nodes appear, if the device may be fused too (fuse_on_cpu, "
        "fuse_on_gpu). PYTORCH_TENSOREXPR=0 overrides it.",
        source=_PASS,
    ),
    knob(
        "nnc_dynamic_shapes",
        "nnc",
        "_jit_set_texpr_dynamic_shape_enabled _jit_texpr_dynamic_shape_enabled",
        kind="switch",
        default="off",
        does="Makes NNC groups for any size of the dimensions instead of the profiled ones.",
        effect="Guards turn from prim::TypeCheck into prim::TensorExprDynamicGuard; the DYNAMIC steps of "
        "fusion_strategy do the same.",
        source=_PASS,
    ),
    knob(
        "nnc_reductions",
        "nnc",
        "_jit_set_texpr_reductions_enabled _jit_texpr_reductions_enabled",
        kind="switch",
        default="off",
        does=f"Lets NNC fuse reductions: {', '.join(sorted(REDUCTIONS))}.",
        effect="Without it they end a group as 'tensorexpr::isSupported(node)' (measured on 1.12.1 and "
        "2.13).",
        source=_PASS,
    ),
    knob(
        "nnc_fallback",
        "nnc",
        "_jit_texpr_set_fallback_allowed _jit_texpr_fallback_allowed",
        kind="switch",
        default="off",
        does="Runs the unfused operators when NNC cannot compile a group, instead of raising an error.",
        effect="Turns a RuntimeError into a slow but right result.",
        source=_KERNEL,
    ),
    knob(
        "nnc_must_use_llvm",
        "nnc",
        "_jit_set_te_must_use_llvm_cpu _jit_get_te_must_use_llvm_cpu",
        kind="switch",
        default="on",
        does="Lets NNC fuse on the CPU only where torch was built with LLVM.",
        effect="Off, together with fuse_on_cpu, shows CPU groups on a build without LLVM: what fuses is "
        "true, the speed means nothing.",
        source=_KERNEL,
    ),
    knob(
        "nnc_block_code",
        "nnc",
        "_jit_set_te_generate_block_code _jit_get_te_generate_block_code",
        kind="switch",
        default="off",
        does="Makes NNC write code for the Block accelerator, where only aten::add and aten::mul fuse.",
        effect="Leave it off: no CPU or GPU runs that code.",
        source=_KERNEL,
    ),
    knob(
        "nnc_cuda_loop_levels",
        "nnc",
        "_jit_set_te_cuda_pointwise_loop_levels _jit_get_te_cuda_pointwise_loop_levels",
        kind="integer",
        default="-1",
        does="Number of loop levels of NNC's CUDA kernels: 2 or 3; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_KERNEL,
    ),
    knob(
        "nnc_cuda_block_count",
        "nnc",
        "_jit_set_te_cuda_pointwise_block_count _jit_get_te_cuda_pointwise_block_count",
        kind="integer",
        default="-1",
        does="Number of blocks that NNC's CUDA kernels launch; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_KERNEL,
    ),
    knob(
        "nnc_cuda_block_size",
        "nnc",
        "_jit_set_te_cuda_pointwise_block_size _jit_get_te_cuda_pointwise_block_size",
        kind="integer",
        default="-1",
        does="Threads in a block of NNC's CUDA kernels; -1 lets NNC choose.",
        effect="Changes launch shape and speed, never what is fused.",
        source=_KERNEL,
    ),
    knob(
        "fuse_on_cpu",
        "nnc",
        "_jit_override_can_fuse_on_cpu _jit_can_fuse_on_cpu",
        kind="switch",
        default="on where torch was built with LLVM, else off",
        does="Lets NNC fuse operators on the CPU.",
        effect="Off rejects CPU nodes as 'isFusableOnDevice(node)'.",
        source=_FUSER_INTERFACE,
    ),
    knob(
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
    knob(
        "fusion_group_inlining",
        "nnc",
        "_debug_set_fusion_group_inlining _debug_get_fusion_group_inlining",
        kind="switch",
        default="on",
        does="Takes NNC groups of fewer than two operators back.",
        effect="Off keeps groups of one: shows which operators NNC can take at all.",
        source=_EXECUTOR,
    ),
)

VARIABLES: tuple[Variable, ...] = (
    *variables(
        "1.11-2.13",
        (
            "PYTORCH_TENSOREXPR",
            "0 or 1",
            "",
            "0 turns NNC off; any other value turns it on; overrides the knob nnc.",
            "torch/csrc/jit/passes/tensorexpr_fuser.cpp",
        ),
        (
            _DONT_FUSE,
            "clamp:mul:add",
            "",
            "Operators that NNC leaves out, without 'aten::'.",
            "torch/csrc/jit/passes/tensorexpr_fuser.cpp",
        ),
        (
            "PYTORCH_TENSOREXPR_FALLBACK",
            "0, 1 or 2",
            "0",
            "1 lets NNC fall back to unfused operators, 2 forces it to.",
            _KERNEL,
        ),
        (
            "PYTORCH_TENSOREXPR_RANDOM_TRANSFORM_SEED",
            "a number",
            "",
            "Lets NNC change loops at random; for testing NNC itself.",
            _KERNEL,
        ),
    ),
    *variables(
        "1.11-2.0",
        (
            "PYTORCH_TENSOREXPR_DONT_USE_LLVM",
            "0 or 1",
            "0",
            "1 keeps NNC from using LLVM on the CPU; read only by builds with LLVM.",
            _KERNEL,
        ),
    ),
)

_JIT_LOG = "PYTORCH_JIT_LOG_LEVEL"

DUMPS: tuple[FuserDump, ...] = (
    FuserDump(
        "nnc_ir",
        "nnc",
        "The loop nest of each NNC kernel as it is compiled or, without LLVM, evaluated.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, ">>kernel"),),
    ),
    FuserDump(
        "nnc_stages",
        "nnc",
        "The loop nest of each NNC kernel at every stage: original, simplified, inlined, final.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, ">>kernel"),),
    ),
    FuserDump(
        "nnc_cuda",
        "nnc",
        "The CUDA code of each NNC kernel; on a GPU only.",
        (span("1.11-2.13"),),
        ((_JIT_LOG, "kernel:>>cuda_codegen"),),
    ),
)

SWITCHES = FuserSwitches(
    log_level="profiling_graph_executor_impl:>>tensorexpr_fuser",
    plan_log="profiling_graph_executor_impl:>>tensorexpr_fuser",
    refusal_log=">>tensorexpr_fuser",
    off_by_variable=(
        "PYTORCH_TENSOREXPR",
        "0",
    ),  # read before any switch (passes/tensorexpr_fuser.cpp)
    off_by_call="torch._C._jit_set_texpr_fuser_enabled(False)",
    variable_to_leave_out=_DONT_FUSE,
    device_knobs={
        "cpu": {"fuse_on_cpu": "on", "nnc_must_use_llvm": "off"},
        "cuda": {"fuse_on_gpu": "on"},
    },
)

CATALOGUE = FuserCatalogue(
    variable_families=("PYTORCH_TENSOREXPR",),
    knobs=KNOBS,
    variables=VARIABLES,
    dumps=DUMPS,
    usual_dumps=("nnc_ir",),
    log_files={
        "tensorexpr_fuser": "Graphs around NNC's pass; at >> which operators it rejects, and why.",
        "kernel": "Tensor expressions of each NNC kernel.",
        "cuda_codegen": "CUDA code of each NNC kernel.",
        "llvm_codegen": "LLVM and assembly code of each NNC kernel.",
    },
    own_log_files=(("1.11-2.13", 0, "tensorexpr_fuser"),),
)
