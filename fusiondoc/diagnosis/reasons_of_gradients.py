"""With gradients, only what stands in a differentiable graph is fused: why an operator is in none.

Sources: torch/csrc/jit/passes/create_autodiff_subgraphs.cpp (regions grow over data edges in one block and
need two operators, autodiffSubgraphNodeThreshold), torch/csrc/jit/runtime/autodiff.cpp (isDifferentiable),
torch/csrc/jit/passes/inline_autodiff_subgraphs.cpp (a region of fewer than five nodes is dissolved) and
torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp (guardDifferentiableGraph dissolves a region with an
input that was not profiled; ``regions_dissolved.py``)."""

from __future__ import annotations

import re

from fusiondoc.diagnosis.nvfuser_rules import kinds_of
from fusiondoc.diagnosis.operators import WITH_FORMULA
from fusiondoc.diagnosis.regions_dissolved import region_around, why_dissolved
from fusiondoc.diagnosis.surroundings import (
    MAKERS,
    Place,
    Side,
    at,
    aten,
    from_container,
    is_in_place,
    reason,
)
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import CONTROL, OPERATOR, REGION, FlowNode

_KEPT_OUT = aten("view view_as reshape reshape_as transpose expand expand_as")
"""create_autodiff_subgraphs.cpp, isViewOp: views whose gradients as outputs of a region would be wrong."""

_OVERLOADS = {
    **dict.fromkeys(aten("eq ne gt ge lt le remainder fmod"), ("T[ifSb]", "of two tensors")),
    "aten::where": ("TTT", "with a number"),
    "aten::rsub": ("T[ifSb].?", "of two tensors"),
    "aten::to": ("never", "with these arguments"),
}
"""Operators that have a formula for one overload: the kinds of its arguments, and the other in words. Tried
on 2.13 with torch._C._jit_pass_create_autodiff_subgraphs."""

RECORDED = "gradients are recorded"
NO_FORMULA = "has no gradient formula"

_FEWEST_NODES = 5
"""autodiffSubgraphInlineThreshold (torch/csrc/jit/runtime/graph_executor_impl.h)."""


def no_formula(node: FlowNode) -> str | None:
    """Why torch's autodiff keeps an operator out of differentiable graphs, as a clause, or None."""
    if node.kind == CONTROL:
        return "is control flow"
    if node.kind != OPERATOR or node.op == "prim::GetAttr":
        return None
    if is_in_place(node.op):
        return "changes its input in place"
    if node.op in _KEPT_OUT:
        return "is a view, which torch keeps out of them"
    if node.op not in WITH_FORMULA:
        return NO_FORMULA
    overload = _OVERLOADS.get(node.op)
    if overload is not None and not re.fullmatch(overload[0], kinds_of(node)):
        return f"has no gradient formula {overload[1]}"
    return None


def cuts_region(place: Place) -> Reason | None:
    """FD231: between two differentiable graphs, and the reason why they are two. Before the rule for views: a
    view that torch keeps out costs nothing itself, and yet keeps what is around it apart."""
    flow, node = place.flow, place.node
    if node.kind != OPERATOR or place.loose.op == "prim::GetAttr":
        return None
    why = no_formula(node)
    sides = (node.before, node.after)
    if why and flow.regions and all(any(flow.nodes[i].kind == REGION for i in side) for side in sides):
        return reason(
            "FD231",
            f"gradients are recorded, and it {why}: one differentiable graph ends before it and another"
            " begins after it",
        )
    return None


def gradient(place: Place) -> Reason | None:
    """FD231: with gradients only what is in a differentiable graph is fused
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, runProfilingOptimizations)."""
    flow, node = place.flow, place.node
    if not (flow.regions or place.unseen or node.requires_grad):
        return None
    known = flow.regions or place.gradients or node.requires_grad
    when = (
        f"{RECORDED}, and"
        if known
        else "no fusion pass looked at its graph; if gradients are recorded, this is because"
    )
    return reason("FD231", f"{when} {_in_no_region(place)}")


def _in_no_region(place: Place) -> str:
    """Why no differentiable graph holds it."""
    why = no_formula(place.node)
    if why:
        return f"it {why}"
    region = region_around(place, lambda node: no_formula(node) is None)
    if len(region.nodes) == 1:
        ends = region.apart or _neighbours(place) or from_container(place.node)
        alone = "it would be alone in its differentiable graph, and torch makes one of two operators or more"
        return f"{alone}: {ends}" if ends else alone
    if region.size < _FEWEST_NODES:
        return (
            f"the differentiable graph around it would have {region.size} nodes, constants included: torch"
            f" dissolves one of fewer than {_FEWEST_NODES}"
        )
    return (
        f"torch dissolved the differentiable graph of {len(region.nodes)} operators around it:"
        f" {why_dissolved(place, region)}"
    )


def _neighbours(place: Place) -> str:
    """What ends the region before and after it: what can be changed first, each once."""
    sides: tuple[Side, Side] = ("before", "after")
    said: dict[str, int] = {}
    for side in sides:
        for near in sorted(place.node.before if side == "before" else place.node.after):
            node = place.flow.nodes[near]
            why = no_formula(node)
            if why is None or node.op in MAKERS:
                continue
            clause = f"{node.op}{at(node)} {side} it {why}"
            said[clause] = 0 if is_in_place(node.op) else 2 if node.op in _CANNOT_CHANGE else 1
    first = sorted(said, key=lambda clause: said[clause])[:2]
    return "; ".join(first)


_CANNOT_CHANGE = aten("conv1d conv2d conv3d _convolution einsum")
