"""Two benches compared, as sections: the variants that are slower or faster, and
the other differences."""

from __future__ import annotations

from collections.abc import Iterator

from fusiondoc.comparison.bench_changes import (
    FASTER,
    SLOWER,
    BenchChange,
    BenchComparison,
)
from fusiondoc.model.bench import EAGER
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    NamedValues,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.units import interval, ratio
from fusiondoc.rendering.values import Cell, Millis, Status, Text, Tone

_MOST_NAMED = 4
_TONES = {FASTER: Tone.GOOD, SLOWER: Tone.DOUBTFUL}


def two_benches_document(comparison: BenchComparison) -> Document:
    """Return the document of the rows that both have, and of those that only one
    has."""
    environment = []
    for one in comparison.environment:
        environment.append((one.name, f"{one.a or '-'} → {one.b or '-'}"))
    sections = (
        Section("speed", "Speed", blocks=(_table(comparison),)),
        Section(
            "environment", "Not the same", blocks=(NamedValues(tuple(environment)),)
        ),
        Section(
            "meaning",
            "What it means",
            blocks=(Remarks(tuple(_remarks(comparison))),),
        ),
    )
    lead = f"A: {comparison.a}, B: {comparison.b}"
    facts = (("A", comparison.a), ("B", comparison.b))
    return Document(
        "bench", "two benches", headline(comparison), lead, facts, sections
    )


def headline(comparison: BenchComparison) -> str:
    """Return ``2 slower, 1 faster``; eager rows do not count."""
    counts = [(len(comparison.having(word)), word) for word in (SLOWER, FASTER)]
    text = ", ".join(f"{number} {word}" for number, word in counts if number)
    return text or (
        "no difference"
        if comparison.changes
        else "nothing that both were timed with"
    )


def _table(comparison: BenchComparison) -> Table:
    several = len({change.interpreter for change in comparison.changes}) > 1
    rows = []
    for change in comparison.changes:
        names = [
            change.case,
            change.phase,
            change.inputs,
            change.interpreter if several else None,
        ]
        above = ", ".join(name for name in names if name)
        rows.append(Row(_cells(change), above))
    columns = (
        Column("variant"),
        Column("A ms", number=True),
        Column("B ms", number=True),
        Column("B is"),
    )
    return Table(columns, tuple(rows))


def _cells(change: BenchChange) -> tuple[Cell, ...]:
    return (
        Text(change.variant),
        Millis(change.a.median),
        Millis(change.b.median),
        Status(_change(change), _TONES.get(change.change, Tone.PLAIN)),
    )


def _change(change: BenchChange) -> str:
    """``slower: 0.80× (0.75 to 0.85)``."""
    if change.change not in _TONES:
        return change.change
    limits = interval(change.ratio.low, change.ratio.high)
    return f"{change.change}: {ratio(change.ratio.value)} ({limits})"


def _remarks(comparison: BenchComparison) -> Iterator[str]:
    eager = []
    for one in comparison.changes:
        if one.variant == EAGER and one.change in _TONES:
            eager.append(one)
    if eager:
        how = " and ".join(dict.fromkeys(one.change for one in eager))
        by = ", ".join(ratio(one.ratio.value) for one in eager[:_MOST_NAMED])
        if len(eager) > _MOST_NAMED:
            by += f" and {len(eager) - _MOST_NAMED} more"
        yield f"eager too is {how} ({by}): the machine, its load or torch changed, not fusion alone"
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            yield f"only in {side}: {'; '.join(names)}"
