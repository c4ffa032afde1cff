"""A bench on the terminal (a table a phase, and why what is not in it could not run), as JSON (schema
``fusiondoc.bench/1``), as Markdown for a pull request, and as CSV for plots; and two benches compared, as
text, Markdown and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.comparison.bench_changes import FASTER, SLOWER, BenchChange, BenchComparison
from fusiondoc.model.bench import EAGER, Bench, BenchPhase, BenchShape, BenchVariant, Part
from fusiondoc.rendering.printable import csv_table, in_json, markdown, visible_in
from fusiondoc.rendering.units import (
    TERMINAL,
    difference,
    digits,
    interval,
    ratio,
    seconds,
    short_percent,
    size,
    whole,
)
from fusiondoc.reports.benchmark import (
    changing,
    groups,
    interpreters,
    missing,
    phase_of,
    phases,
    remarks,
    shapes_of,
    times,
    verdict,
)
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.text import drawn, fields, names_and_texts
from fusiondoc.reports.text import plain as plain_text


def as_json(bench: Bench) -> str:
    """Keys in the order of the schema; what is not known is null."""
    data = plain(bench)
    assert isinstance(data, dict)
    first = {"schema": data.pop("schema")}
    return in_json(json.dumps({**first, **data}, indent=2, ensure_ascii=False)) + "\n"


def as_markdown(bench: Bench) -> str:
    """A table a phase."""
    lines = [f"### {markdown(bench.target)}", ""]
    several = changing(bench)
    names = ["interpreter", "variant", *(["inputs"] if several else []), "ms", "steps/s", "speed of eager"]
    names += ["GPU ms", "GPU busy", "groups", "warm-up", *(["compiled", "guards failed"] if several else [])]
    texts = 3 if several else 2
    for phase in phases(bench):
        lines += [
            f"**{markdown(phase)}**",
            "",
            _line(names),
            "|" + "---|" * texts + "--:|" * (len(names) - texts),
        ]
        for shape, label in shapes_of(bench):
            for one in bench.variants:
                found = phase_of(one, phase, shape)
                if found is None:
                    continue
                cells = [
                    one.interpreter,
                    one.name,
                    *([label] if several else []),
                    digits(found.ms.median),
                    whole(found.steps_per_s),
                    "" if one.name == EAGER else verdict(found.ratio),
                    TERMINAL.known(found.device_ms, digits),
                    TERMINAL.known(found.busy, short_percent),
                    groups(one),
                    TERMINAL.known(one.warmup_s, seconds),
                ]
                if several:
                    cells += [TERMINAL.count(found.recompiles), TERMINAL.count(found.guard_failures)]
                lines.append(_line([markdown(cell) for cell in cells]))
        lines.append("")
    goes = times(bench)
    if goes:
        lines += ["**Where the time goes**", ""]
        lines += [f"- {markdown(about)}: {markdown(text)}" for about, text in goes]
        lines.append("")
    lines += [f"- {markdown(line)}" for line in remarks(bench)]
    absent = missing(bench)
    if absent:
        lines += ["", "Could not run:", ""]
        lines += [f"- {markdown(name)}: {markdown(why)}" for name, why in absent]
    return "\n".join(lines).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    *("interpreter", "variant", "phase", "ms_median", "ms_low", "ms_high", "steps_per_s", "ratio"),
    *("ratio_low", "ratio_high", "device_ms", "busy", "rounds", "steps", "warmup_s", "compile_s"),
    *(
        "recompiles",
        "peak_bytes",
        "groups_forward",
        "groups_backward",
        "fallbacks",
        "max_difference",
        "reason",
    ),
    *("inputs", "sizes", "first_ms", "recompiles_of_shape", "guard_failures", "peak_bytes_of_shape"),
    *("processes", "parts_ms"),
)


def as_csv(bench: Bench) -> str:
    """A row for each variant, phase and shape, and one without times for a variant that could not run."""
    return csv_table(COLUMNS, rows_of(bench))


def rows_of(bench: Bench) -> Iterator[list[object]]:
    """Of ``COLUMNS``."""
    for one in bench.variants:
        of_variant = [one.warmup_s, one.compile_s, one.recompiles, one.peak_bytes]
        of_variant += [one.groups.forward, one.groups.backward] if one.groups is not None else [None, None]
        of_variant += [one.fallbacks, one.max_difference]
        for found in one.phases or (None,):
            timed: list[object] = [None] * 12
            of_shape: list[object] = [None] * 8
            if found is not None:
                ratio = [found.ratio.value, found.ratio.low, found.ratio.high] if found.ratio else [None] * 3
                timed = [found.phase, found.ms.median, found.ms.low, found.ms.high, found.steps_per_s, *ratio]
                timed += [found.device_ms, found.busy, found.rounds, found.steps]
                known = bench.shapes[found.shape : found.shape + 1]
                shape = known[0] if known else BenchShape(bench.inputs)
                of_shape = [", ".join(shape.inputs), shape.sizes, found.first_ms, found.recompiles]
                of_shape += [found.guard_failures, found.peak_bytes, found.processes, _parts(found.parts)]
            yield [one.interpreter, one.name, *timed, *of_variant, one.reason, *of_shape]


def _parts(parts: Sequence[Part] | None) -> str | None:
    """Milliseconds by kind of work, as a JSON object: benches have different kinds, so none is a column."""
    return None if parts is None else json.dumps({part.what: part.ms for part in parts}, ensure_ascii=False)


def render(
    bench: Bench, *, width: int = 80, colour: bool = False, blocks: bool = True, full: bool = False
) -> str:
    """The bench as text of at most ``width`` columns; the arguments are those of the report's. ``full``: with
    where the time of each variant goes."""
    bench = visible_in(bench)
    head = fields()
    head.add_row("Target", bench.target)
    if bench.inputs and not changing(bench):
        head.add_row("Inputs", ", ".join(bench.inputs))
    device = bench.environment.get("gpu") or "CPU"
    for one in interpreters(bench):
        head.add_row("Python", f"{one.replace('Python ', '', 1)}, {device}")
    parts: list[RenderableType] = [head]
    for phase in phases(bench):
        parts += ["", Text(phase, style="bold"), Padding(_speeds(bench, phase), (0, 0, 0, 1))]
    details = list(_details(bench))
    if details:
        parts += ["", Text("Compiling, memory, largest difference from eager", style="bold")]
        parts.append(Padding(Lines(*details), (0, 0, 0, 1)))
    goes = times(bench) if full else []
    if goes:
        parts += ["", Text("Where the time goes", style="bold")]
        for about, text in goes:
            parts += [Padding(Text(about, style="dim"), (0, 0, 0, 1)), Padding(Text(text), (0, 0, 0, 3))]
    said = remarks(bench)
    if said:
        parts += ["", *(Padding(Text(f"→ {line}"), (0, 0, 0, 0)) for line in said)]
    parts += could_not_run(missing(bench))
    text = drawn(Lines(*parts), width, colour)
    return text if blocks else plain_text(text)


def could_not_run(absent: Sequence[tuple[str, str]]) -> list[RenderableType]:
    """A section on what has no times, by name and reason; nothing where all ran."""
    if not absent:
        return []
    table = names_and_texts(max(len(name) for name, _ in absent))
    for name, why in absent:
        table.add_row(name, why)
    return ["", Text("Could not run", style="bold"), Padding(table, (0, 0, 0, 1))]


def _table(names: list[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _speeds(bench: Bench, phase: str) -> RenderableType:
    """A row for each variant that ran; a table for each shape and interpreter, where there are several."""
    several = changing(bench)
    rows = [
        (one, found, label)
        for shape, label in shapes_of(bench)
        for one in bench.variants
        for found in [phase_of(one, phase, shape)]
        if found is not None
    ]
    busy = any(found.busy is not None for _, found, _ in rows)
    parts: dict[str, list[tuple[BenchVariant, BenchPhase]]] = {}
    for one, found, label in rows:
        names = [label if several else "", one.interpreter if len(interpreters(bench)) > 1 else ""]
        parts.setdefault(", ".join(text for text in names if text), []).append((one, found))
    shown: list[RenderableType] = []
    for about, of_part in parts.items():
        shown += [Text(about, style="dim")] if about else []
        shown.append(_part(of_part, several, busy))
    return Lines(*shown)


def _part(rows: list[tuple[BenchVariant, BenchPhase]], several: bool, busy: bool) -> Table:
    names = ["variant", "ms", "speed of eager"]
    if several:
        names += [*(["busy"] if busy else []), "first ms", "compiled", "guards"]
    else:
        names[2:2] = ["steps/s"]
        names += [*(["GPU ms", "GPU busy"] if busy else []), "groups"]
    table = _table(names)
    for one, found in rows:
        told = Text("" if one.name == EAGER else verdict(found.ratio))
        if found.ratio is not None and found.ratio.differs:
            told.stylize("green" if found.ratio.value > 1 else "yellow")
        cells = [Text(one.name), Text(digits(found.ms.median)), told]
        of_gpu = [Text(TERMINAL.known(found.busy, short_percent))] if busy else []
        if several:
            cells += [*of_gpu, Text(TERMINAL.known(found.first_ms, digits))]
            cells += [Text(TERMINAL.count(found.recompiles)), Text(TERMINAL.count(found.guard_failures))]
        else:
            cells[2:2] = [Text(whole(found.steps_per_s))]
            cells += [Text(TERMINAL.known(found.device_ms, digits)), *of_gpu] if busy else []
            cells.append(Text(groups(one)))
        table.add_row(*cells)
    return table


def _details(bench: Bench) -> Iterator[RenderableType]:
    """Compilation, memory against eager, and the largest difference, of each interpreter; columns that none
    has are left out. "off by" is the difference."""
    rows = [one for one in bench.variants if one.available]
    columns: dict[str, Callable[[BenchVariant], str]] = {"variant": lambda one: one.name}
    if changing(bench):
        columns["groups"] = groups
    columns["warm-up"] = lambda one: TERMINAL.known(one.warmup_s, seconds)
    columns["compile"] = lambda one: TERMINAL.known(one.compile_s, seconds)
    if any(one.recompiles for one in rows) and not changing(bench):
        columns["recompiles"] = lambda one: TERMINAL.count(one.recompiles)
    if any(one.peak_bytes is not None for one in rows):
        columns["memory"] = lambda one: TERMINAL.known(one.peak_bytes, size)
        columns["of eager"] = lambda one: _of_eager(bench, one)
    columns["off by"] = lambda one: TERMINAL.known(one.max_difference, difference)
    for name in interpreters(bench):
        table = _table(list(columns))
        for one in rows:
            if one.interpreter == name:
                table.add_row(*(Text(cell(one)) for cell in columns.values()))
        if table.row_count:
            if len(interpreters(bench)) > 1:
                yield Text(name, style="dim")
            yield table


def _of_eager(bench: Bench, one: BenchVariant) -> str:
    eager = bench.eager(one.interpreter)
    if one.peak_bytes is None or eager is None or not eager.peak_bytes:
        return "-"
    return ratio(one.peak_bytes / eager.peak_bytes)


FORMATS_OF_TWO = ("text", "json", "markdown")
_MOST_SAID = 4


def render_two(
    comparison: BenchComparison,
    format_: str,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """The comparison in one of ``FORMATS_OF_TWO``; the other arguments are for text."""
    if format_ == "json":
        data = plain(comparison)
        return (
            in_json(json.dumps({"schema": data.pop("schema"), **data}, indent=2, ensure_ascii=False)) + "\n"
        )
    if format_ == "markdown":
        return _markdown(comparison)
    text = drawn(Lines(*_parts_of_two(visible_in(comparison))), width, colour)
    return text if blocks else plain_text(text)


def _headline(comparison: BenchComparison) -> str:
    """``2 slower, 1 faster``; eager rows do not count."""
    counts = [(len(comparison.having(word)), word) for word in (SLOWER, FASTER)]
    said = ", ".join(f"{number} {word}" for number, word in counts if number)
    return said or ("no difference" if comparison.changes else "nothing that both were timed with")


def _verdict(one: BenchChange) -> str:
    """``slower: 0.80× (0.75 to 0.85)``."""
    if one.change not in (FASTER, SLOWER):
        return one.change
    return f"{one.change}: {ratio(one.ratio.value)} ({interval(one.ratio.low, one.ratio.high)})"


def _remarks(comparison: BenchComparison) -> list[str]:
    """What is to be known beside the table."""
    said = []
    eager = [one for one in comparison.changes if one.variant == EAGER and one.change in (FASTER, SLOWER)]
    if eager:
        words = " and ".join(dict.fromkeys(one.change for one in eager))
        by = ", ".join(ratio(one.ratio.value) for one in eager[:_MOST_SAID])
        by += f" and {len(eager) - _MOST_SAID} more" if len(eager) > _MOST_SAID else ""
        said.append(f"eager too is {words} ({by}): the machine, its load or torch changed, not fusion alone")
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            said.append(f"only in {side}: {'; '.join(names)}")
    return said


def _parts_of_two(comparison: BenchComparison) -> list[RenderableType]:
    head = fields()
    head.add_row("A", comparison.a)
    head.add_row("B", comparison.b)
    parts: list[RenderableType] = [head, "", Text(_headline(comparison), style="bold")]
    about = ""
    of = _interpreters(comparison)
    table = _table_of_two()
    for one in comparison.changes:
        here = ", ".join(text for text in (one.case, one.phase, one.inputs, of.get(one.interpreter)) if text)
        if here != about:
            about = here
            table.add_row(Text(here, style="dim"))
        told = Text(_verdict(one), style={FASTER: "green", SLOWER: "yellow"}.get(one.change, ""))
        table.add_row(one.variant, digits(one.a.median), digits(one.b.median), told)
    if comparison.changes:
        parts.append(Padding(table, (0, 0, 0, 1)))
    if comparison.environment:
        parts += ["", Text("Not the same", style="bold")]
        parts += [
            Padding(f"{one.name}: {one.a or '-'} → {one.b or '-'}", (0, 0, 0, 1))
            for one in comparison.environment
        ]
    return [*parts, *(Text(f"→ {line}") for line in _remarks(comparison))]


def _interpreters(comparison: BenchComparison) -> dict[str, str]:
    """Each by its name, where there are several."""
    names = list(dict.fromkeys(one.interpreter for one in comparison.changes))
    return {name: name for name in names} if len(names) > 1 else {}


def _table_of_two() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, side in (("variant", "left"), ("A ms", "right"), ("B ms", "right"), ("B is", "left")):
        table.add_column(name, justify="left" if side == "left" else "right", no_wrap=True)
    return table


def _markdown(comparison: BenchComparison) -> str:
    lines = [f"### fusiondoc bench: {_headline(comparison)}", ""]
    lines += [f"A: {markdown(comparison.a)}, B: {markdown(comparison.b)}", ""]
    of = _interpreters(comparison)
    suite = any(one.case for one in comparison.changes)
    names = [*(["case"] if suite else []), "phase", "inputs", *(["interpreter"] if of else []), "variant"]
    lines.append("| " + " | ".join([*names, "A ms", "B ms", "B is"]) + " |")
    lines.append("|" + "---|" * len(names) + "--:|--:|---|")
    for one in comparison.changes:
        cells = [*([one.case or ""] if suite else []), one.phase, one.inputs]
        cells += [*([one.interpreter] if of else []), one.variant, digits(one.a.median)]
        cells += [digits(one.b.median), _verdict(one)]
        lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
    lines.append("")
    lines += [
        f"- {markdown(one.name)}: {markdown(one.a or '-')} → {markdown(one.b or '-')}"
        for one in comparison.environment
    ]
    lines += [f"- {markdown(line)}" for line in _remarks(comparison)]
    return "\n".join(lines).rstrip() + "\n"
