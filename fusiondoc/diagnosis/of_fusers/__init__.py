"""The rules of each fuser for reasons and remedies: one module for each fuser, and
the table of them."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.diagnosis.of_fusers import nnc_rules, nvfuser_rules, onednn_rules
from fusiondoc.diagnosis.of_fusers.fuser_rules import FuserRules
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Report
from fusiondoc.parsers.observed import Observed

_RULES: Mapping[str, FuserRules] = {
    "nvfuser": nvfuser_rules.RULES,
    "nnc": nnc_rules.RULES,
    "onednn": onednn_rules.RULES,
}
"""Name of a fuser -> its rules; a fuser without an entry has only the general
rules."""

_NO_RULES = FuserRules()

OF_UNKNOWN = "nvfuser"
"""The fuser whose rules refine a stated reason if the log does not show which fuser
ran."""


def rules_of(fuser: str | None) -> FuserRules:
    """Return the rules of the fuser of that name; empty rules if it has none, or is
    not known."""
    return _RULES.get(fuser or "", _NO_RULES)


def with_compiled(
    report: Report, observed: Observed, requested: str | None
) -> Report:
    """Return the report with the rows of torch.compile, if it was at work.

    Args:
        requested: the fuser that the run was requested with.
    """
    if observed.compilation is None:
        return report
    from fusiondoc.diagnosis.of_fusers.inductor_report import (
        inductor_report,
    )  # few reports need it

    return inductor_report(report, observed.compilation, requested, observed.files)


def remedy_of_condition(condition: str) -> str | Remedy | None:
    """Return the remedy for a condition that a fuser states and that an operator
    does not meet."""
    found = (rules.conditions.get(condition) for rules in _RULES.values())
    return next((remedy for remedy in found if remedy is not None), None)
