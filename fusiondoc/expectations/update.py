"""``--update``: a file of expectations brought in line with a report, everything else left as it was.

A section of a file of expectations written from a report: its lines as YAML.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from typing import Any, Callable, Mapping, Sequence

import yaml

from fusiondoc.errors import UsageError
from fusiondoc.expectations import Expectations, Section, applying, fits, is_in_layer, yaml_text
from fusiondoc.expectations.assignment import specialised_once
from fusiondoc.expectations.match import check, lacks_backward
from fusiondoc.expectations.missing import without_namespace
from fusiondoc.expectations.outcome import Outcome, not_told
from fusiondoc.expectations.read_file import loads
from fusiondoc.expectations.yaml_text import CannotEdit
from fusiondoc.model.operator_places import module_tree, outside
from fusiondoc.model.report import Group, Report

_WIDTH = 100
_HEAD = (
    "# What fusiondoc check compares a run with; docs/commands/check.md of fusiondoc describes the keys.",
    "# fusiondoc check --update brings it up to date.",
)


def new_file(report: Report) -> str:
    """A file whose one section is what the report shows."""
    lines = ["sections:", *(f"  {line}" for line in _item(section_lines(report)))]
    return "\n".join([*_HEAD, *lines]) + "\n"


def section_lines(report: Report) -> list[str]:
    """The lines of a section that holds for this report and others of the same model and fuser."""
    lines = []
    name = report.target.name or ""
    # The capture of a run knows its model; the name of a log is no model.
    if name and report.target.capture:
        fuser = f", {report.fuser.effective}" if report.fuser.effective else ""
        lines.append(f"name: {quoted(name + fuser)}")
    when = [f"target: {quoted(name)}"] if lines else []
    if report.fuser.effective:
        when.append(f"fuser: {report.fuser.effective}")
    if when:
        lines += ["when:", *(f"  {line}" for line in when)]
    groups = group_items([group for group in report.groups if group.respecialises is None])
    if groups:
        lines += ["groups:", *(f"  {line}" for item in groups for line in _item(item))]
    modules = [item for _, item in module_items(report)]
    if modules:
        lines += ["modules:", *(f"  {line}" for item in modules for line in _item(item))]
    number = specialised_once(report)
    lines += [
        f"number_of_groups: {number}",
        f"max_fallbacks: {sum(fallback.count for fallback in report.fallbacks)}",
    ]
    if report.coverage.told:
        names = sorted({row.op for row in outside(report) if fits("operator", row.op)})
        lines += wrapped("not_fused", names)
    if report.coverage.fraction is not None:
        lines.append(f"min_coverage: {share(report.coverage.fraction)}")
    return lines


def group_items(groups: Sequence[Group]) -> list[list[str]]:
    """The lines of an item for each group; groups with the same operators and phase are one item."""
    same: dict[tuple[tuple[str, ...], str | None], int] = {}
    for group in groups:
        key = (group.ops, group.phase)
        same[key] = same.get(key, 0) + group.count
    items = []
    for (ops, phase), count in same.items():
        lines = wrapped("ops", ops)
        if phase:
            lines.append(f"phase: {phase}")
        if count > 1:
            lines.append(f"at_least: {count}")
        items.append(lines)
    return items


def module_items(report: Report) -> list[tuple[str, list[str]]]:
    """The path and the lines of an item for each outermost module (those in it, where it is the only one)
    with a group: at most twenty, the largest. None where the layers or the coverage are not told."""
    modules = module_tree(report) if report.coverage.told else ()
    while len(modules) == 1 and modules[0].inside:
        modules = modules[0].inside
    written = [one for one in modules if one.fused and fits("layer", one.path) and "*" not in one.path]
    largest = sorted(written, key=lambda one: one.fused + one.unfused)[-20:]
    chosen = [(one.path, one.share or 0.0) for one in written if one in largest]
    return [(path, [f"layer: {quoted(path)}", f"coverage: {share(part)}"]) for path, part in chosen]


def wrapped(key: str, values: Sequence[str]) -> list[str]:
    """``key: [a, b]``, over several lines where it is long."""
    text = f"{key}: [{', '.join(values)}]"
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def quoted(text: str) -> str:
    """A text as a YAML scalar, in quotes unless it is plainly a path or a name."""
    if re.match(r"[A-Za-z_./][\w./-]*(:[\w.]+)?(, [a-z]+)?\Z", text, re.ASCII) and _is_text(text):
        return text
    # A string of JSON is one of YAML, but for characters that YAML does not take as they are.
    return _UNPRINTABLE.sub(
        lambda match: f"\\u{ord(match.group()):04x}", json.dumps(text, ensure_ascii=False)
    )


_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _is_text(text: str) -> bool:
    """Whether YAML reads the word as text: not as a number, a truth value or nothing."""
    return bool(yaml.safe_load(text) == text)


def share(value: float) -> str:
    """A share rounded down to a thousandth, so that it holds for what it was taken from."""
    return f"{math.floor(min(max(value, 0.0), 1.0) * 1000 + 1e-9) / 1000:g}"


def _item(lines: Sequence[str]) -> list[str]:
    return [("- " if i == 0 else "  ") + line for i, line in enumerate(lines)]


_ROUNDS = 4


def updated(text: str, name: str, report: Report, only: Sequence[str] = ()) -> str:
    """The text with which the report holds, and in which no group of the report is left out.

    ``only`` names sections to update whatever run they are for.

    Raises:
        UsageError: the text is no file of expectations, or is written in a way that cannot be edited; or the
            report is of a run without a plan, which would leave nothing of what is expected.
    """
    cause = not_told(report)
    if cause is not None:
        raise UsageError(
            f"--update found nothing to write down: {cause}",
            "fusiondoc diagnose (of a log: parse) says what to do about it.",
        )
    if not text.strip():
        return new_file(report)
    expectations = loads(text, name)
    refuse_what_cannot_be_edited(text, name)
    sections = _chosen(expectations, report, only)
    try:
        if not sections:
            return _proved(_with_section(text, expectations, report), name, report, only)
        for section in sections:
            text = _section(text, name, section, report)
        return _proved(text, name, report, only)
    except CannotEdit as reason:
        raise UsageError(
            f"--update cannot edit {name}: {reason}",
            "Write lists and mappings on lines of their own, without anchors; or give --expect a new file.",
        ) from None


def refuse_what_cannot_be_edited(text: str, name: str) -> None:
    """UsageError for a file that --update will not edit whatever is found: known before anything runs."""
    repeated = yaml_text.first_alias(text)
    if repeated is not None:
        alias, line, anchored = repeated
        raise UsageError(
            f"--update cannot edit {name}: line {line} repeats with *{alias} what &{alias} names in line"
            f" {anchored}, so a change of one place would change the other",
            f"Write it out in line {line}, without the anchor; or give --expect a new file.",
        )


def refuse_to_drop_backward(text: str, name: str, report: Report, only: Sequence[str] = ()) -> None:
    """UsageError where the file has groups of backward passes and the run had none: they would be lost."""
    sections = _chosen(loads(text, name), report, only)
    if any(lacks_backward(section, report) for section in sections):
        raise UsageError(
            f"--update cannot edit {name}: it has groups of backward passes, and this run had none",
            "Run with --backward; or take these groups out by hand.",
        )


def _with_section(text: str, expectations: Expectations, report: Report) -> str:
    if not expectations.sections or not expectations.sections[0].path:
        raise CannotEdit("its one section is for another run; put it under 'sections:' to add one")
    return yaml_text.append(text, ("sections",), section_lines(report))


def _section(text: str, name: str, section: Section, report: Report) -> str:
    """One section, in rounds: a change of one expectation can show another."""
    for _ in range(_ROUNDS):
        before = text
        outcomes = check(section, report)
        text = _renamed_modules(text, section, outcomes, report)
        text = _whole(text, outcomes)
        text = _groups(text, section, outcomes, report)
        if text == before:
            break
        section = next(s for s in loads(text, name).sections if s.path == section.path)
    return text


def _chosen(expectations: Expectations, report: Report, only: Sequence[str]) -> list[Section]:
    if only:
        return [section for section in expectations.sections if section.name in only]
    return applying(expectations, report)


def _proved(text: str, name: str, report: Report, only: Sequence[str]) -> str:
    """The text, if it is what it should be. PyYAML reads it again, so a wrong edit cannot get out."""
    try:
        sections = _chosen(loads(text, name), report, only)
    except UsageError as error:
        raise CannotEdit(f"the change would not be read again ({error.message.splitlines()[0]})") from None
    broken = [outcome.text for section in sections for outcome in check(section, report) if not outcome.holds]
    if broken or not sections:
        raise CannotEdit(f"it would still be broken: {broken[0] if broken else 'no section applies'}")
    return text


def _groups(text: str, section: Section, outcomes: Sequence[Outcome], report: Report) -> str:
    of_groups = [o for o in outcomes if o.path[: len(section.path) + 1] == (*section.path, "groups")]
    claimed = {id_ for outcome in of_groups for id_ in outcome.groups}
    gone = []
    for outcome in of_groups:
        if outcome.holds:
            continue
        near = outcome.near
        if outcome.groups:
            text = _count(text, outcome)
        elif near is not None and near.group is not None and len(near.shared) * 2 > len(near.wanted.ops):
            group = near.group
            if (group.respecialises or group.id) in claimed:
                gone.append(outcome)
                continue
            claimed.add(group.respecialises or group.id)
            text = _as_found(text, outcome, group)
        else:
            gone.append(outcome)
    path = (*section.path, "groups")
    left = [g for g in report.groups if g.respecialises is None and g.id not in claimed]
    new = group_items(left)
    if of_groups:
        for item in new:
            text = yaml_text.append(text, path, item)
    for outcome in reversed(gone):
        text = _take_out(text, section, outcome, report)
    return text


def _renamed_modules(text: str, section: Section, outcomes: Sequence[Outcome], report: Report) -> str:
    """Where a module of the section is not in the run any more, those that no item names are added: it may
    have another name now, and what is taken out is not watched any more."""
    path = (*section.path, "modules")
    absent = {one.path for one in outcomes if one.path[:-1] == path and not one.holds and one.value is None}
    if not absent:
        return text
    patterns = [one.layer for one in section.modules if one.path not in absent]
    for layer, lines in module_items(report):
        if not any(is_in_layer(layer, one) or one.startswith(f"{layer}.") for one in patterns):
            text = yaml_text.append(text, path, lines)
    return text


def _take_out(text: str, section: Section, outcome: Outcome, report: Report) -> str:
    """Remove an expectation; a section that would hold nothing gets the number of groups."""
    try:
        trial = yaml_text.remove(text, outcome.path)
        loads(trial, "")
        return trial
    except (CannotEdit, UsageError):
        number = specialised_once(report)
        text = yaml_text.add_key(text, section.path, [f"number_of_groups: {number}"])
        return yaml_text.remove(text, outcome.path)


def _count(text: str, outcome: Outcome) -> str:
    number = str(outcome.value)
    for key in ("exactly", "at_least"):
        try:
            return yaml_text.set_value(text, (*outcome.path, key), number)
        except CannotEdit:
            continue
    raise CannotEdit("a group without a count")


def _as_found(text: str, outcome: Outcome, group: Group) -> str:
    """The expectation as the nearest group is: only the operators, if nothing else is different."""
    near = outcome.near
    assert near is not None
    key = {"sequence": "ops", "set": "set", "contains": "contains"}[near.wanted.order]
    ops: Sequence[str] = group.ops
    if key == "set":
        ops = tuple(dict.fromkeys(ops))
    elif key == "contains":
        ops = near.shared
    if near.conditions:
        return yaml_text.replace_item(text, outcome.path, group_items([group])[0])
    path = (*outcome.path, key)
    if yaml_text.value(text, path) is None:
        path = outcome.path  # a plain list
    if not any("::" in name for name in yaml_text.value(text, path) or ()):
        ops = [without_namespace(op) for op in ops]  # as they were written
    return yaml_text.set_value(text, path, ops)


def _whole(text: str, outcomes: Sequence[Outcome]) -> str:
    """Limits and findings; removals last, so that paths stay true."""
    gone = []
    for outcome in outcomes:
        key = next(
            (
                part
                for part in outcome.path
                if part in _LIMITS or part in ("modules", "not_fused", "findings")
            ),
            None,
        )
        if outcome.holds or key is None or "groups" in outcome.path:
            continue
        if key == "modules" and outcome.value is not None:
            text = yaml_text.set_value(text, (*outcome.path, "coverage"), share(outcome.value))
        elif key == "findings":
            if "allow" in outcome.path:
                for code in dict.fromkeys(f.code for f in outcome.value):
                    text = yaml_text.append(text, outcome.path[:-1], [code])
            else:
                gone.append(outcome)
        elif outcome.value is None:
            gone.append(outcome)
        elif key == "not_fused":
            names = [name for name in outcome.value if fits("operator", name)]
            if not any("::" in name for name in yaml_text.value(text, outcome.path) or ("::",)):
                names = [without_namespace(name) for name in names]  # as they were written
            text = yaml_text.set_value(text, outcome.path, names)
        elif key == "number_of_groups":
            text = yaml_text.set_value(text, outcome.path, str(outcome.value))
        else:
            text = yaml_text.set_value(text, outcome.path, _LIMITS[str(key)](outcome.value))
    for outcome in sorted(gone, key=lambda o: [str(part).zfill(6) for part in o.path], reverse=True):
        text = yaml_text.remove(text, outcome.path)
    return text


_LIMITS: Mapping[str, Callable[[Any], str]] = {
    "number_of_groups": str,
    "max_fallbacks": str,
    "min_coverage": share,
    "min_peak": lambda value: f"{math.floor(value * 100) / 100:g}",
    "min_gb_per_s": lambda value: str(math.floor(value)),
    "max_step_ms": lambda value: f"{math.ceil(value * 100) / 100:g}",
    "min_groups_share": share,
    "max_unfused_share": lambda value: f"{math.ceil(value * 1000) / 1000:g}",
    "max_could_save": lambda value: f"{math.ceil(value * 1000) / 1000:g}",
}
"""How a limit is written that what was found just reaches."""
