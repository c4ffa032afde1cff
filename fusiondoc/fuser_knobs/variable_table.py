"""Environment variables that change what is fused, how, or what is printed about it.

From the names that each release wheel reads (1.11.0 to 2.1.2 and 2.13.0); those of the stand-alone nvfuser
package from NVIDIA/Fuser at 81c4b22.
"""

from __future__ import annotations

from fusiondoc.fuser_knobs.entries import Variable, span

_NVFUSER = "torch/csrc/jit/codegen/cuda"
_NNC = "torch/csrc/jit/tensorexpr/kernel.cpp"


def _variables(versions: str, *rows: tuple[str, str, str, str, str]) -> tuple[Variable, ...]:
    live = (span(versions),) if versions else ()
    return tuple(
        Variable(name, values, default, does, live, source) for name, values, default, does, source in rows
    )


def _package(*rows: tuple[str, str, str]) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, values, "", does, (), "NVIDIA/Fuser csrc", True) for name, values, does in rows
    )


VARIABLES: tuple[Variable, ...] = (
    *_variables(
        "1.11-2.13",
        (
            "PYTORCH_JIT_LOG_LEVEL",
            "FILE:>FILE:>>FILE",
            "",
            "Which files of torch write to the JIT log, and how much.",
            "torch/csrc/jit/jit_log.cpp",
        ),
        (
            "PYTORCH_JIT_TYPE_VERBOSITY",
            "0 to 4",
            "3",
            "How much of a type is printed in graphs; below 3 a log lacks shapes or strides.",
            "torch/csrc/jit/ir/ir.cpp",
        ),
        (
            "PYTORCH_JIT_OPT_LIMIT",
            "FILE=N:FILE=N",
            "",
            "Stops a pass after N changes; for finding the change that breaks a model.",
            "torch/csrc/jit/jit_opt_limit.cpp",
        ),
        (
            "PYTORCH_JIT",
            "0 or 1",
            "1",
            "0 turns scripting and tracing off: everything runs eagerly.",
            "torch/jit",
        ),
        (
            "PYTORCH_TENSOREXPR",
            "0 or 1",
            "",
            "0 turns NNC off; any other value turns it on; overrides the knob nnc.",
            "torch/csrc/jit/passes/tensorexpr_fuser.cpp",
        ),
        (
            "PYTORCH_TENSOREXPR_DONT_FUSE",
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
            _NNC,
        ),
        (
            "PYTORCH_TENSOREXPR_RANDOM_TRANSFORM_SEED",
            "a number",
            "",
            "Lets NNC change loops at random; for testing NNC itself.",
            _NNC,
        ),
        (
            "PYTORCH_FUSION_DEBUG",
            "0 or 1",
            "0",
            "Prints the kernels of the legacy fuser.",
            "torch/csrc/jit/codegen/fuser/interface.cpp",
        ),
    ),
    *_variables(
        "1.11-2.0",
        (
            "PYTORCH_TENSOREXPR_DONT_USE_LLVM",
            "0 or 1",
            "0",
            "1 keeps NNC from using LLVM on the CPU; read only by builds with LLVM.",
            _NNC,
        ),
    ),
    *_variables(
        "1.11-2.1",
        (
            "PYTORCH_NVFUSER_DUMP",
            "OPTION,OPTION",
            "",
            "What nvFuser prints about its kernels. An unknown option makes every group fall back.",
            _NVFUSER + "/utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_FALLBACK",
            "a number",
            "0",
            "A number other than 0 raises the error of a failed group instead of falling back; 'true' is 0.",
            _NVFUSER + "/utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_JIT_OPT_LEVEL",
            "0 to 4",
            "",
            "Optimisation level of ptxas.",
            _NVFUSER + "/executor_utils.cpp",
        ),
        (
            "PYTORCH_NVFUSER_TRACE",
            "a file name",
            "",
            "Writes a Chrome trace of nvFuser's own steps.",
            _NVFUSER + "/instrumentation.cpp",
        ),
        (
            "PYTORCH_NVFUSER_USE_BLOCK_SYNC_ATOMIC",
            "0 or 1",
            "0",
            "Another way for threads of a block to wait for each other.",
            _NVFUSER + "/executor_utils.cpp",
        ),
    ),
    *_variables(
        "1.12-2.1",
        (
            "PYTORCH_NVFUSER_DISABLE",
            "OPTION,OPTION",
            "",
            "Parts of nvFuser to switch off. 'fallback' raises the error of a failed group.",
            _NVFUSER + "/utils.cpp",
        ),
        (
            "PYTORCH_JIT_ENABLE_NVFUSER",
            "0 or 1",
            "",
            "0 or OFF turns nvFuser off, any other value on; the knob nvfuser overrides it.",
            _NVFUSER + "/interface.cpp",
        ),
        (
            "PYTORCH_JIT_USE_NNC_NOT_NVFUSER",
            "0 or 1",
            "0",
            "1 or ON turns nvFuser off, and overrides everything else.",
            _NVFUSER + "/interface.cpp",
        ),
    ),
    *_variables(
        "1.13-2.1",
        (
            "PYTORCH_NVFUSER_ENABLE",
            "OPTION,OPTION",
            "",
            "Parts of nvFuser to switch on.",
            _NVFUSER + "/utils.cpp",
        ),
    ),
    *_variables(
        "2.0-2.1",
        (
            "TORCH_NVFUSER_LIBRARY_PATH",
            "a path prefix",
            "",
            "Put before libnvfuser_codegen.so when torch loads it; write the last '/' too.",
            "torch/csrc/jit/codegen/cuda/interface.cpp",
        ),
    ),
    *_variables(
        "1.11-1.12",
        (
            "PYTORCH_NVFUSER_CUBIN",
            "0 or 1",
            "",
            "Compiles to CUBIN instead of PTX.",
            _NVFUSER + "/executor_utils.cpp",
        ),
    ),
    *_variables(
        "1.11",
        ("PYTORCH_NVFUSER_DISABLE_FMA", "0 or 1", "0", "Compiles without fused multiply-add.", _NVFUSER),
        ("PYTORCH_NVFUSER_DISABLE_FASTMATH", "0 or 1", "0", "Compiles without fast math.", _NVFUSER),
        (
            "PYTORCH_NVFUSER_DISABLE_NVTX",
            "0 or 1",
            "0",
            "Leaves out the ranges for NVIDIA's profilers.",
            _NVFUSER,
        ),
        (
            "PYTORCH_NVFUSER_DISABLE_RNG_UNROLL",
            "0 or 1",
            "0",
            "Does not unroll loops that draw random numbers.",
            _NVFUSER,
        ),
    ),
    *_variables(
        "",
        ("PYTORCH_NVFUSER_EXTERNAL_SRC", "", "", "Read only after nvFuser had left torch.", _NVFUSER),
        ("PYTORCH_NVFUSER_MAX_REG_COUNT", "", "", "Read only after nvFuser had left torch.", _NVFUSER),
        (
            "PYTORCH_NVFUSER_ONE_OP_FUSION",
            "",
            "",
            "Read by no release; the knob single_node does it.",
            _NVFUSER,
        ),
        (
            "PYTORCH_CUDA_FUSER_DUMP",
            "",
            "",
            "The name before torch 1.11; write PYTORCH_NVFUSER_DUMP.",
            _NVFUSER,
        ),
        (
            "PYTORCH_CUDA_FUSER_DISABLE_FALLBACK",
            "",
            "",
            "The name before torch 1.11; write PYTORCH_NVFUSER_DISABLE_FALLBACK.",
            _NVFUSER,
        ),
    ),
    *_package(
        ("NVFUSER_DUMP", "OPTION,OPTION(ARGUMENT)", "What the package prints about its kernels."),
        ("NVFUSER_ENABLE", "OPTION,OPTION", "Parts of the package to switch on."),
        ("NVFUSER_DISABLE", "OPTION,OPTION", "Parts of the package to switch off."),
        ("NVFUSER_PROF", "print or print.verbose", "Prints a table of kernel times and bandwidths."),
        ("NVFUSER_TRACE", "a file name", "Writes a Chrome trace of the package's own steps."),
        ("NVFUSER_MAX_REG_COUNT", "a number", "Most registers a kernel may use."),
        ("NVFUSER_JIT_OPT_LEVEL", "0 to 4", "Optimisation level of ptxas."),
        ("NVFUSER_EXTERNAL_SRC", "FILE.cu,FILE.cu", "CUDA files to run instead of the generated kernels."),
        (
            "NVFUSER_USE_BLOCK_SYNC_ATOMIC",
            "0 or 1",
            "Another way for threads of a block to wait for each other.",
        ),
        ("NVFUSER_DISABLE_FALLBACK", "0 or 1", "Raises errors instead of falling back."),
        ("NVFUSER_NUM_THREADS", "a number", "Threads that compile kernels; 8 by default."),
        ("NVFUSER_MATMUL_HEURISTIC_PLUGIN", "a path", "A library that chooses the shape of matrix products."),
    ),
)
