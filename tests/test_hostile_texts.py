"""Every text of a report and of a comparison is hostile: markup, escape sequences, bidirectional controls.
None of it reaches a page, terminal, comment or annotation as itself."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser
from typing import Any, Callable, Mapping, Sequence

import pytest
from conftest import FIXTURES

from fusiondoc.comparison.compare_reports import compare
from fusiondoc.comparison.differences import Comparison
from fusiondoc.model.report import Dump, Evidence, Expectation, Report, Segment, Suppressed
from fusiondoc.model.runs import Iteration, Peak, Speed, Spread, Try, Verification
from fusiondoc.reports.comparison import page
from fusiondoc.reports.html import render as render_page
from fusiondoc.reports.printable import (
    visible,
)
from fusiondoc.workflows.load import report_from

SCRIPT = "<script>alert(1)</script>"
CONTROL = "".join(map(chr, [*range(1, 9), 11, 12, 13, *range(14, 32), *range(127, 160)]))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
OSC = "\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\\x9b2J\x1b[2J"
COMMANDS = "::error::x\n::warning file=a::b\n##[error]c"
HOSTILE = {
    "script": SCRIPT,
    "attribute": "\" onmouseover='alert(1)' x=`\n--><!--",
    "control": CONTROL + BIDI + OSC + "\u2028\u2029\ufeff\u200b",
    "data": "</script>\u2028<!--<script>&lt;",
}


class Texts:
    """Every line of the log is the hostile text, every source file is three lines of it."""

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
        # Keys are words of fusiondoc's own, but for those of the log; a second entry has a key of its own.
        return {**{key: hostile(one, text) for key, one in value.items()}, text: text}
    if isinstance(value, list):
        return [hostile(one, text) for one in value]
    return tuple(hostile(one, text) for one in value) if isinstance(value, Sequence) else value


def filled() -> Report:
    """A report of a real log in which everything is there that a report can hold."""
    report = report_from([str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")])
    other = report_from([str(FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz")])
    segment = Segment(0, "persistent", (("pointwise", "why"),), ("aten::add",), ("K1",))
    kernel = replace(
        other.kernels[0],
        code="float a;",
        dumps=(Dump("scheduler_params", "text"),),
        occupancy=0.5,
        scheduler="persistent",
        bound="cache",
        gb_per_s=Spread(1.0, 2.0, 3.0),
    )
    expectation = Expectation("s", False, "a group", "none", "why", "e.yaml", 3, 1, ("G1",))
    assert report.fallbacks and report.programs and other.unfused
    return replace(
        report,
        environment={"torch": "2.1.2", "gpu": "A100"},
        groups=(replace(report.groups[0], segments=(segment, segment)), *other.groups),
        kernels=(kernel,),
        findings=(*report.findings, *other.findings),
        unfused=(*report.unfused, *other.unfused),
        programs=(*report.programs, *other.programs),
        peak=Peak(4000.0, "table"),
        iterations=tuple(Iteration(n, "forward", 0, "steady", 0.1) for n in range(1, 4)),
        speed=(
            Speed("eager", "forward", 0, Spread(2.0, 3.0, 4.0), 20),
            Speed("fused", "forward", 0, Spread(1.0, 2.0, 2.5), 20, 900.0, 1 << 20),
        ),
        speed_note="note",
        verification=(Verification(1, 0, "forward", "out", False, 0.5, 0.25, 1e-4, True, True, "value"),),
        tries=(
            Try("as asked", (), 2, 7, 3, 0, 1.0, 1e-3, 0),
            Try("b", (), 0, 0, 0, 0, None, None, 3, "failed"),
        ),
        expectations=(expectation, replace(expectation, holds=True)),
        suppressed=(Suppressed("FD201", "note", "m", None, "config"),),
        target={
            "name": "m",
            "command": ["fusiondoc", "x"],
            "environment_set": {"A": "b"},
            "options": {"o": "v"},
        },
    )


def report_of(text: str) -> Report:
    return replace(hostile(filled(), text), texts=Texts(text))


def comparison_of(text: str) -> Comparison:
    a = report_from([str(FIXTURES / "logs" / "nvfuser-2.1.2-fallback-run.log.xz")])
    b = filled()
    small, large = b.kernels[0], replace(b.kernels[0], registers=99, spill_bytes=8, scheduler="other")
    made = compare(replace(b, kernels=(small,)), replace(b, kernels=(large,)))
    assert made.kernels
    made = replace(compare(a, b), kernels=made.kernels)
    assert made.groups and made.unfused and made.fallbacks and made.findings
    changed: Comparison = hostile(made, text)
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
        self.feed(text)
        self.close()
        self.balanced = not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "input", "br"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments += 1

    def handle_data(self, data: str) -> None:
        (self.scripts if self._open and self._open[-1] in ("script", "style") else self.text).append(data)


PAGES: dict[str, Callable[[str], str]] = {
    "report": lambda text: render_page(report_of(text)),
    "comparison": lambda text: page.render(comparison_of(text)),
}


def has_hidden(text: str) -> bool:
    """A control, bidirectional or otherwise invisible character, by Unicode's own table."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return any(unicodedata.category(c) in kinds and c not in "\n\t\u200c\u200d" for c in text)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_element_or_attribute_comes_of_a_text(name: str, kind: str) -> None:
    plain, made = Shape(PAGES[name]("plain")), PAGES[name](HOSTILE[kind])
    read = Shape(made)
    # Colours of code are spans, as many as the code has words: everything else is as with harmless texts.
    read.elements.pop("span"), plain.elements.pop("span")
    assert read.balanced and read.elements == plain.elements
    assert read.attributes == plain.attributes and read.comments == 0
    assert not has_hidden(made)
    if kind == "script":
        assert sum(SCRIPT in text for text in read.text) > 20
    for script in read.scripts:
        if script.startswith("{"):
            data = json.loads(script)
            shown = visible(HOSTILE[kind])
            assert any(shown in one for one in data["texts"])
            assert not has_hidden("".join(data["texts"])) and "<" not in script and "\u2028" not in script


def test_the_page_runs_only_its_own_script() -> None:
    made = PAGES["report"](SCRIPT)
    assert Shape(made).elements["script"] == 2 and SCRIPT not in made
    assert Shape(PAGES["comparison"](SCRIPT)).elements["script"] == 0
