"""``check`` as a page and as a comment: the expectations come first, the broken
ones before the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FIXTURES, Run

CAPTURE = FIXTURES / "captures" / "nvfuser-2.1.2-composite"
BROKEN = """\
sections:
  - groups:
      - ops: [add, native_dropout, add, native_layer_norm]
      - ops: [add, cumsum]
        source: "<script>alert(1)</script>"
    number_of_groups: 2
"""


@pytest.mark.parametrize("format_", ["html", "markdown"])
def test_expectations_are_shown(
    format_: str, fusiondoc: Run, tmp_path: Path
) -> None:
    expect = tmp_path / "fusions.yaml"
    expect.write_text(BROKEN, encoding="utf-8")
    done = fusiondoc("check", CAPTURE, "--expect", expect, "--format", format_)
    assert done.returncode == 1, done.stderr
    text = done.stdout
    assert "<script>alert(1)" not in text
    shown = [
        text.index("Expectations"),
        text.index("cumsum is nowhere"),
        text.index("2 groups; found"),
    ]
    assert shown == sorted(shown)
    assert text.index("broken") < text.index("holds") or format_ == "html"
    assert text.count("**holds**" if format_ == "markdown" else ">holds<") == 2
    assert text.count("**broken**" if format_ == "markdown" else ">broken<") == 1
