"""The HTML report: one self-contained page that needs no network and executes
nothing from the log. Its first screen answers: did it fuse, what did not, why, how
fast; and what to do now.

Style and script are part of the page; its Content-Security-Policy allows these two
by their hashes and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.model.report import Report
from fusiondoc.rendering import pages
from fusiondoc.rendering.blocks import Document, Formats, Section
from fusiondoc.rendering.hues import colours
from fusiondoc.views import report_heading
from fusiondoc.views.formatting import verdict, with_near_paths
from fusiondoc.views.report_boundaries import boundaries
from fusiondoc.views.report_checks import numbers, tried
from fusiondoc.views.report_compiled import compiled
from fusiondoc.views.report_context import ReportContext
from fusiondoc.views.report_findings import fallbacks, findings
from fusiondoc.views.report_frontends import aot, script
from fusiondoc.views.report_groups import groups
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_outside import unfused
from fusiondoc.views.report_plan import plan
from fusiondoc.views.report_program import modules, program
from fusiondoc.views.report_ranks import ranks, ranks_merged
from fusiondoc.views.report_record import expectations, log, reproduce
from fusiondoc.views.report_source import source
from fusiondoc.views.report_te import te_plans
from fusiondoc.views.report_times import shapes, speed, time_line, where_time_goes


def render(report: Report) -> str:
    """The report as a page."""
    report = with_near_paths(report)
    document = Document(
        command="",
        name=report.target.name or "",
        verdict=verdict(report),
        lead=report_heading.lead(report),
        facts=(),
        sections=tuple(_sections(ReportContext(ranks_merged(report)))),
        notes=report_heading.notes(report),
        cards=report_heading.cards(ReportContext(report)),
    )
    return pages.render(document, colours(), with_script=True)


def _sections(context: ReportContext) -> Iterator[Section]:
    """Yield the sections in the order of the page."""
    report = context.report
    yield plan(report)
    yield expectations(report)
    yield findings(context)
    yield fallbacks(context)
    yield ranks(report)
    yield program(context)
    yield source(context)
    yield modules(context)
    for make in (script, aot, te_plans):
        yield make(report)
    yield groups(context)
    yield unfused(context)
    yield boundaries(context)
    yield compiled(report)
    for make in (
        kernels,
        speed,
        where_time_goes,
        shapes,
        time_line,
        numbers,
        tried,
        reproduce,
    ):
        yield make(report)
    yield log(report, Formats.PAGE)
