"""Why an operator is in no group, worked out from the plan where the log does not state it.

Each rule looks at one operator and what stands around it and gives a reason or nothing; the first that
gives one wins. What rules an operator out for itself (its kind, types, device) comes before what its place
in the graph does. A rule that would take whatever is left does not exist: such operators stay FD299."""

from __future__ import annotations

from typing import AbstractSet, Mapping

from fusiondoc.diagnosis.barriers import kept_out
from fusiondoc.diagnosis.operators import BY_FUSER, is_fusible
from fusiondoc.diagnosis.reasons_nnc import refine_nnc
from fusiondoc.diagnosis.reasons_nvfuser import refine_nvfuser
from fusiondoc.diagnosis.reasons_of_gradients import cuts_region, gradient
from fusiondoc.diagnosis.reasons_of_neighbours import many_arguments, read_before, surroundings
from fusiondoc.diagnosis.reasons_of_node import (
    bookkeeping,
    control_flow,
    device,
    dimensions,
    dtype,
    in_place,
    no_rule,
    nothing_to_gain,
    untyped,
)
from fusiondoc.diagnosis.surroundings import Place, Rule, reason
from fusiondoc.model.fusers import FUSERS
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import Flow
from fusiondoc.parsers.rows.unfused_rows import Outside

CATCH_ALL = ("FD201", "FD211", "FD212", "FD214")
"""What the fusers state of everything that they do not know: also of branches, loops, views and operators
that change a tensor in place, for which there is a better word."""

RULES: tuple[Rule, ...] = (
    control_flow,
    bookkeeping,
    cuts_region,
    nothing_to_gain,
    in_place,
    dtype,
    dimensions,
    device,
    no_rule,
    gradient,
    untyped,
    many_arguments,
    read_before,
    surroundings,
)


class Reasons:
    """Works out reasons; ``requested`` is the fuser that was asked for, where that is known."""

    def __init__(self, requested: str | None = None) -> None:
        self._requested = requested

    def __call__(self, outside: Outside) -> Reason | None:
        fuser = outside.fuser
        if self._requested == "none" and is_fusible(outside.node.op):
            return reason("FD104", "every fuser is off (--fuser none)")
        if fuser is None and self._requested in FUSERS:
            fuser = self._requested
        place = Place(outside, fuser)
        for rule in RULES:
            found = rule(place)
            if found is not None:
                return found
        return None

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """The true cause behind a stated reason that names several, or the wrong one."""
        place = Place(outside, outside.fuser or "nvfuser")
        if stated.code in CATCH_ALL:
            for rule in (control_flow, bookkeeping, cuts_region, nothing_to_gain, in_place):
                cause = rule(place)
                if cause is not None:
                    return cause
        return refine_nnc(place, stated) if place.fuser == "nnc" else refine_nvfuser(place, stated)

    def kept_out(
        self, flow: Flow, fuser: str | None, reasons: Mapping[int, str]
    ) -> Mapping[int, AbstractSet[int]]:
        """What each barrier keeps out of groups (``diagnosis/barriers.py``)."""
        fuser = fuser or self._requested
        return kept_out(flow, fuser, reasons) if fuser in BY_FUSER else {}
