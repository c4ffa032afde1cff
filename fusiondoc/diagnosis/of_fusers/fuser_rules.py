"""The rules for reasons that differ between fusers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusiondoc.diagnosis.operator_in_plan import OperatorInPlan
from fusiondoc.model.reasons import Refusal
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Remedy
from fusiondoc.parsers.jit.flow import FlowNode
from fusiondoc.parsers.lines.error_texts import FuserError


def _as_stated(operator: OperatorInPlan, stated: Reason) -> Reason:
    return stated


def _no_refusal(node: FlowNode, torch: str | None) -> Refusal | None:
    return None


def _no_reason(operator: OperatorInPlan) -> Reason | None:
    return None


@dataclass(frozen=True)
class FuserRules:
    """The rules of a fuser that need the graph around an operator; plain facts
    about the fuser are in its ``Fuser``."""

    refine: Callable[[OperatorInPlan, Reason], Reason] = _as_stated
    """Returns the true cause behind a stated reason that names several causes, or
    the wrong one."""
    refusal: Callable[[FlowNode, str | None], Refusal | None] = _no_refusal
    """Returns the condition of the fuser's rule that a node does not meet, by the
    version of torch if known; None if it meets all that the log shows."""
    left: Callable[[OperatorInPlan], Reason | None] = _no_reason
    """Returns the reason of an operator that no other rule explains."""
    unexplained: Remedy | None = None
    """The remedy for an operator that the fuser could take and does not, if no log
    shows why."""
    calls: Mapping[str, str | Remedy] = field(default_factory=dict)
    """Operators of which it takes only some overloads -> how to call these."""
    conditions: Mapping[str, str | Remedy] = field(default_factory=dict)
    """``Stated.condition`` -> remedy."""
    causes_of_errors: Mapping[str | None, str | Remedy] = field(
        default_factory=dict
    )
    """``FuserError.cause``, else ``FuserError.kind``, of an error that ended the
    program -> remedy."""
    other_errors: str | Remedy | None = None
    """The remedy for any other error of the fuser that ended the program."""

    def remedy_of(self, error: FuserError) -> str | Remedy | None:
        """Return the remedy for an error that ended the program."""
        if error.cause in self.causes_of_errors:
            return self.causes_of_errors[error.cause]
        return self.causes_of_errors.get(error.kind, self.other_errors)
