"""Inductor, the default backend of torch.compile."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.inductor import variables
from fusiondoc.fusers.inductor.kinds import KIND

NAME = "inductor"

KINDS = (
    f"{KIND}Triton",
    f"{KIND}Cpp",
    f"{KIND}Template",
    f"{KIND}Foreach",
    f"{KIND}MixedOrder",
    f"{KIND}Library",
    KIND,
)
"""The final node of its scheduler is the group: a Triton kernel, a C++ loop nest, a template with what it
took in, a kernel for many tensors, reductions in two orders, a call of a library for several operators, or a
node of which the log does not tell the language."""

INDUCTOR = Fuser(
    NAME,
    "Inductor",
    KINDS,
    of_torchscript=False,
    since=(2, 6),
    printing_variables=("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG"),
    variables=variables.VARIABLES,
    variables_set=(variables.LOGS, variables.TRACE, *variables.OWN),
    own_variables=variables.OWN,
    log_list=(variables.LOGS, variables.ARTIFACTS),
    trace_variable=variables.TRACE,
    variable_families=("TORCHINDUCTOR_",),
)
