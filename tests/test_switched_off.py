"""A fuser that the environment or the program switches off: the cause is named, whatever the log says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

pytestmark = pytest.mark.torch

MODEL = """\
import torch

{switch}


def model(x, y):
    return torch.relu(x + y) * y


inputs = (torch.rand(4, 8), torch.rand(4, 8))
"""


def report_of(fusiondoc: Run, folder: Path, switch: str, **env: str) -> dict:
    (folder / "model.py").write_text(MODEL.format(switch=switch))
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json", env=env)
    assert done.returncode == 0, done.stderr
    report: dict = json.loads(done.stdout)
    return report


def run_findings(report: dict) -> list:
    """Those on the run, not on operators of it."""
    return [(one["code"], one["message"]) for one in report["findings"] if not one["ops"]]


def test_a_variable_that_switches_nnc_off_is_the_reason_of_every_operator(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "", PYTORCH_TENSOREXPR="0")
    assert run_findings(report) == [
        ("FD104", "PYTORCH_TENSOREXPR=0 is set: it switches NNC off, whatever the program says")
    ]
    assert {row["reason"]["code"] for row in report["unfused"]} == {"FD104"} and not report["groups"]
    assert "unset PYTORCH_TENSOREXPR" in report["plan"][0]["change"]
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert done.returncode == 1 and "found 0: PYTORCH_TENSOREXPR=0 is set" in done.stdout


@pytest.mark.parametrize(
    ("switch", "knob"),
    [
        ("torch._C._jit_set_profiling_executor(False)", "profiling_executor"),
        ("torch._C._jit_set_profiling_mode(False)", "profiling_mode"),
    ],
)
def test_an_executor_that_the_program_switches_off(
    switch: str, knob: str, fusiondoc: Run, tmp_path: Path
) -> None:
    """It prints nothing, so the log looks as if nothing had run in TorchScript."""
    report = report_of(fusiondoc, tmp_path, switch)
    ((code, message),) = run_findings(report)
    assert code == "FD104" and message.startswith(f"The program switches {knob} off itself: ")
    (tmp_path / "fusions.yaml").write_text("max_fallbacks: 0\nnot_fused: []\n")
    done = fusiondoc("check", "--expect", "fusions.yaml")
    assert done.returncode == 1 and done.stdout.count("BROKEN") == 2


def test_a_fuser_that_the_program_switches_off_is_told_although_the_run_has_it_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    report = report_of(fusiondoc, tmp_path, "torch._C._jit_set_texpr_fuser_enabled(False)")
    ((code, message),) = run_findings(report)
    assert len(report["groups"]) == 1
    assert code == "FD104" and message.startswith(
        "The program switches NNC off itself: this run switched it on"
    )
    (tmp_path / "fusions.yaml").write_text("number_of_groups: 1\n")
    done = fusiondoc("check", "--expect", "fusions.yaml", env={"COLUMNS": "200"})
    assert done.returncode == 0 and "\nwarning FD104: The program switches NNC off itself" in done.stdout
    assert fusiondoc("check", "--expect", "fusions.yaml", "--fail-on", "FD104").returncode == 1


def test_switches_that_leave_the_fuser_on_are_no_finding(fusiondoc: Run, tmp_path: Path) -> None:
    report = report_of(fusiondoc, tmp_path, "torch._C._jit_override_can_fuse_on_gpu(False)")
    assert run_findings(report) == [] and len(report["groups"]) == 1


def test_a_fuser_that_the_model_switches_off_while_it_runs(fusiondoc: Run, tmp_path: Path) -> None:
    switch = """
@torch.jit.ignore
def off() -> None:
    torch._C._jit_set_texpr_fuser_enabled(False)
"""
    text = MODEL.format(switch=switch).replace("    return", "    off()\n    return")
    (tmp_path / "model.py").write_text(text)
    report = json.loads(fusiondoc("diagnose", "model.py", "--fuser", "nnc", "-f", "json").stdout)
    assert ("FD104", "The program switches NNC off while it runs: plans made after that hold no group") in (
        run_findings(report)
    )
    rows = {row["op"]: row["reason"]["text"] for row in report["unfused"]}
    assert rows["aten::add"] == "the program had switched the fuser off" and not report["groups"]


def test_a_knob_that_switches_the_fuser_off_is_not_the_programs_doing(fusiondoc: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.format(switch="torch._C._jit_override_can_fuse_on_gpu(False)"))
    done = fusiondoc("diagnose", "model.py", "--fuser", "nnc", "--knob", "nnc=off", "-f", "json")
    assert done.returncode == 0, done.stderr
    assert not [one for one in run_findings(json.loads(done.stdout)) if "The program" in one[1]]
