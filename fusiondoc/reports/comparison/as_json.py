"""A comparison as JSON: schema ``fusiondoc.comparison/1``. Keys may be added, never renamed."""

from __future__ import annotations

import json
from typing import Any

from fusiondoc.comparison.differences import Comparison
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.printable import in_json


def render(comparison: Comparison) -> str:
    """The comparison as JSON text, keys in the order of the schema."""
    return in_json(json.dumps(as_dict(comparison), indent=2, ensure_ascii=False)) + "\n"


def as_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain dictionaries and lists. What is not known is None."""
    data = plain(comparison)
    assert isinstance(data, dict)
    first = ("schema", "same", "coverage_changed")
    return {**{name: data.pop(name) for name in first}, **data}
