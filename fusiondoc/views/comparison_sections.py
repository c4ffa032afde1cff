"""A comparison as sections: settings, groups, operators outside, fallbacks,
kernels, the model's speed and findings, each with its change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusiondoc.comparison import (
    Comparison,
    FindingChange,
    GroupByLines,
    GroupChange,
    KernelChange,
    ModelSpeedChange,
)
from fusiondoc.model import count
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Document,
    Formats,
    Item,
    Items,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.picture_blocks import Picture, Pictures
from fusiondoc.rendering.values import Count, Status, Text, Tone
from fusiondoc.views import comparison_words as words
from fusiondoc.views.formatting import near

MOST_ON_A_TERMINAL = 40
MOST_IN_A_COMMENT = 30
"""Most changes of one kind."""

_TONES = {
    **dict.fromkeys(("gone", "split", "slower"), Tone.BAD),
    **dict.fromkeys(("added", "merged", "faster", "one"), Tone.GOOD),
}
_UNWANTED = {
    "came": Status("new", Tone.BAD, "+"),
    "gone": Status("gone", Tone.GOOD, "-"),
    "reason": Status("other reason", Tone.DOUBTFUL, "~"),
    "count": Status("other count", Tone.DOUBTFUL, "~"),
}
"""The marks of changes to unwanted things: findings, fallbacks, operators outside
groups."""


def comparison_document(
    comparison: Comparison,
    most: int | None = None,
    pictures: Sequence[Picture] = (),
) -> Document:
    """Return the document of the changes, at most ``most`` of each kind; a page has
    pictures of both sides."""
    kernels, counted = words.only_bytes(comparison)
    findings, single = words.findings(comparison)
    sections = (
        Section(
            "sides",
            "Sides",
            blocks=(_sides(comparison),),
            formats=~Formats.TERMINAL,
        ),
        Section("settings", "Settings", blocks=(_settings(comparison),)),
        Section("pictures", "Pictures", blocks=(Pictures(tuple(pictures)),)),
        _items(
            "groups",
            "Groups",
            [_group(change) for change in comparison.groups],
            most,
        ),
        _items(
            "by-lines",
            "Groups of A by their lines",
            [_by_lines(one) for one in comparison.by_lines],
            most,
        ),
        _items("not-fused", "Not fused", list(_unfused(comparison)), most),
        _items("fallbacks", "Fallbacks", list(_fallbacks(comparison)), most),
        _items(
            "kernels",
            "Kernels",
            [_kernel(change) for change in kernels],
            most,
            counted,
        ),
        _items(
            "model", "Model", [_speed(change) for change in comparison.speed], most
        ),
        _items(
            "findings",
            "Findings",
            [_finding(change) for change in findings],
            most,
            single,
        ),
        Section(
            "not-compared",
            "What cannot be compared",
            blocks=(Remarks(tuple(comparison.notes)),),
        ),
    )
    names = f"{near(comparison.a.name)} and {near(comparison.b.name)}"
    verdict = "nothing changed" if comparison.same else words.changed(comparison)
    return Document(
        "compare",
        names,
        verdict,
        "",
        tuple(_facts(comparison)),
        sections,
        comparison.unrelated or "",
    )


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "A", f"{near(comparison.a.name)}: {words.side(comparison.a)}"
    yield "B", f"{near(comparison.b.name)}: {words.side(comparison.b)}"
    yield "Changed", words.changed(comparison)
    same = count(comparison.groups_same, "group")
    if comparison.kernels_same or comparison.kernels:
        same += f", {count(comparison.kernels_same, 'kernel')}"
    yield "Same", same


def _sides(comparison: Comparison) -> Table:
    a, b = comparison.a, comparison.b
    rows = (
        Row((Text("name"), Text(near(a.name)), Text(near(b.name)))),
        Row((Text("torch"), Text(a.torch or "?"), Text(b.torch or "?"))),
        Row((Text("groups"), Count(a.groups), Count(b.groups))),
        Row((Text("fused"), Text(words.coverage(a)), Text(words.coverage(b)))),
        Row((Text("kernels"), Count(a.kernels), Count(b.kernels))),
        Row((Text("fallbacks"), Count(a.fallbacks), Count(b.fallbacks))),
    )
    return Table((Column(""), Column("A"), Column("B")), rows)


def _settings(comparison: Comparison) -> Table:
    rows = []
    for one in comparison.differences:
        rows.append(
            Row(
                (
                    Text(f"{one.name} ({one.kind})"),
                    Text(one.a or "not set"),
                    Text(one.b or "not set"),
                )
            )
        )
    return Table((Column("setting"), Column("A"), Column("B")), tuple(rows))


def _items(
    key: str,
    title: str,
    items: Sequence[Item],
    most: int | None,
    remark: str | None = None,
) -> Section:
    """A section of at most ``most`` entries, and a sentence on the others."""
    shown = tuple(items[:most])
    blocks: list[Block] = [Items(shown, len(items) - len(shown))]
    if remark is not None:
        blocks.append(Remarks((remark,)))
    return Section(key, title, blocks=tuple(blocks))


def _status(kind: str) -> Status:
    return Status(kind, _TONES.get(kind, Tone.DOUBTFUL))


def _unwanted(change: str) -> tuple[Status]:
    return (_UNWANTED.get(change, Status("changed", Tone.DOUBTFUL, "~")),)


def _group(change: GroupChange) -> Item:
    position = words.first_line_of(change.b or change.a)
    return Item(
        tuple(map(_status, change.kinds)),
        words.group_head(change),
        position,
        tuple(_details(change)),
    )


def _details(change: GroupChange) -> Iterator[str]:
    yield from words.sides_of(change)
    for text in words.nodes(change.ops_gone):
        yield f"no longer in it: {text}"
    for text in words.nodes(change.ops_added):
        yield f"new in it: {text}"
    if "types" in change.kinds:
        yield from words.types(change)
    yield from map(words.boundary, change.boundaries)
    for row in words.once_each(change.because):
        yield f"not fused now: {words.unfused(row)}"
    if change.speed is not None and change.speed.change is not None:
        yield words.speed(change.speed)


def _by_lines(one: GroupByLines) -> Item:
    """Return the entry of a group of one compiler, with the groups into which the
    other compiler puts its lines."""
    details = [words.operators([ref]) for ref in one.b]
    named = [f"B {ref.id}: {text}" for ref, text in zip(one.b, details)]
    between = [words.boundary(boundary) for boundary in one.boundaries]
    return Item(
        (_status(one.kind),),
        words.by_lines(one),
        words.first_line_of([one.a]),
        (*named, *between),
    )


def _unfused(comparison: Comparison) -> Iterator[Item]:
    for row in words.once_each(comparison.unfused):
        yield Item(_unwanted(row.change), words.unfused(row))


def _fallbacks(comparison: Comparison) -> Iterator[Item]:
    for row in comparison.fallbacks:
        yield Item(_unwanted(row.change), words.fallback(row))


def _kernel(change: KernelChange) -> Item:
    marks = tuple(_status(kind) for kind in change.kinds if kind != "bytes")
    return Item(
        marks, words.kernel_head(change), details=tuple(words.kernel_facts(change))
    )


def _speed(change: ModelSpeedChange) -> Item:
    inputs = f" (inputs {change.inputs + 1})" if change.inputs else ""
    text = f"{change.way} {change.phase}{inputs}: {words.speed(change.speed)}"
    return Item((_status(str(change.speed.change)),), text)


def _finding(change: FindingChange) -> Item:
    finding = change.finding
    position = ""
    if finding.source and near(finding.source) not in finding.message:
        position = near(finding.source)
    advice: tuple[str, ...] = ()
    if change.change == "came" and finding.advice and finding.severity != "note":
        advice = (f"→ {finding.advice}",)
    text = f"{finding.severity} {finding.code}  {finding.message}"
    return Item(_unwanted(change.change), text, position, advice)
