"""Two benches compared, as text, Markdown and JSON."""

from __future__ import annotations

import json

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fusiondoc.comparison.bench_changes import FASTER, SLOWER, BenchChange, BenchComparison
from fusiondoc.model.bench import EAGER
from fusiondoc.reports.benchmark.wordings import milliseconds
from fusiondoc.reports.json_format import plain as plainly
from fusiondoc.reports.printable import in_json, markdown, visible_in
from fusiondoc.reports.text.layout_of_text import drawn, fields, plain

FORMATS = ("text", "json", "markdown")
_MOST_SAID = 4


def render(
    comparison: BenchComparison,
    format_: str,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
) -> str:
    """The comparison in one of ``FORMATS``; the other arguments are for text."""
    if format_ == "json":
        data = plainly(comparison)
        return (
            in_json(json.dumps({"schema": data.pop("schema"), **data}, indent=2, ensure_ascii=False)) + "\n"
        )
    if format_ == "markdown":
        return _markdown(comparison)
    text = drawn(Lines(*_parts(visible_in(comparison))), width, colour)
    return text if blocks else plain(text)


def headline(comparison: BenchComparison) -> str:
    """``2 slower, 1 faster``; eager rows do not count."""
    counts = [(len(comparison.having(word)), word) for word in (SLOWER, FASTER)]
    said = ", ".join(f"{number} {word}" for number, word in counts if number)
    return said or ("no difference" if comparison.changes else "nothing that both were timed with")


def verdict(one: BenchChange) -> str:
    """``slower: 0.80× (0.75 to 0.85)``."""
    if one.change not in (FASTER, SLOWER):
        return one.change
    ratio = one.ratio
    return f"{one.change}: {ratio.value:.2f}× ({ratio.low:.2f} to {ratio.high:.2f})"


def remarks(comparison: BenchComparison) -> list[str]:
    """What is to be known beside the table."""
    said = []
    eager = [one for one in comparison.changes if one.variant == EAGER and one.change in (FASTER, SLOWER)]
    if eager:
        words = " and ".join(dict.fromkeys(one.change for one in eager))
        by = ", ".join(f"{one.ratio.value:.2f}×" for one in eager[:_MOST_SAID])
        by += f" and {len(eager) - _MOST_SAID} more" if len(eager) > _MOST_SAID else ""
        said.append(f"eager too is {words} ({by}): the machine, its load or torch changed, not fusion alone")
    for side, names in (("A", comparison.only_a), ("B", comparison.only_b)):
        if names:
            said.append(f"only in {side}: {'; '.join(names)}")
    return said


def _parts(comparison: BenchComparison) -> list[RenderableType]:
    head = fields()
    head.add_row("A", comparison.a)
    head.add_row("B", comparison.b)
    parts: list[RenderableType] = [head, "", Text(headline(comparison), style="bold")]
    about = ""
    of = _interpreters(comparison)
    table = _table()
    for one in comparison.changes:
        here = ", ".join(text for text in (one.case, one.phase, one.inputs, of.get(one.interpreter)) if text)
        if here != about:
            about = here
            table.add_row(Text(here, style="dim"))
        told = Text(verdict(one), style={FASTER: "green", SLOWER: "yellow"}.get(one.change, ""))
        table.add_row(one.variant, milliseconds(one.a.median), milliseconds(one.b.median), told)
    if comparison.changes:
        parts.append(Padding(table, (0, 0, 0, 1)))
    if comparison.environment:
        parts += ["", Text("Not the same", style="bold")]
        parts += [
            Padding(f"{one.name}: {one.a or '-'} → {one.b or '-'}", (0, 0, 0, 1))
            for one in comparison.environment
        ]
    return [*parts, *(Text(f"→ {line}") for line in remarks(comparison))]


def _interpreters(comparison: BenchComparison) -> dict[str, str]:
    """Each by its name, where there are several."""
    names = list(dict.fromkeys(one.interpreter for one in comparison.changes))
    return {name: name for name in names} if len(names) > 1 else {}


def _table() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, side in (("variant", "left"), ("A ms", "right"), ("B ms", "right"), ("B is", "left")):
        table.add_column(name, justify="left" if side == "left" else "right", no_wrap=True)
    return table


def _markdown(comparison: BenchComparison) -> str:
    lines = [f"### fusiondoc bench: {headline(comparison)}", ""]
    lines += [f"A: {markdown(comparison.a)}, B: {markdown(comparison.b)}", ""]
    of = _interpreters(comparison)
    suite = any(one.case for one in comparison.changes)
    names = [*(["case"] if suite else []), "phase", "inputs", *(["interpreter"] if of else []), "variant"]
    lines.append("| " + " | ".join([*names, "A ms", "B ms", "B is"]) + " |")
    lines.append("|" + "---|" * len(names) + "--:|--:|---|")
    for one in comparison.changes:
        cells = [*([one.case or ""] if suite else []), one.phase, one.inputs]
        cells += [*([one.interpreter] if of else []), one.variant, milliseconds(one.a.median)]
        cells += [milliseconds(one.b.median), verdict(one)]
        lines.append("| " + " | ".join(markdown(cell) for cell in cells) + " |")
    lines.append("")
    lines += [
        f"- {markdown(one.name)}: {markdown(one.a or '-')} → {markdown(one.b or '-')}"
        for one in comparison.environment
    ]
    lines += [f"- {markdown(line)}" for line in remarks(comparison)]
    return "\n".join(lines).rstrip() + "\n"
