"""A log may name any file: only Python files of the project are read and shown."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import raw_log
from command_line import Run
from conftest import FIXTURES

from fusiondoc.captures.trust import (
    MOST_BYTES,
    PackageFiles,
    keep_sources,
    kept_source,
    project_root,
    read_source,
)
from fusiondoc.expectations.source_lines import names_at
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source
from fusiondoc.reports.html import render as render_html
from fusiondoc.reports.text.screen import render as render_text
from fusiondoc.workflows.load import report_from


def log_that_names(*files: str) -> str:
    nodes = "\n".join(
        f"  %{number} : Tensor = aten::cumsum(%1, %2, %3) # {file}:1:0"
        for number, file in enumerate(files, 10)
    )
    return f"graph(%1 : Tensor,\n      %2 : int,\n      %3 : NoneType):\n{nodes}\n  return (%10)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    monkeypatch.chdir(folder)
    return folder


def shown(folder: Path, *files: str, roots: tuple[Path, ...] = ()) -> str:
    (folder / "a.log").write_text(log_that_names(*files), encoding="utf-8")
    report: Report = report_from([str(folder / "a.log")], source_roots=roots)
    assert report.unfused
    return render_text(report) + render_html(report)


def test_only_python_files_of_the_project_are_shown(project: Path) -> None:
    (project / "model.py").write_text("mine = 1\n")
    (project / "secret.txt").write_text("s3cr3t\n")
    (project / ".env").write_text("s3cr3t\n")
    outside = project.parent / "outside.py"
    outside.write_text("s3cr3t = 1\n")
    (project / "link.py").symlink_to(outside)
    (project / "folder").symlink_to(project.parent)
    big = project / "big.py"
    big.write_text("s3cr3t\n" + "#" * MOST_BYTES)
    text = shown(
        project,
        str(project / "model.py"),
        *(
            str(project / name)
            for name in (
                "secret.txt",
                ".env",
                "link.py",
                "folder/outside.py",
                "big.py",
            )
        ),
        str(outside),
        "../outside.py",
        "/proc/self/environ",
        "/proc/kmsg",
    )
    assert "mine = 1" in text
    assert "s3cr3t" not in text


def test_comments_that_ignore_are_looked_for_in_files_of_the_project_only(
    project: Path, fusiondoc: Run
) -> None:
    log = raw_log.read(FIXTURES / "logs" / "nnc-2.11-rejects.log.xz").decode()
    (project / "model.py").write_text("pass  # fusiondoc: ignore\n" * 99)
    others = [project.parent / "outside.py", project / "model.txt"]
    for one in others:
        one.write_text("pass  # fusiondoc: ignore\n" * 99)
    for file, heard in (("model.py", True), *((str(one), False) for one in others)):
        (project / "a.log").write_text(
            re.sub(r"[\w./-]+\.py:(\d+):", rf"{file}:\1:", log)
        )
        done = fusiondoc("parse", "a.log", "--format", "json", cwd=project)
        told = json.loads(done.stdout)
        assert [
            one for one in told["findings"] + told["suppressed"] if one["source"]
        ], done.stderr
        assert bool(told["suppressed"]) == heard, file


def test_a_folder_that_the_user_names_counts_too(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    (other / "layer.py").write_text("named = 1\n")
    assert "named = 1" not in shown(project, str(other / "layer.py"))
    assert "named = 1" in shown(project, str(other / "layer.py"), roots=(other,))


def test_a_line_number_that_is_no_number_is_no_line(project: Path) -> None:
    (project / "model.py").write_text("mine = 1\n")
    shown(
        project,
        *(
            f"{project / 'model.py'}:{number}"
            for number in ("²", "9" * 5000, "0", "-1")
        ),
    )


def test_a_capture_keeps_files_of_its_project_only(project: Path) -> None:
    capture = project / "capture"
    capture.mkdir()
    (project / "model.py").write_text("mine = 1\n")
    (project.parent / "outside.py").write_text("s3cr3t = 1\n")
    keep_sources(capture, ["model.py", "../outside.py"], project)
    assert kept_source(capture, "model.py") == "mine = 1\n"
    assert kept_source(capture, "../outside.py") is None
    (capture / "sources" / "0.py").unlink()
    (capture / "sources" / "0.py").symlink_to(project.parent / "outside.py")
    assert kept_source(capture, "model.py") is None


def test_the_project_is_never_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    assert project_root(tmp_path / "work") == tmp_path / "work"
    assert read_source(tmp_path / "work", (tmp_path,)) is None


def test_repro_reads_no_pipe_or_device_that_a_saved_report_names(
    fusiondoc: Run, tmp_path: Path
) -> None:
    log = raw_log.read(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")
    (tmp_path / "a.log").write_bytes(log)
    saved = fusiondoc("parse", "a.log", "--format", "json", cwd=tmp_path).stdout
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "/dev/zero", "/proc/self/environ"):
        (tmp_path / "r.json").write_text(saved.replace('"a.log"', f'"{name}"'))
        done = fusiondoc("repro", "r.json", "--group", "G1", cwd=tmp_path)
        assert done.returncode == 2 and "next:" in done.stderr, done.stderr
    (tmp_path / "r.json").write_text(saved)
    assert (
        fusiondoc("repro", "r.json", "--group", "G1", cwd=tmp_path).returncode == 0
    )


def test_files_of_packages_are_kept_from_the_interpreters_folder_alone(
    tmp_path: Path,
) -> None:
    capture, project, packages = (
        tmp_path / "capture",
        tmp_path / "project",
        tmp_path / "env" / "site-packages",
    )
    for folder in (capture, project, packages):
        folder.mkdir(parents=True)
    (project / "model.py").write_text("mine\n")
    (packages / "layer.py").write_text("theirs\n")
    secret = tmp_path / "secret.py"
    secret.write_text("secret\n")
    (packages / "link.py").symlink_to(secret)
    inside, link = str(packages / "layer.py"), str(packages / "link.py")
    found = PackageFiles(
        frozenset((inside, link, str(secret), f"{packages}/../../secret.py")),
        packages,
    )
    keep_sources(capture, ["model.py"], project, (), found)
    assert kept_source(capture, "model.py") == "mine\n"
    assert kept_source(capture, inside) == "theirs\n"
    for name in found.names - {inside}:
        assert kept_source(capture, name) is None
    keep_sources(
        capture, ["model.py"], project, (), PackageFiles(found.names, None)
    )
    assert kept_source(capture, inside) is None


def test_functions_are_looked_for_in_python_files_only(tmp_path: Path) -> None:
    """``check`` asks in which function of the program a line is, of whatever file a
    log names."""
    for name in ("model.py", "credentials"):
        (tmp_path / name).write_text("def f():\n    pass\n")
    assert names_at(Source(str(tmp_path / "model.py"), 2)) == ("f", "")
    assert names_at(Source(str(tmp_path / "credentials"), 2)) is None
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
        (tmp_path / "zero.py").symlink_to("/dev/zero")
        for name in ("pipe.py", "zero.py"):
            assert names_at(Source(str(tmp_path / name), 1)) is None
    (tmp_path / "large.py").write_bytes(
        b"#" * (1 << 20) + b"\ndef f():\n    pass\n"
    )
    assert names_at(Source(str(tmp_path / "large.py"), 3)) is None
