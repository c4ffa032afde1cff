"""NNC, the tensor-expression fuser: compiles groups for the CPU and the GPU in TorchScript."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.knob_rows import FuserCatalogue
from fusiondoc.fusers.nnc import errors, knobs, log, takes
from fusiondoc.fusers.taken_operators import TakenOperators

NNC = Fuser(
    "nnc",
    "NNC",
    ("TensorExprGroup",),
    old_nodes=(log.OLD_GROUP,),
    by_default=True,
    instead=("nvfuser", "onednn"),
    operators=TakenOperators(
        takes=frozenset(takes.TAKES),
        with_knob=takes.WITH_KNOB,
        inference_only=takes.INFERENCE_ONLY,
        seldom=takes.SELDOM,
        pulled_in=takes.PULLED_IN,
        idle_casts=takes.IDLE_CASTS,
        pairs_only=takes.PAIRS_ONLY,
        casts_by_constants=True,
    ),
    limits=FuserLimits(
        dtypes=takes.DTYPES,
        halves_on=frozenset(("cuda",)),
        numbers_for_tensors=True,
        evaluator_without_llvm=True,
        any_size=True,
        stops_at_side_effects=True,
        only_profiled=True,
    ),
    log=FuserLog(
        pass_file="tensorexpr_fuser",
        compile_header=log.COMPILE_HEADER,
        profile_names=("fused_|.*_fused_",),  # ``fused_add_mul`` (passes/tensorexpr_fuser.cpp)
        announces_runs=False,
        pass_start=log.PASS_START,
        plan_header=log.PLAN_HEADER,
        groups_header=log.GROUPS_HEADER,
        line_messages=log.LINE_MESSAGES,
        inner_graphs=log.INNER_GRAPHS,
        guards=log.GUARDS,
    ),
    errors=errors.ERRORS,
    switches=FuserSwitches(
        log_level=knobs.LOG_LEVEL,
        plan_log="profiling_graph_executor_impl:>>tensorexpr_fuser",
        refusal_log=">>tensorexpr_fuser",
        off_by_variable=("PYTORCH_TENSOREXPR", "0"),  # read before any switch (passes/tensorexpr_fuser.cpp)
        off_by_call="torch._C._jit_set_texpr_fuser_enabled(False)",
        device_knobs={
            "cpu": {"fuse_on_cpu": "on", "nnc_must_use_llvm": "off"},
            "cuda": {"fuse_on_gpu": "on"},
        },
    ),
    catalogue=FuserCatalogue(
        variable_families=("PYTORCH_TENSOREXPR",),
        knobs=knobs.KNOBS,
        variables=knobs.VARIABLES,
        dumps=knobs.DUMPS,
        usual_dumps=("nnc_ir",),
        log_files=knobs.LOG_FILES,
        own_log_files=knobs.OWN_LOG_FILES,
    ),
    words=FuserWords(
        conditions=log.WORDS,
    ),
)
