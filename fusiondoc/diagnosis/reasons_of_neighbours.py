"""What stands around an operator that could be fused keeps it out: nothing to fuse with, or out of reach."""

from __future__ import annotations

from fusiondoc.diagnosis.nvfuser_rules import refused_because
from fusiondoc.diagnosis.operators import WITH_FORMULA, is_in_place, plain_name
from fusiondoc.diagnosis.surroundings import (
    NO_KERNEL,
    Barrier,
    Place,
    Side,
    at,
    aten,
    by_version,
    from_container,
    reason,
)
from fusiondoc.model.report import Reason
from fusiondoc.model.source import from_package
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, REGION, SIDE_EFFECTS, FlowNode

_MOST_ARGUMENTS = 128
"""NVRTC_KERNEL_ARG_LIMIT of nvFuser, subgraphArgLimit of NNC."""

_SIDES: tuple[Side, Side] = ("before", "after")


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
            return reason(
                "FD227",
                f"{what.op}{at(what)} decides on {what.condition} between it and {_name(partner)}, and"
                " operators are not moved past that",
            )
    return None


def surroundings(place: Place) -> Reason | None:
    """FD225, FD227 and FD228: there is nothing to fuse with, or it is out of reach."""
    node = place.node
    reached = {side: place.reach(side) for side in _SIDES}
    partners = [found for side in _SIDES for found in reached[side].partners]
    here = [(partner, views) for partner, views in partners if partner.block == node.block]
    if any(not views for _, views in here):
        near = [partner for partner, views in here if not views]
        return _circle(place, near) or _depends_on_version(place, near)
    if here:
        partner, views = here[0]
        later = [text for text in (by_version(place, view.op) for view in views) if text]
        hint = f" ({later[0]})" if later else ""
        return reason("FD227", f"{_views(views)} stands between it and {_name(partner)}{hint}")
    apart = [partner for partner, _ in partners]
    barriers = [
        Barrier(found, side, place.behind(found, side)) for side in _SIDES for found in reached[side].barriers
    ]
    if apart or (node.block and any(barrier.node.kind == CONTROL for barrier in barriers)):
        block = (node.block or (apart[0].block if apart else ()) or (None,))[-1]
        control = place.flow.nodes[block] if isinstance(block, int) else None
        where = f"{control.op}{at(control)}" if control is not None else "control flow"
        what = _name(apart[0]) if apart else "what it could fuse with"
        return reason("FD228", f"{what} is on the other side of the block of {where}")
    blocking = sorted((b for b in barriers if b.behind is not None), key=lambda b: _fixed(b.node, place))
    if blocking:
        first = blocking[0]
        assert first.behind is not None
        stands = "stands" if first.behind in place.neighbours(first.node) else "and others behind it stand"
        return reason(
            "FD227",
            f"{first.node.op}{at(first.node)}, {_why(first.node, place)}, {stands} between it and"
            f" {_name(first.behind)}",
        )
    why = _ended_in_place(place) or _alone(barriers, place)
    return reason("FD225", f"{why}, and one operator alone is not worth a kernel")


def _ended_in_place(place: Place) -> str | None:
    """That an operator in place takes the result behind the differentiable graph, as a clause; None else.
    Written out of place it would stand in that graph too (no formula is for an operator in place:
    isDifferentiable of torch/csrc/jit/runtime/autodiff.cpp, 1.12 to 2.13)."""
    end = place.region_end
    if end is None or not is_in_place(end.op):
        return None
    plain = f"aten::{plain_name(end.op)}"
    if plain not in WITH_FORMULA or not place.takes(plain):
        return None
    return f"{end.op}{at(end)} after it changes its input in place, so its differentiable graph ends there"


def _circle(place: Place, partners: list[FlowNode]) -> Reason | None:
    """FD227: a second way leads from one to the other through something that is not fused. Fused, both would
    wait for it, and it for them (AliasDb::moveBeforeTopologicallyValid, which every fusion pass asks)."""
    node, nodes = place.node, place.flow.nodes
    for partner in partners:
        first, last = (node, partner) if partner.place in node.after else (partner, node)
        if last.place in first.numbers:
            text = f"a number that {_it(last, node)} takes is computed of the result of {_it(first, node)}"
            return reason("FD227", f"{text} or of its size: fused, the two would wait for each other")
        for between in sorted({*first.after, *first.numbers} - {last.place}):
            if not place.joinable(nodes[between]) and _leads(place, between, last.place):
                way = nodes[between]
                return reason(
                    "FD227",
                    f"{way.op}{at(way)} takes the result of {_it(first, node)}"
                    + (" or a number of its size" if between not in first.after else "")
                    + f" and leads to {_it(last, node)}: fused, the two would wait for each other",
                )
    for partner in partners:
        low, high = sorted((node.place, partner.place))
        for before, kind, source in place.flow.stops:
            if low < before <= high:
                where = f" ({from_package(source)})" if source else ""
                text = f"{SIDE_EFFECTS[kind]}{where} stands between it and {_name(partner)}"
                return reason("FD227", f"{text}, and operators are not moved past that")
        for writer in nodes[low + 1 : high]:
            if writer.op == "aten::wait" and writer.block == node.block:
                return reason(
                    "FD227",
                    f"aten::wait{at(writer)} waits for another task between it and {_name(partner)}, and"
                    " operators are not moved past that",
                )
            inside = writer.block[: len(node.block)] == node.block
            if is_in_place(writer.op) and inside:
                return reason(
                    "FD227",
                    f"{writer.op}{at(writer)} changes a tensor in place between it and {_name(partner)}, and"
                    " operators are not moved past that",
                )
    return None


def _depends_on_version(place: Place, near: list[FlowNode]) -> Reason | None:
    """FD233 and FD225: it, or all that it could be fused with, has a rule only in later versions than may be
    at work."""
    own = by_version(place, place.node.op)
    if own is not None:
        return reason("FD233", own)
    later = [by_version(place, node.op) for node in near]
    if near and later[0] is not None and all(later):
        return reason("FD225", f"next to it is {near[0].op}, and {later[0]}")
    return None


def _it(node: FlowNode, me: FlowNode) -> str:
    return "this operator" if node is me else _name(node)


def _leads(place: Place, start: int, end: int) -> bool:
    """Whether tensors flow from one node to another, on whatever way."""
    nodes = place.flow.nodes
    todo, seen = [start], {start}
    while todo:
        for after in nodes[todo.pop()].after:
            if after == end:
                return True
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return False


def _alone(barriers: list[Barrier], place: Place) -> str:
    """Every neighbour in words: they are all there is."""
    said = []
    for side in _SIDES:
        names = sorted({b.node.op for b in barriers if b.side == side})
        if names:
            said.append(f"{' and '.join(names[:3])} {side} it")
    if not said:
        return from_container(place.node) or "no operator of its graph feeds it or takes its result"
    return f"nothing next to it can be fused with it: {', '.join(said)}"


def _fixed(node: FlowNode, place: Place) -> int:
    """What can be changed comes first: an operator in place, arguments, a branch; last what stays."""
    if is_in_place(node.op):
        return 0
    if node.place in place.refused and (node.op in place.catalogue or node.op in place.catalogue_of_views):
        return 1
    if node.op in NO_KERNEL:
        return 2
    if node.kind == CONTROL:
        return 3
    return 5 if node.op in _HEAVY else 4


_HEAVY = aten(
    "conv1d conv2d conv3d _convolution convolution matmul linear mm bmm addmm baddbmm einsum lstm embedding"
    " scaled_dot_product_attention"
)
"""What libraries compute: no way of writing it gets it into a group of nvFuser."""


def _why(node: FlowNode, place: Place) -> str:
    """Why a barrier is none of the group, as a relative clause."""
    if is_in_place(node.op):
        return "which changes its input in place"
    if node.kind == CONTROL:
        return f"which depends on {node.condition}" if node.condition else "which is control flow"
    if node.kind == REGION:
        return "which has an executor of its own"
    if node.place in place.refused and (node.op in place.catalogue or node.op in place.catalogue_of_views):
        cause = refused_because(node, node.op, place.torch) if place.fuser == "nvfuser" else None
        return f"which {place.fuser_name} does not take here" + (f" ({cause})" if cause else "")
    if node.op in NO_KERNEL:
        return f"a view that {place.fuser_name} takes into no group"
    if node.op in place.catalogue:
        return f"which {place.fuser_name} takes only in some cases"
    return "which no fuser takes" if place.fuser is None else f"which {place.fuser_name} has no rule for"


def _views(views: tuple[FlowNode, ...]) -> str:
    return " and ".join(f"{view.op}{at(view)}" for view in views[:2])


def _name(node: FlowNode) -> str:
    return "a fusion group" if node.kind == GROUP else node.op
