"""The probe's own passes import no part of torch's compiler, and compute what
torch's public ways do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run
from running import python_apart, write

pytestmark = pytest.mark.torch

MODEL = """
    import atexit
    import sys

    import torch
    from torch import nn

    PARTS = {{"sympy", "torch._dynamo"}}
    atexit.register(lambda: print("imported:", sorted(PARTS.intersection(sys.modules))))
    {first}
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU())
    inputs = (torch.randn(4, 8),)
"""


@pytest.mark.cold
@pytest.mark.parametrize(
    ("first", "imported"),
    [
        ("", "[]"),
        pytest.param(
            "import torch._dynamo",
            "['sympy', 'torch._dynamo']",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_verified_training_run_imports_no_compiler(
    fusiondoc: Run, tmp_path: Path, first: str, imported: str
) -> None:
    """Both would take as long as torch itself. A program that imports them has the
    same report."""
    write(tmp_path, "net.py", MODEL.format(first=first))
    words = (
        "diagnose",
        "net.py",
        "--fuser",
        "nnc",
        "--backward",
        "--verify",
        "-f",
        "json",
    )
    done = fusiondoc(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    rows = report["verification"]
    assert {row["phase"] for row in rows} == {"forward", "backward"} and all(
        row["same"] for row in rows
    )
    (log,) = (tmp_path / ".fusiondoc").glob("*/log")
    assert f"imported: {imported}" in log.read_text()


GRADIENTS = """
import sys
import torch
from fusiondoc.probe.light_torch import backward

def gradients(ways, dtype):
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=dtype, requires_grad=True)
    y = torch.randn(4, dtype=dtype, requires_grad=True)
    roots = [(x * y).sin(), x @ y, y * 2]
    starts = [torch.randn_like(root) for root in roots]
    ways(roots, starts)
    return [x.grad, y.grad]

def light(roots, starts):
    backward(torch, roots, starts)
    assert "sympy" not in sys.modules

types = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
ours = [gradients(light, dtype) for dtype in types]
x = torch.ones(3, requires_grad=True)
try:
    backward(torch, [x * 2], [torch.ones(4)])
except RuntimeError as error:
    print("refused:", str(error)[:60])
theirs = [gradients(torch.autograd.backward, dtype) for dtype in types]
print([torch.equal(a, b) for one, other in zip(ours, theirs) for a, b in zip(one, other)])
"""


@pytest.mark.cold
def test_gradients_are_those_of_torch(tmp_path: Path) -> None:
    done = python_apart(code=GRADIENTS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "refused: " in done.stdout and str([True] * 8) in done.stdout
