"""The terminal report: the first screen answers "did it fuse, what not, why, how fast"."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model.report import Report
from fusiondoc.reports.printable import visible_in
from fusiondoc.reports.text.findings import fallbacks, findings, log
from fusiondoc.reports.text.first_screen import summary
from fusiondoc.reports.text.further_runs import speed, tries, verification
from fusiondoc.reports.text.groups import groups, shapes, unfused
from fusiondoc.reports.text.kernel_table import kernels
from fusiondoc.reports.text.layout_of_text import drawn, plain


def render(report: Report, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The report as text of at most ``width`` columns, with ANSI colours if ``colour``.

    Args:
        blocks: the place it goes to can show block characters; else its own drawings are plain ASCII.
    """
    report = visible_in(report)
    parts: list[RenderableType] = [summary(report)]
    for title, part in (
        ("Speed", speed(report, width - 1)),
        ("Groups", groups(report)),
        ("Not fused", unfused(report, width)),
        ("Fallbacks", fallbacks(report)),
        ("Shapes", shapes(report)),
        ("Kernels", kernels(report, width - 1)),
        ("Numbers", verification(report)),
        ("Tried", tries(report)),
        ("Findings", findings(report)),
        ("Log", log(report)),
    ):
        if part is not None:
            parts += ["", Text(title, style="bold"), Padding(part, (0, 0, 0, 1))]
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain(text)
