"""What a change lets fuse: the plans of a run as they would be if some operators could be in groups.

As in ``kept_out`` of ``reasons.py``, two operators next to each other that the fuser takes, views left aside,
make a group; here operators that a change makes fusible are taken to be so.

What fusing the unfused operators could save: the groups that they would be, and what these must move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from fusiondoc.diagnosis.changed_memory import Sides, order_of
from fusiondoc.diagnosis.operators import (
    LIBRARY,
    OF_MANY_ELEMENTS,
    PERMUTATIONS,
    VIEWS,
    WITH_FORMULA,
    is_fusible,
    taken_by,
)
from fusiondoc.diagnosis.reasons import FOR_ITSELF, NEVER_LOOKED_AT, NNC_SELDOM
from fusiondoc.diagnosis.surroundings import NOTHING_TO_GAIN
from fusiondoc.model import dataclass
from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.parsers.ir.types import bytes_once


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
        sides = Sides(program)
        for members in _components(program, rows):
            spent = 0.0
            for node in members:
                row = rows[node]
                assert row is not None
                spent += ms.get(row, 0.0) / report.unfused[row].count
            moved = _moved(sides, members)
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


def _fusible_row(node: ProgramNode) -> int | None:
    """The row of an operator that some fuser takes; None for all other nodes."""
    if node.kind != "operator" or node.op in LIBRARY or not is_fusible(node.op):
        return None
    return node.row


def _components(program: Program, rows: Sequence[int | None]) -> list[list[int]]:
    """Nodes with a row that a tensor connects, in the same branch or region."""
    parent = list(range(len(program.nodes)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in program.edges:
        together = program.nodes[a].inside == program.nodes[b].inside
        if together and rows[a] is not None and rows[b] is not None:
            parent[root(a)] = root(b)
    found: dict[int, list[int]] = {}
    for node, row in enumerate(rows):
        if row is not None:
            found.setdefault(root(node), []).append(node)
    return list(found.values())


def _moved(sides: Sides, members: Sequence[int]) -> int | None:
    """Bytes of inputs and outputs of the group that the nodes would be; None where a shape is not known."""
    mine = set(members)
    moved: list[str] = []
    seen: set[int] = set()
    for node in members:
        types = list(sides.nodes[node].inputs)
        for before in sides.before.get(node, ()):
            made = next((one for one in sides.nodes[before].outputs if one in types), None)
            if made is None:
                continue
            if before in mine or before in seen:
                types.remove(made)
            seen.add(before)
        moved += types
        after = sides.after.get(node, ())
        if not after or any(one not in mine for one in after):
            moved += sides.nodes[node].outputs
    sizes = [bytes_once(one) for one in moved if one != "Tensor?"]
    if any(size is None for size in sizes):
        return None
    return sum(size for size in sizes if size is not None)


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
        self._sides = [Sides(program) for program in self._programs]
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
        for sides, rows in zip(self._sides, self._rows):
            program = sides.program
            if changed.isdisjoint(row for row in rows if row is not None):
                continue
            free = [self._free(node, row, changed) for node, row in zip(program.nodes, rows)]
            self._keep_views_that_must_stay(sides, free)
            alone = [self._one_a_group(node) for node in program.nodes]
            for members in _connected(sides, free, _places(program, rows, changed), alone):
                one = self._group(sides, rows, members, changed)
                if one is not None:
                    found += [one] * min(self._times[row] for row in one.changed)
        return found

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
        if (
            node.op in NOTHING_TO_GAIN
            or node.op in LIBRARY
            or (self._fuser == "nnc" and node.op in NNC_SELDOM)
        ):
            return False
        return self._takes(node.op) and not (node.reason == "FD231" and node.op not in WITH_FORMULA)

    def _keep_views_that_must_stay(self, sides: Sides, free: list[bool]) -> None:
        """A view, which the fuser does not take, goes to the edge of what comes before or after it only where
        that works on each element by itself. One that stays is not asked again, and of the others only those
        beside it."""
        views = {
            place
            for place, node in enumerate(sides.nodes)
            if free[place] and _is_view(node) and not self._takes(node.op)
        }
        beside = (sides.before, sides.after)
        can = {
            place: [[one for one in ends.get(place, ()) if free[one]] for ends in beside] for place in views
        }
        # Of each side of a view: how many nodes there can be in a group, and how many of them work on many
        # elements.
        free_beside = {place: [len(side) for side in both] for place, both in can.items()}
        many_beside = {
            place: [sum(self._of_many_elements(sides.nodes[one]) for one in side) for side in both]
            for place, both in can.items()
        }
        asked = set(views)
        while asked:
            staying = [one for one in asked if not all(free_beside[one]) or all(many_beside[one])]
            views.difference_update(staying)
            asked = set()
            for place in staying:
                free[place] = False
                many = self._of_many_elements(sides.nodes[place])
                for side, ends in enumerate(beside):
                    for one in views.intersection(ends.get(place, ())):
                        free_beside[one][1 - side] -= 1
                        many_beside[one][1 - side] -= many
                        asked.add(one)

    def _one_a_group(self, node: ProgramNode) -> bool:
        """Whether no group has two of its kind: a partition of oneDNN Graph holds one convolution or product
        of matrices, and what comes after it."""
        ops = self._inside.get(node.group or "", (node.op,))
        return self._fuser == "onednn" and not LIBRARY.isdisjoint(ops)

    def _of_many_elements(self, node: ProgramNode) -> bool:
        ops = self._inside.get(node.group or "", (node.op,))
        if ops not in self._many:
            self._many[ops] = any(map(OF_MANY_ELEMENTS.search, ops))
        return self._many[ops]

    def _group(
        self,
        sides: Sides,
        rows: Sequence[int | None],
        members: Sequence[int],
        changed: AbstractSet[int],
    ) -> WouldBeGroup | None:
        """The group of these nodes; None without a change in it, or of one operator."""
        mine = frozenset(row for row in (rows[i] for i in members) if row is not None)
        if mine.isdisjoint(changed):
            return None
        loose = [i for i in members if sides.nodes[i].kind != "group"]
        ops = tuple(
            sides.nodes[i].op
            for i in loose
            if sides.nodes[i].kind == "operator"
            and (
                sides.nodes[i].op not in _COMPUTES_NOTHING
                or (rows[i] in changed and not _is_view(sides.nodes[i]))
            )
        )
        names = [sides.nodes[i].group for i in members if sides.nodes[i].kind == "group"]
        groups = tuple(dict.fromkeys(name for name in names if name is not None))
        if len(ops) + len(names) < 2:
            return None
        return WouldBeGroup(mine & changed, mine, ops, groups, len(names), bytes_between(sides, members))


def _is_view(node: ProgramNode) -> bool:
    return node.op in VIEWS or node.op in PERMUTATIONS  # free only where it is moved


def _places(program: Program, rows: Sequence[int | None], changed: AbstractSet[int]) -> list[int | None]:
    """What each node stands in, without the branches that a change takes away."""
    places: list[int | None] = []
    for node in program.nodes:
        inside = node.inside
        while inside is not None and program.nodes[inside].kind == "control" and rows[inside] in changed:
            inside = program.nodes[inside].inside
        places.append(inside)
    return places


def _connected(
    sides: Sides, free: Sequence[bool], places: Sequence[int | None], alone: Sequence[bool]
) -> list[list[int]]:
    """Free nodes that a tensor connects, in the same branch or region, as a fusion pass joins them: in the
    order of the plan, and never so that a group would have to wait for its own result (a convolution between
    two of its operators).

    ``alone``: nodes of which a group has one at most.

    Sets of groups are bits of a number here: a plan may have as many groups as nodes, and each node may be
    behind all of them.
    """
    groups = _Joined()
    group_of: dict[int, int] = {}
    reached: dict[int, int] = {}
    """Node in no group -> the groups that have to be done before it, as bits."""
    changed = order_of(sides, free)
    for place in _as_run(sides.program):
        node = sides.nodes[place]
        if node.reason == "FD232" and places[place] != node.inside:
            continue  # never ran: it goes with its branch
        direct: list[int] = []
        around = 0
        for one in (*sides.before.get(place, ()), *changed.takes.get(place, ())):
            if one not in group_of:
                around |= reached.get(one, 0)
                continue
            group = groups.now(group_of[one])
            around |= groups.behind[group]
            # The run did not join two groups of one block; those of two, the branch between them kept apart.
            fused = node.kind == "group" and sides.nodes[one].kind == "group"
            apart = (fused and node.inside == sides.nodes[one].inside) or _waits_for_number(
                sides.nodes[one], node
            )
            if free[place] and not apart and places[one] == places[place]:
                direct.append(group)
            else:
                around |= groups.bits[group]
        for one in changed.waits.get(place, ()):
            if one in group_of:
                group = groups.now(group_of[one])
                around |= groups.behind[group] | groups.bits[group]
            else:
                around |= reached.get(one, 0)
        if not free[place]:
            reached[place] = around
            continue
        joined: list[int] = []
        has_one = alone[place]
        for group in dict.fromkeys(direct):
            if has_one and group in groups.alone:
                around |= groups.bits[group]
            elif not around & groups.bits[group]:
                joined.append(group)
                has_one = has_one or group in groups.alone
        group_of[place] = groups.add(place, joined, around)
        if has_one:
            groups.alone.add(group_of[place])
    return [sorted(members) for members in groups.members.values()]


def _waits_for_number(first: ProgramNode, last: ProgramNode) -> bool:
    """Whether a number that the second takes is computed of the result of the first: by one of their reasons
    (``surroundings.py``), as numbers are on no edge."""
    of_last, of_first = last.reason_text or "", first.reason_text or ""
    return of_last.startswith("a number that this operator takes") or (
        of_first.startswith("a number that ") and "of the result of this operator" in of_first
    )


class _Joined:
    """Groups by their first nodes."""

    def __init__(self) -> None:
        self.members: dict[int, list[int]] = {}
        self.bits: dict[int, int] = {}
        """Group -> a bit for itself and for each that became part of it."""
        self.behind: dict[int, int] = {}
        """Group -> the bits of groups that have to be done before it."""
        self.alone: set[int] = set()
        """Those with a node of which a group has one at most."""
        self._became: dict[int, int] = {}

    def now(self, group: int) -> int:
        """The group that it is part of."""
        passed = []
        while group in self._became:
            passed.append(group)
            group = self._became[group]
        for one in passed:
            self._became[one] = group
        return group

    def add(self, place: int, joined: Sequence[int], behind: int) -> int:
        """A node, as a group or in these groups, which become one: that one."""
        mine = joined[0] if joined else place
        if not joined:
            self.members[mine], self.bits[mine], self.behind[mine] = [], 1 << len(self.bits), 0
        self.members[mine].append(place)
        self.behind[mine] |= behind
        for other in joined[1:]:
            few, many = sorted((self.members[mine], self.members.pop(other)), key=len)
            many += few
            self.members[mine] = many
            self.bits[mine] |= self.bits[other]
            self.behind[mine] |= self.behind[other]
            self._became[other] = mine
        return mine


def _as_run(program: Program) -> list[int]:
    """The nodes in their order, control flow and regions after what stands in them: their results are made
    by it."""
    order: list[int] = []
    around: list[int] = []
    for place, node in enumerate(program.nodes):
        while around and node.inside != around[-1]:
            order.append(around.pop())
        (order if node.kind in ("group", "operator") else around).append(place)
    return order + around[::-1]


def bytes_between(sides: Sides, members: Sequence[int]) -> int | None:
    """Bytes of the tensors between the nodes: each is no longer read, nor written where nothing else reads
    it."""
    mine = set(members)
    sizes: list[int | None] = []
    for made in mine:
        after = sides.after.get(made, ())
        # A view reads nothing: what reads its result does.
        inside = [node for node in after if node in mine and not _is_view(sides.nodes[node])]
        if not inside:
            continue
        one = bytes_once(_between(sides.nodes[made], sides.nodes[inside[0]]))
        elsewhere = any(node not in mine for node in after)
        sizes.append(None if one is None else one * (len(inside) + (not elsewhere)))
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _between(made: ProgramNode, reads: ProgramNode) -> str:
    """The type of the tensor that goes from one node to the other, as far as it is known."""
    shared = [one for one in made.outputs if one in reads.inputs]
    told = shared or [one for one in (*made.outputs, *reads.inputs[:1]) if one.endswith(")")]
    return told[0] if told else "Tensor"
