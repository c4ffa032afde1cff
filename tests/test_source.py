"""A position in a source file: what texts name one, and what is left of them."""

from __future__ import annotations

import pytest

from fusiondoc.model.source import Source, path_ends_with, user_line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.py:31:8", Source("model.py", 31, 8)),
        ("/home/me/model.py:31", Source("/home/me/model.py", 31)),
        ("C:\\me\\model.py:3:4", Source("C:\\me\\model.py", 3, 4)),
        ("C:/me/model.py:3", Source("C:/me/model.py", 3)),
        ("<string>:12:16", Source("<string>", 12, 16)),
        ("<ipython-input-3-a:b>:1:2", Source("<ipython-input-3-a:b>", 1, 2)),
        ("a:1:2:3", Source("a:1", 2, 3)),
        ("with space.py:1", Source("with space.py", 1)),
    ],
)
def test_what_names_a_position_is_printed_as_it_was(
    text: str, expected: Source
) -> None:
    assert Source.parse(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    [None, "", "model.py", ":3", "model.py:", "model.py:²", f"m.py:{'9' * 5000}"],
)
def test_what_names_none(text: str | None) -> None:
    assert Source.parse(text) is None


def test_the_users_line_is_without_the_column_and_none_of_torch() -> None:
    assert user_line("C:\\me\\model.py:3:4") == "C:\\me\\model.py:3"
    assert user_line("model.py:3") is None, (
        "a log prints a column with every source range"
    )
    assert user_line("<string>:3:4") is None
    assert (
        user_line(
            "/env/lib/python3.10/site-packages/torch/nn/functional.py:2210:11"
        )
        is None
    )


def test_a_file_is_named_by_the_end_of_its_path() -> None:
    assert path_ends_with("C:\\me\\a\\model.py", "a/model.py")
    assert path_ends_with("/me/a/model.py", "./model.py")
    assert not path_ends_with("/me/a/other_model.py", "model.py")
    assert not path_ends_with("/me/a/model.py", "")
