"""Edits of several operators, or of several changes, that meet at a line are one
edit: a program with all edits of a plan runs, and gives the same."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

import fusiondoc
from fusiondoc.changes.line_edits import together
from fusiondoc.model.change_plan import Edit, PlannedChange

pytestmark = pytest.mark.torch
HARNESS = Path(__file__).parents[1] / "benchmarks" / "promises.py"

TWO_FUNCTIONS = """\
import torch
import torch.nn.functional as F


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = F.glu(x + y, dim=1) * 2.0
    b = F.glu(x - y, dim=2)
    return a.exp().sum(2).unsqueeze(2) + b.relu().sum(1).unsqueeze(1)


inputs = (torch.randn(4, 8, 6), torch.randn(4, 8, 6))
"""

UPDATE_OF_A_RECIPE = """\
import torch


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x * 2.0
    a += torch.square(x - y) * 0.5
    a += torch.square(x * y)
    return torch.tanh(a)


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""

FUNCTIONS_OF_TWO_OPERATORS = """\
import torch
import torch.nn.functional as F


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = x.exp() * 2.0
    a = a * (1.0 - torch.square(x - y) if x.dim() == 2 else a)
    return (F.glu(y.exp(), dim=1) + F.glu(a, dim=1)).tanh()


inputs = (torch.randn(4, 8), torch.randn(4, 8))
"""


def written(plan: tuple[PlannedChange, ...], text: str) -> str:
    """The text with the edits of a plan; no line is edited twice."""
    lines = text.split("\n")
    edits = [edit for change in plan for edit in change.edits]
    assert len({edit.line for edit in edits}) == len(edits)
    for edit in edits:
        assert lines[edit.line - 1] == edit.before
        lines[edit.line - 1] = edit.after
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (TWO_FUNCTIONS, {"aten::glu"}),
        (UPDATE_OF_A_RECIPE, {"aten::square", "aten::add_"}),
        (FUNCTIONS_OF_TWO_OPERATORS, {"aten::glu", "aten::square"}),
    ],
)
def test_all_edits_of_a_plan_together(
    text: str, gone: set[str], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    path, copy = tmp_path / "before.py", tmp_path / "after.py"
    path.write_text(text)
    plan = fusiondoc.diagnose(str(path), fuser="nnc", runs=3).plan
    copy.write_text(written(plan, text))
    one, other = (runpy.run_path(str(file)) for file in (path, copy))
    torch.testing.assert_close(
        one["model"](*one["inputs"]), other["model"](*one["inputs"])
    )
    after = fusiondoc.diagnose(str(copy), fuser="nnc", runs=3)
    assert gone.isdisjoint(row.op for row in after.unfused)
    assert gone <= {op for change in plan for op in change.ops}


def test_lines_put_behind_a_line_are_kept_once_each() -> None:
    one = Edit(
        "m.py", 1, "import torch", "import torch\n\n\ndef f(x):\n    return x"
    )
    other = Edit(
        "m.py", 1, "import torch", "import torch\n\n\ndef g(x):\n    return x"
    )
    line = Edit("m.py", 9, "a += f(x)", "a = a + f(x)")
    both = together([one, line, other, one, line])
    assert both == (
        Edit(
            "m.py",
            1,
            "import torch",
            "import torch\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x",
        ),
        line,
    )
    assert together([*both, one, other]) == both


def test_the_harness_puts_the_lines_of_several_changes_behind_one_line() -> None:
    spec = importlib.util.spec_from_file_location("promises", HARNESS)
    assert spec is not None and spec.loader is not None
    harness = importlib.util.module_from_spec(spec)
    sys.modules["promises"] = harness  # its dataclasses are looked up there
    spec.loader.exec_module(harness)
    edits = [
        {"line": 1, "before": "class M:", "after": f"class M:\n    {name}: int"}
        for name in "ab"
    ]
    changes = [{"edits": [edit]} for edit in (*edits, edits[0])]
    assert harness.changed_text("class M:\n    pass", changes) == (
        "class M:\n    a: int\n    b: int\n    pass"
    )
