"""The true cause behind what nvFuser states of an operator."""

from __future__ import annotations

from fusiondoc.diagnosis.reasons_of_node import dimensions, dtype
from fusiondoc.diagnosis.surroundings import Place
from fusiondoc.model.report import Reason


def refine_nvfuser(place: Place, stated: Reason) -> Reason:
    """ "Node not parsible" also covers arguments that nvFuser's rule refuses, and "scalar type not supported"
    also tensors of too many dimensions (partition.cpp, isFusibleNode)."""
    if stated.code == "FD201" and place.takes(place.loose.op):
        text = "nvFuser has a rule for it, but not with these arguments (sizes or flags not constant)"
        return Reason(stated.code, text, True)
    if stated.code in ("FD202", "FD203"):
        cause = dimensions(place) or dtype(place)
        if cause is not None:
            return Reason(stated.code, cause.text, True)
    return stated
