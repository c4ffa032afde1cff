"""With gradients, only what stands in a differentiable graph is fused: why an operator is in none."""

from __future__ import annotations

from fusiondoc.diagnosis.operators import WITH_FORMULA
from fusiondoc.diagnosis.surroundings import Place, reason
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import OPERATOR, REGION


def cuts_region(place: Place) -> Reason | None:
    """FD231: between two differentiable graphs, and the reason why they are two. Before the rule for views: a
    view without a formula costs nothing itself, and yet keeps what is around it apart."""
    flow, node = place.flow, place.node
    if node.kind != OPERATOR or place.loose.op in WITH_FORMULA or place.loose.op == "prim::GetAttr":
        return None
    sides = (node.before, node.after)
    if flow.regions and all(any(flow.nodes[i].kind == REGION for i in side) for side in sides):
        return reason(
            "FD231",
            "gradients are recorded, and torch has no gradient formula for it: one differentiable graph ends"
            " before it and another begins after",
        )
    return None


def gradient(place: Place) -> Reason | None:
    """FD231: with gradients only what is in a differentiable graph is fused
    (torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, runProfilingOptimizations)."""
    flow = place.flow
    if not (flow.regions or place.unseen or place.node.requires_grad):
        return None
    if place.loose.op not in WITH_FORMULA:
        return reason("FD231", "gradients are recorded, and torch has no gradient formula for it")
    text = "gradients are recorded, and it is in no differentiable graph: one around it would be too small"
    near = {n.op for n in place.neighbours(place.node) if n.kind == OPERATOR} - WITH_FORMULA
    if near:
        text += f" ({', '.join(sorted(near))} next to it has no gradient formula)"
    return reason("FD231", text)
