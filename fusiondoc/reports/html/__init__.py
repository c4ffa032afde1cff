"""The HTML report: one self-contained page that needs no network and runs nothing of the log.

Python prepares typed values (the views), ``templates/`` make HTML of them. Style and script are part of the
page; its Content-Security-Policy allows these two by their hashes and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Callable

from markupsafe import Markup

from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Report
from fusiondoc.reports.html.group_list import group_list, kernel_list, unfused_list
from fusiondoc.reports.html.page_context import Context, colours, render_page
from fusiondoc.reports.html.program_parts import aot_view, module_list, script_view, source_view
from fusiondoc.reports.html.program_view import program_view
from fusiondoc.reports.html.run_views import (
    expectations_view,
    findings_view,
    log_view,
    numbers_view,
    ranks_view,
    reproduce_view,
    speed_view,
    step_view,
    time_line,
    tries_view,
)
from fusiondoc.reports.html.summary import header, plan_view
from fusiondoc.reports.run_words import ranks_merged
from fusiondoc.reports.source_code import with_near_paths
from fusiondoc.version import __version__

_HERE = Path(__file__).resolve().parent

_SECTIONS: tuple[tuple[str, str, Callable[[Context], object]], ...] = (
    ("plan", "Do this first", plan_view),
    ("expectations", "Expectations", expectations_view),
    ("findings", "Findings", findings_view),
    ("ranks", "Ranks", ranks_view),
    ("program", "Program", program_view),
    ("source", "Source", source_view),
    ("modules", "Modules", module_list),
    ("script", "What the program ran", script_view),
    ("aot", "AOTAutograd", aot_view),
    ("groups", "Groups", group_list),
    ("unfused", "Not fused", unfused_list),
    ("kernels", "Kernels", kernel_list),
    ("speed", "Speed", speed_view),
    ("steps", "Where the time goes", step_view),
    ("time", "Time line", time_line),
    ("numbers", "Numbers", numbers_view),
    ("tried", "Tried", tries_view),
    ("reproduce", "Reproduce", reproduce_view),
    ("log", "Log", log_view),
)
"""(name, title, what prepares it); the template has the same name. In the order of the page."""


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading that the navigation leads to."""

    id: str
    usual_title: str
    view: object

    @property
    def title(self) -> str:
        return getattr(self.view, "title", None) or self.usual_title

    @property
    def link(self) -> str:
        """Its short title."""
        return "What to do" if self.title != self.usual_title else self.title

    @property
    def note(self) -> str | None:
        return getattr(self.view, "note", None)

    @property
    def template(self) -> str:
        return f"{self.id}.html.jinja"


def render(report: Report) -> str:
    """The report as a page."""
    report = with_near_paths(report)
    head = header(Context(report))
    context = Context(ranks_merged(report))
    made = [Section(name, title, view(context)) for name, title, view in _SECTIONS]
    style = (_HERE / "page.css").read_text(encoding="utf-8") + colours()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    return render_page(
        _HERE / "templates",
        "page.html.jinja",
        version=__version__,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        header=head,
        sections=[section for section in made if section.view is not None],
    )


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
