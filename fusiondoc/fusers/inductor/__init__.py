"""Inductor, the default backend of torch.compile."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.inductor import knobs, variables
from fusiondoc.fusers.inductor.kinds import KIND, NAME
from fusiondoc.fusers.knob_rows import FuserCatalogue

KINDS = (
    f"{KIND}Triton",
    f"{KIND}Cpp",
    f"{KIND}Template",
    f"{KIND}Foreach",
    f"{KIND}MixedOrder",
    f"{KIND}Library",
    KIND,
)
"""The final node of its scheduler is the group: a Triton kernel, a C++ loop nest, a
template with the operators fused into it, a kernel for many tensors, reductions in
two orders, a library call for several operators, or a node whose language is not in
the log."""

_GRAPH = "graph_[0-9]{1,9}_"
"""Prefix of the name of a kernel generated for the profiler on a CPU
(torch/_inductor/codegen/cpp.py, 2.6 to 2.13)."""

INDUCTOR = Fuser(
    NAME,
    "Inductor",
    KINDS,
    of_torchscript=False,
    limits=FuserLimits(
        since=(2, 6),
        where="torch 2.6 or newer, and Triton with a GPU, or a C++ compiler (g++, or CXX=PATH)",
    ),
    log=FuserLog(
        kernels_keep_names=True,
        before_kernel_names=_GRAPH,
        profile_names=(rf"(?:{_GRAPH})?cpp_fused\w*\Z|triton_\w+\Z",),
        profile_variables=variables.PROFILE,
        code_of_kernels=(("triton_", "triton"), ("cpp_", "cpp")),
    ),
    switches=FuserSwitches(
        variables_set=(variables.LOGS, variables.TRACE, *variables.OWN),
        own_variables=variables.OWN,
        off_by_variable=variables.OFF,
        log_list=(variables.LOGS, variables.ARTIFACTS),
        trace_variable=variables.TRACE,
    ),
    catalogue=FuserCatalogue(
        printing_variables=("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG"),
        knobs=knobs.KNOBS,
        variables=variables.VARIABLES,
        dumps=variables.DUMPS,
        variable_families=("TORCHINDUCTOR_",),
    ),
)
