"""A warning is something to do, and its reason is true: on logs of real runs and on
a run of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.diagnosis.rules import finding
from fusiondoc.model.remedies import nothing

NAMES = (
    "*rejects*",
    "*refus*",
    "*fallback*",
    "*split*",
    "*views*",
    "*control-flow*",
    "*layer-norm*",
)
LOGS = sorted(
    {log for name in NAMES for log in (FIXTURES / "logs").glob(f"{name}.log.xz")}
)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_no_warning_without_something_to_do(log: Path) -> None:
    report = fusiondoc.parse(str(log))
    idle = [
        one
        for one in report.findings
        if one.severity == "warning" and one.nothing_to_do
    ]
    assert idle == []


def test_what_is_to_be_left_as_it_is_becomes_a_note() -> None:
    assert (
        finding(
            "FD233", "text", remedy=nothing("Nothing."), severity="warning"
        ).severity
        == "note"
    )
    assert (
        finding("FD233", "text", remedy="Do it.", severity="warning").severity
        == "warning"
    )
    assert (
        finding(
            "FD233", "text", remedy=nothing("Nothing."), severity="error"
        ).severity
        == "error"
    )


LIST_LITERAL = """\
import torch
from torch import Tensor


def model(x: Tensor, y: Tensor) -> Tensor:
    z = torch.cat([torch.flip(x, [0]), torch.roll(y, 1, 0)], 1)
    return torch.sigmoid(z) * 2.0 + z


inputs = (torch.randn(8, 4, requires_grad=True), torch.randn(8, 4, requires_grad=True))
"""


@pytest.mark.torch
def test_a_list_literal_is_not_called_made_elsewhere(tmp_path: Path) -> None:
    """flip and roll have no gradient formula, so that the list is outside the
    differentiable graph of cat."""
    (tmp_path / "literal.py").write_text(LIST_LITERAL)
    report = fusiondoc.diagnose(
        str(tmp_path / "literal.py"), fuser="nnc", runs=3, backward=True
    )
    (row,) = [row for row in report.unfused if row.op == "aten::cat"]
    assert (
        row.reason.text
        == "its graph begins behind its list of tensors, which is an input of it"
    )
    (one,) = [one for one in report.findings if one.ops == ("aten::cat",)]
    assert "gradient formula" in (one.advice or "")
    assert "torch.cat([x, y]" not in (one.advice or "")
