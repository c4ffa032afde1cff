"""Every text of a report and of a comparison is hostile: markup, escape sequences,
bidirectional controls. None of it reaches a page, terminal, comment or annotation
as itself."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter, abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from html.parser import HTMLParser
from typing import Any, get_args, get_origin

import pytest
from conftest import FIXTURES

from fusiondoc.comparison import Comparison
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.model.change_plan import Try
from fusiondoc.model.report import Dump, Evidence, Report, Segment
from fusiondoc.model.runs import (
    Expectation,
    Iteration,
    Peak,
    Speed,
    Spread,
    Suppressed,
    Verification,
)
from fusiondoc.model.source import Options, Target
from fusiondoc.model.typed_fields import field_types, is_union
from fusiondoc.rendering.printable import (
    in_github_log,
    in_json,
    no_workflow_commands,
    visible,
    visible_in,
)
from fusiondoc.rendering.printable import markdown as markdown_text
from fusiondoc.reports import code_annotations, json_format, markdown, sarif
from fusiondoc.reports import comparison_documents as comparisons
from fusiondoc.reports.html import render as render_page
from fusiondoc.reports.kernel_text import render as render_kernels
from fusiondoc.reports.text.screen import render as render_text
from fusiondoc.workflows.load import report_from

SCRIPT = "<script>alert(1)</script>"
CONTROL = "".join(
    map(chr, [*range(1, 9), 11, 12, 13, *range(14, 32), *range(127, 160)])
)
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
OSC = "\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\\x9b2J\x1b[2J"
COMMANDS = "::error::x\n::warning file=a::b\n##[error]c"
HOSTILE = {
    "script": SCRIPT,
    "attribute": "\" onmouseover='alert(1)' x=`\n--><!--",
    "control": CONTROL + BIDI + OSC + "\u2028\u2029\ufeff\u200b",
    "data": "</script>\u2028<!--<script>&lt;",
}


def made(kind: Any) -> Any:
    """A value of a field's type, in which nothing is empty."""
    origin, inside = get_origin(kind), get_args(kind)
    if is_union(kind):
        return made(next(one for one in inside if one is not type(None)))
    if origin is tuple:
        return (
            (made(inside[0]),)
            if inside[-1] is Ellipsis
            else tuple(map(made, inside))
        )
    if origin in (abc.Sequence, list):
        return (made(inside[0]),)
    if origin is abc.Mapping:
        return {"key": made(inside[1])}
    if is_dataclass(kind):
        return kind(**{name: made(type_) for name, type_ in to_fill(kind).items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    return {str: "text", int: 1, float: 1.5, bool: True, Any: "text"}[kind]


def to_fill(kind: Any) -> dict[str, Any]:
    types = field_types(kind)
    return {
        field.name: types[field.name]
        for field in fields(kind)
        if field.init and field.name != "texts"
    }


MOST = 3
"""Of a sequence so many are kept: a text goes through the same code in every
row."""


def completed(value: Any) -> Any:
    """The same value with something in every field that was empty, and of all
    sequences the first few."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {name: getattr(value, name) for name in to_fill(type(value))}
        empty = {
            name
            for name, one in found.items()
            if one is None or one in ("", (), [], {})
        }
        types = to_fill(type(value))
        return replace(
            value,
            **{
                name: made(types[name]) if name in empty else completed(one)
                for name, one in found.items()
            },
        )
    return tuple(map(completed, value[:MOST])) if type(value) is tuple else value


class Texts:
    """Every line of the log is the hostile text, every source file is three lines
    of it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def source(self, file: str) -> str | None:
        return f"{self.text}\n{self.text}\n{self.text}"

    def log(self, lines: Any, graphs: Any) -> Mapping[Evidence, str]:
        return dict.fromkeys((*lines, *graphs), self.text)


def hostile(value: Any, text: str) -> Any:
    """The same value with ``text`` in the place of each string."""
    if isinstance(value, str):
        return text
    if isinstance(value, Evidence):
        return Evidence(text, value.line)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{
                field.name: hostile(getattr(value, field.name), text)
                for field in fields(value)
                if field.init and field.name != "texts"
            },
        )
    if isinstance(value, Mapping):
        # Keys are words of fusiondoc's own, but for those of the log; a second
        # entry has a key of its own.
        return {
            **{key: hostile(one, text) for key, one in value.items()},
            text: text,
        }
    if isinstance(value, list):
        return [hostile(one, text) for one in value]
    return (
        tuple(hostile(one, text) for one in value)
        if isinstance(value, Sequence)
        else value
    )


@cache
def filled() -> Report:
    """A report of a real log in which everything is there that a report can
    hold."""
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")]
    )
    other = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz")]
    )
    segment = Segment(
        0, "persistent", (("pointwise", "why"),), ("aten::add",), ("K1",)
    )
    kernel = replace(
        other.kernels[0],
        code="float a;",
        dumps=(Dump("scheduler_params", "text"),),
        occupancy=0.5,
        scheduler="persistent",
        bound="cache",
        gb_per_s=Spread(1.0, 2.0, 3.0),
    )
    expectation = Expectation(
        "s", False, "a group", "none", "why", "e.yaml", 3, 1, ("G1",)
    )
    assert report.fallbacks and report.programs and other.unfused
    return replace(
        report,
        environment={"torch": "2.1.2", "gpu": "A100"},
        groups=(
            replace(report.groups[0], segments=(segment, segment)),
            *other.groups,
        ),
        kernels=(kernel,),
        findings=(*report.findings, *other.findings),
        unfused=(*report.unfused, *other.unfused),
        programs=(*report.programs, *other.programs),
        peak=Peak(4000.0, "table"),
        iterations=tuple(
            Iteration(n, "forward", 0, "steady", 0.1) for n in range(1, 4)
        ),
        speed=(
            Speed("eager", "forward", 0, Spread(2.0, 3.0, 4.0), 20),
            Speed("fused", "forward", 0, Spread(1.0, 2.0, 2.5), 20, 900.0, 1 << 20),
        ),
        speed_note="note",
        verification=(
            Verification(
                1, 0, "forward", "out", False, 0.5, 0.25, 1e-4, True, True, "value"
            ),
        ),
        tries=(
            Try("unchanged", (), 2, 7, 3, 0, 1.0, 1e-3, 0),
            Try("b", (), 0, 0, 0, 0, None, None, 3, "failed"),
        ),
        expectations=(expectation, replace(expectation, holds=True)),
        suppressed=(Suppressed("FD201", "note", "m", None, "config"),),
        target=Target(
            "m", None, ("fusiondoc", "x"), Options(fuser="v"), {"A": "b"}
        ),
    )


@cache
def report_of(text: str) -> Report:
    return replace(hostile(completed(filled()), text), texts=Texts(text))


@cache
def comparison_of(text: str) -> Comparison:
    a = report_from([str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")])
    b = filled()
    small, large = (
        b.kernels[0],
        replace(b.kernels[0], registers=99, spill_bytes=8, scheduler="other"),
    )
    kernels = compare(
        replace(b, kernels=(small,)), replace(b, kernels=(large,))
    ).kernels
    every = replace(compare(a, b), kernels=kernels)
    assert (
        every.kernels
        and every.groups
        and every.unfused
        and every.fallbacks
        and every.findings
    )
    changed: Comparison = hostile(completed(every), text)
    return changed


class Shape(HTMLParser):
    """Elements, names of attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.comments = 0
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._open: list[str] = []
        self.feed(text.replace("<wbr>", ""))  # as many as texts have long names
        self.close()
        self.balanced = not self._open

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        self.elements[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def handle_data(self, data: str) -> None:
        (
            self.scripts
            if self._open and self._open[-1] in ("script", "style")
            else self.text
        ).append(data)


PAGES: dict[str, Callable[[str], str]] = {
    "report": lambda text: render_page(report_of(text)),
    "comparison": lambda text: comparisons.as_page(comparison_of(text)),
}


@cache
def plain_page(name: str) -> Shape:
    return Shape(PAGES[name]("plain"))


def has_hidden(text: str) -> bool:
    """A control, bidirectional or otherwise invisible character, by Unicode's own
    table."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return any(
        unicodedata.category(c) in kinds and c not in "\n\t\u200c\u200d"
        for c in text
    )


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_element_or_attribute_comes_of_a_text(name: str, kind: str) -> None:
    plain, made = plain_page(name), PAGES[name](HOSTILE[kind])
    read = Shape(made)
    # Colours of code are spans, as many as the code has words: everything else is
    # as with harmless texts.
    assert read.balanced and {**read.elements, "span": 0} == {
        **plain.elements,
        "span": 0,
    }
    assert read.attributes == plain.attributes and read.comments == 0
    assert not has_hidden(made)
    if kind == "script":
        assert sum(SCRIPT in text for text in read.text) > 20
    for script in read.scripts:
        if script.startswith("{"):
            data = json.loads(script)
            shown = visible(HOSTILE[kind])
            assert any(shown in one for one in data["texts"])
            assert (
                not has_hidden("".join(data["texts"]))
                and "<" not in script
                and "\u2028" not in script
            )


def test_the_page_runs_only_its_own_script() -> None:
    made = PAGES["report"](SCRIPT)
    assert Shape(made).elements["script"] == 2 and SCRIPT not in made
    assert Shape(PAGES["comparison"](SCRIPT)).elements["script"] == 0


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_terminal_gets_no_command_of_a_log(kind: str, colour: bool) -> None:
    report, changes = report_of(HOSTILE[kind]), comparison_of(HOSTILE[kind])
    for made in (
        render_text(report, width=80, colour=colour),
        render_kernels(
            report, report.kernels, (HOSTILE[kind],), width=80, colour=colour
        ),
        comparisons.as_text(changes, width=80, colour=colour),
    ):
        own = re.sub(r"\x1b\[[0-9;]*m", "", made) if colour else made
        assert not has_hidden(own)
        assert visible(HOSTILE[kind])[:8] in own or kind == "attribute"


def test_no_line_of_a_text_is_a_command_to_the_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither at the start of a message's line, nor where a wrapped line happens to
    begin."""
    wrapped = "x" * 75 + " ::warning::wrapped " + "y" * 60 + "\n  ::error::line"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for text in (COMMANDS, wrapped, "::add-mask::a"):
        report, changes = report_of(text), comparison_of(text)
        for made in (
            render_text(report, width=80),
            render_kernels(report, report.kernels, (text,), width=80),
            comparisons.as_text(changes, width=80),
            in_github_log(markdown.render(report)),
            in_github_log(comparisons.as_markdown(changes)),
        ):
            assert (
                not re.search(r"^\s*::", made, re.MULTILINE) and "##[" not in made
            )
    assert no_workflow_commands("\x1b[1m ::x::") == "\x1b[1m : :x::"
    assert no_workflow_commands("aten::add ::") == "aten::add ::"


LINKS = "http://evil.example/a?b|c www.evil.example mailto:a@evil.example @someone #12 [a](b) `c` <i>"


@pytest.mark.parametrize("kind", [*HOSTILE, "links"])
def test_markdown_is_text_only(kind: str) -> None:
    text = {**HOSTILE, "links": LINKS}[kind]
    report = report_of(text)
    for made in (
        markdown.render(report),
        comparisons.as_markdown(comparison_of(text)),
        code_annotations.github_summary(report),
    ):
        own = re.sub("([@#])\u200b", r"\1", made)
        assert not has_hidden(own)
        prose = re.sub(
            r"^ *(`{3,})\w*\n.*?\n *\1$", "", made, flags=re.MULTILINE | re.DOTALL
        )
        prose = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", prose)
        assert not re.search(
            r"(?i)http://|\bwww\.|mailto:|@\w|<script|<i>|(?<!\\)\[a", prose
        ), prose
        assert not re.search(r"(?<![\\`&])#\d", prose)


def test_annotations_hold_no_hidden_character() -> None:
    report = report_of(HOSTILE["control"])
    assert not has_hidden(code_annotations.github(report))


def test_json_has_hidden_characters_as_escapes() -> None:
    report = report_of(HOSTILE["control"])
    for render in (json_format.render, sarif.render, code_annotations.gitlab):
        assert not has_hidden(render(report))
    assert json.loads(json_format.render(report))["fuser"]["why"] in (
        None,
        HOSTILE["control"],
    )
    text = json.dumps(["\x9b\u202e\U000e0041é"], ensure_ascii=False)
    assert in_json(text) == '["\\u009b\\u202e\\udb40\\udc41é"]' and json.loads(
        in_json(text)
    ) == json.loads(text)


@pytest.mark.parametrize("text", ["&" * 1000, "a`|b" * 400, "word " * 200])
def test_a_comment_on_a_comparison_fits_github(text: str) -> None:
    changes = comparison_of(text)
    many = replace(
        changes,
        **{
            name: getattr(changes, name)[:1] * 100
            for name in (
                "groups",
                "unfused",
                "fallbacks",
                "kernels",
                "findings",
                "notes",
            )
        },
    )
    made = comparisons.as_markdown(many)
    assert len(made) < 65_536 and "more lines: `--format json` has all" in made


def test_only_what_is_hidden_is_escaped() -> None:
    ordinary = "naïve 日本語 \u200d\u200c\n\tx → é"
    assert visible(ordinary) is ordinary
    assert (
        visible("\x00\x9b\u202e\U000e0041\r") == "\\x00\\x9b\\u202e\\U000e0041\\x0d"
    )
    report = filled()
    assert visible_in(report) is report
    assert markdown_text("a_b *c*") == "a\\_b \\*c\\*"
