"""Sections of a report as blocks: a terminal, Markdown and a page write the same
cells."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from tokenize import STRING
from tokenize import generate_tokens as tokenize
from typing import Any

from command_line import ROOT
from rich.console import Group as Lines
from test_plan import with_command

import fusiondoc
from fusiondoc.api import report_from
from fusiondoc.model.change_plan import Try
from fusiondoc.model.runs import Expectation, Speed, Spread
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Command,
    Formats,
    Row,
    Section,
    Sentences,
    Table,
    shown,
)
from fusiondoc.rendering.drawing import drawn
from fusiondoc.rendering.highlighting import python
from fusiondoc.rendering.markdown_documents import blocks_of
from fusiondoc.rendering.terminal_documents import sections
from fusiondoc.rendering.values import (
    Count,
    Duration,
    Gauge,
    IdLinks,
    Millis,
    Text,
)
from fusiondoc.reports import render_report
from fusiondoc.views.report_checks import tried
from fusiondoc.views.report_plan import plan, plan_on_a_terminal
from fusiondoc.views.report_times import speed

LOG = ROOT / "fixtures" / "logs" / "nvfuser-2.1.2-ordered-layer-norm.log.xz"


def on_a_terminal(*blocks: Block, width: int = 80) -> str:
    return drawn(
        Lines(*sections((Section("s", "Title", blocks=blocks),), width)),
        width,
        colour=False,
    )


def in_markdown(*blocks: Block) -> str:
    return "\n".join(blocks_of(Section("s", "Title", blocks=blocks), 10_000))


def test_an_optional_column_goes_where_nothing_in_it_is_known_and_never_for_room() -> (
    None
):
    columns = (
        Column("graph"),
        Column("groups", optional=True),
        Column("why", wide=True),
    )

    def table(groups: tuple[str, ...]) -> Table:
        return Table(
            columns,
            (Row((Text("forward"), IdLinks(groups), Text("because " * 20))),),
        )

    assert "groups" not in on_a_terminal(table(()))
    narrow = on_a_terminal(table(("G1", "G2")), width=40)
    assert (
        "groups" in narrow
        and "G1, G2" in narrow
        and max(map(len, narrow.splitlines())) <= 40
    )


def test_a_terminal_shows_the_first_rows_and_says_how_many_more_there_are() -> None:
    rows = tuple(Row((Count(number),)) for number in range(50))
    text = on_a_terminal(Table((Column("n", number=True),), rows, on_terminal=40))
    assert "... 10 more" in text and " 39" in text and " 40" not in text
    assert "| 49 |" in in_markdown(Table((Column("n"),), rows, on_terminal=40))


def test_a_table_of_a_page_is_not_in_text() -> None:
    table = Table((Column("way"),), (Row((Text("eager"),)),), formats=Formats.PAGE)
    assert on_a_terminal(table, Sentences(("a sentence",))).split("\n")[2:] == [
        " a sentence",
        "",
    ]
    assert on_a_terminal(table) == ""


def test_a_duration_has_the_unit_of_its_format_and_the_spread_where_there_is_room() -> (
    None
):
    assert "4.2 us" in on_a_terminal(
        Table((Column("t"),), (Row((Duration(0.0042),)),))
    )
    assert "42 µs" in in_markdown(Table((Column("t"),), (Row((Duration(0.042),)),)))
    wide = Column("a long head of this column that takes much room")
    table = Table(
        (wide, Column("ms", number=True, spread=True)),
        (Row((Text("x"), Millis(2.0, 1.5, 3.0))),),
    )
    assert "2 (1.5 to 3)" in on_a_terminal(table, width=80)
    assert "1.5" not in on_a_terminal(table, width=56)


def test_more_than_nothing_is_a_bar_of_some_length() -> None:
    assert (
        on_a_terminal(Table((Column(""),), (Row((Gauge(0.001, ""),)),))).count("█")
        == 1
    )
    assert (
        Gauge(0.0, "").width == "0"
        and Gauge(0.001, "").width == "1.5"
        and Gauge(1.4, "").width == "100.0"
    )


def test_strings_of_a_source_have_their_colour_from_quote_to_quote() -> None:
    source = 'device = "cuda" if ready() else r"cpu"  # "no string"\n'
    strings = [
        token.string
        for token in tokenize(StringIO(source).readline)
        if token.type == STRING
    ]
    assert (
        [text for kind, text in python(source) if kind == "s"]
        == strings
        == ['"cuda"', 'r"cpu"']
    )


def test_a_command_to_copy_is_on_one_line_at_any_width() -> None:
    command = Command("fusiondoc parse " + "long/" * 40, "again:")
    assert command.text in on_a_terminal(command, width=40)
    assert in_markdown(command).startswith(f"again: `{command.text}`")


def test_the_figures_of_the_speed_are_the_same_on_a_terminal_and_on_a_page() -> (
    None
):
    report = replace(
        report_from([str(LOG)]),
        speed=(
            Speed(
                "eager", "forward", 0, Spread(29.0, 30.0, 31.0), 20, 700.0, 1 << 21
            ),
            Speed(
                "fused", "forward", 0, Spread(9.0, 10.0, 11.0), 20, 900.0, 1 << 20
            ),
        ),
    )
    text, page = (
        render_report(report, "text", width=120),
        render_report(report, "html"),
    )
    section = text.split("\nSpeed\n")[1].split("\n\n")[0]
    assert (
        "10 (9 to 11)" in section
        and "3.00× as fast" in section
        and "1.05 MB" in section
    )
    assert (
        "3.00× as fast" in page
        and "9 to 11" in page
        and '<td class="n">900 ms</td>' in page
    )
    assert shown([speed(replace(report, speed=()))], Formats.PAGE) == ()


def test_a_try_is_held_against_the_run_that_it_changes() -> None:
    asked = Try("as asked", (), 2, 7, 3, 0, 1000.0, 1e-3, 0)
    better = Try("--trace", (), 2, 9, 3, 0, None, None, 0)
    report = replace(
        report_from([str(LOG)]),
        tries=(asked, better, replace(better, problem="died")),
    )
    (table, *_) = tried(report).blocks
    assert isinstance(table, Table)
    assert table.rows[1].cells[2] == Count(9, table.rows[1].cells[2].tone, 7)  # type: ignore[union-attr]
    text = on_a_terminal(*tried(report).blocks)
    assert "9 (+2)" in text and "fallbacks" not in text and "--trace: died" in text


def test_a_command_that_all_changes_share_is_written_once() -> None:
    report = with_command("fusiondoc fix net.py")
    change = report.plan[0]
    report = replace(
        report, plan=(change, replace(change, change="another change"))
    )
    text = on_a_terminal(*plan_on_a_terminal(report).blocks)
    assert (
        text.count(f"$ {change.command}")
        == in_markdown(*plan(report).blocks).count(change.command)
        == 1
    )
    assert " 1. " in text and " 2. another change" in text


def test_expectations_are_one_list_in_markdown_and_on_a_page() -> None:
    broken = Expectation(
        "s", False, "a group", "none", "why so", "e.yaml", 3, 1, ("G1",)
    )
    report = replace(
        report_from([str(LOG)]), expectations=(replace(broken, holds=True), broken)
    )
    comment, page = render_report(report, "markdown"), render_report(report, "html")
    assert (
        comment.index("❌ **broken**") < comment.index("✅ **holds**")
        and "`e.yaml:3`" in comment
    )
    entry = page[page.index('<section id="expectations"') :].split("</li>")[0]
    assert (
        'href="#G1"' in entry
        and "a group; found none" in entry
        and "1 of 2 hold, 1 broken." in entry
    )


def test_an_environment_of_another_version_is_shown_as_it_is() -> None:
    """Its values are texts of whoever wrote the report."""
    report: Any = fusiondoc.parse(ROOT / "fixtures" / "compare" / "one-group.log")
    known = {
        "llvm": "False",
        "gpu_memory_bytes": "150000000000",
        "gpu_memory_gb_per_s": "4814.3",
    }
    odd = {
        "llvm": "in parts",
        "gpu_memory_bytes": "plenty",
        "gpu_memory_gb_per_s": "fast",
    }
    shown = fusiondoc.render(replace(report, environment=known), "html")
    assert all(words in shown for words in (">no<", "150 GB", "4,814 GB/s"))
    shown = fusiondoc.render(replace(report, environment=odd), "html")
    assert all(words in shown for words in odd.values())
