"""Limits for all models of a file (``all``), as further expectations of each
section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from fusiondoc.expectations import (
    Expectations,
    ExpectationSection,
    Findings,
    ModelLimits,
    Policy,
    PolicyException,
    StepLimits,
)
from fusiondoc.expectations.gate import FUSER_FAILED, FUSER_OFF, gate
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation


def gate_with_policy(
    section: ExpectationSection,
    expectations: Expectations,
    report: Report,
    today: date,
) -> list[Expectation]:
    """Return the outcomes of a section and of the limits for all models, as rows of
    the report."""
    rows = gate(section, report, expectations.file)
    policy = expectations.policy
    if policy is None:
        return rows
    limits = policy_section(section.name, policy, today)
    # The section has rows already for a fuser that is off, and for a failure of the
    # fused run alone.
    for row in gate(limits, report, expectations.file):
        if row.code not in (FUSER_OFF, FUSER_FAILED):
            rows.append(row)
    return rows


def policy_section(name: str, policy: Policy, today: date) -> ExpectationSection:
    """The limits for the section of this name, as a section, with the exceptions
    that are still valid."""
    limits, allowed = policy.limits, set[str]()
    for exception in policy.exceptions:
        if is_for(exception, name) and exception.until >= today:
            limits = _over(limits, exception.limits)
            allowed.update(exception.allow)
    return ExpectationSection(
        name=name,
        path=("all",),
        at=policy.at,
        max_fallbacks=limits.max_fallbacks,
        min_coverage=limits.min_coverage,
        steps=StepLimits(max_ms=limits.max_step_ms),
        findings=Findings(
            forbid=tuple(code for code in policy.no if code not in allowed)
        ),
        positions=policy.positions,
    )


def is_for(exception: PolicyException, name: str) -> bool:
    """True if one of its patterns matches the section's name: ``*`` is any text."""
    return any(fnmatchcase(name, pattern) for pattern in exception.model)


def _over(limits: ModelLimits, others: ModelLimits) -> ModelLimits:
    """Return the limits, overridden by those of an exception."""
    given = {}
    for name, value in vars(others).items():
        if value is not None:
            given[name] = value
    return replace(limits, **given)


def notes_on_exceptions(expectations: Expectations, today: date) -> Sequence[str]:
    """A sentence on each exception that has ended, or that matches no section of
    the file."""
    return list(_notes(expectations, today))


def _notes(expectations: Expectations, today: date) -> Iterator[str]:
    policy = expectations.policy
    names = [section.name for section in expectations.sections]
    for exception in policy.exceptions if policy is not None else ():
        line = f"{expectations.file}:{exception.at.line}: the exception for {', '.join(exception.model)}"
        if exception.until < today:
            yield f"{line} ended on {exception.until}: {exception.reason}"
        elif names and not any(is_for(exception, name) for name in names):
            yield f"{line} matches no section of this file"
