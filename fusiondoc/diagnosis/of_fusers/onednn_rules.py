"""oneDNN Graph: the reason of an operator that it could take and did not."""

from __future__ import annotations

from fusiondoc.diagnosis.of_fusers.fuser_rules import FuserRules
from fusiondoc.diagnosis.operator_in_plan import OperatorInPlan
from fusiondoc.model.reasons import NotKnown
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import nothing


def _left(operator: OperatorInPlan) -> Reason | None:
    """FD299: the library chooses its partitions, and logs no reason."""
    if operator.takes(operator.node.op):
        return Reason.of("FD299", NotKnown("onednn"))
    return None


RULES = FuserRules(
    left=_left,
    unexplained=nothing(
        "Nothing: its partitions are chains of certain operators, such as a convolution with an addition."
    ),
)
