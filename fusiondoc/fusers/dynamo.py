"""torch.compile: Dynamo, whose frames Inductor compiles."""

from fusiondoc.fusers.frontend import Frontend
from fusiondoc.fusers.inductor.kinds import KIND

DYNAMO = Frontend(
    "dynamo",
    "torch.compile",
    fuser="inductor",
    group_prefix=KIND,
    compiles_python=True,
    without_plan="torch.compile made no code of any graph",
)
