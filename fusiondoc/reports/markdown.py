"""The Markdown report: for a comment on an issue or pull request.

GitHub takes comments of up to 65,536 characters; rows that do not fit are left out, and a note says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusiondoc.model import count
from fusiondoc.model.operator_places import folded, outside
from fusiondoc.model.report import Finding, Group, Report, Unfused
from fusiondoc.rendering.blocks import Formats, Items, shown
from fusiondoc.rendering.markdown_documents import blocks_of, folded_section, item_lines
from fusiondoc.rendering.printable import markdown as _text
from fusiondoc.rendering.printable import markdown_code as _code
from fusiondoc.rendering.units import PAGE, interval, percent, size, whole
from fusiondoc.reports import program_by_itself
from fusiondoc.views.formatting import (
    covered,
    fuser,
    machine,
    near,
    never_ran,
    peak_share,
    phase_of,
    runs_of,
    speedups,
    times,
    verdict,
    where_from,
    with_near_paths,
    without_column,
)
from fusiondoc.views.report_kernels import kernels
from fusiondoc.views.report_plan import plan
from fusiondoc.views.report_ranks import ranks, ranks_merged
from fusiondoc.views.report_record import expectations

LIMIT = 65_536
"""Characters of a comment on GitHub."""

_SPARE = 400
"""For the note at the end."""

_SHARES = (("expectations", 0.2), ("findings", 0.35), ("groups", 0.5), ("unfused", 0.75))
"""How much of the room may be used up when a section ends, so that none crowds out the others."""

_ICONS = {"error": "🔴", "warning": "🟡", "note": "🔵"}


def render(report: Report) -> str:
    """The report as GitHub-flavoured Markdown, below GitHub's limit for a comment."""
    report = with_near_paths(report)
    room = _Room()
    for line in _head(report):
        room.add(line)
    for line in _ranks(report):
        room.add(line, LIMIT // 5)
    report = ranks_merged(report)
    parts = {
        "expectations": (
            "Expectations",
            "",
            _expectations(report),
            True,
        ),
        "findings": (
            "Findings",
            "",
            [_finding(f) for f in report.findings if not f.in_rows and not f.in_header],
            True,
        ),
        "groups": (
            "Groups",
            _header("Group", "Phase", "Operators", "Layers", "Lines", "Reads", "Writes", "Kernels"),
            [_group(g) for g in report.groups],
            False,
        ),
        "unfused": (
            "Not fused",
            _header("Operator", "Layers", "Line", "Nodes", "Why"),
            [_unfused(u) for u in _sorted(report)],
            False,
        ),
    }
    left: list[str] = []
    for name, share in _SHARES:
        title, header, rows, is_open = parts[name]
        if rows:
            missing = _section(room, title, header, rows, is_open, int((LIMIT - _SPARE) * share))
            if missing:
                left.append(f"{missing:,} of {count(len(rows), 'row')} under {title}")
    for section in shown([kernels(report)], Formats.MARKDOWN):
        for line in folded_section(section, LIMIT - _SPARE - room.used):
            room.force(line)
    if left:
        room.force(f"_Cut to fit into a comment: left out {'; '.join(left)}. `--format html` has all._")
    return room.text()


class _Room:
    """Lines, and how many characters they take."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.used = 0

    def add(self, line: str, limit: int = LIMIT - _SPARE) -> bool:
        """False if it does not fit below ``limit``."""
        if self.used + len(line) + 1 > limit:
            return False
        self.force(line)
        return True

    def force(self, line: str) -> None:
        self._lines.append(line)
        self.used += len(line) + 1

    def text(self) -> str:
        return "\n".join(self._lines).rstrip("\n") + "\n"


def _ranks(report: Report) -> Iterable[str]:
    if report.ranks is None:
        return
    section = ranks(report)
    yield f"<details open><summary><b>{section.title}</b> ({_text(section.note)})</summary>\n"
    yield from blocks_of(section, LIMIT // 6)
    yield "\n</details>\n"


def _section(room: _Room, title: str, header: str, rows: Sequence[str], is_open: bool, limit: int) -> int:
    """Write a folded section; how many rows did not fit."""
    room.force(f"<details{' open' if is_open else ''}><summary><b>{title}</b> ({len(rows):,})</summary>\n")
    if header:
        room.force(header)
    fitted = 0
    for row in rows:
        if not room.add(row, limit - 20):
            break
        fitted += 1
    room.force("\n</details>\n")
    return len(rows) - fitted


def _head(report: Report) -> Iterable[str]:
    name = report.target.name or ""
    yield f"### fusiondoc{': ' + _code(name[:300]) if name else ''}\n"
    share = covered(report, percent)
    yield f"**{_text(verdict(report))}**" + (f" ({_text(share)})\n" if share is not None else "\n")
    idle = never_ran(report)
    if idle is not None:
        yield f"{_text(idle)}\n"
    yield _text(", ".join([*machine(report), fuser(report)])[:500])
    for one in speedups(report)[:8]:
        yield f"\n{one.verdict} ({_text(one.text)})"
    rates = sorted(k.gb_per_s.median for k in report.kernels if k.gb_per_s is not None)
    if rates:
        shares = [share for share in (peak_share(k, report) for k in report.kernels) if share is not None]
        best = f", up to {percent(max(shares))} of the peak" if shares else ""
        yield f"\nKernels: {interval(rates[0], rates[-1], whole)} GB/s{best}"
    own = report.fuser.by_itself
    if own is not None:
        code = "; ".join(own.python)
        yield f"\nThe program {_text(program_by_itself.lead(own))} {_code(code)}"
    yield ""
    lines = plan_in_markdown(report)
    if lines:
        yield "\n".join(lines) + "\n"


def _header(*names: str) -> str:
    return f"| {' | '.join(names)} |\n|{'---|' * len(names)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _expectations(report: Report) -> list[str]:
    """An entry for each, with its details."""
    (items,) = expectations(report).blocks
    assert isinstance(items, Items)
    return ["\n".join(item_lines(item)) for item in items.rows]


def _finding(finding: Finding) -> str:
    head = f"{_ICONS.get(finding.severity, '')} **{_text(finding.severity)} {_text(finding.code)}**"
    lines = [f"- {head} {_text(finding.message[:1000])}"]
    if finding.source:
        lines[0] += f" ({_code(_place(finding.source))})"
    if finding.advice:
        lines.append(f"  → {_text(finding.advice[:1000])}")
    return "\n".join(lines)


def _group(group: Group) -> str:
    ops = runs_of(group.ops)
    shown = ", ".join(ops[:8]) + (f", … {len(ops) - 8} more" if len(ops) > 8 else "")
    places = list(dict.fromkeys(_place(n.user_source) for n in group.nodes if n.user_source))
    lines = ", ".join(_code(place) for place in places[:3]) + (" …" if len(places) > 3 else "")
    name = _text(group.id + times(group)) + (" **fell back**" if group.fallback else "")
    kernels = _text(", ".join(group.kernels[:4])) + (" …" if len(group.kernels) > 4 else "")
    return _row(
        name,
        _text(phase_of(group)),
        _code(shown),
        _layers(group.layers),
        lines or "–",
        PAGE.known(group.bytes_in, size),
        PAGE.known(group.bytes_out, size),
        kernels or "–",
    )


def _sorted(report: Report) -> list[Unfused]:
    return sorted(outside(report), key=lambda row: (not row.reason.stated, row.reason.code))


def _unfused(row: Unfused) -> str:
    where = where_from(row.user_source, row.source and without_column(row.source))
    why = f"**{_text(row.reason.code)}** {_text(row.reason.text[:300])}" + (
        "" if row.reason.stated else " (worked out)"
    )
    times = f"{row.count:,}" + (" (backward)" if row.phase == "backward" else "")
    return _row(
        _code(row.op),
        _layers(row.layers),
        _code(_short(where)) if where else "–",
        times,
        why,
    )


def _layers(layers: Sequence[str]) -> str:
    return _code(folded(layers)[:200]) if layers else "–"


def _place(source: str) -> str:
    """``file:line``, near the current folder."""
    return _short(without_column(near(source)))


def _short(place: str) -> str:
    return place if len(place) <= 200 else "…" + place[-199:]


def plan_in_markdown(report: Report) -> list[str]:
    """The plan as lines of GitHub-flavoured Markdown: for comments and job summaries; none without one."""
    lines = [
        line for section in shown([plan(report)], Formats.MARKDOWN) for line in blocks_of(section, LIMIT)
    ]
    return [f"**{_text(plan(report).title)}**", "", *lines[:-1]] if lines else []
