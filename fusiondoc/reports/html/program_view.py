"""The section with the picture of the programs: selector, filter by reason, details, and the picture
itself, boxes and the ways between them in the units of their SVG."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Container, Mapping, Optional, Sequence, Tuple

from markupsafe import Markup

from fusiondoc.model import count, dataclass
from fusiondoc.model.codes import CODES
from fusiondoc.model.modules_and_neighbours import NO_OPERATORS
from fusiondoc.model.report import Evidence, Group, Program, ProgramNode, Report, Unfused
from fusiondoc.reports.html.layout import Point, draw
from fusiondoc.reports.html.page_context import QUOTED, Context, ReasonKind, hue, script_data, shown
from fusiondoc.reports.printable import visible
from fusiondoc.reports.wording_and_source import runs_of

_CHARACTER = 6.9
"""Width of a character of the pictures' type, 11.5 px monospace."""
_LINE = 16
_PAD = 10
_LONGEST = 34
_MOST_LINES = 6


@dataclass(frozen=True)
class Box:
    """A node of a picture. ``index`` is its number in the program."""

    index: int
    x: str
    y: str
    width: str
    height: str
    kinds: str
    """Classes: how it looks."""
    lines: tuple[tuple[int, str], ...]
    """(height of its base line, text)."""
    spoken: str
    """What a screen reader says."""
    group: str | None
    reason: str | None
    rounded: int


@dataclass(frozen=True)
class Picture:
    """A program; ``ways`` are paths of SVG. All but one are hidden."""

    id: str
    title: str
    width: int
    height: int
    ways: tuple[str, ...]
    boxes: tuple[Box, ...]
    cut: int
    values_left_out: int
    pad: int = _PAD


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


def picture(program: Program, groups: Mapping[str, Group], changed: Container[int] = ()) -> Picture:
    """The picture of a program, its boxes as one reads them. ``changed``: nodes that are marked so."""
    kept = [i for i, node in enumerate(program.nodes) if node.op not in NO_OPERATORS]
    place = {i: nth for nth, i in enumerate(kept)}
    labels = [_label(program.nodes[i], groups) for i in kept]
    edges = [(place[a], place[b]) for a, b in program.edges if a in place and b in place]
    drawing = draw([_size(label) for label in labels], edges)
    return Picture(
        id=program.id,
        title=title(program),
        width=round(drawing.width),
        height=round(drawing.height),
        ways=tuple(map(_path, drawing.routes)),
        boxes=tuple(
            _box(
                kept[nth],
                program.nodes[kept[nth]],
                labels[nth],
                drawing.corners[nth],
                groups,
                kept[nth] in changed,
            )
            for nth in drawing.order
        ),
        cut=program.cut,
        values_left_out=program.values_left_out,
    )


def _box(
    index: int,
    node: ProgramNode,
    lines: Sequence[str],
    corner: Point,
    groups: Mapping[str, Group],
    changed: bool,
) -> Box:
    width, height = _size(lines)
    group = groups.get(node.group or "")
    kinds = ["node", node.kind, *(["changed"] if changed else [])]
    if group is not None and group.fallback:
        kinds.append("fell")
    elif node.reason is not None:
        kinds += ["out", hue(node.reason)]
    if node.inside is not None:
        kinds.append("inner")
    return Box(
        index=index,
        x=f"{corner[0]:.0f}",
        y=f"{corner[1]:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        kinds=" ".join(kinds),
        lines=tuple((_PAD + 9 + nth * _LINE, line) for nth, line in enumerate(lines)),
        spoken=_spoken(node, group),
        group=node.group,
        reason=node.reason,
        rounded=10 if node.kind == "control" else 5,
    )


def _label(node: ProgramNode, groups: Mapping[str, Group]) -> list[str]:
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
    head = f"{group.id}  {count(group.size, 'operator')}" + ("  FELL BACK" if group.fallback else "")
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
        text = f"{group.id}, fusion group of {count(group.size, 'operator')}"
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


@dataclass(frozen=True)
class Programs:
    """``first`` is the program that is shown before another is chosen; ``data`` is for the page's script."""

    note: str
    first: str
    pictures: tuple[Picture, ...]
    reasons: tuple[ReasonKind, ...]
    left: int
    data: Markup


_HINT = (
    "Click a box, or move with the "
    "arrow keys and press Enter, for its source line, IR, types and what the log says."
)


def program_view(context: Context) -> Programs | None:
    """None where the log shows no plan."""
    report = context.report
    if not report.programs:
        return None
    data = NodeData(context)
    first = main_program(report)
    shown = within(report.programs, first, MOST_BOXES)
    for program in shown:
        data.add(program)
    return Programs(
        note=_HINT,
        first=first,
        pictures=tuple(picture(program, context.groups) for program in shown),
        reasons=tuple(context.reasons),
        left=report.programs_left_out + len(report.programs) - len(shown),
        data=script_data(data.as_json()),
    )


MOST_BOXES = 2_000
"""Of all pictures together: more take megabytes, and nobody reads them."""


def within(programs: Sequence[Program], first: str, left: int) -> list[Program]:
    """The programs that fit, the one that is shown first before all others; the last of them cut."""
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
    """The program that is shown first: of the forward ones that with the most groups."""

    def groups(program: Program) -> tuple[bool, int]:
        return program.phase != "backward", sum(node.kind == "group" for node in program.nodes)

    return max(report.programs, key=groups).id


_Key = Tuple[str, Optional[str], Optional[str], str, str]
"""Of a row of ``unfused``: operator, source, phase, code and text of the reason."""


class NodeData:
    """Of all programs of a page. Texts stand once and are named by their number."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._texts: dict[str, int] = {}
        self._programs: dict[str, list[list[Any]]] = {}
        self._rows: dict[_Key, int] = {}
        self._reasons: list[list[Any]] = []
        self._unfused: dict[_Key, Unfused] = {
            (row.op, row.source, row.phase, row.reason.code, row.reason.text): row
            for row in context.report.unfused
        }

    def add(self, program: Program) -> None:
        self._programs[visible(program.id)] = [self._node(program, node) for node in program.nodes]

    def as_json(self) -> dict[str, Any]:
        return {"texts": list(self._texts), "programs": self._programs, "reasons": self._reasons}

    def _text(self, text: str | None) -> int:
        return -1 if not text else self._texts.setdefault(visible(text), len(self._texts))

    def _node(self, program: Program, node: ProgramNode) -> list[Any]:
        """In the order that page.js reads."""
        if node.group is not None:
            return [self._text(node.group)]
        evidence = node.evidence[0] if node.evidence else None
        inside = program.nodes[node.inside] if node.inside is not None else None
        return [
            -1,
            self._text(node.op),
            self._text(shown(node.source)),
            self._text(shown(node.user_source)),
            self._text(self._context.code_at(node.user_source)),
            self._reason(program, node),
            self._text(node.condition),
            self._text(f"{inside.op} at {shown(inside.user_source or inside.source)}" if inside else None),
            [self._text(text) for text in node.inputs],
            [self._text(text) for text in node.outputs],
            self._text(self._context.place(evidence) if evidence else None),
            self._text(self._printed(evidence)),
            self._text(node.program),
        ]

    def _printed(self, evidence: Evidence | None) -> str | None:
        """The line of the log, as far as the page has room."""
        text = self._context.excerpt(evidence) if evidence is not None else None
        return text if text is not None and self._context.takes_room("nodes", len(text)) else None

    def _advice(self, node: ProgramNode, text: str) -> str:
        """What is advised on an operator: by the finding on it, else by its code. One note is for all lines
        of torch's own formulas, and one for all kernels of libraries."""
        code, op = node.reason or "", node.op
        of_torch = (node.source or "").startswith("<string>")
        about = [f for f in self._context.report.findings if op in f.ops and f.advice]
        folded = [f for f in about if f.code == "FD236" and ("formulas" in f.message) == of_torch]
        found = [f for f in about if f.code == code]
        exact = [f for f in found if text and text in f.message]
        if of_torch and not exact:
            found = folded
        best = next(iter(exact or found or folded), None)
        if best is not None and best.advice:
            return best.advice
        return (CODES[code].advice if code in CODES else None) or ""

    def _reason(self, program: Program, node: ProgramNode) -> int:
        if node.reason is None:
            return -1
        key = (node.op, node.source, program.phase, node.reason, node.reason_text or "")
        if key in self._rows:
            return self._rows[key]
        row = self._unfused.get(key)
        text = (
            node.reason_text
            if node.reason_text
            else next((r.text for r in self._context.reasons if r.code == node.reason), "")
        )
        quotes = [
            [visible(self._context.place(one)), visible(self._printed(one) or "")]
            for one in islice(row.evidence if row else (), QUOTED)
        ]
        self._rows[key] = len(self._reasons)
        self._reasons.append(
            [
                visible(node.reason),
                visible(text),
                bool(row and row.reason.stated),
                quotes,
                len(row.evidence) + row.evidence_left_out if row else 0,
                visible(self._advice(node, text)),
                visible(CODES[node.reason].title if node.reason in CODES else ""),
            ]
        )
        return self._rows[key]
