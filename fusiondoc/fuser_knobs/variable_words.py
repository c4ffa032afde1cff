"""The words that variables take: options of PYTORCH_NVFUSER_DUMP, _ENABLE and _DISABLE by torch version,
and the files of torch that PYTORCH_JIT_LOG_LEVEL names.

From the release wheels 1.11.0, 1.12.1, 1.13.1, 2.0.1 and 2.1.2. An option is listed for a version if the
parser of its libtorch_cuda, libtorch_cuda_cu or libnvfuser_codegen holds it; those of 2.1.2 were also run
on a GPU. A file is listed with every call of torch::jit::is_enabled, by the file name and level that it
passes; one of 2.1.2 counts for 2.13 if the 2.13.0 wheel still holds its name.
"""

from __future__ import annotations

from fusiondoc.fuser_knobs.entries import FuserDump, LogFile, Option, span


def _options(versions: str, *rows: tuple[str, ...]) -> tuple[Option, ...]:
    live = (span(versions),)
    return tuple(Option(row[0], row[1], live, *row[2:]) for row in rows)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DUMP_OPTIONS: tuple[Option, ...] = (
    *_options(
        "1.11-2.1",
        ("fusion_ir", "The fusion with its loop transformations, after scheduling."),
        ("fusion_ir_math", "The fusion without its schedule; ignored together with fusion_ir."),
        ("kernel_ir", "The kernel after lowering, before CUDA code is written."),
        ("cuda_kernel", "The CUDA code of each kernel."),
        (
            "cuda_full",
            "The CUDA code with its runtime headers, thousands of lines; ignored together with cuda_kernel.",
        ),
        ("cuda_to_file", "Writes __tmp_kernelN.cu files into the current folder."),
        ("launch_param", "Block, grid and shared memory of each launch."),
        ("segmented_fusion", "How a group was cut into several kernels."),
        ("dump_eff_bandwidth", "Time and bandwidth of each kernel run; it waits for every kernel."),
        ("draw_segmented_fusion", "Writes segmented_fusionN.dot files into the current folder."),
        ("ptxas_verbose", "What ptxas says of each kernel: registers, spills, memory."),
        ("buffer_reuse_verbose", "Which buffers share memory."),
        ("scheduler_params", "What the scheduler chose for each kernel.", "stderr"),
        ("parallel_dimensions", "Which loops run on which thread and block dimension."),
        ("halo", "Extra elements that shifted tensors need."),
    ),
    *_options("1.11", ("print_args", "The arguments of each kernel; kernel_args replaces it from 1.12 on.")),
    *_options(
        "1.12-2.1",
        ("fusion_args", "The arguments of each fusion."),
        ("kernel_args", "The arguments of each kernel."),
        ("ca_map", "How the loops of tensors map onto each other."),
        ("segmenter_logging", "Which scheduler accepted or rejected each segment, and why."),
        ("perf_debug_verbose", "Arguments, compiler log, launch and bandwidth of each kernel together."),
    ),
    *_options(
        "1.13-2.1",
        ("fusion_ir_presched", "The fusion before scheduling."),
        ("debug_info", "Compiles kernels with debug information and writes __tmp_kernelN.cu files."),
        (
            "python_definition",
            "The Python of a fusion made in nvFuser's Python frontend, never in TorchScript.",
        ),
        ("python_frontend_debug", "Messages of nvFuser's Python frontend, never in TorchScript."),
        ("transform_propagator", "How transformations pass from one tensor to the next."),
        ("cubin", "Writes __tmp_kernelN.cubin files into the current folder."),
        ("ptx", "Writes __tmp_kernelN.ptx files into the current folder."),
    ),
    *_options("1.13", ("inline_propagator", "How inlining positions pass from one tensor to the next.")),
    *_options(
        "2.0-2.1",
        ("bank_conflict", "Shared memory bank conflicts that the compiler expects."),
        ("sync_map", "Where threads must wait for each other."),
    ),
)

ENABLE_OPTIONS: tuple[Option, ...] = (
    *_options(
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
    *_options("1.13", ("transpose_scheduler", "Uses the scheduler for transposed tensors.")),
)

DISABLE_OPTIONS: tuple[Option, ...] = (
    *_options(
        "1.12-2.1",
        ("fallback", "Raises the error of a failed group instead of running it unfused."),
        ("fma", "Compiles without fused multiply-add; slower, closer to eager results."),
        ("index_hoist", "Computes indices where they are used."),
        ("nvtx", "Leaves out the ranges for NVIDIA's profilers."),
        ("predicate_elimination", "Keeps every bounds check."),
    ),
    *_options("1.12", ("unroll_with_rng", "Does not unroll loops that draw random numbers.")),
    *_options(
        "1.13-2.1",
        ("arch_check", "Compiles for any GPU architecture, for looking at code only; nothing can run."),
    ),
    *_options("2.0-2.1", ("compile_to_sass", "Compiles to PTX, which the driver then compiles.")),
)

OPTIONS: dict[str, tuple[Option, ...]] = {
    "PYTORCH_NVFUSER_DUMP": DUMP_OPTIONS,
    "PYTORCH_NVFUSER_ENABLE": ENABLE_OPTIONS,
    "PYTORCH_NVFUSER_DISABLE": DISABLE_OPTIONS,
}

PACKAGE_OPTIONS: dict[str, frozenset[str]] = {
    "NVFUSER_DUMP": _words(
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
    "NVFUSER_ENABLE": _words(
        """
        cutlass_scheduler fast_math fuse_matmul fuse_multiple_matmuls host_ir_jit host_ir_lowering
        id_model_extra_validation insert_resharding_after io_to_lower_precision kernel_db kernel_debug
        kernel_lineinfo kernel_profile memory_promotion multicast_protocol p2p_protocol p2p_transport
        reuse_zeroed_memory static_fusion_count tma_inner_persistent tma_pointwise tma_reduction
        wait_debugger warn_register_spill ws_normalization
        """
    ),
    "NVFUSER_DISABLE": _words(
        """
        compile_to_sass contig_indexing expr_simplify fallback fma greedy_scheduler
        grouped_grid_welford_outer_opt index_hoist infer_contiguity kernel_reuse magic_zero
        matmul_expr_eval multidevice nvrtc_caching nvtx parallel_compile predicate_elimination
        python_inline_definitions resize_scheduler reuse_mismatched_type_registers var_name_remapping
        welford_vectorization
        """
    ),
    "NVFUSER_PROF": _words("enable enable.nocupti print print.nocupti print.verbose"),
}
"""The words of the stand-alone nvfuser package (NVIDIA/Fuser at 81c4b22, csrc/options.cpp), which does not
read the variables of torch. Here a word may have arguments: ``name(first,second)``."""


_JIT_LOG = "PYTORCH_JIT_LOG_LEVEL"

FUSER_DUMPS: tuple[FuserDump, ...] = (
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
    FuserDump(
        "onednn_verbose",
        "onednn",
        "Each partition of oneDNN Graph that ran: implementation, tensors, time.",
        (span("1.12-2.13"),),
        (("ONEDNN_VERBOSE", "1"), ("ONEDNN_GRAPH_VERBOSE", "1")),
    ),
)


_MEANINGS = {
    "profiling_graph_executor_impl": "Graphs of the executor: before, while profiled and optimised.",
    "graph_fuser": "Graphs around nvFuser's pass, step by step.",
    "partition": "Which operators nvFuser rejects, and why.",
    "kernel_cache": "Each group that nvFuser compiles, and each run of one.",
    "manager": "The group whose compilation fell back.",
    "type_inference": "Types that nvFuser infers inside a group.",
    "tensorexpr_fuser": "Graphs around NNC's pass; at >> which operators it rejects, and why.",
    "create_autodiff_subgraphs": "Graphs before and after gradient graphs are cut out.",
    "autodiff": "Forward and backward graph of each gradient graph.",
    "subgraph_utils": "Changes to the outputs of groups.",
    "graph_executor": "Runs of backward graphs.",
    "profiling_record": "Types that were profiled.",
    "bailout_graph": "Graphs of bail-outs, where neither nvFuser nor NNC is on.",
    "kernel": "Tensor expressions of each NNC kernel.",
    "cuda_codegen": "CUDA code of each NNC kernel.",
    "llvm_codegen": "LLVM and assembly code of each NNC kernel.",
    "graph_helper": "What oneDNN Graph makes of each operator.",
    "interface": "Graphs around oneDNN Graph's passes.",
    "alias_analysis": "Which values may share memory.",
    "peephole": "Small rewrites.",
    "constant_propagation": "Values that became constants.",
    "dead_code_elimination": "Operators that were removed as unused.",
    "inliner": "Functions that were put in place of their calls.",
    "loop_unrolling": "Loops that were unrolled.",
    "autocast": "Casts that autocast put in.",
    "freeze_module": "What freezing a module changed.",
    "symbolic_shape_runtime_fusion": "Guards for groups of any size.",
}

_NAMES: tuple[tuple[str, int, str], ...] = (
    (
        "1.11-2.13",
        0,
        """
        autocast autodiff bailout_graph canonicalize_graph_fuser_ops clear_profiling clear_undefinedness
        common_subexpression_elimination concat_opt constant_fold constant_propagation
        create_autodiff_subgraphs dead_code_elimination dedup_module_uses device_type_analysis
        dtype_analysis eliminate_no_ops erase_number_types eval_peephole finalize fixup_onnx_controlflow
        fold_conv_bn frozen_concat_linear frozen_linear_transpose frozen_ops_to_mkldnn
        function_substitution fusion graph_executor guard_elimination impl init inline_fork_wait inliner
        insert_observers insert_quant_dequant jit_trace kernel loop_unrolling lower_tuples onnx peephole
        peephole_non_tensor prepare_division_for_onnx preprocess_for_onnx profiling_graph_executor_impl
        profiling_record remove_exceptions remove_inplace_ops_for_onnx scalar_type_analysis
        shape_type_inference specialize_autogradzero subgraph_matcher subgraph_utils
        symbolic_shape_analysis symbolic_shape_registry tensorexpr_fuser unpack_quantized_weights
        variadic_ops
        """,
    ),
    (
        "1.11-2.13",
        1,
        """
        freeze_module function_extraction helper hoist_conv_packed_params lower_grad_of
        peephole_alias_sensitive
        """,
    ),
    (
        "1.11-2.13",
        2,
        """
        alias_analysis aot_compiler block_codegen code_impl codegen conv2d cuda_codegen eval export
        graph_opt interpreter ir_simplifier list_model_parameters llvm_codegen loopnest
        loopnest_randomization symbolic_shape_runtime_fusion te_wrapper
        """,
    ),
    ("1.11", 0, "common_expression_hoisting"),
    ("1.11-2.1", 0, "graph_fuser"),
    ("1.12-2.1", 0, "kernel_cache manager type_inference"),
    ("1.12-2.1", 1, "partition"),
    ("1.12-2.13", 0, "interface lazy_graph_executor ts_node_lowering"),
    (
        "1.12-2.13",
        2,
        """
        decomposition_registry frozen_conv_add_relu_fusion_cuda graph_helper graph_rewriter
        remove_redundant_aliases
        """,
    ),
    ("1.13-2.13", 2, "mkldnn_rewrite"),
    ("2.0-2.13", 2, "layout_propagation"),
)

LOG_FILES: tuple[LogFile, ...] = tuple(
    sorted(
        (
            LogFile(name, least, (span(versions),), _MEANINGS.get(name))
            for versions, least, names in _NAMES
            for name in names.split()
        ),
        key=lambda file: file.name,
    )
)
