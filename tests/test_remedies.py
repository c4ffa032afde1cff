"""Findings carry what they are about, and what to do, as data: held against the
sentences of real logs, and settings against the command line that takes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import ROOT
from plans_made import with_plan

from fusiondoc.captures.request import KeptRequest, KeptTarget
from fusiondoc.cli import command_of
from fusiondoc.diagnosis.rules import Context
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.codes import CODES
from fusiondoc.model.remedies import Nothing, Setting
from fusiondoc.model.report import Finding, Report
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.model.source import Options
from fusiondoc.parsers.observed import Observed
from fusiondoc.reports import render_report
from fusiondoc.reports.json_format import read_report
from fusiondoc.workflows.load import report_from

FIXTURES = ROOT / "fixtures"
LOGS = (
    "logs/nvfuser-2.1.2-rejects-full.log.xz",
    "logs/nnc-2.11-rejects.log.xz",
    "logs/nnc-2.13-refusals.log.xz",
    "logs/nnc-2.13-extremes.log.xz",
    "logs/nvfuser-2.1.2-fallback-compile.log.xz",
    "logs/nvfuser-1.12.1-crash.log.xz",
    "logs/nvfuser-2.1.2-two-ranks.log.xz",
)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    return [report_from([str(FIXTURES / log)]) for log in LOGS]


def every(reports: list[Report]) -> list[tuple[Report, Finding]]:
    found = [(report, finding) for report in reports for finding in report.findings]
    assert len(found) > 50
    return found


def test_the_step_of_a_finding_begins_its_advice(reports: list[Report]) -> None:
    for _, finding in every(reports):
        assert (finding.remedy is None) == (finding.advice is None)
        if finding.remedy is not None:
            assert finding.advice == finding.remedy.text
            assert finding.remedy.text.startswith(finding.remedy.step)


def test_nothing_is_to_be_done_where_the_advice_says_so(
    reports: list[Report],
) -> None:
    findings = [finding for _, finding in every(reports)]
    nothing = [finding.nothing_to_do for finding in findings]
    assert nothing == [
        (finding.advice or "").startswith("Nothing") for finding in findings
    ]
    assert any(nothing) and not all(nothing)
    for code in CODES.values():
        begins = (code.advice or "").startswith("Nothing")
        assert (
            code.remedy is not None and code.remedy.nothing is not None
        ) == begins, code.code


def test_a_finding_on_operators_names_its_rows(reports: list[Report]) -> None:
    numbers = [0, 0]
    for report, finding in every(reports):
        rows = [rows_by_index(report)[index] for index in finding.rows]
        if finding.code == "FD236":
            numbers[0] += 1
            assert rows and finding.remedy is not None
            assert finding.remedy.nothing not in (None, Nothing.OTHER)
            assert {row.op for row in rows} == set(finding.ops)
            assert all(row.op in finding.message for row in rows[:1])
        elif finding.ops:
            numbers[1] += 1
            (row,) = rows
            assert (row.reason.code, (row.op,)) == (finding.code, finding.ops)
            assert finding.message.endswith(row.reason.text)
    assert all(numbers)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(fuser="nnc", flags=("--time",)),
        Setting(runs=14),
        Setting(recipe="delayed"),
        Setting(knobs={"fuse_on_cpu": "on", "nnc_must_use_llvm": "off"}),
        Setting(flags=("--freeze", "--verify")),
        Setting(
            fuser="none",
            runs=3,
            knobs={"fusion_strategy": "STATIC:2,DYNAMIC:10"},
            flags=("--trace",),
        ),
    ],
)
def test_the_command_line_takes_a_setting(setting: Setting) -> None:
    """The oracle is the parser of the command."""
    command = command_of("diagnose")
    assert command is not None
    taken = command.make_context("diagnose", ["m.py:net", *setting.options]).params
    assert taken["fuser"] == (setting.fuser or "auto")
    assert taken["runs"] == (setting.runs or 5)
    assert list(taken["recipes"]) == ([setting.recipe] if setting.recipe else [])
    assert list(taken["knobs"]) == [
        f"{name}={value}" for name, value in setting.knobs.items()
    ]
    for flag in setting.flags:
        assert taken[{"--time": "timed"}.get(flag, flag.removeprefix("--"))] is True


@pytest.mark.parametrize(
    "option", ["--fuser nnc", "--knob fusion_strategy=STATIC:2,DYNAMIC:10"]
)
def test_an_option_is_read_as_it_is_written(option: str) -> None:
    assert Setting.of_option(option).text == option


@pytest.mark.parametrize("rows", [[99_999], [-1], [0, 5_000_000]])
def test_rows_that_a_saved_report_lacks_are_passed_over(
    rows: list[int], tmp_path: Path
) -> None:
    for log in (LOGS[0], LOGS[-1]):
        data = json.loads(render_report(report_from([str(FIXTURES / log)]), "json"))
        for finding in data["findings"]:
            finding["rows"] = rows
        edited = read_report(json.dumps(data).encode(), "edited.json")
        for form in ("html", "text", "markdown"):
            assert render_report(edited, form)


def test_a_box_of_the_picture_has_the_advice_on_its_own_row() -> None:
    """Another einsum of this log has the same code and another advice."""
    report = report_from([str(FIXTURES / "logs/nnc-2.13-refusals.log.xz")])
    page = render_report(report, "html")
    found = re.search(
        r'<script type="application/json" id="programs">(.*?)</script>',
        page,
        re.DOTALL,
    )
    assert found is not None
    shown = {
        (code, text): advice
        for code, text, _, _, _, advice, _ in json.loads(found[1])["reasons"]
    }
    rows, compared = rows_by_index(report), 0
    for finding in report.findings:
        for index in finding.rows:
            reason = rows[index].reason
            alike = {
                one.advice
                for one in report.findings
                for row in one.rows
                if rows[row].reason == reason
            }
            if (reason.code, reason.text) in shown and len(alike) == 1:
                assert shown[reason.code, reason.text] == finding.advice
                compared += 1
    assert compared > 10


def test_lines_of_python_stand_beside_a_knob_and_not_twice() -> None:
    """NNC's reductions: a log is answered in Python, a run that fusiondoc can
    repeat with the knob."""
    line = "torch._C._jit_set_texpr_reductions_enabled(True)"
    log = report_from([str(FIXTURES / "logs/nnc-2.13-refusals.log.xz")])
    live = Context(
        Observed(),
        KeptRequest(target=KeptTarget("m.py:net", "file"), options=Options()),
    )
    for report, named in (
        (log, line),
        (with_plan(log, live), "--knob nnc_reductions=on"),
    ):
        (change,) = [one for one in report.plan if one.kind is ChangeKind.KNOB]
        assert change.change == f"Let NNC take reductions: {named}"
        assert line in change.change + (change.python or "")
        assert (change.change + (change.python or "")).count(line) == 1
