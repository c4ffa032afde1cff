"""The fixture ``fusion`` with what ``torch.compile`` made, without a fuser: it runs
under torch.compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiondoc.testing import Fusion

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.xdist_group(
    "compiled objects"
)  # torch.compile imports the compiler in this process


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + 1) * 2


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x)


@pytest.mark.parametrize(
    "model",
    (scaled, pytest.param(Scaled(), marks=pytest.mark.nightly)),
    ids=("function", "module"),
)
def test_a_compiled_object_runs_under_torch_compile(
    model: object, tmp_path: Path
) -> None:
    fusion = Fusion("test", lambda: tmp_path)
    report = fusion.assert_fused(
        torch.compile(model),
        torch.ones(4),
        groups=[["add", "relu", "mul"]],
        no_run=True,
    )
    assert (report.fuser.effective, report.frontend) == ("inductor", "dynamo")


def test_a_compiled_object_under_a_fuser_of_torchscript_stays_there(
    tmp_path: Path,
) -> None:
    report = Fusion("test", lambda: tmp_path).diagnose(
        torch.compile(scaled), torch.ones(4), fuser="nnc"
    )
    assert report.fuser.effective == "nnc"
