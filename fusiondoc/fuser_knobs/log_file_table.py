"""The files of torch that write to the JIT log, for PYTORCH_JIT_LOG_LEVEL.

From the release wheels 1.11.0, 1.12.1, 1.13.1, 2.0.1 and 2.1.2: every call of torch::jit::is_enabled with the
file name and level it passes. A file of 2.1.2 counts for 2.13 if the 2.13.0 wheel still holds its name.
"""

from __future__ import annotations

from fusiondoc.fuser_knobs.entries import LogFile, span

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
