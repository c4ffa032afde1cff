"""From the values of a section, already found to be well-formed, to the model of it."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import yaml

from fusiondoc.expectations import document, fields
from fusiondoc.expectations.expectation import (
    Count,
    Findings,
    GroupExpectation,
    Path,
    Section,
    SourceRange,
    Speed,
    When,
)


def build_section(values: Mapping[str, Any], node: yaml.Node, path: Path) -> Section:
    """The section; ``values`` are as the reader leaves them, keys with a problem left out."""
    when = values.get("when") or {}
    findings = values.get("findings") or {}
    allow = findings.get("allow")
    return Section(
        name=values.get("name") or (f"section {int(path[-1]) + 1}" if path else ""),
        path=path,
        at=document.position(node),
        when=When(
            fuser=tuple(when.get("fuser", ())),
            torch=when.get("torch"),
            gpu=tuple(when.get("gpu", ())),
            target=tuple(when.get("target", ())),
        ),
        groups=tuple(
            build_group(group, (*path, "groups", i)) for i, group in enumerate(values.get("groups", ()))
        ),
        number_of_groups=_count(values.get("number_of_groups")),
        max_fallbacks=values.get("max_fallbacks"),
        min_coverage=values.get("min_coverage"),
        speed=_speed(values),
        findings=Findings(
            expect=tuple(findings.get("expect", ())),
            forbid=tuple(findings.get("forbid", ())),
            allow=None if allow is None else tuple(allow),
        ),
        places={str(key.value): document.position(key) for key, _ in document.items(node)},
    )


def build_group(values: Mapping[str, Any], path: Path = ()) -> GroupExpectation:
    """A group from the values of its keys (``fields.GROUP``); the key "" is its node."""
    key = next((key for key in fields.ORDERS if key in values), "ops")
    exactly = values.get("exactly")
    node = values.get("")
    return GroupExpectation(
        ops=operators(values.get(key, ())),
        order=fields.ORDERS[key],
        count=Count(exactly, exactly) if exactly is not None else Count(values.get("at_least", 1)),
        phase=values.get("phase"),
        source=tuple(_source(text) for text in values.get("source", ())),
        function=values.get("function"),
        module=values.get("module"),
        layer=tuple(values.get("layer", ())),
        dtype=tuple(values.get("dtype", ())),
        speed=_speed(values),
        at=document.position(node) if node is not None else None,
        path=path,
    )


def operators(names: Sequence[str]) -> tuple[str, ...]:
    """Names of operators in full: ``add`` is ``aten::add``."""
    return tuple(name if "::" in name else f"aten::{name}" for name in names)


def _count(value: Any) -> Count | None:
    if isinstance(value, int):
        return Count(value, value)
    if not value:
        return None
    if "exactly" in value:
        return Count(value["exactly"], value["exactly"])
    return Count(value.get("at_least"), value.get("at_most"))


def _speed(values: Mapping[str, Any]) -> Speed:
    return Speed(values.get("min_peak"), values.get("min_gb_per_s"), values.get("tolerance") or 0.0)


def _source(text: str) -> SourceRange:
    file, _, lines = text.partition(":")
    first, _, last = lines.partition("-")
    if not first:
        return SourceRange(file)
    return SourceRange(file, *sorted((int(first), int(last or first))))
