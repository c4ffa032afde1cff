"""``fusiondoc check`` without a target: every section of the file, with real runs
side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import FIXTURES, Run
from thorough import every
from valid_json import validate

import fusiondoc
from fusiondoc.errors import UsageError
from fusiondoc.expectations import Expectations
from fusiondoc.expectations.applies import applying
from fusiondoc.expectations.policy import gate_with_policy, notes_on_exceptions
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report
from fusiondoc.model.source import Target
from fusiondoc.reports import json_schema

MODEL = """\
import torch

def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x + 1) * x

inputs = (torch.ones(8),)
"""

SECTIONS = """\
all:
  max_fallbacks: 0
  no: [FD3xx]
sections:
  - name: good
    run: {target: good.py, fuser: nnc, runs: 3}
    groups: [[add, tanh, mul]]
  - name: good, and nothing else
    run: {target: good.py, fuser: nnc, runs: 3}
    number_of_groups: 1
  - name: lost
    run: {target: lost.py, fuser: nnc, runs: 3}
    groups: [[add, tanh, mul]]
  - name: fails
    run: {target: fails.py, fuser: nnc}
    number_of_groups: 1
  - name: missing
    run: {target: nowhere.py}
    number_of_groups: 1
  - name: old torch
    when: {target: good.py, torch: "<1.0"}
    number_of_groups: 1
  - name: other machines
    when: {target: good.py, fuser: nvfuser}
    number_of_groups: 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path
    (made / "good.py").write_text(MODEL)
    (made / "lost.py").write_text(
        MODEL.replace("torch.tanh(x + 1)", "torch.tanh(torch.cumsum(x + 1, 0))")
    )
    (made / "fails.py").write_text(MODEL.replace("x + 1", "x + y"))
    (made / "fusions.yaml").write_text(SECTIONS)
    return made


@pytest.mark.torch
def test_each_section_has_its_own_result_and_the_worst_is_the_status(
    fusiondoc: Run, folder: Path
) -> None:
    done = fusiondoc(
        "check",
        "--expect",
        "fusions.yaml",
        "-j",
        "2",
        "-f",
        "json",
        "-o",
        "check.json",
    )
    assert done.returncode == 3, done.stdout + done.stderr
    result = json.loads((folder / "check.json").read_text())
    validate(result, json_schema.schema("check"))
    rows = {row["section"]: row for row in result["models"]}
    assert {
        name: (row["outcome"], row["exit_status"]) for name, row in rows.items()
    } == {
        "good": ("holds", 0),
        "good, and nothing else": ("holds", 0),
        "lost": ("broken", 1),
        "fails": ("failed", 3),
        "missing": ("failed", 2),
        "old torch": ("not run", 0),
        "other machines": ("not run", 0),
    }
    assert (rows["good"]["held"], rows["good"]["groups"], rows["good"]["lost"]) == (
        3,
        1,
        0,
    )
    assert (
        rows["good"]["capture"] == rows["good, and nothing else"]["capture"]
    )  # one run for both
    assert "BROKEN lost: expected add, tanh, mul" in done.stderr
    lost = next(row for row in rows["lost"]["expectations"] if not row["holds"])
    assert lost["source"].endswith("lost.py:4")
    assert result["exit_status"] == 3

    only = fusiondoc(
        "check", "--expect", "fusions.yaml", "--only", "go*", "-f", "junit"
    )
    assert only.returncode == 0, only.stdout + only.stderr
    suites = ElementTree.fromstring(only.stdout)
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("good", "3"),
        ("good, and nothing else", "3"),
    ]


@pytest.mark.torch
def test_every_format_names_what_was_lost(fusiondoc: Run, folder: Path) -> None:
    chosen = [
        "check",
        "--expect",
        "fusions.yaml",
        "--only",
        "lost",
        "--only",
        "missing",
    ]
    formats = (
        (
            "text",
            [
                "lost",
                "broken",
                "add is not fused",
                "there is no file",
                " lost.py:4",
            ],
        ),
        ("markdown", ["| lost |", "add is not fused"]),
        ("html", ["<td", "add is not fused"]),
        (
            "sarif",
            ['"ruleId": "expectation"', '"startLine": 4', "could not be checked"],
        ),
        ("junit", ['failures="1"', 'errors="1"']),
    )
    for format_, words in every(2, formats):
        done = fusiondoc(*chosen, "-f", format_, env={"COLUMNS": "200"})
        assert done.returncode == 2
        assert [word for word in words if word not in done.stdout] == [], (
            done.stdout
        )


def test_wrong_usage_is_refused_before_anything_runs(
    fusiondoc: Run, folder: Path
) -> None:
    for options, words in (
        (["--only", "x*"], "--only x*: no section has such a name"),
        (["--fuser", "nnc"], "--fuser is of one run"),
        (["-f", "github"], "there is no format 'github'"),
        (["good.py", "--only", "good"], "--only is for a check of all sections"),
        (["--only", "old*"], "no section of fusions.yaml is for this machine"),
    ):
        done = fusiondoc("check", "--expect", "fusions.yaml", *options)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


# -- limits for all models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


def with_policy(lines: str) -> Expectations:
    return loads(
        f"all:\n{lines}sections:\n- name: bert\n  number_of_groups: {{at_least: 1}}\n",
        "f.yaml",
    )


def broken(
    expectations: Expectations, report: Report, today: date
) -> Sequence[str]:
    (section,) = expectations.sections
    rows = gate_with_policy(section, expectations, report, today)
    return [f"{row.line}: {row.expected}" for row in rows if not row.holds]


TODAY = date(2026, 11, 24)


def test_a_limit_for_all_holds_and_breaks_at_its_figure(bert: Report) -> None:
    coverage = bert.coverage.fraction
    assert coverage is not None
    assert broken(with_policy(f"  min_coverage: {coverage}\n"), bert, TODAY) == []
    (row,) = broken(
        with_policy(f"  min_coverage: {coverage + 0.001}\n"), bert, TODAY
    )
    assert row.startswith("2: a coverage of ")
    code = next(finding.code for finding in bert.findings)
    assert len(broken(with_policy(f"  no: [{code}]\n"), bert, TODAY)) == 1
    assert (
        broken(with_policy("  no: [FD301]\n  max_fallbacks: 0\n"), bert, TODAY)
        == []
    )


EXCEPTION = """\
  min_coverage: 100%
  except:
    - model: be*
      reason: views are not fused yet
      until: 2026-11-24
      min_coverage: 0.01
"""


def test_an_exception_holds_to_the_end_of_its_last_day_and_is_reported_after_it(
    bert: Report,
) -> None:
    expectations = with_policy(EXCEPTION)
    assert broken(expectations, bert, TODAY) == []
    assert notes_on_exceptions(expectations, TODAY) == []
    tomorrow = date(2026, 11, 25)
    assert len(broken(expectations, bert, tomorrow)) == 1
    (note,) = notes_on_exceptions(expectations, tomorrow)
    assert (
        note
        == "f.yaml:4: the exception for be* ended on 2026-11-24: views are not fused yet"
    )
    other = with_policy(EXCEPTION.replace("be*", "resnet"))
    assert len(broken(other, bert, TODAY)) == 1
    assert "matches no section of this file" in notes_on_exceptions(other, TODAY)[0]


def test_an_exception_allows_a_finding(bert: Report) -> None:
    code = next(finding.code for finding in bert.findings)
    lines = f"  no: [{code}]\n  except:\n    - {{model: bert, reason: x, until: 2027-01-01, allow: [{code}]}}\n"
    assert broken(with_policy(lines), bert, TODAY) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "  except: [{model: a, reason: b, min_coverage: 1}]\n",
            "f.yaml:2:12: an exception needs until",
        ),
        (
            "  except: [{model: a, reason: b, until: 2027-01-01}]\n",
            "an exception needs max_fallbacks, ",
        ),
        (
            "  except: [{model: a, reason: b, until: 2027-02-30, allow: FD301}]\n",
            "until must be a day such as",
        ),
        (
            "  max_falbacks: 1\n",
            "unknown key 'max_falbacks' in all. Did you mean 'max_fallbacks'?",
        ),
        ("  min_coverage: 80\n", "min_coverage is a share from 0 to 1"),
    ],
)
def test_mistakes_in_the_limits_for_all(lines: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        with_policy(lines)
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("{fuser: nfuser}", "fuser: 'nfuser' is unknown. Did you mean 'nvfuser'"),
        ("{backward: 1}", "backward must be true or false"),
        ("{knobs: [a]}", "knobs must be a mapping"),
        ("{runs: 0}", "runs must be a whole number"),
        ("{tmeout: 3}", "unknown key 'tmeout' in run"),
    ],
)
def test_mistakes_in_how_a_section_is_run(run: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        loads(f"run: {run}\nnumber_of_groups: 1\n", "f.yaml")
    assert message in refused.value.message


def test_a_section_that_names_its_run_is_for_that_model_alone(bert: Report) -> None:
    section = "- {run: {target: %s.py}, number_of_groups: 1}\n"
    text = "sections:\n" + section % "a" + section % "b"
    report = replace(bert, target=Target(name="models/b.py", folder="/work"))
    assert [
        section.run.target for section in applying(loads(text, "f.yaml"), report)
    ] == ["b.py"]


def test_how_a_section_is_run_is_read_as_options_of_the_command_line() -> None:
    text = (
        "run: {target: m.py, fuser: nnc, inputs: ['float32[8]', 0.5, true], knobs: {single_node: on},\n"
        "      freeze: false, seed: -3, timeout: 30, files: w/*.pt}\nnumber_of_groups: 1\n"
    )
    run = loads(text, "f.yaml").sections[0].run
    assert (run.target, run.files) == ("m.py", ("w/*.pt",))
    assert dict(run.options) == {
        "fuser": "nnc",
        "inputs": ("float32[8]", "0.5", "true"),
        "knobs": {"single_node": "on"},
        "freeze": False,
        "no_freeze": True,
        "seed": -3,
        "timeout": 30,
    }
