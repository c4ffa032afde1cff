"""The registry of fusers, and what it answers for all of them.

All facts that hold for one fuser alone stand in modules of its name here: the operators that it takes
(``nnc.py``), its lines in logs (``nnc_log.py``). "Takes" means: for some types, shapes and arguments. A rule
may still refuse a node, say for a dimension that is not a constant.
"""

from __future__ import annotations

from functools import cache

from fusiondoc.fusers import legacy, nnc, nnc_log, nvfuser, nvfuser_log, onednn, onednn_log
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.numbers import version_pair
from fusiondoc.operators import VIEWS

NVFUSER = Fuser(
    "nvfuser",
    "nvFuser",
    "CudaFusionGroup",
    takes=frozenset(nvfuser.TAKES),
    taken_in=nvfuser.taken_in,
    since=nvfuser.OLDEST,
    until=nvfuser.LAST,
    devices=frozenset(("cuda",)),
    most_dimensions=nvfuser.MOST_DIMENSIONS,
    writes_to_stdout=True,
    pass_start=nvfuser_log.PASS_START,
    plan_header=nvfuser_log.PLAN_HEADER,
    guards=nvfuser_log.GUARDS,
    refusals=nvfuser_log.REFUSALS,
    words=nvfuser_log.WORDS,
    instead=("nnc",),
)
NNC = Fuser(
    "nnc",
    "NNC",
    "TensorExprGroup",
    takes=frozenset(nnc.TAKES),
    inference_only=nnc.INFERENCE_ONLY,
    seldom=nnc.SELDOM,
    pulled_in=nnc.PULLED_IN,
    announces_runs=False,
    pass_start=nnc_log.PASS_START,
    plan_header=nnc_log.PLAN_HEADER,
    guards=nnc_log.GUARDS,
    words=nnc_log.WORDS,
    instead=("nvfuser", "onednn"),
)
ONEDNN = Fuser(
    "onednn",
    "oneDNN Graph",
    "oneDNNFusionGroup",
    takes=onednn.TAKES,
    since=onednn.OLDEST,
    devices=frozenset(("cpu",)),
    in_training=False,
    one_library_call=True,
    exact_sizes=True,  # seen with a dynamic fusion strategy on torch 2.13
    writes_to_stdout=True,
    guards=onednn_log.GUARDS,
    instead=("nnc",),
)
LEGACY = Fuser(
    "legacy",
    "the legacy fuser",
    "FusionGroup",
    takes=legacy.TAKES,
    can_be_requested=False,
    instead=("nnc",),
)

FUSERS: dict[str, Fuser] = {}
"""Every fuser by its name."""

FUSER_OF_KIND: dict[str, Fuser] = {}
"""Kind of a fusion group -> its fuser."""


def register(fuser: Fuser) -> None:
    """Add a fuser, before modules that read logs are imported: they make their tables from the registry."""
    FUSERS[fuser.name] = fuser
    FUSER_OF_KIND[fuser.kind] = fuser


for _fuser in (NVFUSER, NNC, ONEDNN, LEGACY):
    register(_fuser)


_WITHOUT_FACTS = Fuser("", "the fuser", "")


def facts_of(name: str | None) -> Fuser:
    """The fuser of that name; one without any facts where it is not known which ran, or none did."""
    return FUSERS.get(name or "", _WITHOUT_FACTS)


def plan_headers() -> tuple[str, ...]:
    """Headers of the plans that fusion passes leave."""
    return tuple(fuser.plan_header for fuser in FUSERS.values() if fuser.plan_header is not None)


def choices() -> tuple[str, ...]:
    """What can be requested for a run: a fuser by name, or none at all."""
    return (*(fuser.name for fuser in FUSERS.values() if fuser.can_be_requested), "none")


def requests() -> tuple[str, ...]:
    """What ``--fuser`` takes; "auto" leaves the choice to what this torch has."""
    return ("auto", *choices())


def at_work() -> tuple[str, ...]:
    """What a log can show at work."""
    return (*FUSERS, "none")


def may_write_to_stdout(name: str | None) -> bool:
    """Whether the fuser of a run may print to stdout: true of one that the registry does not have."""
    return name not in at_work() or facts_of(name).writes_to_stdout


TE = "te"
"""The operation fuser of Transformer Engine: a frontend with a fuser of its own."""

TE_KIND = "te.ops."
"""How ``Group.kind`` of its groups begins; the class of the fused operator follows."""


def is_te(name: str) -> bool:
    """Whether the kind of a group, or an operator, is Transformer Engine's."""
    return name.startswith(TE_KIND)


AOT = "aot"
"""AOTAutograd in front of TorchScript and its fusers."""

FRONTENDS = ("auto", "torchscript", AOT, TE)
"""What ``--frontend`` takes."""

RECIPES = ("none", "delayed", "current", "block", "mxfp8", "nvfp4")
"""What ``--recipe`` takes: recipes of Transformer Engine."""


def fuser_title(name: str) -> str:
    """The fuser as a sentence names it; another name, such as none, as it is."""
    if name == TE:
        return "the operation fuser of Transformer Engine"
    return FUSERS[name].title if name in FUSERS else name


def takers(effective: str | None, te: bool) -> str:
    """What could take an operator, as a sentence names it; ``te``: Transformer Engine was at work too."""
    if effective == TE:
        return "Transformer Engine"
    name = fuser_title(effective) if effective in FUSERS else "the fuser"
    return f"{name} and Transformer Engine" if te else name


@cache
def taken_by_any() -> frozenset[str]:
    """The operators that some fuser can take, in some version of torch."""
    return frozenset().union(*(fuser.takes for fuser in FUSERS.values()))


def fusible_by(op: str, torch: str | None = None) -> frozenset[str]:
    """The fusers that can take the operator into a group; with a version of torch, only those whose rules of
    that version do."""
    version = version_pair(torch) if torch is not None else None
    return frozenset(fuser.name for fuser in FUSERS.values() if _takes(fuser, op, version))


def _takes(fuser: Fuser, op: str, version: tuple[int, int] | None) -> bool:
    if fuser.taken_in is None or version is None:
        return op in fuser.takes
    if fuser.until is not None and version > fuser.until:
        return False
    return op in fuser.taken_in(version)


def taken_by(op: str, fuser: str, torch: str | None = None) -> bool:
    """Whether a fuser has a rule for the operator, for some arguments; without a version, in any version."""
    if torch is None:
        return fuser in FUSERS and op in FUSERS[fuser].takes
    return fuser in fusible_by(op, torch)


def takes_seldom(op: str, fuser: str | None) -> bool:
    """Whether a fuser takes the operator only with a knob or only on the CPU: nothing is lost next to it."""
    return op in facts_of(fuser).seldom


def is_fusible(op: str) -> bool:
    """Whether some fuser can take the operator, and something is lost if none does: false for views."""
    return op in taken_by_any() and op not in VIEWS
