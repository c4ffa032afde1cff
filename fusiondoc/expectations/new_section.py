"""A section of a file of expectations written from a report: its lines as YAML.

The section still holds for a larger model of the same kind: one more equal layer,
with its groups, is no loss.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence

import yaml

from fusiondoc.expectations import GraphLimits
from fusiondoc.expectations.assignment import specialised_once
from fusiondoc.expectations.compiled_runs import (
    all_bytes,
    fallback_rows,
    graphs_at,
    own_breaks,
)
from fusiondoc.expectations.keys import PHASES, fits
from fusiondoc.expectations.renamed_modules import in_pattern
from fusiondoc.model.compiled import CompiledReport
from fusiondoc.model.operator_places import (
    InLayer,
    Module,
    module_tree,
    operators_by_layer,
    outside,
)
from fusiondoc.model.report import Group, Report

_WIDTH = 100
_HEAD = (
    "# What fusiondoc check compares a run with; docs/commands/check.md of fusiondoc describes the keys.",
    "# fusiondoc check --update brings it up to date.",
)


def new_file(report: Report) -> str:
    """A file with one section, which states the groups and shares of the report."""
    lines = [
        "sections:",
        *(f"  {line}" for line in _as_item(section_lines(report))),
    ]
    return "\n".join([*_HEAD, *lines]) + "\n"


def section_lines(report: Report) -> list[str]:
    """The lines of a section that holds for this report and others of the same
    model and fuser."""
    modules = [lines for _, lines in module_items(report)]
    start = [
        *_name_and_when(report),
        *_list("groups", items_of_groups(report, report.groups)),
        *_list("modules", modules),
    ]
    if report.compiled is not None:
        return [*start, *_limits_of_compiled(report, report.compiled)]
    return [
        *start,
        f"number_of_groups: {{at_least: {specialised_once(report)}}}",
        f"max_fallbacks: {report.times_fallen_back}",
        *_coverage(report),
    ]


def _limits_of_compiled(report: Report, compiled: CompiledReport) -> list[str]:
    """Limits for kernels and bytes: fewer of them are no loss."""
    fallbacks = sorted(
        {row.op for row in fallback_rows(report) if fits("operator", row.op)}
    )
    lines = [
        *_list("compiled_graphs", list(_graph_items(report))),
        f"max_graph_breaks: {len(own_breaks(compiled))}",
        f"max_recompiles: {sum(row.count for row in compiled.recompiles)}",
        *wrapped("may_fall_back", fallbacks),
    ]
    moved = all_bytes(compiled)
    if moved is not None:
        lines.append(f"bytes_at_most: {moved}")
    return lines


def _graph_items(report: Report) -> Iterator[list[str]]:
    """The largest number of kernels of a graph, for each pass."""
    for phase in PHASES:
        graphs = graphs_at(GraphLimits(phase=phase), report)
        if graphs:
            most = max(graph.kernels for graph in graphs)
            yield [f"phase: {phase}", f"max_kernels: {most}"]


def _name_and_when(report: Report) -> list[str]:
    lines, when = [], []
    target, fuser = report.target.name, report.fuser.effective
    # The capture of a run knows its model; the name of a log is no model.
    if target and report.target.capture:
        lines.append(
            f"name: {quoted(section_name(target, [fuser] if fuser else []))}"
        )
        when.append(f"  target: {quoted(target)}")
    if fuser:
        when.append(f"  fuser: {fuser}")
    if when:
        return [*lines, "when:", *when]
    return lines


def _list(key: str, items: Sequence[Sequence[str]]) -> list[str]:
    """A key with a list of these items; empty if there are none."""
    if not items:
        return []
    return [f"{key}:", *(f"  {line}" for item in items for line in _as_item(item))]


def _coverage(report: Report) -> list[str]:
    lines = []
    if report.coverage.is_known:
        names = sorted(
            {row.op for row in outside(report) if fits("operator", row.op)}
        )
        lines += wrapped("not_fused", names)
    if report.coverage.fraction is not None:
        lines.append(f"min_coverage: {share(lowest_coverage(report))}")
    return lines


def section_name(target: str, fusers: Sequence[str]) -> str:
    """The name of a new section: the target and the fusers, with commas."""
    return ", ".join((target, *fusers))


def items_of_groups(report: Report, groups: Sequence[Group]) -> list[list[str]]:
    """The lines of an item for each of these groups that can be expected in other
    runs. For torch.compile these are kernels of several operators, as single
    operators may get into larger kernels. A second stage of a reduction is not on
    every device.
    """
    first = [group for group in groups if group.respecialises is None]
    if report.compiled is None:
        return group_items(first)
    stages = report.compiled.second_stages
    return group_items(
        [one for one in first if len(one.ops) > 1 and one.id not in stages],
        "contains",
    )


def group_items(groups: Sequence[Group], key: str = "ops") -> list[list[str]]:
    """The lines of an item for each group; groups with the same operators and phase
    are one item.

    Args:
        key: the key of the operators.
    """
    same: dict[tuple[tuple[str, ...], str | None], int] = {}
    for group in groups:
        identity = (group.ops, group.phase)
        same[identity] = same.get(identity, 0) + group.count
    items = []
    for (ops, phase), count in same.items():
        lines = wrapped(key, ops)
        if phase:
            lines.append(f"phase: {phase}")
        if count > 1:
            lines.append(f"at_least: {count}")
        items.append(lines)
    return items


def module_items(report: Report) -> list[tuple[str, list[str]]]:
    """Return the path and the lines of an item for each outermost module with a
    group (for the modules in it, if there is only one): at most twenty, the
    largest. Empty if the layers or the coverage are not known.

    Modules that differ by a number alone become one item for the module around
    them: with one module more, these numbers belong to others, and a group that two
    of them share belongs to the module around them.
    """
    modules = module_tree(report) if report.coverage.is_known else ()
    while (
        len(modules) == 1 and modules[0].inside and not is_numbered(modules[0].path)
    ):
        modules = modules[0].inside
    written = []
    for module in modules:
        if module.fused and fits("layer", module.path) and "*" not in module.path:
            written.append(module)
    largest = sorted(written, key=lambda module: module.fused + module.unfused)[
        -20:
    ]
    shares: dict[str, list[float]] = {}
    for module in written:
        if module in largest:
            shares.setdefault(_pattern(module.path), []).append(
                lowest_share(module)
            )
    known = operators_by_layer(report)
    for pattern, row in shares.items():
        row.append(sum(in_pattern(known, pattern).values(), InLayer()).share or 0.0)
    items = []
    for path, row in shares.items():
        items.append(
            (path, [f"layer: {quoted(path)}", f"coverage: {share(min(row))}"])
        )
    return items


def is_numbered(path: str) -> bool:
    """True if a module is one of several in a list: ``blocks.0``."""
    return path.rpartition(".")[2].isdigit()


def _pattern(path: str) -> str:
    """The pattern of an item: the module itself, or, for one of a list of modules,
    the module that contains the list ("*" at the top)."""
    if not is_numbered(path):
        return path
    return path.rpartition(".")[0] or "*"


def lowest_share(module: Module) -> float:
    """A lower bound for the share of a module that is in groups, for any number of
    further numbered modules: the lowest share of its existing ones."""
    row = [module.share or 0.0]
    waiting = list(module.inside) if not is_numbered(module.path) else []
    while waiting:
        module = waiting.pop()
        if not is_numbered(module.path):
            waiting += module.inside
        elif module.fused:
            row.append(module.share or 0.0)
    return min(row)


def lowest_coverage(report: Report) -> float:
    """Return the share of the operators that the fuser takes which are in groups,
    as a lower bound for any number of further numbered modules.

    Of the operators outside groups, a report has the total number that the fuser
    takes, not their modules: one of several equal modules has at most its part of
    that.
    """
    cover = report.coverage
    row = [cover.fraction or 0.0]
    families: dict[str, dict[str, InLayer]] = {}
    for layer, has in operators_by_layer(report).items():
        found = _NUMBERED.match(layer)
        if found is not None:
            members = families.setdefault(found["above"] or "", {})
            members[found[0]] = members.get(found[0], InLayer()) + has
    left = (cover.ops_total or 0) - cover.ops_fused
    for members in families.values():
        fused = [has for has in members.values() if has.fused]
        for has in fused:
            row.append(
                has.fused / (has.fused + min(has.unfused, left / len(fused)))
            )
    return min(row)


_NUMBERED = re.compile(r"(?P<above>.*?\.)?\d+(?=\.|\Z)")
"""The outermost numbered module of a path."""


def wrapped(key: str, values: Sequence[str]) -> list[str]:
    """``key: [a, b]``, wrapped over several lines if it is long."""
    text = f"{key}: [{', '.join(values)}]"
    return textwrap.wrap(
        text,
        _WIDTH,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def quoted(text: str) -> str:
    """A text as a YAML scalar, in quotes unless it is clearly a path or a name."""
    if re.match(
        r"[A-Za-z_./][\w./-]*(:[\w.]+)?(, [a-z]+)?\Z", text, re.ASCII
    ) and _is_text(text):
        return text
    # A JSON string is valid YAML, except for characters that YAML does not accept
    # unescaped.
    return _UNPRINTABLE.sub(
        lambda match: f"\\u{ord(match.group()):04x}",
        json.dumps(text, ensure_ascii=False),
    )


_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _is_text(text: str) -> bool:
    """True if YAML reads the word as text: not as a number, a boolean or null."""
    return bool(yaml.safe_load(text) == text)


def share(value: float) -> str:
    """A share rounded down to a thousandth, so that it holds for its own report."""
    return f"{math.floor(min(max(value, 0.0), 1.0) * 1000 + 1e-9) / 1000:g}"


def _as_item(lines: Sequence[str]) -> list[str]:
    return [("- " if i == 0 else "  ") + line for i, line in enumerate(lines)]
