"""oneDNN Graph: hands partitions of frozen modules to the library oneDNN, on the CPU."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_limits import FuserLimits
from fusiondoc.fusers.fuser_log import FuserLog
from fusiondoc.fusers.fuser_switches import FuserSwitches
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.knob_rows import FuserCatalogue
from fusiondoc.fusers.onednn import knobs, log, takes
from fusiondoc.fusers.taken_operators import TakenOperators

ONEDNN = Fuser(
    "onednn",
    "oneDNN Graph",
    ("oneDNNFusionGroup",),
    instead=("nnc",),
    operators=TakenOperators(
        takes=takes.TAKES,
        one_library_call=True,
    ),
    limits=FuserLimits(
        since=takes.OLDEST,
        where="torch 1.12 or newer for x86-64",
        devices=frozenset(("cpu",)),
        in_training=False,
        partitions=True,
        exact_sizes=True,  # seen with a dynamic fusion strategy on torch 2.13
    ),
    log=FuserLog(
        stdout_marks=log.STDOUT_MARKS,
        indented=log.INDENTED,
        profile_names=(log.IN_A_PROFILE,),
        writes_to_stdout=True,
        guards=log.GUARDS,
    ),
    switches=FuserSwitches(
        log_level=knobs.LOG_LEVEL,
        variables_set=("ONEDNN_VERBOSE", "ONEDNN_GRAPH_VERBOSE", "DNNL_VERBOSE"),
    ),
    catalogue=FuserCatalogue(
        printing_variables=("ONEDNN_VERBOSE", "DNNL_VERBOSE"),
        knobs=knobs.KNOBS,
        dumps=knobs.DUMPS,
        usual_dumps=("onednn_verbose",),
        log_files=knobs.LOG_FILES,
    ),
    words=FuserWords(
        left_out="oneDNN Graph chose its partitions without it, and logs no reason",
    ),
)
