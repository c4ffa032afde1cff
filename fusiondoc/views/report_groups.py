"""The fusion groups as a section: a table in a comment; elsewhere each group with
its operators, their lines, its types, its IR and its segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.model import count
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import Group, Report
from fusiondoc.model.source import from_package
from fusiondoc.rendering.blocks import (
    Block,
    CodeBlock,
    Column,
    Entries,
    Entry,
    Formats,
    Heading,
    NamedValues,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.units import size
from fusiondoc.rendering.values import (
    Bytes,
    Cell,
    IdLinks,
    ShownPositions,
    Snippet,
    Status,
    Text,
    Tone,
    Types,
)
from fusiondoc.views.formatting import (
    further_values,
    phase_of,
    runs_of,
    short_type,
    size_in_words,
    times,
    where_from,
    without_operators,
)
from fusiondoc.views.report_context import ReportContext, shown
from fusiondoc.views.report_ranks import ranks_where
from fusiondoc.views.runtime_words import guard_in_words, runtimes_in_words
from fusiondoc.views.step_words import takes

MOST_ON_A_PAGE = 2_000
_MOST_WHOLE, _WHOLE_OF_MANY = 20, 8
"""If there are at most ``_MOST_WHOLE`` groups, a terminal shows all with their
operators; else the first ``_WHOLE_OF_MANY``, and a line for each other."""
_MOST_OPERATORS = 8
_MOST_ALIKE = 8
_MOST_KERNELS = 4
_MOST_FILES = 2
_FELL_BACK = Status("fell back", Tone.BAD)


def groups(context: ReportContext) -> Section:
    """Section of all groups; empty without any."""
    if context.format is Formats.MARKDOWN:
        block: Block = _table(context)
    elif context.format is Formats.TERMINAL:
        block = _on_a_terminal(context)
    else:
        block = _on_a_page(context)
    return Section("groups", "Groups", blocks=(block,))


# -- a row of a comment --------------------------------------------------------------------------------------

_COLUMNS = (
    Column("group"),
    Column("", optional=True),
    Column("phase"),
    Column("operators", wide=True),
    Column("layers", optional=True),
    Column("lines", optional=True),
    Column("reads", number=True, optional=True),
    Column("writes", number=True, optional=True),
    Column("kernels", optional=True),
    Column("a run launches", optional=True),
    Column("guard", optional=True),
)


def _table(context: ReportContext) -> Table:
    rows = []
    for group in context.report.groups:
        ops = runs_of(group.ops)
        more = ""
        if len(ops) > _MOST_OPERATORS:
            more = f", … {len(ops) - _MOST_OPERATORS} more"
        cells: tuple[Cell, ...] = (
            Text(group.id + times(group)),
            _FELL_BACK if group.fallback else Text(""),
            Text(phase_of(group)),
            Snippet(
                without_operators(group, context.report)
                or ", ".join(ops[:_MOST_OPERATORS]) + more
            ),
            Snippet(folded(group.layers)),
            _lines(group, context),
            Bytes(group.bytes_in),
            Bytes(group.bytes_out),
            IdLinks(group.kernels, _MOST_KERNELS),
            Text(runtimes_in_words(group)),
            Text(guard_in_words(group)),
        )
        rows.append(Row(cells))
    return Table(_COLUMNS, tuple(rows))


def _lines(group: Group, context: ReportContext) -> ShownPositions:
    """Return the lines of the user's program that the group computes."""
    sources: dict[str, None] = {}
    for node in group.nodes:
        if node.user_source:
            sources[node.user_source] = None
    return ShownPositions(
        tuple(context.line(shown(source), None) for source in sources)
    )


# -- entries of a terminal -----------------------------------------------------------------------------------


def _on_a_terminal(context: ReportContext) -> Entries:
    """Entries of groups; groups of the same operators and lines, which differ in
    their types only, are shown once."""
    kinds: dict[object, list[Group]] = {}
    for group in context.report.groups:
        kinds.setdefault(group.id if context.every else _alike(group), []).append(
            group
        )
    listed = list(kinds.values())
    named = len(listed) if context.every else MOST_ROWS
    if context.every or len(listed) <= _MOST_WHOLE:
        whole = len(listed)
    else:
        whole = _WHOLE_OF_MANY
    entries = [_whole(alike, context) for alike in listed[:whole]]
    entries += [_short(alike, context) for alike in listed[whole:named]]
    return Entries(tuple(entries), max(0, len(listed) - named))


def _alike(group: Group) -> object:
    """Return the key that is equal for groups that are shown together; a group that
    fell back is shown alone."""
    if group.fallback or group.segments:
        return group.id
    nodes = tuple((node.op, node.source, node.user_source) for node in group.nodes)
    return (
        group.kind,
        group.phase,
        group.rank,
        group.respecialises is not None,
        nodes,
    )


def _whole(alike: Sequence[Group], context: ReportContext) -> Entry:
    """Entry of a group with its operators, and the names of the groups like it."""
    group = alike[0]
    facts = ", ".join(_facts_in_words(group, context.report))
    return Entry(
        group.id,
        group.id + times(group),
        f"{group.kind}  {facts}",
        marks=(_FELL_BACK,) if group.fallback else (),
        remark=_others(alike[1:]),
        blocks=(
            _layers(group),
            _operators(group, context),
            _values(group),
            _launched(group),
            *_segments(group),
        ),
    )


def _facts_in_words(group: Group, report: Report) -> Iterator[str]:
    yield phase_of(group)
    yield size_in_words(group, report)
    if group.respecialises:
        yield f"specialisation {group.specialisation} of {group.respecialises}"
    if group.time is not None:
        yield f"{takes(group.time)} of a step"
    if group.runs is not None:
        yield f"ran {count(group.runs, 'time')}"
    if group.iteration is not None:
        yield f"from iteration {group.iteration}"
    if group.kernels:
        yield "kernels " + ", ".join(group.kernels)
    ranks = ranks_where(report, group.id)
    if ranks is not None:
        yield ranks


def _others(alike: Sequence[Group]) -> str:
    """Return ``and 8 groups like it, for other types: G4 ×3, G7``; "" without
    any."""
    if not alike:
        return ""
    named = ", ".join(group.id + times(group) for group in alike[:_MOST_ALIKE])
    left = ""
    if len(alike) > _MOST_ALIKE:
        left = f" and {len(alike) - _MOST_ALIKE} more"
    number = sum(group.count for group in alike)
    layers = folded([layer for group in alike for layer in group.layers])
    text = f"and {count(number, 'group')} like it, for other types: {named}{left}"
    return text + (f" ({layers})" if layers else "")


def _short(alike: Sequence[Group], context: ReportContext) -> Entry:
    """``G9  5 operators: mul, add, gelu and 2 more  model.py:9``."""
    group = alike[0]
    names = [op.rpartition("::")[2] for op in group.ops]
    listed = ", ".join(names[:3]) + (
        f" and {len(names) - 3} more" if len(names) > 3 else ""
    )
    source = group.first_line
    if source is not None:
        where = where_from(source, None)
    else:
        where = folded(group.layers, 2)
    further = sum(other.count for other in alike[1:])
    notes = [where, f"and {further} like it" if further else ""]
    return Entry(
        group.id,
        group.id + times(group),
        without_operators(group, context.report)
        or f"{count(len(names), 'operator')}: {listed}",
        "  ".join(filter(None, notes)),
        (_FELL_BACK,) if group.fallback else (),
    )


# -- entries of a page ---------------------------------------------------------------------------------------


def _on_a_page(context: ReportContext) -> Entries:
    every = context.report.groups
    entries = tuple(_entry(group, context) for group in every[:MOST_ON_A_PAGE])
    return Entries(entries, len(every) - len(entries))


def _entry(group: Group, context: ReportContext) -> Entry:
    files = sorted(
        {
            shown(n.user_source).rpartition("/")[2]
            for n in group.nodes
            if n.user_source
        }
    )
    more = "…" if len(files) > _MOST_FILES else ""
    notes = [folded(group.layers), phase_of(group), *files[:_MOST_FILES]]
    return Entry(
        group.id,
        group.id + times(group),
        without_operators(group, context.report) or ", ".join(runs_of(group.ops)),
        ", ".join(filter(None, notes)) + more,
        (_FELL_BACK,) if group.fallback else (),
        blocks=(
            NamedValues(tuple(_facts(group, context))),
            _layers(group),
            _values(group),
            *_ir(group, context),
            _operators(group, context),
            _launched(group),
            *_segments(group),
            Sentences(tuple(_printed(group, context)), Tone.DIM),
        ),
    )


def _facts(
    group: Group, context: ReportContext
) -> Iterator[tuple[str, str | Cell]]:
    lines = _lines(group, context)
    if lines.positions:
        yield "Your lines", lines
    yield "Kind", f"{group.kind} ({group.name})"
    again = ""
    if group.respecialises:
        again = f", specialisation {group.specialisation} of {group.respecialises}"
    yield "Phase", phase_of(group) + again
    known = {
        "Rank": ranks_where(context.report, group.id),
        "First in iteration": None
        if group.iteration is None
        else str(group.iteration),
        "Runs": None if group.runs is None else f"{group.runs:,}",
        "Takes": f"{takes(group.time)} of a step"
        if group.time is not None
        else None,
    }
    for name, value in known.items():
        if value is not None:
            yield name, value
    if group.kernels:
        yield "Kernels", IdLinks(group.kernels, len(group.kernels))


def _ir(group: Group, context: ReportContext) -> Iterator[Block]:
    """Yield the body as the log prints it; if the log cannot be read again, a body
    from the data in the report."""
    first = group.evidence[0] if group.evidence else None
    text = context.excerpt(first) if first is not None else None
    where = ""
    if first is not None and text is not None:
        where = f" as in {context.position(first)}"
    yield Heading(f"IR{where}")
    yield CodeBlock(
        text if text is not None else _rebuilt(group), f"IR of {group.id}", "ir"
    )


def _rebuilt(group: Group) -> str:
    lines = [f"with {group.name} = graph({', '.join(group.inputs)}):"]
    for node in group.nodes:
        source = f" # {from_package(node.source)}" if node.source else ""
        lines.append(f"  {node.op}(...){source}")
    return "\n".join([*lines, f"  return ({', '.join(group.outputs)})"])


_SEGMENTS = (
    Column("segment"),
    Column("scheduler"),
    Column("operators", wide=True),
    Column("kernels"),
    Column("refused before", wide=True, optional=True),
)


def _segments(group: Group) -> Iterator[Block]:
    rows = []
    for segment in group.segments:
        refused = "; ".join(f"{name}: {why}" for name, why in segment.refused)
        cells: tuple[Cell, ...] = (
            Text(str(segment.index)),
            Text(segment.scheduler or "–"),
            Text(", ".join(runs_of(segment.ops))),
            IdLinks(segment.kernels),
            Text(refused),
        )
        rows.append(Row(cells))
    if rows:
        yield Heading("Segments")
        yield Table(_SEGMENTS, tuple(rows), caption=f"Segments of {group.id}")


def _printed(group: Group, context: ReportContext) -> Iterator[str]:
    """Yield how often the log prints the group."""
    if len(group.evidence) > 1:
        often = len(group.evidence) + group.evidence_left_out
        yield f"Printed {often:,} times in the log, first at {context.position(group.evidence[0])}."


# -- shared by a terminal and a page -------------------------------------------------------------------------

_OPERATORS = (
    Column("operator"),
    Column("source"),
    Column("code", wide=True, optional=True, formats=Formats.PAGE),
)


def _layers(group: Group) -> NamedValues:
    layers = folded(group.layers)
    return NamedValues((("layer", layers),) if layers else ())


def _operators(group: Group, context: ReportContext) -> Table:
    """Table of the operators with their lines."""
    rows = []
    for node in group.nodes:
        line = context.line(node.user_source, node.source)
        rows.append(
            Row((Snippet(node.op), Text(line.where, Tone.DIM), Snippet(line.code)))
        )
    return Table(
        _OPERATORS, tuple(rows), caption=f"Operators of {group.id}", bare=True
    )


def _launched(group: Group) -> NamedValues:
    """The kernels of a run of the group, and the guard that failed before this
    specialisation."""
    words = (("runs", runtimes_in_words(group)), ("guard", guard_in_words(group)))
    return NamedValues(tuple((name, text) for name, text in words if text))


def _values(group: Group) -> NamedValues:
    """The inputs and outputs of the group, as far as they are known."""
    facts: list[tuple[str, str | Cell]] = []
    for name, types, moved in (
        ("in", group.inputs, group.bytes_in),
        ("out", group.outputs, group.bytes_out),
    ):
        if types or moved is not None:
            short = tuple((short_type(printed), printed) for printed in types)
            facts.append(
                (name, Types(short, size(moved) if moved is not None else ""))
            )
    left_out = further_values(group)
    if left_out is not None:
        facts.append(("left out", left_out))
    return NamedValues(tuple(facts))
