"""The section with the picture of the programs: selector, filter by reason, picture, details."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from fusiondoc.model.report import Program, Report
from fusiondoc.reports.html.node_data import NodeData
from fusiondoc.reports.html.page_context import Context, ReasonKind
from fusiondoc.reports.html.picture import Picture, picture
from fusiondoc.reports.page_templates import script_data


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
