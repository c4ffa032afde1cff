"""The schemas in docs/ are those of the dataclasses, and every limit in them is of
a field that exists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import ROOT, Run

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.bench_changes import BenchComparison
from fusiondoc.model.bench import Bench, Suite
from fusiondoc.model.change_plan import Fixes
from fusiondoc.model.checked_models import CheckedModels
from fusiondoc.model.history_answers import History
from fusiondoc.model.report import Report
from fusiondoc.model.survey_answers import Survey
from fusiondoc.model.typed_fields import field_types
from fusiondoc.reports import json_schema

DOCUMENTS = {
    "report": Report,
    "comparison": Comparison,
    "bench": Bench,
    "suite": Suite,
    "fix": Fixes,
    "survey": Survey,
    "check": CheckedModels,
    "history": History,
    "bench-comparison": BenchComparison,
}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_committed_schema_is_that_of_the_dataclasses(document: str) -> None:
    committed = (ROOT / "docs" / f"{document}.schema.json").read_text("utf-8")
    assert committed == json_schema.text(document), (
        f"run: python -m fusiondoc.reports.json_schema {document} > docs/{document}.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json.loads(committed))


def classes(kind: Any) -> Iterator[type]:
    """All dataclasses that a model holds."""
    if is_dataclass(kind):
        assert isinstance(kind, type)
        yield kind
        for inner in field_types(kind).values():
            yield from classes(inner)
    for part in getattr(kind, "__args__", ()):
        yield from classes(part)


def test_limits_are_of_fields_that_exist() -> None:
    known = {one for document in DOCUMENTS.values() for one in classes(document)}
    names = {
        f"{kind.__name__}.{one.name}" for kind in known for one in fields(kind)
    }
    names |= {name.partition(".")[2] for name in names}
    assert set(json_schema._VALUES) - names == set()


def test_text_behind_a_field_describes_it() -> None:
    group = json_schema.schema("report")["$defs"]["Group"]
    assert group["properties"]["segments"]["description"].startswith(
        "More than one if the fuser cut the group"
    )
    assert group["properties"]["ops"] == {
        "type": "array",
        "items": {"type": "string"},
    }
    assert "texts" not in json_schema.schema("report")["properties"]


@dataclass(frozen=True)
class Sample:
    size: int | None
    pair: tuple[str, str]
    all: tuple[tuple[int, ...], ...] = ()
    """Of every ``kind``,
    in order."""


def test_shapes_of_types() -> None:
    assert json_schema._object(Sample, {})["properties"] == {
        "size": {"type": ["integer", "null"], "minimum": 0},
        "pair": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 2,
            "maxItems": 2,
        },
        "all": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "description": "Of every `kind`, in order.",
        },
    }


def test_limits_refuse(fusiondoc: Run, tmp_path: Path) -> None:
    log = ROOT / "fixtures" / "compare" / "one-group.log"
    report = json.loads(fusiondoc("parse", log, "--format", "json").stdout)
    validator = jsonschema.Draft202012Validator(json_schema.schema("report"))
    validator.validate(report)
    for key, value in (
        ("id", "1"),
        ("phase", "sideways"),
        ("specialisation", 0),
        ("runs", -1),
        ("kind", "X"),
    ):
        wrong = json.loads(json.dumps(report))
        wrong["groups"][0][key] = value
        assert [list(error.path) for error in validator.iter_errors(wrong)] == [
            ["groups", 0, key]
        ]
