"""The catalogue of gradient formulas against the pass that makes differentiable
graphs, and against logs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from running import python, python_apart, write

import fusiondoc
from fusiondoc.model.reasons import OutOfRegion
from fusiondoc.operators import WITH_FORMULA

_SECTION = re.compile(
    r"with prim::DifferentiableGraph_\d+ = graph\(.*?\n(.*?)  return \(", re.DOTALL
)
_TENSOR_OP = re.compile(
    r"^ +%\S+ : (?:Tensor|Float|Half|Bool)[^=]* = (aten::\w+)[\[(]", re.MULTILINE
)


def test_every_operator_of_a_recorded_differentiable_graph_has_a_formula(
    recordings: Path,
) -> None:
    seen: set[str] = set()
    for log in sorted(recordings.glob("torch-*/**/*.log")):
        text = re.sub(
            r"(?m)^\[\w+ [\w.]+:\d+\] ", "", log.read_text(errors="replace")
        )
        for body in _SECTION.findall(text):
            seen.update(_TENSOR_OP.findall(body))
    assert seen <= WITH_FORMULA and len(seen) > 15


@pytest.mark.torch
def test_the_pass_takes_what_the_catalogue_says() -> None:
    torch = pytest.importorskip("torch")
    script = Path(__file__).parent / "live" / "gradient_ops.py"
    done = python(script)
    assert done.returncode == 0, done.stdout[-2000:]
    taken, tried = map(set, json.loads(done.stdout.splitlines()[-1]))
    assert taken <= WITH_FORMULA, taken - WITH_FORMULA
    assert (
        len(taken) > 90
        and {"aten::sum", "aten::view", "aten::atan2", "aten::cumsum"}
        <= tried - taken
    )
    if torch.__version__.startswith("2.13"):
        # Left over: operators of several results, and dropout, whose flag the small
        # graph sets to False.
        assert WITH_FORMULA - taken == {
            "aten::_batch_norm_impl_index",
            "aten::dropout",
            "aten::native_dropout",
            "aten::native_layer_norm",
            "aten::unbind",
            "prim::ConstantChunk",
        }


DROPOUT = """
import torch
import torch.nn.functional as F


def model(x):
    y = torch.sigmoid(x) * torch.tanh(x)
    y = F.dropout(y, 0.1, training=False)
    return torch.exp(y) * 2 + y


inputs = (torch.randn(4, 6, requires_grad=True),)
"""


@pytest.mark.torch
def test_a_dropout_that_does_nothing_ends_a_differentiable_graph(
    tmp_path: Path,
) -> None:
    """torch makes two graphs, and the dropout is between them: isDifferentiable
    asks for ``train``."""
    write(tmp_path, "dropped.py", DROPOUT)
    report = fusiondoc.diagnose(
        str(tmp_path / "dropped.py"), fuser="nnc", backward=True
    )
    (row,) = [row for row in report.unfused if row.op == "aten::dropout"]
    assert (
        isinstance(row.reason.detail, OutOfRegion)
        and row.reason.detail.gap.why == "no_formula"
    )
    assert [
        len(group.nodes) for group in report.groups if group.phase == "forward"
    ] == [3, 3]
    oracle = (
        "import runpy, torch; f = torch.jit.script(runpy.run_path('dropped.py')['model']);"
        "g = f.graph.copy();"
        "torch._C._jit_pass_inline(g); torch._C._jit_pass_constant_propagation(g);"
        "torch._C._jit_pass_create_autodiff_subgraphs(g, 2);"
        "print(len(g.findAllNodes('prim::DifferentiableGraph')), len(g.findAllNodes('aten::dropout')))"
    )
    assert python_apart(code=oracle, cwd=tmp_path).stdout.split() == ["2", "1"]
