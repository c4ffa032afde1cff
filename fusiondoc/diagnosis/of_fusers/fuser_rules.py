"""The rules for reasons that only one fuser has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusiondoc.diagnosis.operator_in_plan import Place
from fusiondoc.model.reasons import Refusal
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Remedy
from fusiondoc.parsers.jit.flow import FlowNode
from fusiondoc.parsers.lines.error_texts import FuserError


def _as_stated(place: Place, stated: Reason) -> Reason:
    return stated


def _no_refusal(node: FlowNode, torch: str | None) -> Refusal | None:
    return None


def _no_reason(place: Place) -> Reason | None:
    return None


@dataclass(frozen=True)
class FuserRules:
    """The rules of a fuser that need the graph around an operator; the facts alone
    are in its ``Fuser``."""

    refine: Callable[[Place, Reason], Reason] = _as_stated
    """The true cause behind a stated reason that names several, or the wrong
    one."""
    refusal: Callable[[FlowNode, str | None], Refusal | None] = _no_refusal
    """The condition of the fuser's rule that a node does not meet, by the version
    of torch where that is known; None where all that the log shows are met."""
    left: Callable[[Place], Reason | None] = _no_reason
    """The reason of an operator that no other rule explains."""
    unexplained: Remedy | None = None
    """What to do about an operator that it could take and does not, where no log
    tells why."""
    calls: Mapping[str, str | Remedy] = field(default_factory=dict)
    """Operators of which it takes some overloads -> how to call these."""
    conditions: Mapping[str, str | Remedy] = field(default_factory=dict)
    """``Stated.condition`` -> what to do."""
    causes_of_errors: Mapping[str | None, str | Remedy] = field(
        default_factory=dict
    )
    """``FuserError.cause``, else ``FuserError.kind``, of an error that ended the
    program -> what to do."""
    other_errors: str | Remedy | None = None
    """What to do about any other error of it that ended the program."""

    def remedy_of(self, error: FuserError) -> str | Remedy | None:
        """What to do about an error that ended the program."""
        if error.cause in self.causes_of_errors:
            return self.causes_of_errors[error.cause]
        return self.causes_of_errors.get(error.kind, self.other_errors)
