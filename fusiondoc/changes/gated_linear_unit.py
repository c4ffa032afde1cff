"""``F.glu(x, dim=1)`` -> ``fusible_glu_1(x)``, a function of chunk, sigmoid and
product: no fuser has a rule for aten::glu. Over the last dimension the recipe does
it (``recipes.py``); another dimension is part of the function, as a chunk is fused
with constants alone (prim::ConstantChunk).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.inserted_lines import defined, spelled
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile
from fusiondoc.model.change_plan import ChangeKind

_LAST = -1
"""The default dimension (torch/nn/functional.py, 1.12 to 2.13)."""


def write(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """Yield the rewrite of a call with another dimension than the last."""
    file = line.file
    if (
        not isinstance(node, ast.Call)
        or file.meaning(node.func) != "torch.nn.functional.glu"
    ):
        return
    dimension = _dimension(node)
    if dimension is None or dimension == _LAST:
        return
    if not isinstance(node.args[0], ast.Starred):
        yield _rewritten(file, node, dimension)


def _dimension(node: ast.Call) -> int | None:
    """The constant dimension of a call; None if it is not constant, or if the
    tensor is passed by name."""
    if not node.args or any(keyword.arg != "dim" for keyword in node.keywords):
        return None
    given = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
    if not given:
        return _LAST
    try:
        value = ast.literal_eval(given[0])
    except ValueError:
        return None
    if len(given) == 1 and type(value) is int:
        return value
    return None


def _rewritten(file: ParsedFile, node: ast.Call, dimension: int) -> Rewritten:
    torch, imports = spelled(file, "torch")
    own = f"glu_{dimension}".replace("-", "minus_")
    name = file.free_name(f"fusible_{own}", f"{own}_in_parts")
    lines = [
        f"def {name}(x):",
        f"    a, b = x.chunk(2, {dimension})",
        f"    return a * {torch}.sigmoid(b)",
    ]
    call = f"{name}({file.written(node.args[0])})"
    edits = (*imports, *defined(file, lines, rank=-6), file.replaced(node, call))
    return Rewritten.expression(
        file.text(node),
        f"{call}, which returns a * sigmoid(b) of two halves",
        edits,
    )


_GLU = Shown("aten::glu")
_WRITTEN = """\
def fusible_glu_1(x):
    a, b = x.chunk(2, 1)
    return a * torch.sigmoid(b)


"""

REWRITE = Rewrite(
    ChangeKind.RECIPE,
    partial(in_all_calls, write),
    fits=lambda line: line.shown.op == "aten::glu",
    examples=(
        Example(
            "import torch.nn.functional as F\n\n\ndef f(x):\n    return F.glu(x + 1, dim=1)\n",
            "import torch.nn.functional as F\n\n\n"
            + _WRITTEN
            + "def f(x):\n    return fusible_glu_1(x + 1)\n",
            _GLU,
            line=5,
            whole=True,
        ),
        Example(
            "import torch.nn.functional as F\n\n\ndef f(x):\n    return F.glu(F.glu(x, 1) + 1, dim=1)\n",
            "import torch.nn.functional as F\n\n\n"
            + _WRITTEN
            + "def f(x):\n    return fusible_glu_1(fusible_glu_1(x) + 1)\n",
            _GLU,
            line=5,
            whole=True,
        ),
        Example("h = F.glu(x)", None, _GLU),
        Example("h = F.glu(x, -1)", None, _GLU),
        Example("h = F.glu(x, z)", None, _GLU),
        Example("h = F.glu(input=x, dim=1)", None, _GLU),
    ),
)
