"""The HTML of a bench and of a suite: what stands on it, that it is safe, and where
its plots put things."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from test_suites import NEW, OLD, made, variant

from fusiondoc.model.bench import EAGER, Bench, BenchShape, Measured, Part, Ratio
from fusiondoc.rendering.picture_blocks import Stack
from fusiondoc.rendering.plots import Plot, decades, pieces, plotted
from fusiondoc.rendering.units import digits
from fusiondoc.reports.bench_documents import as_page
from fusiondoc.views.bench_sections import curves


def bench_over_shapes() -> Bench:
    """Eager and one variant with three shapes; the variant cannot do the last."""
    rows = []
    for name, times in ((EAGER, 1.0), ("nnc", 2.0)):
        one = variant(name, OLD, times)
        phases = []
        for shape in range(3 if name == EAGER else 2):
            ms = 0.1 * 10**shape / times
            timed = replace(
                one.phases[0], shape=shape, ms=Measured(ms, ms * 0.9, ms * 1.1)
            )
            phases.append(
                replace(timed, ratio=Ratio(times, times * 0.9, times * 1.1))
            )
        rows.append(
            replace(
                one,
                phases=tuple(phases),
                reason=None if name == EAGER else "forward: <no>",
            )
        )
    shapes = tuple(
        BenchShape((f"float32[8,{size},16]",)) for size in (64, 128, 256)
    )
    return Bench(
        {"gpu": "NVIDIA <b>H200"},
        "m.py:f",
        shapes[0].inputs,
        tuple(rows),
        False,
        shapes,
    )


class Elements(HTMLParser):
    """Elements by name, with what they hold in attributes; complains where tags do
    not close."""

    void = frozenset({"meta", "rect", "line", "circle", "polyline", "br", "wbr"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.mark.parametrize(
    "page", [as_page(bench_over_shapes()), as_page(made())], ids=["bench", "suite"]
)
def test_a_page_needs_nothing_from_outside_and_runs_nothing(page: str) -> None:
    elements = Elements(page)
    assert (
        not elements.named("script")
        and not elements.named("img")
        and not elements.named("link")
    )
    assert not re.search(r"\s(on\w+|style)=|https?://|url\(", page)
    (policy,) = [one for one in elements.named("meta") if "http-equiv" in one]
    assert "default-src 'none'" in str(policy["content"]) and "unsafe" not in str(
        policy["content"]
    )
    targets = {one["href"][1:] for one in elements.named("a")}
    assert targets <= {one["id"] for _, one in elements.found if "id" in one}


def test_a_bench_shows_bars_lines_and_reasons() -> None:
    page = as_page(bench_over_shapes())
    elements = Elements(page)
    assert "nnc is fastest: 2.00× the speed of eager" in page
    assert (
        "NVIDIA &lt;b&gt;H200" in page
        and "forward: &lt;no&gt;" in page
        and "<no>" not in page
    )
    bars = [one for one in elements.named("svg") if one.get("class") == "barplot"]
    assert len(bars) == 5 and any("2.00×" in str(one["aria-label"]) for one in bars)
    assert (
        len(elements.named("polyline")) == 2 and len(elements.named("circle")) == 5
    )
    assert "8×256×16" in page
    (parts,) = [
        one["aria-label"]
        for one in elements.named("svg")
        if one.get("class") == "stackplot"
    ][1:2]
    assert parts == "nnc, forward: GPU busy 0.045 ms, 90 %, GPU idle 5 us, 10 %"


def test_a_bar_has_the_kinds_of_work_where_they_are_known() -> None:
    known = bench_over_shapes()
    eager, nnc = known.variants
    parts = (Part("matmul", 0.06, 0.6), Part("device idle", 0.04, 0.4))
    phases = (replace(eager.phases[0], parts=parts), *eager.phases[1:])
    page = as_page(replace(known, variants=(replace(eager, phases=phases), nnc)))
    bars = [
        one["aria-label"]
        for one in Elements(page).named("svg")
        if one.get("class") == "stackplot"
    ]
    assert (
        bars[0] == "eager, forward: matmul 0.06 ms, 60 %, device idle 0.04 ms, 40 %"
    )
    assert (
        "GPU busy" in str(bars[1]) and '<li class="r0"><i></i>matmul</li>' in page
    )
    assert page.index("<i></i>device idle") < page.index("<i></i>GPU busy")


def test_a_suite_shows_every_case_and_what_was_published() -> None:
    page = as_page(made())
    assert "The most: 2.00×" in page and "geometric mean of five GPUs" in page
    assert "it has no | inputs" in page and "nvFuser is in TorchScript" in page
    assert page.count('barplot"') == 2 * (3 + 2) * 2, (
        "cases, variants that ran in each torch, phases"
    )
    assert f"{OLD} and {NEW}" in page


def test_nothing_measured_has_a_page_too() -> None:
    empty = Bench({}, "m.py", (), ())
    assert "Nothing could be measured" in as_page(empty)


def plot_of(names: list[str], values: dict[str, list[float | None]]) -> Plot | None:
    made = curves("t", "ms", names, values)
    return plotted(made) if made is not None else None


def test_lines_stand_where_their_values_are() -> None:
    plot = plot_of(
        ["a", "b", "c"], {"eager": [1.0, 10.0, 100.0], "nnc": [None, 10.0, None]}
    )
    assert plot is not None
    eager, nnc = plot.lines
    heights = [mark.y for mark in eager.marks]
    assert heights[0] - heights[1] == pytest.approx(
        heights[1] - heights[2], abs=0.2
    ), "logarithmic"
    assert nnc.marks[0].y == heights[1] and nnc.marks[0].x == eager.marks[1].x
    assert eager.name_y != nnc.name_y and abs(eager.name_y - nnc.name_y) >= 14
    broken = plot_of(["a", "b", "c"], {"eager": [1.0, None, 2.0]})
    assert broken is not None and len(broken.lines[0].pieces) == 2
    assert curves("t", "ms", ["a"], {"eager": [1.0]}) is None


def test_many_names_at_the_end_of_lines_stay_apart_and_inside() -> None:
    values = {str(number): [1.0, 1.0 + number / 1000] for number in range(9)}
    plot = plot_of(["a", "b"], values)
    assert plot is not None
    places = sorted(one.name_y for one in plot.lines)
    assert (
        all(b - a >= 13.9 for a, b in itertools.pairwise(places))
        and places[-1] <= plot.bottom
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0.03, 0.9), (1, 1), (7, 12000), (0.5, 0.6), (99, 100)]
)
def test_ticks_hold_the_values(low: float, high: float) -> None:
    ticks = decades(low, high)
    assert ticks[0] <= low and ticks[-1] >= high and len(ticks) >= 2
    assert all(
        round(math.log10(b / a), 6) in (0.30103, 0.39794)
        for a, b in itertools.pairwise(ticks)
    )


def test_digits_and_stacks() -> None:
    assert [digits(one) for one in (0.05, 1.0, 12.34, 1234.5, 0.123456)] == [
        "0.05",
        "1",
        "12.3",
        "1,234",
        "0.123",
    ]
    stack = Stack(
        "eager",
        "3 ms",
        (("matmul", 0.75, "x"), ("idle", 0.5, "y"), ("other", 0.1, "z")),
    )
    found = pieces(stack, ["matmul", "idle"])
    assert [(one.start, one.width, one.hue) for one in found] == [
        (0, 75, "r0"),
        (75, 25, "r1"),
        (100, 0, "r7"),
    ]
