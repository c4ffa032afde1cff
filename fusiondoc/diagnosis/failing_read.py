"""Which fusion groups produced the inputs of a failed operator, by TorchScript's
traceback and the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.model.source import Source
from fusiondoc.parsers.lines.error_texts import failing_line

_MOST_PASSED = 200
"""Nodes that are visited on the way back from the failed operator."""


def groups_read(report: Report, line: str) -> tuple[str, ...]:
    """Return the groups whose results the operators of a line read, directly or
    through operators outside groups: the nearest first, then the groups that hold
    operators of this line."""
    found: dict[str, None] = {}
    for program in report.programs:
        starts = []
        for number, node in enumerate(program.nodes):
            if _stands_at(node, line):
                starts.append(number)
        found.update(dict.fromkeys(_behind(program, starts)))
    for group in report.groups:
        if any(
            _is_at(node.source, line) or _is_at(node.user_source, line)
            for node in group.nodes
        ):
            found.setdefault(group.id)
    return tuple(found)


def _stands_at(node: ProgramNode, line: str) -> bool:
    outside = node.kind == "operator" and node.group is None
    return outside and (_is_at(node.source, line) or _is_at(node.user_source, line))


def _is_at(source: str | None, line: str) -> bool:
    position = Source.parse(source)
    return position is not None and position.at_line == line


def _behind(program: Program, starts: Sequence[int]) -> Iterable[str]:
    """Yield the nearest groups among the ancestors of some nodes, the nearest
    first."""
    back: dict[int, list[int]] = {}
    for before, after in program.edges:
        back.setdefault(after, []).append(before)
    todo, seen = list(starts), set(starts)
    while todo and len(seen) <= _MOST_PASSED:
        for before in back.get(todo.pop(0), ()):
            if before in seen:
                continue
            seen.add(before)
            group = program.nodes[before].group
            if group is None:
                todo.append(before)
            else:
                yield group


def suspects(report: Report, message: str) -> tuple[Group, ...]:
    """Return the groups that may have caused an error, the likeliest first: those
    whose results were read where it failed, then the others that ran, the last of
    the plan first."""
    line = failing_line(message)
    read = groups_read(report, line) if line is not None else ()
    by_id = {group.id: group for group in report.groups}
    ran = []
    for group in reversed(report.groups):
        if group.runs != 0:
            ran.append(group.id)
    groups = []
    for name in dict.fromkeys([*read, *ran]):
        if name in by_id:
            groups.append(by_id[name])
    return tuple(groups)
