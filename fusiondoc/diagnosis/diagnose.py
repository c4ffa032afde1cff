"""Runs every rule over a report."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.diagnosis.changes import with_tries
from fusiondoc.diagnosis.coverage import coverage
from fusiondoc.diagnosis.fallback_errors import with_errors
from fusiondoc.diagnosis.next_steps import with_plan
from fusiondoc.diagnosis.rules import (
    fd0_environment,
    fd1_operation_fuser,
    fd1_runs,
    fd2_nodes,
    fd3_crashes,
    fd3_failures,
    fd3_shapes,
    fd4_speed,
    fd5_numbers,
    fd9_log,
)
from fusiondoc.diagnosis.rules.rule import Context, Rule
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.model.codes import CODES, Family
from fusiondoc.model.report import SEVERITIES, Finding, Report

RULES: tuple[Rule, ...] = (
    *fd3_failures.RULES,
    *fd3_shapes.RULES,
    *fd0_environment.RULES,
    *fd5_numbers.RULES,
    *fd1_runs.RULES,
    *fd9_log.RULES,
    *fd4_speed.RULES,
    *fd2_nodes.RULES,
    *fd9_log.LAST,
)


TE_RULES: tuple[Rule, ...] = (
    fd3_crashes.crashed,
    fd3_failures.timed_out,
    fd3_failures.program_failed,
    *fd1_operation_fuser.RULES,
    fd9_log.interrupted,
    fd9_log.left_running,
)
"""For a run whose groups are of Transformer Engine: its log has no graphs."""


def diagnose(report: Report, context: Context) -> Report:
    """The report with its findings, worst first, its coverage, and what to do now."""
    report = with_speed_of_light(with_errors(report, context.rerun))
    rules = RULES if report.te is None else TE_RULES
    findings = [finding for rule in rules for finding in rule(report, context)]
    findings = with_tries(findings, report.tries)
    findings.sort(key=_badness)
    if report.te is None:
        report = replace(report, coverage=coverage(report, context.observed))
    return with_plan(replace(report, findings=tuple(findings)), context)


def _badness(finding: Finding) -> tuple[int, bool, bool, float, int, int, bool, int]:
    """Worst first; what can be changed before what cannot, and the environment last.

    Of equally bad ones first what the whole run suffers from, then by the milliseconds that fusing could
    save, where a profile tells them, then what keeps most operators out of groups, of equals one with a
    recipe, then what saves most memory traffic when it is fixed."""
    family = CODES[finding.code].family
    if family in (Family.ENVIRONMENT, Family.RUNS) and finding.severity != "note":
        rank = 0
    elif finding.keeps_out:
        rank = 1
    else:
        rank = 2 if finding.code != "FD236" else 3
    kept, saved = finding.keeps_out or 0, finding.saves_bytes or 0
    told = finding.time.could_save_ms if finding.time is not None else None
    fixed = finding.in_header or (finding.advice or "").startswith("Nothing")
    bad = SEVERITIES.index(finding.severity), fixed, rank > 0, -(told or 0.0)
    return (*bad, rank, -kept, finding.recipe is None and kept > 0, -saved)
