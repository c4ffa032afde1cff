"""The causes of boundaries against all texts that torch can print: of three
releases, and of the installed one, whose source is read.
"""

from __future__ import annotations

import ast
import itertools
import random
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import FIXTURES

from fusiondoc.fusers.inductor.causes import (
    CODE_OF_CAUSE,
    TEXTS,
    cause_of,
    difference_between,
    difference_of,
    reduces_before_the_last,
    share_no_element,
)
from fusiondoc.fusers.inductor.kinds import AccessDifference, ApartCause, CallKind
from fusiondoc.model.code_kinds import Family
from fusiondoc.model.codes import CODES
from fusiondoc.model.reasons import CompiledCall, StayedApart
from fusiondoc.model.reasons.words import sentence

RELEASES = tuple((2, minor) for minor in range(6, 15))


def texts_by_release() -> dict[str, list[tuple[int, int]]]:
    """Text -> the releases whose source has it."""
    found: dict[str, list[tuple[int, int]]] = {}
    for line in (
        (FIXTURES / "inductor" / "texts-of-refusals.txt")
        .read_text("utf-8")
        .splitlines()
    ):
        releases, text, _ = (part.strip() for part in line.split(" | "))
        named = [
            release for release in RELEASES if f"2.{release[1]} " in f"{releases} "
        ]
        found[as_printed(text)] = named
    return found


def as_printed(text: str) -> str:
    """The text with something in the place of its arguments."""
    text = re.sub(r"^f(['\"])(.*)\1$", r"\2", text)
    return re.sub(r"%s|\{[^}]*\}", "8", text)


@pytest.mark.parametrize(("text", "releases"), texts_by_release().items())
def test_every_text_of_each_release_has_a_cause_and_its_releases(
    text: str, releases: list[tuple[int, int]]
) -> None:
    assert releases and cause_of(text) is not ApartCause.OTHER
    rows = [row for row in TEXTS if row.pattern.fullmatch(text)]
    assert len(rows) == 1, "two causes for one text"
    assert rows[0].since <= releases[0]
    assert rows[0].until is None or rows[0].until >= releases[-1]


def test_no_row_is_for_a_text_that_no_release_has() -> None:
    texts = texts_by_release()
    assert all(any(row.pattern.fullmatch(text) for text in texts) for row in TEXTS)


def texts_of(folder: Path) -> Iterator[str]:
    """All texts that the source of torch gives to WhyNoFuse."""
    for file in folder.rglob("*.py"):
        source = file.read_text("utf-8")
        if (
            "WhyNoFuse" not in source and "why(" not in source
        ) or "fx_passes" in file.parts:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and node.args and is_why(node.func):
                first = node.args[0]
                yield (
                    first.value
                    if isinstance(first, ast.Constant)
                    else ast.unparse(first)
                )


def is_why(called: ast.expr) -> bool:
    if isinstance(called, ast.Call):  # WhyNoFuse(a, b)("...")
        return isinstance(called.func, ast.Name) and called.func.id.startswith(
            "WhyNoFuse"
        )
    return isinstance(called, ast.Name) and called.id == "why"


def test_every_text_of_the_installed_torch_is_known() -> None:
    spec = find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("no torch here")
    texts = set(
        map(
            as_printed,
            texts_of(Path(spec.submodule_search_locations[0]) / "_inductor"),
        )
    )
    assert len(texts) > 30, "the source is written in another way"
    assert not [text for text in texts if cause_of(text) is ApartCause.OTHER]


def test_every_cause_has_a_code_of_its_own_and_words() -> None:
    assert len(set(CODE_OF_CAUSE.values())) == len(ApartCause)
    for cause, code in CODE_OF_CAUSE.items():
        assert CODES[code].family is Family.NODE
        assert sentence(
            StayedApart(cause=cause, source="pair", text="a text")
        ).endswith("(torch: a text)")


def test_every_kind_of_call_has_words() -> None:
    for kind in CallKind:
        assert sentence(CompiledCall(call=kind))


@pytest.mark.parametrize(
    ("text", "difference"),
    [  # of Scheduler.decide_fusion_fail_reason, torch 2.13
        (
            "Mismatch loop orders: MemoryDep('arg0_1', c0, {c0: 64}) v.s. ...",
            AccessDifference.ORDER,
        ),
        (
            "Mismatch loop orders: MemoryDep('b5', c0, {c0: 16384}) v.s. MemoryDep('b5', c0, {c0: 16384})",
            AccessDifference.LOOPS,  # the hook asks after loops were merged
        ),
        ("different offset: 0 v.s. 48", AccessDifference.PART),
        ("different numel: 1536 v.s. 3072", AccessDifference.COUNT),
        ("broadcast", AccessDifference.BROADCAST),
        ("not MemoryDep", AccessDifference.OPAQUE),
        ("Unknown reason: ...", AccessDifference.UNKNOWN),
    ],
)
def test_what_no_shared_data_means(text: str, difference: AccessDifference) -> None:
    assert difference_of(text) is difference


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        (
            "128*d0 + d1, (32, 128)",
            "c0 + 128*c1, (128, 32)",
            AccessDifference.ORDER,
        ),
        ("d0, (16384)", "8192*d0 + d1, (2, 8192)", AccessDifference.LOOPS),
        (
            "512*d0 + d1, (32, 512)",
            "8192*d0 + d1, (2, 8192)",
            AccessDifference.LOOPS,
        ),
        ("d0, (16384)", "d0 + 2*d1, (2, 8192)", AccessDifference.ORDER),
        (
            "96*d0 + d1, (32, 48)",
            "96*d0 + d1 + 48, (32, 48)",
            AccessDifference.PART,
        ),
        ("d0, (2048)", "d0, (1024)", AccessDifference.COUNT),
        ("512*d0 + d1, (64, 512)", "d1, (64, 512)", AccessDifference.BROADCAST),
        ("d0, (64)", "c0, (64)", AccessDifference.UNKNOWN),
        ("d0, (s77)", "d0, (32)", AccessDifference.COUNT),
        ("not an index", "d0, (64)", AccessDifference.UNKNOWN),
        ("d0, (64); d0 + 64, (64)", "d0, (64)", AccessDifference.UNKNOWN),
        ("d0 + 32, (64); d0 + 64, (64)", "d0, (64)", AccessDifference.PART),
    ],
)
def test_how_index_expressions_differ(
    first: str, second: str, difference: AccessDifference
) -> None:
    assert difference_between(first, second) is difference
    assert difference_between(second, first) is difference


@pytest.mark.parametrize(
    ("index", "sizes", "reduces"),
    [
        (
            "1024*c0 + 65536*c1 + c2, (64, 2, 1024)",
            "((64,), (2, 1024))",
            True,
        ),  # over all but the channels
        (
            "c0 + 64*c1, (64, 2048)",
            "((64,), (2048,))",
            True,
        ),  # the same, with the channels last
        ("x + 64*r, (64, 2048)", "(64, 2048)", False),  # no loops with numbers
        ("d0 + 64*d1, (64, 2048)", "(64, 2048)", True),  # Triton
        (
            "2048*d0 + d1, (64, 2048)",
            "(64, 2048)",
            False,
        ),  # over the last dimension
        ("64*d0 + 4096*d1 + d2, (64, 8, 64)", "((64,), (8, 64))", True),
        ("d0, (131072,)", "((131072,), ())", False),  # no reduction
        (
            "d1, (64, 2048)",
            "((64,), (2048,))",
            False,
        ),  # what is kept does not move it
        ("d0, (131072,)", "((64,), (2048,))", False),  # one loop over both
        ("s0*d0 + d1, (64, s0)", "((64,), (s0,))", False),
        ("d0 + 64*d1, (64, 2048)", "unknown", False),
    ],
)
def test_reductions_before_the_last_dimension(
    index: str, sizes: str, reduces: bool
) -> None:
    assert reduces_before_the_last(index, sizes) is reduces


def test_an_unknown_text_is_shown_as_it_is() -> None:
    assert cause_of("a text of a later torch") is ApartCause.OTHER
    detail = StayedApart(
        cause=ApartCause.OTHER, source="pair", text="a text of a later torch"
    )
    assert "(torch: a text of a later torch)" in sentence(detail)


def elements(strides: list[int], sizes: list[int], offset: int) -> set[int]:
    """The elements that a loop takes, each by its number."""
    turns = itertools.product(*map(range, sizes))
    return {offset + sum(map(int.__mul__, strides, turn)) for turn in turns}


def index_text(strides: list[int], sizes: list[int], offset: int) -> str:
    terms = [
        f"{stride}*d{at}" if stride != 1 else f"d{at}"
        for at, stride in enumerate(strides)
        if stride
    ]
    terms += [str(offset)] if offset or not terms else []
    return f"{' + '.join(terms)}, ({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def test_parts_without_a_common_element_are_those_that_loops_take() -> None:
    """Against the elements themselves, of random strides, sizes and offsets."""
    draw, seen = random.Random(0), set()
    for _ in range(400):
        loops = []
        for _ in range(2):
            count = draw.randint(1, 3)
            strides = [draw.choice([1, 2, 3, 4, 8, 12, 24]) for _ in range(count)]
            sizes = [draw.randint(1, 4) for _ in range(count)]
            loops.append((strides, sizes, draw.randint(0, 40)))
        expected = elements(*loops[0]).isdisjoint(elements(*loops[1]))
        assert (
            share_no_element(*(index_text(*loop) for loop in loops)) is expected
        ), loops
        seen.add(expected)
    assert seen == {True, False}
    query, key = "768*d0 + d1, (256, 256)", "768*d0 + d1 + 256, (256, 256)"
    assert share_no_element(query, key) and not share_no_element(query, query)
    assert not share_no_element(query, "768*d0 + s0*d1, (256, 256)")  # not known
