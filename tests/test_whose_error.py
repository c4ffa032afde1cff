"""Whose error it is that a run ended with: real children that fail with a fuser,
without, or not always."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, Run
from running import write

from fusiondoc.diagnosis.failing_read import groups_read
from fusiondoc.errors import ModelFailed
from fusiondoc.parsers.lines.error_texts import changed_result, failing_line
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import read_logs

ROTARY = FIXTURES / "logs" / "nvfuser-2.1.2-rotary-error.log.xz"
"""A traced attention with rotary positions that fails under nvFuser alone
(fixtures/README.md)."""

SMALL = """
    import torch

    def model(x, y):
        return torch.relu(x * y + 1.0) * 2.0

    inputs = (torch.randn(64), torch.randn(64))
"""
NO_LLVM = ("--knob", "nnc_must_use_llvm=on")
"""NNC then raises "LLVM Backend not found" in the first fused pass of a torch
without LLVM (torch/csrc/jit/tensorexpr/kernel.cpp, pickBackendType)."""


def report_of(
    fusiondoc: Run, folder: Path, *arguments: str, status: int
) -> tuple[dict[str, Any], str]:
    done = fusiondoc("diagnose", *arguments, "--format", "json", cwd=folder)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout), done.stderr


def found(report: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [one for one in report["findings"] if one["code"] == code]


@pytest.mark.torch
def test_an_error_of_the_fused_run_alone_is_a_finding(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "small.py", SMALL)
    report, said = report_of(
        fusiondoc, tmp_path, "small.py", *NO_LLVM, "--fail-on", "FD309", status=1
    )
    (finding,) = found(report, "FD309")
    assert not found(report, "FD905")
    assert "Only the run under NNC fails in the forward pass" in finding["message"]
    assert (
        "LLVM Backend not found; without the fuser the same run ends without an error"
        in finding["message"]
    )
    assert "group G1 (mul, add, relu, mul" in finding["message"]
    assert (
        "--knob nnc_must_use_llvm=off (4 operators in 1 group)" in finding["advice"]
    )
    assert "without the fuser" in said and "error:" not in said

    first = report["plan"][0]
    assert first["change"] == "Run it with --knob nnc_must_use_llvm=off" and first[
        "codes"
    ] == ["FD309"]
    assert first["command"].endswith("--knob nnc_must_use_llvm=off --verify")
    # The capture tells it again.
    (capture,) = [
        path for path in (tmp_path / ".fusiondoc").iterdir() if path.is_dir()
    ]
    kept = json.loads(
        fusiondoc("parse", capture, "--format", "json", cwd=tmp_path).stdout
    )
    assert found(kept, "FD309") == [finding]
    assert json.loads((capture / "fault.json").read_text())["blame"] == "fuser"
    assert (capture / "unfused" / "log").is_file() and (
        capture / "fused-again" / "log"
    ).is_file()
    # What it advises is true.
    again, _ = report_of(
        fusiondoc, tmp_path, *first["command"].split()[2:], status=0
    )
    assert (
        not found(again, "FD309")
        and again["groups"]
        and all(one["same"] for one in again["verification"])
    )


@pytest.mark.torch
def test_verify_knows_it_without_another_run(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "small.py", SMALL)
    report, _ = report_of(
        fusiondoc,
        tmp_path,
        "small.py",
        *NO_LLVM,
        "--verify",
        "--no-rerun",
        status=0,
    )
    (finding,) = found(report, "FD309")
    assert (
        "the same pass runs in eager without an error (--verify)"
        in finding["message"]
    )


@pytest.mark.torch
def test_without_another_run_it_is_not_known(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "small.py", SMALL)
    report, _ = report_of(
        fusiondoc, tmp_path, "small.py", *NO_LLVM, "--no-rerun", status=3
    )
    (finding,) = found(report, "FD905")
    assert (
        "Whether the program or the fuser is at fault is not known"
        in finding["advice"]
    )
    assert report["plan"][0]["command"].endswith("--fuser none")


@pytest.mark.torch
def test_an_error_of_the_program_stays_one(fusiondoc: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        "odd.py",
        """
        import torch

        def model(x):
            return (torch.relu(x + 1.0) * 2.0).view(3, -1)

        inputs = [(torch.randn(63),), (torch.randn(64),)]
        """,
    )
    report, said = report_of(fusiondoc, tmp_path, "odd.py", "--verify", status=3)
    (finding,) = found(report, "FD905")
    assert not found(report, "FD309")
    assert finding["message"].endswith("; it fails without the fuser too")
    assert (
        report["plan"][0]["change"]
        == "Fix the program first: it ended with an error"
    )
    assert "is invalid for input of size 64" in said


@pytest.mark.torch
def test_an_error_before_anything_is_fused_is_not_run_again(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "early.py",
        "import torch\n\ndef model(x):\n    return x.view(7)\n\ninputs = (torch.ones(2),)\n",
    )
    report, said = report_of(fusiondoc, tmp_path, "early.py", status=3)
    assert found(report, "FD905") and "running it again" not in said


@pytest.mark.torch
@pytest.mark.cold
@pytest.mark.nightly
def test_an_error_that_comes_and_goes_is_put_on_nobody(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(
        tmp_path,
        "sometimes.py",
        """
        import os, torch

        FIRST = not os.path.exists("ran")
        open("ran", "w").close()
        calls = []

        @torch.jit.ignore
        def odd(x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            if FIRST and len(calls) > 2:
                raise RuntimeError("only in the first process")
            return x

        def model(x, y):
            return odd(torch.relu(x * y + 1.0) * 2.0)

        inputs = (torch.randn(64), torch.randn(64))
        """,
    )
    report, _ = report_of(fusiondoc, tmp_path, "sometimes.py", status=3)
    (finding,) = found(report, "FD905")
    assert "the error comes and goes" in finding["message"] and not found(
        report, "FD309"
    )


SIGNALLED = """
    import os, signal, torch

    calls = []

    @torch.jit.ignore
    def dies(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 3 and ({when}):
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    def model(x, y):
        return dies(torch.relu(x * y + 1.0) * 2.0)

    inputs = (torch.randn(64), torch.randn(64))
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("when", "status", "code"),
    [
        ("torch._C._jit_texpr_fuser_enabled()", 0, "FD309"),
        pytest.param("True", 3, "FD905", marks=pytest.mark.nightly),
    ],
    ids=["of the fused run", "of any run"],
)
def test_a_process_that_dies(
    fusiondoc: Run, tmp_path: Path, when: str, status: int, code: str
) -> None:
    write(tmp_path, "dies.py", SIGNALLED.format(when=when))
    report, _ = report_of(fusiondoc, tmp_path, "dies.py", status=status)
    (finding,) = found(report, code)
    assert "died of SIGSEGV" in finding["message"]
    assert bool(found(report, "FD303")) is (code == "FD309")


@pytest.mark.torch
@pytest.mark.cold
@pytest.mark.nightly
def test_a_script_that_switches_its_fuser_on_itself(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """Without the fuser it fuses all the same, so it runs without TorchScript."""
    write(
        tmp_path,
        "train.py",
        """
        import torch

        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_set_texpr_fuser_enabled(True)
        torch._C._jit_set_te_must_use_llvm_cpu(True)

        @torch.jit.script
        def step(x, y):
            return torch.relu(x * y + 1.0) * 2.0

        for _ in range(4):
            step(torch.randn(64), torch.randn(64))
        """,
    )
    report, _ = report_of(fusiondoc, tmp_path, "--script", "train.py", status=0)
    assert found(report, "FD309") and not found(report, "FD905")


def test_from_a_log_alone_it_is_not_known(fusiondoc: Run) -> None:
    done = fusiondoc("parse", ROTARY, "--format", "json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    (finding,) = found(report, "FD905")
    assert (
        "The size of tensor a (4) must match the size of tensor b (64)"
        in finding["message"]
    )
    assert finding["advice"].startswith(
        "models/rotary.py:34 reads a result of group G1 ("
    )
    assert (
        "whether the program or the fuser is at fault is not in the log; to find out, run it with"
        in finding["advice"].lower()
    )


def test_the_group_whose_result_was_read_comes_first() -> None:
    """rotary.py:34 holds two operators: the product that reads G1 and failed, and
    the division of G2."""
    report, _ = read_logs([LogInput(str(ROTARY), ROTARY)])
    assert groups_read(report, "models/rotary.py:34") == ("G1", "G2")
    assert groups_read(report, "models/rotary.py:35") == ("G2",)
    assert groups_read(report, "models/rotary.py:1") == ()


def test_the_line_of_an_error_in_the_interpreter() -> None:
    head = "The following operation failed in the TorchScript interpreter.\n"
    head += "Traceback of TorchScript (most recent call last):\n"
    traced = (
        head
        + "/m/rotary.py(34): forward\n/torch/nn/modules/module.py(1508): _slow_forward\nRuntimeError: size\n"
    )
    scripted = (
        head + '  File "m.py", line 9, in forward\n    f(x)\n    ~ <--- HERE\n'
    )
    scripted += '  File "m.py", line 4, in f\nRuntimeError: x\n'
    assert failing_line(traced) == "/m/rotary.py:34"
    assert failing_line(scripted) == "m.py:4"
    assert failing_line("RuntimeError: LLVM Backend not found") is None
    failed = ModelFailed(
        "rotary.py failed", output=f"RuntimeError: {traced}RuntimeError: size"
    )
    assert failed.in_one_line == "RuntimeError: size"


RESIDUAL = """
    import torch
    from torch import Tensor, nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.down(torch.tanh(self.up(x)) * x)
            y += x
            return y

    model = Residual()
    inputs = (torch.randn(2, 3, 4),)
"""


@pytest.mark.torch
def test_an_update_that_torchscript_alone_refuses_is_written_out_of_place(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "residual.py", RESIDUAL)
    arguments = ("residual.py", "--fuser", "nnc", "--backward")
    report, _ = report_of(fusiondoc, tmp_path, *arguments, status=3)
    (finding,) = found(report, "FD905")
    assert (
        finding["advice"].startswith("Write ")
        and "residual.py:12 out of place" in finding["advice"]
    )
    text = (tmp_path / "residual.py").read_text()
    (tmp_path / "residual.py").write_text(text.replace("y += x", "y = y + x"))
    report, _ = report_of(fusiondoc, tmp_path, *arguments, status=0)
    assert not found(report, "FD905")


def test_what_a_differentiable_graph_keeps_and_is_changed() -> None:
    """As torch 2.13 words it."""
    text = (
        "one of the variables needed for gradient computation has been modified by an inplace operation:"
        " [torch.FloatTensor [3, 32]], which is output {}, is at version 1; expected version 0 instead."
    )
    of_graph = changed_result(
        text.format("0 of torch::jit::(anonymous namespace)::DifferentiableGraph")
    )
    assert of_graph is not None and of_graph.lines == ()
    assert (
        changed_result(text.format("0 of TanhBackward0")) is None
    )  # which eager mode refuses too


@pytest.mark.torch
@pytest.mark.nightly
def test_check_fails_where_only_the_fused_run_fails(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "small.py", SMALL)
    made = fusiondoc(
        "check", "small.py", "--expect", "f.yaml", "--update", cwd=tmp_path
    )
    assert made.returncode == 0, made.stderr
    before = (tmp_path / "f.yaml").read_text()
    done = fusiondoc(
        "check", "small.py", *NO_LLVM, "--expect", "f.yaml", cwd=tmp_path
    )
    assert done.returncode == 1 and "expected the fused run to end" in done.stdout
    refused = fusiondoc(
        "check",
        "small.py",
        *NO_LLVM,
        "--expect",
        "f.yaml",
        "--update",
        cwd=tmp_path,
    )
    assert refused.returncode != 0 and (tmp_path / "f.yaml").read_text() == before


def test_what_an_nvfuser_run_on_a_gpu_showed(fusiondoc: Run) -> None:
    """The capture of ``diagnose rotary.py --trace`` on an H200: nothing but the log
    and fault.json tells."""
    done = fusiondoc(
        "parse",
        FIXTURES / "captures" / "rotary-nvfuser-2.1.2.tar.xz",
        "--format",
        "json",
    )
    assert done.returncode == 0
    report = json.loads(done.stdout)
    (finding,) = found(report, "FD309")
    assert not found(report, "FD905")
    assert (
        "rotary.py:34 reads a result of group G1 (mul, mul, mul, mul"
        in finding["message"]
    )
    assert "kernels K1, K2" in finding["message"]
    assert "sizes [2, 64, 64, 4], unfused [2, 4, 64, 64]" in finding["message"]
    assert (
        "The smallest part that still fails: prim::transpose_copy (1 of 7 operators)"
        in finding["message"]
    )
    ways = [one["change"] for one in report["plan"][:2]]
    assert ways == [
        "Run it with --fuser nnc",
        "Run it with --knob skip_node_kind=prim::transpose_copy",
    ]
    line = 'torch._C._jit_set_nvfuser_skip_node_kind("prim::transpose_copy", True)'
    assert line in report["plan"][1]["python"]
