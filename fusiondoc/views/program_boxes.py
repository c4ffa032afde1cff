"""The pictures of a program's plans: which nodes have boxes, the text of each box,
and which plans have room."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from fusiondoc.model import count
from fusiondoc.model.boundaries import WRITTEN_AND_READ, Boundary, BoundaryEnd
from fusiondoc.model.operator_places import NO_OPERATORS
from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.rendering.picture_blocks import Box, PictureGraph
from fusiondoc.rendering.units import size
from fusiondoc.views.formatting import runs_of
from fusiondoc.views.report_context import shown

_LONGEST = 34
"""Most characters of a line in a box."""
_MOST_LINES = 6


def title(program: Program) -> str:
    """Return the name of a program in the selector."""
    words = [program.id, program.phase or "phase unknown"]
    if program.specialisation > 1:
        words.append(f"specialisation {program.specialisation}")
    if len(program.ranks) > 1:
        words.append("ranks " + ", ".join(map(str, program.ranks)))
    groups = sum(node.kind == "group" for node in program.nodes)
    others = 0
    for node in program.nodes:
        if node.reason is not None and node.op not in NO_OPERATORS:
            others += 1
    regions = sum(node.kind == "region" for node in program.nodes)
    parts = [count(groups, "group"), f"{others:,} outside"]
    if regions:
        parts.insert(0, count(regions, "differentiable graph"))
    return f"{' · '.join(words)} — {', '.join(parts)}"


def picture(
    program: Program,
    groups: Mapping[str, Group],
    changed: Container[int] = (),
    key: str | None = None,
    boundaries: Sequence[Boundary] = (),
) -> PictureGraph:
    """Return the graph of a program.

    Args: changed: nodes that are marked so. key: its id on a page. boundaries: of
        the report; those between two nodes of this program are shown on its edges.
    """
    kept = []
    for index, node in enumerate(program.nodes):
        if node.op not in NO_OPERATORS:
            kept.append(index)
    number = {index: box for box, index in enumerate(kept)}
    edges = []
    for a, b in program.edges:
        if a in number and b in number:
            edges.append((a, b))
    why = _why_apart(boundaries)
    causes = []
    for a, b in edges:
        causes.append(why.get((_ends(program.nodes[a]), _ends(program.nodes[b]))))
    boxes = []
    for index in kept:
        boxes.append(_box(index, program.nodes[index], groups, index in changed))
    return PictureGraph(
        key=key if key is not None else program.id,
        title=title(program),
        boxes=tuple(boxes),
        edges=tuple((number[a], number[b]) for a, b in edges),
        apart=tuple(causes) if any(causes) else (),
        cut=program.cut,
        values_left_out=program.values_left_out,
    )


_End = tuple[str | None, int | None]
"""A group by its id, or an operator outside groups by the index of its row."""


def _ends(node: ProgramNode) -> _End:
    if node.group is not None:
        return node.group, None
    return None, node.row


def _why_apart(boundaries: Sequence[Boundary]) -> dict[tuple[_End, _End], str]:
    """Return a map from two ends to code, bytes and cause of the boundary with the
    most bytes, which comes first in ``boundaries``."""

    def end(of: BoundaryEnd) -> _End:
        if of.group is not None:
            return of.group, None
        return None, of.row

    found: dict[tuple[_End, _End], str] = {}
    for one in boundaries:
        if one.cause is not None and one.kind == WRITTEN_AND_READ:
            moved = f", {size(one.bytes)}" if one.bytes is not None else ""
            text = f"{one.cause.code}{moved}: {one.cause.text}"
            found.setdefault((end(one.producer), end(one.consumer)), text)
    return found


def _box(
    index: int, node: ProgramNode, groups: Mapping[str, Group], is_changed: bool
) -> Box:
    group = groups.get(node.group or "")
    kinds = ["node", node.kind]
    if is_changed:
        kinds.append("changed")
    if group is not None and group.fallback:
        kinds.append("fell")
    elif node.reason is not None:
        kinds.append("out")
    if node.inside is not None:
        kinds.append("inner")
    return Box(
        index=index,
        lines=tuple(_label(node, groups)),
        kinds=tuple(kinds),
        spoken=_spoken(node, group),
        group=node.group,
        reason=node.reason,
        is_round=node.kind == "control",
    )


def _label(node: ProgramNode, groups: Mapping[str, Group]) -> list[str]:
    group = groups.get(node.group or "")
    if group is not None:
        return _group_label(group)
    where = shown(node.user_source or node.source).rpartition("/")[2]
    if node.kind == "control":
        what = "loop" if node.op == "prim::Loop" else "branch"
        lines = [
            f"{what} on {node.condition}"
            if what == "branch" and node.condition
            else what,
            where,
        ]
    elif node.kind == "region":
        lines = [
            "differentiable graph",
            f"its plan: {node.program}" if node.program else where,
        ]
    else:
        op = node.op[len("aten::") :] if node.op.startswith("aten::") else node.op
        lines = [op, where]
    if node.reason is not None:
        lines[1] = f"{node.reason}  {lines[1]}".rstrip()
    return [_short(line) for line in lines if line]


def _group_label(group: Group) -> list[str]:
    head = f"{group.id}  {count(group.size, 'operator')}" + (
        "  FELL BACK" if group.fallback else ""
    )
    lines = [""]
    for op in runs_of(group.ops):
        if lines[-1] and len(lines[-1]) + len(op) > _LONGEST - 8:
            lines[-1] += ","
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + op
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = ["…"]
    return [head, *(_short(line) for line in lines if line)]


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST - 1] + "…"


def _spoken(node: ProgramNode, group: Group | None) -> str:
    where = shown(node.user_source or node.source)
    if group is not None:
        text = f"{group.id}, fusion group of {count(group.size, 'operator')}"
        return text + (", fell back" if group.fallback else "")
    text = {
        "control": f"{node.op}, control flow",
        "region": "differentiable graph",
    }.get(node.kind, node.op)
    if node.reason is not None:
        text += f", not fused, {node.reason}"
    return text + (f", {where}" if where else "")


def within(programs: Sequence[Program], first: str, left: int) -> list[Program]:
    """Return the programs that fit, the last one cut; ``first``, which is shown
    first, has priority."""
    fitting: dict[str, Program] = {}
    for program in sorted(programs, key=lambda one: one.id != first):
        if left > 0:
            fitting[program.id] = _cut(program, left)
            left -= len(program.nodes)
    return [fitting[program.id] for program in programs if program.id in fitting]


def _cut(program: Program, most: int) -> Program:
    if len(program.nodes) <= most:
        return program
    edges = tuple(edge for edge in program.edges if max(edge) < most)
    cut = program.cut + len(program.nodes) - most
    return replace(program, nodes=program.nodes[:most], edges=edges, cut=cut)


def main_program(report: Report) -> str:
    """Return the program that is shown first: among the forward programs the one
    with the most groups."""

    def groups(program: Program) -> tuple[bool, int]:
        return program.phase != "backward", sum(
            node.kind == "group" for node in program.nodes
        )

    return max(report.programs, key=groups).id
