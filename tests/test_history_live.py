"""The history of real runs: lines that ``check`` leaves, and the commit that
``--bisect`` finds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import warm_torch
from command_line import ROOT, Run
from thorough import THOROUGH

from fusiondoc.workflows import history_bisect

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("history live")]

MODEL = """\
import torch

def model(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x + 1) * x

inputs = (torch.ones(8),)
"""
LOST = MODEL.replace("torch.tanh(x + 1)", "torch.tanh(torch.cumsum(x + 1, 0))")
SECTIONS = """\
sections:
  - name: shop
    run: {target: m.py, fuser: nnc, runs: 3}
    groups: [[add, tanh, mul]]
"""


def git(folder: Path, *arguments: str) -> str:
    names = (
        "-c",
        "user.name=A. Author",
        "-c",
        "user.email=a@b.c",
        "-c",
        "init.defaultBranch=main",
    )
    command = ["git", *names, *arguments]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commit_of_a_loss_is_found_by_bisection(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four commits the third loses the group; the first and the last one were
    checked.

    Each check is a process. At a push its children are forks of the process that
    has torch.
    """
    server = None if THOROUGH else warm_torch.server()
    if server:
        warm = f"import warm_torch; warm_torch.use({server!r})"
        imports = f"import sys; sys.path.append({str(ROOT / 'tests')!r}); {warm}; {history_bisect._OWN_COMMAND}"
        monkeypatch.setattr(history_bisect, "_OWN_COMMAND", imports)
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(".fusiondoc\n*.jsonl\nfusions.yaml\n")
    (tmp_path / "fusions.yaml").write_text(SECTIONS)
    versions = [MODEL, f"# one\n{MODEL}", LOST, f"# two\n{LOST}"]
    commits = []
    for number, text in enumerate(versions):
        (tmp_path / "m.py").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", f"Change {number}")
        commits.append(git(tmp_path, "rev-parse", "HEAD"))
        if number in (0, 3):
            options = ["--expect", "fusions.yaml", "--history", "history.jsonl"]
            done = fusiondoc("check", *options, env={"GITHUB_ACTIONS": "true"})
            assert done.returncode == (1 if number else 0), done.stderr
            assert ("::error file=m.py,line=5" in done.stderr) is bool(number), (
                done.stderr
            )
    found = json.loads(fusiondoc("history", "shop", "--format", "json").stdout)
    (model,) = found["models"]
    (lost,) = model["lost"]
    assert (lost["last_commit"], lost["commit"]) == (
        commits[0][:12],
        commits[3][:12],
    )
    assert (
        lost["ops"] == ["aten::add", "aten::tanh", "aten::mul"]
        and lost["at"] == "m.py:4"
    )
    assert any(
        why.startswith("cumsum") or why.startswith("add") for why in lost["why"]
    )
    assert [run["status"] for run in model["runs"]] == ["holds", "broken"]
    before = (
        git(tmp_path, "status", "--porcelain"),
        git(tmp_path, "rev-parse", "HEAD"),
    )
    done = fusiondoc(
        "history",
        "shop",
        "--bisect",
        "--",
        "m.py",
        "--fuser",
        "nnc",
        "--expect",
        "fusions.yaml",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{commits[2][:12]} Change 2 (A. Author, ")
    assert done.stderr.count(": broken\n") + done.stderr.count(": holds\n") in (
        3,
        4,
    )
    assert before == (
        git(tmp_path, "status", "--porcelain"),
        git(tmp_path, "rev-parse", "HEAD"),
    )
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1
    wrong = fusiondoc(
        "history",
        "shop",
        "--bisect",
        "--",
        "nowhere.py",
        "--expect",
        "fusions.yaml",
    )
    assert wrong.returncode == 2 and "check ends with status 2 at" in wrong.stderr
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1
