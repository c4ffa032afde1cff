"""Find the groups of one plan in another one, in which they may have another form,
matched as ``compare`` does it."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import NamedTuple, cast

from fusiondoc.comparison.group_match import GroupInstance, items_of, match
from fusiondoc.comparison.positions import Positions
from fusiondoc.model.report import Group, OpNode, Report
from fusiondoc.workflows.survey_plans import LocatedOperator, RunPlan
from fusiondoc.workflows.survey_tracks import FORMULA, NOWHERE, Programs, Track


class _Outside(NamedTuple):
    op: str
    source: str | None
    user_source: str | None


class _AsReport(NamedTuple):
    """The fields of a report that the match reads."""

    groups: tuple[Group, ...]
    unfused: tuple[_Outside, ...]
    findings: tuple[()] = ()


def successors(programs: Programs, before: RunPlan, after: RunPlan) -> set[Track]:
    """The groups of the plan ``before`` whose operators are in groups of the plan
    ``after`` as well; operators that the program no longer has are not counted."""
    reports = [cast(Report, _as_report(programs, plan)) for plan in (before, after)]
    positions = Positions(*reports)
    items = (
        items_of(reports[0].groups, partial(positions.of, 0)),
        items_of(reports[1].groups, partial(positions.of, 1)),
    )
    outside = _names_outside(after) - _names_outside(before)
    found: set[Track] = set()
    lost: set[Track] = set()
    for cluster in match(items[0], items[1], lambda item: item.ops):
        held: Counter[str] = Counter()
        for item in cluster.b:
            for op in item.ops:
                held[op] += 1
        missing = Counter(op for item in cluster.a for op in item.ops) - held
        for item in cluster.a:
            track = _track(programs, before, item)
            own = Counter(item.ops)
            if not cluster.b or own & missing & outside:
                lost.add(track)
            else:
                found.add(track)
    return found - lost


def _names_outside(plan: RunPlan) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in plan.outside:
        found[row.operator.op] += row.nodes
    return found


def _track(programs: Programs, plan: RunPlan, item: GroupInstance) -> Track:
    group = plan.groups[int(item.group.id)]
    nodes = []
    for operator in group.operators:
        nodes.append((operator.op, programs.line(plan, operator)))
    nodes.sort()
    return Track(group.key.phase, tuple(nodes))


def _as_report(programs: Programs, plan: RunPlan) -> _AsReport:
    groups = []
    for index, group in enumerate(plan.groups):
        nodes = []
        for operator in group.operators:
            nodes.append(
                OpNode(operator.op, _source(programs, plan, operator), None)
            )
        groups.append(Group.of_operators(str(index), group.key.phase, nodes))
    return _AsReport(
        tuple(groups),
        tuple(
            _Outside(row.operator.op, _source(programs, plan, row.operator), None)
            for row in plan.outside
        ),
    )


def _source(
    programs: Programs, plan: RunPlan, operator: LocatedOperator
) -> str | None:
    """The source position of an operator, with its line's number in all programs of
    the model: lines matched between programs have equal numbers."""
    line = programs.line(plan, operator)
    if line == NOWHERE:
        return None
    if line == FORMULA:
        return f"{operator.file}:{operator.line}:{max(0, operator.column)}"
    return f"program:{line + 1}:{max(0, operator.column)}"
