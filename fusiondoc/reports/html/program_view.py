"""The section with the picture of the programs: selector, filter by reason, picture, details."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Optional, Tuple

from markupsafe import Markup

from fusiondoc.model.report import Program, ProgramNode, Report, Unfused
from fusiondoc.reports.html.page_context import QUOTED, Context, ReasonKind, shown
from fusiondoc.reports.html.picture import Picture, picture
from fusiondoc.reports.page_templates import script_data
from fusiondoc.reports.printable import visible


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
    "Boxes with a thick edge are fusion groups; the others are not fused. Click a box, or move with the "
    "arrow keys and press Enter, for its source line, IR, types and what the log says."
)


def program_view(context: Context) -> Programs | None:
    """None where the log shows no plan."""
    report = context.report
    if not report.programs:
        return None
    data = NodeData(context)
    for program in report.programs:
        data.add(program)
    return Programs(
        note=_HINT,
        first=main_program(report),
        pictures=tuple(picture(program, context) for program in report.programs),
        reasons=tuple(context.reasons),
        left=report.programs_left_out,
        data=script_data(data.as_json()),
    )


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
            self._text(self._context.excerpt(evidence) if evidence else None),
            self._text(node.program),
        ]

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
            [visible(self._context.place(one)), visible(self._context.excerpt(one) or "")]
            for one in islice(row.evidence if row else (), QUOTED)
        ]
        self._rows[key] = len(self._reasons)
        self._reasons.append(
            [
                visible(node.reason),
                visible(text),
                bool(row and row.reason.stated),
                quotes,
                len(row.evidence) if row else 0,
            ]
        )
        return self._rows[key]
