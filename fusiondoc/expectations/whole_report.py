"""Expectations of the whole report: numbers, shares, limits of time, findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusiondoc.expectations import (
    ExpectationSection,
    ModuleShare,
    RequiredCount,
    is_in_layer,
)
from fusiondoc.expectations.assignment import Assignment, specialised_once
from fusiondoc.expectations.compiled_runs import check_compiled
from fusiondoc.expectations.missing_in_words import without_namespace
from fusiondoc.expectations.near_miss import (
    percent,
    short,
    show_speed,
    speed_of,
    too_slow,
)
from fusiondoc.expectations.outcome import (
    ExpectationOutcome,
    Make,
    new_name,
    nothing_fused,
    unknown_without_plan,
)
from fusiondoc.expectations.source_lines import shown as shown_line
from fusiondoc.model.operator_places import (
    InLayer,
    module_tree,
    operators_by_layer,
    outside,
)
from fusiondoc.model.report import SEVERITIES, Finding, Report, Unfused
from fusiondoc.model.runs import FUSIBLE, GROUPS, Steps


def check_whole(
    section: ExpectationSection,
    written: ExpectationSection,
    report: Report,
    groups: Assignment,
) -> Iterable[ExpectationOutcome]:
    """One outcome for each expectation but those of groups.

    Args: written: the section as its file has it; ``section`` has the names that
        modules have in this run. groups: the groups of the report, by the
        expectations of the section.
    """

    def outcome(
        key: str,
        holds: bool,
        expected: str,
        found: str,
        why: str | None,
        value: object,
    ) -> ExpectationOutcome:
        return ExpectationOutcome(
            section.name,
            (*section.path, key),
            holds,
            expected,
            found,
            why,
            section.positions.get(key),
            value=value,
        )

    for module, as_written in zip(section.modules, written.modules):
        yield _module(module, as_written, report, section.name, section.not_fused)
    if section.number_of_groups is not None:
        yield _number_of_groups(section.number_of_groups, report, groups, outcome)
    if section.max_fallbacks is not None:
        yield _fallbacks(section.max_fallbacks, report, outcome)
    yield from _operators_outside(section, report, outcome)
    if section.min_coverage is not None:
        yield _coverage(section.min_coverage, section.not_fused, report, outcome)
    yield from _speed(section, report, outcome)
    yield from _steps(section, report, outcome)
    yield from _findings(section, report, outcome)
    yield from check_compiled(section, report, outcome)


def _fallbacks(most: int, report: Report, outcome: Make) -> ExpectationOutcome:
    count = report.times_fallen_back
    unknown = unknown_without_plan(report) if not count else None
    error = None
    for fallback in report.fallbacks:
        if fallback.error:
            error = fallback.error
            break
    groups = ", ".join(
        sorted({fallback.group for fallback in report.fallbacks if fallback.group})
    )
    found = f"{count} (of {groups})" if groups else str(count)
    holds = unknown is None and count <= most
    expected = f"at most {most} fallbacks"
    return outcome(
        "max_fallbacks",
        holds,
        expected,
        unknown or found,
        error if count else None,
        count,
    )


def _coverage(
    least: float, known: Sequence[str] | None, report: Report, outcome: Make
) -> ExpectationOutcome:
    part = report.coverage.fraction
    holds = part is not None and part >= least - 1e-9
    found = percent(part) if part is not None else _no_share(report)
    why = None if holds else _left_out(report, known)
    return outcome(
        "min_coverage", holds, f"a coverage of {percent(least)}", found, why, part
    )


def _number_of_groups(
    wanted: RequiredCount, report: Report, found: Assignment, outcome: Make
) -> ExpectationOutcome:
    number = specialised_once(report)
    note = _more_of_the_same(wanted, number, found)
    holds = wanted.holds(number) or note is not None
    unknown = unknown_without_plan(report) if holds else None
    why = None if number or unknown is not None else nothing_fused(report)
    parts = []
    for group in report.groups:
        if group.respecialises is None:
            parts.append(group.id)
    ids = ", ".join(parts)
    numbered = f"{number} ({ids})" if 0 < number <= _MOST_LISTED else str(number)
    if str(wanted).endswith(" 1") or str(wanted) == "1":
        expected = f"{wanted} group"
    else:
        expected = f"{wanted} groups"
    holds = holds and unknown is None
    made = outcome(
        "number_of_groups", holds, expected, unknown or numbered, why, number
    )
    return replace(made, note=note)


def _more_of_the_same(
    wanted: RequiredCount, number: int, found: Assignment
) -> str | None:
    """The note on a number written alone, as --update did it, where all groups
    beyond it are more of those that the file names: these are no loss. Else
    None."""
    if not wanted.plain or wanted.at_most is None or number <= wanted.at_most:
        return None
    more = number - wanted.at_most
    equal = []
    for matched in found.matched:
        if matched.is_whole and matched.more:
            equal.append(matched)
    if sum(matched.more for matched in equal) < more:
        return None
    names = "; ".join(short(matched.wanted.ops) for matched in equal)
    return f"{more} more of what the file expects ({names}); exactly: {wanted} forbids that"


_MOST_LISTED = 12


def _module(
    wanted: ModuleShare,
    written: ModuleShare,
    report: Report,
    section: str,
    known: Sequence[str] | None,
) -> ExpectationOutcome:
    inside = {}
    for layer, has in operators_by_layer(report).items():
        if is_in_layer(layer, wanted.layer):
            inside[layer] = has
    total = sum(inside.values(), InLayer())
    part = total.share if report.coverage.is_known else None
    holds = part is not None and part >= wanted.coverage - 1e-9
    if not report.coverage.is_known:
        found, why = f"unknown: {report.coverage.unknown}", None
    elif part is None:
        found, why = "no operator of that module", _modules_of(report)
    else:
        found = f"{percent(part)}, {total.fused} of {total.fused + total.unfused} operators"
        rows = []
        for row in outside(report):
            if any(layer in inside for layer in row.layers):
                rows.append(row)
        why = _not_fused(rows, known)
    renamed = wanted.layer != written.layer
    return ExpectationOutcome(
        section, wanted.path, holds, f"{percent(wanted.coverage)} of {written.layer} in groups", found,
        None if holds else why, wanted.at, value=part,
        note=new_name([written.layer], [wanted.layer]) if renamed else None,
        names={"layer": (wanted.layer,)} if renamed else {},
    )  # fmt: skip


_MOST_NAMED = 4


def _modules_of(report: Report) -> str:
    names = [module.path for module in module_tree(report)]
    if not names:
        return "the log does not name modules: that of a traced model does, and a run by check itself"
    return "the outermost modules are " + _some(names)


def _no_share(report: Report) -> str:
    unknown = report.coverage.unknown
    if unknown is None:
        return "nothing that a fuser can fuse"
    return f"unknown: {unknown}"


_NOT_COUNTED = ("FD201", "FD211", "FD233", "FD235", "FD236")
"""Reasons that are not counted in the share of coverage: the fuser has no rule for
the operator."""


def _left_out(report: Report, known: Sequence[str] | None) -> str | None:
    """The operators that the coverage lacks, and the operators that keep them out
    of groups."""
    if not report.coverage.is_known:
        return None
    rows = outside(report)
    counted = [row for row in rows if row.reason.code not in _NOT_COUNTED]
    causes = [row for row in rows if row.keeps_out and row not in counted]
    return _not_fused(counted + causes, known)


def _new(rows: Sequence[Unfused], known: Sequence[str] | None) -> list[Unfused]:
    """The rows of operators that are not in the file's ``not_fused``."""
    return [row for row in rows if known is not None and row.op not in known]


def _not_fused(rows: Sequence[Unfused], known: Sequence[str] | None) -> str | None:
    """The operators that are newly outside groups, if the file lists the known
    ones; else all that are outside."""
    shown = _new(rows, known) or rows
    if not shown:
        return None
    texts = _some(_codes_and_positions(shown))
    if shown is rows:
        return f"not fused are {texts}"
    return f"newly outside groups: {texts}"


def _operators_outside(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterable[ExpectationOutcome]:
    """The outcome that only known operators are outside groups."""
    known = section.not_fused
    if known is None:
        return
    names = ", ".join(map(without_namespace, known))
    if known:
        expected = f"no operator but {names} outside groups"
    else:
        expected = "no operator outside groups"
    if report.coverage.is_known:
        unknown = unknown_without_plan(report)
    else:
        unknown = f"unknown: {report.coverage.unknown}"
    if unknown is not None:
        yield outcome("not_fused", False, expected, unknown, None, None)
        return
    rows = outside(report)
    new = _new(rows, known)
    if new:
        found = _some(_codes_and_positions(new))
    elif known:
        found = "no other"
    else:
        found = "none"
    kinds = {row.op for row in new}
    why = (
        new[0].reason.text if len(kinds) == 1 else None
    )  # "found" has its code and line
    yield outcome(
        "not_fused", not new, expected, found, why, sorted({row.op for row in rows})
    )


def _codes_and_positions(rows: Sequence[Unfused]) -> list[str]:
    """``cumsum (FD211, model.py:7)``, once for each operator and reason."""
    first: dict[str, Unfused] = {}
    for row in rows:
        first.setdefault(f"{without_namespace(row.op)} ({row.reason.code}", row)
    codes = []
    for name, row in first.items():
        codes.append(", ".join(filter(None, (name, shown_line(row)))) + ")")
    return codes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (
        " and others" if len(names) > _MOST_NAMED else ""
    )


def _speed(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterable[ExpectationOutcome]:
    speed = section.speed
    # The bandwidth share of a kernel that moves too few bytes to be memory-bound
    # means nothing.
    kernels = [
        kernel for kernel in report.kernels if kernel.bound != "launch"
    ] or list(report.kernels)
    for key, limit, alone in (
        ("min_peak", speed.peak, replace(speed, gb_per_s=None)),
        ("min_gb_per_s", speed.gb_per_s, replace(speed, peak=None)),
    ):
        if limit is None:
            continue
        values = []
        for v in (speed_of(kernel, key) for kernel in kernels):
            if v is not None:
                values.append(v)
        slow = too_slow(kernels, alone)
        if values:
            shown = f"{show_speed(min(values), key)} in the slowest"
        else:
            shown = "no measurement"
        expected = f"{show_speed(limit, key)} in every kernel"
        yield outcome(
            key,
            not slow,
            expected,
            shown,
            "; ".join(slow) or None,
            min(values, default=None),
        )


def _steps(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterable[ExpectationOutcome]:
    """The outcomes of limits of the profiled run; broken if there was none."""
    limits, steps = section.steps, report.steps
    saved = groups = unfused = None
    if steps is not None:
        groups, unfused = steps.share(GROUPS), steps.share(FUSIBLE)
        if steps.could_save_ms is not None and steps.ms:
            saved = steps.could_save_ms / steps.ms
    unknown = (
        report.steps_note
        or "no profile: check a TARGET, or a capture of diagnose --time"
    )
    for key, limit, value, what in (
        (
            "max_step_ms",
            limits.max_ms,
            steps.ms if steps else None,
            "a step of at most {} ms",
        ),
        (
            "min_groups_share",
            limits.min_groups,
            groups,
            "groups take at least {} of a step",
        ),
        (
            "max_unfused_share",
            limits.max_unfused,
            unfused,
            "what could fuse takes at most {} of a step",
        ),
        (
            "max_could_save",
            limits.max_could_save,
            saved,
            "fusing the rest saves at most {} of a step",
        ),
    ):
        if limit is None:
            continue
        in_ms = key == "max_step_ms"
        expected = what.format(f"{limit:g}" if in_ms else percent(limit))
        if value is None or steps is None:
            yield outcome(key, False, expected, f"unknown: {unknown}", None, None)
            continue
        found = f"{value:.4g} ms" if in_ms else percent(value)
        holds = _is_within(value, limit, is_lowest=key == "min_groups_share")
        yield outcome(
            key,
            holds,
            expected,
            found,
            None if holds else _largest_parts(steps),
            value,
        )


def _is_within(value: float, limit: float, is_lowest: bool) -> bool:
    if is_lowest:
        return value >= limit - 1e-9
    return value <= limit + 1e-9


def _largest_parts(steps: Steps) -> str:
    parts = []
    for part in steps.parts[:_MOST_NAMED]:
        parts.append(f"{part.what} {percent(part.share)}")
    return f"a step is {', '.join(parts)}"


def is_named(finding: Finding, name: str) -> bool:
    """True if a finding has the name in the file: its code, severity or family."""
    if name in SEVERITIES:
        return finding.severity == name
    return finding.code == name or (
        name.endswith("xx") and finding.code.startswith(name[:3])
    )


def _findings(
    section: ExpectationSection, report: Report, outcome: Make
) -> Iterable[ExpectationOutcome]:
    def of_finding(
        key: str, index: int, holds: bool, expected: str, hits: Sequence[Finding]
    ) -> ExpectationOutcome:
        made = outcome(
            "findings",
            holds,
            expected,
            _codes(hits),
            _sentence(hits) if not holds else None,
            hits,
        )
        return replace(made, path=(*made.path, key, index))

    wanted = section.findings
    for i, name in enumerate(wanted.expect):
        hits = [f for f in report.findings if is_named(f, name)]
        yield of_finding("expect", i, bool(hits), f"finding {name}", hits)
    for i, name in enumerate(wanted.forbid):
        hits = [f for f in report.findings if is_named(f, name)]
        yield of_finding("forbid", i, not hits, f"no finding {name}", hits)
    if wanted.allow is not None:
        hits = []
        for f in report.findings:
            if not any(is_named(f, name) for name in wanted.allow):
                hits.append(f)
        yield of_finding(
            "allow", 0, not hits, f"no findings but {', '.join(wanted.allow)}", hits
        )


def _codes(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(f.code for f in findings)) or "none"


def _sentence(findings: Sequence[Finding]) -> str | None:
    if not findings:
        return None
    first = findings[0]
    more = f"; and {len(findings) - 1} more" if len(findings) > 1 else ""
    return first.message + (f", {first.source}" if first.source else "") + more
