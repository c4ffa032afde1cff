"""Why an operator is in no group, worked out from the plan where the log does not state it.

Each rule looks at one operator and what stands around it and gives a reason or nothing; the first that
gives one wins. What rules an operator out for itself (its kind, types, device) comes before what its place
in the graph does. A rule that would take whatever is left does not exist: such operators stay FD299."""

from __future__ import annotations

import re
from typing import Callable, Iterator

from fusiondoc.diagnosis.operators import BY_FUSER, VIEWS, WITH_FORMULA, is_fusible
from fusiondoc.model.fusers import FUSERS, fuser_title
from fusiondoc.model.report import Reason
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, OPERATOR, REGION, FlowNode
from fusiondoc.parsers.rows.unfused_rows import Outside

_MAKERS = "empty zeros ones full arange tensor scalar_tensor empty_like zeros_like ones_like full_like"
_MORE_VIEWS = (
    "alias as_strided chunk contiguous detach diagonal expand movedim narrow numpy_T select slice split"
    " split_with_sizes swapaxes T unbind unflatten unfold view_as"
)
NOTHING_TO_GAIN = VIEWS | {"prim::GetAttr", "prim::data"}
NOTHING_TO_GAIN |= {f"aten::{name}" for name in (_MAKERS + " " + _MORE_VIEWS).split()}

_IN_PLACE = re.compile(r"aten::\w*[^\W_]_$")

_DTYPES = {
    "nvfuser": {"Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long"},
    "nnc": {"Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long", "Short", "Char", "Byte"},
}
"""Scalar types that a group takes: torch/csrc/jit/codegen/cuda/type.cpp (isSupportedTypeByDevice) and
torch/csrc/jit/tensorexpr/types.h."""

_MOST_DIMENSIONS = 8
"""nvFuser's kernels take tensors of up to 8 dimensions (torch/csrc/jit/codegen/cuda/utils.h, MAX_DIMS)."""

_MOST_ARGUMENTS = 128
"""NVRTC_KERNEL_ARG_LIMIT of nvFuser, subgraphArgLimit of NNC."""


_NNC_SELDOM = {
    f"aten::{name}" for name in ["sum", "softmax", "log_softmax", "matmul", "conv2d", "_convolution"]
}
"""Operators that NNC takes only with a knob, or only on the CPU: nothing is lost next to one."""

CATCH_ALL = ("FD201", "FD211", "FD212", "FD214")
"""What the fusers state of everything that they do not know: also of branches, loops, views and operators
that change a tensor in place, for which there is a better word."""


class Place:
    """An operator in its plan."""

    def __init__(self, outside: Outside, fuser: str) -> None:
        self.flow = outside.flow
        self.loose = outside.node
        self.node = self.flow.nodes[self.loose.place]
        self.fuser = fuser
        self.unseen = outside.unseen
        self._refused = outside.refused

    def types(self) -> Iterator[TensorType]:
        for text in (*self.node.inputs, *self.node.outputs):
            parsed = parse_type(text)
            if isinstance(parsed, TensorType):
                yield parsed

    def takes(self, op: str) -> bool:
        """Whether the fuser has a rule for an operator, views left aside."""
        if op in NOTHING_TO_GAIN or (self.fuser == "nnc" and op in _NNC_SELDOM):
            return False
        return op in BY_FUSER[self.fuser]

    def joinable(self, node: FlowNode) -> bool:
        if node.kind == OPERATOR:
            return node.place not in self._refused and self.takes(node.op)
        return node.kind == GROUP

    def neighbours(self, node: FlowNode) -> list[FlowNode]:
        return [self.flow.nodes[i] for i in sorted(node.before | node.after)]


Rule = Callable[[Place], "Reason | None"]


def _reason(code: str, text: str) -> Reason:
    return Reason(code, text, False)


def control_flow(place: Place) -> Reason | None:
    """FD229: a branch or loop is no operator, and cuts the graph in two."""
    if place.node.kind != CONTROL:
        return None
    return _reason(
        "FD229", f"control flow ({place.node.condition}) ends the group before it and begins another after"
    )


def bookkeeping(place: Place) -> Reason | None:
    """FD235: what the gradient executor adds for gradients that may be absent."""
    if place.loose.op.startswith("prim::Autograd"):
        return _reason("FD235", "the gradient executor adds it to deal with gradients that may be absent")
    return None


def nothing_to_gain(place: Place) -> Reason | None:
    """FD226: a view, a constant, an attribute."""
    if place.loose.op in NOTHING_TO_GAIN:
        return _reason("FD226", "it makes a view or a constant and computes nothing that a kernel could save")
    return None


def in_place(place: Place) -> Reason | None:
    """FD230: fusers leave operators alone that change their inputs."""
    if not _IN_PLACE.match(place.loose.op):
        return None
    text = "it changes its input in place"
    if place.takes(place.loose.op[:-1]):
        text += f"; {place.loose.op[:-1]} could be fused"
    return _reason("FD230", text)


def dtype(place: Place) -> Reason | None:
    """FD223: complex, quantised and other scalar types."""
    allowed = _DTYPES.get(place.fuser)
    for tensor in place.types():
        if tensor.dtype is not None and allowed is not None and tensor.dtype not in allowed:
            return _reason("FD223", f"{fuser_title(place.fuser)} does not fuse {tensor.dtype} tensors")
    return None


def dimensions(place: Place) -> Reason | None:
    """FD224: nvFuser's kernels stop at 8 dimensions."""
    if place.fuser == "nvfuser":
        for tensor in place.types():
            if tensor.sizes is not None and len(tensor.sizes) > _MOST_DIMENSIONS:
                return _reason("FD224", f"a tensor of {len(tensor.sizes)} dimensions; nvFuser takes up to 8")
    return None


def device(place: Place) -> Reason | None:
    """FD221 and FD222: tensors on several devices, or on one that the fuser does not compile for."""
    devices = {t.device for t in place.types() if t.device is not None and t.sizes != ()}
    if len(devices) > 1:
        return _reason("FD221", f"its tensors are on several devices: {', '.join(sorted(devices))}")
    if place.fuser == "nvfuser" and devices == {"cpu"}:
        return _reason("FD222", "its tensors are on the CPU; nvFuser compiles only for the GPU")
    return None


def no_rule(place: Place) -> Reason | None:
    """FD233: the catalogue of the fuser does not have it."""
    if place.loose.op in BY_FUSER[place.fuser]:
        return None
    return _reason("FD233", f"{fuser_title(place.fuser)} has no rule for {place.loose.op}")


def cuts_region(place: Place) -> Reason | None:
    """FD231: between two differentiable graphs, and the reason why they are two. Before the rule for views: a
    view without a formula costs nothing itself, and yet keeps what is around it apart."""
    flow, node = place.flow, place.node
    if node.kind != OPERATOR or place.loose.op in WITH_FORMULA or place.loose.op == "prim::GetAttr":
        return None
    sides = (node.before, node.after)
    if flow.regions and all(any(flow.nodes[i].kind == REGION for i in side) for side in sides):
        return _reason(
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
        return _reason("FD231", "gradients are recorded, and torch has no gradient formula for it")
    text = "gradients are recorded, and it is in no differentiable graph: one around it would be too small"
    near = {n.op for n in place.neighbours(place.node) if n.kind == OPERATOR} - WITH_FORMULA
    if near:
        text += f" ({', '.join(sorted(near))} next to it has no gradient formula)"
    return _reason("FD231", text)


def untyped(place: Place) -> Reason | None:
    """FD232: nothing was profiled for its tensors, while it was for others."""
    if not place.node.inputs or any(text not in ("Tensor", "Tensor?", "") for text in place.node.inputs):
        return None
    others = [n for n in place.flow.nodes if n is not place.node and n.inputs]
    typed = [n for n in others if any(text.startswith(tuple(_DTYPES["nnc"])) for text in n.inputs)]
    if others and len(typed) * 2 > len(others):
        return _reason(
            "FD232", "the types of its inputs were not profiled: that code did not run in the first passes"
        )
    return None


def many_arguments(place: Place) -> Reason | None:
    """FD234: the group next to it is full. nvFuser adds up all inputs and outputs of both, constants too
    (torch/csrc/jit/codegen/cuda/graph_fuser.cpp, tryFuse)."""
    for node in place.neighbours(place.node):
        if node.kind == GROUP and node.arguments + place.node.arguments > _MOST_ARGUMENTS:
            return _reason(
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
            return _reason(
                "FD227",
                f"{what.op}{_at(what)} decides on {what.condition} between it and {name}, and operators are"
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
        where = f"{control.op}{_at(control)}" if control is not None else "control flow"
        return _reason("FD228", f"what it could fuse with is on the other side of the block of {where}")
    barrier = _barrier(place)
    if barrier is not None:
        return _reason("FD227", f"{barrier.op}{_at(barrier)} is between it and what it could fuse with")
    return _reason(
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


def _at(node: FlowNode) -> str:
    return f" ({node.source})" if node.source else ""


RULES: tuple[Rule, ...] = (
    control_flow,
    bookkeeping,
    cuts_region,
    nothing_to_gain,
    in_place,
    dtype,
    dimensions,
    device,
    no_rule,
    gradient,
    untyped,
    many_arguments,
    read_before,
    surroundings,
)


class Reasons:
    """Works out reasons; ``requested`` is the fuser that was asked for, where that is known."""

    def __init__(self, requested: str | None = None) -> None:
        self._requested = requested

    def __call__(self, outside: Outside) -> Reason | None:
        fuser = outside.fuser
        if self._requested == "none" and is_fusible(outside.node.op):
            return _reason("FD104", "every fuser is off (--fuser none)")
        if fuser is None and self._requested in FUSERS:
            fuser = self._requested
        if fuser is None:
            return None
        place = Place(outside, fuser)
        for rule in RULES:
            reason = rule(place)
            if reason is not None:
                return reason
        return None

    def refine(self, outside: Outside, stated: Reason) -> Reason:
        """nvFuser's "node not parsible" also covers arguments that its rule refuses, and its "scalar type not
        supported" also tensors of too many dimensions (partition.cpp, isFusibleDevice and its callers)."""
        place = Place(outside, outside.fuser or "nvfuser")
        text = None
        if stated.code in CATCH_ALL:
            for rule in (control_flow, bookkeeping, cuts_region, nothing_to_gain, in_place):
                cause = rule(place)
                if cause is not None:
                    return cause
            if stated.code == "FD212" and place.fuser == "nnc":
                return no_rule(place) or stated
        if stated.code == "FD201" and place.takes(outside.node.op):
            text = "nvFuser has a rule for it, but not with these arguments (sizes or flags not constant)"
        elif stated.code in ("FD202", "FD203"):
            cause = dimensions(place) or dtype(place)
            text = cause.text if cause is not None else None
        return stated if text is None else Reason(stated.code, text, True)
