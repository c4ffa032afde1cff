"""Parts assigned in place, of which the plan of the run shows the sizes: the change
comes true."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import fusiondoc

ELEMENTS = """\
import torch


def model(boxes, scale):
    decoded = boxes * scale
    centre = torch.sigmoid(decoded[..., 0]) * 2.0 - 0.5
    decoded[..., 0] = centre
    return torch.tanh(decoded + 1.0)


inputs = (torch.randn(2, 8, 4), torch.randn(2, 8, 4))
"""
PARTS = """\
import torch


def model(x, d):
    t = x * 2.0
    t[..., :2] += d
    t[:, 1] = 0.0
    return torch.tanh(t)


inputs = (torch.randn(2, 4, 4), torch.randn(2, 4, 2))
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "lines", "promised", "groups"),
    [
        # The text does not show the sizes of ``centre``; the plan does.
        pytest.param(
            ELEMENTS, ["decoded[..., 0] = centre"], [(1, -1)], 1, id="element"
        ),
        pytest.param(
            PARTS,
            ["t[..., :2] += d", "t[:, 1] = 0.0"],
            [(3, 2)],
            2,
            id="number and other dimension",
        ),
    ],
)
def test_a_part_whose_sizes_the_run_shows_is_joined(
    text: str,
    lines: list[str],
    promised: list[tuple[int, int]],
    groups: int,
    tmp_path: Path,
) -> None:
    torch = pytest.importorskip("torch")
    path, copy = tmp_path / "net.py", tmp_path / "changed.py"
    path.write_text(text)
    before = fusiondoc.diagnose(str(path), fuser="nnc", runs=3)
    assert [
        edit.before.strip() for one in before.plan for edit in one.edits
    ] == lines
    assert [(one.operators, one.groups) for one in before.plan] == promised
    for edit in (edit for one in before.plan for edit in one.edits):
        text = text.replace(edit.before, edit.after)
    copy.write_text(text)
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3)
    assert sum(group.count for group in after.groups) == groups
    assert "aten::copy_" not in {row.op for row in after.unfused}
    one, other = runpy.run_path(str(path)), runpy.run_path(str(copy))
    torch.testing.assert_close(
        one["model"](*one["inputs"]), other["model"](*one["inputs"])
    )
