"""A comparison as JSON: schema ``fusiondoc.comparison/1``. Keys may be added, never renamed."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Sequence

from fusiondoc.comparison.differences import Comparison


def render(comparison: Comparison) -> str:
    """The comparison as JSON text, keys in the order of the schema."""
    return json.dumps(as_dict(comparison), indent=2, ensure_ascii=False) + "\n"


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain dictionaries and lists. What is not known is None."""
    data = {
        "schema": comparison.schema,
        "same": comparison.same,
        "coverage_changed": comparison.coverage_changed,
    }
    data.update(
        (f.name, _plain(getattr(comparison, f.name))) for f in fields(comparison) if f.name != "schema"
    )
    return data


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
