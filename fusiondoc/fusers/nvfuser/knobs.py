"""nvFuser's knobs, environment variables and options of dumps.

Facts from the functions of ``torch._C`` and the names that the release wheels
1.11.0 to 2.1.2 and 2.13.0 read, tried live on 1.12.1 and 2.13.0; meanings from the
C++ file that each ``source`` names. Variables of the package that stands alone are
from NVIDIA/Fuser at 81c4b22. An option is listed for a version if the parser of its
libtorch_cuda, libtorch_cuda_cu or libnvfuser_codegen holds it; those of 2.1.2 were
also run on a GPU.
"""

from __future__ import annotations

from fusiondoc.fusers.fuser_switches import FallbackOff, FuserSwitches
from fusiondoc.fusers.knob_rows import (
    ALL,
    FROM_12,
    FuserCatalogue,
    Knob,
    Option,
    Variable,
    knob,
    of_package,
    options,
    span,
    variables,
    words,
)

_NVFUSER = span("1.11-2.1")
_NVFUSER_12 = span("1.12-2.1")

_INTERFACE = "torch/csrc/jit/codegen/cuda/interface.cpp"
_FOLDER = "torch/csrc/jit/codegen/cuda"

KNOBS: tuple[Knob, ...] = (
    knob(
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
        exists=ALL,
    ),
    knob(
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
        exists=ALL,
    ),
    knob(
        "horizontal",
        "nvfuser",
        "_jit_set_nvfuser_horizontal_mode _jit_nvfuser_horizontal_mode",
        kind="switch",
        default="on",
        does="Merges groups that share an input but do not feed each other.",
        effect="Off gives more groups; try it when one group got too large or slow.",
        source="torch/csrc/jit/codegen/cuda/graph_fuser.cpp",
        live=_NVFUSER,
        exists=ALL,
    ),
    knob(
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
        exists=ALL,
    ),
    knob(
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
        exists=FROM_12,
    ),
    knob(
        "comparison_callback",
        "nvfuser",
        "_jit_nvfuser_set_comparison_callback",
        kind="function",
        default="none",
        does="Calls a Python function with fused and unfused results of every group run.",
        effect="Takes (run_fallback, function(fused, unfused, graph)), so a program has to set it; "
        "fusiondoc only shows whether it exists.",
        source="torch/csrc/jit/codegen/cuda/manager.cpp",
        live=_NVFUSER_12,
        exists=FROM_12,
    ),
)

VARIABLES: tuple[Variable, ...] = (
    *variables(
        "1.11-2.1",
        (
            "PYTORCH_NVFUSER_DUMP",
            "OPTION,OPTION",
            "",
            "What nvFuser prints about its kernels. An unknown option makes every group fall back.",
            _FOLDER + "/utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_FALLBACK",
            "a number",
            "0",
            "A number other than 0 raises the error of a failed group instead of falling back; 'true' is 0.",
            _FOLDER + "/utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_JIT_OPT_LEVEL",
            "0 to 4",
            "",
            "Optimisation level of ptxas.",
            _FOLDER + "/executor_utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_TRACE",
            "a file name",
            "",
            "Writes a Chrome trace of nvFuser's own steps.",
            _FOLDER + "/instrumentation.cpp",
        ),
        (
            "PYTORCH_NVFUSER_USE_BLOCK_SYNC_ATOMIC",
            "0 or 1",
            "0",
            "Another way for threads of a block to wait for each other.",
            _FOLDER + "/executor_utils.cpp",
        ),
    ),
    *variables(
        "1.12-2.1",
        (
            "PYTORCH_NVFUSER_DISABLE",
            "OPTION,OPTION",
            "",
            "Parts of nvFuser to switch off. 'fallback' raises the error of a failed group.",
            _FOLDER + "/utils.cpp",
        ),
        (
            "PYTORCH_JIT_ENABLE_NVFUSER",
            "0 or 1",
            "",
            "0 or OFF turns nvFuser off, any other value on; the knob nvfuser overrides it.",
            _FOLDER + "/interface.cpp",
        ),
        (
            "PYTORCH_JIT_USE_NNC_NOT_NVFUSER",
            "0 or 1",
            "0",
            "1 or ON turns nvFuser off, and overrides everything else.",
            _FOLDER + "/interface.cpp",
        ),
    ),
    *variables(
        "1.13-2.1",
        (
            "PYTORCH_NVFUSER_ENABLE",
            "OPTION,OPTION",
            "",
            "Parts of nvFuser to switch on.",
            _FOLDER + "/utils.cpp",
        ),
    ),
    *variables(
        "2.0-2.1",
        (
            "TORCH_NVFUSER_LIBRARY_PATH",
            "a path prefix",
            "",
            "Put before libnvfuser_codegen.so when torch loads it; write the last '/' too.",
            "torch/csrc/jit/codegen/cuda/interface.cpp",
        ),
    ),
    *variables(
        "1.11-1.12",
        (
            "PYTORCH_NVFUSER_CUBIN",
            "0 or 1",
            "",
            "Compiles to CUBIN instead of PTX.",
            _FOLDER + "/executor_utils.cpp",
        ),
    ),
    *variables(
        "1.11",
        (
            "PYTORCH_NVFUSER_DISABLE_FMA",
            "0 or 1",
            "0",
            "Compiles without fused multiply-add.",
            _FOLDER,
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_FASTMATH",
            "0 or 1",
            "0",
            "Compiles without fast math.",
            _FOLDER,
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_NVTX",
            "0 or 1",
            "0",
            "Leaves out the ranges for NVIDIA's profilers.",
            _FOLDER,
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_RNG_UNROLL",
            "0 or 1",
            "0",
            "Does not unroll loops that draw random numbers.",
            _FOLDER,
        ),
    ),
    *variables(
        "",
        (
            "PYTORCH_NVFUSER_EXTERNAL_SRC",
            "",
            "",
            "Read only after nvFuser had left torch.",
            _FOLDER,
        ),
        (
            "PYTORCH_NVFUSER_MAX_REG_COUNT",
            "",
            "",
            "Read only after nvFuser had left torch.",
            _FOLDER,
        ),
        (
            "PYTORCH_NVFUSER_ONE_OP_FUSION",
            "",
            "",
            "Read by no release; the knob single_node does it.",
            _FOLDER,
        ),
        (
            "PYTORCH_CUDA_FUSER_DUMP",
            "",
            "",
            "The name before torch 1.11; write PYTORCH_NVFUSER_DUMP.",
            _FOLDER,
        ),
        (
            "PYTORCH_CUDA_FUSER_DISABLE_FALLBACK",
            "",
            "",
            "The name before torch 1.11; write PYTORCH_NVFUSER_DISABLE_FALLBACK.",
            _FOLDER,
        ),
    ),
    *of_package(
        "NVIDIA/Fuser csrc",
        (
            "NVFUSER_DUMP",
            "OPTION,OPTION(ARGUMENT)",
            "What the package prints about its kernels.",
        ),
        ("NVFUSER_ENABLE", "OPTION,OPTION", "Parts of the package to switch on."),
        ("NVFUSER_DISABLE", "OPTION,OPTION", "Parts of the package to switch off."),
        (
            "NVFUSER_PROF",
            "print or print.verbose",
            "Prints a table of kernel times and bandwidths.",
        ),
        (
            "NVFUSER_TRACE",
            "a file name",
            "Writes a Chrome trace of the package's own steps.",
        ),
        ("NVFUSER_MAX_REG_COUNT", "a number", "Most registers a kernel may use."),
        ("NVFUSER_JIT_OPT_LEVEL", "0 to 4", "Optimisation level of ptxas."),
        (
            "NVFUSER_EXTERNAL_SRC",
            "FILE.cu,FILE.cu",
            "CUDA files to run instead of the generated kernels.",
        ),
        (
            "NVFUSER_USE_BLOCK_SYNC_ATOMIC",
            "0 or 1",
            "Another way for threads of a block to wait for each other.",
        ),
        (
            "NVFUSER_DISABLE_FALLBACK",
            "0 or 1",
            "Raises errors instead of falling back.",
        ),
        (
            "NVFUSER_NUM_THREADS",
            "a number",
            "Threads that compile kernels; 8 by default.",
        ),
        (
            "NVFUSER_MATMUL_HEURISTIC_PLUGIN",
            "a path",
            "A library that chooses the shape of matrix products.",
        ),
    ),
)

_DUMP_OPTIONS: tuple[Option, ...] = (
    *options(
        "1.11-2.1",
        (
            "fusion_ir",
            "The fusion with its loop transformations, after scheduling.",
        ),
        (
            "fusion_ir_math",
            "The fusion without its schedule; ignored together with fusion_ir.",
        ),
        ("kernel_ir", "The kernel after lowering, before CUDA code is written."),
        ("cuda_kernel", "The CUDA code of each kernel."),
        (
            "cuda_full",
            "The CUDA code with its runtime headers, thousands of lines; ignored together with cuda_kernel.",
        ),
        ("cuda_to_file", "Writes __tmp_kernelN.cu files into the current folder."),
        ("launch_param", "Block, grid and shared memory of each launch."),
        ("segmented_fusion", "How a group was cut into several kernels."),
        (
            "dump_eff_bandwidth",
            "Time and bandwidth of each kernel run; it waits for every kernel.",
        ),
        (
            "draw_segmented_fusion",
            "Writes segmented_fusionN.dot files into the current folder.",
        ),
        (
            "ptxas_verbose",
            "The output of ptxas for each kernel: registers, spills, memory.",
        ),
        ("buffer_reuse_verbose", "Which buffers share memory."),
        ("scheduler_params", "What the scheduler chose for each kernel.", "stderr"),
        (
            "parallel_dimensions",
            "Which loops run on which thread and block dimension.",
        ),
        ("halo", "Extra elements that shifted tensors need."),
    ),
    *options(
        "1.11",
        (
            "print_args",
            "The arguments of each kernel; kernel_args replaces it from 1.12 on.",
        ),
    ),
    *options(
        "1.12-2.1",
        ("fusion_args", "The arguments of each fusion."),
        ("kernel_args", "The arguments of each kernel."),
        ("ca_map", "How the loops of tensors map onto each other."),
        (
            "segmenter_logging",
            "Which scheduler accepted or rejected each segment, and why.",
        ),
        (
            "perf_debug_verbose",
            "Arguments, compiler log, launch and bandwidth of each kernel together.",
        ),
    ),
    *options(
        "1.13-2.1",
        ("fusion_ir_presched", "The fusion before scheduling."),
        (
            "debug_info",
            "Compiles kernels with debug information and writes __tmp_kernelN.cu files.",
        ),
        (
            "python_definition",
            "The Python of a fusion made in nvFuser's Python frontend, never in TorchScript.",
        ),
        (
            "python_frontend_debug",
            "Messages of nvFuser's Python frontend, never in TorchScript.",
        ),
        (
            "transform_propagator",
            "How transformations pass from one tensor to the next.",
        ),
        ("cubin", "Writes __tmp_kernelN.cubin files into the current folder."),
        ("ptx", "Writes __tmp_kernelN.ptx files into the current folder."),
    ),
    *options(
        "1.13",
        (
            "inline_propagator",
            "How inlining positions pass from one tensor to the next.",
        ),
    ),
    *options(
        "2.0-2.1",
        (
            "bank_conflict",
            "Shared memory bank conflicts that the compiler expects.",
        ),
        ("sync_map", "Where threads must wait for each other."),
    ),
)

_ENABLE_OPTIONS: tuple[Option, ...] = (
    *options(
        "1.13-2.1",
        ("complex", "Fuses operators on complex numbers."),
        ("kernel_profile", "Measures parts of each kernel."),
        (
            "linear_decomposition",
            "Splits aten::linear into a matrix product and an addition that can be fused.",
        ),
        (
            "conv_decomposition",
            "Splits a convolution into one without bias and an addition that can be fused.",
        ),
    ),
    *options(
        "1.13",
        ("transpose_scheduler", "Uses the scheduler for transposed tensors."),
    ),
)

_DISABLE_OPTIONS: tuple[Option, ...] = (
    *options(
        "1.12-2.1",
        (
            "fallback",
            "Raises the error of a failed group instead of running it unfused.",
        ),
        (
            "fma",
            "Compiles without fused multiply-add; slower, closer to eager results.",
        ),
        ("index_hoist", "Computes indices where they are used."),
        ("nvtx", "Leaves out the ranges for NVIDIA's profilers."),
        ("predicate_elimination", "Keeps every bounds check."),
    ),
    *options(
        "1.12",
        ("unroll_with_rng", "Does not unroll loops that draw random numbers."),
    ),
    *options(
        "1.13-2.1",
        (
            "arch_check",
            "Compiles for any GPU architecture, for looking at code only; nothing can run.",
        ),
    ),
    *options(
        "2.0-2.1",
        ("compile_to_sass", "Compiles to PTX, which the driver then compiles."),
    ),
)

OPTIONS: dict[str, tuple[Option, ...]] = {
    "PYTORCH_NVFUSER_DUMP": _DUMP_OPTIONS,
    "PYTORCH_NVFUSER_ENABLE": _ENABLE_OPTIONS,
    "PYTORCH_NVFUSER_DISABLE": _DISABLE_OPTIONS,
}

PACKAGE_OPTIONS: dict[str, frozenset[str]] = {
    "NVFUSER_DUMP": words(
        """
        bank_conflict buffer_reuse_verbose ca_map communication compile_params cubin cuda_full
        cuda_kernel cuda_to_file cutlass_compile draw_segmented_fusion dynamic_shared_memory
        expr_simplify expr_sort expr_sort_verbose ftrace fusion_args fusion_ir fusion_ir_concretized
        fusion_ir_graph fusion_ir_math fusion_ir_original fusion_ir_presched fusion_ir_preseg
        global_zeroed_memory host_ir host_ir_jit host_ir_lowering index_type indexing_verbose inlining
        kernel_args kernel_ir launch_param lower_verbose occupancy parallel_dimensions
        perf_debug_verbose pre_segmenter_logging predicate_elimination ptx ptxas_verbose
        python_definition sass sass_to_file scheduler_params scheduler_verbose segmented_fusion
        segmenter_logging sync_map transform_propagator
        """
    ),
    "NVFUSER_ENABLE": words(
        """
        cutlass_scheduler fast_math fuse_matmul fuse_multiple_matmuls host_ir_jit host_ir_lowering
        id_model_extra_validation insert_resharding_after io_to_lower_precision kernel_db kernel_debug
        kernel_lineinfo kernel_profile memory_promotion multicast_protocol p2p_protocol p2p_transport
        reuse_zeroed_memory static_fusion_count tma_inner_persistent tma_pointwise tma_reduction
        wait_debugger warn_register_spill ws_normalization
        """
    ),
    "NVFUSER_DISABLE": words(
        """
        compile_to_sass contig_indexing expr_simplify fallback fma greedy_scheduler
        grouped_grid_welford_outer_opt index_hoist infer_contiguity kernel_reuse magic_zero
        matmul_expr_eval multidevice nvrtc_caching nvtx parallel_compile predicate_elimination
        python_inline_definitions resize_scheduler reuse_mismatched_type_registers var_name_remapping
        welford_vectorization
        """
    ),
    "NVFUSER_PROF": words(
        "enable enable.nocupti print print.nocupti print.verbose"
    ),
}
"""The words of the stand-alone nvfuser package (NVIDIA/Fuser at 81c4b22,
csrc/options.cpp), which does not read the variables of torch. Here a word may have
arguments: ``name(first,second)``."""

SWITCHES = FuserSwitches(
    log_level="profiling_graph_executor_impl:>partition:graph_fuser:>>kernel_cache:manager",
    plan_log="profiling_graph_executor_impl:graph_fuser:>>kernel_cache",
    refusal_log=">partition",
    knob_for_one="single_node=on",
    knob_to_leave_out="skip_node_kind=OPERATOR",
    variables_set=(
        "PYTORCH_NVFUSER_DUMP",
        "PYTORCH_NVFUSER_ENABLE",
        "PYTORCH_NVFUSER_DISABLE",
        "PYTORCH_NVFUSER_DISABLE_FALLBACK",
    ),
    dump_variable="PYTORCH_NVFUSER_DUMP",
    # Torch 1.11 reads only the number (with atoi), later ones the option (utils.cpp
    # of each; strings of the wheels).
    fallback_off=FallbackOff(
        "PYTORCH_NVFUSER_DISABLE", "fallback", "PYTORCH_NVFUSER_DISABLE_FALLBACK"
    ),
)

CATALOGUE = FuserCatalogue(
    variable_families=("PYTORCH_NVFUSER_", "PYTORCH_CUDA_FUSER_", "NVFUSER_"),
    printing_variables=("NVFUSER_DUMP", "NVFUSER_PROF"),
    knobs=KNOBS,
    variables=VARIABLES,
    options=OPTIONS,
    package_options=PACKAGE_OPTIONS,
    log_files={
        "graph_fuser": "Graphs around nvFuser's pass, step by step.",
        "partition": "Which operators nvFuser rejects, and why.",
        "kernel_cache": "Each group that nvFuser compiles, and each run of one.",
        "manager": "The group whose compilation fell back.",
        "type_inference": "Types that nvFuser infers inside a group.",
    },
)
