"""The lines of the user's that lead to operators in torch's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import log_of, records_of, run_target, write

pytestmark = pytest.mark.torch

SOURCE = """
    import torch
    import torch.nn.functional as F

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(8, 8)  # its call is below
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x):
            x = self.inner(x)  # LINEAR
            x = F.dropout(x, 0.5, self.training)  # DROPOUT
            if x.size(0) > 1:
                x = F.softmax(x, -1)  # SOFTMAX once
            else:
                x = F.softmax(x, 0)  # SOFTMAX twice
            return self.norm(x)  # NORM

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Model()
    inputs = (torch.ones(2, 8),)
"""


def test_operators_are_traced_to_the_line_that_calls_them(tmp_path: Path) -> None:
    path = write(tmp_path, "user.py", SOURCE)
    capture, error = run_target(tmp_path, "user.py", runs=3)
    assert error is None
    [record] = records_of(capture, "source_map")
    found = record["map"]
    lines = {}
    for number, text in enumerate(path.read_text().split("\n"), 1):
        if "  # " in text and text.rpartition("# ")[2].isupper():
            lines[text.rpartition("# ")[2]] = f"{path}:{number}"
    by_op: dict[str, set[str]] = {}
    for key, line in found.items():
        by_op.setdefault(key.partition("|")[0], set()).add(line)
    assert by_op["aten::linear"] == {lines["LINEAR"]}
    assert by_op["aten::dropout"] == {lines["DROPOUT"]}
    assert by_op["aten::layer_norm"] == {lines["NORM"]}
    # Two lines lead to the one place in functional.py: which of them it was cannot be told.
    assert "aten::softmax" not in by_op
    # The keys are what the log prints.
    log = log_of(capture)
    source = next(key.partition("|")[2] for key in found if key.startswith("aten::layer_norm|"))
    assert f"# {source}\n" in log
