"""Git is asked what is committed of a file, and runs nothing that the repository
names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from command_line import ROOT

from fusiondoc.workflows.git_files import uncommitted

PACKAGE = ROOT / "fusiondoc"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(
        ["git", *identity, *arguments],
        cwd=str(folder),
        check=True,
        capture_output=True,
    )


def test_nothing_that_a_repository_configures_is_run(tmp_path: Path) -> None:
    """Each name of a command in ``.git/config`` and ``.gitattributes`` leaves a
    mark if git starts it."""
    ran, evil = tmp_path / "ran", tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\ncat\n')
    evil.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    path = project / "m.py"
    path.write_text("a = 1\nb = 2\nc = 3\n")
    git(project, "init", "-q")
    git(project, "add", "m.py")
    git(project, "commit", "-qm", "first")
    (project / ".gitattributes").write_text(
        "*.py filter=evil diff=evil merge=evil\n"
    )
    for key in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
        *(
            "diff.evil.textconv",
            "diff.evil.command",
            "diff.external",
            "merge.evil.driver",
        ),
        *(
            "core.fsmonitor",
            "core.pager",
            "pager.diff",
            "core.editor",
            "core.sshCommand",
            "core.gitProxy",
        ),
        *(
            "remote.origin.uploadpack",
            "credential.helper",
            "alias.diff",
            "alias.cat-file",
        ),
    ):
        git(project, "config", key, str(evil) if "alias" not in key else f"!{evil}")
    for hook in (
        "post-index-change",
        "post-checkout",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ):
        (project / ".git" / "hooks" / hook).write_text(evil.read_text())
        (project / ".git" / "hooks" / hook).chmod(0o755)
    path.write_text("a = 1\nb = 20\nc = 3\n")
    assert uncommitted(path) == {2}
    # An object that is missing is not fetched, by whatever command.
    for url in (str(project), f"ext::{evil} %S", "ssh://evil/x"):
        git(project, "config", "remote.origin.url", url)
        git(project, "config", "remote.origin.promisor", "true")
        git(project, "config", "protocol.allow", "always")
        git(project, "config", "extensions.partialClone", "origin")
        git(project, "config", "core.repositoryFormatVersion", "1")
        shutil.rmtree(project / ".git" / "objects", ignore_errors=True)
        (project / ".git" / "objects").mkdir()
        uncommitted(path)
    assert not ran.exists(), ran.read_text()


def test_ends_of_lines_that_git_changes_are_no_change(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    path = tmp_path / "m.py"
    path.write_bytes(b"a = 1\nb = 2\n")
    git(tmp_path, "add", "m.py")
    assert uncommitted(path) >= {1, 2}  # added, not committed
    git(tmp_path, "commit", "-qm", "first")
    path.write_bytes(b"a = 1\r\nb = 2\r\nc = 3\r\n")
    assert uncommitted(path) == {3}
    path.write_bytes(b"b = 2\n")
    assert uncommitted(path) == set()


def test_git_is_started_in_one_place() -> None:
    starts = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(
            r"[\"']git[\"'] *[,\])]|[\"']git ", path.read_text(encoding="utf-8")
        )
    ]
    assert starts == ["workflows/git_files.py"]
