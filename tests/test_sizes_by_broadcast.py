"""NNC takes the size of a product of matrices for that to which its inputs
broadcast, where a gradient reads only the size of what follows: real runs with
torch, forward and backward."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fusiondoc

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch


def model(a: torch.Tensor, z: torch.Tensor, h: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.neg(a @ z)
    {change}
    y = y * 3.0
    y *= 2.0
    return z.sum() + y.sum()


inputs = (
    torch.rand(7, 7),
    torch.rand(7, 4, requires_grad={trained}),
    torch.rand(7, 4, requires_grad={trained}),
    torch.rand(7, 4, requires_grad={trained}),
)
"""
JUDGE = """\
import runpy, sys, torch
torch._C._jit_override_can_fuse_on_cpu(True)
torch._C._jit_set_te_must_use_llvm_cpu(False)
torch._C._jit_set_texpr_fuser_enabled(True)
found = runpy.run_path(sys.argv[1])
model = torch.jit.script(found["model"])
for _ in range(4):
    model(*found["inputs"]).backward()
print("ran")
"""


def ran(program: Path) -> str:
    """What torch alone makes of the program under NNC: "ran", or the last line of
    its error."""
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, program],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return (done.stdout or done.stderr).strip().split("\n")[-1]


def written(folder: Path, change: str, trained: bool = True) -> Path:
    path = folder / "program.py"
    path.write_text(PROGRAM.format(change=change, trained=trained))
    return path


def test_no_change_is_advised_that_torch_cannot_run(tmp_path: Path) -> None:
    path = written(tmp_path, "z += h")
    assert ran(path) == "ran"
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)
    edits = [edit.before.strip() for change in report.plan for edit in change.edits]
    assert edits == ["y *= 2.0"]
    changed = written(tmp_path, "z = z + h")
    assert "size of tensor a (7) must match the size of tensor b (4)" in ran(
        changed
    )


def test_its_finding_advises_nothing_else(tmp_path: Path) -> None:
    """Also where no other change is left, which would stand before it in the
    plan."""
    path = written(tmp_path, "z += h")
    path.write_text(path.read_text().replace("    y *= 2.0\n", ""))
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)
    (finding,) = [
        one for one in report.findings if one.message.startswith("aten::add_")
    ]
    assert finding.advice is not None
    assert finding.advice.startswith("Nothing in training")
    assert "product of matrices" in finding.advice
    assert all("out of place" not in one.kind.value for one in report.plan)


def test_it_is_advised_without_gradients(tmp_path: Path) -> None:
    report = fusiondoc.diagnose(
        str(written(tmp_path, "z += h", trained=False)), fuser="nnc", runs=3
    )
    edits = [edit.before.strip() for change in report.plan for edit in change.edits]
    assert sorted(edits) == ["y *= 2.0", "z += h"]


def test_the_error_of_the_fuser_is_explained_and_its_way_round_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "z = z + h")
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)
    (fault,) = [one for one in report.findings if one.code == "FD309"]
    assert (
        "NNC takes the result of aten::matmul for as large as its inputs broadcast"
        in fault.message
    )
    assert (
        fault.advice is not None
        and "PYTORCH_TENSOREXPR_DONT_FUSE=matmul" in fault.advice
    )
    monkeypatch.setenv("PYTORCH_TENSOREXPR_DONT_FUSE", "matmul")
    assert ran(path) == "ran"


def test_the_operator_is_named_where_the_group_that_failed_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The product is one of seven groups, and ``gain @ bank`` is read by a
    division."""
    programs = Path(__file__).parents[1] / "benchmarks" / "promise_programs_17"
    path = programs / "rnnoise_stream.py"
    report = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)
    (fault,) = [one for one in report.findings if one.code == "FD309"]
    assert fault.source is None
    assert "takes the result of aten::matmul for as large" in fault.message
    assert (
        fault.advice is not None
        and "PYTORCH_TENSOREXPR_DONT_FUSE=matmul" in fault.advice
    )
    monkeypatch.setenv("PYTORCH_TENSOREXPR_DONT_FUSE", "matmul")
    again = fusiondoc.diagnose(str(path), fuser="nnc", runs=3, backward=True)
    assert not any(one.code == "FD309" for one in again.findings)
