"""oneDNN Graph: hands partitions of frozen modules to the library oneDNN, on the
CPU."""

from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.fuser_words import FuserWords
from fusiondoc.fusers.onednn import knobs, log, takes

ONEDNN = Fuser(
    "onednn",
    "oneDNN Graph",
    ("oneDNNFusionGroup",),
    instead=("nnc",),
    operators=takes.OPERATORS,
    limits=takes.LIMITS,
    log=log.LOG,
    switches=knobs.SWITCHES,
    catalogue=knobs.CATALOGUE,
    words=FuserWords(
        left_out="oneDNN Graph chose its partitions without it, and logs no reason",
    ),
)
