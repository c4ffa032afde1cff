"""The lines of the user's that lead to operators in torch's own files, and the
modules that they are of."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from running import log_of, records_of, run_target, write

from fusiondoc.workflows.load import report_of

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
    # Two lines lead to the one place in functional.py: which of them it was cannot
    # be told.
    assert "aten::softmax" not in by_op
    text = path.read_text().split("\n")
    both = [
        f"{path}:{number}"
        for number, line in enumerate(text, 1)
        if "# SOFTMAX" in line
    ]
    softmax = [
        lines
        for key, lines in record["callers"].items()
        if key.startswith("aten::softmax|")
    ]
    assert softmax
    assert all(lines == both for lines in softmax)
    # Two equal blocks: each node has the module that it is of, in the record and in
    # the report.
    layers = {
        key.partition("|")[0]: paths for key, paths in record["layers"].items()
    }
    assert layers["aten::linear"] == ["blocks.0.inner", "blocks.1.inner"]
    assert layers["aten::dropout"] == ["blocks.0", "blocks.1"]
    assert layers["aten::layer_norm"] == ["blocks.0.norm", "blocks.1.norm"]
    rows = {row.op: row for row in report_of(capture).unfused}
    assert rows["aten::linear"].layers == ("blocks.0.inner", "blocks.1.inner")
    assert rows["aten::linear"].count == 2
    assert rows["aten::softmax"].user_source is None
    assert rows["aten::softmax"].called_from == tuple(both)
    assert rows["aten::linear"].called_from == ()
    # The keys are what the log prints.
    log = log_of(capture)
    source = next(
        key.partition("|")[2]
        for key in found
        if key.startswith("aten::layer_norm|")
    )
    assert f"# {source}\n" in log


def test_the_paths_are_those_of_torch_with_the_names_of_module_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from fusiondoc.probe.models import source_map

    write(tmp_path, "two_blocks.py", SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    scripted = torch.jit.script(importlib.import_module("two_blocks").model)
    theirs: dict[str, list[str]] = {}
    for node in _nodes(scripted.inlined_graph):
        if node.kind().startswith("aten::") and "Tensor" in str(
            node.output().type()
        ):
            parts = re.findall(r"(\w+)\([^()]*\)", node.getModuleHierarchy())
            theirs.setdefault(node.kind(), []).append(
                ".".join(n for n in parts if n != "UNKNOWN_INSTANCE")
            )
    found = source_map(torch, scripted)["layers"]
    ours: dict[str, list[str]] = {}
    for key, paths in found.items():
        if key.startswith("aten::"):
            ours.setdefault(key.partition("|")[0], []).extend(paths)
    assert theirs["aten::layer_norm"] == ["0.norm", "1.norm"]
    # Branches of constants (dropout_ for inplace) are gone once calls are inlined.
    for op, known in theirs.items():
        assert list(dict.fromkeys(ours[op])) == [
            f"blocks.{path}" for path in dict.fromkeys(known)
        ]
    # A frozen model has no calls to follow: what torch knows is better than
    # nothing.
    frozen = source_map(torch, torch.jit.freeze(scripted.eval()))["layers"]
    assert {path for paths in frozen.values() for path in paths} >= {
        "0",
        "0.inner",
        "1.norm",
    }


def _nodes(block: object) -> list:
    return [
        one
        for node in block.nodes()
        for one in (
            node,
            *(inner for sub in node.blocks() for inner in _nodes(sub)),
        )
    ]
