"""Graphs that differ in names, source positions and sizes are read once for their
form: reports are those of reading each graph by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import raw_log
from conftest import FIXTURES
from test_whole_runs import read
from thorough import THOROUGH

from fusiondoc.parsers.jit import patterns
from fusiondoc.parsers.jit.printed_forms import PrintedForms, whole

NAME = re.compile(rb"%(?!kernel)([A-Za-z0-9_.]+)")
LINE = re.compile(rb"(\w+)\.py:(\d+)")
SHAPE = re.compile(rb"(Float|Half|Double|Long)\(([\d, ]+)")


def changed(text: bytes, number: int) -> bytes:
    """The log of a program whose code moved and that meets other shapes."""

    def grown(shape: re.Match[bytes]) -> bytes:
        sizes = re.sub(
            rb"[2-9]|\d\d+", lambda size: b"%d" % (int(size[0]) + number), shape[2]
        )
        return shape[1] + b"(" + sizes

    text = NAME.sub(rb"%%\1_%d" % number, text)
    text = LINE.sub(
        lambda line: b"%s_%d.py:%d" % (line[1], number, int(line[2]) + number), text
    )
    return SHAPE.sub(grown, text)


LOGS = sorted(FIXTURES.glob("logs/*.log.xz"))[:: 1 if THOROUGH else 5]


@pytest.mark.parametrize(
    "path", LOGS, ids=lambda path: path.name[: -len(".log.xz")]
)
def test_what_is_filled_in_is_what_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = raw_log.read(path)
    data = b"".join([text, *(changed(text, number) for number in (3, 7, 11))])
    filled = []
    real = patterns.FormPattern.filled

    def fill(pattern: patterns.FormPattern, texts: list[str]) -> object:
        filled.append(len(texts))
        return real(pattern, texts)

    with monkeypatch.context() as patch:
        patch.setattr(patterns.FormPattern, "filled", fill)
        by_form = read([data])
    monkeypatch.setattr(
        PrintedForms, "read", lambda _, texts, about, reader: whole(reader, texts)
    )
    assert by_form == read([data])
    assert filled or not by_form[0].groups


def plan(
    constant: str = "1",
    dtype: str = "Float",
    grad: str = "0",
    size: int = 4,
    line: int = 3,
) -> bytes:
    kind = f"{dtype}({size}, {size}, strides=[{size}, 1], requires_grad={grad}, device=cuda:0)"
    lines = (
        "Before Compilation:",
        f"graph(%x.{line} : {kind}, %flag : bool):",
        f"  %two.{line} : int = prim::Constant[value={constant}]() # m.py:{line}:1",
        f"  %y.{line} : {kind} = aten::cumsum(%x.{line}, %two.{line}) # m.py:{line + 1}:1",
        f"  return (%y.{line})",
    )
    return b"".join(
        b"[DUMP graph_fuser.cpp:2504] %s\n" % one.encode() for one in lines
    )


@pytest.mark.parametrize(
    "other",
    [{"constant": "2"}, {"dtype": "Half"}, {"grad": "1"}],
    ids=lambda one: next(iter(one)),
)
def test_a_constant_a_scalar_type_and_a_flag_are_of_the_form(
    other: dict[str, str],
) -> None:
    """What is told of such graphs may differ in more than texts."""
    forms, read_here = PrintedForms(), []

    def note(texts: object, canonical: object) -> tuple[str]:
        read_here.append(texts)
        return ("x",)

    for number in range(4):
        forms.read([plan(size=4 + number, line=10 + number)], None, note)
    assert len(read_here) == 2, "once by itself, and once for the pattern"
    forms.read([plan(**other)], None, note)
    assert len(read_here) == 3
    forms.read([plan()], "another pass", note)
    assert len(read_here) == 4


def test_texts_are_told_apart_by_equality_alone() -> None:
    """Two names of one graph that are one name in another are another form."""
    forms = PrintedForms()
    one = [
        b"%a.1 %b.1 # m.py:1:1",
        b"%a.2 %b.2 # m.py:2:1",
        b"%a.3 %b.3 # m.py:3:1",
        b"%a.3 %a.3 # m.py:3:1",
    ]

    def words(texts: Sequence[bytes], _: object) -> list[list[str]]:
        return [[*texts[0].decode().split(), "kept"]]

    read_words = [forms.read([text], None, words)[0].get() for text in one]
    assert read_words == [[*text.decode().split(), "kept"] for text in one]


def test_a_log_that_holds_a_mark_is_read_by_itself() -> None:
    graphs = [
        plan(line=line).replace(b"m.py", b"zq00001zq.py") for line in range(3, 9)
    ]
    report, _ = read([b"".join(graphs)])
    sources = {row.source for row in report.unfused}
    assert sources == {f"zq00001zq.py:{line + 1}:1" for line in range(3, 9)}


def test_a_number_of_many_digits_takes_time_in_proportion() -> None:
    """A damaged log of 16 KB took 40 s: each digit of a run was the begin and the
    end of a number."""
    text = b"%x : Tensor # " + b"1" * 200_000 + b")"
    (read_text,) = PrintedForms().read([text], None, lambda texts, _: [texts[0]])
    assert read_text.get() == text
