"""Which captures of real runs stay, and what is said of those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Run
from running import write

from fusiondoc.captures.store import CaptureStore

pytestmark = pytest.mark.torch

MODEL = """
import torch

def model(x):
    return torch.relu(x * 2.0) + x

def broken(x):
    return x.view(3, 7)

inputs = (torch.rand(4),)
"""


def names(folder: Path) -> list[str]:
    return [path.name for path in CaptureStore(folder).paths()]


def test_a_failed_or_mistyped_run_takes_no_place(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "net.py", MODEL)
    env = {"FUSIONDOC_KEEP_LAST": "2"}
    for _ in range(2):
        assert (
            fusiondoc(
                "diagnose", "net.py", "--fuser", "none", "--runs", 1, env=env
            ).returncode
            == 0
        )
    good = names(tmp_path)
    assert len(good) == 2
    for target, status in (
        ("net.py:mdel", 2),
        ("net.py:mdel", 2),
        ("net.py:broken", 3),
        ("net.py:mdel", 2),
    ):
        done = fusiondoc(
            "diagnose", target, "--fuser", "none", "--runs", 1, env=env
        )
        assert done.returncode == status, done.stderr
        assert "removed" not in done.stderr, "nothing with a report is gone"
    left = names(tmp_path)
    assert set(good) < set(left), "both that went well are there"
    assert len(left) == 4, "of those that failed as many stay, the newest"
    again = fusiondoc("diagnose", "net.py", "--fuser", "none", "--runs", 1, env=env)
    (note,) = [line for line in again.stderr.splitlines() if "removed" in line]
    assert note == f"note: removed {good[-1]}: the newest 2 stay (--keep-last N)"
    assert good[-1] not in names(tmp_path) and good[0] in names(tmp_path)


def test_a_failed_run_that_had_a_report_is_named_when_it_goes(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "net.py", MODEL)
    env = {"FUSIONDOC_KEEP_LAST": "1"}
    failed = [
        fusiondoc(
            "diagnose", "net.py:broken", "--fuser", "none", "--runs", 1, env=env
        )
    ]
    (first,) = names(tmp_path)
    failed.append(
        fusiondoc(
            "diagnose", "net.py:broken", "--fuser", "none", "--runs", 1, env=env
        )
    )
    assert [one.returncode for one in failed] == [3, 3]
    assert (
        "removed" not in failed[0].stderr
        and f"removed {first}:" in failed[1].stderr
    )
