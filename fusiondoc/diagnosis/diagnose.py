"""Runs every rule over a report."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.diagnosis.changes import with_tries
from fusiondoc.diagnosis.coverage import coverage
from fusiondoc.diagnosis.fallback_errors import with_errors
from fusiondoc.diagnosis.rules import (
    fd0_environment,
    fd1_runs,
    fd2_nodes,
    fd3_failures,
    fd4_kernels,
    fd4_launches,
    fd5_numbers,
    fd9_log,
)
from fusiondoc.diagnosis.rules.rule import Context, Rule
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.model.report import SEVERITIES, Finding, Report

RULES: tuple[Rule, ...] = (
    *fd3_failures.RULES,
    *fd0_environment.RULES,
    *fd5_numbers.RULES,
    *fd1_runs.RULES,
    *fd9_log.RULES,
    *fd4_kernels.RULES,
    *fd4_launches.RULES,
    *fd2_nodes.RULES,
    *fd9_log.LAST,
)


def diagnose(report: Report, context: Context) -> Report:
    """The report with its findings, worst first, and its coverage."""
    report = with_speed_of_light(with_errors(report, context.rerun))
    findings = [finding for rule in RULES for finding in rule(report, context)]
    findings = with_tries(findings, report.tries)
    findings.sort(key=_badness)
    return replace(report, findings=tuple(findings), coverage=coverage(report, context.observed))


def _badness(finding: Finding) -> tuple[int, int]:
    """Worst first, and of equally bad ones first what saves most when it is fixed."""
    return SEVERITIES.index(finding.severity), -(finding.saves_bytes or 0)
