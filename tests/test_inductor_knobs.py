"""Knobs of Inductor in real runs: a switch that makes one kernel of two, found by
``--try``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command_line import runs_in_this_process
from running import write

from fusiondoc.captures.capture import Capture

pytestmark = pytest.mark.torch

SUMS = """
import torch


def model(x):
    return tuple((x * number).sum(-1) for number in range(1, 18))


inputs = (torch.randn(16, 32),)
"""
"""17 reductions that only read one tensor: the C++ back end takes 16 into a loop
nest."""

KNOB = "cpp.max_horizontal_fusion_size"


@pytest.fixture(scope="module")
def tried(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("sums")
    write(folder, "model.py", SUMS)
    run = runs_in_this_process(folder, folder / "cache")
    done = run(
        "diagnose",
        "model.py",
        "--fuser",
        "inductor",
        "--no-run",
        "--try",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_switch_makes_one_kernel_of_two(
    tried: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    report: dict[str, Any] = json.loads(tried[1].stdout)
    assert {one["cause"]["code"] for one in report["boundaries"]} == {"FD279"}
    asked, changed = report["tries"]
    assert (asked["groups"], changed["groups"]) == (2, 1)
    assert changed["change"] == f"{KNOB}=64" and changed["codes"] == ["FD279"]
    assert asked["ops_fused"] == changed["ops_fused"] == 34
    assert changed["speed"] is None, "no kernel was compiled"


def test_the_capture_holds_the_value_that_torch_read_back(
    tried: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    (capture,) = (
        path for path in (tried[0] / ".fusiondoc").iterdir() if path.is_dir()
    )
    assert Capture(capture).records.knobs == ()
    (of_try,) = (capture / "tries").iterdir()
    (knob,) = Capture(of_try).records.knobs
    assert (knob.name, knob.requested, knob.effective, knob.live) == (
        KNOB,
        "64",
        "64",
        True,
    )
