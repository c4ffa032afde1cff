"""Groups with their IR, types and segments, and the operators outside them."""

from __future__ import annotations

from fusiondoc.model.report import Group, Segment
from fusiondoc.reports.html.context import MOST_ROWS, Context, shown
from fusiondoc.reports.html.highlight import ir
from fusiondoc.reports.html.markup import Child, Markup, el
from fusiondoc.reports.html.parts import code_block, facts, section, table
from fusiondoc.reports.wording import count, outside, phase_of, runs_of, short_type, size


def group_list(context: Context) -> Markup | None:
    """A folded row for each group."""
    groups = context.report.groups
    if not groups:
        return None
    rows = [_group(group, context) for group in groups[:MOST_ROWS]]
    left = len(groups) - len(rows)
    more = el("p", f"{count(left, 'further group')}: --format json has all.", class_="note") if left else None
    return section("groups", "Groups", el("div", *rows, class_="stack"), more)


def _group(group: Group, context: Context) -> Markup:
    lines = sorted({shown(n.user_source).rpartition("/")[2] for n in group.nodes if n.user_source})
    ops = ", ".join(runs_of(group.ops))
    summary = el(
        "summary",
        el("span", group.id, class_="tag"),
        el("span", ops, class_="ops"),
        el("span", "fell back", class_="sev error") if group.fallback else None,
        el(
            "span", ", ".join([phase_of(group), *lines[:2]]) + ("…" if len(lines) > 2 else ""), class_="muted"
        ),
    )
    return el("details", summary, el("div", *_body(group, context), class_="body"), id=group.id, class_="row")


def _body(group: Group, context: Context) -> list[Child]:
    again = f"specialisation {group.specialisation} of {group.respecialises}" if group.respecialises else None
    kernels = [el("a", f"{one} ", href=f"#{one}") for one in group.kernels]
    known = [
        ("Your lines", _user_lines(group, context)),
        ("Kind", f"{group.kind} ({group.name})"),
        ("Phase", phase_of(group) + (f", {again}" if again else "")),
        ("Rank", None if group.rank is None else str(group.rank)),
        ("First in iteration", None if group.iteration is None else str(group.iteration)),
        ("Runs", None if group.runs is None else f"{group.runs:,}"),
        ("Must read", size(group.bytes_in) if group.bytes_in is not None else None),
        ("Must write", size(group.bytes_out) if group.bytes_out is not None else None),
        ("Kernels", kernels),
        ("Inputs", _types(group.inputs)),
        ("Outputs", _types(group.outputs)),
    ]
    first = group.evidence[0] if group.evidence else None
    text = context.excerpt(first) if first is not None else None
    where = f" as in {context.place(first)}" if first is not None and text else ""
    if text is None:
        text = _rebuilt(group)
    parts: list[Child] = [facts(known)]
    if context.room_for(text):
        parts += [el("h4", f"IR{where}"), code_block(ir(text), f"IR of {group.id}")]
    else:
        parts.append(el("p", "The page has no room for its IR; the log has it.", class_="note"))
    parts.append(_operators(group, context))
    if group.segments:
        parts += [el("h4", "Segments"), _segments(group.segments, group.id)]
    if first is not None and len(group.evidence) > 1:
        parts.append(
            el(
                "p",
                f"Printed {len(group.evidence):,} times in the log, first at {context.place(first)}.",
                class_="muted",
            )
        )
    return parts


def _user_lines(group: Group, context: Context) -> list[Markup]:
    lines = dict.fromkeys(node.user_source for node in group.nodes if node.user_source)
    parts = []
    for line in lines:
        code = context.code_at(line)
        parts.append(
            el("span", shown(line), el("code", code, class_="line") if code else None, class_="line")
        )
    return parts


def _types(types: tuple[str, ...]) -> list[Markup]:
    return [el("code", short_type(text), class_="line", title=text) for text in types]


def _operators(group: Group, context: Context) -> Markup:
    rows = []
    for node in group.nodes:
        code = context.code_at(node.user_source)
        where = shown(node.user_source or node.source)
        rows.append((el("code", node.op), where, el("code", code) if code else None))
    return table(f"Operators of {group.id}", (("Operator", "name"), ("Source", ""), ("Code", "wide")), rows)


def _rebuilt(group: Group) -> str:
    """Where the log cannot be read again: what the report knows of the body."""
    lines = [f"with {group.name} = graph({', '.join(group.inputs)}):"]
    lines += [f"  {node.op}(...)" + (f" # {node.source}" if node.source else "") for node in group.nodes]
    return "\n".join([*lines, f"  return ({', '.join(group.outputs)})"])


def _segments(segments: tuple[Segment, ...], identity: str) -> Markup:
    columns = (("Segment", ""), ("Scheduler", ""), ("Operators", ""), ("Kernels", ""), ("Refused before", ""))
    rows = []
    for one in segments:
        refused = [el("span", f"{name}: {why}", class_="line") for name, why in one.refused]
        kernels = [el("a", f"{k} ", href=f"#{k}") for k in one.kernels]
        rows.append((str(one.index), one.scheduler or "–", ", ".join(runs_of(one.ops)), kernels, refused))
    return table(f"Segments of {identity}", columns, rows)


def unfused_list(context: Context) -> Markup | None:
    """A row for each operator outside the groups; the filter of the picture filters it as well."""
    rows = outside(context.report)
    if not rows:
        return None
    order = {reason.code: nth for nth, reason in enumerate(context.reasons)}
    rows = sorted(rows, key=lambda row: (order[row.reason.code], -(row.bytes_moved or 0)))
    cells: list[list[Child]] = []
    for row in rows[:MOST_ROWS]:
        code = context.code_at(row.user_source)
        swatch = el("span", row.reason.code, class_=f"swatch {context.hue(row.reason.code)}")
        stated = el("small", "the log states it" if row.reason.stated else "worked out", class_="muted line")
        where: list[Child] = [shown(row.user_source or row.source) or "–"]
        if code:
            where.append(el("code", code, class_="line"))
        name = el("code", row.op)
        times = f"{row.count:,}" + (" (backward)" if row.phase == "backward" else "")
        cells.append(
            [
                name,
                [swatch, " ", row.reason.text, stated],
                where,
                times,
                size(row.bytes_moved),
                context.quotes(row.evidence, 1),
            ]
        )
    columns = (
        ("Operator", "name"),
        ("Why", "wide"),
        ("Source", ""),
        ("Nodes", "n"),
        ("Moves", "n"),
        ("In the log", "wide"),
    )
    attributes = [{"data_reason": row.reason.code} for row in rows[:MOST_ROWS]]
    left = len(rows) - len(cells)
    more = el("p", f"{left:,} further rows: --format json has all.", class_="note") if left else None
    return section(
        "unfused", "Not fused", table("Operators outside the groups", columns, cells, attributes), more
    )
