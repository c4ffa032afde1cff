"""Documents of blocks in each format: what a narrow terminal leaves out, pages and
comments hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from fusiondoc.rendering import markdown_documents, pages, terminal_documents
from fusiondoc.rendering.blocks import (
    Column,
    Document,
    Item,
    Items,
    Remarks,
    Row,
    Section,
    Table,
)
from fusiondoc.rendering.picture_blocks import Bar, Bars
from fusiondoc.rendering.values import (
    Bytes,
    Count,
    Factor,
    Millis,
    Share,
    Status,
    Text,
    Tone,
)

COLUMNS = (
    Column("variant"),
    Column("ms", number=True),
    Column("speed of eager", number=True),
    Column("GPU busy", number=True, wanted=2),
    Column("memory", number=True, wanted=1),
    Column("recompiles", number=True, wanted=3),
)


def row(name: str, above: str | None = None, memory: int | None = 1_234_567) -> Row:
    speed = Factor(1.64, 1.6, 1.68, Tone.GOOD)
    return Row(
        (Text(name), Millis(12.345), speed, Share(0.904), Bytes(memory), Count(0)),
        above,
    )


def document(
    *blocks: Table | Items | Remarks | Bars, title: str = "Numbers"
) -> Document:
    return Document(
        "bench",
        "model.py",
        "nnc is fastest",
        "CPU",
        (),
        (Section("n", title, blocks=blocks),),
    )


def table(*rows: Row) -> Document:
    return document(Table(COLUMNS, rows))


def lines(made: Document, width: int) -> list[str]:
    return terminal_documents.render(made, width=width).splitlines()


def test_a_narrow_terminal_leaves_out_the_least_wanted_column_first() -> None:
    made = table(row("nnc"), row("eager"))
    heads = {
        width: next(line for line in lines(made, width) if "variant" in line)
        for width in (80, 50, 45)
    }
    assert "memory" in heads[80] and "GPU busy" in heads[80]
    assert "memory" not in heads[50] and "GPU busy" in heads[50]
    assert heads[45].split() == ["variant", "ms", "speed", "of", "eager"]
    assert all(len(line) <= width for width in heads for line in lines(made, width))


def test_intervals_give_way_where_no_column_can() -> None:
    made = table(row("nnc"))
    assert any("1.64× (1.60 to 1.68)" in line for line in lines(made, 50))
    narrow = lines(made, 34)
    assert any(
        "12.3" in line and "1.64×" in line and "to" not in line for line in narrow
    )


def test_a_column_that_counts_what_never_happened_is_left_out() -> None:
    assert not any("recompiles" in line for line in lines(table(row("nnc")), 120))
    assert "recompiles" in markdown_documents.render(table(row("nnc")))


def test_figures_stand_below_one_another_under_several_lines() -> None:
    made = table(row("nnc", "torch 2.1"), row("a-longer-name", "torch 2.11"))
    ends = {line.index("12.3") for line in lines(made, 100) if "12.3" in line}
    assert len(ends) == 1
    assert [line.strip() for line in lines(made, 100) if "torch" in line] == [
        "torch 2.1",
        "torch 2.11",
    ]


def test_what_is_not_known_has_the_sign_of_its_format() -> None:
    made = table(row("nnc", memory=None), row("eager"))
    assert re.search(
        r"90 %\s+-$", next(line for line in lines(made, 100) if "nnc " in line)
    )
    assert "| – |" in markdown_documents.render(made) and "–</td>" in pages.render(
        made
    )


def test_pictures_are_for_pages_and_leave_no_empty_section() -> None:
    made = document(
        Bars("forward", "", (Bar("nnc", "1 ms", "", 50.0, 40.0, 60.0, "r2"),)),
        title="Pictured",
    )
    assert 'class="barplot"' in pages.render(made)
    assert "Pictured" not in "\n".join(lines(made, 80)) + markdown_documents.render(
        made
    )


def test_an_entry_has_its_mark_position_and_details_everywhere() -> None:
    item = Item(
        (Status("new", Tone.BAD, "+"),), "aten::cumsum", "m.py:5", ("no lowering",)
    )
    made = document(Items((item,), left_out=3))
    assert " + aten::cumsum  m.py:5" in lines(made, 80)
    assert "   no lowering" in lines(
        made, 80
    ) and " ... 3 more: --format json has all" in lines(made, 80)
    text = markdown_documents.render(made)
    assert (
        "- **new** aten::cumsum at `m.py:5`\n  - no lowering\n- ... 3 more lines"
        in text
    )
    assert '<span class="sev broken">new</span>' in pages.render(made)


def test_a_comment_is_cut_at_its_limit_and_says_so() -> None:
    made = document(
        Remarks(tuple(f"{number} " + "&" * 300 for number in range(200)))
    )
    text = markdown_documents.render(made)
    assert (
        len(text) < markdown_documents.LIMIT
        and "more lines: `--format json` has all" in text
    )


class Texts(HTMLParser):
    """The texts of a page, and whether its elements close."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a\x1b[2Jb", "\u202eevil"]
)
def test_no_text_is_markup_or_a_command(text: str) -> None:
    made = document(
        Items((Item((Status(text),), text, text, (text,)),)),
        Table(COLUMNS[:1], (Row((Text(text),)),)),
    )
    page = pages.render(made)
    assert "script" not in Texts(page).tags
    for one in (page, markdown_documents.render(made), "\n".join(lines(made, 80))):
        assert "\x1b" not in one and "\u202e" not in one
