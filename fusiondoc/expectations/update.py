"""``--update``: adapts a file of expectations to a report; everything else in it is
unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from fusiondoc.errors import UsageError
from fusiondoc.expectations import (
    Expectations,
    ExpectationSection,
    Path,
    RequiredCount,
    is_in_layer,
    yaml_text,
)
from fusiondoc.expectations.assignment import specialised_once
from fusiondoc.expectations.keys import ORDERS, fits
from fusiondoc.expectations.match import check, lacks_backward
from fusiondoc.expectations.missing_in_words import without_namespace
from fusiondoc.expectations.new_section import (
    group_items,
    items_of_groups,
    module_items,
    new_file,
    quoted,
    section_lines,
    section_name,
    share,
)
from fusiondoc.expectations.outcome import ExpectationOutcome, without_plan
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.renamed_target import sections_for
from fusiondoc.expectations.yaml_text import CannotEdit
from fusiondoc.model.report import Group, Report

_ROUNDS = 4


def updated(text: str, name: str, report: Report, only: Sequence[str] = ()) -> str:
    """Return the text with which the report passes, and in which no group of the
    report is missing.

    ``only`` names sections to update even if they do not apply to this run.

    Raises:
        UsageError: the text is no file of expectations, or is written in a way that
            cannot be edited; or the report is of a run without a plan, which would
            delete every expectation.
    """
    cause = without_plan(report)
    if cause is not None:
        raise UsageError(
            f"--update found nothing to write down: {cause}",
            "fusiondoc diagnose (of a log: parse) shows what to do about it.",
        )
    if not text.strip():
        return new_file(report)
    expectations = loads(text, name)
    refuse_what_cannot_be_edited(text, name)
    sections = _chosen(expectations, report, only)
    try:
        if not sections:
            return _proved(
                _with_section(text, expectations, report), name, report, only
            )
        for section in sections:
            text = _under_its_name(text, section)
        for section in sections:
            now = next(
                known
                for known in loads(text, name).sections
                if known.path == section.path
            )
            text = _section(text, name, now, report)
        return _proved(text, name, report, only)
    except CannotEdit as reason:
        raise UsageError(
            f"--update cannot edit {name}: {reason}",
            "Write lists and mappings on lines of their own, without anchors; or give --expect a new file.",
        ) from None


def refuse_what_cannot_be_edited(text: str, name: str) -> None:
    """Raise UsageError for a file that --update cannot edit, whatever the result:
    known before anything runs."""
    repeated = yaml_text.first_alias(text)
    if repeated is not None:
        alias, line, anchored = repeated
        raise UsageError(
            f"--update cannot edit {name}: line {line} repeats with *{alias} what &{alias} names in line"
            f" {anchored}, so a change of one place would change the other",
            f"Write it out in line {line}, without the anchor; or give --expect a new file.",
        )


def refuse_to_drop_backward(
    text: str, name: str, report: Report, only: Sequence[str] = ()
) -> None:
    """Raise UsageError if the file has groups of backward passes and the run had
    none: they would be deleted."""
    sections = _chosen(loads(text, name), report, only)
    if any(lacks_backward(section, report) for section in sections):
        raise UsageError(
            f"--update cannot edit {name}: it has groups of backward passes, and this run had none",
            "Run with --backward; or take these groups out by hand.",
        )


def _with_section(text: str, expectations: Expectations, report: Report) -> str:
    if not expectations.sections or not expectations.sections[0].path:
        raise CannotEdit(
            "its one section is for another run; put it under 'sections:' to add one"
        )
    return yaml_text.append(text, ("sections",), section_lines(report))


def _section(
    text: str, name: str, section: ExpectationSection, report: Report
) -> str:
    """Update one section, in rounds: a change of one expectation can affect
    another."""
    for _ in range(_ROUNDS):
        before = text
        outcomes = check(section, report)
        text = _renamed(text, outcomes)
        text = _renamed_modules(text, section, outcomes, report)
        text = _whole(text, section, outcomes)
        text = _groups(text, section, outcomes, report)
        if text == before:
            break
        section = next(
            s for s in loads(text, name).sections if s.path == section.path
        )
    return text


def _under_its_name(text: str, section: ExpectationSection) -> str:
    """Change the section to the name that its model has now."""
    renamed = section.renamed
    if renamed is None:
        return text
    at: Path = (*section.path, "when", "target")
    if section.run.target == renamed.old:
        at = (*section.path, "run", "target")
    several = yaml_text.value(text, at)
    if several is not None:
        at = (*at, several.index(renamed.old))
    text = yaml_text.set_value(text, at, quoted(renamed.new))
    if section.name == section_name(renamed.old, section.when.fuser[:1]):
        name = section_name(renamed.new, section.when.fuser[:1])
        text = yaml_text.set_value(text, (*section.path, "name"), quoted(name))
    before = next(
        known for known in loads(text, "").sections if known.path == section.path
    )
    for group, old in zip(section.groups, before.groups):
        if group.source != old.source:
            text = _set_names(
                text, group.path, {"source": tuple(map(str, group.source))}
            )
    return text


def _renamed(text: str, outcomes: Sequence[ExpectationOutcome]) -> str:
    """Give groups that only have other names these names."""
    for outcome in outcomes:
        if outcome.holds:
            text = _set_names(text, outcome.path, outcome.names)
    return text


def _set_names(text: str, path: Path, names: Mapping[str, Sequence[str]]) -> str:
    """Set new values for keys of an expectation: alone, or in a list, as they were
    or as necessary."""
    for key, values in names.items():
        if key == "ops":
            text = _set_operators(text, path, values)
            continue
        at = (*path, key)
        several = yaml_text.value(text, at) is not None or len(values) > 1
        new = [quoted(value) for value in values]
        text = yaml_text.set_value(text, at, new if several else new[0])
    return text


def _set_operators(text: str, path: Path, ops: Sequence[str]) -> str:
    """Set the operators of a group's expectation, under its own key and in its
    style."""
    keys = []
    for key in ORDERS:
        if yaml_text.value(text, (*path, key)) is not None:
            keys.append(key)
    at = (*path, keys[0]) if keys else path  # else a plain list
    if not any("::" in name for name in yaml_text.value(text, at) or ()):
        ops = [without_namespace(op) for op in ops]
    return yaml_text.set_value(text, at, ops)


def _chosen(
    expectations: Expectations, report: Report, only: Sequence[str]
) -> list[ExpectationSection]:
    if only:
        sections = []
        for section in expectations.sections:
            if section.name in only:
                sections.append(section)
        return sections
    return sections_for(expectations, report)


def _proved(text: str, name: str, report: Report, only: Sequence[str]) -> str:
    """Return the text if it parses to the expectations that it should contain.
    PyYAML parses it again, so that a wrong edit is never written."""
    try:
        sections = _chosen(loads(text, name), report, only)
    except UsageError as error:
        raise CannotEdit(
            f"the change would not be read again ({error.message.splitlines()[0]})"
        ) from None
    broken = []
    for section in sections:
        for outcome in check(section, report):
            if not outcome.holds:
                broken.append(outcome.text)
    if broken or not sections:
        raise CannotEdit(
            f"it would still be broken: {broken[0] if broken else 'no section applies'}"
        )
    return text


def _groups(
    text: str,
    section: ExpectationSection,
    outcomes: Sequence[ExpectationOutcome],
    report: Report,
) -> str:
    path = (*section.path, "groups")
    of_groups = []
    for outcome in outcomes:
        if outcome.path[: len(path)] == path:
            of_groups.append(outcome)
    if not of_groups:
        return text
    claimed: set[str] = set()
    for outcome in of_groups:
        claimed.update(outcome.groups)
    gone = []
    for outcome in of_groups:
        if outcome.holds:
            continue
        group = _successor(outcome)
        if outcome.groups:
            text = _count(text, outcome)
        elif group is None or _first_of(group) in claimed:
            gone.append(outcome)
        else:
            claimed.add(_first_of(group))
            text = _as_found(text, outcome, group)
    for item in _unnamed_groups(report, claimed):
        text = yaml_text.append(text, path, item)
    for outcome in reversed(gone):
        text = _take_out(text, section, outcome, report)
    return text


def _unnamed_groups(report: Report, claimed: Container[str]) -> list[list[str]]:
    """The lines of items for the groups that belong to no expectation."""
    return items_of_groups(
        report, [group for group in report.groups if group.id not in claimed]
    )


def _first_of(group: Group) -> str:
    """The id of the group to which a specialisation belongs."""
    return group.respecialises or group.id


def _successor(outcome: ExpectationOutcome) -> Group | None:
    """The nearest group, if it has more than half of the expected operators."""
    near = outcome.near
    if (
        near is None
        or near.group is None
        or len(near.shared) * 2 <= len(near.wanted.ops)
    ):
        return None
    return near.group


def _renamed_modules(
    text: str,
    section: ExpectationSection,
    outcomes: Sequence[ExpectationOutcome],
    report: Report,
) -> str:
    """If a module of the section is no longer in the run, add the modules that no
    item names: it may have another name now, and a deleted item is no longer
    checked."""
    path = (*section.path, "modules")
    absent = set()
    for outcome in outcomes:
        if (
            outcome.path[:-1] == path
            and not outcome.holds
            and outcome.value is None
        ):
            absent.add(outcome.path)
    if not absent:
        return text
    patterns = []
    for module in section.modules:
        if module.path not in absent:
            patterns.append(module.layer)
    for layer, lines in module_items(report):
        if not any(
            is_in_layer(layer, pattern) or pattern.startswith(f"{layer}.")
            for pattern in patterns
        ):
            text = yaml_text.append(text, path, lines)
    return text


def _take_out(
    text: str,
    section: ExpectationSection,
    outcome: ExpectationOutcome,
    report: Report,
) -> str:
    """Remove an expectation; a section that would become empty gets the number of
    groups."""
    try:
        trial = yaml_text.remove(text, outcome.path)
        loads(trial, "")
        return trial
    except (CannotEdit, UsageError):
        number = specialised_once(report)
        text = yaml_text.add_key(
            text, section.path, [f"number_of_groups: {number}"]
        )
        return yaml_text.remove(text, outcome.path)


def _count(text: str, outcome: ExpectationOutcome) -> str:
    number = str(outcome.value)
    for key in ("exactly", "at_least"):
        try:
            return yaml_text.set_value(text, (*outcome.path, key), number)
        except CannotEdit:
            continue
    raise CannotEdit("a group without a count")


def _as_found(text: str, outcome: ExpectationOutcome, group: Group) -> str:
    """Change the expectation to the nearest group: only the operators, if nothing
    else differs."""
    near = outcome.near
    assert near is not None
    key = {"sequence": "ops", "set": "set", "contains": "contains"}[
        near.wanted.order
    ]
    ops: Sequence[str] = group.ops
    if key == "set":
        ops = tuple(dict.fromkeys(ops))
    elif key == "contains":
        ops = near.shared
    if near.conditions:
        return yaml_text.replace_item(text, outcome.path, group_items([group])[0])
    return _set_operators(text, outcome.path, ops)


def _whole(
    text: str, section: ExpectationSection, outcomes: Sequence[ExpectationOutcome]
) -> str:
    """Update limits and findings; removals last, so that paths stay valid."""
    gone: dict[Path, ExpectationOutcome] = {}
    for outcome in outcomes:
        key = _key_of_whole(outcome)
        if outcome.holds or key is None:
            continue
        changed = _with_found(text, key, section, outcome)
        if changed is None:
            gone.setdefault(outcome.path, outcome)
        else:
            text = changed
    for outcome in sorted(
        gone.values(),
        key=lambda outcome: [str(part).zfill(6) for part in outcome.path],
        reverse=True,
    ):
        text = yaml_text.remove(text, outcome.path)
    return text


def _key_of_whole(outcome: ExpectationOutcome) -> str | None:
    """The key of an expectation of the whole report; None for a group."""
    if "groups" in outcome.path:
        return None
    known = (
        *_LIMITS,
        "modules",
        "not_fused",
        "findings",
        "one_kernel",
        "compiled_graphs",
        "may_fall_back",
    )
    # The innermost key: a limit of a graph is set like a limit of the whole report.
    for part in reversed(outcome.path):
        if part in known:
            return str(part)
    return None


def _with_found(
    text: str, key: str, section: ExpectationSection, outcome: ExpectationOutcome
) -> str | None:
    """The text with the found value instead of the expected one; None if the key
    has to be removed."""
    value = outcome.value
    if key == "findings":
        if "allow" in outcome.path:
            return _with_findings(text, outcome)
        return None
    if value is None:
        return None
    if key == "modules":
        return yaml_text.set_value(text, (*outcome.path, "coverage"), share(value))
    if key in ("not_fused", "may_fall_back"):
        return _with_operators_outside(text, outcome)
    if key == "number_of_groups" and section.number_of_groups is not None:
        return _number(text, outcome.path, value, section.number_of_groups)
    return yaml_text.set_value(text, outcome.path, _LIMITS[key](value))


def _with_findings(text: str, outcome: ExpectationOutcome) -> str:
    for code in dict.fromkeys(finding.code for finding in outcome.value):
        text = yaml_text.append(text, outcome.path[:-1], [code])
    return text


def _with_operators_outside(text: str, outcome: ExpectationOutcome) -> str:
    names = [name for name in outcome.value if fits("operator", name)]
    written = yaml_text.value(text, outcome.path)
    if written and not any("::" in name for name in written):
        names = [without_namespace(name) for name in names]  # as they were written
    return yaml_text.set_value(text, outcome.path, names)


def _number(text: str, path: Path, number: int, wanted: RequiredCount) -> str:
    """The bound that was broken; a number alone where it is one."""
    if wanted.plain:
        return yaml_text.set_value(text, path, str(number))
    if wanted.at_least is not None and number < wanted.at_least:
        bound = "at_least"
    else:
        bound = "at_most"
    if yaml_text.scalar(text, (*path, bound)) is None:
        bound = "exactly"
    return yaml_text.set_value(text, (*path, bound), str(number))


_LIMITS: Mapping[str, Callable[[Any], str]] = {
    "number_of_groups": str,
    "max_fallbacks": str,
    "max_kernels": str,
    "max_graph_breaks": str,
    "max_recompiles": str,
    "bytes_at_most": str,
    "min_coverage": share,
    "min_peak": lambda value: f"{math.floor(value * 100) / 100:g}",
    "min_gb_per_s": lambda value: str(math.floor(value)),
    "max_step_ms": lambda value: f"{math.ceil(value * 100) / 100:g}",
    "min_groups_share": share,
    "max_unfused_share": lambda value: f"{math.ceil(value * 1000) / 1000:g}",
    "max_could_save": lambda value: f"{math.ceil(value * 1000) / 1000:g}",
}
"""How a limit is written that the found value just reaches."""
