"""Run every rule over a report, compute its coverage, and set aside the findings
that the user suppressed.

Findings are suppressed by the configuration, ``ignore = ["FD201",
"FD226:model.py:31"]``, or by a comment in the program, ``# fusiondoc:
ignore[FD201]`` on the line of a finding.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from fusiondoc.captures.trust import project_root, read_source, text_of
from fusiondoc.diagnosis.next_steps import with_plan
from fusiondoc.diagnosis.of_fusers import findings as of_fusers
from fusiondoc.diagnosis.of_fusers.findings import with_errors
from fusiondoc.diagnosis.rules import (
    Context,
    Rule,
    compiled_coverage,
    fd0_environment,
    fd1_fd2_not_fused,
    fd3_crashes,
    fd3_failures,
    fd3_fd9_whose_error,
    fd4_speed,
    fd5_wrong_numbers,
    fd9_log,
    has_torchscript,
    of_compiled,
    of_te,
    of_torchscript,
    te_coverage,
)
from fusiondoc.diagnosis.speed_of_light import with_speed_of_light
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.diagnosis.tries import with_tries
from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.fusers import (
    FUSERS,
    fuser_title,
    fusible_by,
    is_fusible,
    without_plan,
)
from fusiondoc.graph.shared_tensors import boundaries_of
from fusiondoc.model import dataclass
from fusiondoc.model.code_kinds import Family
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import SEVERITIES, Finding, Report, Unfused
from fusiondoc.model.runs import AnyFuser, Coverage, Suppressed
from fusiondoc.model.source import Source, path_ends_with
from fusiondoc.numbers import whole_number
from fusiondoc.parsers.observed import Observed


def coverage(report: Report, observed: Observed) -> Coverage:
    """Return the share of operators in groups: among those that this run's fuser
    has a rule for, and among those that any fuser has a rule for.

    The total is the fused operators plus the unfused ones that ran, forward and
    backward together, over all instances; only the first specialisation of a group
    counts. Views are not counted: one outside a group costs nothing. An operator
    counts as run if the log does not show whether it ran.
    """
    fused = report.fused_operators
    rows = _rows(report)
    some = sum(row.count for row in rows if is_fusible(row.op)) + fused
    missing = _missing_plans(report, observed)
    if missing is not None:
        return Coverage(fused, None, None, AnyFuser(None, None), missing)
    any_fuser = AnyFuser(some, fused / some if some else None)
    if not report.groups and not report.unfused:
        return Coverage(0, 0, None, any_fuser, without_plan(report.frontend))
    fuser = _fuser(report)
    if fuser is None:
        if report.fuser.effective:
            why = "no fuser was at work"
        else:
            why = "the log shows no fuser at work"
        return Coverage(fused, None, None, any_fuser, why)
    torch = report.environment.get("torch") or observed.release
    own = (
        sum(
            row.count
            for row in rows
            if is_fusible(row.op) and fuser in fusible_by(row.op, torch)
        )
        + fused
    )
    if own:
        unknown = None
    else:
        unknown = f"nothing ran that {fuser_title(fuser)} has a rule for"
    return Coverage(fused, own, fused / own if own else None, any_fuser, unknown)


def _rows(report: Report) -> list[Unfused]:
    """Return the unfused rows that count: those that may have run, without those
    that only a later specialisation of a group gave up."""
    again = set()
    for group in report.groups:
        if group.specialisation > 1:
            for node in group.nodes:
                again.add((node.op, node.source, group.phase))
    rows = []
    for row in report.unfused:
        if row.may_have_run and not (
            row.reason.code == "FD304" and (row.op, row.source, row.phase) in again
        ):
            rows.append(row)
    return rows


def _fuser(report: Report) -> str | None:
    state = report.fuser
    named: Iterable[str | None] = (
        state.effective,
        state.requested if state.effective is None else None,
    )
    return next((name for name in named if name in FUSERS), None)


def _missing_plans(report: Report, observed: Observed) -> str | None:
    """Return why the log does not show every operator of the run; None if it
    does."""
    if observed.only_inner_plans:
        return (
            "the log has only plans inside differentiable graphs, not those around them, which"
            " PYTORCH_JIT_LOG_LEVEL=profiling_graph_executor_impl shows"
        )
    if observed.plans_cut:
        return "a plan of the run is cut off in the log"
    return None


OF_RUNS: tuple[Rule, ...] = (
    *fd3_failures.RULES,
    *fd3_fd9_whose_error.RULES,
    *of_fusers.OF_GROUPS,
    *fd0_environment.OF_ENVIRONMENT,
    *fd5_wrong_numbers.NUMBERS,
    *fd1_fd2_not_fused.OF_RUNS,
    *fd9_log.OF_LOG,
    *fd4_speed.RULES,
)
"""The rules for TorchScript that come before those on operators outside groups."""


WITHOUT_GRAPHS: tuple[Rule, ...] = (
    fd3_crashes.crashed,
    fd3_failures.timed_out,
    *fd3_fd9_whose_error.RULES,
    *fd5_wrong_numbers.NUMBERS,
    fd9_log.interrupted,
    fd9_log.cut_off,
    fd9_log.longer_than_its_limit,
    fd9_log.left_running,
)
"""The rules for a run without rows of TorchScript: its log has no TorchScript
graphs."""


def diagnose(report: Report, context: Context) -> Report:
    """Return the report with its findings, worst first, its coverage and its plan.
    Rows of TorchScript, of the operation fuser and of torch.compile are judged by
    separate rules."""
    report = with_speed_of_light(with_errors(report, context.rerun))
    report = _with_boundaries(report)
    of_rows = None
    if has_torchscript(report):
        of_rows = SuggestedChanges.of(report, context)
    if of_rows is not None:
        findings = _of_torchscript(of_rows, context)
    else:
        findings = _findings(WITHOUT_GRAPHS, report, context)
    if report.te is not None:
        findings += _findings(of_fusers.OF_TE, of_te(report), context)
    if report.compiled is not None:
        findings += _findings(of_fusers.OF_COMPILED, of_compiled(report), context)
    findings = with_tries(findings, report.tries)
    findings.sort(key=_badness)
    if of_rows is not None:
        report = replace(
            report, coverage=_coverage_of_both(report, context.observed)
        )
    return with_plan(replace(report, findings=tuple(findings)), context, of_rows)


def _with_boundaries(report: Report) -> Report:
    """Add the boundaries between groups and operators of TorchScript's plans; those
    of torch.compile are already in the report."""
    found = boundaries_of(of_torchscript(report))
    if report.compiled is None:
        return replace(
            report, boundaries=found.rows, boundaries_left_out=found.left_out
        )
    left_out = report.boundaries_left_out + found.left_out
    return replace(
        report,
        boundaries=(*report.boundaries, *found.rows),
        boundaries_left_out=left_out,
    )


def _of_torchscript(of_rows: SuggestedChanges, context: Context) -> list[Finding]:
    findings = _findings(OF_RUNS, of_rows.report, context)
    for rule in fd1_fd2_not_fused.OF_NODES:
        findings += rule(of_rows)
    return findings + _findings(fd9_log.LAST, of_rows.report, context)


def _findings(
    rules: Sequence[Rule], report: Report, context: Context
) -> list[Finding]:
    findings: list[Finding] = []
    for rule in rules:
        findings.extend(rule(report, context))
    return findings


def _coverage_of_both(report: Report, observed: Observed) -> Coverage:
    """Return the coverage of TorchScript, plus those of the operation fuser and of
    torch.compile if they were at work."""
    whole = coverage(of_torchscript(report), observed)
    if report.te is not None:
        whole = _sum(whole, te_coverage(of_te(report)))
    if report.compiled is not None:
        whole = _sum(whole, compiled_coverage(of_compiled(report)))
    return whole


def _sum(one: Coverage, other: Coverage) -> Coverage:
    """Return the coverage of the rows of both together."""

    def share(fused: int, total: int | None) -> tuple[int | None, float | None]:
        return total or None, fused / total if total else None

    fused, own, some = (
        one.ops_fused + other.ops_fused,
        other.ops_total or 0,
        other.any_fuser.ops_total or 0,
    )
    known = one.fraction is not None or (one.is_known and not one.ops_total)
    if known:
        total, fraction = share(fused, (one.ops_total or 0) + own)
    else:
        total, fraction = None, None
    of_any = one.any_fuser.ops_total
    if of_any is not None:
        any_fuser = AnyFuser(*share(fused, of_any + some))
    else:
        any_fuser = AnyFuser(None, None)
    return Coverage(
        fused,
        total,
        fraction,
        any_fuser,
        None if fraction is not None else one.unknown,
    )


def _badness(
    finding: Finding,
) -> tuple[int, bool, bool, float, int, int, bool, int]:
    """Return the sort key: worst first, findings that can be fixed before others,
    and the environment last.

    Among equally bad findings: first those that affect the whole run, then by the
    milliseconds that fusing could save, if a profile shows them, then by the number
    of operators kept out of groups, then those with a recipe, then by the memory
    traffic saved.
    """
    family = CODES[finding.code].family
    if family in (Family.ENVIRONMENT, Family.RUNS) and finding.severity != "note":
        rank = 0
    elif finding.keeps_out:
        rank = 1
    else:
        rank = 2 if finding.code != "FD236" else 3
    kept, saved = finding.keeps_out or 0, finding.saves_bytes or 0
    saved_ms = finding.time.could_save_ms if finding.time is not None else None
    fixed = finding.in_header or finding.nothing_to_do
    bad = SEVERITIES.index(finding.severity), fixed, rank > 0, -(saved_ms or 0.0)
    return (*bad, rank, -kept, finding.recipe is None and kept > 0, -saved)


_COMMENT = re.compile(
    r"#\s*fusiondoc:\s*ignore\b(?:\s*\[([^\]]*)\])?", re.IGNORECASE
)
_RULE = re.compile(r"(\w+)(?::(.+?)(?::([0-9]{1,9}))?)?\Z")


@dataclass(frozen=True)
class Ignore:
    """An entry of ``ignore``: a code, and optionally the end of a file's path and a
    line."""

    text: str
    code: str
    file: str | None = None
    line: int | None = None

    def covers(self, finding: Finding) -> bool:
        """True if this entry covers the finding."""
        if finding.code != self.code:
            return False
        if self.file is None:
            return True
        position = Source.parse(finding.source)
        if position is not None:
            file, line = position.file, position.line
        else:
            file, line = finding.source or "", None
        return path_ends_with(file, self.file) and self.line in (None, line)


def parse_ignore(text: str) -> Ignore:
    """Parse ``FD226``, ``FD226:model.py`` or ``FD226:model.py:31``; raise
    UsageError for an unknown code."""
    match = _RULE.match(text.strip())
    code = match.group(1).upper() if match else text
    if match is None or code not in CODES:
        raise UsageError(
            f"'{code}' is not a finding code", did_you_mean(code, CODES)
        )
    line = match.group(3)
    return Ignore(text, code, match.group(2), whole_number(line or ""))


def suppress(report: Report, ignore: Sequence[Ignore]) -> tuple[Report, list[str]]:
    """Return the report with the suppressed findings moved to ``suppressed``, and
    notes on unknown codes in comments."""
    kept, gone, notes = [], [], []
    lines = _LinesOfFiles(report)
    for finding in report.findings:
        by = None
        for one in ignore:
            if one.covers(finding):
                by = f"config: {one.text}"
                break
        if by is None:
            codes, position = _comment_at(finding.source, lines)
            for code in codes or ():
                if code not in CODES:
                    notes.append(
                        f"{position}: there is no finding {code} to ignore. {did_you_mean(code, CODES)}"
                    )
            if codes is not None and (not codes or finding.code in codes):
                by = f"comment: {position}"
        if by is None:
            kept.append(finding)
        else:
            gone.append(
                Suppressed(
                    finding.code,
                    finding.severity,
                    finding.message,
                    finding.source,
                    by,
                )
            )
    if not gone:
        return report, list(dict.fromkeys(notes))
    return replace(report, findings=tuple(kept), suppressed=tuple(gone)), list(
        dict.fromkeys(notes)
    )


class _LinesOfFiles:
    """The lines of the program's files. A log may name any file, so only Python
    files of the project are read, as they are now, or the copies in the capture."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._root = project_root(Path.cwd())
        self._files: dict[str, list[str]] = {}

    def line(self, position: Source) -> str:
        """Return the line; "" if the file cannot be read or is shorter."""
        if position.file not in self._files:
            data = read_source(Path(position.file), (self._root,))
            texts = self._report.texts
            kept = (
                text_of(data)
                if data is not None
                else texts.source(position.file)
                if texts
                else None
            )
            self._files[position.file] = (kept or "").split("\n")
        lines = self._files[position.file]
        if 0 < position.line <= len(lines):
            return lines[position.line - 1]
        return ""


def _comment_at(
    source: str | None, lines: _LinesOfFiles
) -> tuple[list[str] | None, str]:
    """Return the codes in the comment on the line of a finding, and where that line
    is. The codes are None without a comment, and empty if it covers all codes."""
    position = Source.parse(source)
    if position is None:
        return None, ""
    match = _COMMENT.search(lines.line(position))
    if match is None:
        return None, ""
    codes = re.split(r"[\s,]+", (match.group(1) or "").strip().upper())
    here = str(Path.cwd()) + os.sep
    shown = position.at_line
    return [code for code in codes if code], shown[len(here) :] if shown.startswith(
        here
    ) else shown
