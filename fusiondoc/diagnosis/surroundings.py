"""An operator in its plan: what a rule for reasons looks at."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, Iterator, Literal, NamedTuple

from fusiondoc.diagnosis.nvfuser_rules import FUSED_VIEWS_SINCE, fused_views
from fusiondoc.diagnosis.operators import BY_FUSER, NVFUSER_SINCE, OLDEST_NVFUSER, VIEWS
from fusiondoc.fuser_knobs.entries import parse_version
from fusiondoc.model.fusers import fuser_title
from fusiondoc.model.report import Reason
from fusiondoc.model.source import from_package
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.flow import GROUP, OPERATOR, FlowNode
from fusiondoc.parsers.rows.unfused_rows import Outside


def aten(names: str) -> frozenset[str]:
    """The operators of these names: ``aten("add mul")``."""
    return frozenset(f"aten::{name}" for name in names.split())


MAKERS = aten(
    "empty zeros ones full arange tensor scalar_tensor empty_like zeros_like ones_like full_like new_zeros"
    " new_ones new_full new_empty"
)
"""Operators that make a tensor of one value or none: there is nothing before them to fuse with."""

NO_KERNEL = VIEWS | aten(
    "alias as_strided chunk detach diagonal expand movedim narrow numpy_T select slice split split_with_sizes"
    " swapaxes T unbind unflatten unfold view_as"
)
"""Operators that move no data, whatever a fuser makes of them."""

NOTHING_TO_GAIN = (
    NO_KERNEL | MAKERS | {"aten::contiguous", "prim::GetAttr", "prim::data", "prim::ConstantChunk"}
)

Side = Literal["before", "after"]

_NNC_SELDOM = {
    f"aten::{name}" for name in ["sum", "softmax", "log_softmax", "matmul", "conv2d", "_convolution"]
}
"""Operators that NNC takes only with a knob, or only on the CPU: nothing is lost next to one."""


class Barrier(NamedTuple):
    """What stands next to an operator, through views, and is not fused."""

    node: FlowNode
    side: Side
    behind: FlowNode | None
    """The nearest thing behind it, up to three operators away, that could be fused."""


class Reach(NamedTuple):
    """What an operator reaches on one side through views that its fuser takes."""

    partners: tuple[tuple[FlowNode, tuple[FlowNode, ...]], ...]
    """What could be fused with it, and the views between them."""
    barriers: tuple[FlowNode, ...]


def _comparable(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one of two blocks stands in the other."""
    short = min(len(one), len(other))
    return one[:short] == other[:short]


_BY_ANY: frozenset[str] = frozenset().union(*BY_FUSER.values())


@lru_cache(maxsize=None)
def _nvfuser_of(torch: str) -> frozenset[str]:
    """What nvFuser of this torch has a rule for."""
    version = parse_version(torch)
    return frozenset(op for op, since in NVFUSER_SINCE.items() if since <= version)


class Place:
    """An operator in its plan."""

    def __init__(self, outside: Outside, fuser: str | None, torch: str | None = None) -> None:
        self.flow = outside.flow
        self.loose = outside.node
        self.node = self.flow.nodes[self.loose.place]
        self.fuser = fuser
        self.torch = torch
        """The version that ran, if known."""
        self.unseen = outside.unseen
        self.gradients = outside.gradients
        self.refused = outside.refused
        self.region_end = outside.region_end

    def types(self) -> Iterator[TensorType]:
        for text in (*self.node.inputs, *self.node.outputs):
            parsed = parse_type(text)
            if isinstance(parsed, TensorType):
                yield parsed

    def takes(self, op: str) -> bool:
        """Whether the fuser has a rule for an operator, views left aside."""
        if op in NOTHING_TO_GAIN or (self.fuser == "nnc" and op in _NNC_SELDOM):
            return False
        return op in self.catalogue

    @property
    def catalogue(self) -> frozenset[str]:
        """What the fuser of this run can take; of any fuser where it is not known which ran."""
        if self.fuser is None:
            return _BY_ANY
        if self.fuser == "nvfuser" and self.torch is not None:
            return _nvfuser_of(self.torch)
        return BY_FUSER[self.fuser]

    @property
    def fuser_name(self) -> str:
        return fuser_title(self.fuser) if self.fuser is not None else "no fuser"

    def joinable(self, node: FlowNode) -> bool:
        if node.ran is False:
            return False
        if node.kind == OPERATOR:
            return node.place not in self.refused and self.takes(node.op)
        return node.kind == GROUP

    def reach(self, side: Side) -> Reach:
        """What stands next to it on one side."""
        partners: list[tuple[FlowNode, tuple[FlowNode, ...]]] = []
        barriers: list[FlowNode] = []
        seen = {self.node.place}
        todo: list[tuple[FlowNode, tuple[FlowNode, ...]]] = [(self.node, ())]
        while todo:
            node, views = todo.pop(0)
            for place in sorted(node.before if side == "before" else node.after):
                found = self.flow.nodes[place]
                if place in seen:
                    continue
                seen.add(place)
                if self.joinable(found) and _comparable(found.block, self.node.block):
                    partners.append((found, views))
                elif (
                    found.op in VIEWS
                    and found.place not in self.refused
                    and found.op in self.catalogue_of_views
                ):
                    todo.append((found, (*views, found)))
                elif found.op not in MAKERS:
                    barriers.append(found)
        return Reach(tuple(partners), tuple(barriers))

    def behind(self, barrier: FlowNode, side: Side) -> FlowNode | None:
        """The nearest thing that could be fused, up to three operators away, behind a barrier. Of equally
        near ones it is that on its far side."""
        far = barrier.before if side == "before" else barrier.after
        seen = {self.node.place, barrier.place}
        ring = sorted(self.neighbours(barrier), key=lambda n: n.place not in far)
        for _ in range(3):
            ring = [n for n in ring if n.place not in seen]
            seen.update(n.place for n in ring)
            for node in ring:
                if self.joinable(node) and node.block == self.node.block:
                    return node
            ring = [n for r in ring for n in self.neighbours(r)]
        return None

    @property
    def catalogue_of_views(self) -> frozenset[str]:
        """Views that the fuser takes into a group."""
        if self.fuser is None:
            return VIEWS
        return fused_views(self.torch) if self.fuser == "nvfuser" else self.catalogue & VIEWS

    def neighbours(self, node: FlowNode) -> list[FlowNode]:
        return [self.flow.nodes[i] for i in sorted({*node.before, *node.after})]


def by_version(place: Place, op: str) -> str | None:
    """That a rule for it is younger than the oldest nvFuser in TorchScript, where nothing tells which torch
    ran; None where that is known, or all have it."""
    since = NVFUSER_SINCE.get(op) or FUSED_VIEWS_SINCE.get(op)
    if place.fuser != "nvfuser" or place.torch is not None or since is None or since <= OLDEST_NVFUSER:
        return None
    version = ".".join(map(str, since))
    return f"nvFuser has a rule for it only since torch {version}: the log does not tell which ran"


def is_of_a_formula(source: str | None) -> bool:
    """Whether a node stands in a gradient formula of torch (torch/csrc/jit/runtime/symbolic_script.cpp), not
    in the program."""
    return source is not None and source.startswith("<string>")


def from_container(node: FlowNode) -> str | None:
    """That its tensors come out of a dict or list, as a clause; None where they do not."""
    if any(one.maker == "aten::__getitem__" and one.by is None for one in node.operands):
        return "its inputs come out of a dict or list, through which torch does not see"
    return None


Rule = Callable[[Place], "Reason | None"]
"""Looks at one operator and gives a reason, or nothing."""


def reason(code: str, text: str) -> Reason:
    """A reason that fusiondoc worked out."""
    return Reason(code, text, False)


def at(node: FlowNode) -> str:
    """Where it stands, in brackets, for a sentence; empty where that is not known."""
    return f" ({from_package(node.source)})" if node.source else ""
