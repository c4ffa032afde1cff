"""A check of many models as GitLab and pre-commit take it, and sections of
torch.compile in one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml
from conftest import FIXTURES, ROOT, Run
from running import write
from test_ci_pieces import _GH, run_the_action

import fusiondoc
from fusiondoc.model.checked_models import (
    SCHEMA,
    CheckedModel,
    CheckedModels,
    CheckOutcome,
)
from fusiondoc.model.report import Report
from fusiondoc.model.runs import Expectation
from fusiondoc.reports.checked_models_documents import render

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture(scope="module")
def bert() -> Report:
    return fusiondoc.parse(FIXTURES / "foreign" / "bert.trace.eval.nvfuser.log.xz")


CODE_QUALITY = {
    "type": "array",
    "items": {
        "type": "object",
        "required": [
            "description",
            "check_name",
            "fingerprint",
            "severity",
            "location",
        ],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "minLength": 1},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^(?!/|\./|\.\./)."},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
"""What docs.gitlab.com requires (CI/CD, Code Quality, "Code Quality report
format"): a path is relative and does not begin with ``./``; fingerprints are
unique."""
JUNIT_OF_GITLAB = {
    "testsuites",
    "testsuite",
    "testcase",
    "failure",
    "error",
    "skipped",
}
"""Elements that GitLab reads (docs.gitlab.com, CI/CD, Unit test reports, "JUnit XML
format specification"); of the last three their content, and of cases with equal
names only the first."""


def many(report: Report, *losses: str) -> CheckedModels:
    """A check of models with the same report, each with a broken expectation; one
    fails, one is left out."""
    models = []
    for name in losses:
        lost = Expectation(
            name, False, "a group", "none", None, "fusions.yaml", 7, 1
        )
        broken = replace(report, expectations=(lost,))
        models.append(
            CheckedModel(
                name, "m.py", CheckOutcome.BROKEN, 1, lost=1, report=broken
            )
        )
    failed = CheckedModel(
        "fails", "sub/f.py:Net", CheckOutcome.FAILED, 3, why="ValueError: x\x01 < 1"
    )
    left_out = CheckedModel(
        "quiet", "q.py", CheckOutcome.UNCHANGED, 0, why="2 files as at 0123"
    )
    rows = (*models, failed, left_out)
    return CheckedModels(
        SCHEMA,
        "fusions.yaml",
        "2026-11-28T01:00:00+00:00",
        None,
        1.0,
        2,
        None,
        rows,
    )


def test_reports_for_gitlab_have_what_it_documents(bert: Report) -> None:
    checked = many(bert, "first", "second", "second")
    issues = json.loads(render(checked, "gitlab"))
    jsonschema.validate(issues, CODE_QUALITY)
    jsonschema.validate(
        json.loads(fusiondoc.render(checked.models[0].report, "gitlab")),
        CODE_QUALITY,
    )
    assert [issue["description"].partition(" ")[0] for issue in issues] == [
        "first:",
        "second:",
        "second:",
        "fails",
    ]
    assert len({issue["fingerprint"] for issue in issues}) == 4
    assert issues[3]["location"] == {"path": "sub/f.py", "lines": {"begin": 1}}

    root = ElementTree.fromstring(render(checked, "junit"))
    assert {element.tag for element in root.iter()} <= JUNIT_OF_GITLAB
    cases = [
        (case.get("classname"), case.get("name")) for case in root.iter("testcase")
    ]
    assert len(set(cases)) == len(cases) == 5
    for name, number in (("failure", 3), ("error", 1), ("skipped", 1)):
        assert [bool((found.text or "").strip()) for found in root.iter(name)] == [
            True
        ] * number


def test_a_prometheus_parser_reads_the_figures_of_all_models(bert: Report) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = render(many(bert, "first", "second", "second"), "openmetrics")
    families = {
        family.name: family
        for family in parser.text_string_to_metric_families(text)
    }
    groups = {
        sample.labels["model"]: sample.value
        for sample in families["fusiondoc_groups"].samples
    }
    assert groups == dict.fromkeys(
        ["first", "second", "second (2)"], bert.fusion_groups
    )
    statuses = {
        sample.labels["model"]: sample.value
        for sample in families["fusiondoc_exit_status"].samples
    }
    assert statuses == {
        "first": 1,
        "second": 1,
        "second (2)": 1,
        "fails": 3,
    }  # none of the one left out
    assert [
        sample.value for sample in families["fusiondoc_expectations_broken"].samples
    ] == [1, 1, 1]


# -- torch.compile -------------------------------------------------------------------------------------------

NORM = """\
import torch

def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    return torch.relu(y * w)

inputs = (torch.ones(8, 64), torch.ones(64))
"""
COMPILED = """\
sections:
  - name: held
    run: {target: held.py, fuser: inductor, no_run: true}
    one_kernel: [{source: held.py:4-5}]
    may_fall_back: []
  - name: lost
    run: {target: lost.py, fuser: inductor, no_run: true}
    one_kernel: [{source: lost.py:4-5}]
    may_fall_back: []
"""


@pytest.mark.torch
@pytest.mark.nightly
def test_sections_of_torch_compile_hold_break_and_are_kept(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Inductor generates the kernels of both models, and compiles none."""
    (tmp_path / "held.py").write_text(NORM)
    (tmp_path / "lost.py").write_text(
        NORM.replace("torch.relu(y * w)", "torch.relu(torch.sort(y).values * w)")
    )
    (tmp_path / "fusions.yaml").write_text(COMPILED)
    every = (
        "check",
        "--expect",
        "fusions.yaml",
        "-j",
        "2",
        "--cache",
        "kept",
        "-f",
        "json",
    )
    first = json.loads(fusiondoc(*every).stdout)
    assert [(row["outcome"], row["cached_from"]) for row in first["models"]] == [
        ("holds", None),
        ("broken", None),
    ]
    lost = [
        row["found"]
        for row in first["models"][1]["expectations"]
        if not row["holds"]
    ]
    assert any("sort" in found for found in lost)
    again = json.loads(fusiondoc(*every).stdout)
    assert all(row["cached_from"] is not None for row in again["models"])
    rows = [
        [{**row, "line": 0} for row in one["expectations"]]
        for one in (first["models"] + again["models"])
    ]
    assert rows[:2] == rows[2:]
    other = json.loads(
        fusiondoc(
            *every, "--only", "held", env={"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
        ).stdout
    )
    assert other["models"][0]["cached_from"] is None


# -- pre-commit ---


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """A repository whose hook of pre-commit is ours, with the program of this
    environment."""
    (hook,) = (hook for hook in HOOKS if hook["id"] == "fusiondoc-expectations")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fusiondoc").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m fusiondoc "$@"\n'
    )
    (tmp_path / "bin" / "fusiondoc").chmod(0o755)
    local = {
        "repos": [{"repo": "local", "hooks": [{**hook, "language": "system"}]}]
    }
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(local))
    (tmp_path / "m.py").write_text("model = inputs = None\n")
    (tmp_path / "fusions.yaml").write_text(
        "run: {target: m.py}\nnumber_of_groups: 1\n"
    )
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


_BREAKS = {
    "an unknown key": (
        "fusions.yaml",
        "run: {target: m.py}\nnumber_of_group: 1\n",
        "unknown key 'number_of_group'",
    ),
    "a target that is not there": (
        "fusions.yaml",
        "run: {target: n.py}\nnumber_of_groups: 1\n",
        "no file 'n.py'",
    ),
    "a pattern without a file": (
        "fusions.yaml",
        "run: {target: m.py, files: [w/*.bin]}\nnumber_of_groups: 1\n",
        "no file fits 'w/*.bin'",
    ),
    "a committed capture": (
        ".fusiondoc/20261128-m/request.json",
        "{}",
        "1 file of captures tracked by git",
    ),
}


@pytest.mark.parametrize("change", _BREAKS)
def test_the_hook_without_a_run_refuses_a_commit(
    change: str, committed: Path
) -> None:
    """By pre-commit itself, where it is installed; else the hook's own command."""
    name, text, words = _BREAKS[change]
    if change == next(iter(_BREAKS)):
        held = run_the_hook(committed)
        assert held.returncode == 0, held.stdout
    (committed / name).parent.mkdir(parents=True, exist_ok=True)
    (committed / name).write_text(text)
    subprocess.run(["git", "add", "-A", "-f"], cwd=committed, check=True)
    done = run_the_hook(committed)
    assert done.returncode != 0 and words in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )


def run_the_hook(folder: Path) -> subprocess.CompletedProcess[str]:
    (hook,) = (hook for hook in HOOKS if hook["id"] == "fusiondoc-expectations")
    installed = shutil.which("pre-commit")
    own = [*hook["entry"].split(), *hook["args"]]
    command = [installed, "run", "--all-files"] if installed else own
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    env = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "PRE_COMMIT_HOME": str(folder / ".git" / "hooks-home"),
    }
    return subprocess.run(
        command, cwd=folder, env=env, text=True, capture_output=True, check=False
    )


# -- the action ----------------------------------------------------------------------------------------------

FUSED = "import torch\ndef model(x):\n    return torch.tanh(x + 1) * x\ninputs = (torch.ones(8),)\n"
TWO = """\
sections:
  - {name: kept, run: {target: kept.py, fuser: nnc, runs: 3}, groups: [[add, tanh, mul]]}
  - {name: moved, run: {target: moved.py, fuser: nnc, runs: 3}, groups: [[add, tanh, mul]]}
"""


@pytest.mark.torch
@pytest.mark.nightly
def test_the_action_comments_on_many_models_once(tmp_path: Path) -> None:
    """The steps of action.yml themselves, with a program in the place of GitHub's
    own that keeps its calls: of the main branch, then of a pull request that breaks
    one model, then with that mended."""
    write(tmp_path, "bin/gh", _GH).chmod(0o755)
    for name, text in (
        ("kept.py", FUSED),
        ("moved.py", FUSED),
        ("fusions.yaml", TWO),
        ("comments.json", "[]"),
    ):
        write(tmp_path, name, text)
    base = run_the_action(tmp_path, history="base.jsonl", args="-j 2")
    assert base.returncode == 0, base.stderr
    write(tmp_path, "moved.py", FUSED.replace("x + 1", "torch.cumsum(x + 1, 0)"))
    broken = run_the_action(tmp_path, args="-j 2")
    assert (
        broken.returncode == 1 and "::error file=moved.py,line=3" in broken.stderr
    ), broken.stderr
    assert run_the_action(tmp_path, "comment", base="base.jsonl").returncode == 0
    posted = json.loads((tmp_path / "calls.jsonl").read_text().splitlines()[-1])
    assert posted[0][:5] == [
        "api",
        "--silent",
        "--method",
        "POST",
        "repos/team/shop/issues/12/comments",
    ]
    assert "moved" in posted[1] and "2 models" in posted[1].splitlines()[1]
    write(
        tmp_path,
        "comments.json",
        json.dumps([{"id": 7, "user": {"type": "Bot"}, "body": posted[1]}]),
    )
    write(tmp_path, "moved.py", FUSED)
    (tmp_path / "fusiondoc-run.jsonl").unlink()
    assert run_the_action(tmp_path, args="-j 2").returncode == 0
    assert run_the_action(tmp_path, "comment", base="base.jsonl").returncode == 0
    changed = json.loads((tmp_path / "calls.jsonl").read_text().splitlines()[-1])
    assert changed[0][3:5] == ["PATCH", "repos/team/shop/issues/comments/7"]
    assert "0 losses" in changed[1].splitlines()[1]
