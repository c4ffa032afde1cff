"""What a change lets fuse: the plans of a run as they would be if some operators could be in groups.

Operators that a change makes fusible are taken to be so.

What fusing the unfused operators could save: the groups that they would be, and what these must move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.kept_out import FOR_ITSELF, NEVER_LOOKED_AT
from fusiondoc.diagnosis.surroundings import NOTHING_TO_GAIN
from fusiondoc.fusers import is_fusible, nnc, taken_by, takes_seldom
from fusiondoc.graph import Graph, graph_of
from fusiondoc.graph.shared_memory import order_of
from fusiondoc.graph.would_fuse import Limits, would_fuse
from fusiondoc.model import dataclass
from fusiondoc.model.reasons import Detail, Detour
from fusiondoc.model.report import ProgramNode, Report
from fusiondoc.operators import ELEMENTWISE, LIBRARY, PERMUTATIONS, VIEWS, WITH_FORMULA


def saving_share(report: Report, ms: Mapping[int, float], gb_per_s: float | None) -> dict[int, float]:
    """For each row of ``report.unfused`` the share of its time that fusing it could save at most.

    Operators that a fuser takes and that stand next to one another in a plan would be one group. What it
    saves is their time less what its inputs and outputs take, each moved once. Where the plan or its shapes
    are not known, a row saves at most the traffic of its own results; where these are not known either, it is
    left out.

    Args:
        ms: the time of each row in a step, all its nodes together.
        gb_per_s: the memory bandwidth of the device.
    """
    if not gb_per_s:
        return {}
    shares: dict[int, list[float]] = {}
    for program in report.programs:
        if program.specialisation > 1:
            continue
        rows = [_fusible_row(node) for node in program.nodes]
        graph = graph_of(program)
        for members in would_fuse(graph, [row is not None for row in rows], Limits(graph.inside)):
            moved = graph.traffic(members)
            spent = sum(_ms_of_node(row, report, ms) for row in (rows[node] for node in members))
            if moved is None or not spent:
                continue
            share = max(0.0, 1.0 - moved / (gb_per_s * 1e6) / spent)
            for node in members:
                for row in program.nodes[node].rows:
                    shares.setdefault(row, []).append(share)
    found = {row: sum(each) / len(each) for row, each in shares.items()}
    for row, spent in ms.items():
        traffic = report.unfused[row].bytes_moved
        if row not in found and traffic is not None and spent:
            found[row] = min(1.0, traffic * report.unfused[row].count / (gb_per_s * 1e6) / spent)
    return found


def _ms_of_node(row: int | None, report: Report, ms: Mapping[int, float]) -> float:
    """Milliseconds that one node of a row takes in a step."""
    return 0.0 if row is None else ms.get(row, 0.0) / report.unfused[row].count


def _fusible_row(node: ProgramNode) -> int | None:
    """The row of an operator that some fuser takes; None for all other nodes."""
    if node.kind != "operator" or node.op in LIBRARY or not is_fusible(node.op):
        return None
    return node.row


@dataclass(frozen=True)
class WouldBeGroup:
    """A group that the changes would make, or one of the run that they would make larger."""

    changed: frozenset[int]
    """Rows of ``report.unfused`` that are changed in it."""
    rows: frozenset[int]
    """All rows of operators in it."""
    ops: tuple[str, ...]
    """Its operators that compute something, in the order of the plan; those of groups of the run are left
    out."""
    groups: tuple[str, ...]
    """Groups of the run that it takes in."""
    joined: int
    """How many fusion nodes of the plan these are."""
    bytes_saved: int | None
    """Of tensors that need not be written and read again; None where no type of them is known."""


_COMPUTES_NOTHING = NOTHING_TO_GAIN | PERMUTATIONS


class Plans:
    """The plans of a run, ready to be asked what changes would do to them.

    Args:
        fuser: the fuser of the run; None where it is not known which ran.
        torch: the version, where it is known.
        gradients: they are recorded; NNC takes a batch norm for inference only (tensorexpr_fuser.cpp).
    """

    def __init__(
        self, report: Report, fuser: str | None, torch: str | None, gradients: bool | None = None
    ) -> None:
        self._fuser, self._torch = fuser, torch
        self._without = {"aten::batch_norm"} if fuser == "nnc" and gradients else set()
        self._programs = [one for one in report.programs if one.specialisation == 1]
        self._graphs = [graph_of(program) for program in self._programs]
        self._details = [row.reason.detail for row in report.unfused]
        position: dict[int | None, int] = {}
        for number, row in enumerate(report.unfused):
            if row.index is not None:
                position[row.index] = number
        self._rows = [[position.get(node.row) for node in program.nodes] for program in self._programs]
        nodes: dict[int, int] = {}
        for of in self._rows:
            for at in of:
                if at is not None:
                    nodes[at] = nodes.get(at, 0) + 1
        self._inside = {group.id: group.ops for group in report.groups}
        self._many: dict[tuple[str, ...], bool] = {}
        """Operators of a node -> whether one of them works on many elements at once."""
        self._times = {at: max(1, report.unfused[at].count // number) for at, number in nodes.items()}

    def with_changes(self, changed: AbstractSet[int]) -> list[WouldBeGroup]:
        """The groups in which operators of these rows of ``report.unfused`` would be, if these and nothing
        else could be in groups. A plan that several executors made is counted for each."""
        found = []
        for graph, rows in zip(self._graphs, self._rows):
            if changed.isdisjoint(row for row in rows if row is not None):
                continue
            free = [self._free(node, row, changed) for node, row in zip(graph.nodes, rows)]
            self._keep_views_that_must_stay(graph, free)
            for members in would_fuse(graph, free, self._limits(graph, free, rows, changed)):
                one = self._group(graph, rows, members, changed)
                if one is not None:
                    found += [one] * min(self._times[row] for row in one.changed)
        return found

    def _limits(
        self,
        graph: Graph[ProgramNode],
        free: Sequence[bool],
        rows: Sequence[int | None],
        changed: AbstractSet[int],
    ) -> Limits:
        """What keeps free nodes apart beside the ways between them."""
        nodes = graph.nodes
        details = [self._details[row] if row is not None else None for row in rows]
        inside = _blocks(graph, rows, changed)
        order = order_of(graph, free)

        def apart(maker: int, taker: int) -> bool:
            first, last = nodes[maker], nodes[taker]
            # The run did not join two groups of one block; those of two, the branch between them kept apart.
            groups_of_block = first.kind == last.kind == "group" and first.inside == last.inside
            return groups_of_block or _waits_for_number(details[maker], details[taker])

        return Limits(
            inside,
            alone={index for index, node in enumerate(nodes) if self._one_a_group(node)},
            pulled_in={index for index, node in enumerate(nodes) if self._is_pulled_in(node)},
            apart=apart,
            takes=order.takes,
            waits=order.waits,
            # What never ran goes with its branch.
            skipped={
                index
                for index, node in enumerate(nodes)
                if node.reason == "FD232" and inside[index] != node.inside
            },
        )

    def _takes(self, op: str) -> bool:
        if self._fuser is None:  # what both of the usual ones take
            return taken_by(op, "nvfuser") and taken_by(op, "nnc")
        return op not in self._without and taken_by(op, self._fuser, self._torch)

    def _free(self, node: ProgramNode, row: int | None, changed: AbstractSet[int]) -> bool:
        """Whether it can be in a group, as far as it is known."""
        if node.kind == "group" or (row is not None and row in changed):
            return True
        if row is None or node.reason in FOR_ITSELF or node.reason in NEVER_LOOKED_AT:
            return False
        if node.op in VIEWS:
            return self._takes(node.op)
        if node.op in NOTHING_TO_GAIN or node.op in LIBRARY or takes_seldom(node.op, self._fuser):
            return False
        return self._takes(node.op) and not (node.reason == "FD231" and node.op not in WITH_FORMULA)

    def _keep_views_that_must_stay(self, graph: Graph[ProgramNode], free: list[bool]) -> None:
        """A view, which the fuser does not take, goes to the edge of what comes before or after it only where
        that works on each element by itself. One that stays is not asked again, and of the others only those
        beside it."""
        views = {
            place
            for place, node in enumerate(graph.nodes)
            if free[place] and _is_view(node) and not self._takes(node.op)
        }
        beside = (graph.before, graph.after)
        can = {place: [[one for one in ends[place] if free[one]] for ends in beside] for place in views}
        # Of each side of a view: how many nodes there can be in a group, and how many of them work on many
        # elements.
        free_beside = {place: [len(side) for side in both] for place, both in can.items()}
        many_beside = {
            place: [sum(self._of_many_elements(graph.nodes[one]) for one in side) for side in both]
            for place, both in can.items()
        }
        asked = set(views)
        while asked:
            staying = [one for one in asked if not all(free_beside[one]) or all(many_beside[one])]
            views.difference_update(staying)
            asked = set()
            for place in staying:
                free[place] = False
                many = self._of_many_elements(graph.nodes[place])
                for side, ends in enumerate(beside):
                    for one in views.intersection(ends[place]):
                        free_beside[one][1 - side] -= 1
                        many_beside[one][1 - side] -= many
                        asked.add(one)

    def _one_a_group(self, node: ProgramNode) -> bool:
        """Whether no group has two of its kind: a partition of oneDNN Graph holds one convolution or product
        of matrices, and what comes after it."""
        ops = self._inside.get(node.group or "", (node.op,))
        return self._fuser == "onednn" and not LIBRARY.isdisjoint(ops)

    def _is_pulled_in(self, node: ProgramNode) -> bool:
        return self._fuser == "nnc" and node.op in nnc.PULLED_IN

    def _of_many_elements(self, node: ProgramNode) -> bool:
        ops = self._inside.get(node.group or "", (node.op,))
        if ops not in self._many:
            self._many[ops] = not ELEMENTWISE.issuperset(ops)
        return self._many[ops]

    def _group(
        self,
        graph: Graph[ProgramNode],
        rows: Sequence[int | None],
        members: Sequence[int],
        changed: AbstractSet[int],
    ) -> WouldBeGroup | None:
        """The group of these nodes; None without a change in it, or of one operator."""
        mine = frozenset(row for row in (rows[i] for i in members) if row is not None)
        if mine.isdisjoint(changed):
            return None
        loose = [i for i in members if graph.nodes[i].kind != "group"]
        ops = tuple(
            graph.nodes[i].op
            for i in loose
            if graph.nodes[i].kind == "operator"
            and (
                graph.nodes[i].op not in _COMPUTES_NOTHING
                or (rows[i] in changed and not _is_view(graph.nodes[i]))
            )
        )
        names = [graph.nodes[i].group for i in members if graph.nodes[i].kind == "group"]
        groups = tuple(dict.fromkeys(name for name in names if name is not None))
        if len(ops) + len(names) < 2:
            return None
        saved = graph.kept_in_registers(members, views_of(graph))
        return WouldBeGroup(mine & changed, mine, ops, groups, len(names), saved)


def _is_view(node: ProgramNode) -> bool:
    return node.op in VIEWS or node.op in PERMUTATIONS  # free only where it is moved


def views_of(graph: Graph[ProgramNode]) -> set[int]:
    """The nodes that move no data where they are at the edge of a group."""
    return {index for index, node in enumerate(graph.nodes) if _is_view(node)}


def _blocks(
    graph: Graph[ProgramNode], rows: Sequence[int | None], changed: AbstractSet[int]
) -> list[int | None]:
    """The block that each node stands in, without the branches that a change takes away."""
    nodes = graph.nodes
    blocks: list[int | None] = []
    for inside in graph.inside:
        while inside is not None and nodes[inside].kind == "control" and rows[inside] in changed:
            inside = nodes[inside].inside
        blocks.append(inside)
    return blocks


def _waits_for_number(first: Detail | None, last: Detail | None) -> bool:
    """Whether a number that the second operator takes is computed of the result of the first: by the reason
    of one of them, as numbers are on no edge."""
    if isinstance(last, Detour) and last.by == "number" and last.last is None:
        return True
    return isinstance(first, Detour) and first.by == "number" and first.first is None
