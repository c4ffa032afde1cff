"""Runs that end before their time: by a signal, a timeout, an interruption, or a
full disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import log_of, records_of, run_target, uses_forks, write
from test_run_child import wait_until_gone

from fusiondoc.captures.capture import Capture
from fusiondoc.captures.store import CaptureStore
from fusiondoc.errors import ModelFailed

pytestmark = pytest.mark.torch

ROOT = Path(__file__).resolve().parent.parent

ENDS_IN_PASS_TWO = """
    import os, signal, time
    import torch

    count = 0

    def inputs():
        global count
        count += 1
        if count == 3:
            {last}
        return (torch.ones(8),)

    def model(x):
        return (x + 1).relu()
"""

DRIVER = """
import resource, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from running import run_target
{more}
from fusiondoc.errors import FusiondocError
if {limit}:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    capture, error = run_target(Path({folder!r}), "user.py")
except FusiondocError as error:
    print("refused:", error.message, "| next:", error.hint)
else:
    print("ended:", capture.result)
"""


@pytest.mark.cold
def test_a_child_that_dies_of_a_signal_leaves_its_capture(tmp_path: Path) -> None:
    write(
        tmp_path,
        "user.py",
        ENDS_IN_PASS_TWO.format(last="os.kill(os.getpid(), signal.SIGSEGV)"),
    )
    capture, error = run_target(tmp_path, "user.py")
    assert isinstance(error, ModelFailed) and "died of SIGSEGV" in error.message
    assert capture.result.signal == "SIGSEGV" and capture.result.exit_status is None
    assert len(records_of(capture, "iteration")) == 2
    # Python's stack at that moment, and before it the whole log of two passes.
    assert "in inputs" in log_of(capture) and "TensorExprGroup" in log_of(capture)


def test_a_program_that_ends_the_process(tmp_path: Path) -> None:
    write(
        tmp_path,
        "user.py",
        ENDS_IN_PASS_TWO.format(
            last="print('last words', flush=True); os._exit(9)"
        ),
    )
    _, error = run_target(tmp_path, "user.py")
    assert isinstance(error, ModelFailed)
    assert (
        "exit status 9 before all passes were done" in error.message
        and "last words" in error.message
    )


def test_sys_exit_in_a_model_is_a_failure(tmp_path: Path) -> None:
    write(tmp_path, "user.py", ENDS_IN_PASS_TWO.format(last="raise SystemExit(0)"))
    capture, error = run_target(tmp_path, "user.py")
    assert isinstance(error, ModelFailed) and capture.result.exit_status == 3


def test_a_run_that_never_ends(tmp_path: Path) -> None:
    write(tmp_path, "user.py", ENDS_IN_PASS_TWO.format(last="time.sleep(600)"))
    capture, error = run_target(tmp_path, "user.py", timeout=6)
    assert isinstance(error, ModelFailed) and "did not end in 6 s" in error.message
    assert capture.result.timed_out
    assert "in inputs" in log_of(capture)  # where it was


def drive(folder: Path, limit: int = 0, more: str = "") -> subprocess.Popen[str]:
    """fusiondoc's runner in a process of its own; its child is a new process too,
    unless ``more`` says."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FUSIONDOC_CACHE": str(folder / "cache"),
    }
    code = DRIVER.format(
        tests=str(ROOT / "tests"), folder=str(folder), limit=limit, more=more
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_pass(folder: Path, count: int) -> Capture:
    """The capture, once so many passes are on record."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for capture in CaptureStore(folder).list():
            if len(records_of(capture, "iteration")) >= count:
                return capture
        time.sleep(0.05)
    raise AssertionError("no pass in time")


def child_of(process: subprocess.Popen[str]) -> int:
    """The probe, below the supervisor."""
    pid = process.pid
    for _ in range(2):
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return pid


def test_an_interruption_keeps_what_was_captured(tmp_path: Path) -> None:
    write(tmp_path, "user.py", ENDS_IN_PASS_TWO.format(last="time.sleep(600)"))
    process = drive(tmp_path)
    capture = wait_for_pass(tmp_path, 2)
    child = child_of(process)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert "interrupted=True" in said
    assert wait_until_gone(child)
    assert capture.result.interrupted and capture.result.exit_status == 130
    assert (
        capture.records.error is not None
        and capture.records.error.type == "KeyboardInterrupt"
    )
    assert "TensorExprGroup" in log_of(capture)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_fusiondoc_leaves_no_child_behind(tmp_path: Path) -> None:
    write(tmp_path, "user.py", ENDS_IN_PASS_TWO.format(last="time.sleep(600)"))
    process = drive(tmp_path)
    wait_for_pass(tmp_path, 2)
    child = child_of(process)
    process.kill()
    process.communicate(timeout=20)
    assert wait_until_gone(child)


def test_a_full_disk_is_named_and_what_fits_is_kept(tmp_path: Path) -> None:
    """A limit on the size of files fails writes as a full disk does, at a place of
    our choice."""
    write(
        tmp_path,
        "user.py",
        ENDS_IN_PASS_TWO.format(
            last="print('y' * 100_000, flush=True); time.sleep(600)"
        ),
    )
    said, _ = drive(tmp_path, limit=40_000, more=uses_forks()).communicate(
        timeout=60
    )
    assert said.startswith("refused: no space left to write the capture"), said
    assert "captures remove" in said
    (capture,) = CaptureStore(tmp_path).list()
    assert capture.log_path.stat().st_size == 40_000
    assert (
        json.loads((capture.path / "request.json").read_text())["target"]["text"]
        == "user.py"
    )
