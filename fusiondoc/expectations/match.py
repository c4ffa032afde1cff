"""A section of expectations against a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Iterable, Sequence

from fusiondoc.expectations import (
    GroupExpectation,
    ModuleShare,
    Path,
    Position,
    Section,
    instances_in,
    is_in_layer,
)
from fusiondoc.expectations.missing import shown as shown_line
from fusiondoc.expectations.missing import tell, without_namespace
from fusiondoc.expectations.near_miss import (
    NearMiss,
    describe,
    instances,
    mismatches,
    near_miss,
    percent,
    show_speed,
    speed_of,
    too_slow,
)
from fusiondoc.model import dataclass
from fusiondoc.model.operator_places import InLayer, module_tree, operators_by_layer, outside
from fusiondoc.model.report import SEVERITIES, Finding, Group, Report, Unfused
from fusiondoc.model.runs import FUSIBLE, GROUPS, NO_BACKWARD, Expectation


@dataclass(frozen=True)
class Outcome:
    """An expectation held against a report."""

    section: str
    path: Path
    """Its place in the file: ``("groups", 1)``, ``("max_fallbacks",)``."""
    holds: bool
    expected: str
    found: str
    why: str | None = None
    """What parts the two; None where the two say it all."""
    at: Position | None = None
    groups: tuple[str, ...] = ()
    """The groups that fulfil it, each first specialisation once."""
    near: NearMiss | None = None
    value: Any = None
    """What was measured, for --update."""

    def too_few(self, section: Section) -> bool:
        """Of the number of groups: whether there are fewer than the section wants."""
        least = section.number_of_groups.at_least if section.number_of_groups is not None else None
        return least is not None and isinstance(self.value, int) and self.value < least

    @property
    def text(self) -> str:
        """``expected X; found Y: why``, one line."""
        return f"expected {self.expected}; found {self.found}" + (f": {self.why}" if self.why else "")

    def in_report(self, file: str) -> Expectation:
        """The same as a row of the report model."""
        line, column = (self.at.line, self.at.column) if self.at else (None, None)
        return Expectation(
            self.section, self.holds, self.expected, self.found, self.why, file, line, column, self.groups
        )


Make = Callable[..., Outcome]


def check(section: Section, report: Report) -> list[Outcome]:
    """One outcome for each expectation, in the order of the table of keys."""
    outcomes = [*check_groups(section.groups, report, section.name), *_whole(section, report)]
    return _without_backward(section, outcomes) if lacks_backward(section, report) else outcomes


def lacks_backward(section: Section, report: Report) -> bool:
    """Whether the section expects groups of backward passes, and the run is known to have had none."""
    if all(one.phase != "backward" or one.count.at_least is None for one in section.groups):
        return False
    phases = {one.phase for one in report.groups} | {one.phase for one in report.unfused}
    options = report.target.options
    asked = options.backward if options is not None else None
    return "backward" not in phases and ("forward" in phases or asked is False)


def _without_backward(section: Section, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Groups of backward passes, the number that they are counted in, and what is fused of the whole share
    one cause: a forward pass that records nothing for a backward pass has other plans."""
    places = {one.path for one in section.groups if one.phase == "backward"}
    number = (*section.path, "number_of_groups")
    whole = ((*section.path, "not_fused"), (*section.path, "min_coverage"))
    return [
        replace(one, why=NO_BACKWARD, near=None)
        if not one.holds
        and (one.path in places or one.path in whole or (one.path == number and one.too_few(section)))
        else one
        for one in outcomes
    ]


def check_groups(wanted: Iterable[GroupExpectation], report: Report, section: str = "") -> list[Outcome]:
    """One outcome for each group expectation.

    A group may fulfil several of them, with all its instances; specialisations of one group count once, as
    the group that they specialise.
    """
    kernels = {kernel.id: kernel for kernel in report.kernels}
    wanted = list(wanted)
    found = [[g for g in report.groups if not mismatches(g, one, kernels)] for one in wanted]
    taken = {group.id for groups in found for group in groups}
    return [_group(one, groups, report, section, taken) for one, groups in zip(wanted, found)]


def _group(
    wanted: GroupExpectation, found: Sequence[Group], report: Report, section: str, taken: set[str]
) -> Outcome:
    ids = tuple(dict.fromkeys(group.respecialises or group.id for group in found))
    text = describe(wanted)
    exactly = wanted.count.at_most
    if exactly is not None or (wanted.count.at_least or 1) > 1:
        text = f"{wanted.count} of {text}" if exactly != 0 else f"no group {text}"
    known = {group.id: group for group in report.groups}
    of_groups = {name: instances_in(known[name], wanted.layer) for name in ids}
    number = sum(map(len, of_groups.values()))
    number += 0 if wanted.layer else sum(known[name].instances_left_out for name in ids)
    unknown = _unknown(report) if not number and wanted.count.holds(0) else None
    holds = unknown is None and wanted.count.holds(number)
    near = None
    shown = ", ".join(
        instances(known[name], these) if not holds else name + (f" ×{len(these)}" if len(these) > 1 else "")
        for name, these in of_groups.items()
    )
    if number > 1 or exactly is not None:
        shown = f"{number} ({shown})" if ids else "0 ()"
    why = None
    if not ids:
        shown = "none"
    if not holds and number < (wanted.count.at_least or 0):
        others = [group for group in report.groups if (group.respecialises or group.id) not in ids]
        near = near_miss(report, wanted, sorted(taken), others)
        if not ids:
            shown, why = near.found, near.why or _nothing_fused(report)
        elif near.group is not None:
            why = f"the next nearest is {near.found}: {near.why}"
        else:
            why = "; ".join(tell([one for one in near.missing if one.row is not None])) or None
    return Outcome(section, wanted.path, holds, text, unknown or shown, why, wanted.at, ids, near, number)


def specialised_once(report: Report) -> int:
    """How many groups there are: instances, each once however often it was specialised."""
    listed = sum(group.count for group in report.groups if group.respecialises is None)
    return listed + report.fusion_groups_left_out


def _nothing_fused(report: Report) -> str | None:
    """Why there is no group at all, where a finding tells it."""
    if report.groups:
        return None
    causes = (f for f in report.findings if f.code[:3] in ("FD0", "FD1", "FD9") and not f.in_header)
    cause = next(causes, None)
    return f"{cause.message} ({cause.code})" if cause else None


_NO_PLAN = ("FD101", "FD104", "FD901")
"""Findings of a run without groups that made no plan with a fuser, so that what is absent says nothing."""


def not_told(report: Report) -> str | None:
    """Why the absence of groups, fallbacks and unfused operators says nothing: no plan was made that could
    have had any."""
    if report.groups or report.kernels:
        return None
    cause = next((f for f in report.findings if f.code in _NO_PLAN and not f.ops), None)
    return f"{cause.message} ({cause.code})" if cause is not None else None


def _unknown(report: Report) -> str | None:
    cause = not_told(report)
    return f"unknown: {cause}" if cause is not None else None


def _whole(section: Section, report: Report) -> Iterable[Outcome]:
    def outcome(key: str, holds: bool, expected: str, found: str, why: str | None, value: object) -> Outcome:
        return Outcome(
            section.name,
            (*section.path, key),
            holds,
            expected,
            found,
            why,
            section.places.get(key),
            value=value,
        )

    for wanted_share in section.modules:
        yield _module(wanted_share, report, section.name, section.not_fused)
    if section.number_of_groups is not None:
        number = specialised_once(report)
        unknown = _unknown(report) if section.number_of_groups.holds(number) else None
        ids = ", ".join(group.id for group in report.groups if group.respecialises is None)
        wanted = f"{section.number_of_groups} group" + "s" * (str(section.number_of_groups) != "1")
        yield outcome(
            "number_of_groups", unknown is None and section.number_of_groups.holds(number), wanted,
            unknown or (f"{number} ({ids})" if 0 < number <= 12 else str(number)),
            None if number or unknown else _nothing_fused(report), number,
        )  # fmt: skip
    if section.max_fallbacks is not None:
        count = sum(fallback.count for fallback in report.fallbacks)
        unknown = _unknown(report) if not count else None
        error = next((f.error for f in report.fallbacks if f.error), None)
        groups = ", ".join(sorted({f.group for f in report.fallbacks if f.group}))
        yield outcome(
            "max_fallbacks", unknown is None and count <= section.max_fallbacks,
            f"at most {section.max_fallbacks} fallbacks",
            unknown or str(count) + (f" (of {groups})" if groups else ""), error if count else None, count,
        )  # fmt: skip
    yield from _operators_outside(section, report, outcome)
    if section.min_coverage is not None:
        part = report.coverage.fraction
        holds = part is not None and part >= section.min_coverage - 1e-9
        found = percent(part) if part is not None else _no_share(report)
        yield outcome(
            "min_coverage", holds, f"a coverage of {percent(section.min_coverage)}", found,
            None if holds else _left_out(report, section.not_fused), part,
        )  # fmt: skip
    yield from _speed(section, report, outcome)
    yield from _steps(section, report, outcome)
    yield from _findings(section, report, outcome)


def _module(wanted: ModuleShare, report: Report, section: str, known: Sequence[str] | None) -> Outcome:
    inside = {
        layer: has for layer, has in operators_by_layer(report).items() if is_in_layer(layer, wanted.layer)
    }
    total = sum(inside.values(), InLayer())
    part = total.share if report.coverage.told else None
    holds = part is not None and part >= wanted.coverage - 1e-9
    if not report.coverage.told:
        found, why = f"unknown: {report.coverage.unknown}", None
    elif part is None:
        found, why = "no operator of that module", _modules_of(report)
    else:
        found = f"{percent(part)}, {total.fused} of {total.fused + total.unfused} operators"
        rows = [row for row in outside(report) if any(layer in inside for layer in row.layers)]
        why = _not_fused(rows, known)
    return Outcome(
        section, wanted.path, holds, f"{percent(wanted.coverage)} of {wanted.layer} in groups", found,
        None if holds else why, wanted.at, value=part,
    )  # fmt: skip


_MOST_NAMED = 4


def _modules_of(report: Report) -> str:
    names = [one.path for one in module_tree(report)]
    if not names:
        return "the log does not tell modules: that of a trace does, and a run by check itself"
    return "the outermost modules are " + _some(names)


def _no_share(report: Report) -> str:
    unknown = report.coverage.unknown
    return f"unknown: {unknown}" if unknown is not None else "nothing that a fuser can fuse"


_NOT_COUNTED = ("FD201", "FD211", "FD233", "FD235", "FD236")
"""Reasons of operators that no share of coverage counts: the fuser has no rule for them."""


def _left_out(report: Report, known: Sequence[str] | None) -> str | None:
    """The operators that the coverage lacks, and those that keep them out of groups."""
    if not report.coverage.told:
        return None
    rows = outside(report)
    counted = [row for row in rows if row.reason.code not in _NOT_COUNTED]
    causes = [row for row in rows if row.keeps_out and row not in counted]
    return _not_fused(counted + causes, known)


def _new(rows: Sequence[Unfused], known: Sequence[str] | None) -> list[Unfused]:
    """Those that the file does not name under ``not_fused``."""
    return [row for row in rows if known is not None and row.op not in known]


def _not_fused(rows: Sequence[Unfused], known: Sequence[str] | None) -> str | None:
    """What is newly outside groups, where the file tells what was; else all that is."""
    shown = _new(rows, known) or rows
    if not shown:
        return None
    texts = _some(_codes_and_places(shown))
    return f"not fused are {texts}" if shown is rows else f"newly outside groups: {texts}"


def _operators_outside(section: Section, report: Report, outcome: Make) -> Iterable[Outcome]:
    """Whether only known operators are outside groups."""
    known = section.not_fused
    if known is None:
        return
    names = ", ".join(map(without_namespace, known))
    expected = f"no operator but {names} outside groups" if known else "no operator outside groups"
    unknown = _unknown(report) if report.coverage.told else f"unknown: {report.coverage.unknown}"
    if unknown is not None:
        yield outcome("not_fused", False, expected, unknown, None, None)
        return
    rows = outside(report)
    new = _new(rows, known)
    found = _some(_codes_and_places(new)) if new else "no other" if known else "none"
    kinds = {row.op for row in new}
    why = new[0].reason.text if len(kinds) == 1 else None  # its code and line are in what was found
    yield outcome("not_fused", not new, expected, found, why, sorted({row.op for row in rows}))


def _codes_and_places(rows: Sequence[Unfused]) -> list[str]:
    """``cumsum (FD211, model.py:7)``, once for an operator and a reason."""
    first: dict[str, Unfused] = {}
    for row in rows:
        first.setdefault(f"{without_namespace(row.op)} ({row.reason.code}", row)
    return [", ".join(filter(None, (name, shown_line(row)))) + ")" for name, row in first.items()]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (" and others" if len(names) > _MOST_NAMED else "")


def _speed(section: Section, report: Report, outcome: Make) -> Iterable[Outcome]:
    speed = section.speed
    # The share of a kernel that moves too little to be bound by the memory says nothing.
    kernels = [kernel for kernel in report.kernels if kernel.bound != "launch"] or list(report.kernels)
    for key, limit, alone in (
        ("min_peak", speed.peak, replace(speed, gb_per_s=None)),
        ("min_gb_per_s", speed.gb_per_s, replace(speed, peak=None)),
    ):
        if limit is None:
            continue
        values = [v for v in (speed_of(kernel, key) for kernel in kernels) if v is not None]
        slow = too_slow(kernels, alone)
        shown = f"{show_speed(min(values), key)} in the slowest" if values else "no measurement"
        expected = f"{show_speed(limit, key)} in every kernel"
        yield outcome(key, not slow, expected, shown, "; ".join(slow) or None, min(values, default=None))


def _steps(section: Section, report: Report, outcome: Make) -> Iterable[Outcome]:
    """Limits of the profiled run; broken where there is none."""
    limits, steps = section.steps, report.steps
    saved = None
    if steps is not None and steps.could_save_ms is not None and steps.ms:
        saved = steps.could_save_ms / steps.ms
    groups, unfused = (steps.share(GROUPS), steps.share(FUSIBLE)) if steps else (None, None)
    unknown = report.steps_note or "no profile: check a TARGET, or a capture of diagnose --time"
    for key, limit, value, what in (
        ("max_step_ms", limits.max_ms, steps.ms if steps else None, "a step of at most {:g} ms"),
        ("min_groups_share", limits.min_groups, groups, "groups take at least {} of a step"),
        ("max_unfused_share", limits.max_unfused, unfused, "what could fuse takes at most {} of a step"),
        ("max_could_save", limits.max_could_save, saved, "fusing the rest saves at most {} of a step"),
    ):
        if limit is None:
            continue
        in_ms = key == "max_step_ms"
        low = key == "min_groups_share"
        holds = value is not None and (value >= limit - 1e-9 if low else value <= limit + 1e-9)
        expected = what.format(limit if in_ms else percent(limit))
        if value is None:
            yield outcome(key, False, expected, f"unknown: {unknown}", None, None)
            continue
        found = f"{value:.4g} ms" if in_ms else percent(value)
        parts = ", ".join(f"{one.what} {percent(one.share)}" for one in (steps.parts if steps else ())[:4])
        yield outcome(key, holds, expected, found, None if holds else f"a step is {parts}", value)


def is_named(finding: Finding, name: str) -> bool:
    """Whether a finding is the one, or of the severity or the family, that a file names."""
    if name in SEVERITIES:
        return finding.severity == name
    return finding.code == name or (name.endswith("xx") and finding.code.startswith(name[:3]))


def _findings(section: Section, report: Report, outcome: Make) -> Iterable[Outcome]:
    def one(key: str, index: int, holds: bool, expected: str, hits: Sequence[Finding]) -> Outcome:
        made = outcome("findings", holds, expected, _codes(hits), _say(hits) if not holds else None, hits)
        return replace(made, path=(*made.path, key, index))

    wanted = section.findings
    for i, name in enumerate(wanted.expect):
        hits = [f for f in report.findings if is_named(f, name)]
        yield one("expect", i, bool(hits), f"finding {name}", hits)
    for i, name in enumerate(wanted.forbid):
        hits = [f for f in report.findings if is_named(f, name)]
        yield one("forbid", i, not hits, f"no finding {name}", hits)
    if wanted.allow is not None:
        hits = [f for f in report.findings if not any(is_named(f, name) for name in wanted.allow)]
        yield one("allow", 0, not hits, f"no findings but {', '.join(wanted.allow)}", hits)


def _codes(findings: Sequence[Finding]) -> str:
    return ", ".join(dict.fromkeys(f.code for f in findings)) or "none"


def _say(findings: Sequence[Finding]) -> str | None:
    if not findings:
        return None
    first = findings[0]
    more = f"; and {len(findings) - 1} more" if len(findings) > 1 else ""
    return first.message + (f", {first.source}" if first.source else "") + more
