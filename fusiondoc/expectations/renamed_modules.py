"""Modules of a section that have another name in a run, and are otherwise the
same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from fusiondoc.alignment import greedy
from fusiondoc.expectations import ExpectationSection, is_in_layer
from fusiondoc.expectations.moved import has_its_number
from fusiondoc.model.operator_places import InLayer, operators_by_layer
from fusiondoc.model.report import Report


def renamed_modules(section: ExpectationSection, report: Report) -> dict[str, str]:
    """Patterns of the section that name no module of the run -> the modules' new
    names.

    A module was renamed, moved into another one, or moved out of one: the part of
    the path that changed is the same for all patterns that have it, the new name is
    in no other pattern, and all expectations of the module hold under it. Numbers
    are no names: a layer that is gone has no other name.
    """
    if not has_its_number(section, report):
        return {}
    known = operators_by_layer(report)
    ways = _ways(section, known)
    olds = list(dict.fromkeys(old for old, _ in ways))
    news = list(dict.fromkeys(new for _, new in ways))
    scored = []
    for (old, new), renamed_patterns in ways.items():
        likeness = _holds(section, known, renamed_patterns)
        if likeness is not None:
            likeness += SequenceMatcher(None, old, new).ratio()
            scored.append(
                (likeness + len(renamed_patterns), olds.index(old), news.index(new))
            )
    found: dict[str, str] = {}
    for i, j in greedy(scored):
        for pattern, renamed in ways[olds[i], news[j]].items():
            found.setdefault(pattern, renamed)
    return found


def _ways(
    section: ExpectationSection, known: Mapping[str, InLayer]
) -> dict[tuple[str, str], dict[str, str]]:
    """(missing part of a path, its possible replacement) -> the patterns that
    contain it, with the replacement.

    Args:
        known: the modules of the run.
    """
    patterns = list(
        dict.fromkeys(
            [module.layer for module in section.modules] + _layers(section)
        )
    )
    there = {pattern: frozenset(in_pattern(known, pattern)) for pattern in patterns}
    taken: set[str] = set()
    for layers in there.values():
        taken.update(layers)
    ways: dict[tuple[str, str], dict[str, str]] = {}
    for pattern in patterns:
        if there[pattern]:
            continue
        for old, new, renamed in _other_names(pattern, list(known)):
            if not taken & set(in_pattern(known, renamed)):
                ways.setdefault((old, new), {})[pattern] = renamed
    return ways


def with_modules(
    section: ExpectationSection, renamed: Mapping[str, str]
) -> ExpectationSection:
    """The section with the modules' new names."""
    if not renamed:
        return section
    groups = []
    for group in section.groups:
        layer = []
        for pattern in group.layer:
            layer.append(renamed.get(pattern, pattern))
        groups.append(replace(group, layer=tuple(layer)))
    modules = []
    for module in section.modules:
        modules.append(
            replace(module, layer=renamed.get(module.layer, module.layer))
        )
    return replace(section, groups=tuple(groups), modules=tuple(modules))


def _layers(section: ExpectationSection) -> list[str]:
    layers: list[str] = []
    for group in section.groups:
        layers.extend(group.layer)
    return layers


def in_pattern(known: Mapping[str, InLayer], pattern: str) -> dict[str, InLayer]:
    """The modules that a pattern matches."""
    layers = {}
    for layer, has in known.items():
        if is_in_layer(layer, pattern):
            layers[layer] = has
    return layers


def _other_names(
    pattern: str, layers: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield (the part of the path that is unknown, its replacement, the whole
    pattern with the replacement) for every name at its depth in the run. The
    replacement is that name, that name around the unknown one, or nothing."""
    parts = pattern.split(".")
    at = _first_unknown(parts, layers)
    if at is None or not re.search("[A-Za-z_]", parts[at]):
        return
    before, after = parts[:at], parts[at + 1 :]
    beside = _names_inside(before, layers)
    heads = []
    for name in beside:
        if not name.isdigit():
            heads.append([*before, name])
    heads += [[*before, name, parts[at]] for name in beside]
    if after:
        heads.append(before)
    for head in heads:
        renamed = ".".join([*head, *after])
        if any(is_in_layer(layer, renamed) for layer in layers):
            yield ".".join(parts[: at + 1]), ".".join(head), renamed


def _first_unknown(parts: Sequence[str], layers: Sequence[str]) -> int | None:
    """The index of the first component with which a pattern matches no module of
    the run."""
    for index in range(len(parts)):
        head = ".".join(parts[: index + 1])
        if not any(is_in_layer(layer, head) for layer in layers):
            return index
    return None


def _names_inside(above: Sequence[str], layers: Sequence[str]) -> Sequence[str]:
    """The names of the direct submodules of the modules that a pattern matches;
    without a pattern, of the outermost modules."""
    pattern, depth = ".".join(above), len(above)
    names: dict[str, None] = {}
    for layer in layers:
        is_inside = not above or is_in_layer(layer, pattern)
        if is_inside and layer.count(".") >= depth:
            names[layer.split(".")[depth]] = None
    return list(names)


def _holds(
    section: ExpectationSection,
    known: Mapping[str, InLayer],
    renamed: Mapping[str, str],
) -> float | None:
    """The fraction of modules whose share in groups is exactly the expected one;
    None if a share is lower."""
    wanted = [module for module in section.modules if module.layer in renamed]
    equal = 0
    for module in wanted:
        share = sum(
            in_pattern(known, renamed[module.layer]).values(), InLayer()
        ).share
        if share is None or share < module.coverage - 1e-9:
            return None
        equal += share - module.coverage < _ROUNDED
    if wanted:
        return equal / len(wanted)
    return 0.0


_ROUNDED = 0.001
"""Shares are written rounded down to a multiple of this."""
