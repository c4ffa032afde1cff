"""Groups of a plan that are parted by more than operators outside groups: by what the program prints between
them, by a number that is waited for, by the end of a differentiable graph.

NNC takes no operator past a print or a warning (``printed_later.py``), and a differentiable graph ends
there, which the log does not show as an operator outside groups: it is found in the user's lines between the
lines of two groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.diagnosis.candidate import Candidate
from fusiondoc.diagnosis.lines_of_changes import lines_printed_later
from fusiondoc.diagnosis.rules import RunFacts, in_package
from fusiondoc.diagnosis.unlocked import WouldBeGroup, views_of
from fusiondoc.graph import graph_of
from fusiondoc.model.change_plan import ChangeKind
from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.model.source import Source

Pair = tuple[Program, int, int]
"""Two groups of a program, by the places of their nodes: the second takes what the first makes."""


def prints_between_groups(report: Report, run: RunFacts) -> Iterator[Candidate]:
    """One for each function in which something printed parts groups. A trace holds no prints."""
    if run.fuser != "nnc" or run.traced or report.texts is None or len(report.groups) < 2:
        return
    by_file: dict[str, list[tuple[Pair, tuple[int, int]]]] = {}
    groups = {group.id: group for group in report.groups}
    for pair in _pairs(regions_as_groups(report)):
        lines = _lines_between(pair, groups)
        if lines is not None:
            by_file.setdefault(lines[0], []).append((pair, lines[1]))
    for file, pairs in by_file.items():
        text = report.texts.source(file) if not in_package(file) else None
        if text is None:
            continue
        pairs = [(pair, lines) for pair, lines in pairs if not _waits_for_number(text, lines)]
        for one in lines_printed_later(text, file, [lines for _, lines in pairs]):
            yield Candidate(
                ChangeKind.SPLIT,
                "Print after what is computed",
                (),
                one.before,
                one.after,
                where=f"{file}:{one.edits[0].line}",
                edits=one.edits,
                joins=tuple(_joined([pairs[number][0] for number in sorted(one.pairs)])),
            )


_NUMBER = re.compile(r"\b(?:float|int|bool)\(|\.item\(|\.tolist\(")


def _waits_for_number(text: str, lines: tuple[int, int]) -> bool:
    """Whether a number is made of a tensor there: what takes it waits for it, and numbers are on no edge."""
    return any(_NUMBER.search(line) for line in text.splitlines()[lines[0] - 1 : lines[1]])


def with_numbers(report: Report, found: Sequence[Candidate]) -> Report:
    """The report with what goes from operator to operator as a number: kept as a tensor, it is waited for
    as well."""
    kept = [one for one in found if one.kind is ChangeKind.NUMBER]
    if not kept:
        return report
    groups = {group.id: group for group in report.groups}
    programs = []
    for program in report.programs:
        lines = [_lines_of(node, groups) for node in program.nodes]
        more = []
        for one in kept:
            read = {f"{edit.file}:{edit.line}" for edit in one.edits}
            takers = [i for i, node in enumerate(program.nodes) if node.row in one.rows]
            more += [(i, taker) for taker in takers for i in range(taker) if lines[i] & read]
        programs.append(replace(program, edges=tuple(dict.fromkeys([*program.edges, *more]))))
    return replace(report, programs=tuple(programs))


def _lines_of(node: ProgramNode, groups: Mapping[str, Group]) -> set[str]:
    group = groups.get(node.group or "")
    found = [one.user_source for one in group.nodes] if group is not None else [node.user_source]
    places = [Source.parse(one) for one in found]
    return {place.at_line for place in places if place is not None}


def _pairs(report: Report) -> Iterator[Pair]:
    """Groups of which one takes what the other makes, in the same block, and nothing else stands between."""
    for program in report.programs:
        if program.specialisation > 1 or program.cut:
            continue
        graph = graph_of(program)
        for a, b in program.edges:
            one, other = program.nodes[a], program.nodes[b]
            both = one.kind == other.kind == "group" and one.inside == other.inside
            if both and graph.detour(a, b) is None:
                yield program, a, b


def _lines_between(pair: Pair, groups: Mapping[str, Group]) -> tuple[str, tuple[int, int]] | None:
    """The file of both groups, the last line of the first and the first line of the second."""
    program, a, b = pair
    places = []
    for node in (program.nodes[a], program.nodes[b]):
        group = groups.get(node.group or "")
        found = [Source.parse(one.user_source) for one in group.nodes] if group is not None else []
        if not found or any(one is None or not one.has_file for one in found):
            return None
        places.append([one for one in found if one is not None])
    before, after = places
    if len({one.file for one in (*before, *after)}) != 1:
        return None
    last, first = max(one.line for one in before), min(one.line for one in after)
    return (before[0].file, (last, first)) if last < first else None


def _joined(pairs: Sequence[Pair]) -> Iterator[WouldBeGroup]:
    """The groups that the pairs become, those of one program that hang together as one."""
    parts: list[tuple[Program, set[int]]] = []
    for program, a, b in pairs:
        mine = {a, b}
        touching = [one for one in parts if one[0] is program and one[1] & mine]
        parts = [one for one in parts if all(one is not other for other in touching)]
        parts.append((program, mine.union(*(one[1] for one in touching))))
    for program, members in parts:
        names = [program.nodes[i].group for i in sorted(members)]
        groups = tuple(dict.fromkeys(name for name in names if name is not None))
        graph = graph_of(program)
        saved = graph.kept_in_registers(sorted(members), views_of(graph))
        yield WouldBeGroup(frozenset(), frozenset(), (), groups, len(members), saved)


def regions_as_groups(report: Report, moved: AbstractSet[int] | None = None) -> Report:
    """The report with differentiable graphs that are one group each as these groups: torch ends a graph at a
    view or a print, and makes one graph of both where it goes
    (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp). Beside what goes, a graph that ends in one group
    alone, or begins with one, is that group too: a matrix product at its other side stays where it is.

    Args:
        moved: rows of ``report.unfused``: only graphs beside their operators. None: all.
    """
    ends = {one.id: _Ends(one) for one in report.programs if not one.cut and not one.edges_left_out}
    rows = frozenset(moved or ())
    if not any(one.first or one.last for one in ends.values()) or (moved is not None and not rows):
        return report
    programs = []
    for program in report.programs:
        nodes, edges = list(program.nodes), program.edges
        sides = _sides_of(program, rows) if moved is not None else dict.fromkeys(range(len(nodes)), "")
        for place, side in sides.items():
            end = ends.get(nodes[place].program or "")
            if nodes[place].kind != "region" or end is None or (group := end.towards(side)) is None:
                continue
            nodes[place] = replace(nodes[place], kind="group", group=group)
            if side == "both" and end.first != end.last:  # nothing joins it at its other end
                far = 1 if group == end.last else 0
                edges = tuple(
                    edge for edge in edges if edge[far] != place or nodes[edge[1 - far]].row not in rows
                )
        programs.append(replace(program, nodes=tuple(nodes), edges=edges))
    return replace(report, programs=tuple(programs))


class _Ends:
    """The group that a plan begins with, and that it ends in, where nothing else is at that end."""

    def __init__(self, program: Program) -> None:
        takes = {b for _, b in program.edges}
        taken = {a for a, _ in program.edges}
        self._alone = len(program.nodes) == 1
        self.first = self._only(program, takes)
        self.last = self._only(program, taken)

    @staticmethod
    def _only(program: Program, others: AbstractSet[int]) -> str | None:
        found = [node for place, node in enumerate(program.nodes) if place not in others]
        return found[0].group if len(found) == 1 else None

    def towards(self, side: str) -> str | None:
        """Args:
        side: "before" what goes, "after" it, "both"; or neither, where only the whole graph counts.
        """
        if side == "both":
            both = {self.first, self.last} - {None}
            return both.pop() if len(both) == 1 else None
        if side == "before":
            return self.last
        return self.first if side == "after" or self._alone else None


def _sides_of(program: Program, rows: AbstractSet[int]) -> dict[int, str]:
    """What stands beside the operators of rows -> on which side of them."""
    mine = {place for place, node in enumerate(program.nodes) if node.row in rows}
    sides: dict[int, str] = {}
    for a, b in program.edges:
        if b in mine and a not in mine:
            sides[a] = "both" if sides.get(a) in ("after", "both") else "before"
        elif a in mine and b not in mine:
            sides[b] = "both" if sides.get(b) in ("before", "both") else "after"
    return sides
