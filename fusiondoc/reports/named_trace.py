"""A trace of torch's profiler with the groups of the report named in it, for Perfetto and chrome://tracing."""

from __future__ import annotations

import gzip
import json
from typing import Any, Mapping, Sequence

from fusiondoc.model.report import Group
from fusiondoc.model.typed_fields import sound
from fusiondoc.parsers.trace_units import Unit
from fusiondoc.reports.wording import runs_of


def named_trace(
    events: Sequence[Any], groups: Mapping[int, Sequence[Group]], units: Sequence[Unit], packed: bool
) -> bytes:
    """The file. A run of a group, and what it launched, are called ``G2: mul, add`` there; arguments tell the
    kernel's own name, the operators, the phase and the modules.

    Args:
        events: of the trace as torch wrote it.
        groups: the groups that a unit may be, by the index of its event.
        packed: with gzip, as both programs read it.
    """
    made = list(events)
    for unit in units:
        for group in groups.get(unit.event, ())[:1]:
            for index in (unit.event, *(one.event for one in unit.launched)):
                made[index] = _named(made[index], group)
    text = json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": sound(made)})
    return gzip.compress(text.encode("utf-8"), mtime=0) if packed else text.encode("utf-8")


def _named(event: Mapping[str, Any], group: Group) -> dict[str, Any]:
    told = event.get("args")
    arguments = dict(told) if isinstance(told, dict) else {}
    arguments.update(kernel=event.get("name"), group=group.id, operators=list(group.ops), phase=group.phase)
    if group.layers:
        arguments["layers"] = list(group.layers)
    return {**event, "name": f"{group.id}: {', '.join(runs_of(group.ops))}", "args": arguments}
