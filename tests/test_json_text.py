"""The JSON text of a report is that of its dictionaries, and evidence in it is
bounded."""

from __future__ import annotations

import json
import math
import sys
import typing
from array import array
from dataclasses import dataclass, replace
from enum import Enum

import pytest
from conftest import FIXTURES

from fusiondoc.model.source import MOST_EVIDENCE
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.reports.json_format import as_dict, read_part, read_report, render
from fusiondoc.reports.json_schema import _object
from fusiondoc.reports.json_text import text_of
from fusiondoc.workflows.load import report_from

LOGS = sorted((FIXTURES / "logs").glob("*.xz"))[:2]


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_the_text_is_that_of_the_dictionaries(log) -> None:  # type: ignore[no-untyped-def]
    report = report_from([str(log)])
    assert (
        render(report)
        == json.dumps(as_dict(report), indent=2, ensure_ascii=False) + "\n"
    )


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        (),
        {"a": []},
        [{}, None, True, 1, 1.5, -math.inf, math.nan],
        {'\n"ä\x7f\u2028': "\\"},
        {1: 2},
    ],
)
def test_plain_values(value: object) -> None:
    assert text_of(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_evidence_is_bounded_and_the_rest_is_counted_and_read_back() -> None:
    report = report_from([str(LOGS[0])])
    lines = PackedEvidence(array("Q", range(1, MOST_EVIDENCE + 51)), ["a.log"])
    report = replace(report, groups=(replace(report.groups[0], evidence=lines),))
    row = json.loads(render(report))["groups"][0]
    assert len(row["evidence"]) == MOST_EVIDENCE
    assert row["evidence_left_out"] == 50
    saved = read_report(render(report).encode(), "report.json")
    assert saved.groups[0].evidence_left_out == 50
    assert render(saved) == render(report)


class Stage(Enum):
    FIRST = "first"


@dataclass(frozen=True)
class Stages:
    of: typing.Mapping[str, Stage | None]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="has no | of types")
def test_types_that_other_code_asked_for_first() -> None:
    """``typing`` keeps them by what they equal: it gives ours what that other code
    wrote."""
    (hint,) = typing.get_type_hints(Stages).values()
    assert "|" in str(hint)
    assert read_part(Stages, {"of": {"a": "first", "b": None}}) == Stages(
        {"a": Stage.FIRST, "b": None}
    )
    inner = _object(Stages, {})["properties"]["of"]["additionalProperties"]
    assert inner == {"enum": ["first", None]}
