"""How far a bench is, where stderr is no terminal: a log of a job must not be
silent for minutes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from command_line import Run

from fusiondoc.cli import bench

LINE = re.compile(r"bench: (\d+% done, )?\d+ s: forward: \S.*\Z")
MODEL = """\
import time
import torch

inputs = (torch.ones(8),)


def model(x):
    time.sleep(0.1)
    return x + 1
"""


@pytest.mark.torch
def test_a_bench_in_a_pipe_says_how_far_it_is(
    fusiondoc: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LINE_SECONDS", 0.2)
    (tmp_path / "model.py").write_text(MODEL)
    done = fusiondoc(
        "bench",
        "model.py",
        "--variant",
        "aot",
        "--rounds",
        6,
        "--processes",
        1,
        "-f",
        "json",
    )
    assert done.returncode == 0, done.stderr
    lines = [
        line for line in done.stderr.splitlines() if line.startswith("bench: ")
    ]
    assert lines[0] == "bench: 0 s: forward: loading" and len(lines) > 2
    assert all(LINE.match(line) for line in lines), lines
    assert any("% done" in line for line in lines)
    json.loads(done.stdout)


def test_one_long_step_is_told_again_and_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "LINE_SECONDS", 0.05)
    with bench._progress() as progress:
        progress.say("forward: nvfuser warms up", 1, 4)
        time.sleep(0.4)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 3
    assert all(
        re.match(r"bench: 25% done, \d s: forward: nvfuser warms up\Z", line)
        for line in lines
    )
    time.sleep(0.2)
    assert capsys.readouterr().err == "", "it ends with the block"


def test_a_bench_that_fails_at_once_says_nothing_of_progress(
    fusiondoc: Run, tmp_path: Path
) -> None:
    done = fusiondoc("bench", "nowhere.py")
    assert done.returncode == 2 and "bench: " not in done.stderr
