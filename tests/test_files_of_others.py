"""Files that somebody else may have put where they are: opened in one way, which
waits for nothing."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ROOT, Run, run_in_a_fork
from thorough import THOROUGH

from fusiondoc import whole_files
from fusiondoc.whole_files import open_regular

pytestmark = pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="named pipes of POSIX"
)

CAPTURE = ROOT / "fixtures" / "captures" / "nvfuser-2.1.2-composite"
LOG = ROOT / "fixtures" / "logs" / "nnc-2.11-add-relu.log.xz"

APART = {
    "probe": "runs in the user's interpreter",
    "suites": "programs that run there",
}
ALLOWED = {
    "whole_files.py": "the one way itself",
    "cli/explain.py": "pages of the package",
    "cli/memory_limit.py": "/proc",
    "rendering/pages.py": "the style of all pages",
    "repro/write.py": "its own template",
    "runner/supervisor.py": "/proc",
    "workflows/check_cache.py": "the package's own sources, and /proc",
    "parsers/lines/growing_logs.py": "the pipe that is followed",
}
"""Files that read by themselves, and what."""


READERS = ("open", "io.open", "gzip.open", "bz2.open", "lzma.open")


def openings(path: Path) -> Iterator[int]:
    """Lines that open a file to read it in another way than the one of
    whole_files."""
    text = path.read_text("utf-8")
    for node in (
        ast.walk(ast.parse(text))
        if re.search(r"\bopen\(|\.read_|shutil\.copy", text)
        else ()
    ):
        if isinstance(node, ast.Call) and _opens(node):
            yield node.lineno


def _opens(call: ast.Call) -> bool:
    last = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else getattr(call.func, "id", "")
    )
    if last != "open" and not last.startswith(("read_", "copy")):
        return False
    name = ast.unparse(call.func)
    modes = [one.value for one in call.args[:2] if isinstance(one, ast.Constant)]
    writes = any(isinstance(one, str) and set(one) & set("wax") for one in modes)
    if name.endswith((".read_bytes", ".read_text")) or name.startswith(
        "shutil.copy"
    ):
        return name != "shutil.copystat" and name != "shutil.copyfileobj"
    if name in READERS:
        return not writes
    if name == "os.open":
        return "O_RDONLY" in ast.unparse(call)
    first = ast.unparse(call.args[0]) if call.args else ""
    return name.endswith(".open") and first in ("'r'", "'rb'", "'rt'")


def test_files_are_opened_in_one_way() -> None:
    package = ROOT / "fusiondoc"
    found = {}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name.partition("/")[0] not in APART and (lines := list(openings(path))):
            found[name] = lines
    others = {name: lines for name, lines in found.items() if name not in ALLOWED}
    assert others == {}, "use open_regular or read_within of whole_files.py"
    assert set(ALLOWED) <= set(found), "an entry that nothing needs"


def put(kind: str, path: Path) -> None:
    """Something that is no regular file."""
    if path.exists() or path.is_symlink():
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = Path.cwd()
            os.chdir(path.parent)  # the path of a socket is short
            try:
                made.bind(path.name)
            finally:
                os.chdir(here)
    else:
        path.symlink_to(kind)


KINDS = ("pipe", "socket", "/dev/zero", "/dev/stdin", "/dev/tty", "/proc/self/stat")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    put(kind, tmp_path / "a")
    with pytest.raises(OSError) as refused:
        open_regular(tmp_path / "a")
    assert "not a regular file" in str(refused.value) or "may never end" in str(
        refused.value
    )


def test_what_takes_the_place_of_a_file_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a file and its opening."""
    (tmp_path / "a").write_text("x")
    plain = os.open

    def swapped(path: Path, flags: int) -> int:
        put("pipe", tmp_path / "a")
        return plain(path, flags)

    monkeypatch.setattr(os, "open", swapped)
    handles = Path("/proc/self/fd")
    before = len(list(handles.iterdir())) if handles.is_dir() else None
    with pytest.raises(OSError, match="a named pipe, not a regular file"):
        open_regular(tmp_path / "a")
    assert before is None or len(list(handles.iterdir())) == before, (
        "it is closed again"
    )


def within(
    seconds: float, *arguments: object, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """``fusiondoc ARGUMENTS`` in a fork with a pipe that stays open as its standard
    input, ended with its children if it takes longer."""
    environment = {**os.environ, "FUSIONDOC_CACHE": str(cwd)}
    held, writer = os.pipe()
    try:
        return run_in_a_fork(arguments, cwd, environment, held, seconds)
    finally:
        os.close(held)
        os.close(writer)


def test_what_takes_too_long_is_ended(tmp_path: Path) -> None:
    """Else nothing here would fail."""
    with pytest.raises(subprocess.TimeoutExpired):
        within(0.5, "parse", "-", cwd=tmp_path)


def test_survey_ends_on_captures_that_hold_no_files(tmp_path: Path) -> None:
    shutil.copytree(CAPTURE, tmp_path / "all" / "good")
    (tmp_path / "all" / "good" / "log").write_text("\n")
    bad = set()
    for number, kind in enumerate(KINDS):
        for file in ("log", "records.jsonl", "result.json"):
            shutil.copytree(CAPTURE, tmp_path / "all" / f"{number}{file}")
            (tmp_path / "all" / f"{number}{file}" / "log").write_text(
                f"{number}\n"
            )  # else copies
            put(kind, tmp_path / "all" / f"{number}{file}" / file)
            bad.add(f"all/{number}{file}")
    done = within(60, "survey", "all", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["run"] for row in told["runs"]] == ["all/good"]
    assert {one["run"] for one in told["unreadable"]} == bad
    assert all("file" in one["why"] for one in told["unreadable"]), told[
        "unreadable"
    ]


@pytest.mark.parametrize("place", ["folder", "file://"])
def test_survey_ends_on_a_folder_that_holds_pipes_and_devices(
    place: str, tmp_path: Path
) -> None:
    if place != "folder":
        pytest.importorskip("fsspec")
    folder = tmp_path / "all"
    folder.mkdir()
    shutil.copy(LOG, folder / "good.log.xz")
    names = (
        "a.log",
        "a.log.gz",
        "a.log.xz",
        "a.json",
        "a.json.bz2",
        "a.tar.xz",
        "a.zip",
    )
    for number, kind in enumerate(("pipe", "/dev/zero", "/dev/stdin")):
        for name in names:
            put(kind, folder / f"{number}{name}")
    done = within(
        60,
        "survey",
        "all" if place == "folder" else f"file://{folder}",
        "-f",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["runs"]) == 1 and not told["ignored"]
    assert len(told["unreadable"]) == 3 * len(names)
    assert all("not a regular file" in one["why"] for one in told["unreadable"]), (
        told["unreadable"]
    )


def test_survey_of_a_pipe_says_so(tmp_path: Path, fusiondoc: Run) -> None:
    put("pipe", tmp_path / "a.log")
    done = fusiondoc("survey", tmp_path / "a.log")
    assert (
        done.returncode == 2 and "a named pipe, not a regular file" in done.stderr
    )


@pytest.mark.parametrize(
    "kind", ["pipe", pytest.param("/dev/zero", marks=pytest.mark.nightly)]
)
def test_commands_end_on_captures_and_folders_of_others(
    kind: str, tmp_path: Path
) -> None:
    """Every file of a capture, and what is beside logs, reports, expectations and
    configuration."""
    shutil.copytree(CAPTURE, tmp_path / "capture")
    (tmp_path / "expect.yaml").write_text("groups: []\n")
    put(kind, tmp_path / "b.json")
    put(kind, tmp_path / "e.yaml")
    put(kind, tmp_path / "a.tar.xz")
    commands = [("parse", "capture"), ("bundle", "capture", "--dry-run")]
    files = (
        "log",
        "records.jsonl",
        "request.json",
        "result.json",
        "keep",
        "writing",
        "signature",
    )
    for number, file in enumerate(files):
        target = tmp_path / "capture" / file
        before = target.read_bytes() if target.exists() else None
        put(kind, target)
        for command in commands if THOROUGH else [commands[number % 2]]:
            done = within(30, *command, cwd=tmp_path)
            assert done.returncode in (0, 2) and "Traceback" not in done.stderr, (
                file,
                command,
                done.stderr,
            )
        target.unlink()
        if before is not None:
            target.write_bytes(before)
    for command in (
        ("check", "capture", "--expect", "e.yaml"),
        ("parse", "a.tar.xz"),
        ("parse", "b.json"),
    ):
        if kind == "pipe" and command[0] == "parse":
            continue  # a pipe that the user names is waited on, for a while
        done = within(30, *command, cwd=tmp_path)
        assert done.returncode == 2 and "next:" in done.stderr, (
            command,
            done.stderr,
        )
    for name in ("fusiondoc.yaml", "pyproject.toml"):
        put(kind, tmp_path / name)
        done = within(30, "parse", "capture", cwd=tmp_path)
        assert "Traceback" not in done.stderr, done.stderr
        (tmp_path / name).unlink()


def test_a_log_in_a_folder_that_becomes_a_pipe_is_not_waited_on(
    tmp_path: Path, fusiondoc: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the search and the reading: a pipe beside other logs has not been
    named."""
    from fusiondoc.parsers.lines import log_files

    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("x\n")
    plain = log_files._logs_in

    def found(folder: Path) -> list[log_files.LogInput]:
        made = plain(folder)
        put("pipe", tmp_path / "logs" / "a.log")
        return made

    monkeypatch.setattr(log_files, "_logs_in", found)
    monkeypatch.setattr(whole_files, "MOST_WAIT", 60)
    done = fusiondoc("parse", "logs", cwd=tmp_path)
    assert (
        done.returncode == 2 and "a named pipe, not a regular file" in done.stderr
    )


def test_a_pipe_that_the_user_names_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = "x\n" * 100
    for arguments in (("parse", "pipe"), ("parse", "--follow", "pipe")):
        writer = threading.Thread(
            target=lambda: (tmp_path / "pipe").write_text(text)
        )
        writer.start()
        done = within(60, *arguments, "-f", "json", cwd=tmp_path)
        writer.join(10)
        assert json.loads(done.stdout)["parse"]["lines"] == 100, done.stderr
