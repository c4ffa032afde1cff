"""What stands around an operator that could be fused keeps it out: nothing to fuse with, or out of reach."""

from __future__ import annotations

from fusiondoc.diagnosis.surroundings import Place, at, reason
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, FlowNode

_MOST_ARGUMENTS = 128
"""NVRTC_KERNEL_ARG_LIMIT of nvFuser, subgraphArgLimit of NNC."""


def many_arguments(place: Place) -> Reason | None:
    """FD234: the group next to it is full. nvFuser adds up all inputs and outputs of both, constants too
    (torch/csrc/jit/codegen/cuda/graph_fuser.cpp, tryFuse)."""
    for node in place.neighbours(place.node):
        if node.kind == GROUP and node.arguments + place.node.arguments > _MOST_ARGUMENTS:
            return reason(
                "FD234",
                f"with it the group next to it ({node.arguments} inputs and outputs) would have more than"
                f" {_MOST_ARGUMENTS}",
            )
    return None


def read_before(place: Place) -> Reason | None:
    """FD227: control flow reads its result before the operator it would fuse with, so that it cannot be moved
    there. The checks of shapes in torch.nn are such control flow."""
    node, nodes = place.node, place.flow.nodes
    partners = [i for i in node.after if nodes[i].block == node.block and place.joinable(nodes[i])]
    for control in sorted(node.decides):
        if partners and control < min(partners) and nodes[control].block == node.block:
            what, partner = nodes[control], nodes[min(partners)]
            name = "the group after it" if partner.kind == GROUP else partner.op
            return reason(
                "FD227",
                f"{what.op}{at(what)} decides on {what.condition} between it and {name}, and operators are"
                " not moved past that",
            )
    return None


def surroundings(place: Place) -> Reason | None:
    """FD225, FD227 and FD228: there is nothing to fuse with, or it is out of reach."""
    node = place.node
    near = place.neighbours(node)
    if any(place.joinable(n) and n.block == node.block for n in near):
        return None
    apart = [n for n in near if place.joinable(n) and n.block != node.block]
    if apart or (node.block and any(n.kind == CONTROL for n in near)):
        block = (node.block or apart[0].block or (node.block,))[-1]
        control = place.flow.nodes[block] if isinstance(block, int) else None
        where = f"{control.op}{at(control)}" if control is not None else "control flow"
        return reason("FD228", f"what it could fuse with is on the other side of the block of {where}")
    barrier = _barrier(place)
    if barrier is not None:
        return reason("FD227", f"{barrier.op}{at(barrier)} is between it and what it could fuse with")
    return reason(
        "FD225", "nothing next to it can be fused with it, and one operator alone is not worth a kernel"
    )


def _barrier(place: Place) -> FlowNode | None:
    """The neighbour behind which, at most three operators away, something to fuse with stands."""
    for first in place.neighbours(place.node):
        seen = {id(place.node), id(first)}
        ring = [first]
        for _ in range(3):
            ring = [n for r in ring for n in place.neighbours(r) if id(n) not in seen]
            seen.update(map(id, ring))
            if any(place.joinable(n) for n in ring):
                return first
    return None
