"""Checks a section of expectations against a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fusiondoc.expectations import (
    ExpectationSection,
    GroupExpectation,
    instances_in,
)
from fusiondoc.expectations.assignment import Assignment, Matched, assign
from fusiondoc.expectations.missing_in_words import sentences
from fusiondoc.expectations.moved import Moved, moved_groups
from fusiondoc.expectations.near_miss import (
    NearMiss,
    describe,
    instances,
    near_miss,
)
from fusiondoc.expectations.outcome import (
    ExpectationOutcome,
    new_name,
    nothing_fused,
    unknown_without_plan,
)
from fusiondoc.expectations.renamed_modules import renamed_modules, with_modules
from fusiondoc.expectations.whole_report import check_whole
from fusiondoc.model.report import Group, Report
from fusiondoc.model.runs import NO_BACKWARD


def check(section: ExpectationSection, report: Report) -> list[ExpectationOutcome]:
    """Return one outcome for each expectation, in the order of the table of keys.
    An expectation whose group only has another name holds, with a note."""
    now = with_modules(section, renamed_modules(section, report))
    found = assign(now.groups, report)
    moved = moved_groups(now, found, report)
    outcomes = list(_target(section))
    for index, written in enumerate(section.groups):
        outcomes.append(
            _group(found, index, written, moved.get(index), report, section)
        )
    outcomes += check_whole(now, section, report, found)
    if lacks_backward(section, report):
        return _without_backward(section, outcomes)
    return outcomes


def _target(section: ExpectationSection) -> Iterable[ExpectationOutcome]:
    """The note that the model has another name now."""
    if section.renamed is not None:
        yield ExpectationOutcome(
            section.name,
            (*section.path, "when", "target"),
            True,
            f"the model {section.renamed.old}",
            section.renamed.new,
            at=section.positions.get("when"),
            note=new_name([section.renamed.old], [section.renamed.new]),
            names={"target": (section.renamed.new,)},
        )


def lacks_backward(section: ExpectationSection, report: Report) -> bool:
    """True if the section expects groups of backward passes, and the run is known
    to have had none."""
    if all(
        group.phase != "backward" or group.count.at_least is None
        for group in section.groups
    ):
        return False
    phases = {group.phase for group in report.groups} | {
        row.phase for row in report.unfused
    }
    options = report.target.options
    requested = options.backward if options is not None else None
    return "backward" not in phases and ("forward" in phases or requested is False)


def _without_backward(
    section: ExpectationSection, outcomes: Sequence[ExpectationOutcome]
) -> list[ExpectationOutcome]:
    """Give the outcomes of backward passes one common explanation: their groups,
    the number of groups if it is too low, and the limits on all operators. A
    forward pass that records nothing for a backward pass has other plans."""
    paths = set()
    for group in section.groups:
        if group.phase == "backward":
            paths.add(group.path)
    number = (*section.path, "number_of_groups")
    whole = ((*section.path, "not_fused"), (*section.path, "min_coverage"))
    explained = []
    for outcome in outcomes:
        is_of_backward = outcome.path in paths or outcome.path in whole
        lacks_groups = outcome.path == number and outcome.too_few(section)
        if not outcome.holds and (is_of_backward or lacks_groups):
            explained.append(replace(outcome, why=NO_BACKWARD, near=None))
        else:
            explained.append(outcome)
    return explained


def _group(
    found: Assignment,
    index: int,
    written: GroupExpectation,
    moved: Moved | None,
    report: Report,
    section: ExpectationSection,
) -> ExpectationOutcome:
    """The outcome of one group expectation.

    A group may fulfil several expectations, with all its instances; specialisations
    of one group count once, as the group that they specialise.
    """
    matched = found.matched[index]
    wanted = matched.wanted
    number = matched.number + (moved.number if moved is not None else 0)
    fulfilling = (*matched.groups, *(moved.groups if moved is not None else ()))
    groups = {group.id: group for group in fulfilling}
    unknown = None
    if not number and wanted.count.holds(0):
        unknown = unknown_without_plan(report)
    holds = unknown is None and wanted.count.holds(number)
    shown, why, near = _shown(matched, groups, number, holds), None, None
    if not holds and matched.lacking:
        near = near_miss(
            report,
            wanted,
            _nearest(matched),
            found.claimed,
            section.not_fused or (),
        )
        why = _why(near, bool(groups)) or (
            nothing_fused(report) if not groups else None
        )
        shown = shown if groups else near.found
    names, notes = _other_names(wanted, written, moved)
    return ExpectationOutcome(
        section.name,
        wanted.path,
        holds,
        _expected(wanted, written),
        unknown or shown,
        why,
        wanted.at,
        tuple(groups),
        near,
        number,
        "; ".join(notes) or None,
        names,
    )


def _nearest(matched: Matched) -> list[Group]:
    if matched.nearest is None:
        return []
    return [matched.nearest]


def _expected(wanted: GroupExpectation, written: GroupExpectation) -> str:
    """The expectation in words, with the names of its file."""
    text = describe(written)
    exactly = wanted.count.at_most
    if exactly == 0:
        return f"no group {text}"
    if exactly is not None or (wanted.count.at_least or 1) > 1:
        return f"{wanted.count} of {text}"
    return text


def _why(near: NearMiss, some_fulfil: bool) -> str | None:
    """The known reasons of the operators that the group lacks."""
    if not some_fulfil:
        return near.why or None
    if near.group is not None:
        return f"the next nearest is {near.found}: {near.why}"
    return (
        "; ".join(
            sentences(
                [missing for missing in near.missing if missing.row is not None]
            )
        )
        or None
    )


def _other_names(
    wanted: GroupExpectation, written: GroupExpectation, moved: Moved | None
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The new values of names in the expectation, by key; and the notes on them."""
    names: dict[str, tuple[str, ...]] = {}
    notes = []
    if wanted.layer != written.layer:
        names["layer"] = wanted.layer
        notes.append(new_name(written.layer, wanted.layer))
    if moved is not None:
        names.update(moved.names)
        if moved.note:
            notes.append(moved.note)
    return names, notes


def _shown(
    matched: Matched, groups: Mapping[str, Group], number: int, holds: bool
) -> str:
    """The groups that fulfil an expectation, and how many of them: ``3 (G1 ×2,
    G4)``."""
    texts = []
    for group in groups.values():
        these = instances_in(group, matched.wanted.layer)
        times = f" ×{len(these)}" if len(these) > 1 else ""
        texts.append(group.id + times if holds else instances(group, these))
    shown = ", ".join(texts)
    if number > 1 or matched.wanted.count.at_most is not None:
        if groups:
            return f"{number} ({shown})"
        return "0 ()"
    return shown or "none"
