"""A comparison as one self-contained page in the design of the report's: no script, no network, light and
dark, with a picture of either side in which the groups that changed are marked. Everything is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from fusiondoc.comparison import Comparison, GroupChange, KernelChange, Side
from fusiondoc.model import dataclass
from fusiondoc.rendering.pages import TEMPLATES, digest, render_page, style_sheet
from fusiondoc.reports import comparison as words
from fusiondoc.reports.formatting import near
from fusiondoc.reports.html.page_context import colours
from fusiondoc.reports.html.program_picture import Picture, main_program, picture, within

_HERE = Path(__file__).resolve().parent
_PICTURE = _HERE.parent / "html" / "templates"

MOST_BOXES = 400
"""Of the picture of one side."""

_BAD = ("gone", "split", "slower", "came")
_GOOD = ("added", "merged", "faster")
_SEVERITIES = {"bad": "error", "good": "good", "other": "note"}
"""The classes of the page's style."""
_MARKS = {"came": "new", "gone": "gone", "reason": "other reason", "count": "other count"}


@dataclass(frozen=True)
class Mark:
    """What became of something; ``style``: "bad", "good" or "other"."""

    text: str
    style: str

    @property
    def css(self) -> str:
        return _SEVERITIES[self.style]


@dataclass(frozen=True)
class Row:
    """A change: its marks, what it is about, where, what more there is to say (a list under "details", else
    lines)."""

    marks: tuple[Mark, ...]
    what: str
    place: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Changes of one kind, and a sentence on those that are not rows."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str | None = None


@dataclass(frozen=True)
class SideView:
    """A or B: in figures, and its picture where the log shows a plan."""

    side: str
    name: str
    figures: str
    picture: Picture | None
    more: int
    """Plans that are not shown."""


@dataclass(frozen=True)
class ComparisonPage:
    """``settings`` are rows of words."""

    title: str
    changed: str
    sides: tuple[SideView, ...]
    settings: tuple[tuple[str, str, str, str], ...]
    parts: tuple[Part, ...]
    unrelated: str | None
    notes: tuple[str, ...]


def render(comparison: Comparison) -> str:
    """The comparison as a page of HTML."""
    comparison = words.for_readers(comparison)
    style = style_sheet() + colours()
    return render_page(
        (_HERE / "templates", _PICTURE, TEMPLATES),
        "comparison.html.jinja",
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{digest(style)}'",
        style=Markup(style),
        page=_page(comparison),
    )


def _page(comparison: Comparison) -> ComparisonPage:
    sides = (("A", comparison.a), ("B", comparison.b))
    kernels, counted = words.only_bytes(comparison)
    parts = (
        Part("Groups", ("change", "groups", "from", "details"), tuple(map(_group, comparison.groups))),
        Part(
            "Not fused",
            ("change", "what"),
            tuple(
                Row((_came(row.change),), words.unfused(row)) for row in words.once_each(comparison.unfused)
            ),
        ),
        Part(
            "Fallbacks",
            ("change", "what"),
            tuple(Row((_came(row.change),), words.fallback(row)) for row in comparison.fallbacks),
        ),
        Part("Kernels", ("change", "kernel", "details"), tuple(map(_kernel, kernels)), counted),
        Part(
            "Model",
            ("change", "way", "time"),
            tuple(
                Row(
                    (_mark(str(one.speed.change)),),
                    f"{one.way} {one.phase}",
                    details=(words.speed(one.speed),),
                )
                for one in comparison.speed
            ),
        ),
        Part(
            "Findings",
            ("change", "code", "what"),
            tuple(
                Row(
                    (_came(row.change),),
                    f"{row.finding.severity} {row.finding.code}",
                    details=(
                        row.finding.message,
                        *([row.finding.advice] if row.finding.advice and row.change == "came" else []),
                    ),
                )
                for row in comparison.findings
            ),
        ),
    )
    return ComparisonPage(
        title="fusiondoc: " + ("nothing changed" if comparison.same else "what changed"),
        changed="Nothing changed" if comparison.same else words.changed(comparison),
        sides=tuple(_side(comparison, name, one) for name, one in sides),
        settings=tuple(
            (one.kind, one.name, one.a or "not set", one.b or "not set") for one in comparison.differences
        ),
        parts=tuple(part for part in parts if part.rows or part.note),
        unrelated=comparison.unrelated,
        notes=comparison.notes,
    )


def _side(comparison: Comparison, name: str, side: Side) -> SideView:
    """The plan of a side with most of what changed; that with most groups, where nothing did."""
    report = comparison.reports[name == "B"] if comparison.reports is not None else None
    drawn, more = None, 0
    if report is not None and report.programs:
        changed = _changed(comparison, name)
        most = max(report.programs, key=lambda one: len(changed.get(one.id, ())))
        chosen = most if changed.get(most.id) else None
        first = chosen.id if chosen is not None else main_program(report)
        shown = next(one for one in within(report.programs, first, MOST_BOXES) if one.id == first)
        known = {group.id: group for group in report.groups}
        drawn = replace(picture(shown, known, changed.get(shown.id, ())), id=f"{name}-{shown.id}")
        more = len(report.programs) + report.programs_left_out - 1
    return SideView(name, near(side.name), words.side(side), drawn, more)


def _changed(comparison: Comparison, name: str) -> dict[str, frozenset[int]]:
    """Of each program of a side the nodes whose groups changed. Of a group of which some instances changed
    only these, where their layers tell: layers that the other side has no such group in."""
    assert comparison.reports is not None
    mine, others = comparison.reports[name == "B"], comparison.reports[name != "B"]
    often: dict[str, int] = {}
    for change in comparison.groups:
        for ref in change.b if name == "B" else change.a:
            often[ref.id] = often.get(ref.id, 0) + change.count
    nodes: dict[str, list[tuple[str, int]]] = {}
    for program in mine.programs:
        for place, node in enumerate(program.nodes):
            if node.group in often:
                nodes.setdefault(node.group or "", []).append((program.id, place))
    layers: dict[tuple[tuple[str, ...], str | None], set[str | None]] = {}
    for group in others.groups:
        layers.setdefault((group.ops, group.phase), set()).update(one.layer for one in group.instances)
    found: dict[str, set[int]] = {}
    for group in mine.groups:
        places = nodes.get(group.id, [])
        alike = layers.get((group.ops, group.phase), ())
        new = [place for place, one in zip(places, group.instances) if one.layer not in alike]
        told = len(places) == len(group.instances) and len(new) == often.get(group.id)
        for program_id, place in new if told else places:
            found.setdefault(program_id, set()).add(place)
    return {program_id: frozenset(places) for program_id, places in found.items()}


def _group(change: GroupChange) -> Row:
    marks = tuple(map(_mark, change.kinds))
    place = words.place(change.b or change.a)
    return Row(marks, words.group_head(change), place, tuple(_details(change)))


def _details(change: GroupChange) -> Iterator[str]:
    yield from words.sides_of(change)
    yield from (f"no longer in it: {text}" for text in words.nodes(change.ops_gone))
    yield from (f"new in it: {text}" for text in words.nodes(change.ops_added))
    if "types" in change.kinds:
        yield from words.types(change)
    yield from (f"not fused now: {words.unfused(row)}" for row in words.once_each(change.because))
    if change.speed is not None and change.speed.change is not None:
        yield words.speed(change.speed)


def _kernel(change: KernelChange) -> Row:
    facts = tuple(fact for fact in words.kernel_facts(change) if not fact.startswith("nvFuser"))
    marks = tuple(_mark(kind) for kind in change.kinds if kind != "bytes")
    return Row(marks, words.kernel_head(change), details=facts)


def _mark(kind: str) -> Mark:
    return Mark(kind, "bad" if kind in _BAD else "good" if kind in _GOOD else "other")


def _came(change: str) -> Mark:
    style = "good" if change == "gone" else "bad" if change == "came" else "other"
    return Mark(_MARKS.get(change, change), style)
