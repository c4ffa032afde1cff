"""A section as a gate: checks its expectations against a report, and that the
program leaves its fuser on and works under it; and finds the line of the program
that breaks an expectation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.expectations import ExpectationSection, is_in_layer
from fusiondoc.expectations.compiled_runs import at_lines, fallback_rows, own_breaks
from fusiondoc.expectations.match import check
from fusiondoc.expectations.outcome import ExpectationOutcome, without_plan
from fusiondoc.expectations.whole_report import is_named
from fusiondoc.model.operator_places import outside
from fusiondoc.model.report import Finding, Group, Report, Unfused
from fusiondoc.model.runs import Expectation

FUSER_OFF = "FD104"
"""A finding on the whole run: its program, a variable or a knob switches off the
fuser under which the run is checked."""
FUSER_FAILED = "FD309"
"""Only the fused run fails: its groups are of no use to the program."""


def hold(section: ExpectationSection, report: Report) -> list[ExpectationOutcome]:
    """Return one outcome for each expectation of the section. Before them come a
    failure of the fused run alone, and one outcome for each setting that switches
    the fuser off, unless the section permits that (``findings`` expects or allows
    FD104). If there is no plan and an expectation is broken already, only the
    expectations' outcomes are returned: without a plan the others are unknown."""
    outcomes = check(section, report)
    if without_plan(report) is not None and not all(
        outcome.holds for outcome in outcomes
    ):
        return outcomes
    return [*_failed(section, report), *_off(section, report), *outcomes]


def gate(
    section: ExpectationSection, report: Report, file: str
) -> list[Expectation]:
    """The same as rows of the report; broken ones with their line of the program.
    Args: file: the file of expectations."""
    expectations = []
    for outcome in hold(section, report):
        expectations.append(_row(outcome, section, report, file))
    return expectations


def switched_off(report: Report) -> list[Finding]:
    """The findings on switches that turn off the fuser of the whole run."""
    findings = []
    for finding in report.findings:
        if finding.code == FUSER_OFF and not finding.ops:
            findings.append(finding)
    return findings


def _failed(
    section: ExpectationSection, report: Report
) -> Iterable[ExpectationOutcome]:
    wanted = section.findings
    for finding in report.findings:
        if finding.code == FUSER_FAILED and FUSER_FAILED not in (
            *wanted.expect,
            *(wanted.allow or ()),
        ):
            why = f"{finding.message} ({finding.code})"
            path = (*section.path, FUSER_FAILED)
            yield ExpectationOutcome(
                section.name,
                path,
                False,
                "the fused run to end",
                "an error",
                why,
                value=finding,
            )


def _off(
    section: ExpectationSection, report: Report
) -> Iterable[ExpectationOutcome]:
    wanted = section.findings
    if FUSER_OFF in (*wanted.expect, *(wanted.allow or ())):
        return
    for finding in switched_off(report):
        why = f"{finding.message} ({finding.code})"
        if finding.advice:
            why += f". {finding.advice.rstrip('.')}"
        path = (*section.path, FUSER_OFF)
        yield ExpectationOutcome(
            section.name,
            path,
            False,
            "the fuser to be on",
            "it off",
            why,
            value=finding,
        )


def _row(
    outcome: ExpectationOutcome,
    section: ExpectationSection,
    report: Report,
    file: str,
) -> Expectation:
    row = outcome.in_report(file)
    code = outcome.path[-1] if outcome.path else None
    if code in (FUSER_OFF, FUSER_FAILED):
        return replace(row, source=outcome.value.source, code=str(code))
    if row.holds:
        return row
    return replace(row, source=_cause(outcome, section, report))


def _cause(
    outcome: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    """``file:line`` of the program that breaks an expectation; None if it is not
    known."""
    key = ""
    for part in reversed(outcome.path):
        if isinstance(part, str):
            key = part
            break
    find = _CAUSES.get(key)
    source = find(outcome, section, report) if find is not None else None
    return source or _of_no_plan(report)


def _of_group(
    outcome: ExpectationOutcome, _: ExpectationSection, report: Report
) -> str | None:
    """The line of an operator that differs from the expected group, else of the
    group that differs."""
    near = outcome.near
    for missing in near.missing if near is not None else ():
        if missing.row is not None:
            return _line(missing.row)
        if missing.between:
            return _line(missing.between[0])
        if missing.node is not None:
            return missing.node.user_source or missing.node.source
    if near is not None and near.group is not None:
        return _first_line([near.group])
    return _first_line(
        [group for group in report.groups if group.id in outcome.groups]
    )


def _of_module(
    outcome: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    pattern = ""
    for module in section.modules:
        if module.path == outcome.path:
            pattern = module.layer
            break
    rows = []
    for row in outside(report):
        if any(is_in_layer(layer, pattern) for layer in row.layers):
            rows.append(row)
    return _worst(rows)


def _of_findings(
    outcome: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    wanted = section.findings
    names: Sequence[str] = wanted.allow or ()
    allowed = "allow" in outcome.path
    if not allowed:
        names = [wanted.forbid[int(outcome.path[-1])]]
    hits = []
    for f in report.findings:
        if any(is_named(f, name) for name in names) != allowed:
            hits.append(f)
    return next((finding.source for finding in hits if finding.source), None)


def _of_fallbacks(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    names = {fallback.group for fallback in report.fallbacks}
    return _first_line([group for group in report.groups if group.id in names])


def _of_not_fused(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    known = section.not_fused or ()
    return _worst([row for row in outside(report) if row.op not in known])


def _of_coverage(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    return _worst(outside(report))


def _of_breaks(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    rows = own_breaks(report.compiled) if report.compiled is not None else []
    for row in rows:
        if row.user_source is not None:
            return row.user_source
    return None


def _of_recompiles(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    rows = report.compiled.recompiles if report.compiled is not None else ()
    for row in rows:
        if row.user_source is not None:
            return row.user_source
    return None


def _of_eager_operators(
    _: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    known = section.compiled.may_fall_back or ()
    return _worst([row for row in fallback_rows(report) if row.op not in known])


def _of_one_kernel(
    outcome: ExpectationOutcome, section: ExpectationSection, report: Report
) -> str | None:
    for wanted in section.compiled.one_kernel:
        if wanted.path == outcome.path:
            found = at_lines(wanted, report)
            return _worst(found.outside) or _first_line(
                [kernel.group for kernel in found.kernels[1:]]
            )
    return None


_CAUSES: Mapping[
    str, Callable[[ExpectationOutcome, ExpectationSection, Report], str | None]
] = {
    "groups": _of_group,
    "modules": _of_module,
    "max_fallbacks": _of_fallbacks,
    "not_fused": _of_not_fused,
    "min_coverage": _of_coverage,
    "forbid": _of_findings,
    "allow": _of_findings,
    "max_graph_breaks": _of_breaks,
    "max_recompiles": _of_recompiles,
    "may_fall_back": _of_eager_operators,
    "one_kernel": _of_one_kernel,
}
"""The last key of an expectation's path -> the function that finds the line which
breaks it."""


def _worst(rows: Sequence[Unfused]) -> str | None:
    """The line of the operator that keeps the most others out of groups, else of
    the first operator."""
    if not rows:
        return None
    return _line(max(rows, key=lambda row: row.keeps_out or 0))


def _line(row: Unfused) -> str | None:
    return row.user_source or row.source


def _first_line(groups: Sequence[Group]) -> str | None:
    lines = (
        node.user_source or node.source for group in groups for node in group.nodes
    )
    return next(filter(None, lines), None)


def _of_no_plan(report: Report) -> str | None:
    """The line that prevented every group, if a finding names it."""
    if report.groups:
        return None
    causes = (
        f for f in report.findings if f.code[:3] in ("FD1", "FD9") and not f.ops
    )
    return next((finding.source for finding in causes if finding.source), None)
