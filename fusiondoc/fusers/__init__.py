"""The registry of fusers, and what it answers for all of them.

All facts that hold for one fuser alone stand in a folder of its name here, with a module a concern: the
operators that it takes (``takes.py``), its lines in logs (``log.py``). "Takes" means: for some types, shapes
and arguments. A rule may still refuse a node, say for a dimension that is not a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from fusiondoc.fusers import inductor
from fusiondoc.fusers.fuser import Fuser
from fusiondoc.fusers.inductor.kinds import KIND
from fusiondoc.fusers.legacy import LEGACY
from fusiondoc.fusers.nnc import NNC
from fusiondoc.fusers.nvfuser import NVFUSER
from fusiondoc.fusers.onednn import ONEDNN
from fusiondoc.numbers import version_pair
from fusiondoc.operators import VIEWS

if TYPE_CHECKING:
    from fusiondoc.fusers.inductor.compilation import Compilation as Compilation

FUSERS: dict[str, Fuser] = {}
"""Every fuser by its name."""

FUSER_OF_KIND: dict[str, Fuser] = {}
"""Kind of a fusion group -> its fuser."""


def register(fuser: Fuser) -> None:
    """Add a fuser, before modules that read logs are imported: they make their tables from the registry."""
    FUSERS[fuser.name] = fuser
    FUSER_OF_KIND.update(dict.fromkeys(fuser.kinds, fuser))


for _fuser in (NVFUSER, NNC, ONEDNN, LEGACY):
    register(_fuser)


_WITHOUT_FACTS = Fuser("", "the fuser", (), instead=(NNC.name,))


def facts_of(name: str | None) -> Fuser:
    """The fuser of that name; one without any facts where it is not known which ran, or none did."""
    return FUSERS.get(name or "", _WITHOUT_FACTS)


def group_nodes() -> dict[str, str]:
    """Kind of a node that holds a fusion group (``prim::CudaFusionGroup``) -> ``Group.kind``."""
    return {node: kind for fuser in FUSERS.values() for node, kind in fuser.nodes.items()}


def plan_headers() -> tuple[str, ...]:
    """Headers of the plans that fusion passes leave."""
    return tuple(fuser.plan_header for fuser in FUSERS.values() if fuser.plan_header is not None)


def inner_graphs() -> frozenset[str]:
    """Nodes of fusion passes, other than those of groups, that print a graph of their own."""
    return frozenset().union(*(fuser.inner_graphs for fuser in FUSERS.values()))


@cache
def views_of_any() -> frozenset[str]:
    """Views for which some fuser has a stand-in in its groups."""
    return frozenset(view for fuser in FUSERS.values() for view in fuser.stand_ins.values())


@cache
def stand_ins() -> dict[str, str]:
    """Operators of fusion passes that stand for views in groups -> these views. They refuse to run
    outside."""
    return {node: view for fuser in FUSERS.values() for node, view in fuser.stand_ins.items()}


@cache
def scalar_types() -> frozenset[str]:
    """Scalar types of tensors that groups of some fuser take."""
    return frozenset().union(*(fuser.dtypes or frozenset() for fuser in FUSERS.values()))


@cache
def sized_reductions() -> frozenset[str]:
    """Reductions whose size some fuser computes alone."""
    return frozenset().union(*(fuser.sized_reductions for fuser in FUSERS.values()))


@cache
def with_dimensions_only() -> frozenset[str]:
    """Reductions of which some fuser takes no overload over all dimensions."""
    return frozenset().union(*(fuser.with_dimensions_only for fuser in FUSERS.values()))


@cache
def by_constant_dimension() -> frozenset[str]:
    """Operators whose `dim` has to be a constant for some fuser."""
    return frozenset().union(*(fuser.by_constant_dimension for fuser in FUSERS.values()))


def operators_of_knobs() -> dict[str, frozenset[str]]:
    """Knob -> the operators that a fuser takes only with it."""
    knobs = (fuser.with_knob for fuser in FUSERS.values() if fuser.with_knob is not None)
    return {knob.knob: knob.operators for knob in knobs}


def taken_by_default(op: str) -> bool:
    """Whether all fusers take an operator that may run where none is chosen."""
    return all(op in fuser.takes for fuser in FUSERS.values() if fuser.by_default)


def stdout_marks() -> tuple[bytes, ...]:
    """How lines begin that libraries of fusers print to stdout."""
    return tuple(mark for fuser in FUSERS.values() for mark in fuser.stdout_marks)


def pass_files() -> tuple[str, ...]:
    """Files of torch that print what fusion passes do."""
    return tuple(fuser.pass_file for fuser in FUSERS.values() if fuser.pass_file is not None)


def variables_set() -> tuple[str, ...]:
    """Environment variables of fusers that fusiondoc sets."""
    return tuple(name for fuser in FUSERS.values() for name in fuser.variables_set)


def titles(holds: Callable[[Fuser], object]) -> str:
    """The fusers for which something holds, as a sentence names them."""
    return " and ".join(fuser.title for fuser in FUSERS.values() if holds(fuser))


def with_evaluator() -> str:
    """The title of what runs groups through an evaluator where torch has no compiler for the CPU."""
    return titles(lambda fuser: fuser.evaluator_without_llvm)


def how_to_leave_out() -> str:
    """``nvFuser: --knob skip_node_kind=OPERATOR``: how operators are kept out of groups."""
    known = [fuser for fuser in FUSERS.values() if fuser.knob_to_leave_out is not None]
    return ", ".join(f"{fuser.title}: --knob {fuser.knob_to_leave_out}" for fuser in known)


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
TE_MODULE = "transformer_engine"
TE_PACKAGE = "Transformer Engine"
"""How sentences name the package of ``te.ops``."""
"""The operation fuser of Transformer Engine: a frontend with a fuser of its own."""

TE_KIND = "te.ops."
"""How ``Group.kind`` of its groups begins; the class of the fused operator follows."""


def is_te(name: str) -> bool:
    """Whether the kind of a group, or an operator, is Transformer Engine's."""
    return name.startswith(TE_KIND)


def is_compiled(kind: str) -> bool:
    """Whether the kind of a group is one of torch.compile's."""
    return kind.startswith(KIND)


COMPILER = inductor.VARIANT
"""The variant of a bench that torch.compile makes with its default backend."""

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
