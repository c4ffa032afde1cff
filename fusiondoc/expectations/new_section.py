"""A section of a file of expectations written from a report: its lines as YAML."""

from __future__ import annotations

import json
import math
import re
import textwrap
from typing import Sequence

import yaml

from fusiondoc.expectations.fields import fits
from fusiondoc.model.module_tree import module_tree, outside
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
    name = str(report.target.get("name") or "")
    # The capture of a run knows its model; the name of a log is no model.
    if name and report.target.get("capture"):
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
    modules = module_items(report)
    if modules:
        lines += ["modules:", *(f"  {line}" for item in modules for line in _item(item))]
    number = sum(group.count for group in report.groups if group.respecialises is None)
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


def module_items(report: Report) -> list[list[str]]:
    """The lines of an item for each outermost module (those in it, where it is the only one) with a group:
    at most twenty, the largest. None where the layers or the coverage are not told."""
    modules = module_tree(report) if report.coverage.told else ()
    while len(modules) == 1 and modules[0].inside:
        modules = modules[0].inside
    written = [one for one in modules if one.fused and fits("layer", one.path) and "*" not in one.path]
    largest = sorted(written, key=lambda one: one.fused + one.unfused)[-20:]
    chosen = [(one.path, one.share or 0.0) for one in written if one in largest]
    return [[f"layer: {quoted(path)}", f"coverage: {share(part)}"] for path, part in chosen]


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
