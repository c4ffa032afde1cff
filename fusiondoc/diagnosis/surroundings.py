"""An operator in its plan: what stands around it, and when that keeps it out of every group, though a fuser
could take it (nothing to fuse with, or out of reach).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from fusiondoc.diagnosis.detours import Crossings, Detours, once_a_flow
from fusiondoc.diagnosis.nvfuser_rules import fused_views, refused_because
from fusiondoc.fuser_knobs import parse_version
from fusiondoc.fusers import BY_ANY, BY_FUSER, nnc, nvfuser
from fusiondoc.model import fuser_title
from fusiondoc.model.operators import LIBRARY, MAKERS, VIEWS, WITH_FORMULA, is_in_place, plain_name
from fusiondoc.model.report import Reason
from fusiondoc.model.source import from_package
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit import OUT_OF_CONTAINERS
from fusiondoc.parsers.jit.flow import CONTROL, GROUP, OPERATOR, REGION, SIDE_EFFECTS, Flow, FlowNode
from fusiondoc.parsers.rows.unfused_rows import Outside

NOTHING_TO_GAIN = VIEWS | MAKERS | {"aten::contiguous", "prim::GetAttr", "prim::data", "prim::ConstantChunk"}

Side = Literal["before", "after"]

MOST_VIEWS = 100
"""Views through which what stands next to an operator is looked for."""

MOST_BEHIND = 1_000
"""Nodes in each ring around what stands next to an operator."""


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
    whole: bool
    """Nothing beyond the bounds of ``parsers/jit/hubs.py`` and MOST_VIEWS was left out."""


def _comparable(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether one of two blocks stands in the other."""
    short = min(len(one), len(other))
    return one[:short] == other[:short]


@lru_cache(maxsize=4096)
def _tensors_of(types: tuple[str, ...]) -> tuple[TensorType, ...]:
    """Those that are single tensors; a plan has few different ones."""
    parsed = map(parse_type, types)
    return tuple([one for one in parsed if isinstance(one, TensorType)])


def neighbours(nodes: Sequence[FlowNode], node: FlowNode) -> list[FlowNode]:
    """What the tensors of one of these nodes come from and go to, in order."""
    return [nodes[i] for i in sorted({*node.before, *node.after})]


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

    def types(self) -> tuple[TensorType, ...]:
        return _tensors_of(self.node.inputs) + _tensors_of(self.node.outputs)

    def takes(self, op: str) -> bool:
        """Whether the fuser has a rule for an operator, views left aside."""
        if op in NOTHING_TO_GAIN or (self.fuser == "nnc" and op in nnc.SELDOM):
            return False
        return op in self.catalogue

    @property
    def catalogue(self) -> frozenset[str]:
        """What the fuser of this run can take; of any fuser where it is not known which ran."""
        if self.fuser is None:
            return BY_ANY
        if self.fuser == "nvfuser" and self.torch is not None:
            return nvfuser.taken_in(parse_version(self.torch))
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
        through = 0
        whole = True
        shortened = self.flow.shortened[side == "after"]
        while todo:
            node, views = todo.pop(0)
            whole = whole and node.place not in shortened
            for place in sorted(node.before if side == "before" else node.after):
                found = self.flow.nodes[place]
                if place in seen:
                    continue
                seen.add(place)
                if self.joinable(found) and _comparable(found.block, self.node.block):
                    partners.append((found, views))
                elif (
                    found.op in nvfuser.VIEWS
                    and found.place not in self.refused
                    and found.op in self.catalogue_of_views
                ):
                    if through < MOST_VIEWS:
                        through += 1
                        todo.append((found, (*views, found)))
                    else:
                        whole = False
                elif found.op not in MAKERS:
                    barriers.append(found)
        return Reach(tuple(partners), tuple(barriers), whole)

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
            ring = list(islice((n for r in ring for n in self.neighbours(r)), MOST_BEHIND))
        return None

    @property
    def catalogue_of_views(self) -> frozenset[str]:
        """Views that the fuser takes into a group."""
        if self.fuser is None:
            return nvfuser.VIEWS
        return fused_views(self.torch) if self.fuser == "nvfuser" else self.catalogue & VIEWS

    def neighbours(self, node: FlowNode) -> list[FlowNode]:
        return neighbours(self.flow.nodes, node)


def by_version(place: Place, op: str) -> str | None:
    """That a rule for it is younger than the oldest nvFuser in TorchScript, where nothing tells which torch
    ran; None where that is known, or all have it."""
    rule = nvfuser.TAKES.get(op)
    since = rule.since if rule is not None else nvfuser.FUSED_VIEWS_SINCE.get(op)
    if place.fuser != "nvfuser" or place.torch is not None or since is None or since <= nvfuser.OLDEST:
        return None
    version = ".".join(map(str, since))
    return f"nvFuser has a rule for it only since torch {version}: the log does not tell which ran"


def is_of_a_formula(source: str | None) -> bool:
    """Whether a node stands in a gradient formula of torch (torch/csrc/jit/runtime/symbolic_script.cpp), not
    in the program."""
    return source is not None and source.startswith("<string>")


INTO_OBJECT = "its result is kept in an attribute of an object, through which torch does not see"


def from_container(node: FlowNode) -> str | None:
    """That its tensors come out of a dict or list, or go into an object, as a clause; None where they do
    not."""
    if any(one.maker in OUT_OF_CONTAINERS and one.by is None for one in node.operands):
        return "its inputs come out of a dict or list, through which torch does not see"
    return INTO_OBJECT if node.stored else None


Rule = Callable[[Place], "Reason | None"]
"""Looks at one operator and gives a reason, or nothing."""


def reason(code: str, text: str) -> Reason:
    """A reason that fusiondoc worked out."""
    return Reason(code, text, False)


def at(node: FlowNode) -> str:
    """Where it stands, in brackets, for a sentence; empty where that is not known."""
    return f" ({from_package(node.source)})" if node.source else ""


_SIDES: tuple[Side, Side] = ("before", "after")


def read_before(place: Place) -> Reason | None:
    """FD227: control flow reads its result before the operator it would fuse with, so that it cannot be moved
    there. The checks of shapes in torch.nn are such control flow."""
    node, nodes = place.node, place.flow.nodes
    if not node.decides:
        return None
    partners = [i for i in node.after if nodes[i].block == node.block and place.joinable(nodes[i])]
    nearest = min(partners, default=-1)
    for control in sorted(node.decides):
        if control < nearest and nodes[control].block == node.block:
            what, partner = nodes[control], nodes[nearest]
            return reason(
                "FD227",
                f"{what.op}{at(what)} decides on {what.condition} between it and {_name(partner)}, and"
                " operators are not moved past that",
            )
    return None


def _not_in(node: FlowNode, other: FlowNode) -> tuple[int, ...]:
    """The blocks that it stands in, outermost first, without those that the other one stands in too."""
    return tuple(block for block in node.block if block not in other.block)


def surroundings(place: Place) -> Reason | None:
    """FD225, FD227 and FD228: there is nothing to fuse with, or it is out of reach."""
    reached = {side: place.reach(side) for side in _SIDES}
    partners = [found for side in _SIDES for found in reached[side].partners]
    near = [partner for partner, views in partners if not views and partner.block == place.node.block]
    whole = all(reach.whole for reach in reached.values())
    if near:
        return _circle(place, near) or _depends_on_version(place, near, whole)
    found = _apart(place, reached, partners)
    return found if whole else reason(found.code, f"{found.text} ({IN_PART})")


IN_PART = "of very many nodes around it only the first were looked at"
"""Behind a reason that a further one could change."""

_Reached = Mapping[Side, Reach]


def _apart(place: Place, reached: _Reached, partners: list[tuple[FlowNode, tuple[FlowNode, ...]]]) -> Reason:
    """What there is to fuse with in its block stands behind views, or there is nothing."""
    node = place.node
    here = [(partner, views) for partner, views in partners if partner.block == node.block]
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
        blocks = (*_not_in(apart[0], node), *_not_in(node, apart[0])) if apart else node.block
        control = place.flow.nodes[blocks[-1]] if blocks else None
        where = f"{control.op}{at(control)}" if control is not None else "control flow"
        what = _name(apart[0]) if apart else "what it could fuse with"
        return reason("FD228", f"{what} is on the other side of the block of {where}")
    blocking = sorted((b for b in barriers if b.behind is not None), key=lambda b: _order(b, place))
    if blocking:
        first = blocking[0]
        assert first.behind is not None
        stands = "stands" if first.behind in place.neighbours(first.node) else "and others after it stand"
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


_crossings_of = once_a_flow(Crossings)


class _DetoursOfFlow:
    """Those through what cannot be fused, while the same is known of the operators."""

    def __init__(self, flow: Flow) -> None:
        self._nodes = flow.nodes
        self._known: tuple[object, ...] = ()
        self._detours: Detours | None = None

    def of(self, place: Place) -> Detours:
        known = self._known
        if self._detours is None or known[0] is not place.refused or known[1:] != (place.fuser, place.torch):
            self._known = place.refused, place.fuser, place.torch
            self._detours = Detours(self._nodes, lambda node: node.after)
        return self._detours


_detours_of = once_a_flow(_DetoursOfFlow)


_WAIT = ": fused, the two would wait for each other"


def _circle(place: Place, partners: list[FlowNode]) -> Reason | None:
    """FD227: a second way leads from one to the other through something that is not fused. Fused, both would
    wait for it, and it for them (AliasDb::moveBeforeTopologicallyValid, which every fusion pass asks)."""
    node, nodes = place.node, place.flow.nodes
    detours = _detours_of(place.flow).of(place)
    for partner in partners:
        first, last = (node, partner) if partner.place in node.after else (partner, node)
        asked = place.flow.asked_by(first.place, last.place) if first is node else None
        if asked is not None:
            text = f"the {asked.what} of its result is asked for {asked.op} in the group behind it"
            return reason("FD227", text + _WAIT)
        if last.place in first.numbers:
            text = f"a number that {_it(last, node)} takes is computed of the result of {_it(first, node)}"
            return reason("FD227", f"{text} or of its size{_WAIT}")
        starts = (*first.after, *first.numbers)
        between = detours.between(first, last, starts, lambda one: not place.joinable(one))
        if between is not None:
            way = nodes[between]
            sized = " or a number of its size" if between not in first.after else ""
            text = f"{way.op}{at(way)} takes the result of {_it(first, node)}{sized}"
            return reason("FD227", f"{text} and leads to {_it(last, node)}{_WAIT}")
        between = detours.through(first, last, starts, lambda one: not place.joinable(one))
        if between is not None:
            way = nodes[between]
            text = f"{way.op}{at(way)} stands on a way from {_it(first, node)} to {_it(last, node)}"
            return reason("FD227", text + _WAIT)
    crossings = _crossings_of(place.flow)
    for partner in partners:
        low, high = sorted((node.place, partner.place))
        stop = crossings.stop(low, high)
        if stop is not None:
            _, kind, source = place.flow.stops[stop]
            where = f" ({from_package(source)})" if source else ""
            text = f"{SIDE_EFFECTS[kind]}{where} stands between it and {_name(partner)}"
            return reason("FD227", f"{text}, and operators are not moved past that")
        crossed = crossings.writer(low, high, node.block)
        if crossed is not None:
            writer = nodes[crossed]
            does = "waits for another task" if writer.op == "aten::wait" else "changes a tensor in place"
            return reason(
                "FD227",
                f"{writer.op}{at(writer)} {does} between it and {_name(partner)}, and operators are not moved"
                " past that",
            )
    return None


def _depends_on_version(place: Place, near: list[FlowNode], whole: bool) -> Reason | None:
    """FD233 and FD225: it, or all that it could be fused with (``whole``: they are all), has a rule only in
    later versions than may be at work."""
    own = by_version(place, place.node.op)
    if own is not None:
        return reason("FD233", own)
    later = [by_version(place, node.op) for node in near]
    if whole and later[0] is not None and all(later):
        return reason("FD225", f"next to it is {near[0].op}, and {later[0]}")
    return None


def _it(node: FlowNode, me: FlowNode) -> str:
    return "this operator" if node is me else _name(node)


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


def _order(barrier: Barrier, place: Place) -> tuple[int, bool]:
    """Of equally fixed ones that comes first which stands alone between the two."""
    near = barrier.behind in place.neighbours(barrier.node)
    return _fixed(barrier.node, place), not near


def _fixed(node: FlowNode, place: Place) -> int:
    """What can be changed comes first: an operator in place, arguments, a branch; last what stays."""
    if is_in_place(node.op):
        return 0
    if node.place in place.refused and (node.op in place.catalogue or node.op in place.catalogue_of_views):
        return 1
    if node.op in VIEWS:
        return 2
    if node.kind == CONTROL:
        return 3
    return 5 if node.op in LIBRARY else 4


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
    if node.op in VIEWS:
        return f"a view that {place.fuser_name} takes into no group"
    if node.op in place.catalogue:
        return f"which {place.fuser_name} takes only in some cases"
    return "which no fuser takes" if place.fuser is None else f"which {place.fuser_name} has no rule for"


def _views(views: tuple[FlowNode, ...]) -> str:
    return " and ".join(f"{view.op}{at(view)}" for view in views[:2])


def _name(node: FlowNode) -> str:
    return "a fusion group" if node.kind == GROUP else node.op
