"""torch.compile: Dynamo, whose frames Inductor compiles."""

from fusiondoc.fusers.frontend import Frontend
from fusiondoc.fusers.inductor.kinds import KIND

DYNAMO = Frontend(
    "dynamo",
    "torch.compile",
    fuser="inductor",
    group_prefix=KIND,
    compiles_python=True,
    without_plan="no code is known that torch.compile generated",
    nothing_compiled=(
        "Call what torch.compile returns;",
        "Dynamo skips the code of torch's own modules, so model.compile() of an nn.Sequential or nn.Linear"
        " compiles nothing, and torch.compile(model) does.",
    ),
)

CACHED = (
    "a cache of Inductor gave the code, so the log shows no decisions: run it with"
    " TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"
)
"""Why the scheduler's decisions and bytes of graphs are not known if a cache was
used."""

NO_BYTES = "the log has no bytes of graphs: TORCH_LOGS=+inductor_metrics shows them, and a run by check"
"""Why bytes of graphs are not known otherwise (the artifact is in torch 2.11 and
newer)."""
