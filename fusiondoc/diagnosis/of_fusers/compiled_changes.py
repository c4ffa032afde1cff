"""What to change in a program so that torch.compile fuses more of it (for the plan).

By the findings on breaks, recompiles, calls and boundaries that something of the program causes. What a
change saves is known after it alone; the sentences have the bytes that go through memory now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusiondoc.diagnosis.changes_for_findings import step_of
from fusiondoc.diagnosis.planned_changes import Step
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Finding, Report

_KINDS: Mapping[str, ChangeKind] = {
    "FD121": ChangeKind.MOVE,
    "FD122": ChangeKind.DYNAMIC_SHAPES,
    "FD252": ChangeKind.RECIPE,
    "FD254": ChangeKind.RECIPE,
    "FD262": ChangeKind.MOVE_VIEW,
    "FD263": ChangeKind.MOVE_VIEW,
    "FD264": ChangeKind.MOVE_VIEW,
    "FD267": ChangeKind.DIMENSIONS,
    "FD271": ChangeKind.OUT_OF_PLACE,
    "FD272": ChangeKind.DEVICE,
}
"""Code of a finding -> what is changed. A code that is not here has no change of the program."""

_FIRST = ("FD121", "FD122")
"""Before all others: what they bring is not known in bytes."""


def compiled_changes(report: Report, context: Context) -> list[Step]:
    """The changes: breaks and recompiles first, then what moves most bytes."""
    found = [one for one in report.findings if one.code in _KINDS and one.severity == "warning"]
    found.sort(key=_rank)
    steps = []
    for finding in found:
        step = step_of(finding, report, context)
        change = replace(step.change, kind=_KINDS[finding.code])
        steps.append(replace(step, change=change, ops=finding.ops, bytes=None))
    return steps


def _rank(finding: Finding) -> tuple[int, int]:
    order = _FIRST.index(finding.code) if finding.code in _FIRST else len(_FIRST)
    return order, -(finding.saves_bytes or 0)
