"""Looking up knobs, environment variables, dump options, log files, and GPUs (which
CUDA knows which compute capability, and their memory bandwidth).

Versions are given as torch prints them ("2.1.2+cu121") or as (2, 1); None means any
version.

The files of torch that PYTORCH_JIT_LOG_LEVEL names are from the release wheels
1.11.0, 1.12.1, 1.13.1, 2.0.1 and 2.1.2. A file is listed with every call of
torch::jit::is_enabled, by the file name and level that it passes; a file of 2.1.2
counts for 2.13 if the 2.13.0 wheel still holds its name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fusiondoc.fuser_knobs import LogFile, exists_in, parse_version
from fusiondoc.fuser_knobs.knob_table import KNOBS
from fusiondoc.fuser_knobs.variable_table import FUSER_DUMPS, OPTIONS, VARIABLES
from fusiondoc.fusers import FUSERS
from fusiondoc.fusers.knob_rows import (
    FUNCTIONS,
    FuserDump,
    Knob,
    Option,
    Variable,
    Version,
    span,
)
from fusiondoc.numbers import pair_of, whole_number

TorchVersion = str | Version | None

_BY_DEFAULT = " nor ".join(
    fuser.title for fuser in FUSERS.values() if fuser.by_default
)

_LOGGED = {
    "profiling_graph_executor_impl": "Graphs of the executor: before, while profiled and optimised.",
    "create_autodiff_subgraphs": "Graphs before and after gradient graphs are cut out.",
    "autodiff": "Forward and backward graph of each gradient graph.",
    "subgraph_utils": "Changes to the outputs of groups.",
    "graph_executor": "Runs of backward graphs.",
    "profiling_record": "Types that were profiled.",
    "bailout_graph": f"Graphs of bail-outs, where neither {_BY_DEFAULT} is on.",
    "alias_analysis": "Which values may share memory.",
    "peephole": "Small rewrites.",
    "constant_propagation": "Values that became constants.",
    "dead_code_elimination": "Operators that were removed as unused.",
    "inliner": "Functions that were put in place of their calls.",
    "loop_unrolling": "Loops that were unrolled.",
    "autocast": "Casts that autocast put in.",
    "freeze_module": "What freezing a module changed.",
    "symbolic_shape_runtime_fusion": "Guards for groups of any size.",
    **{
        name: words
        for fuser in FUSERS.values()
        for name, words in fuser.catalogue.log_files.items()
    },
}

_LOG_FILE_NAMES: tuple[tuple[str, int, str], ...] = (
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
        symbolic_shape_analysis symbolic_shape_registry unpack_quantized_weights
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
    *(row for fuser in FUSERS.values() for row in fuser.catalogue.own_log_files),
)

LOG_FILES: tuple[LogFile, ...] = tuple(
    sorted(
        (
            LogFile(name, least, (span(versions),), _LOGGED.get(name))
            for versions, least, names in _LOG_FILE_NAMES
            for name in names.split()
        ),
        key=lambda file: file.name,
    )
)


def as_version(torch_version: TorchVersion) -> Version | None:
    """(major, minor); UsageError if the text is no version."""
    if isinstance(torch_version, str):
        return parse_version(torch_version)
    return torch_version


def knobs() -> tuple[Knob, ...]:
    """Every knob, by fuser."""
    return KNOBS


def knob(name: str) -> Knob | None:
    """The knob of that short name."""
    return next((knob for knob in KNOBS if knob.name == name), None)


def knob_line(name: str, value: str) -> str:
    """The line of Python that sets a knob (for several operators: the lines), as
    printed by ``env --export``; by its public name if it has one
    (torch/jit/_fuser.py, 1.12 to 2.13).

    Args:
        value: a value that ``checks.check_knob`` accepts.

    Raises KeyError for a name that is no knob, ValueError for a knob whose value is
    a function.
    """
    found = knob(name)
    if found is None:
        raise KeyError(name)
    if found.kind == "function":
        raise ValueError(f"{name} takes a Python function")
    if found.kind == "operators":
        operators = (operator.strip() for operator in value.split(","))
        lines = []
        for operator in operators:
            lines.append(f'torch._C.{found.setter}("{operator}", True)')
        return "\n".join(lines)
    if found.kind == "strategy":
        steps = (step.strip().upper().partition(":") for step in value.split(","))
        parts = []
        for kind, _, depth in steps:
            parts.append(f'("{kind.strip()}", {whole_number(depth.strip())})')
        listed = ", ".join(parts)
        return f"torch.jit.set_fusion_strategy([{listed}])"
    text = value.strip()
    if found.kind == "switch":
        text = str(text.lower() in ("on", "true", "1", "yes"))
    elif found.kind not in ("count", "integer", "ratio"):
        text = repr(text)
    if found.owner != FUNCTIONS:
        return f"{found.in_python[0]} = {text}"
    return f"{found.in_python[0]}({text})"


def variables() -> tuple[Variable, ...]:
    """Every environment variable; last those that no release reads."""
    return VARIABLES


_OF_DEVICES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_ORDER",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_CUDNN_V8_API_DISABLED",
    "TORCH_CPP_LOG_LEVEL",
    "TORCH_SHOW_CPP_STACKTRACES",
    "TORCH_CUDA_ARCH_LIST",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)


def is_kept(name: str) -> bool:
    """True if a capture keeps the value of this variable: a fuser, or torch on a
    device, reads it.

    Variables are listed by full name, so that no token is kept because its name
    begins like a known variable.
    """
    return name in _KEPT


def options(
    variable: str, torch_version: TorchVersion = None
) -> tuple[Option, ...]:
    """The options of a variable that this torch knows."""
    version = as_version(torch_version)
    known = []
    for option in OPTIONS[variable]:
        if exists_in(option.live, version):
            known.append(option)
    return tuple(known)


def dump_options(torch_version: TorchVersion = None) -> tuple[str, ...]:
    """The words that the dump variable may hold for this torch; empty if it has no
    fuser that reads the variable."""
    names = []
    for option in options(next(iter(OPTIONS)), torch_version):
        names.append(option.name)
    return tuple(names)


def fuser_dumps(torch_version: TorchVersion = None) -> tuple[FuserDump, ...]:
    """The dumps that are no options of a variable and that this torch prints."""
    version = as_version(torch_version)
    return tuple(dump for dump in FUSER_DUMPS if exists_in(dump.live, version))


def fuser_dump(name: str) -> FuserDump | None:
    """The dump of that name; None for an option of a variable."""
    return next((dump for dump in FUSER_DUMPS if dump.name == name), None)


def log_files(torch_version: TorchVersion = None) -> tuple[LogFile, ...]:
    """The files that PYTORCH_JIT_LOG_LEVEL may name for this torch."""
    version = as_version(torch_version)
    return tuple(file for file in LOG_FILES if exists_in(file.live, version))


_KEPT = frozenset((*(variable.name for variable in VARIABLES), *_OF_DEVICES))


Capability = tuple[int, int]

FIRST_CUDA: dict[Capability, tuple[int, int]] = {
    (5, 0): (6, 0),
    (5, 2): (6, 5),
    (5, 3): (7, 0),
    (6, 0): (8, 0),
    (6, 1): (8, 0),
    (6, 2): (8, 0),
    (7, 0): (9, 0),
    (7, 2): (9, 1),
    (7, 5): (10, 0),
    (8, 0): (11, 0),
    (8, 6): (11, 1),
    (8, 7): (11, 4),
    (8, 8): (13, 0),
    (8, 9): (11, 8),
    (9, 0): (11, 8),
    (10, 0): (12, 8),
    (10, 1): (12, 8),
    (10, 3): (12, 9),
    (12, 0): (12, 8),
    (12, 1): (12, 9),
    (11, 0): (13, 0),
}
"""Compute capability -> the first CUDA toolkit that compiles for it: the PTX
version that LLVM's NVPTX back end requires (llvm/lib/Target/NVPTX/NVPTX.td), and
the CUDA release of that PTX version (PTX ISA, release history; also
cuda/bindings/utils/_ptx_utils.py of NVIDIA's cuda-python). 10.0 and 10.1 need PTX
8.6, whose CUDA 12.7 was never released."""

LAST_CUDA: dict[int, tuple[int, int]] = {5: (12, 9), 6: (12, 9)}
"""Major capability -> the last toolkit that compiles for it: CUDA 13.0 took out
Maxwell, Pascal and Volta (7.0 and 7.2 end with 12.9 too) and starts at 7.5 (CUDA
toolkit release notes, deprecated architectures)."""


def first_cuda(capability: Capability) -> tuple[int, int] | None:
    """The first CUDA toolkit for a GPU; an unlisted capability uses that of its
    nearest predecessor."""
    same = []
    for listed in FIRST_CUDA:
        if listed[0] == capability[0] and listed <= capability:
            same.append(listed)
    if same:
        return FIRST_CUDA[max(same)]
    return None


def knows(cuda: tuple[int, int], capability: Capability) -> bool | None:
    """Whether that CUDA compiles for the GPU; None for an unlisted GPU."""
    first = first_cuda(capability)
    if first is None:
        return None
    last = LAST_CUDA.get(capability[0]) or (
        (12, 9) if capability < (7, 5) else None
    )
    return first <= cuda and (last is None or cuda <= last)


def parse_pair(text: str | None) -> tuple[int, int] | None:
    """(11, 7) for "11.7", (9, 0) for "[9, 0]"; None if it does not contain two
    numbers."""
    return pair_of(re.search(r"(\d+)\s*[.,]\s*(\d+)", text or ""))


class Bandwidth(NamedTuple):
    """``name``: a regular expression for the whole name, without "NVIDIA" and
    "Tesla" before it."""

    name: str
    gb_per_s: float
    source: str


_SHEETS = "data sheets linked in the repository gpu-datasheet"

TABLE = (
    Bandwidth(
        r"B200",
        8000,
        "modal.com/gpu-glossary (memory bandwidth); the repository LLM-Prof",
    ),
    Bandwidth(
        r"H200( NVL)?",
        4800,
        _SHEETS + "; clock and bus width of the driver on a real one give 4814",
    ),
    Bandwidth(r"H100 80GB HBM3", 3350, _SHEETS),
    Bandwidth(r"H100 PCIe", 2000, "the repository GPU-Resources; a public gist"),
    Bandwidth(
        r"A100-SXM4-40GB|A100-PCIE-40GB",
        1555,
        "thundercompute.com (A100 specifications); " + _SHEETS,
    ),
    Bandwidth(r"A100-SXM4-80GB", 2039, "thundercompute.com (A100 specifications)"),
    Bandwidth(
        r"A100 80GB PCIe",
        1935,
        "thundercompute.com (A100 specifications); " + _SHEETS,
    ),
    Bandwidth(r"A40", 696, _SHEETS),
    Bandwidth(
        r"A10|A10G",
        600,
        _SHEETS + "; A10G: gpu-runtime-predictor on huggingface.co",
    ),
    Bandwidth(
        r"L40S", 864, "grokipedia.com (L4 and L40S); the repository GPU-Resources"
    ),
    Bandwidth(r"L4", 300, "grokipedia.com (L4 and L40S)"),
    Bandwidth(
        r"V100-\w+-(16|32)GB(-\w+)?",
        900,
        "the repository GPU-Resources; Volta whitepaper notes",
    ),
    Bandwidth(r"P100-(PCIE|SXM2)-16GB", 732, "the repository GPU-Resources"),
    Bandwidth(
        r"T4",
        320,
        "kaffec.com (T4 and V100); gpu-runtime-predictor on huggingface.co",
    ),
    Bandwidth(
        r"GeForce RTX 4090",
        1008,
        "384 bits at 21 Gb/s: hardwaretimes.com; a public gist",
    ),
    Bandwidth(r"GeForce RTX 3090", 936, "the repository nvidiaGPU"),
    Bandwidth(
        r"GeForce RTX 3080",
        760,
        "320 bits at 19 Gb/s (the 10 GB card): tweaktown.com; alldbin.com",
    ),
)

SLOWEST = min(row.gb_per_s for row in TABLE)


def bandwidth_of(gpu: str | None) -> float | None:
    """GB/s of a GPU of this name; None if it is not in the table. A part of a GPU
    (MIG) has no entry."""
    if not gpu:
        return None
    name = re.sub(r"^(NVIDIA )?(Tesla )?", "", gpu.strip())
    for row in TABLE:
        if re.fullmatch(row.name, name):
            return row.gb_per_s
    return None
