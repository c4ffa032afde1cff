"""nvFuser: compiles groups for NVIDIA GPUs in TorchScript of torch 1.12 to 2.1."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_switches import FallbackOff, FuserSwitches
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.knob_rows import FuserCatalogue, span
from fusiondoc.fusers.nvfuser import errors, knobs, log, takes, words
from fusiondoc.fusers.taken_operators import TakenOperators

NVFUSER = Fuser(
    "nvfuser",
    "nvFuser",
    ("CudaFusionGroup",),
    by_default=True,
    instead=("nnc",),
    operators=TakenOperators(
        takes=frozenset(takes.TAKES),
        taken_in=takes.taken_in,
        rule_since=takes.rule_since,
        versions=("1.12.0", "1.13.0", "2.1.0"),
        views_in=takes.views_taken_in,
        stand_ins=takes.COPY_OF,
        with_dimensions_only=takes.WITH_DIMENSIONS_ONLY,
        by_constant_dimension=takes.BY_CONSTANT_DIMENSION,
        sized_reductions=takes.SIZED_REDUCTIONS,
        expressions=takes.EXPRESSIONS,
    ),
    limits=FuserLimits(
        since=takes.OLDEST,
        until=takes.LAST,
        in_builds=span("1.10-2.1"),
        where="torch 1.12 to 2.1 with CUDA (on Linux with Python 3.8 to 3.11: pip install torch==2.1.2) and"
        " an NVIDIA GPU; then --python PATH",
        devices=frozenset(("cuda",)),
        dtypes=takes.DTYPES,
        numbers_for_tensors=False,
        # Without the profiling executor its pass still makes groups, and refuses to compile them: "legacy
        # executor is not supported by nvfuser" (kernel_cache.cpp).
        only_profiled=True,
        most_dimensions=takes.MOST_DIMENSIONS,
    ),
    log=FuserLog(
        pass_file="graph_fuser",
        fallbacks=errors.FALLBACKS,
        warnings=errors.WARNINGS,
        gone=errors.GONE,
        options_set=errors.OPTIONS_SET,
        signs=log.SIGNS,
        kernel_names=log.KERNEL_NAMES,
        profile_names=(r"run_fused_kernel\Z",),  # torch/csrc/jit/codegen/cuda/manager.cpp
        writes_to_stdout=True,
        pass_start=log.PASS_START,
        plan_header=log.PLAN_HEADER,
        # Where both are on, its pass comes after NNC's and takes the same graph (so in a log of torch 2.1.2).
        follows="nnc",
        cache_header=log.CACHE_HEADER,
        fallback_header=log.FALLBACK_HEADER,
        source_lines=log.SOURCE_LINES,
        guards=log.GUARDS,
        refusals=log.REFUSALS,
    ),
    errors=errors.ERRORS,
    switches=FuserSwitches(
        log_level=knobs.LOG_LEVEL,
        knob_for_one="single_node=on",
        knob_to_leave_out="skip_node_kind=OPERATOR",
        plan_log="profiling_graph_executor_impl:graph_fuser:>>kernel_cache",
        variables_set=(
            "PYTORCH_NVFUSER_DUMP",
            "PYTORCH_NVFUSER_ENABLE",
            "PYTORCH_NVFUSER_DISABLE",
            "PYTORCH_NVFUSER_DISABLE_FALLBACK",
        ),
        dump_variable="PYTORCH_NVFUSER_DUMP",
        refusal_log=">partition",
        # Torch 1.11 reads only the number (with atoi), later ones the option (utils.cpp of each; strings of
        # the wheels).
        fallback_off=FallbackOff("PYTORCH_NVFUSER_DISABLE", "fallback", "PYTORCH_NVFUSER_DISABLE_FALLBACK"),
    ),
    catalogue=FuserCatalogue(
        variable_families=("PYTORCH_NVFUSER_", "PYTORCH_CUDA_FUSER_", "NVFUSER_"),
        printing_variables=("NVFUSER_DUMP", "NVFUSER_PROF"),
        knobs=knobs.KNOBS,
        variables=knobs.VARIABLES,
        options=knobs.OPTIONS,
        package_options=knobs.PACKAGE_OPTIONS,
        log_files=knobs.LOG_FILES,
    ),
    words=FuserWords(
        conditions=log.WORDS,
        overloads=words.OVERLOADS,
        arguments=words.ARGUMENTS,
    ),
)
