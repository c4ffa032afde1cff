"""The JSON report: schema ``fusiondoc.report/1``. Keys may be added, never renamed."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Mapping, Sequence

from fusiondoc.comparison.differences import Comparison
from fusiondoc.model.report import Group, Report
from fusiondoc.reports.printable import in_json


def render(report: Report) -> str:
    """The report as JSON text, keys in the order of the schema."""
    return in_json(json.dumps(as_dict(report), indent=2, ensure_ascii=False)) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report as plain dictionaries and lists. What is not known is None."""
    data = plain(report)
    assert isinstance(data, dict)
    return {"schema": data.pop("schema"), **data}


DERIVED: Mapping[type, tuple[str, ...]] = {Group: ("ops",), Comparison: ("same", "coverage_changed")}
"""Properties that stand in JSON beside the fields of a class."""


def plain(value: Any) -> Any:
    """A value of a model as dictionaries and lists, with the fields that stand in JSON (``metadata``)."""
    if is_dataclass(value):
        names = [f.name for f in fields(value) if f.metadata.get("json", True)]
        for kind in inspect.getmro(type(value)):
            names += DERIVED.get(kind, ())
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return value
