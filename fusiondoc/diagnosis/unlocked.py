"""The groups that a change makes possible: the plans of a run as they would be if
some operators could be in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from fusiondoc.changes.recipes import CHUNKED
from fusiondoc.diagnosis.kept_out import is_lost_outside
from fusiondoc.diagnosis.operator_in_plan import NOTHING_TO_GAIN
from fusiondoc.diagnosis.plan_graphs import (
    REGION,
    PlanGraph,
    PlanOfRun,
    made_otherwise,
    parted_at_most,
    parted_by_order,
    plan_of,
    plan_taken_apart,
)
from fusiondoc.diagnosis.shown_operators import dimensions_of
from fusiondoc.fusers import facts_of, taken_by, taken_by_default
from fusiondoc.graph.shared_memory import order_of
from fusiondoc.graph.would_fuse import Fused, Limits, would_fuse_in_steps
from fusiondoc.model import dataclass
from fusiondoc.model.reasons import Detail, Detour, DissolvedRegion, OutOfRegion
from fusiondoc.model.report import ProgramNode, Report
from fusiondoc.operators import (
    ELEMENTWISE,
    IN_PLACE_ASSIGNS,
    LIBRARY,
    OF_MANY_ELEMENTS,
    PERMUTATIONS,
    VIEWS,
)
from fusiondoc.parsers.ir.types import HALVES, TensorType, parse_type


@dataclass(frozen=True)
class WouldBeGroup:
    """A group that the changes would make, or a group of the run that they would
    extend."""

    changed: frozenset[int]
    """Rows of ``report.unfused`` that are changed in it."""
    rows: frozenset[int]
    """All rows of operators in it."""
    ops: tuple[str, ...]
    """Its operators that compute something, in the order of the plan, without those
    of groups of the run."""
    groups: tuple[str, ...]
    """Groups of the run that it takes in."""
    joined: int
    """The number of fusion nodes of the plan that these are."""
    bytes_saved: int | None
    """Bytes of tensors that need not be written and read again; None if no type of
    them is known."""
    views: tuple[str, ...] = ()
    """Views that it takes in as operators: a view and a single operator are a
    group, too."""
    written: tuple[int, ...] = ()
    """The row of each changed operator in it, once for each operator."""
    sure: bool = True
    """False if the fuser may join its parts with others first, or leave one out."""


@dataclass(frozen=True)
class Brought:
    """The effect of changes on a plan whose groups are taken apart."""

    operators: int
    """Operators that come into groups, minus those that leave them."""
    groups: int
    """Groups more than without the changes."""
    sure: bool
    """False if the unchanged plan would not give the groups of the run."""

    @property
    def fewer_launches(self) -> int:
        return self.operators - self.groups


class _Inside(NamedTuple):
    """The contents of a plan's groups."""

    operators: frozenset[int]
    """Nodes that compute something."""
    groups: int


_BRANCH = "prim::If"
_LOOP = "prim::Loop"
_TAKES_LIST = "aten::cat"
_COMPUTES_NOTHING = NOTHING_TO_GAIN | PERMUTATIONS


class Plans:
    """The plans of a run, and the effect of changes on them.

    Args:
        fuser: the fuser of the run; None if it is not known which ran.
        torch: the version, if known.
        gradients: whether they are recorded; None if not known.
        joins: positions of rows that write to a part of a tensor, and whose change
            joins the whole tensor from new parts.
    """

    def __init__(
        self,
        report: Report,
        fuser: str | None,
        torch: str | None,
        gradients: bool | None = None,
        joins: AbstractSet[int] = frozenset(),
    ) -> None:
        self._joins = joins
        self._gradients = bool(gradients)
        self._fuser, self._torch = fuser, torch
        self._facts = facts_of(fuser)
        if gradients:
            self._without = self._facts.operators.inference_only
        else:
            self._without = frozenset[str]()
        joins_chunks = not gradients and self._takes("prim::ConstantChunk")
        self._cut_before = frozenset[str]() if joins_chunks else CHUNKED
        """Operators that are not joined with the maker of their input: they are
        written with a chunk, which no differentiable graph and not every fuser
        takes."""
        self._details = [row.reason.detail for row in report.unfused]
        position: dict[int | None, int] = {}
        for at, row in enumerate(report.unfused):
            position[row.index] = at
        position.pop(None, None)
        stops = self._facts.limits.stops_at_side_effects
        self._plans = []
        for program in report.programs:
            if program.specialisation == 1:
                self._plans.append(plan_of(program, position, stops))
        nodes = Counter(
            row for plan in self._plans for row in plan.rows if row is not None
        )
        times = {}
        for at, number in nodes.items():
            times[at] = max(1, report.unfused[at].count // number)
        self._times = times
        """Row -> how many plans of the run equal each plan of the report that has
        its nodes."""
        self._groups = {group.id: group for group in report.groups}
        self._unchanged: dict[
            int, tuple[PlanOfRun, list[list[int]], frozenset[int]]
        ] = {}
        """Identity of a plan -> the plan with its groups taken apart, the groups
        that it gives, and the nodes of the plan for which these differ from those
        of the run."""
        self._ops_of_groups = {group.id: group.ops for group in report.groups}
        self._inputs_of_groups = {group.id: group.inputs for group in report.groups}
        self._instances = _instances(report, self._plans)
        self._plans_of_regions = _plans_of_regions(report)
        """The number of plans of a differentiable graph by its program, if that has
        groups."""
        self._many: dict[tuple[str, ...], bool] = {}
        """Operators of a node -> True if some are not element-wise."""

    def with_changes(self, changed: AbstractSet[int]) -> list[WouldBeGroup]:
        """Return the groups in which operators of these rows of ``report.unfused``
        would be, if these and nothing else could be in groups. A plan that several
        executors made is counted for each."""
        found = []
        for plan in self._plans:
            if changed.isdisjoint(row for row in plan.rows if row is not None):
                continue
            for members in self._fused(plan, changed).groups:
                group = self._group(plan, members, changed)
                if group is not None:
                    found += [group] * min(
                        self._times[row] for row in group.changed
                    )
        return self._with_groups_that_exist(found)

    def brought_by(self, changed: AbstractSet[int]) -> Brought | None:
        """Return the effect of these changes if the groups of the run are taken
        apart into their operators, as far as these are known, and the fuser joins
        them again; None if the fuser's last step is not known."""
        if not self._facts.limits.merges_neighbours:
            return None
        found = []
        for plan in self._plans:
            if plan.changes(changed):
                found.append(self._brought(plan, changed))
        operators, groups = (
            sum(one.operators for one in found),
            sum(one.groups for one in found),
        )
        return Brought(operators, groups, all(one.sure for one in found))

    def _brought(self, plan: PlanOfRun, changed: AbstractSet[int]) -> Brought:
        if id(plan) not in self._unchanged:
            apart = plan_taken_apart(plan, self._groups)
            before = self._fused(apart, frozenset()).groups
            self._unchanged[id(plan)] = apart, before, made_otherwise(apart, before)
        apart, before, unknown = self._unchanged[id(plan)]
        after, unmerged = self._fused(apart, changed)
        was, comes = (
            self._inside(apart, groups, changed) for groups in (before, after)
        )
        times = min(self._times[row] for row in plan.changes(changed))
        more = [index for index in comes.operators if index not in was.operators]
        lost = was.operators.difference(comes.operators)
        operators = len(more) - len(lost) + self._beside(apart, more, changed)
        sure = not any(
            not unknown.isdisjoint(apart.origin[index] for index in members)
            for members in after
            if not changed.isdisjoint(apart.rows[index] for index in members)
        )
        at_most = parted_at_most(apart, after)
        operators -= at_most.operators
        more_groups = (
            comes.groups
            + at_most.groups
            - was.groups
            - parted_by_order(apart, after, unmerged)
        )
        return Brought(operators * times, more_groups * times, sure)

    def _inside(
        self,
        plan: PlanOfRun,
        groups: Sequence[Sequence[int]],
        changed: AbstractSet[int],
    ) -> _Inside:
        found, number = list[int](), 0
        for members in groups:
            nodes = [plan.graph.nodes[index] for index in members]
            if (
                len(members) + self._beside(plan, members, changed) > 1
                or nodes[0].group is not None
            ):
                number += 1
                found += (
                    index
                    for index in members
                    if _computes(plan.graph.nodes[index], plan.rows[index], changed)
                )
        return _Inside(frozenset(found), number)

    def _fused(self, plan: PlanOfRun, changed: AbstractSet[int]) -> Fused:
        """Return the groups of a plan if operators of these rows could be in
        groups."""
        idle = self._idle_loops(plan)
        free = []
        for node, row, origin in zip(
            plan.graph.nodes, plan.rows, plan.origin, strict=True
        ):
            free.append(
                self._free(node, row, changed)
                and plan.whole.nodes[origin].inside not in idle
            )
        self._keep_views_that_must_stay(plan.graph, free)
        self._keep_views_of_gradients(plan.graph, free)
        return would_fuse_in_steps(
            plan.graph, free, self._limits(plan, free, changed)
        )

    def _idle_loops(self, plan: PlanOfRun) -> AbstractSet[int]:
        """Return the loops of which the body never ran in training, such as the
        unrolled steps of a loop with fewer: a new differentiable graph in one gets
        no plan. Some differentiable graph stands in it more often than the run has
        plans of it."""
        if not self._gradients:
            return frozenset()
        nodes = plan.whole.nodes
        found = Counter(
            (node.inside, node.program)
            for node in nodes
            if node.program in self._plans_of_regions
        )
        idle_loops = set()
        for (loop, program), number in found.items():
            if (
                loop is not None
                and nodes[loop].op == _LOOP
                and number > self._plans_of_regions[program]
            ):
                idle_loops.add(loop)
        return idle_loops

    def _with_groups_that_exist(
        self, found: Sequence[WouldBeGroup]
    ) -> list[WouldBeGroup]:
        """Return the groups, limited so that together they take in no more groups
        of the run than it has.

        In a loop that torch unrolls, every copy of a differentiable graph looks
        like the one that has a plan; steps that never ran have none. The groups of
        the run go first to the groups that need fewest of them.
        """
        left = self._instances.copy()
        result = list(found)
        for index in sorted(range(len(found)), key=lambda at: found[at].joined):
            one = found[index]
            joined = min(one.joined, sum(left[name] for name in one.groups))
            result[index] = replace(one, joined=joined)
            for name in one.groups:
                taken = min(joined, left[name])
                left[name] -= taken
                joined -= taken
        return result

    def _limits(
        self, plan: PlanOfRun, free: Sequence[bool], changed: AbstractSet[int]
    ) -> Limits:
        """Return the limits that keep free nodes apart, beside the detours between
        them."""
        nodes = plan.graph.nodes
        inside = _blocks(plan, changed)
        every = range(len(nodes))
        skipped = _never_run_there(nodes, inside)
        joins = set()
        for index, row in enumerate(plan.rows):
            if row in changed and row in self._joins:
                joins.add(index)
        order = order_of(
            plan.graph, free, partial(self._takes_given, plan.graph), joins, skipped
        )
        waits = {taker: list(makers) for taker, makers in order.waits.items()}
        for maker, taker in plan.waits:
            waits.setdefault(taker, []).append(maker)
        pulled_in = set()
        for index in every:
            if self._is_pulled_in(plan.graph, index):
                pulled_in.add(index)
        return Limits(
            inside,
            alone={index for index in every if self._is_alone(nodes[index])},
            pulled_in=pulled_in,
            apart=self._apart(plan),
            takes=order.takes,
            waits=waits,
            skipped=skipped,
            at_last_use=self._gradients
            and any(node.program is not None for node in nodes),
            merges_neighbours=plan.is_apart,
            divided=plan.stops_between,
            take_lists={index for index in every if nodes[index].op == _TAKES_LIST},
        )

    def _takes_given(self, graph: PlanGraph, index: int) -> bool:
        """True if a node takes a tensor that no node of the plan makes, as far as
        the number of its inputs shows."""
        node = graph.nodes[index]
        inputs = self._inputs_of_groups.get(node.group or "", node.inputs)
        return len(graph.before[index]) < len(inputs)

    def _apart(self, plan: PlanOfRun) -> Callable[[int, int], bool]:
        """Return a function that is true if the run shows that two nodes are not
        joined, whatever else changes."""
        details = []
        for row in plan.rows:
            details.append(self._details[row] if row is not None else None)

        def apart(maker: int, taker: int) -> bool:
            if _waits_for_number(details[maker], details[taker]):
                return True
            cut = plan.graph.nodes[
                taker
            ].op in self._cut_before or plan.stops_between(maker, taker)
            return cut or plan.are_kept_apart(maker, taker)

        return apart

    def _takes(self, op: str) -> bool:
        if self._fuser is None:
            return taken_by_default(op)
        return op not in self._without and taken_by(op, self._fuser, self._torch)

    def _free(
        self, node: ProgramNode, row: int | None, changed: AbstractSet[int]
    ) -> bool:
        """True if the node can be in a group, as far as known."""
        if node.kind == "group":
            return True
        if self._takes_refused_halves(node) or self._has_refused_sizes(node):
            return False
        if row is not None and row in changed:
            return True
        if row is None or node.op in LIBRARY or not self._takes(node.op):
            return False
        if _stays_out_of_regions(self._details[row]):
            return False
        if node.op in self._facts.operators.pairs_only and len(node.inputs) != 2:
            return False
        if node.op in self._facts.operators.with_dimensions_only and not all(
            map(dimensions_of, node.outputs)
        ):
            return False  # mean(), mostly without a dimension, or it is not known
        return is_lost_outside(node.op, node.reason, self._fuser, VIEWS)

    def _keep_views_that_must_stay(
        self, graph: PlanGraph, free: list[bool]
    ) -> None:
        """Mark views that must stay as not free. A view that the fuser does not
        take moves to the edge of the operators before or after it only if these are
        element-wise. If a view must stay, the views beside it are checked again."""
        views = set()
        for index, node in enumerate(graph.nodes):
            if (
                free[index]
                and node.kind == "operator"
                and _is_view(node)
                and not self._takes(node.op)
            ):
                views.add(index)
        todo = sorted(views)
        while todo:
            view = todo.pop()
            if free[view] and not self._may_move(graph, view, free):
                free[view] = False
                todo += views.intersection(
                    (*graph.before[view], *graph.after[view])
                )

    def _keep_views_of_gradients(self, graph: PlanGraph, free: list[bool]) -> None:
        """Mark views that a gradient reads as not free. The gradient of an operator
        of two tensors reads the sizes of both (``AD_sizes_if_not_equal_multi_0`` of
        torch/csrc/jit/runtime/symbolic_script.cpp): a view that makes one of them
        is then read outside its group, and stays."""
        if not self._gradients:
            return
        for index, node in enumerate(graph.nodes):
            if (
                free[index]
                and node.kind == "operator"
                and node.op in self._facts.operators.pulled_in
            ):
                takers = (graph.nodes[taker] for taker in graph.after[index])
                free[index] = not any(
                    one.kind == "operator" and len(one.inputs) > 1 for one in takers
                )

    def _may_move(self, graph: PlanGraph, view: int, free: Sequence[bool]) -> bool:
        """True if there are nodes to fuse with on both sides of a view, and all
        those of one side are element-wise."""
        by_elements = False
        for side in (graph.before[view], graph.after[view]):
            beside = []
            for other in side:
                if free[other]:
                    beside.append(graph.nodes[other])
            if not beside:
                return False
            by_elements = by_elements or not any(
                map(self._is_of_many_elements, beside)
            )
        return by_elements

    def _ops_of(self, node: ProgramNode) -> tuple[str, ...]:
        """Return the operators of a group, or the operator of another node."""
        return self._ops_of_groups.get(node.group or "", (node.op,))

    def _is_alone(self, node: ProgramNode) -> bool:
        """True if no group can have two operators of its kind."""
        return self._facts.operators.one_library_call and not LIBRARY.isdisjoint(
            self._ops_of(node)
        )

    def _group(
        self, plan: PlanOfRun, members: Sequence[int], changed: AbstractSet[int]
    ) -> WouldBeGroup | None:
        """Return the group of these nodes; None if nothing in it is changed, or if
        it has a single operator."""
        every = []
        for row in (plan.rows[index] for index in members):
            if row is not None:
                every.append(row)
        rows = frozenset(every)
        if rows.isdisjoint(changed):
            return None
        nodes = plan.graph.nodes
        ops = tuple(
            nodes[index].op
            for index in members
            if _computes(nodes[index], plan.rows[index], changed)
        )
        names = []
        for index in members:
            if nodes[index].kind == "group":
                names.append(nodes[index].group)
        views = tuple(
            nodes[index].op
            for index in members
            if nodes[index].op in self._facts.operators.pulled_in
        )
        size = (
            len(ops)
            + len(names)
            + len(views)
            + self._beside(plan, members, changed)
        )
        if not ops + tuple(names) or size < 2:
            return None
        groups = tuple(dict.fromkeys(name for name in names if name is not None))
        saved = plan.graph.kept_in_registers(members, views_of(plan.graph))
        written = tuple(filter(changed.__contains__, every))
        sure = self._is_sure(plan, members, changed, len(names))
        return WouldBeGroup(
            rows & changed,
            rows,
            ops,
            groups,
            len(names),
            saved,
            views,
            written,
            sure,
        )

    def _may_have_run(self, plan: PlanOfRun, members: Sequence[int]) -> bool:
        """True if anything shows that the branch that contains the group ran. With
        gradients the log does not show which side of a branch ran, but some of the
        nodes that ran have types, or plans of their own."""
        nodes = plan.graph.nodes
        around = plan.graph.inside[members[0]]
        if around is None or nodes[around].op != _BRANCH:
            return True
        if not _connected_in_block(plan.graph, members[:1]).issuperset(members):
            return False  # updates of one tensor, maybe on both sides of a branch
        if not self._gradients:
            return True
        beside = (
            nodes[index] for index in _connected_in_block(plan.graph, members)
        )
        return any(
            one.kind in ("group", "region") or any(map(_has_type, one.outputs))
            for one in beside
        )

    def _is_sure(
        self,
        plan: PlanOfRun,
        members: Sequence[int],
        changed: AbstractSet[int],
        joined: int,
    ) -> bool:
        """True if the group is certain: no change brings a reduction into it while
        it joins groups of the run. If each of these may first be joined with other
        readers of the same tensors, other groups with fewer operators form than the
        edges show: in 2 of 2 such changes, torch 2.1.2."""
        if not self._may_have_run(plan, members) or _is_of_several_regions(
            plan.graph, members
        ):
            return False
        if joined < 2 or not self._facts.limits.joins_readers:
            return True
        brought = []
        for index in members:
            if plan.rows[index] in changed:
                brought.append(plan.graph.nodes[index].op)
        return OF_MANY_ELEMENTS.isdisjoint(brought)

    def _beside(
        self, plan: PlanOfRun, members: Sequence[int], changed: AbstractSet[int]
    ) -> int:
        """Return how many of the members become two operators by a change: an
        addition to a part, and the operator that joins the parts."""
        joins = changed & self._joins
        total = 0
        for index in members:
            if (
                plan.rows[index] in joins
                and plan.graph.nodes[index].op not in IN_PLACE_ASSIGNS
            ):
                total += 1
        return total

    def _is_pulled_in(self, graph: PlanGraph, index: int) -> bool:
        """True if no group begins with it. A part of a group that several nodes
        take was pulled in all the same: of several results only the first counts
        (``canMerge``)."""
        node = graph.nodes[index]
        if node.kind == "group" and len(graph.after[index]) > 1:
            return False
        return node.op in self._facts.operators.pulled_in or self._is_idle_cast(
            node
        )

    def _is_idle_cast(self, node: ProgramNode) -> bool:
        """True if it is a cast to the type that its input already has."""
        return node.op in self._facts.operators.idle_casts and node.inputs[
            :1
        ] == node.outputs[:1] != ("Tensor",)

    def _takes_refused_halves(self, node: ProgramNode) -> bool:
        """True if it takes a tensor of a half type on a device where the fuser
        takes none, however it is written. Casts to such a type are not affected."""
        devices = self._facts.limits.halves_on
        given = []
        for one in map(parse_type, node.inputs):
            if isinstance(one, TensorType):
                given.append(one)
        return any(
            one.dtype in HALVES and _device_of(one) not in (None, *devices)
            for one in given
        )

    def _has_refused_sizes(self, node: ProgramNode) -> bool:
        """True if the fuser needs profiled sizes and one of its tensors has none,
        because they varied (parameters that a loop iterates over). A tensor without
        a type was not profiled at all."""
        if not self._facts.limits.profiled_sizes:
            return False
        types = []
        for one in map(parse_type, (*node.inputs, *node.outputs)):
            if isinstance(one, TensorType):
                types.append(one)
        return any(
            one.dtype is not None and one.dtype_and_sizes is None for one in types
        )

    def _is_of_many_elements(self, node: ProgramNode) -> bool:
        ops = self._ops_of(node)
        if ops not in self._many:
            self._many[ops] = not ELEMENTWISE.issuperset(ops)
        return self._many[ops]


def _is_of_several_regions(graph: PlanGraph, members: Sequence[int]) -> bool:
    """True if a member that a differentiable graph in the group takes also goes to
    other differentiable graphs: it is not known which of these takes the nodes
    beside them."""
    regions = {index for index in members if graph.nodes[index].op == REGION}
    for index in set(members) - regions:
        takers = set()
        for taker in graph.after[index]:
            if graph.nodes[taker].op == REGION:
                takers.add(taker)
        if not takers.isdisjoint(regions) and not takers <= regions:
            return True
    return False


def _connected_in_block(graph: PlanGraph, nodes: Sequence[int]) -> set[int]:
    """Return some nodes of a block, and the nodes of this block that tensors
    connect with them."""
    block = graph.inside[nodes[0]]
    todo, seen = list(nodes), set(nodes)
    while todo:
        node = todo.pop()
        for one in (*graph.before[node], *graph.after[node]):
            if one not in seen and graph.inside[one] == block:
                seen.add(one)
                todo.append(one)
    return seen


def _has_type(text: str) -> bool:
    """True if more is known of a type than that it is a tensor."""
    one = parse_type(text)
    return isinstance(one, TensorType) and one.dtype is not None


def _device_of(tensor: TensorType) -> str | None:
    """Return ``cuda`` for ``cuda:0``."""
    if tensor.device is None:
        return None
    return tensor.device.partition(":")[0]


def _computes(node: ProgramNode, row: int | None, changed: Container[int]) -> bool:
    """True if it is an operator that computes something, or a changed one that is
    no view."""
    if node.kind != "operator":
        return False
    return node.op not in _COMPUTES_NOTHING or (
        row in changed and not _is_view(node)
    )


def _is_view(node: ProgramNode) -> bool:
    return node.op in VIEWS or node.op in PERMUTATIONS  # free only if it is moved


def views_of(graph: PlanGraph) -> set[int]:
    """Return the nodes that move no data at the edge of a group."""
    return {index for index, node in enumerate(graph.nodes) if _is_view(node)}


def _instances(report: Report, plans: Iterable[PlanOfRun]) -> Counter[str]:
    """Map a group to how many the run has. A node that stands for a differentiable
    graph in a loop is not counted: not each of these graphs need be a group."""
    found = Counter({group.id: group.count for group in report.groups})
    outside_loops: Counter[str] = Counter()
    for plan in plans:
        for node in plan.graph.nodes:
            if node.group and (node.program is None or node.inside is None):
                outside_loops[node.group] += 1
    return found | outside_loops


def _plans_of_regions(report: Report) -> dict[str | None, int]:
    counts: dict[str | None, int] = {one.id: one.count for one in report.groups}
    found: dict[str | None, int] = {}
    for program in report.programs:
        # A report with the first groups alone does not have all that plans name.
        known = []
        for one in program.nodes:
            if one.group in counts:
                known.append(counts[one.group])
        if known:
            found[program.id] = min(known)
    return found


def _blocks(plan: PlanOfRun, changed: AbstractSet[int]) -> list[int | None]:
    """Return the block of each node, without the branches that a change removes."""
    nodes = plan.graph.nodes
    gone = set()
    for index, row in enumerate(plan.rows):
        if row in changed and nodes[index].kind == "control":
            gone.add(index)
    return [plan.graph.block_around(inside, gone) for inside in plan.graph.inside]


def _never_run_there(
    nodes: Sequence[ProgramNode], inside: Sequence[int | None]
) -> set[int]:
    """Return the nodes that go together with a branch that a change removes: those
    that never ran, and all nodes in them.

    Args:
        inside: the block of each node without those branches.
    """
    gone: set[int] = set()
    for index, node in enumerate(nodes):
        if inside[index] in gone or (
            node.reason == "FD232" and inside[index] != node.inside
        ):
            gone.add(index)
    return gone


def _stays_out_of_regions(detail: Detail | None) -> bool:
    """True if it is in no differentiable graph whatever changes around it: its
    arguments have no gradient formula, or its graph was dissolved because of one of
    the tensors that it reads."""
    if isinstance(detail, DissolvedRegion):
        return detail.why in ("not_profiled", "shares_memory")
    return isinstance(detail, OutOfRegion)


def _waits_for_number(first: Detail | None, last: Detail | None) -> bool:
    """True if a number that the second operator takes is computed from the result
    of the first: by the reason of one of them, as the plan has no edges for
    numbers."""
    if isinstance(last, Detour) and last.by == "number" and last.last is None:
        return True
    return (
        isinstance(first, Detour) and first.by == "number" and first.first is None
    )
