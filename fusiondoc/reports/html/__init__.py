"""The HTML report: one self-contained page that needs no network and runs nothing of the log; and a small
fragment for a notebook's output cell.

Python prepares typed values (the views), ``templates/`` make HTML of them. Style and script are part of the
page; its Content-Security-Policy allows these two by their hashes and nothing else. The fragment of a report
or a comparison has no script, no style sheet and nothing from the network; every text of the log is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Callable, Iterable, Sequence

from markupsafe import Markup

from fusiondoc.comparison import Comparison
from fusiondoc.model import count, dataclass
from fusiondoc.model.modules_and_neighbours import outside
from fusiondoc.model.report import Report
from fusiondoc.reports import comparison as words
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
from fusiondoc.reports.printable import visible
from fusiondoc.reports.run_words import ranks_merged
from fusiondoc.reports.wording_and_source import fuser, machine, near, runs_of, verdict, with_near_paths
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


MOST_ROWS = 15
"""Of each table; the whole is in the other formats."""

_CELL = "text-align:left;vertical-align:top"


def report_fragment(report: Report, notes: Iterable[str] = ()) -> str:
    """Verdict, groups, what is not fused and why, and findings; ``notes`` are sentences to add."""
    parts = [_line("b", verdict(report)), _line("div", _circumstances(report))]
    parts.append(
        _table(
            "Groups",
            ("", "phase", "operators", "first line"),
            [
                (g.id, g.phase or "", ", ".join(runs_of(g.ops)), near(_first(n.user_source for n in g.nodes)))
                for g in report.groups
            ],
        )
    )
    parts.append(
        _table(
            "Not fused",
            ("", "times", "where", "why"),
            [
                (
                    row.op,
                    str(row.count),
                    near(row.user_source or row.source or ""),
                    f"{row.reason.text} ({row.reason.code})",
                )
                for row in outside(report)
            ],
        )
    )
    parts.append(
        _table(
            "Findings",
            ("", "", ""),
            [(f"{f.severity} {f.code}", f.message, f.advice or "") for f in report.findings],
        )
    )
    parts += [_line("div", f"note: {note}") for note in notes]
    return "<div>" + "".join(parts) + "</div>"


def comparison_fragment(comparison: Comparison) -> str:
    """What changed, in a few lines."""
    parts = [_line("b", words.changed(comparison))]
    parts.append(
        _table(
            "",
            ("", "", ""),
            [
                (name, near(side.name), words.side(side))
                for name, side in (("A", comparison.a), ("B", comparison.b))
            ],
        )
    )
    parts += [_line("div", note) for note in comparison.notes]
    return "<div>" + "".join(parts) + "</div>"


def _circumstances(report: Report) -> str:
    name = report.target.name or ""
    return ", ".join(part for part in (name, fuser(report), *machine(report)) if part)


def _first(values: Iterable[str | None]) -> str:
    return next((value for value in values if value), "")


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    heading = f"{title} ({len(rows)})" if title else ""
    lines = [_row("th", head)] if any(head) else []
    lines += [_row("td", row) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        lines.append(_row("td", (f"and {count(len(rows) - MOST_ROWS, 'more row')}",)))
    caption = f'<caption style="{_CELL};font-weight:bold">{_safe(heading)}</caption>' if heading else ""
    return f"<table>{caption}{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_CELL}">{_safe(cell)}</{tag}>' for cell in cells) + "</tr>"


def _line(tag: str, text: str) -> str:
    return f"<{tag}>{_safe(text)}</{tag}>"


def _safe(text: str) -> str:
    return escape(visible(text))
