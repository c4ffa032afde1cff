"""The content of a file of expectations from the values of its keys, as the reader
returns them: keys with a problem are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import yaml

from fusiondoc.expectations import (
    CompiledLimits,
    ExpectationSection,
    Findings,
    GraphLimits,
    GroupExpectation,
    HowToRun,
    ModelLimits,
    ModuleShare,
    OneKernel,
    Path,
    Policy,
    PolicyException,
    RequiredCount,
    RequiredSpeed,
    SourceRange,
    StepLimits,
    When,
    keys,
    yaml_text,
)
from fusiondoc.numbers import whole_number


def build_section(
    values: Mapping[str, Any], node: yaml.Node, path: Path
) -> ExpectationSection:
    """Build a section; ``values`` are those of the reader, without keys with a
    problem."""
    when = values.get("when") or {}
    findings = values.get("findings") or {}
    allow = findings.get("allow")
    run = build_run(values.get("run") or {})
    targets = tuple(when.get("target", ())) or (
        (run.target,) if run.target is not None else ()
    )
    not_fused = None
    if values.get("not_fused") is not None:
        not_fused = tuple(operators(values["not_fused"]))
    return ExpectationSection(
        name=values.get("name") or (f"section {int(path[-1]) + 1}" if path else ""),
        path=path,
        at=yaml_text.position(node),
        when=When(
            fuser=tuple(when.get("fuser", ())),
            torch=when.get("torch"),
            gpu=tuple(when.get("gpu", ())),
            target=targets,
        ),
        groups=tuple(
            build_group(group, (*path, "groups", i))
            for i, group in enumerate(values.get("groups", ()))
        ),
        modules=tuple(
            ModuleShare(
                share["layer"],
                share["coverage"],
                yaml_text.position(share[""]),
                (*path, "modules", i),
            )
            for i, share in enumerate(values.get("modules", ()))
        ),
        number_of_groups=_count(values.get("number_of_groups")),
        max_fallbacks=values.get("max_fallbacks"),
        not_fused=not_fused,
        min_coverage=values.get("min_coverage"),
        speed=_speed(values),
        steps=StepLimits(
            values.get("max_step_ms"),
            values.get("min_groups_share"),
            values.get("max_unfused_share"),
            values.get("max_could_save"),
        ),
        findings=Findings(
            expect=tuple(findings.get("expect", ())),
            forbid=tuple(findings.get("forbid", ())),
            allow=None if allow is None else tuple(allow),
        ),
        compiled=build_compiled(values, path),
        positions={
            str(key.value): yaml_text.position(key)
            for key, _ in yaml_text.items(node)
        },
        run=run,
    )


def build_compiled(values: Mapping[str, Any], path: Path) -> CompiledLimits:
    """The limits of a run under torch.compile from the values of a section."""
    fallbacks = values.get("may_fall_back")
    one_kernel = []
    for index, lines in enumerate(values.get("one_kernel", ())):
        one_kernel.append(
            OneKernel(
                source=tuple(_source(text) for text in lines.get("source", ())),
                ops=operators(lines.get("ops", ())),
                phase=lines.get("phase", "forward"),
                at=yaml_text.position(lines[""]),
                path=(*path, "one_kernel", index),
            )
        )
    graphs = []
    for index, limits in enumerate(values.get("compiled_graphs", ())):
        graphs.append(
            GraphLimits(
                source=tuple(_source(text) for text in limits.get("source", ())),
                phase=limits.get("phase", "forward"),
                max_kernels=limits.get("max_kernels"),
                bytes_at_most=limits.get("bytes_at_most"),
                at=yaml_text.position(limits[""]),
                path=(*path, "compiled_graphs", index),
            )
        )
    return CompiledLimits(
        one_kernel=tuple(one_kernel),
        graphs=tuple(graphs),
        max_graph_breaks=values.get("max_graph_breaks"),
        max_recompiles=values.get("max_recompiles"),
        may_fall_back=None if fallbacks is None else operators(fallbacks),
        bytes_at_most=values.get("bytes_at_most"),
    )


def build_group(values: Mapping[str, Any], path: Path = ()) -> GroupExpectation:
    """A group from the values of its keys (``keys.GROUP``); the key "" is its
    node."""
    key = next((key for key in keys.ORDERS if key in values), "ops")
    exactly = values.get("exactly")
    node = values.get("")
    if exactly is not None:
        count = RequiredCount(exactly, exactly)
    else:
        count = RequiredCount(values.get("at_least", 1))
    return GroupExpectation(
        ops=operators(values.get(key, ())),
        order=keys.ORDERS[key],
        count=count,
        phase=values.get("phase"),
        source=tuple(_source(text) for text in values.get("source", ())),
        function=values.get("function"),
        module=values.get("module"),
        layer=tuple(values.get("layer", ())),
        dtype=tuple(values.get("dtype", ())),
        speed=_speed(values),
        at=yaml_text.position(node) if node is not None else None,
        path=path,
    )


def build_run(values: Mapping[str, Any]) -> HowToRun:
    """How to run a section, from the values of its keys (``keys.RUN``)."""
    options = {}
    for name, value in values.items():
        if name not in ("target", "python", "files"):
            options[name] = value
    if "freeze" in options and not options["freeze"]:
        options["no_freeze"] = True
    for name, value in options.items():
        if isinstance(value, list):
            options[name] = tuple(value)
    files = tuple(values.get("files", ()))
    return HowToRun(values.get("target"), values.get("python"), files, options)


def build_policy(values: Mapping[str, Any], node: yaml.Node) -> Policy:
    """The limits for all models, from the values of their keys (``keys.ALL``)."""
    positions = {}
    for key, _ in yaml_text.items(node):
        positions[str(key.value)] = yaml_text.position(key)
    if "no" in positions:
        positions["findings"] = positions["no"]
    return Policy(
        limits=_limits(values),
        no=tuple(values.get("no", ())),
        exceptions=tuple(map(_policy_exception, values.get("except", ()))),
        at=yaml_text.position(node),
        positions=positions,
    )


def _policy_exception(values: Mapping[str, Any]) -> PolicyException:
    return PolicyException(
        model=tuple(values["model"]),
        reason=values["reason"],
        until=values["until"],
        limits=_limits(values),
        allow=tuple(values.get("allow", ())),
        at=yaml_text.position(values[""]),
    )


def _limits(values: Mapping[str, Any]) -> ModelLimits:
    return ModelLimits(**{name: values.get(name) for name in keys.LIMITS})


def day(text: str | None) -> date | None:
    """The day in ISO 8601; None for any other text."""
    try:
        if text and keys.fits("date", text):
            return date.fromisoformat(text)
        return None
    except ValueError:
        return None


def operators(names: Sequence[str]) -> tuple[str, ...]:
    """Names of operators in full: ``add`` is ``aten::add``."""
    return tuple(map(_in_full, names))


def _in_full(name: str) -> str:
    is_whole = (
        "::" in name or "." in name or "^" in name
    )  # te.ops.Name; ^name of a call into Python
    if is_whole:
        return name
    return f"aten::{name}"


def _count(value: Any) -> RequiredCount | None:
    if isinstance(value, int):
        return RequiredCount(value, value, plain=True)
    if not value:
        return None
    if "exactly" in value:
        return RequiredCount(value["exactly"], value["exactly"])
    return RequiredCount(value.get("at_least"), value.get("at_most"))


def _speed(values: Mapping[str, Any]) -> RequiredSpeed:
    return RequiredSpeed(
        values.get("min_peak"),
        values.get("min_gb_per_s"),
        values.get("tolerance") or 0.0,
    )


def _source(text: str) -> SourceRange:
    file, _, lines = text.partition(":")
    first, _, last = lines.partition("-")
    if not first:
        return SourceRange(file)
    numbers = whole_number(first) or 0, whole_number(last or first) or 0
    return SourceRange(file, min(numbers), max(numbers))
