"""The programs as pictures (SVG), with what a click on an operator shows as data for the page's script."""

from __future__ import annotations

from typing import Any, Sequence

from fusiondoc.model.report import Group, Program, ProgramNode, Report
from fusiondoc.reports.html.context import Context, shown
from fusiondoc.reports.html.layout import Point, draw
from fusiondoc.reports.html.markup import Markup, el, join
from fusiondoc.reports.html.node_data import NodeData
from fusiondoc.reports.wording import NO_OPERATORS, count, runs_of

_CHARACTER = 6.9
"""Width of a character of the pictures' type, 11.5 px monospace."""
_LINE = 16
_PAD = 10
_LONGEST = 34
_MOST_LINES = 6


def main_program(report: Report) -> str:
    """The program that is shown first: of the forward ones that with the most groups."""

    def groups(program: Program) -> tuple[bool, int]:
        return program.phase != "backward", sum(node.kind == "group" for node in program.nodes)

    return max(report.programs, key=groups).id


def pictures(context: Context) -> tuple[Markup, dict[str, Any]]:
    """A figure for each program, all but the main one hidden, and the data on their nodes."""
    shown_first = main_program(context.report)
    groups = {group.id: group for group in context.report.groups}
    data = NodeData(context)
    figures = []
    for program in context.report.programs:
        figures.append(_figure(program, groups, context, hidden=program.id != shown_first))
        data.add(program)
    return join(figures), data.as_json()


def title(program: Program) -> str:
    """What a program is called in the selector."""
    words = [program.id, program.phase or "phase unknown"]
    if program.specialisation > 1:
        words.append(f"specialisation {program.specialisation}")
    if len(program.ranks) > 1:
        words.append("ranks " + ", ".join(map(str, program.ranks)))
    groups = sum(node.kind == "group" for node in program.nodes)
    others = sum(node.reason is not None and node.op not in NO_OPERATORS for node in program.nodes)
    regions = sum(node.kind == "region" for node in program.nodes)
    parts = [count(groups, "group"), f"{others} outside"]
    if regions:
        parts.insert(0, count(regions, "differentiable graph"))
    return f"{' · '.join(words)} — {', '.join(parts)}"


def _figure(program: Program, groups: dict[str, Group], context: Context, hidden: bool) -> Markup:
    kept = [i for i, node in enumerate(program.nodes) if node.op not in NO_OPERATORS]
    place = {i: nth for nth, i in enumerate(kept)}
    labels = [_label(program.nodes[i], groups) for i in kept]
    edges = [(place[a], place[b]) for a, b in program.edges if a in place and b in place]
    drawing = draw([_size(label) for label in labels], edges)
    arrow = f"arrow-{program.id}"
    marker = el(
        "marker",
        el("path", d="M0 0L8 4L0 8z"),
        id=arrow,
        viewBox="0 0 8 8",
        refX="8",
        refY="4",
        markerWidth="7",
        markerHeight="7",
        orient="auto",
    )
    ways = [el("path", d=_path(route), marker_end=f"url(#{arrow})") for route in drawing.routes]
    boxes = [
        _box(kept[nth], program.nodes[kept[nth]], labels[nth], drawing.corners[nth], groups, context)
        for nth in drawing.order
    ]
    width, height = round(drawing.width), round(drawing.height)
    picture = el(
        "svg",
        el("defs", marker),
        el("g", *ways, class_="ways"),
        *boxes,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="group",
        aria_label=f"Program {title(program)}",
    )
    cut = el("p", f"{program.cut:,} further nodes are left out.", class_="note") if program.cut else None
    return el("div", picture, cut, class_="program", id=f"picture-{program.id}", hidden=hidden)


def _box(
    i: int,
    node: ProgramNode,
    lines: Sequence[str],
    corner: Point,
    groups: dict[str, Group],
    context: Context,
) -> Markup:
    x, y = corner
    width, height = _size(lines)
    group = groups.get(node.group or "")
    classes = ["node", node.kind]
    if group is not None and group.fallback:
        classes.append("fell")
    elif node.reason is not None:
        classes += ["out", context.hue(node.reason)]
    if node.inside is not None:
        classes.append("inner")
    rows = [
        el("text", line, x=_PAD, y=_PAD + 9 + nth * _LINE, class_=None if nth == 0 else "sub")
        for nth, line in enumerate(lines)
    ]
    return el(
        "g",
        el("rect", width=f"{width:.0f}", height=f"{height:.0f}", rx="10" if node.kind == "control" else "5"),
        *rows,
        class_=" ".join(classes),
        transform=f"translate({x:.0f} {y:.0f})",
        role="button",
        tabindex="-1",
        aria_label=_spoken(node, group),
        data_i=i,
        data_group=node.group,
        data_reason=node.reason,
    )


def _label(node: ProgramNode, groups: dict[str, Group]) -> list[str]:
    group = groups.get(node.group or "")
    if group is not None:
        return _group_label(group)
    where = shown(node.user_source or node.source).rpartition("/")[2]
    if node.kind == "control":
        what = "loop" if node.op == "prim::Loop" else "branch"
        lines = [f"{what} on {node.condition}" if what == "branch" and node.condition else what, where]
    elif node.kind == "region":
        lines = ["differentiable graph", f"its plan: {node.program}" if node.program else where]
    else:
        op = node.op[len("aten::") :] if node.op.startswith("aten::") else node.op
        lines = [op, where]
    if node.reason is not None:
        lines[1] = f"{node.reason}  {lines[1]}".rstrip()
    return [_short(line) for line in lines if line]


def _group_label(group: Group) -> list[str]:
    head = f"{group.id}  {count(len(group.nodes), 'operator')}" + ("  FELL BACK" if group.fallback else "")
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
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _size(lines: Sequence[str]) -> Point:
    return max(map(len, lines)) * _CHARACTER + 2 * _PAD, len(lines) * _LINE + 2 * _PAD - 6


def _spoken(node: ProgramNode, group: Group | None) -> str:
    where = shown(node.user_source or node.source)
    if group is not None:
        text = f"{group.id}, fusion group of {count(len(group.nodes), 'operator')}"
        return text + (", fell back" if group.fallback else "")
    text = {"control": f"{node.op}, control flow", "region": "differentiable graph"}.get(node.kind, node.op)
    if node.reason is not None:
        text += f", not fused, {node.reason}"
    return text + (f", {where}" if where else "")


def _path(points: Sequence[Point]) -> str:
    """A smooth way through the points; each leaves and enters its row straight up or down."""
    parts = [f"M{points[0][0]:.0f} {points[0][1]:.0f}"]
    for (x1, y1), (x2, y2) in zip(points, points[1:]):
        if abs(x1 - x2) < 1:
            parts.append(f"V{y2:.0f}")
            continue
        bend = max(12.0, abs(y2 - y1) / 2)
        parts.append(f"C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}")
    return "".join(parts)
