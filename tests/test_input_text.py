"""``--input`` texts: read, or refused with the column and what was expected
there."""

from __future__ import annotations

import pytest
from any_text import CHARACTERS
from hypothesis import given
from hypothesis import strategies as st

from fusiondoc.probe.pass_inputs import (
    DTYPES,
    InputTextError,
    PlainText,
    TensorText,
    parse_input,
)


@pytest.mark.parametrize(
    ("text", "dtype", "sizes", "grad"),
    [
        ("float32[8,128,1024]", "float32", (8, 128, 1024), False),
        ("float32[8, 128]:grad", "float32", (8, 128), True),
        (" half[] ", "float16", (), False),
        ("long[0]", "int64", (0,), False),
        ("complex64[2]:grad", "complex64", (2,), True),
    ],
)
def test_tensors(text: str, dtype: str, sizes: tuple[int, ...], grad: bool) -> None:
    parsed = parse_input(text)
    assert isinstance(parsed, TensorText)
    assert (parsed.dtype, parsed.sizes, parsed.grad) == (dtype, sizes, grad)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-0.5", -0.5),
        ("1e-5", 1e-05),
        ("true", True),
        ("False", False),
        ("none", None),
        ("[2, 3]", [2, 3]),
        ("'text'", "text"),
        ("(1, 2.0)", (1, 2.0)),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    parsed = parse_input(text)
    assert isinstance(parsed, PlainText)
    assert parsed.value == value and type(parsed.value) is type(value)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("flaot32[8]", 1, "no dtype 'flaot32'; did you mean float32?"),
        ("float32[8,x]", 11, "expected a size (a whole number from 0), found 'x'"),
        ("float32[8,,2]", 11, "found nothing"),
        ("float32[-1]", 9, "found '-1'"),
        ("float32[8", 10, "expected ']'"),
        ("float32[8]grad", 11, "expected ':grad' or the end"),
        ("float32[8]:gard", 12, "did you mean grad?"),
        ("int64[8]:grad", 9, "int64 tensors have no gradient"),
        ("float32", 8, "expected '[' and sizes, such as float32[8,128]"),
        ("x + 1", 1, "expected a tensor such as"),
        ("", 1, "expected a value"),
    ],
)
def test_mistakes_are_placed(text: str, column: int, message: str) -> None:
    with pytest.raises(InputTextError) as raised:
        parse_input(text)
    assert f"column {column}: " in str(raised.value)
    assert message in str(raised.value)


@given(
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 10**6), max_size=6),
    st.sampled_from(["", " ", "  "]),
)
def test_what_is_printed_is_read_again(
    dtype: str, sizes: list[int], blank: str
) -> None:
    parsed = parse_input(
        f"{blank}{dtype}[{(',' + blank).join(map(str, sizes))}]{blank}"
    )
    assert isinstance(parsed, TensorText)
    assert (parsed.dtype, parsed.sizes) == (dtype, tuple(sizes))


@given(st.text(CHARACTERS, max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_input(text)
    except InputTextError as error:
        assert (
            1
            <= int(str(error).rpartition("column ")[2].split(":")[0])
            <= len(text) + 2
        )
