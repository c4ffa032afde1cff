"""Why an operator is in no group, derived from the plan if the log does not state
it.

Each rule looks at one operator and its neighbours and returns a reason or None; the
first reason wins. Reasons in the operator itself (its name, types, device:
reasons_of_node.py) come before those from its position in the graph
(surroundings.py). There is no rule for all that is left: such operators stay FD299.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.differentiable_graphs import (
    cuts_region,
    gradient,
    no_pass_looked,
)
from fusiondoc.diagnosis.kept_out import kept_out
from fusiondoc.diagnosis.of_fusers import OF_UNKNOWN, rules_of
from fusiondoc.diagnosis.operator_in_plan import OperatorInPlan, Rule
from fusiondoc.diagnosis.reasons_of_node import (
    bookkeeping,
    control_flow,
    device,
    dimensions,
    dtype,
    in_place,
    many_arguments,
    no_rule,
    nothing_to_gain,
    untyped,
)
from fusiondoc.diagnosis.surroundings import read_before, surroundings
from fusiondoc.fusers import FUSERS, is_fusible
from fusiondoc.model.reasons import NotOptimised
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.parsers.jit.flow import Flow
from fusiondoc.parsers.rows.unfused_rows import Outside

CATCH_ALL = ("FD201", "FD211", "FD212", "FD214")
"""Codes that the fusers state for everything that they do not know: also for
branches, loops, views and operators that change a tensor in place, for which there
is a more precise reason."""

_OF_KIND: tuple[Rule, ...] = (
    control_flow,
    bookkeeping,
    cuts_region,
    nothing_to_gain,
    in_place,
)
_OF_TYPES: tuple[Rule, ...] = (dtype, dimensions, device, no_rule)
"""Rules on the operator, its types and the fuser only."""
_OF_PLACE: tuple[Rule, ...] = (
    gradient,
    untyped,
    many_arguments,
    read_before,
    surroundings,
)
"""Rules on the operator's position in the graph, in this order."""

_MOST_KNOWN = 4096
"""Operators with types whose reason is cached, at most: plans repeat few different
ones."""


def _first(rules: tuple[Rule, ...], operator: OperatorInPlan) -> Reason | None:
    for rule in rules:
        found = rule(operator)
        if found is not None:
            return found
    return None


def _fuser_off(by: str | None) -> Reason | None:
    if by is None:
        return None
    return Reason.of("FD104", NotOptimised("fuser_off", by))


class Reasons:
    """Derives reasons.

    Args:
        requested: the requested fuser, if known.
        off: why no fuser was on at all, though one was requested; ``off_later``:
            why none was on any more, so that no fusion pass looked at some plans.
        torch: the version that ran, if known; else the lines that the log's
            messages name may show it. If neither does, the rules are those of the
            newest version that has the fuser.
    """

    def __init__(
        self,
        requested: str | None = None,
        torch: str | None = None,
        off: str | None = None,
        off_later: str | None = None,
    ) -> None:
        self._requested = requested
        self._off = _fuser_off(
            "every fuser is off (--fuser none)" if requested == "none" else off
        )
        self._off_later = _fuser_off(off_later)
        self._torch = torch
        self._known: dict[tuple[object, ...], Reason | None] = {}

    def __call__(self, outside: Outside) -> Reason | None:
        fuser = outside.fuser
        if self._off is not None and is_fusible(outside.node.op):
            return self._off
        if fuser is None and self._requested in FUSERS:
            fuser = self._requested
        operator = OperatorInPlan(outside, fuser, self._torch or outside.release)
        found = (
            _first(_OF_KIND, operator)
            or self._of_types(operator)
            or _first(_OF_PLACE, operator)
        )
        if found is None:
            return rules_of(operator.fuser).left(operator)
        if self._off_later is not None and no_pass_looked(found.detail):
            return self._off_later
        return found

    def _of_types(self, operator: OperatorInPlan) -> Reason | None:
        """Return the reason that depends on the operator and its types only.
        Cached."""
        key = (
            operator.loose.op,
            operator.node.inputs,
            operator.node.outputs,
            operator.fuser,
            operator.torch,
        )
        try:
            return self._known[key]
        except KeyError:
            pass
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._known[key] = _first(_OF_TYPES, operator)
        return found

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """Return the true cause behind a stated reason that names several causes,
        or the wrong one."""
        operator = OperatorInPlan(
            outside, outside.fuser or OF_UNKNOWN, self._torch or outside.release
        )
        if stated.code in CATCH_ALL:
            cause = _first(_OF_KIND, operator)
            if cause is not None:
                return cause
        if stated.code == "FD216":
            around = surroundings(operator)
            if (
                around is not None
                and around.code == "FD227"
                and around.detail is not None
            ):
                return Reason.of(stated.code, around.detail, stated=True)
        return rules_of(operator.fuser).refine(operator, stated)

    def kept_out(
        self, flow: Flow, fuser: str | None, reasons: Mapping[int, str]
    ) -> Mapping[int, AbstractSet[int]]:
        """Return the operators that each barrier keeps out of groups."""
        fuser = fuser or self._requested
        if fuser in FUSERS:
            return kept_out(flow, fuser, reasons)
        return {}
