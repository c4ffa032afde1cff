"""Reductions over a dimension from the end of which a plan of nvFuser computes only the size of the result.

nvFuser takes an output of a group away where only its size is read, and computes the size with
``prim::ReductionSizes`` (removeOutputsUsedOnlyInSize and buildShapeExpressions of
torch/csrc/jit/codegen/cuda/graph_fuser.cpp, 1.12 to 2.1; of sum, mean, var and std). With ``keepdim`` that
node sets an element of the list of sizes by the dimension as it is written
(torch/csrc/jit/runtime/register_prim_ops.cpp), so a negative one ends the run: ``vector::_M_range_check``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    from fusiondoc.parsers.ir.graph import Graph

SIZES = "prim::ReductionSizes"
_REDUCTIONS = frozenset(f"aten::{name}" for name in ("sum", "mean", "var", "std"))
_NEGATIVE = re.compile(r"-\d{1,9}")


@dataclass(frozen=True)
class FromTheEnd:
    """A reduction, and one of its dimensions that is negative."""

    op: str
    source: str | None
    dim: int


def negative(dims: str | None) -> tuple[int, ...]:
    """The negative numbers of a constant list as printed (``[-1, 0]``)."""
    return tuple(int(number) for number in _NEGATIVE.findall(dims or ""))


def only_sized(body: Graph) -> Iterator[FromTheEnd]:
    """The reductions over a negative dimension whose results the group does not return."""
    constants = {
        node.outputs[0].name: node.attributes.get("value")
        for node in body.nodes
        if node.kind == "prim::Constant" and node.outputs
    }
    for node in body.nodes:
        if node.kind in _REDUCTIONS and len(node.inputs) > 1 and node.outputs[0].name not in body.outputs:
            for dim in negative(constants.get(node.inputs[1])):
                yield FromTheEnd(node.kind, node.source, dim)
