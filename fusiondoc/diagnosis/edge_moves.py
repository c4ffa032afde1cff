"""Operators between groups that only place elements anew, and what is around them: whether they can go to the
edge, so that the groups become one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import AbstractSet

from fusiondoc.model.report import Program, Report, Unfused

OF_MANY_ELEMENTS = re.compile(
    r"norm|softmax|sum|mean|var|std|a?max$|a?min$|prod|any|all|sort|scatter|gather|prim::"
)
"""Operators, by parts of their names, whose results are no function of single elements; control flow."""


def before_one_tensor(row: Unfused, report: Report) -> bool:
    """Whether nothing takes the operator's result but a group of this one tensor that works on each element
    by itself: another tensor there would have to be placed anew too."""
    groups = {group.id: group for group in report.groups}
    for program in report.programs:
        for place, node in enumerate(program.nodes):
            if node.op == row.op and node.source == row.source:
                after = [program.nodes[b] for a, b in program.edges if a == place]
                group = groups.get(after[0].group or "") if len(after) == 1 else None
                if group is None or len(group.inputs) != 1:
                    return False
                if any(OF_MANY_ELEMENTS.search(one.op) for one in group.nodes):
                    return False
    return True


def regions_as_groups(report: Report, moved: AbstractSet[int]) -> Report:
    """The report with differentiable graphs that are one group each as these groups, beside operators of some
    rows: torch ends a graph at a view, and makes one graph of both where it goes
    (torch/csrc/jit/passes/create_autodiff_subgraphs.cpp).

    Args:
        moved: rows of ``report.unfused``.
    """
    only = {one.id: one.nodes[0].group for one in report.programs if len(one.nodes) == 1 and not one.cut}
    rows = {(report.unfused[row].op, report.unfused[row].source) for row in moved}
    if not rows or not any(only.values()):
        return report
    programs = []
    for program in report.programs:
        nodes = list(program.nodes)
        for place in _beside(program, rows):
            group = only.get(nodes[place].program or "")
            if nodes[place].kind == "region" and group is not None:
                nodes[place] = replace(nodes[place], kind="group", group=group)
        programs.append(replace(program, nodes=tuple(nodes)))
    return replace(report, programs=tuple(programs))


def _beside(program: Program, rows: AbstractSet[tuple[str, str | None]]) -> set[int]:
    mine = {place for place, node in enumerate(program.nodes) if (node.op, node.source) in rows}
    ends = [(a, b) for a, b in program.edges if a in mine or b in mine]
    return {place for edge in ends for place in edge} - mine
