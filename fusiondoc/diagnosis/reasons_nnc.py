"""The true cause behind what NNC states of an operator."""

from __future__ import annotations

from fusiondoc.diagnosis.reasons_of_node import no_rule
from fusiondoc.diagnosis.surroundings import Place
from fusiondoc.model.report import Reason


def refine_nnc(place: Place, stated: Reason) -> Reason:
    """Shapes are asked for before the lowering: of an operator without one, they are not what it lacks."""
    if stated.code == "FD212":
        return no_rule(place) or stated
    return stated
