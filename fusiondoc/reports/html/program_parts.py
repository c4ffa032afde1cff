"""The program on the page: its plans, its modules and its source.

The section with the pictures of the plans: selector, filter by reason, details of each node.

The rows of the module tree: which modules show, and which are folded.

The user's source with what became of each line, as a coverage report shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from markupsafe import Markup

from fusiondoc.model import count, dataclass, field
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import Module, module_tree, outside
from fusiondoc.model.reasons import Detail
from fusiondoc.model.remedies import Nothing
from fusiondoc.model.report import (
    Evidence,
    Finding,
    OpNode,
    Program,
    ProgramNode,
    Unfused,
    rows_by_index,
)
from fusiondoc.model.source import Source
from fusiondoc.rendering.hues import hue
from fusiondoc.rendering.pages import Room, script_data
from fusiondoc.rendering.printable import visible
from fusiondoc.rendering.units import PAGE, percent, seconds
from fusiondoc.rendering.values import Cause, Gauge
from fusiondoc.reports.html.program_picture import Picture, main_program, picture, within
from fusiondoc.views.formatting import near
from fusiondoc.views.report_context import QUOTED, Context, shown


@dataclass(frozen=True)
class Programs:
    """``first`` is the program that is shown before another is chosen; ``data`` is for the page's script."""

    note: str
    first: str
    pictures: tuple[Picture, ...]
    reasons: tuple[Cause, ...]
    left: int
    data: Markup


_HINT = (
    "Click a box, or move with the "
    "arrow keys and press Enter, for its source line, IR, types and what the log says."
)


def program_view(context: Context) -> Programs | None:
    """None where the log shows no plan."""
    report = context.report
    if not report.programs:
        return None
    data = NodeData(context)
    first = main_program(report)
    shown = within(report.programs, first, MOST_BOXES)
    for program in shown:
        data.add(program)
    return Programs(
        note=_HINT,
        first=first,
        pictures=tuple(picture(program, context.groups) for program in shown),
        reasons=tuple(context.reasons),
        left=report.programs_left_out + len(report.programs) - len(shown),
        data=script_data(data.as_json()),
    )


MOST_BOXES = 2_000
"""Of all pictures together: more take megabytes, and nobody reads them."""


class NodeData:
    """Of all programs of a page. Texts stand once and are named by their number."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._texts: dict[str, int] = {}
        self._programs: dict[str, list[list[Any]]] = {}
        self._shown_rows: dict[int | None, int] = {}
        """Row -> its number among ``_reasons``."""
        self._reasons: list[list[Any]] = []
        self._unfused = rows_by_index(context.report)
        self._advice: dict[int, str] = {}
        """``Unfused.index`` -> the advice of the finding on that row."""
        self._advice_alike: dict[tuple[str, str, Detail | None], str] = {}
        """Operator, code and detail of the reason, None for any -> the advice on the first row with these."""
        self._folded: dict[tuple[str, bool], str] = {}
        """Operator, whether it is of torch's formulas -> the advice of the note on what nobody can change."""
        for finding in context.report.findings:
            self._add_advice(finding)

    def add(self, program: Program) -> None:
        self._programs[visible(program.id)] = [self._node(program, node) for node in program.nodes]

    def as_json(self) -> dict[str, Any]:
        return {"texts": list(self._texts), "programs": self._programs, "reasons": self._reasons}

    def _text(self, text: str | None) -> int:
        return -1 if not text else self._texts.setdefault(visible(text), len(self._texts))

    def _node(self, program: Program, node: ProgramNode) -> list[Any]:
        """In the order that page.js reads."""
        if node.group is not None:
            return [self._text(node.group)]
        evidence = node.evidence[0] if node.evidence else None
        inside = program.nodes[node.inside] if node.inside is not None else None
        return [
            -1,
            self._text(node.op),
            self._text(shown(node.source)),
            self._text(shown(node.user_source)),
            self._text(self._context.code_at(node.user_source)),
            self._reason(node),
            self._text(node.condition),
            self._text(f"{inside.op} at {shown(inside.user_source or inside.source)}" if inside else None),
            [self._text(text) for text in node.inputs],
            [self._text(text) for text in node.outputs],
            self._text(self._context.position(evidence) if evidence else None),
            self._text(self._printed(evidence)),
            self._text(node.program),
        ]

    def _printed(self, evidence: Evidence | None) -> str | None:
        """The line of the log, as far as the page has room."""
        text = self._context.excerpt(evidence) if evidence is not None else None
        return text if text is not None and self._context.takes_room(len(text)) else None

    def _add_advice(self, finding: Finding) -> None:
        """One note is on all lines of torch's own formulas, and one on all kernels of libraries."""
        if finding.advice is None:
            return
        if finding.code == "FD236":
            formulas = finding.remedy is not None and finding.remedy.nothing is Nothing.FORMULAS
            for op in finding.ops:
                self._folded.setdefault((op, formulas), finding.advice)
        for index in finding.rows:
            self._advice.setdefault(index, finding.advice)
            row = self._unfused.get(index)
            if row is None:
                continue  # equal to a row of another rank
            code = row.reason.code
            self._advice_alike.setdefault((row.op, code, row.reason.detail), finding.advice)
            self._advice_alike.setdefault((row.op, code, None), finding.advice)

    def _advice_on(self, node: ProgramNode, row: Unfused | None) -> str:
        """What is advised on an operator: by the finding on its row, else on another row with the same
        reason, else by its code."""
        code, op = node.reason or "", node.op
        known = self._advice.get(node.row) if node.row is not None else None
        detail = row.reason.detail if row is not None else None
        known = known or self._advice_alike.get((op, code, detail))
        formula = (node.source or "").startswith("<string>")
        if known is None and not formula:
            known = self._advice_alike.get((op, code, None))
        known = known or self._folded.get((op, formula))
        general = CODES[code].advice if code in CODES else None
        return known or general or ""

    def _reason(self, node: ProgramNode) -> int:
        """The number of the reason why it is in no group; -1 without one."""
        if node.reason is None:
            return -1
        if node.row in self._shown_rows:
            return self._shown_rows[node.row]
        row = self._unfused.get(node.row)
        alike = (reason.text for reason in self._context.reasons if reason.code == node.reason)
        text = node.reason_text or next(alike, "")
        quotes = [
            [visible(self._context.position(one)), visible(self._printed(one) or "")]
            for one in islice(row.evidence if row else (), QUOTED)
        ]
        number = len(self._reasons)
        if node.row is not None:
            self._shown_rows[node.row] = number
        self._reasons.append(
            [
                visible(node.reason),
                visible(text),
                bool(row and row.reason.stated),
                quotes,
                len(row.evidence) + row.evidence_left_out if row else 0,
                visible(self._advice_on(node, row)),
                visible(CODES[node.reason].title if node.reason in CODES else ""),
            ]
        )
        return number


MOST_MODULES = 1000

_OPEN = 30
"""The tree is shown open down to where this many modules show."""


@dataclass(frozen=True)
class ModuleRow:
    """A module; ``inside`` is folded. ``at``: its place among those beside it."""

    at: int
    name: str
    path: str
    fused: int
    unfused: int
    share: float
    """-1 without an operator."""
    shown_share: str
    bar: Gauge
    ms: float
    """-1 where no kernel was timed."""
    shown_ms: str
    is_open: bool
    inside: tuple[ModuleRow, ...]


@dataclass(frozen=True)
class Modules:
    rows: tuple[ModuleRow, ...]
    timed: bool
    note: str


def module_list(context: Context) -> Modules | None:
    """None where nothing tells a layer, or there are more modules than a page can show."""
    tree = module_tree(context.report)
    size = _size(tree)
    if not tree or size > MOST_MODULES:
        return None
    depth = _open_depth(tree)
    rows = tuple(_row(nth, one, depth) for nth, one in enumerate(tree))
    told = sum(one.fused + one.unfused for one in tree)
    every = context.report.fused_operators + sum(row.count for row in outside(context.report))
    note = "Operators in groups and outside them, by the module that they belong to."
    if every > told:
        note += f" Left out, as their module is not known: {count(every - told, 'operator')}."
    return Modules(rows, any(one.ms is not None for one in tree), note)


def _size(modules: tuple[Module, ...]) -> int:
    return sum(1 + _size(one.inside) for one in modules)


def _open_depth(level: Sequence[Module]) -> int:
    """How many levels are open."""
    shown = len(level)
    depth = 0
    while level:
        level = [inner for one in level for inner in one.inside]
        shown += len(level)
        if not level or shown > _OPEN:
            break
        depth += 1
    return depth


def _row(at: int, module: Module, depth: int) -> ModuleRow:
    share = module.share
    total = module.fused + module.unfused
    return ModuleRow(
        at=at,
        name=module.name,
        path=module.path,
        fused=module.fused,
        unfused=module.unfused,
        share=-1 if share is None else share,
        shown_share=PAGE.known(share, percent),
        bar=Gauge(share or 0.0, f"{module.fused} of {total} fused"),
        ms=-1 if module.ms is None else module.ms,
        shown_ms=PAGE.known(module.ms, lambda ms: seconds(ms / 1e3)),
        is_open=depth > 0,
        inside=tuple(_row(nth, one, depth - 1) for nth, one in enumerate(module.inside)),
    )


WHOLE = 300
"""Files of so many lines are shown whole; of longer ones what is near a marked line."""

AROUND = 6

MOST_LINES = 1_200
"""Of all files of a page."""


@dataclass(frozen=True)
class SourceLine:
    """A line of a file, or a gap between lines (without a number)."""

    number: int | None
    code: Markup | str = ""
    kind: str = ""
    """Operators of it are "in" a group, "out"side, or "both"."""
    groups: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    """(code, class of its colour)."""
    says: str = ""


_GAP = SourceLine(None)


@dataclass(frozen=True)
class SourceFile:
    name: str
    at_hand: bool
    lines: tuple[SourceLine, ...]
    says: str


@dataclass(frozen=True)
class SourceView:
    """``full``: further lines were left out."""

    files: tuple[SourceFile, ...]
    full: bool
    note: str = "Lines whose operators are in a group name it; lines with operators outside name the reason."


@dataclass
class _Mark:
    groups: dict[str, int] = field(default_factory=dict)
    """Group -> how many of its operators come from the line."""
    outside: list[Unfused] = field(default_factory=list)


_Files = dict[str, dict[int, _Mark]]


def source_view(context: Context, room: Room) -> SourceView | None:
    """None if no line of the user's own program is known, and no file of a package is at hand."""
    mine, packages = _marks(context)
    files = {**packages, **mine}
    if not files:
        return None
    left = MOST_LINES
    made: list[SourceFile] = []
    for name in sorted(files, key=lambda file: (file not in mine, -len(files[file]))):
        lines = _lines(name, files[name], context, room, left)
        left -= len(lines)
        fused = sum(bool(mark.groups) for mark in files[name].values())
        lost = sum(bool(mark.outside) for mark in files[name].values())
        says = f"{count(fused, 'line')} with fused operators, {lost} with operators outside"
        made.append(SourceFile(near(name), context.lines_of(name) is not None, tuple(lines), says))
        if left <= 0:
            break
    return SourceView(tuple(made), left <= 0)


def _marks(context: Context) -> tuple[_Files, _Files]:
    """Of the user's files, and of packages'."""
    files: dict[str, dict[int, _Mark]] = {}

    def marked(one: OpNode | Unfused) -> Iterator[_Mark]:
        """The user's line, and that of a package whose file is at hand."""
        user, place = Source.parse(one.user_source), Source.parse(one.source)
        if user is not None:
            yield files.setdefault(user.file, {}).setdefault(user.line, _Mark())
        if place is None or (user is not None and place.at_line == user.at_line):
            return
        if place.has_file and context.lines_of(place.file) is not None:
            yield packages.setdefault(place.file, {}).setdefault(place.line, _Mark())

    packages: dict[str, dict[int, _Mark]] = {}
    for group in context.report.groups:
        for node in group.nodes:
            for mark in marked(node):
                mark.groups[group.id] = mark.groups.get(group.id, 0) + 1
    for row in outside(context.report):
        for mark in marked(row):
            mark.outside.append(row)
    return files, packages


def _lines(name: str, marks: dict[int, _Mark], context: Context, room: Room, most: int) -> list[SourceLine]:
    lines = context.lines_of(name)
    if lines is None:
        return [_line(number, "", marks[number], context) for number in sorted(marks)[:most]]
    coloured = room.coloured("\n".join(lines), "python")
    count_of_lines = len(lines) - (not lines[-1])
    if len(lines) <= WHOLE:
        wanted = set(range(1, count_of_lines + 1))
    else:
        wanted = {n for at in marks for n in range(at - AROUND, at + AROUND + 1) if 0 < n <= count_of_lines}
    rows: list[SourceLine] = []
    last = 0
    for number in sorted(wanted)[:most]:
        if number != last + 1:
            rows.append(_GAP)
        rows.append(_line(number, coloured[number - 1], marks.get(number), context))
        last = number
    if last < count_of_lines:
        rows.append(_GAP)
    return rows


def _line(number: int, code: Markup | str, mark: _Mark | None, context: Context) -> SourceLine:
    if mark is None:
        return SourceLine(number, code)
    codes = list(dict.fromkeys(row.reason.code for row in mark.outside))[:3]
    seen: dict[str, int] = {}
    for row in mark.outside:
        seen[row.op] = seen.get(row.op, 0) + row.count
    said = [op + (f" ×{times}" if times > 1 else "") for op, times in list(seen.items())[:4]]
    return SourceLine(
        number,
        code,
        kind="both" if mark.groups and mark.outside else "in" if mark.groups else "out",
        groups=tuple(mark.groups),
        reasons=tuple((code, hue(code)) for code in codes),
        says=", ".join(said) + (" …" if len(seen) > 4 else "") + (" not fused" if said else ""),
    )
