"""The pieces for CI as far as they run without the service: YAML that holds,
commands that are the program's."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm_torch
import yaml
from conftest import FIXTURES, ROOT

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SHOWN = dict(
    re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", PAGE, flags=re.S)
)
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
REJECTS = FIXTURES / "logs" / "nvfuser-2.1.2-rejects-full.log.xz"


def commands() -> list:
    github = [
        step["run"]
        for step in yaml.safe_load(SHOWN["github"])["jobs"]["check"]["steps"]
        if "run" in step
    ]
    job = yaml.safe_load(SHOWN["gitlab"])["fusion"]
    hook = yaml.safe_load(SHOWN["pre-commit"])["repos"][0]["hooks"][0]["entry"]
    return [
        c
        for c in (*github, *job["script"], *job["after_script"], hook)
        if c.startswith("fusiondoc")
    ]


def test_there_are_commands() -> None:
    assert len(commands()) == 4


@pytest.mark.torch
def test_the_commands_run_as_they_are(tmp_path: Path, cache: Path) -> None:
    """In order, as a shell runs them, with the files they name."""
    (tmp_path / "model.py").write_text(
        (ROOT / "examples" / "bias_gelu.py").read_text()
    )
    (tmp_path / "fusions.yaml").write_text("groups:\n- set: [add, mul, tanh]\n")
    (tmp_path / "fusiondoc").write_text(
        f'#!/bin/sh\nexec {shlex.join(warm_torch.command())} "$@"\n'
    )
    (tmp_path / "fusiondoc").chmod(0o755)
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    env["FUSIONDOC_CACHE"] = str(cache)
    env.pop("GITHUB_ACTIONS", None)
    for command in commands():
        done = subprocess.run(
            ["bash", "-ec", command],
            cwd=str(tmp_path),
            env=env,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
    made = ("fusiondoc.sarif", "fusiondoc.xml", "gl-code-quality-report.json")
    assert all((tmp_path / name).stat().st_size for name in made)


def test_the_artifacts_are_what_the_commands_write() -> None:
    job = yaml.safe_load(SHOWN["gitlab"])["fusion"]
    for file in job["artifacts"]["reports"].values():
        assert any(file in command for command in commands())
    steps = yaml.safe_load(SHOWN["github"])["jobs"]["check"]["steps"]
    sarif = next(
        step["with"]["sarif_file"]
        for step in steps
        if "with" in step and "sarif_file" in step["with"]
    )
    assert any(f"--output {sarif}" in command for command in commands())


_CONTEXT = {
    "github.repository": "team/shop",
    "github.event.pull_request.number": "12",
    "github.token": "a token",
}


def run_the_action(
    folder: Path, step_id: str = "check", **given: str
) -> subprocess.CompletedProcess[str]:
    """A step's own shell lines, with its inputs in the environment as the runner
    puts them there. Programs in the folder ``bin`` come first."""
    known = {
        f"inputs.{name}": str(one.get("default", ""))
        for name, one in ACTION["inputs"].items()
    }
    known |= {f"inputs.{name}": value for name, value in given.items()} | _CONTEXT
    (step,) = (
        step for step in ACTION["runs"]["steps"] if step.get("id") == step_id
    )
    values = {
        key: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda m: known[m.group(1)], text)
        for key, text in step["env"].items()
    }
    assert (
        "${{" not in step["run"]
    )  # an input in the script itself could run commands of a stranger
    python = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {
        **os.environ,
        **values,
        "PYTHONPATH": str(ROOT),
        "PATH": python,
        "GITHUB_ACTIONS": "true",
    }
    env.pop("GITHUB_STEP_SUMMARY", None)
    command = [step["shell"], "-ec", step["run"]]
    return subprocess.run(
        command,
        cwd=str(folder),
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )


_GH = """#!/usr/bin/env python3
# Stands for GitHub's own tool: keeps what it was called with, and answers from comments.json with jq.
import json, pathlib, subprocess, sys
folder = pathlib.Path(__file__).parent.parent
arguments = sys.argv[1:]
body = [one[len("body=@"):] for one in arguments if one.startswith("body=@")]
text = pathlib.Path(body[0]).read_text() if body else None
with (folder / "calls.jsonl").open("a") as out:
    out.write(json.dumps([arguments, text]) + "\\n")
if "--jq" in arguments:
    for one in json.loads((folder / "comments.json").read_text()):
        if one["user"]["type"] == "Bot" and one["body"].startswith("<!-- fusiondoc -->"):
            print(one["id"])
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job in which the action ran twice: what it expects holds,
    then it is broken."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "fusions.yaml").write_text("number_of_groups: 5\n")
    (folder / "wrong.yaml").write_text("number_of_groups: 6\n")
    for status, expects in enumerate(
        ({"history": "base.jsonl"}, {"expect": "wrong.yaml"})
    ):
        done = run_the_action(
            folder, target=str(REJECTS), args="--fail-on error", **expects
        )
        assert done.returncode == status, done.stderr
        assert (folder / "fusiondoc.sarif").is_file()
        (folder / "fusiondoc.sarif").unlink()
        assert "::" in done.stderr and done.stdout == ""
        assert ("::error" in done.stderr) == bool(status)
    return folder


@pytest.mark.parametrize(("known", "method"), [([7], "PATCH"), ([], "POST")])
def test_the_action_runs_and_posts_one_comment_and_changes_it_later(
    known: list[int], method: str, checked: Path, tmp_path: Path
) -> None:
    shutil.copytree(checked, tmp_path, dirs_exist_ok=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(_GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    stranger = {
        "id": 3,
        "user": {"type": "User"},
        "body": "<!-- fusiondoc --> mine",
    }
    ours = [
        {"id": one, "user": {"type": "Bot"}, "body": "<!-- fusiondoc -->\nold"}
        for one in known
    ]
    (tmp_path / "comments.json").write_text(json.dumps([stranger, *ours]))
    done = run_the_action(tmp_path, "comment", base="base.jsonl")
    assert done.returncode == 0, done.stderr
    (_, _), (arguments, text) = [
        json.loads(line)
        for line in (tmp_path / "calls.jsonl").read_text().splitlines()
    ]
    address = "repos/team/shop/issues/" + ("comments/7" if known else "12/comments")
    assert arguments[:5] == ["api", "--silent", "--method", method, address]
    assert text.startswith(
        "<!-- fusiondoc -->\n### fusiondoc: 1 model: 0 losses against the base"
    )
    assert "expected 6 groups" in text.replace("\\", "")


def test_a_job_without_runs_comments_nothing(tmp_path: Path) -> None:
    assert run_the_action(tmp_path, "comment").returncode == 0


def test_a_file_of_the_checkout_shadows_no_library_of_the_action(
    tmp_path: Path,
) -> None:
    """``python -m`` would import modules of the checkout first: of a pull request,
    with the job's token."""
    for name in (
        "fusiondoc",
        "click",
        "yaml",
        "rich",
        "jinja2",
        "json",
        "argparse",
        "pip",
    ):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n"
        )
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 5\n")
    done = run_the_action(tmp_path, target=str(REJECTS))
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert not [
        step["run"]
        for step in ACTION["runs"]["steps"]
        if re.search(r"python\S* (-\S+ )*-[mc]", step["run"])
    ]


def test_actions_are_pinned_by_commit() -> None:
    """A tag can be moved to other code; the comment says which release the commit
    is."""
    pages = [
        ROOT / "action.yml",
        ROOT / "docs" / "ci.md",
        *sorted((ROOT / ".github").rglob("*.yml")),
    ]
    uses = [
        line.strip()
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        if "uses:" in line
    ]
    assert len(uses) >= 10
    pinned = re.compile(r"(- )?uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*")
    assert [line for line in uses if pinned.fullmatch(line) is None] == []


def test_the_action_has_what_github_requires() -> None:
    assert (
        ACTION["name"]
        and ACTION["description"]
        and ACTION["runs"]["using"] == "composite"
    )
    assert all("shell" in step for step in ACTION["runs"]["steps"])
    used = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text()))
    assert used == set(ACTION["inputs"])


def test_the_hooks_have_what_pre_commit_requires() -> None:
    for hook in HOOKS:
        assert {"id", "name", "entry", "language"} <= set(hook)
        assert (
            hook["entry"] == "fusiondoc check" and hook["pass_filenames"] is False
        )
