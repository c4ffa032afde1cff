"""What a survey takes of one run: its row, groups, reasons and kernels, from the JSON of a saved report or
from a report that is made of a capture or log."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterable, Mapping, Tuple

from fusiondoc.errors import FusiondocError, UsageError
from fusiondoc.masking import masked
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import SCHEMA, Report
from fusiondoc.model.survey_answers import RunRow
from fusiondoc.workflows.inputs import named_json, saved_bytes
from fusiondoc.workflows.survey_items import Item, at_hand, digest

GroupKey = Tuple["str | None", "str | None", Tuple[str, ...], Tuple[str, ...]]
"""Model, phase, operators, lines."""
KernelKey = Tuple["str | None", "str | None", str]
"""Model, GPU, name: that of its group and which of its kernels it is, else its own."""
PlaceKey = Tuple["str | None", str, str]
"""Model, operator, line."""

NS = 1_000_000
"""Nanoseconds of a millisecond: sums of whole numbers do not depend on their order."""


@dataclass(frozen=True)
class GroupFact:
    kind: str
    nodes: int
    fell_back: bool


@dataclass(frozen=True)
class ReasonFact:
    text: str
    nodes: int
    bytes: int
    ns: int
    keeps_out: int


@dataclass(frozen=True)
class RunFacts:
    """One run."""

    row: RunRow
    groups: Mapping[GroupKey, GroupFact]
    reasons: Mapping[tuple[str, str], ReasonFact]
    """By code and operator."""
    places: Mapping[PlaceKey, str]
    """Operators in no group, to the code of the reason."""
    kernels: Mapping[KernelKey, int]
    """Median nanoseconds of a launch."""


def facts_of(item: Item) -> RunFacts:
    """Read one run.

    Raises:
        UsageError: it is no report, log or capture, or it is damaged.
        Exception: what a store or a damaged file raises.
    """
    with at_hand(item) as path:  # of a store: fetched once, for its digest too
        found = digest(path, item.capture)
        if not item.capture and named_json(item.name):
            return _facts(_saved(path), item.name, "report", found)
        from fusiondoc.workflows.load import report_from

        report = report_from([str(path)])
        kind = "capture" if report.target.of_capture else "log"
        return _facts(_as_data(report), item.name, kind, found)


def _saved(path: Path) -> Mapping[str, Any]:
    data = saved_bytes(path.name, path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is no whole JSON file: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"it is no report: its schema is {str(schema)[:60]!r}")
    assert isinstance(content, dict)
    return content


def _as_data(report: Report) -> Mapping[str, Any]:
    """What ``_facts`` reads of the JSON of a report."""
    return {
        "environment": report.environment,
        "target": vars(report.target),
        "fuser": {"effective": report.fuser.effective},
        "coverage": {"fraction": report.coverage.fraction},
        "groups": [
            {
                **{
                    name: getattr(one, name) for name in ("id", "kind", "phase", "specialisation", "fallback")
                },
                "nodes": [vars(node) for node in one.nodes],
                "instances": one.instances,
                "kernels": one.kernels,
            }
            for one in report.groups
        ],
        "unfused": [
            {
                **{name: getattr(one, name) for name in _OF_UNFUSED},
                "reason": vars(one.reason),
                "time": vars(one.time) if one.time is not None else None,
            }
            for one in report.unfused
        ],
        "fallbacks": [{"count": one.count} for one in report.fallbacks],
        "kernels": [
            {"id": one.id, "name": one.name, "ms": vars(one.ms) if one.ms is not None else None}
            for one in report.kernels
        ],
        "findings": [{"severity": one.severity} for one in report.findings],
    }


_OF_UNFUSED = ("op", "source", "user_source", "phase", "count", "ran", "bytes_moved", "keeps_out")
_CAPTURED = re.compile(r"(?:^|[/\\])(\d{4})(\d\d)(\d\d)-\d{6}-")
_DATE = re.compile(r"(?<!\d)(20\d\d)-?(0[1-9]|1[0-2])-?([0-2]\d|3[01])(?!\d)")


def _facts(data: Mapping[str, Any], name: str, kind: str, content: str) -> RunFacts:
    try:
        return _taken(data, name, kind, content)
    except FusiondocError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UsageError(f"it is damaged: {type(error).__name__} {str(error)[:80]}") from None


def _taken(data: Mapping[str, Any], name: str, kind: str, content: str) -> RunFacts:
    target, environment = data.get("target") or {}, data.get("environment") or {}
    model = None
    if target.get("name") and (target.get("options") or target.get("capture")):
        model = masked(re.split(r"[/\\]", str(target["name"]))[-1])
    gpu = _text(environment.get("gpu"))
    groups: dict[GroupKey, GroupFact] = {}
    kernel_names: dict[str, str] = {}
    operators = nodes_of_all = 0
    for group in data.get("groups") or ():
        ops = tuple(str(node["op"]) for node in group["nodes"])
        places = tuple(dict.fromkeys(filter(None, map(_place, group["nodes"]))))
        key = (model, _text(group["phase"]), ops, places)
        count = len(group["instances"])
        nodes_of_all += count
        operators += len(ops) * count if group["specialisation"] == 1 else 0
        before = groups.get(key)
        own = count if group["specialisation"] == 1 or before is None else 0
        fell = bool(group["fallback"]) or (before is not None and before.fell_back)
        groups[key] = GroupFact(str(group["kind"]), own + (before.nodes if before else 0), fell)
        for nth, one in enumerate(group["kernels"], 1):
            which = f", kernel {nth}" if len(group["kernels"]) > 1 else ""
            kernel_names.setdefault(str(one), text_of(key) + which)
    kernels: dict[KernelKey, int] = {}
    for kernel in data.get("kernels") or ():
        if kernel["ms"] is not None:
            key_of_kernel = (model, gpu, kernel_names.get(str(kernel["id"]), str(kernel["name"])))
            kernels.setdefault(key_of_kernel, round(float(kernel["ms"]["median"]) * NS))
    reasons, places_of = _reasons(data.get("unfused") or (), model)
    times = [one.ns for one in reasons.values() if one.ns]
    row = RunRow(
        run=name,
        kind=kind,
        digest=content,
        model=model,
        date=_date(str(target.get("capture") or ""), name),
        torch=_text(environment.get("torch")),
        cuda=_text(environment.get("cuda")),
        gpu=gpu,
        driver=_text(environment.get("driver")),
        fuser=_text((data.get("fuser") or {}).get("effective")),
        groups=nodes_of_all,
        operators=operators,
        unfused=sum(one.nodes for one in reasons.values()),
        fallbacks=sum(int(one["count"]) for one in data.get("fallbacks") or ()),
        coverage=_number((data.get("coverage") or {}).get("fraction")),
        kernels=len(data.get("kernels") or ()),
        kernel_ms=sum(kernels.values()) / NS if kernels else None,
        unfused_bytes=sum(one.bytes for one in reasons.values()),
        unfused_ms=sum(times) / NS if times else None,
        errors=sum(one["severity"] == "error" for one in data.get("findings") or ()),
    )
    return RunFacts(row, groups, reasons, places_of, kernels)


def _reasons(
    rows: Iterable[Mapping[str, Any]], model: str | None
) -> tuple[dict[tuple[str, str], ReasonFact], dict[PlaceKey, str]]:
    found: dict[tuple[str, str], list[Any]] = defaultdict(lambda: ["", 0, 0, 0, 0])
    places: dict[PlaceKey, str] = {}
    for row in rows:
        if row.get("ran") is False:
            continue
        op, reason, time = str(row["op"]), row["reason"], row.get("time") or {}
        sums = found[str(reason["code"]), op]
        sums[0] = min(filter(None, (sums[0], masked(str(reason["text"])[:200]))))
        sums[1] += int(row["count"])
        sums[2] += int(row.get("bytes_moved") or 0)
        sums[3] += round(float(time.get("ms") or 0.0) * NS)
        sums[4] += int(row.get("keeps_out") or 0)
        place = _place(row)
        if place is not None:
            places.setdefault((model, op, place), str(reason["code"]))
    return {key: ReasonFact(*sums) for key, sums in found.items()}, places


def _place(node: Mapping[str, Any]) -> str | None:
    """``file:line`` without folders: machines keep one program in different ones."""
    told = node.get("user_source") or node.get("source")
    if told is None:
        return None
    parts = re.split(r"[/\\]", str(told))[-1].split(":")
    return ":".join(parts[:2])


def text_of(key: GroupKey) -> str:
    """``mul, add, relu (backward) at train.py:15``."""
    _, phase, ops, places = key
    names = [op.rpartition("::")[2] for op in ops]
    text = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    text += " (backward)" if phase == "backward" else ""
    own = [place for place in places if not place.startswith("<string>")] or list(places)
    return text + (f" at {', '.join(own[:2])}" if own else "")


def _date(capture: str, name: str) -> str | None:
    found = _CAPTURED.search(capture) or _CAPTURED.search(name)
    if found is None:
        found = _DATE.search(name)
    return "-".join(found.groups()) if found is not None else None


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _number(value: Any) -> float | None:
    number = None if value is None else float(value)
    if number is not None and not math.isfinite(number):
        raise ValueError("a number that is none")
    return number
