"""The HTML report: one self-contained page that needs no network and runs nothing of the log.

Style and script stand in the page; its Content-Security-Policy allows these two by their hashes and nothing
else.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from fusiondoc.model.report import Report
from fusiondoc.reports.html.closing import findings_view, log_view, reproduce_view
from fusiondoc.reports.html.context import Context
from fusiondoc.reports.html.expectations_view import expectations_view
from fusiondoc.reports.html.group_list import group_list, unfused_list
from fusiondoc.reports.html.kernel_list import kernel_list
from fusiondoc.reports.html.markup import Markup, el, join
from fusiondoc.reports.html.program_view import program_view
from fusiondoc.reports.html.run_views import numbers_view, speed_view, time_line, tries_view
from fusiondoc.reports.html.source_view import source_view
from fusiondoc.reports.html.summary import header
from fusiondoc.version import __version__

_HERE = Path(__file__).resolve().parent

_SECTIONS = (
    ("expectations", "Expectations", expectations_view),
    ("findings", "Findings", findings_view),
    ("program", "Program", program_view),
    ("source", "Source", source_view),
    ("groups", "Groups", group_list),
    ("unfused", "Not fused", unfused_list),
    ("kernels", "Kernels", kernel_list),
    ("speed", "Speed", speed_view),
    ("time", "Time line", time_line),
    ("numbers", "Numbers", numbers_view),
    ("tried", "Tried", tries_view),
    ("reproduce", "Reproduce", reproduce_view),
    ("log", "Log", log_view),
)


def render(report: Report) -> str:
    """The report as a page."""
    context = Context(report)
    head = header(context)
    made = [(name, title, view(context)) for name, title, view in _SECTIONS]
    shown = [(name, title, part) for name, title, part in made if part is not None]
    links = [el("li", el("a", title, href=f"#{name}")) for name, title, _ in shown]
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )
    name = str(report.target.get("name") or "report")
    page = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("meta", name="generator", content=f"fusiondoc {__version__}"),
            el("title", f"{name} · fusiondoc"),
            Markup(f"<style>{style}</style>"),
        ),
        el(
            "body",
            el("a", "Skip to the report", href="#main", class_="skip"),
            head,
            el("nav", el("ul", *links), aria_label="Sections"),
            el("main", join(part for _, _, part in shown), id="main", tabindex="-1"),
            el("footer", el("p", f"Made by fusiondoc {__version__} from the log of the run.")),
            Markup(f"<script>{script}</script>"),
        ),
        lang="en",
    )
    return "<!DOCTYPE html>\n" + page + "\n"


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
