"""The terminal report: its first screen answers "did it fuse, what not, why, how fast"; then all sections."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text as Styled

from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import Facts, Formats, Section
from fusiondoc.rendering.drawing import Detail, drawn, linked, plain
from fusiondoc.rendering.printable import visible_in
from fusiondoc.rendering.terminal_documents import head, sections
from fusiondoc.views.formatting import with_near_paths
from fusiondoc.views.plan_words import last_word
from fusiondoc.views.report_boundaries import boundaries
from fusiondoc.views.report_checks import numbers, numbers_in_a_line, tried
from fusiondoc.views.report_compiled import compiled
from fusiondoc.views.report_context import Context
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_frontends import aot, script
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_heading import MOST_REASONS, heading, summary
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_outside import unfused
from fusiondoc.views.report_plan import plan_on_a_terminal
from fusiondoc.views.report_ranks import ranks, ranks_merged
from fusiondoc.views.report_record import log
from fusiondoc.views.report_te import te_plans
from fusiondoc.views.report_times import shapes, speed, where_time_goes

_SCREEN = 24
"""Lines of a terminal."""


def render(
    report: Report,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    detail: Detail = Detail.USUAL,
    links: bool = False,
) -> str:
    """The report as text of at most ``width`` columns, commands to copy aside, with ANSI colours if
    ``colour``.

    Args:
        blocks: the terminal can show block characters; else the report's own drawings are plain ASCII.
        detail: how much of it.
        links: codes of findings lead to their pages (OSC 8), for a terminal that knows these.
    """
    report = with_near_paths(visible_in(report))
    last = Styled(last_word(report), style="bold")
    if detail is Detail.VERDICT:
        compared = numbers_in_a_line(report)
        more_words = [Styled(f"Numbers: {compared}")] if compared is not None else []
        return drawn(Lines(last, *more_words), width, colour)
    parts = _first_screen(report, width, detail)
    if detail is not Detail.SUMMARY:
        context = Context(ranks_merged(report), Formats.TERMINAL, detail is Detail.ALL)
        parts += [*sections(tuple(_sections(context)), width), "", last]
    text = drawn(Lines(*parts), width, colour)
    text = text if blocks else plain(text)
    return linked(text) if links else text


def _first_screen(report: Report, width: int, detail: Detail) -> list[RenderableType]:
    """What ran, what to do, why and how fast. What the program does by itself makes no screen too long that
    the rest fits on: the lines of code go first, then a reason."""
    if report.fuser.by_itself is None or detail is Detail.ALL:
        return _screen(report, width, detail, True, MOST_REASONS)
    for with_lines, reasons in ((True, MOST_REASONS), (False, MOST_REASONS), (False, MOST_REASONS - 1)):
        parts = _screen(report, width, detail, with_lines, reasons)
        if drawn(Lines(*parts), width, colour=False).rstrip("\n").count("\n") < _SCREEN:
            return parts
    return _screen(report, width, detail, False, MOST_REASONS)


def _screen(
    report: Report, width: int, detail: Detail, with_lines: bool, reasons: int
) -> list[RenderableType]:
    parts: list[RenderableType] = [head(heading(report, detail is Detail.ALL, with_lines))]
    what_to_do = list(sections((plan_on_a_terminal(report),), width))
    parts += what_to_do
    facts = summary(ranks_merged(report), reasons).rows
    compared = numbers_in_a_line(report)
    if detail is Detail.SUMMARY and compared is not None:
        facts = (*facts, ("Numbers", compared))
    if facts:
        parts += [""] * bool(what_to_do) + [head(Facts(facts))]
    return parts


def _sections(context: Context) -> Iterator[Section]:
    """What follows the first screen."""
    report = context.report
    for make in (speed, where_time_goes, ranks, script, aot, te_plans):
        yield make(report)
    yield groups(context)
    yield unfused(context)
    yield boundaries(context)
    yield compiled(report)
    yield fallbacks(context)
    for make in (shapes, kernels, numbers, tried):
        yield make(report)
    yield findings(context)
    yield log(report)
