"""A bench, a suite or two benches compared in each format: on the terminal, as a
page, as JSON (schemas ``fusiondoc.bench/1`` and ``fusiondoc.suite/1``), as Markdown
for a pull request and as CSV for plots.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from fusiondoc.comparison.bench_changes import BenchComparison
from fusiondoc.model.bench import Bench, BenchShape, ByPhase, Part, Suite
from fusiondoc.rendering import markdown_documents, pages, terminal_documents
from fusiondoc.rendering.blocks import Document
from fusiondoc.rendering.printable import csv_table
from fusiondoc.views.bench_sections import bench_document
from fusiondoc.views.suite_sections import suite_document
from fusiondoc.views.two_benches import two_benches_document

Timed = Bench | Suite | BenchComparison

FORMATS_OF_TWO = ("text", "json", "markdown")


def as_text(
    timed: Timed,
    *,
    width: int = 80,
    colour: bool = False,
    blocks: bool = True,
    full: bool = False,
) -> str:
    """Return the document as text of at most ``width`` columns; the arguments are
    those of ``render_report``. ``full``: with the times of each variant in
    words."""
    return terminal_documents.render(
        _document(timed, full), width=width, colour=colour, blocks=blocks
    )


def as_page(timed: Timed) -> str:
    """The document as one self-contained page."""
    return pages.render(_document(timed))


def as_markdown(timed: Timed) -> str:
    """The document as Markdown."""
    return markdown_documents.render(_document(timed))


def _document(timed: Timed, full: bool = True) -> Document:
    if isinstance(timed, Bench):
        return bench_document(timed, full)
    if isinstance(timed, Suite):
        return suite_document(timed)
    return two_benches_document(timed)


COLUMNS = (
    *(
        "interpreter",
        "variant",
        "phase",
        "ms_median",
        "ms_low",
        "ms_high",
        "steps_per_s",
        "ratio",
    ),
    *(
        "ratio_low",
        "ratio_high",
        "device_ms",
        "busy",
        "rounds",
        "steps",
        "warmup_s",
        "compile_s",
    ),
    *(
        "recompiles",
        "peak_bytes",
        "groups_forward",
        "groups_backward",
        "fallbacks",
        "max_difference",
        "reason",
    ),
    *(
        "inputs",
        "sizes",
        "first_ms",
        "recompiles_of_shape",
        "guard_failures",
        "peak_bytes_of_shape",
    ),
    *("processes", "parts_ms", "calls_forward", "calls_backward", "graph_breaks"),
    *("bytes_forward", "bytes_backward"),
)


def as_csv(timed: Bench | Suite) -> str:
    """Return a row for each variant, phase and shape, and one without times for a
    variant that could not run; for a suite the case precedes each row."""
    if isinstance(timed, Bench):
        return csv_table(COLUMNS, _csv_rows(timed))
    rows: list[list[object]] = []
    for case in timed.cases:
        empty = [case.reason if name == "reason" else None for name in COLUMNS]
        found = _csv_rows(case.bench) if case.bench is not None else [empty]
        rows += ([timed.suite, case.block, case.sizes, *row] for row in found)
    return csv_table(["suite", "block", "sizes", *COLUMNS], rows)


def _csv_rows(bench: Bench) -> Iterator[list[object]]:
    """Yield rows of ``COLUMNS``."""
    for one in bench.variants:
        of_variant = [one.warmup_s, one.compile_s, one.recompiles, one.peak_bytes]
        of_variant += [*_by_phase(one.groups), one.fallbacks, one.max_difference]
        for found in one.phases or (None,):
            timed: list[object] = [None] * 12
            of_shape: list[object] = [None] * 8
            if found is not None:
                ratio = (
                    [found.ratio.value, found.ratio.low, found.ratio.high]
                    if found.ratio
                    else [None] * 3
                )
                timed = [
                    found.phase,
                    found.ms.median,
                    found.ms.low,
                    found.ms.high,
                    found.steps_per_s,
                    *ratio,
                ]
                timed += [found.device_ms, found.busy, found.rounds, found.steps]
                known = bench.shapes[found.shape : found.shape + 1]
                shape = known[0] if known else BenchShape(bench.inputs)
                of_shape = [
                    ", ".join(shape.inputs),
                    shape.sizes,
                    found.first_ms,
                    found.recompiles,
                ]
                of_shape += [
                    found.guard_failures,
                    found.peak_bytes,
                    found.processes,
                    _parts(found.parts),
                ]
            compiled = [
                *_by_phase(one.calls),
                one.graph_breaks,
                *_by_phase(one.bytes_moved),
            ]
            yield [
                one.interpreter,
                one.name,
                *timed,
                *of_variant,
                one.reason,
                *of_shape,
                *compiled,
            ]


def _by_phase(found: ByPhase | None) -> list[int | None]:
    if found is not None:
        return [found.forward, found.backward]
    return [None, None]


def _parts(parts: Sequence[Part] | None) -> str | None:
    """Return milliseconds by kind of work, as a JSON object: the kinds differ
    between benches, so none is a column."""
    if parts is None:
        return None
    return json.dumps({part.what: part.ms for part in parts}, ensure_ascii=False)
