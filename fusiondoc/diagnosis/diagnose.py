"""Runs every rule over a report."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.diagnosis import (
    rules_environment,
    rules_failures,
    rules_kernels,
    rules_launches,
    rules_log,
    rules_nodes,
    rules_numbers,
    rules_runs,
    rules_toolchain,
)
from fusiondoc.diagnosis.context import Context, Rule
from fusiondoc.diagnosis.coverage import coverage
from fusiondoc.diagnosis.rerun import with_errors
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.diagnosis.tried import with_tries
from fusiondoc.model import SEVERITIES, Finding, Report

RULES: tuple[Rule, ...] = (
    *rules_toolchain.RULES,
    *rules_failures.RULES,
    *rules_environment.RULES,
    *rules_numbers.RULES,
    *rules_runs.RULES,
    *rules_kernels.RULES,
    *rules_launches.RULES,
    *rules_nodes.RULES,
    *rules_log.RULES,
)


def diagnose(report: Report, context: Context) -> Report:
    """The report with its findings, worst first, and its coverage."""
    report = with_speed_of_light(with_errors(report, context.rerun))
    findings = [finding for rule in RULES for finding in rule(report, context)]
    findings = with_tries(findings, report.tries)
    findings.sort(key=_badness)
    return replace(report, findings=tuple(findings), coverage=coverage(report))


def _badness(finding: Finding) -> tuple[int, int]:
    """Worst first, and of equally bad ones first what saves most when it is fixed."""
    return SEVERITIES.index(finding.severity), -(finding.saves_bytes or 0)
