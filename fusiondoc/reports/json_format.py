"""The JSON report: schema ``fusiondoc.report/1``. Keys may be added, never renamed."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Mapping, Sequence

from fusiondoc.model.report import Group, Report


def render(report: Report) -> str:
    """The report as JSON text, keys in the order of the schema."""
    return json.dumps(as_dict(report), indent=2, ensure_ascii=False) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report as plain dictionaries and lists. What is not known is None."""
    data = {"schema": report.schema}
    data.update(
        (f.name, _plain(getattr(report, f.name)))
        for f in fields(report)
        if f.name != "schema" and f.metadata.get("json", True)
    )
    return data


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        data = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, Group):
            data["ops"] = list(value.ops)
        return data
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return value
