"""Runs every rule over a report."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.diagnosis.changes import with_tries
from fusiondoc.diagnosis.fallback_errors import with_errors
from fusiondoc.diagnosis.operators import is_fusible
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
from fusiondoc.model.report import SEVERITIES, Coverage, Finding, Report

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
    return replace(report, findings=tuple(findings), coverage=coverage(report))


def _badness(finding: Finding) -> tuple[int, int]:
    """Worst first, and of equally bad ones first what saves most when it is fixed."""
    return SEVERITIES.index(finding.severity), -(finding.saves_bytes or 0)


def coverage(report: Report) -> Coverage:
    """Operators in groups against those plus the unfused ones that some fuser can fuse.

    Forward and backward together; only the first specialisation of a group counts.
    """
    fused = report.fused_operators
    inside = {
        (node.op, node.source, group.phase)
        for group in report.groups
        if group.specialisation > 1
        for node in group.nodes
    }
    outside = sum(
        row.count
        for row in report.unfused
        if is_fusible(row.op)
        and not (row.reason.code == "FD304" and (row.op, row.source, row.phase) in inside)
    )
    total = fused + outside
    return Coverage(fused, total, fused / total if total else None)
