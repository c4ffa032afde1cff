"""Ways in which programs end that no program should: each has its status and keeps
what was captured."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run
from running import log_of, run_target, write

from fusiondoc.errors import ModelFailed
from fusiondoc.workflows.load import report_of

pytestmark = pytest.mark.torch

PROGRAM = """
import os, signal, sys, time
import torch
inputs = (torch.randn(8, 8),)

def relu(x):
    return torch.relu(x + 1)

{last}
"""


def program(folder: Path, last: str) -> None:
    write(folder, "user.py", PROGRAM.format(last=last))


@pytest.mark.parametrize(
    ("last", "script", "said"),
    [
        (
            "model = relu; os._exit(0)",
            False,
            "user.py ended with exit status 0 before all passes were done",
        ),
        (
            "model = relu; sys.stdout = sys.stderr = object()",
            False,
            "ended with exit status 120 after all",
        ),
        ("os._exit(2)", True, "ended with exit status 2 before"),
        ("class Odd(BaseException): pass\nraise Odd('boo')", True, "Odd: boo"),
        ("raise KeyboardInterrupt", True, "KeyboardInterrupt"),
        (
            "os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
            True,
            "KeyboardInterrupt",
        ),
        ("class Odd(Exception):\n    __str__ = None\nraise Odd()", True, "Odd"),
        (
            "os.close(1); os.close(2); raise ValueError('boo')",
            True,
            "ValueError: boo",
        ),
        ("sys.stderr = None; raise ValueError('boo')", True, "ValueError: boo"),
    ],
)
def test_the_programs_own_end_is_its_failure(
    last: str, script: bool, said: str, tmp_path: Path
) -> None:
    program(tmp_path, last)
    capture, failed = run_target(tmp_path, "user.py", script=script)
    assert failed is not None
    assert failed.exit_code == 3
    assert said in failed.message
    assert failed.hint
    assert "fusiondoc/probe" not in failed.message
    assert not capture.result.interrupted


def test_a_script_may_end_itself_anywhere(tmp_path: Path) -> None:
    program(tmp_path, "print('worked', flush=True)\nos._exit(0)")
    capture, failed = run_target(tmp_path, "user.py", script=True)
    assert failed is None
    assert "worked" in log_of(capture)


def test_a_program_that_removes_the_capture_of_its_own_run(tmp_path: Path) -> None:
    program(tmp_path, "import shutil; shutil.rmtree('.fusiondoc')")
    with pytest.raises(
        ModelFailed, match=r"user\.py removed the capture of its own run"
    ) as caught:
        run_target(tmp_path, "user.py", script=True)
    assert "from another folder" in str(caught.value.hint)


@pytest.mark.cold  # the name of a process is told
def test_processes_left_behind_that_go_on_printing_are_not_waited_for(
    tmp_path: Path,
) -> None:
    program(
        tmp_path,
        "print('worked', flush=True)\n"
        "if os.fork() == 0:\n"
        "    for _ in range(2000):\n"
        "        os.write(1, b'noise\\n'); time.sleep(0.02)\n"
        "os._exit(0)",
    )
    capture, failed = run_target(tmp_path, "user.py", script=True)
    assert failed is None
    assert not capture.result.timed_out
    assert "worked" in log_of(capture)
    assert log_of(capture).count("noise") < 2000
    (told,) = [
        one.message for one in report_of(capture).findings if one.code == "FD908"
    ]
    assert told.endswith(
        "ended 1 process that the program had started: a fork of the program"
    )


def test_messages_that_are_no_text(fusiondoc: Run, tmp_path: Path) -> None:
    program(tmp_path, r"raise ValueError('\ud800 \udc80')")
    for options in ([], ["--output", "report.json"]):
        done = fusiondoc("diagnose", "user.py", "--script", *options)
        assert done.returncode == 3
        assert "ValueError" in done.stderr
        assert "fusiondoc/cli" not in done.stderr
