"""The details of reasons: each has words, and comes back from a saved report as it
was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest
from conftest import FIXTURES
from plans_made import advice_on, with_plan

import fusiondoc
from fusiondoc.diagnosis.rules import Context, run_facts
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.model.reasons import Detail
from fusiondoc.model.reasons.stated_words import SIDE_EFFECTS
from fusiondoc.model.reasons.words import _SENTENCES, sentence
from fusiondoc.model.report import Report
from fusiondoc.model.typed_fields import variants
from fusiondoc.parsers.jit import flow
from fusiondoc.parsers.observed import Observed
from fusiondoc.reports.json_format import read_report

LOGS = [
    "foreign/resnet18.trace.eval.nvfuser.log.xz",
    "foreign/mobilenet_v3.trace.train.nvfuser.log.xz",
    "foreign/convnext.script.train.nvfuser.log.xz",
    "logs/nnc-2.13-extremes.log.xz",
    "logs/nnc-2.13-refused-numbers.log.xz",
]


def report_of(name: str) -> Report:
    return fusiondoc.parse(FIXTURES / name)


def test_every_detail_has_a_sentence_and_a_kind_of_its_own() -> None:
    assert set(_SENTENCES) == set(get_args(Detail))
    assert len(variants(Detail)) == len(get_args(Detail))


def test_every_side_effect_has_words() -> None:
    assert set(SIDE_EFFECTS) == flow.SIDE_EFFECTS


@pytest.mark.parametrize("name", LOGS)
def test_rows_of_real_logs_keep_their_details_in_a_saved_report(name: str) -> None:
    report = report_of(name)
    details = [row.reason.detail for row in report.unfused]
    assert details and None not in details
    assert all(
        row.reason.detail and sentence(row.reason.detail) == row.reason.text
        for row in report.unfused
    )
    again = read_report(fusiondoc.render(report, "json").encode(), "report.json")
    assert [row.reason.detail for row in again.unfused] == details


def test_a_report_of_another_version_has_no_detail() -> None:
    """An older one has no such key; a newer one may have a kind that this version
    does not know."""
    saved = json.loads(
        fusiondoc.render(
            report_of("foreign/resnet18.trace.eval.nvfuser.log.xz"), "json"
        )
    )
    older, newer, *_ = (row["reason"] for row in saved["unfused"])
    del older["detail"]
    newer["detail"]["kind"] = "of_a_later_version"
    read = read_report(json.dumps(saved).encode(), "report.json")
    assert [row.reason.detail for row in read.unfused[:2]] == [None, None]
    assert all(row.reason.detail is not None for row in read.unfused[2:])


@pytest.mark.parametrize("name", LOGS)
def test_other_words_change_no_advice_and_no_change(name: str) -> None:
    report = report_of(name)
    reworded = replace(
        report,
        unfused=tuple(
            replace(row, reason=replace(row.reason, text=f"(reason {number})"))
            for number, row in enumerate(report.unfused)
        ),
    )
    context = Context(Observed())
    run = run_facts(report, context)
    assert run_facts(reworded, context) == run
    advice = [advice_on(row, run) for row in report.unfused]
    assert [advice_on(row, run) for row in reworded.unfused] == advice
    assert (
        SuggestedChanges(reworded, run).at_lines
        == SuggestedChanges(report, run).at_lines
    )
    assert with_plan(reworded, context).plan == with_plan(report, context).plan
