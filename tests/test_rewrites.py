"""Every rewrite of ``fusiondoc/changes`` does with its examples what they show."""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import fusiondoc.changes
from fusiondoc.changes.edits import SourceText, changed_text
from fusiondoc.changes.rewrite import Example, Line, Rewrite
from fusiondoc.changes.source_file import ParsedFile

HEAD = "import torch\nimport torch.nn.functional as F\n\n\ndef f(self, x, y, z):\n"


def rewrites() -> Iterator[tuple[str, Rewrite]]:
    for module in pkgutil.iter_modules(fusiondoc.changes.__path__):
        found = importlib.import_module(f"fusiondoc.changes.{module.name}")
        one = getattr(found, "REWRITE", None)
        for rewrite in (
            *getattr(found, "REWRITES", ()),
            *([one] if one is not None else []),
        ):
            yield module.name, rewrite


REWRITES = list(rewrites())
CASES = [
    (name, rewrite, example)
    for name, rewrite in REWRITES
    for example in rewrite.examples
]


def text_of(example: Example, lines: str) -> str:
    return (
        f"import torch\n{lines}"
        if example.whole
        else HEAD + textwrap.indent(lines, "    ") + "\n"
    )


def line_of(example: Example, text: str) -> Line:
    head = 1 if example.whole else HEAD.count("\n")
    return Line(
        file=ParsedFile(SourceText(Path("m.py"), text, "utf-8", False)),
        number=head + example.line,
        shown=example.shown,
    )


def test_every_rewrite_has_examples_of_both() -> None:
    assert len(REWRITES) >= 12
    for name, rewrite in REWRITES:
        assert {example.after is None for example in rewrite.examples} == {
            True,
            False,
        }, name


@pytest.mark.parametrize(
    ("rewrite", "example"),
    [
        pytest.param(rewrite, example, id=f"{name}: {example.before}")
        for name, rewrite, example in CASES
    ],
)
def test_a_rewrite_does_what_its_example_shows(
    rewrite: Rewrite, example: Example
) -> None:
    text = text_of(example, example.before)
    found = list(rewrite.write(line_of(example, text)))
    if example.after is None:
        assert found == []
        return
    assert found[0].sure is example.sure
    assert found[0].title == " ".join(found[0].title.split())
    after = changed_text(text, found[0].edits)
    assert after == text_of(example, example.after)
    compile(after, "m.py", "exec")
