"""``self.act(x)`` of an nn.PReLU -> ``torch.where(x > 0, x, self.act.weight * x)``:
few fusers have a rule for aten::prelu, and torch has a gradient formula for the
comparison, the product and the choice.

With a weight for each channel, dimension 1 of its tensor, the weight gets the
dimensions behind that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from fusiondoc.changes.all_calls import in_all_calls
from fusiondoc.changes.by_recipe import can_lead, rewritten_call
from fusiondoc.changes.out_of_place import module_class
from fusiondoc.changes.pattern import operand
from fusiondoc.changes.recipes import Recipe
from fusiondoc.changes.rewrite import Example, Line, Rewrite, Rewritten, Shown
from fusiondoc.changes.source_file import ParsedFile, dotted
from fusiondoc.model.change_plan import ChangeKind


def write(line: Line, node: ast.AST) -> Iterator[Rewritten]:
    """Yield the rewrite of a call of the module, if its tensor has a name or can
    get one in a line before."""
    file, attribute = line.file, line.shown.layer
    if (
        not isinstance(node, ast.Call)
        or dotted(node.func) != f"self.{attribute}"
        or node.keywords
    ):
        return
    weights = _weights(file, attribute) if attribute is not None else None
    weight = _weight(f"self.{attribute}.weight", weights == "one", line.shown.rank)
    if weights is None or weight is None:
        return
    recipe = Recipe(
        "prelu",
        "F.prelu(x)",
        f"torch.where(x > 0, x, {weight} * x)",
        "",
        "gt mul where",
    )
    if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
        tensor = operand(file, node.args[0])
        if tensor.is_plain or can_lead(file, node):
            yield rewritten_call(file, node, recipe, {"x": tensor}, frozenset("x"))


def _weights(file: ParsedFile, attribute: str) -> str | None:
    """ "one" or "channels", by the weights of the nn.PReLU that a line of the file
    assigns to an attribute; None if there is none, or several."""
    found = set()
    for node in file.nodes:
        value = node.value if isinstance(node, ast.Assign) else None
        if (
            not isinstance(node, ast.Assign)
            or dotted(node.targets[0]) != f"self.{attribute}"
        ):
            continue
        if (
            not isinstance(value, ast.Call)
            or module_class(file, value.func) != "PReLU"
        ):
            return None
        found.add("channels" if value.args or value.keywords else "one")
    if len(found) == 1:
        return found.pop()
    return None


def _weight(name: str, is_one: bool, rank: int | None) -> str | None:
    """The weight, shaped to broadcast with a tensor of that rank; None if the rank
    is not known."""
    if is_one or rank == 2:
        return name
    if rank is not None and rank > 2:
        return f"{name}.view({', '.join(['-1', *['1'] * (rank - 2)])})"
    return None


_MODULE = """\
class Net(torch.nn.Module):
    def __init__(self):
        self.act = torch.nn.PReLU({0})

    def forward(self, x):
        return {1}
"""
_CALLED = "self.act(x)"


def _of_rank(rank: int | None) -> Shown:
    return Shown("aten::prelu", rank=rank, layer="act")


REWRITE = Rewrite(
    ChangeKind.RECIPE,
    partial(in_all_calls, write),
    fits=lambda line: line.shown.op in ("aten::prelu", "aten::_prelu_kernel"),
    examples=(
        Example(
            _MODULE.format("", _CALLED),
            _MODULE.format("", "torch.where(x > 0, x, self.act.weight * x)"),
            _of_rank(None),
            line=6,
            whole=True,
        ),
        Example(
            _MODULE.format("8", _CALLED),
            _MODULE.format(
                "8", "torch.where(x > 0, x, self.act.weight.view(-1, 1, 1) * x)"
            ),
            _of_rank(4),
            line=6,
            whole=True,
        ),
        Example(
            _MODULE.format("8", _CALLED), None, _of_rank(None), line=6, whole=True
        ),
        Example(
            _MODULE.format("", "self.act(x + 1)"),
            _MODULE.format(
                "", "torch.where(h > 0, h, self.act.weight * h)"
            ).replace("        return", "        h = x + 1\n        return"),
            _of_rank(4),
            line=6,
            whole=True,
        ),
        Example(
            _MODULE.format("", "self.act(self.act(x) + 1)"),
            _MODULE.format(
                "", "torch.where(h > 0, h, self.act.weight * h)"
            ).replace(
                "        return",
                "        h = torch.where(x > 0, x, self.act.weight * x) + 1\n        return",
            ),
            _of_rank(4),
            line=6,
            whole=True,
        ),
        # A line before it would always compute the call, and a separate function
        # has no ``self``.
        Example(
            _MODULE.format("", "self.act(x + 1) if self.training else x"),
            None,
            _of_rank(4),
            6,
            whole=True,
        ),
        Example(
            _MODULE.format("", _CALLED).replace("PReLU", "ReLU"),
            None,
            _of_rank(4),
            6,
            whole=True,
        ),
    ),
)
