"""Differentiable graphs that are one group each, as that group; those that end in
one operator, as that operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.parsers.ir.types import TensorType, parse_type


def regions_as_groups(
    report: Report, moved: AbstractSet[int] | None = None
) -> Report:
    """The report with differentiable graphs that are one group each as these
    groups: torch ends a graph at a view or a print, and makes one graph of both
    where it goes (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp). Beside what
    goes, a graph that ends in one group or operator alone, or begins with one, is
    that too: a matrix product at its other side stays where it is.

    Args: moved: rows of ``report.unfused``: only graphs beside their operators.
        None: all.
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
        sides = (
            _sides_of(program, rows)
            if moved is not None
            else dict.fromkeys(every, "")
        )
        programs.append(_with_groups(program, sides, ends, rows))
    return replace(report, programs=tuple(programs))


def _with_groups(
    program: Program,
    sides: Mapping[int, str],
    ends: Mapping[str, _Ends],
    rows: AbstractSet[int],
) -> Program:
    """A plan with its differentiable graphs as groups.

    Args:
        sides: node index -> on which side of what goes it stands.
        ends: program of a differentiable graph -> what stands at its ends.
        rows: of what goes.
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
    """A node of a differentiable graph as the node of the plan around that the
    graph is."""
    if node.kind == "group":
        return replace(region, kind="group", group=node.group)
    return replace(
        node, inside=region.inside, first=None, first_result=None, takes=()
    )


def _fits(edge: tuple[int, int], nodes: Sequence[ProgramNode]) -> bool:
    """Whether the one node may take what the other makes, by the dtypes and sizes
    that are known: another node of a differentiable graph takes it, or makes it,
    where the node at its end does not."""
    made, taken = (
        _shapes(types) for types in (nodes[edge[0]].outputs, nodes[edge[1]].inputs)
    )
    return made is None or taken is None or not made.isdisjoint(taken)


def _shapes(types: Sequence[str]) -> set[tuple[str, tuple[int, ...]]] | None:
    """Dtypes and sizes of tensors; None where those of one are not known, and
    without tensors."""
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
    """The edges between a region and what goes at its other end, where nothing
    joins it.

    Args: far: the end of an edge that the region is there: 1 where it takes, 0
        where it makes.
    """
    return (
        edge
        for edge in edges
        if edge[far] == index and nodes[edge[1 - far]].row in rows
    )


class _Ends:
    """What a plan begins with, and what it ends in, where nothing else is at that
    end: a group, or an operator."""

    def __init__(self, program: Program) -> None:
        takes = {b for _, b in program.edges}
        taken = {a for a, _ in program.edges}
        self._alone = len(program.nodes) == 1
        self.first = self._only(program, takes)
        self.last = self._only(program, taken)

    @staticmethod
    def _only(program: Program, others: AbstractSet[int]) -> ProgramNode | None:
        found = [
            node for index, node in enumerate(program.nodes) if index not in others
        ]
        return (
            found[0]
            if len(found) == 1 and found[0].kind in ("group", "operator")
            else None
        )

    def towards(self, side: str) -> ProgramNode | None:
        """What it is, seen from what goes.

        Args: side: "before" what goes, "after" it, "both"; or neither, where only
            the whole graph counts.
        """
        if side == "both":
            return _the_same(self.first, self.last)
        if side == "before":
            return self.last
        return self.first if side == "after" or self._alone else None


def _the_same(
    first: ProgramNode | None, last: ProgramNode | None
) -> ProgramNode | None:
    """The node at both ends, or at the only one; None of two that differ."""
    if first is None or last is None:
        return first or last
    return last if (first.group, first.rows) == (last.group, last.rows) else None


def _sides_of(program: Program, rows: AbstractSet[int]) -> dict[int, str]:
    """What stands beside the operators of rows -> on which side of them."""
    mine = {index for index, node in enumerate(program.nodes) if node.row in rows}
    sides: dict[int, str] = {}
    for a, b in program.edges:
        if b in mine and a not in mine:
            sides[a] = "both" if sides.get(a) in ("after", "both") else "before"
        elif a in mine and b not in mine:
            sides[b] = "both" if sides.get(b) in ("before", "both") else "after"
    return sides
