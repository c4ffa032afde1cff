"""oneDNN Graph: hands partitions of frozen modules to the library oneDNN, on the CPU."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.onednn import knobs, log, takes

ONEDNN = Fuser(
    "onednn",
    "oneDNN Graph",
    ("oneDNNFusionGroup",),
    takes=takes.TAKES,
    since=takes.OLDEST,
    devices=frozenset(("cpu",)),
    in_training=False,
    one_library_call=True,
    printing_variables=("ONEDNN_VERBOSE", "DNNL_VERBOSE"),
    knobs=knobs.KNOBS,
    dumps=knobs.DUMPS,
    usual_dumps=("onednn_verbose",),
    log_level=knobs.LOG_LEVEL,
    log_files=knobs.LOG_FILES,
    partitions=True,
    stdout_marks=log.STDOUT_MARKS,
    profile_names=(log.IN_A_PROFILE,),
    variables_set=("ONEDNN_VERBOSE", "ONEDNN_GRAPH_VERBOSE", "DNNL_VERBOSE"),
    exact_sizes=True,  # seen with a dynamic fusion strategy on torch 2.13
    writes_to_stdout=True,
    guards=log.GUARDS,
    left_out="oneDNN Graph chose its partitions without it, and logs no reason",
    instead=("nnc",),
)
