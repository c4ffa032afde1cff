"""The true cause behind what nvFuser states of an operator."""

from __future__ import annotations

from fusiondoc.diagnosis.nvfuser_rules import refused_because
from fusiondoc.diagnosis.reasons_of_node import dimensions, dtype
from fusiondoc.diagnosis.surroundings import Place
from fusiondoc.model.report import Reason


def refine_nvfuser(place: Place, stated: Reason) -> Reason:
    """What nvFuser calls "not parsible" may be an overload or an argument that its rule refuses, and "scalar
    type not supported" a tensor of too many dimensions (partition.cpp, isFusibleNode)."""
    if stated.code == "FD201" and place.takes(place.loose.op):
        cause = refused_because(place.node, place.loose.op, place.torch)
        text = (
            cause
            or "nvFuser has a rule for it, and refused it here for an argument that the log does not show"
        )
        return Reason(stated.code, text, True)
    if stated.code in ("FD202", "FD203"):
        found = dimensions(place) or dtype(place)
        if found is not None:
            return Reason(stated.code, found.text, True)
    return stated
