"""The plan of a report, and the advice on an operator, without the rest of a
diagnosis."""

from __future__ import annotations

from fusiondoc.diagnosis import next_steps
from fusiondoc.diagnosis.advice import Advice
from fusiondoc.diagnosis.advice import advice_on as advice_on_change
from fusiondoc.diagnosis.changes_of_operators import change_of
from fusiondoc.diagnosis.rules import Context, RunFacts
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.model.report import Report, Unfused


def with_plan(report: Report, context: Context) -> Report:
    return next_steps.with_plan(
        report, context, SuggestedChanges.of(report, context)
    )


def advice_on(row: Unfused, run: RunFacts) -> Advice:
    return advice_on_change(row, run, change_of(row, run))
