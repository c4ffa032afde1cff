"""The terminal report: the first screen answers "did it fuse, what not, why, how fast"."""

from __future__ import annotations

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from fusiondoc.model import Report
from fusiondoc.reports.console import drawn
from fusiondoc.reports.text_bars import plain
from fusiondoc.reports.text_findings import fallbacks, findings, log
from fusiondoc.reports.text_groups import groups
from fusiondoc.reports.text_kernel_table import kernels
from fusiondoc.reports.text_shapes import shapes
from fusiondoc.reports.text_speed import speed
from fusiondoc.reports.text_summary import summary
from fusiondoc.reports.text_tries import tries
from fusiondoc.reports.text_unfused import unfused
from fusiondoc.reports.text_verification import verification


def render(report: Report, *, width: int = 80, colour: bool = False, blocks: bool = True) -> str:
    """The report as text of at most ``width`` columns, with ANSI colours if ``colour``.

    Args:
        blocks: the place it goes to can show block characters; else its own drawings are plain ASCII.
    """
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
