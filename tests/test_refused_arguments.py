"""What NNC refuses for its arguments or its place, and the advice on it, followed
in the same program."""

from __future__ import annotations

import ast
import functools

import pytest
from conftest import FIXTURES

import fusiondoc
from fusiondoc.model.report import Report

PROGRAM = FIXTURES / "logs" / "refused_arguments.py"

SAID = {
    "chunk": ("FD219", "used outside the group", "x.narrow(1, 0, n)"),
    "view": ("FD219", "used outside the group", "x.view([...])"),
    "list": ("FD219", "used a second time", "torch.cat([f(x), f(y)], 1)"),
    "dim": ("FD219", "`dim` is not a constant", "as a number"),
    "elsewhere": (
        "FD219",
        "its graph begins behind its list of tensors",
        "where it is joined",
    ),
    "number": (
        "FD216",
        "a number that a fusion group takes is computed from the result",
        "model's input",
    ),
    "print": ("FD216", "a print (models/refused_arguments.py:", "before or after"),
}
"""Function -> code, a part of its reason and of the advice."""


@functools.cache
def report() -> Report:
    return fusiondoc.parse(FIXTURES / "logs" / "nnc-2.13-refused-arguments.log.xz")


@functools.cache
def lines() -> dict[str, range]:
    functions = [
        one
        for one in ast.parse(PROGRAM.read_text()).body
        if isinstance(one, ast.FunctionDef)
    ]
    return {
        one.name: range(one.lineno, (one.end_lineno or 0) + 1) for one in functions
    }


def stands_in(source: str | None, function: str) -> bool:
    return source is not None and int(source.split(":")[-2]) in lines()[function]


@pytest.mark.parametrize("name", SAID)
def test_what_is_refused_says_why_and_what_to_do(name: str) -> None:
    code, why, how = SAID[name]
    told = [
        one
        for one in report().findings
        if one.code == code and any(stands_in(row.source, f"{name}_shared") for row in report().unfused
                                    if row.evidence == one.evidence)
    ]  # fmt: skip
    assert told
    assert all(why in one.message and how in (one.advice or "") for one in told)


@pytest.mark.parametrize("name", SAID)
def test_the_advice_fuses_more(name: str) -> None:
    def operators(function: str) -> int:
        return max(
            (
                len(group.nodes)
                for group in report().groups
                if stands_in(group.nodes[-1].source, function)
            ),
            default=0,
        )

    assert operators(f"{name}_advised") > operators(f"{name}_shared")
    left = [
        row for row in report().unfused if stands_in(row.source, f"{name}_advised")
    ]
    assert all(row.reason.code in ("FD226", "FD233", "FD211") for row in left)


def test_what_stands_at_the_end_has_no_recipe_for_what_follows() -> None:
    """Nothing takes the result of either aten::stack."""
    stacks = [
        one for one in report().findings if one.message.startswith("aten::stack")
    ]
    assert stacks
    assert not any("f(x)" in (one.advice or "") for one in stacks)


def test_a_log_with_all_that_nnc_says_lacks_nothing() -> None:
    assert not any(one.code == "FD906" for one in report().findings)
