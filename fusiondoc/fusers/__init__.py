"""The operators that each fuser takes: one module a fuser, with all facts that hold for this fuser alone.

"Takes" means: for some types, shapes and arguments. A rule may still refuse a node, say for a dimension that
is not a constant. Operators are given as printed (``aten::add``).
"""

from __future__ import annotations

from fusiondoc.fusers import legacy, nnc, nvfuser, onednn
from fusiondoc.model.numbers import version_pair
from fusiondoc.model.operators import VIEWS

BY_FUSER: dict[str, frozenset[str]] = {
    "nvfuser": frozenset(nvfuser.TAKES),
    "nnc": frozenset(nnc.TAKES),
    "onednn": onednn.TAKES,
    "legacy": legacy.TAKES,
}
"""Name of a fuser -> the operators that it can take into a group, in some version of torch."""

BY_ANY: frozenset[str] = frozenset().union(*BY_FUSER.values())


def fusible_by(op: str, torch: str | None = None) -> frozenset[str]:
    """The fusers that can take the operator into a group; with a version of torch, nvFuser only if its rules
    there do."""
    fusers = {fuser for fuser, ops in BY_FUSER.items() if op in ops}
    version = version_pair(torch) if torch is not None else None
    if version is not None and "nvfuser" in fusers and not nvfuser.TAKES[op].since <= version <= nvfuser.LAST:
        fusers.discard("nvfuser")
    return frozenset(fusers)


def taken_by(op: str, fuser: str, torch: str | None = None) -> bool:
    """Whether a fuser has a rule for the operator, for some arguments; without a version, in any version."""
    if torch is None:
        return op in BY_FUSER.get(fuser, ())
    return fuser in fusible_by(op, torch)


def takes_seldom(op: str, fuser: str | None) -> bool:
    """Whether a fuser takes the operator only with a knob or only on the CPU: nothing is lost next to it."""
    return fuser == "nnc" and op in nnc.SELDOM


def is_fusible(op: str) -> bool:
    """Whether some fuser can take the operator, and something is lost if none does: false for views."""
    return op in BY_ANY and op not in VIEWS
