"""The use cases under the commands: what an argument names, and a log that is parsed once for a report."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, Run

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.request import RunRequest
from fusiondoc.captures.store import CaptureStore
from fusiondoc.captures.target import TargetSpec
from fusiondoc.errors import CannotRun, UsageError
from fusiondoc.parsers import read
from fusiondoc.workflows import load, rerun, run, timing, tries
from fusiondoc.workflows.inputs import Kind, is_target, source_of, sources_of
from fusiondoc.workflows.run import FollowUps, diagnose_target

LOG = FIXTURES / "compare" / "one-group.log"
CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
NAME = "20260102-030405-composite"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a log, a saved report, and a capture in ``.fusiondoc/``."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(LOG, "train.log")
    shutil.copytree(CAPTURE, Path(".fusiondoc", NAME))
    Path("empty").mkdir()
    Path("m.py").write_text("")
    Path("saved.json").write_text("{}")
    Path("report").write_text('{"schema": "fusiondoc.report/1"}')
    return tmp_path


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        ("train.log", Kind.LOG),
        ("empty", Kind.LOG),
        ("m.py", Kind.LOG),
        ("-", Kind.STDIN),
        (f".fusiondoc/{NAME}", Kind.CAPTURE),
        (NAME, Kind.CAPTURE),
        ("composite", Kind.CAPTURE),
        ("saved.json", Kind.REPORT),
        ("report", Kind.REPORT),
    ],
)
def test_what_an_argument_names(argument: str, kind: Kind, here: Path) -> None:
    assert source_of(argument).kind is kind


def test_what_names_nothing(here: Path) -> None:
    with pytest.raises(UsageError, match=r"no log, folder, report or capture 'trian\.log'") as raised:
        source_of("trian.log")
    assert "train.log" in str(raised.value.hint)
    with pytest.raises(UsageError, match=r"saved.json is a saved report, which is not a part of a run"):
        sources_of(["train.log", "saved.json"])
    assert [one.text for one in sources_of([])] == [NAME]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_not_read_to_see_what_it_is(here: Path) -> None:
    os.mkfifo("pipe")
    assert source_of("pipe").kind is Kind.LOG


def test_every_command_takes_the_same_form_of_a_target(here: Path, fusiondoc: Run) -> None:
    assert is_target("m.py:net.encoder")
    for command in (["kernels"], ["check", "--expect", "e.yaml", "--update"], ["diagnose"]):
        done = fusiondoc(*command, "m.py:net.encoder", "--knob", "no_such_knob=1", cwd=here)
        assert done.returncode == 2 and "no_such_knob" in done.stderr, "it is taken for something to run"


def test_names_and_saved_reports_are_read_by_every_command(here: Path, fusiondoc: Run) -> None:
    whole = json.loads(fusiondoc("parse", NAME, "--format", "json", cwd=here).stdout)
    Path("saved.json").write_text(json.dumps(whole))
    again = json.loads(fusiondoc("parse", "saved.json", "--format", "json", cwd=here).stdout)
    assert whole["groups"] and again["groups"] == whole["groups"]
    assert again["findings"] == whole["findings"]
    for argument in ("composite", "saved.json"):
        listed = fusiondoc("kernels", argument, cwd=here)
        assert listed.returncode == 0 and "kernel1" in listed.stdout
    against = fusiondoc("parse", "saved.json", "--peak", 1000, "--format", "json", cwd=here)
    assert json.loads(against.stdout)["peak"] == {"gb_per_s": 1000.0, "source": "given"}


def test_a_log_is_parsed_once_a_report(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with every follow-up run, whose own logs are parsed once each where they are reported on."""
    parsed: list[str] = []

    def counting(logs: Any, *arguments: Any, **options: Any) -> Any:
        parsed.extend(str(log.path) for log in logs)
        return read.read_logs(logs, *arguments, **options)

    def copied(request: RunRequest, place: Any, progress: Any = None) -> Capture:
        folder = place.new("copy")
        shutil.copytree(CAPTURE, folder, dirs_exist_ok=True)
        return Capture(folder)

    monkeypatch.setattr(load, "read_logs", counting)
    monkeypatch.setattr(run, "wants_rerun", lambda report, capture: True)
    for module in (run, rerun, timing, tries):
        monkeypatch.setattr(module, "run", copied)
    told: list[str] = []
    request = RunRequest(TargetSpec("m.py", "file", Path("m.py").absolute()), Path("python"))
    done = diagnose_target(
        request, CaptureStore(), follow_ups=FollowUps(timing=True, eval_mode=True), tell=told.append
    )
    assert done.capture.rerun is not None and done.capture.timing is not None and len(done.report.tries) > 1
    assert sum(line.startswith("trying") for line in told) == len(done.report.tries) - 1
    assert any("without fallback" in line for line in told)
    assert parsed.count(str(done.capture.log_path)) == 1
    assert len(parsed) == len({*parsed}) == len(done.report.tries)


def test_a_system_without_process_groups_is_told_what_can_be_done(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "killpg")
    request = RunRequest(TargetSpec("m.py", "file", Path("m.py").absolute()), Path("python"))
    with pytest.raises(CannotRun, match="Linux and macOS only") as raised:
        diagnose_target(request, CaptureStore())
    assert "fusiondoc parse LOG" in str(raised.value.hint)
