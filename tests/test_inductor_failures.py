"""Runs of torch.compile that fail, or that go on without it: whose error it is, and
the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from running import write

pytestmark = pytest.mark.torch

WITH_PRINT = """
import torch

@torch.compile(fullgraph=True)
def model(x):
    y = torch.sin(x) * 2
    print("between")
    return torch.relu(y) + 1

inputs = (torch.randn(4, 8),)
"""

NO_LOWERING = """
import torch
from torch._inductor.lowering import register_lowering

@torch.library.custom_op("lab::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)

@register_lowering(torch.ops.lab.twice.default)
def lowered(x):
    raise NotImplementedError("lab::twice takes no such layout")

def model(x):
    return torch.relu(twice(x + 1))

inputs = (torch.randn(4, 8),)
"""


def report_of(
    fusiondoc: Run, folder: Path, *arguments: str, status: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The report, and its findings of level "error"."""
    done = fusiondoc("diagnose", *arguments, "--format", "json", cwd=folder)
    assert done.returncode == status, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report, [one for one in report["findings"] if one["severity"] == "error"]


def test_a_break_under_fullgraph_is_a_finding_with_torchs_reason(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", WITH_PRINT)
    report, (found,) = report_of(fusiondoc, tmp_path, "model.py", "--no-run")
    assert (report["frontend"], report["fuser"]["effective"]) == (
        "dynamo",
        "inductor",
    )
    assert (found["code"], found["source"].rpartition("/")[2]) == (
        "FD309",
        "model.py:7",
    )
    assert "Unsupported: Failed to trace builtin operator" in found["message"]
    assert "the same pass runs in eager without an error" in found["message"]
    assert "--verify" not in found["message"]
    assert "reorderable_logging_functions" in found["advice"]
    assert (
        report["coverage"]["unknown"]
        == "no code is known that torch.compile generated"
    )


def test_a_lowering_that_fails_is_a_finding_with_its_line(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", NO_LOWERING)
    report, (found,) = report_of(
        fusiondoc, tmp_path, "model.py", "--fuser", "inductor"
    )
    assert (found["code"], found["source"].rpartition("/")[2]) == (
        "FD309",
        "model.py:18",
    )
    assert (
        "NotImplementedError: lab::twice takes no such layout" in found["message"]
    )
    assert "torch.compiler.disable" in found["advice"]
    (graph,) = report["compiled"]["graphs"]
    assert "lab::twice takes no such layout" in graph["failed"]


@pytest.mark.nightly
def test_a_model_that_fails_in_eager_too_is_the_users(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", WITH_PRINT.replace("+ 1", "+ torch.ones(5)"))
    _, found = report_of(fusiondoc, tmp_path, "model.py", "--no-run", status=3)
    assert [one["code"] for one in found] == ["FD905"]


@pytest.mark.nightly
def test_a_program_that_reads_results_cannot_go_without_them(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = WITH_PRINT.replace(
        'print("between")', 'assert y.max().item() != 0, "all zero"'
    )
    write(tmp_path, "model.py", text.replace("fullgraph=True", ""))
    done = fusiondoc("diagnose", "model.py", "--no-run", cwd=tmp_path)
    assert done.returncode == 2 and "--no-run computes no results" in done.stderr
    assert (
        "AssertionError: all zero" in done.stderr
        and "Run it without --no-run" in done.stderr
    )


@pytest.mark.nightly
def test_a_script_is_run_again_without_torch_compile(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Nothing is asked of it but that it calls torch.compile."""
    write(tmp_path, "train.py", NO_LOWERING + "torch.compile(model)(*inputs)\n")
    report, (found,) = report_of(
        fusiondoc, tmp_path, "train.py", "--script", "--no-run"
    )
    assert (report["frontend"], found["code"]) == ("dynamo", "FD309")
    assert (
        "without torch.compile the same run ends without an error"
        in found["message"]
    )


SUPPRESSED = "torch._dynamo.config.suppress_errors = True\n"


@pytest.mark.nightly
def test_a_failed_graph_of_a_program_that_goes_on(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "model.py",
        NO_LOWERING.replace("def model", SUPPRESSED + "\ndef model"),
    )
    report, (found,) = report_of(
        fusiondoc, tmp_path, "model.py", "--fuser", "inductor", "--no-run"
    )
    assert (found["code"], report["fuser"]["effective"]) == ("FD312", "inductor")
    assert found["message"].startswith(
        "torch.compile failed on graph 0/0, forward: "
    )
    assert "lab::twice takes no such layout" in found["message"]


LIMIT = """
import torch

torch._dynamo.config.recompile_limit = 2

@torch.compile(dynamic=False)
def f(x, scale):
    return torch.relu(x * scale)

for scale in range(2, 8):
    f(torch.ones(4), scale)
"""


@pytest.mark.nightly
def test_a_function_that_reached_the_limit_of_recompiles(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "train.py", LIMIT)
    report, (found,) = report_of(
        fusiondoc, tmp_path, "train.py", "--script", "--no-run"
    )
    assert found["code"] == "FD311" and found["message"].startswith(
        "torch.compile gave f up at the limit"
    )
    assert "A guard failed: scale == 2; scale == 3" in found["message"]
    assert found["source"].rpartition("/")[2] == "train.py:6"
    assert len(report["compiled"]["graphs"]) == 2


OTHER_NUMBERS = """
import torch

def model(x):
    return x @ x if torch.compiler.is_compiling() else (x @ x) @ x

inputs = (torch.randn(8, 8),)
"""


@pytest.mark.nightly
def test_other_numbers_than_eager_are_advised_on_for_torch_compile(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Products of matrices alone: no kernel has to be compiled."""
    write(tmp_path, "model.py", OTHER_NUMBERS)
    _, found = report_of(
        fusiondoc, tmp_path, "model.py", "--fuser", "inductor", "--verify"
    )
    assert [one["code"] for one in found] == ["FD501"]
    assert "torch.compiler.disable" in found[0]["advice"]
    assert (
        "nvFuser" not in found[0]["advice"] and "--knob" not in found[0]["advice"]
    )
