"""Pieces of code are found wherever their lines break, and nothing else is."""

from __future__ import annotations

import pytest
from code_texts import replaced_once

BROKEN = """if all(
    fits(
        a,
        b,
    )
    for a in [1, 2]
):
    return a
"""


def test_other_line_breaks_are_the_same_code() -> None:
    one_line = "if all(fits(a, b) for a in [1, 2]):\n    return a\n"
    changed = "if any(fits(a, b) for a in [1, 2]):\n    return a\n"
    old, new = "if all(fits(a, b) for", "if any(fits(a, b) for"
    assert replaced_once(one_line, old, new) == changed
    assert (
        replaced_once(BROKEN, old, new)
        == "if any(fits(a, b) for a in [1, 2]\n):\n    return a\n"
    )


def test_other_code_is_not() -> None:
    for text in ("if all(fits(b, a)):", "if overall(fits(a, b)):"):
        with pytest.raises(ValueError, match="stands 0 times"):
            replaced_once(text, "if all(fits(a, b)", "")
    with pytest.raises(ValueError, match="stands 2 times"):
        replaced_once("x = a + b\ny = a+b\n", "a + b", "a - b")
