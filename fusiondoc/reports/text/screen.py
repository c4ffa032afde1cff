"""The terminal report: its first screen answers "did it fuse, what not, why, how
fast"; then come all sections."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.text import Text as Styled

from fusiondoc.model import dataclass
from fusiondoc.model.report import Report
from fusiondoc.rendering.blocks import Formats, NamedValues, Section
from fusiondoc.rendering.drawing import Detail, Unbroken, drawn, linked, plain
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.terminal_documents import head, sections
from fusiondoc.views.formatting import with_near_paths
from fusiondoc.views.plan_words import last_word
from fusiondoc.views.report_boundaries import boundaries
from fusiondoc.views.report_checks import numbers, numbers_in_a_line, tried
from fusiondoc.views.report_compiled import compiled
from fusiondoc.views.report_context import ReportContext
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_frontends import aot, script
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_heading import MOST_REASONS, heading, summary
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_outside import unfused
from fusiondoc.views.report_plan import (
    MOST_STEPS,
    further_steps,
    plan_on_a_terminal,
)
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
    """Return the report as text of at most ``width`` columns, apart from commands
    to copy, with ANSI colours if ``colour``.

    Args: blocks: the terminal can show block characters; else the report's own
        drawings are plain ASCII. detail: how much of the report. links: codes of
        findings are links to their pages (OSC 8), for a terminal that supports
        them.
    """
    report = with_near_paths(report, first=visible)
    if detail is Detail.VERDICT:
        return drawn(Unbroken(_verdict(report)), width, colour)
    if detail is Detail.ALL:
        length = _WHOLE
    else:
        length = _longest_that_fits(report, width, detail)
    parts = _screen(report, width, detail, length)
    if detail is not Detail.SUMMARY:
        context = ReportContext(
            ranks_merged(report), Formats.TERMINAL, detail is Detail.ALL
        )
        last = Styled(last_word(report), style="bold")
        parts += [*sections((further_steps(report, length.whole_steps),), width)]
        parts += [*sections(tuple(_sections(context)), width), "", last]
    text = drawn(Lines(*parts), width, colour)
    text = text if blocks else plain(text)
    if links:
        return linked(text)
    return text


def _verdict(report: Report) -> str:
    """Return the verdict, the first change to make, and whether results are the
    same: one line, however long."""
    compared = numbers_in_a_line(report)
    return last_word(report) + (
        f". Numbers: {compared}" if compared is not None else ""
    )


@dataclass(frozen=True)
class _Length:
    """How much the first screen shows.

    Args: switch_lines: the lines that switch the fuser on in the program itself.
        reasons: number of reasons why operators were not fused. whole_steps: number
        of steps with their lines and conditions. steps: number of steps that are
        named. minor: variables, suppressed findings, iterations. whole_problem: the
        whole message of the worst finding, which a later section repeats.
    """

    switch_lines: bool = True
    reasons: int = MOST_REASONS
    whole_steps: int = MOST_STEPS
    steps: int = MOST_STEPS
    minor: bool = True
    whole_problem: bool = True


_WHOLE = _Length()
_LENGTHS = (
    _WHOLE,
    _Length(switch_lines=False),
    _Length(switch_lines=False, reasons=2),
    _Length(switch_lines=False, reasons=1),
    _Length(switch_lines=False, reasons=2, whole_steps=2),
    _Length(switch_lines=False, reasons=2, whole_steps=1),
    _Length(switch_lines=False, reasons=1, whole_steps=1),
    _Length(switch_lines=False, reasons=1, whole_steps=1, minor=False),
    _Length(switch_lines=False, reasons=1, whole_steps=1, steps=1, minor=False),
    _Length(
        switch_lines=False,
        reasons=1,
        whole_steps=1,
        steps=1,
        minor=False,
        whole_problem=False,
    ),
)
"""From the longest to the shortest: all have the first step with its lines and the
largest reason."""


def _longest_that_fits(report: Report, width: int, detail: Detail) -> _Length:
    for length in _LENGTHS:
        parts = _screen(report, width, detail, length)
        if (
            drawn(Lines(*parts), width, colour=False).rstrip("\n").count("\n")
            < _SCREEN
        ):
            return length
    return _LENGTHS[-1]


def _screen(
    report: Report, width: int, detail: Detail, length: _Length
) -> list[RenderableType]:
    """Return the blocks on the target, the plan, the reasons and the speed."""
    parts: list[RenderableType] = [
        head(
            heading(
                report,
                detail is Detail.ALL,
                length.switch_lines,
                length.whole_problem,
            )
        )
    ]
    others = "without --summary" if detail is Detail.SUMMARY else "below"
    plan = plan_on_a_terminal(report, length.whole_steps, length.steps, others)
    what_to_do = list(sections((plan,), width))
    parts += what_to_do
    facts = summary(ranks_merged(report), length.reasons, length.minor).rows
    compared = numbers_in_a_line(report)
    if detail is Detail.SUMMARY and compared is not None:
        facts = (*facts, ("Numbers", compared))
    if facts:
        parts += [""] * bool(what_to_do) + [head(NamedValues(facts))]
    return parts


def _sections(context: ReportContext) -> Iterator[Section]:
    """Yield the sections after the first screen."""
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
    yield log(report, context.format)
