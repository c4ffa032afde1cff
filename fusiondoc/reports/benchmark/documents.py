"""A bench as JSON (schema ``fusiondoc.bench/1``), as Markdown for a pull request, and as CSV for plots."""

from __future__ import annotations

import csv
import io
import json
from typing import Iterator, Sequence

from fusiondoc.model.bench import EAGER, Bench, BenchShape, Part
from fusiondoc.reports.benchmark.wordings import (
    changing,
    count,
    groups,
    milliseconds,
    missing,
    phase_of,
    phases,
    remarks,
    seconds,
    shapes_of,
    share,
    times,
    verdict,
)
from fusiondoc.reports.json_format import plain
from fusiondoc.reports.printable import in_json, markdown, visible


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
                    milliseconds(found.ms.median),
                    f"{found.steps_per_s:,.0f}",
                    "" if one.name == EAGER else verdict(found.ratio),
                    "-" if found.device_ms is None else milliseconds(found.device_ms),
                    share(found.busy),
                    groups(one),
                    seconds(one.warmup_s),
                    *([count(found.recompiles), count(found.guard_failures)] if several else []),
                ]
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
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(rows_of(bench))
    return out.getvalue()


def rows_of(bench: Bench) -> Iterator[list[object]]:
    """Of ``COLUMNS``."""
    for row in _rows(bench):
        yield [_cell(one) if isinstance(one, str) else one for one in row]


def _cell(text: str) -> str:
    """Text that is no command to a terminal, and no formula to a spreadsheet."""
    text = visible(text)
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text


def _rows(bench: Bench) -> Iterator[list[object]]:
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
