"""Why an operator is in no group, worked out from the plan where the log does not state it; and what one
operator keeps out of groups.

Each rule looks at one operator and what stands around it and gives a reason or nothing; the first that gives
one wins. What rules an operator out for itself (its kind, types, device: reasons_of_node.py) comes before
what its place in the graph does (surroundings.py). A rule that would take whatever is left does not exist:
such operators stay FD299.

With gradients, only what stands in a differentiable graph is fused: which graph would hold an operator, and
why torch has taken it apart again, is here. Sources, 1.12 to 2.13:
torch/csrc/jit/passes/create_autodiff_subgraphs.cpp (regions grow over data edges in one block and need two
operators, autodiffSubgraphNodeThreshold; a region takes in what makes a tensor for it, if that can be moved
to it: ``AliasDb::moveBeforeTopologicallyValid`` of torch/csrc/jit/ir/alias_analysis.cpp; what makes an output
that shares memory with another one is put out again, ``unfuseAliasedOutputs``),
torch/csrc/jit/runtime/autodiff.cpp (isDifferentiable), torch/csrc/jit/passes/inline_autodiff_subgraphs.cpp (a
region of fewer than five nodes is dissolved) and torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp
(``guardDifferentiableGraph``: the types that were profiled are set at the values that enter a region, and the
region is dissolved if one of them has none). So a value that enters a dissolved region and is a bare
``Tensor`` in the plan is the cause of it. Tried on 2.13 with torch._C._jit_pass_create_autodiff_subgraphs.
"""

from __future__ import annotations

import re
from typing import AbstractSet, Callable, Iterator, Mapping, NamedTuple

from fusiondoc.diagnosis.nvfuser_rules import kinds_of, refused_by_form
from fusiondoc.diagnosis.operators import BY_FUSER, WITH_FORMULA, is_fusible, is_in_place
from fusiondoc.diagnosis.reasons_of_node import (
    bookkeeping,
    control_flow,
    device,
    dimensions,
    dtype,
    in_place,
    no_rule,
    nothing_to_gain,
    refine_nnc,
    refine_nvfuser,
    untyped,
)
from fusiondoc.diagnosis.surroundings import (
    MAKERS,
    NOTHING_TO_GAIN,
    Place,
    Rule,
    Side,
    at,
    aten,
    from_container,
    many_arguments,
    read_before,
    reason,
    surroundings,
)
from fusiondoc.model import FUSERS
from fusiondoc.model.codes import CODES, Cause
from fusiondoc.model.report import Reason
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, OPERATOR, REGION, Flow, FlowNode, Operand
from fusiondoc.parsers.rows.unfused_rows import Outside

_OF_MODULE = ("", "prim::GetAttr")
"""Who makes tensors of which torch cannot tell whether they share memory: arguments, attributes."""

_SAME_MEMORY = aten("contiguous detach dropout permute squeeze t to unsqueeze")
"""Operators with a gradient formula whose result may share memory with their input."""


class _WouldBe(NamedTuple):
    """The differentiable graph around an operator as torch would make it."""

    nodes: list[FlowNode]
    apart: str | None
    """Why the operator and one next to it are not in one, as a clause."""

    @property
    def size(self) -> int:
        """Its nodes, constants included."""
        return len(self.nodes) + len({o for one in self.nodes for o in one.operands if o.value is not None})


def _region_around(place: Place, has_formula: Callable[[FlowNode], bool]) -> _WouldBe:
    """The operators with formulas that it hangs together with, itself first."""
    nodes = place.flow.nodes
    found = [place.node]
    seen = {place.node.place}
    apart: str | None = None
    for node in found:
        for near in place.neighbours(node):
            fits = near.kind == OPERATOR and near.block == node.block and near.op not in MAKERS
            if near.place in seen or not fits or not has_formula(near):
                continue
            first, last = (nodes[i] for i in sorted((node.place, near.place)))
            if _through_a_list(first, last):
                continue
            barrier = _between(place, first, last, has_formula)
            if barrier is None:
                seen.add(near.place)
                found.append(near)
            elif node is place.node:
                apart = apart or barrier
    return _WouldBe(found, apart)


def _through_a_list(first: FlowNode, last: FlowNode) -> bool:
    """Whether the tensor goes from one to the other in a list: lists are in no differentiable graph."""
    if any(text.startswith("Tensor") and "[]" in text for text in first.outputs):
        return True
    lists = [one for one in last.operands if one.type.startswith("Tensor") and "[]" in one.type]
    return bool(lists) and not any(one.by == first.place for one in last.operands if one not in lists)


def _between(
    place: Place, first: FlowNode, last: FlowNode, has_formula: Callable[[FlowNode], bool]
) -> str | None:
    """Why the first operator cannot be moved to the last, which takes its result, as a clause."""
    nodes = place.flow.nodes
    for step in sorted({*first.after, *first.sizes} - {last.place}):
        way = nodes[step]
        joins = way.kind == OPERATOR and way.block == first.block and has_formula(way)
        if step < last.place and not joins and _leads(place, step, last.place):
            said = "the size of its result" if step not in first.after else "its result"
            who = "it" if first is place.node else first.op
            said = said if who == "it" else said.replace("its result", f"the result of {first.op}")
            return (
                f"{way.op}{at(way)} takes {said} and leads to"
                f" {'it' if last is place.node else last.op}, so that the two cannot be brought together"
            )
    if not (_of_module(first) and _of_module(last)):
        return None
    other = last if first is place.node else first
    for writer in nodes[first.place + 1 : last.place]:
        inside = writer.block[: len(first.block)] == first.block
        if inside and is_in_place(writer.op) and writer.operands and writer.operands[0].maker in _OF_MODULE:
            return (
                f"{writer.op}{at(writer)} between it and {other.op} changes an attribute or argument in place"
                ", and torch moves nothing past that"
            )
    return None


def _of_module(node: FlowNode) -> bool:
    """Whether it reads a tensor that may share memory with every attribute and argument."""
    return any(
        (one.maker in _OF_MODULE and (one.type.startswith("Tensor") or "device=" in one.type))
        or (one.type.startswith("Tensor") and "[]" in one.type)
        for one in node.operands
    )


def _leads(place: Place, start: int, end: int) -> bool:
    """Whether tensors, or their sizes, go from one node to another."""
    nodes = place.flow.nodes
    todo, seen = [start], {start}
    while todo:
        node = nodes[todo.pop()]
        for after in (*node.after, *node.sizes):
            if after == end:
                return True
            if after < end and after not in seen:
                seen.add(after)
                todo.append(after)
    return False


def _entering(region: _WouldBe) -> Iterator[tuple[FlowNode, Operand]]:
    """The tensors that enter it, with the operators that read them."""
    inside = {node.place for node in region.nodes}
    for node in sorted(region.nodes, key=lambda one: one.place):
        for one in node.operands:
            is_tensor = one.type == "Tensor" or "device=" in one.type
            if one.value is None and is_tensor and one.by not in inside:
                yield node, one


def _why_dissolved(place: Place, region: _WouldBe) -> str:
    """Why the executor took a differentiable graph of enough nodes apart, as a clause."""
    entering = list(_entering(region))
    bare = [(node, one) for node, one in entering if one.type == "Tensor"]
    if bare and len(bare) == len(entering):
        return (
            "of none of the tensors that enter it a type was profiled, as of code that did not run in the"
            " profiled passes"
        )
    for node, one in bare:
        maker = place.flow.nodes[one.by] if one.by is not None else None
        read = f"that {node.op}{at(node)} reads"
        if maker is not None and maker.kind == REGION:
            return (
                f"it takes a result of the differentiable graph before it {read}, and the profiled type of"
                " that was lost at the border"
            )
        what = f"the result of {maker.op}{at(maker)}" if maker is not None else "a tensor"
        return f"no type was profiled for {what} {read}"
    same = next((one for one in region.nodes if one.op in _SAME_MEMORY), None)
    if same is not None:
        return f"{same.op}{at(same)} in it returns a tensor that shares memory with its input"
    return "the plan does not show for which of its inputs or outputs"


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


def _cuts_region(place: Place) -> Reason | None:
    """FD231: between two differentiable graphs, and the reason why they are two. Before the rule for views: a
    view that torch keeps out costs nothing itself, and yet keeps what is around it apart."""
    flow, node = place.flow, place.node
    if not flow.regions or node.kind != OPERATOR or place.loose.op == "prim::GetAttr":
        return None
    why = no_formula(node)
    sides = (node.before, node.after)
    if why and all(any(flow.nodes[i].kind == REGION for i in side) for side in sides):
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
    region = _region_around(place, lambda node: no_formula(node) is None)
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
        f" {_why_dissolved(place, region)}"
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


FOR_ITSELF = frozenset(code for code, known in CODES.items() if known.cause is Cause.OPERATOR)
"""Reasons that rule an operator out for itself: it can be a barrier for others."""

NEVER_LOOKED_AT = frozenset(code for code, known in CODES.items() if known.cause is Cause.SETTING)
"""Reasons that no change of a neighbour would take away."""

NNC_SELDOM = frozenset(
    f"aten::{name}" for name in ["sum", "softmax", "log_softmax", "matmul", "conv2d", "_convolution"]
)
"""Operators that NNC takes only with a knob, or only on the CPU."""


def kept_out(flow: Flow, fuser: str, reasons: Mapping[int, str]) -> dict[int, AbstractSet[int]]:
    """Which operators would be in a group if one operator more could be in it.

    Two operators next to each other, views left aside, make a group of two. So an operator that the fuser
    takes and that is in no group is kept out by each neighbour that is ruled out for itself; by control flow,
    if what it could fuse with is on the other side of a branch or loop.

    Args:
        reasons: codes of the operators outside groups, by their place in the flow.

    Returns:
        The place of a barrier -> the places of what it keeps out; only those that keep something out.
    """
    kept: dict[int, set[int]] = {}
    for place, code in reasons.items():
        node = flow.nodes[place]
        if not _blocked(node, code, fuser):
            continue
        near = _near(flow, node, reasons)
        # Regions of few operators are given up, also where two stand next to each other.
        joined = code != "FD231" and any(_joins(n, fuser, reasons) and n.block == node.block for n in near)
        for other in near:
            barrier = reasons.get(other.place)
            if barrier is not None and _is_barrier(other, barrier) and not joined:
                if other.block == node.block:
                    kept.setdefault(other.place, set()).add(place)
            elif other.block != node.block and not joined and _joins(other, fuser, reasons):
                between = [
                    i for i in (*node.block, *other.block) if i not in node.block or i not in other.block
                ]
                if between[0] in reasons:
                    kept.setdefault(between[0], set()).add(place)
    return dict(kept)


def _near(flow: Flow, node: FlowNode, reasons: Mapping[int, str]) -> list[FlowNode]:
    """Its neighbours; through views to what really stands there."""
    found: dict[int, FlowNode] = {}
    for forward in (False, True):
        todo, seen = [node], {node.place}
        while todo:
            one = todo.pop()
            for index in one.after if forward else one.before:
                if index in seen:
                    continue
                seen.add(index)
                other = flow.nodes[index]
                if other.op in NOTHING_TO_GAIN and reasons.get(index) != "FD231":
                    todo.append(other)
                else:
                    found[index] = other
    return [found[index] for index in sorted(found)]


def _is_barrier(node: FlowNode, code: str) -> bool:
    if code == "FD231":
        return node.op not in WITH_FORMULA
    return code in FOR_ITSELF


def _blocked(node: FlowNode, code: str, fuser: str) -> bool:
    """Whether it could be in a group, for all that is known of it."""
    if node.kind != OPERATOR or code in FOR_ITSELF or code in NEVER_LOOKED_AT:
        return False
    if node.op in NOTHING_TO_GAIN or (fuser == "nnc" and node.op in NNC_SELDOM):
        return False
    return node.op in BY_FUSER[fuser] and not (code == "FD231" and node.op not in WITH_FORMULA)


def _joins(node: FlowNode, fuser: str, reasons: Mapping[int, str]) -> bool:
    """Whether it is a group, or an operator that could be in one."""
    if node.kind in (GROUP, CONTROL):
        return node.kind == GROUP
    code = reasons.get(node.place)
    return code is not None and _blocked(node, code, fuser)


CATCH_ALL = ("FD201", "FD211", "FD212", "FD214")
"""What the fusers state of everything that they do not know: also of branches, loops, views and operators
that change a tensor in place, for which there is a better word."""

_OF_KIND: tuple[Rule, ...] = (control_flow, bookkeeping, _cuts_region, nothing_to_gain, in_place)
_OF_TYPES: tuple[Rule, ...] = (dtype, dimensions, device, no_rule)
"""Of the operator, its types and the fuser alone."""
_OF_PLACE: tuple[Rule, ...] = (gradient, untyped, many_arguments, read_before, surroundings)
"""In this order."""

_MOST_KNOWN = 4096
"""Operators with types whose reason is kept: the nodes of a plan are few different ones."""


def _first(rules: tuple[Rule, ...], place: Place) -> Reason | None:
    for rule in rules:
        found = rule(place)
        if found is not None:
            return found
    return None


class Reasons:
    """Works out reasons.

    Args:
        requested: the fuser that was asked for, where that is known.
        torch: the version that ran, where that is known; else the lines that the log's messages name may tell
            it. Where neither does, the rules are those of the newest that has the fuser.
    """

    def __init__(self, requested: str | None = None, torch: str | None = None) -> None:
        self._requested = requested
        self._torch = torch
        self._known: dict[tuple[object, ...], Reason | None] = {}

    def __call__(self, outside: Outside) -> Reason | None:
        fuser = outside.fuser
        if self._requested == "none" and is_fusible(outside.node.op):
            return reason("FD104", "every fuser is off (--fuser none)")
        if fuser is None and self._requested in FUSERS:
            fuser = self._requested
        place = Place(outside, fuser, self._torch or outside.release)
        found = _first(_OF_KIND, place) or self._of_types(place) or _first(_OF_PLACE, place)
        if found is not None:
            return found
        cause = refused_by_form(place.node, place.loose.op) if place.fuser == "nvfuser" else None
        return reason("FD201", cause) if cause is not None else None

    def _of_types(self, place: Place) -> Reason | None:
        """What rules it out for its kind and types, worked out once for equal ones."""
        key = place.loose.op, place.node.inputs, place.node.outputs, place.fuser, place.torch
        try:
            return self._known[key]
        except KeyError:
            pass
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._known[key] = _first(_OF_TYPES, place)
        return found

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """The true cause behind a stated reason that names several, or the wrong one."""
        place = Place(outside, outside.fuser or "nvfuser", self._torch or outside.release)
        if stated.code in CATCH_ALL:
            cause = _first(_OF_KIND, place)
            if cause is not None:
                return cause
        if stated.code == "FD216":
            around = surroundings(place)
            if around is not None and around.code == "FD227":
                return Reason(stated.code, around.text, True)
        return refine_nnc(place, stated) if place.fuser == "nnc" else refine_nvfuser(place, stated)

    def kept_out(
        self, flow: Flow, fuser: str | None, reasons: Mapping[int, str]
    ) -> Mapping[int, AbstractSet[int]]:
        """What each barrier keeps out of groups."""
        fuser = fuser or self._requested
        return kept_out(flow, fuser, reasons) if fuser in BY_FUSER else {}
