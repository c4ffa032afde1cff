"""Replaces differentiable graphs that hold a single group by this group, and those
that begin or end with a single operator by this operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.parsers.ir.types import TensorType, parse_type


def regions_as_groups(
    report: Report, moved: AbstractSet[int] | None = None
) -> Report:
    """Return the report with differentiable graphs that are one group each shown as
    these groups.

    torch ends a graph at a view or a print, and would make one graph of both sides
    without it (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp). Beside an
    operator that is removed, a graph that begins or ends with a single group or
    operator counts as that: a matrix product at its other end stays where it is.

    Args:
        moved: rows of ``report.unfused`` that are moved or removed: only graphs
            beside their operators are replaced. None: all.
    """
    ends = {}
    for program in report.programs:
        if not program.cut and not program.edges_left_out:
            ends[program.id] = _Ends(program)
    rows = frozenset(moved or ())
    if not any(end.first or end.last for end in ends.values()) or (
        moved is not None and not rows
    ):
        return report
    programs = []
    for program in report.programs:
        every = range(len(program.nodes))
        if moved is not None:
            sides = _sides_of(program, rows)
        else:
            sides = dict.fromkeys(every, "")
        programs.append(_with_groups(program, sides, ends, rows))
    return replace(report, programs=tuple(programs))


def _with_groups(
    program: Program,
    sides: Mapping[int, str],
    ends: Mapping[str, _Ends],
    rows: AbstractSet[int],
) -> Program:
    """Return a plan with its differentiable graphs replaced by groups.

    Args:
        sides: node index -> its side of the moved operators.
        ends: program of a differentiable graph -> the nodes at its ends.
        rows: of the moved operators.
    """
    nodes, edges_of = list(program.nodes), _edges_of_nodes(program)
    gone: set[_Edge] = set()
    for index, side in sides.items():
        end = ends.get(nodes[index].program or "")
        node = end.towards(side) if end is not None else None
        if nodes[index].kind != "region" or end is None or node is None:
            continue
        nodes[index] = _in_its_place(node, nodes[index])
        own = edges_of.get(index, ())
        gone.update(edge for edge in own if not _fits(edge, nodes))
        if side == "both" and end.first != end.last:
            gone.update(
                _at_other_end(
                    own, index, nodes, rows, far=1 if node is end.last else 0
                )
            )
    return replace(
        program,
        nodes=tuple(nodes),
        edges=tuple(edge for edge in program.edges if edge not in gone),
    )


def _edges_of_nodes(program: Program) -> Mapping[int, Sequence[_Edge]]:
    found: dict[int, list[_Edge]] = {}
    for edge in program.edges:
        for index in dict.fromkeys(edge):
            found.setdefault(index, []).append(edge)
    return found


def _in_its_place(node: ProgramNode, region: ProgramNode) -> ProgramNode:
    """Return the node that takes a region's position in the plan around it: a
    group, or an operator."""
    if node.kind == "group":
        return replace(region, kind="group", group=node.group)
    return replace(
        node, inside=region.inside, first=None, first_result=None, takes=()
    )


def _fits(edge: tuple[int, int], nodes: Sequence[ProgramNode]) -> bool:
    """True if the second node may take the result of the first, by the known dtypes
    and sizes. If not, the edge belongs to another node of the differentiable graph
    than the one at its end."""
    made, taken = (
        _shapes(types) for types in (nodes[edge[0]].outputs, nodes[edge[1]].inputs)
    )
    return made is None or taken is None or not made.isdisjoint(taken)


def _shapes(types: Sequence[str]) -> set[tuple[str, tuple[int, ...]]] | None:
    """Return the dtypes and sizes of tensors; None if those of a tensor are not
    known, and without tensors."""
    found = set()
    for text in types:
        one = parse_type(text)
        if isinstance(one, TensorType):
            if one.dtype_and_sizes is None:
                return None
            found.add(one.dtype_and_sizes)
    return found or None


_Edge = tuple[int, int]


def _at_other_end(
    edges: Iterable[_Edge],
    index: int,
    nodes: Sequence[ProgramNode],
    rows: AbstractSet[int],
    far: int,
) -> Iterator[_Edge]:
    """Return the edges between a region and moved operators at its other end, where
    nothing joins them.

    Args:
        far: the position of the region in an edge there: 1 if it takes, 0 if it
            makes.
    """
    return (
        edge
        for edge in edges
        if edge[far] == index and nodes[edge[1 - far]].row in rows
    )


class _Ends:
    """The only node that a plan begins with, and the only one that it ends with: a
    group or an operator; None if there are several, or another kind of node."""

    def __init__(self, program: Program) -> None:
        takes = {b for _, b in program.edges}
        taken = {a for a, _ in program.edges}
        self._alone = len(program.nodes) == 1
        self.first = self._only(program, takes)
        self.last = self._only(program, taken)

    @staticmethod
    def _only(program: Program, others: AbstractSet[int]) -> ProgramNode | None:
        found = []
        for index, node in enumerate(program.nodes):
            if index not in others:
                found.append(node)
        if len(found) == 1 and found[0].kind in ("group", "operator"):
            return found[0]
        return None

    def towards(self, side: str) -> ProgramNode | None:
        """Return the node that the graph counts as, seen from the moved operators.

        Args:
            side: "before" the moved operators, "after" them, "both"; or neither,
                and then only a graph of a single node counts.
        """
        if side == "both":
            return _the_same(self.first, self.last)
        if side == "before":
            return self.last
        if side == "after" or self._alone:
            return self.first
        return None


def _the_same(
    first: ProgramNode | None, last: ProgramNode | None
) -> ProgramNode | None:
    """Return the node at both ends, or the only one given; None if they differ."""
    if first is None or last is None:
        return first or last
    if (first.group, first.rows) == (last.group, last.rows):
        return last
    return None


def _sides_of(program: Program, rows: AbstractSet[int]) -> dict[int, str]:
    """Map each neighbour of the rows' operators to its side of them. Of a branch
    that is removed, the nodes on both sides of its border are neighbours."""
    mine = set()
    for index, node in enumerate(program.nodes):
        if node.row in rows:
            mine.add(index)
    branch = _branches(program, mine)
    sides: dict[int, str] = {}
    for a, b in program.edges:
        crosses = branch[a] != branch[b]
        if a not in mine and (b in mine or crosses):
            sides[a] = "both" if sides.get(a) in ("after", "both") else "before"
        if b not in mine and (a in mine or crosses):
            sides[b] = "both" if sides.get(b) in ("before", "both") else "after"
    return sides


def _branches(program: Program, mine: AbstractSet[int]) -> Sequence[int | None]:
    """Return for each node the innermost removed branch around it."""
    found: list[int | None] = []
    for node in program.nodes:
        around = node.inside
        found.append(around if around is None or around in mine else found[around])
    return found
