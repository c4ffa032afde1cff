"""Where a broken expectation is shown: on the line of the program that breaks it,
under a name that lasts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from conftest import Run

pytestmark = pytest.mark.torch

MODEL = """\
import torch


def model(x, y):
    z = torch.relu(x + y)
    z = torch.cumsum(z, 0)
    return torch.tanh(z * y)


inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""
EXPECTED = """\
groups:
- [add, relu, mul, tanh]
number_of_groups: {exactly: 1}
not_fused: []
min_coverage: 1.0
modules:
- {layer: nowhere, coverage: 1.0}
findings: {forbid: [FD211]}
"""


@pytest.fixture
def checked(fusiondoc: Run, tmp_path: Path) -> Any:
    """What ``check`` writes in a format, of a model whose cumsum no fuser takes."""
    (tmp_path / "model.py").write_text(MODEL)
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "--name", "run")
    assert done.returncode == 0, done.stderr

    def check(form: str, expected: str = EXPECTED, **env: str) -> Any:
        (tmp_path / "fusions.yaml").write_text(expected)
        done = fusiondoc(
            "check", "run", "--expect", "fusions.yaml", "-f", form, env=env
        )
        assert done.returncode == 1, done.stderr
        return done

    return check


def test_sarif_has_an_error_on_the_causing_line(checked: Any) -> None:
    results = json.loads(checked("sarif").stdout)["runs"][0]["results"]
    broken = {
        one["message"]["text"]: one
        for one in results
        if one["ruleId"] == "expectation"
    }
    (group,) = (
        one for text, one in broken.items() if text.startswith("expected add, relu")
    )
    assert group["level"] == "error"
    (place,) = (one["physicalLocation"] for one in group["locations"])
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (
        "model.py",
        6,
    )
    (other,) = (one["physicalLocation"] for one in group["relatedLocations"])
    assert (other["artifactLocation"]["uri"], other["region"]["startLine"]) == (
        "fusions.yaml",
        2,
    )
    (unknown,) = (one for text, one in broken.items() if "nowhere" in text)
    assert (
        unknown["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == "fusions.yaml"
    )


def test_github_has_errors_on_the_causing_line(checked: Any) -> None:
    for lines in (
        checked("github").stdout,
        checked("text", GITHUB_ACTIONS="true").stderr,
    ):
        errors = [
            line
            for line in lines.splitlines()
            if line.startswith("::error file=model.py,line=6,")
        ]
        assert any("expected add, relu, mul, tanh" in line for line in errors)
        assert any("expected in fusions.yaml:2" in line for line in errors)
        assert any("expected no operator outside groups" in line for line in errors)
        assert any("no finding FD211" in line for line in errors)


def test_gitlab_and_the_summary_have_the_causing_line(
    checked: Any, tmp_path: Path
) -> None:
    issues = json.loads(checked("gitlab").stdout)
    (group,) = (
        one for one in issues if one["description"].startswith("expected add, relu")
    )
    assert (
        group["location"] == {"path": "model.py", "lines": {"begin": 6}}
        and group["severity"] == "critical"
    )
    checked(
        "text", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "summary")
    )
    assert (
        "| error | expectation | model.py:6 | expected add, relu"
        in (tmp_path / "summary").read_text()
    )


def names(junit: str) -> list:
    return [
        (case.get("classname"), case.get("name"))
        for case in ElementTree.fromstring(junit).iter("testcase")
    ]


def test_junit_names_last_when_the_file_or_the_program_is_edited(
    checked: Any, fusiondoc: Run, tmp_path: Path
) -> None:
    before = names(checked("junit").stdout)
    assert names(checked("junit", "# a line more\n\n" + EXPECTED).stdout) == before
    assert len(set(before)) == len(before)
    assert not [name for _, name in before if re.search(r"\.(py|yaml):\d", name)]
    (tmp_path / "model.py").write_text("# a line more\n" + MODEL)
    assert fusiondoc("diagnose", "model.py", "--fuser", "nnc").returncode == 0
    moved = fusiondoc("check", "--expect", "fusions.yaml", "-f", "junit").stdout
    assert names(moved) == before


def test_equal_expectations_have_names_of_their_own(checked: Any) -> None:
    twice = (
        "groups:\n- [add, relu]\n- [add, relu]\nmax_fallbacks: 0\nnot_fused: []\n"
    )
    found = [
        name
        for group, name in names(checked("junit", twice).stdout)
        if group == "fusions.yaml"
    ]
    assert found[:2] == ["add, relu", "add, relu (2)"]
