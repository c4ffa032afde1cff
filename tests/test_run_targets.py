"""What a TARGET may be, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusiondoc.captures.request import parse_target
from fusiondoc.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("model.py", "with:colon.py", "net.pt", "train.log", "plain"):
        (tmp_path / name).write_text("")
    (tmp_path / "package").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind", "file", "module", "name"),
    [
        ("model.py", "file", "model.py", None, None),
        ("model.py:Net.block", "file", "model.py", None, "Net.block"),
        ("net.pt", "archive", "net.pt", None, None),
        ("package.module:build", "module", None, "package.module", "build"),
        ("torch:nn", "module", None, "torch", "nn"),
    ],
)
def test_the_four_forms(
    folder: Path,
    text: str,
    kind: str,
    file: str | None,
    module: str | None,
    name: str | None,
) -> None:
    target = parse_target(text, folder)
    assert (target.kind, target.module, target.name) == (kind, module, name)
    assert target.path == (folder / file if file else None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("modle.py", "no file 'modle.py'", "Did you mean 'model.py'"),
        ("nett.pt", "no file 'nett.pt'", "Did you mean 'net.pt'"),
        ("gone/model.py", "no folder 'gone'", "A target is"),
        ("package", "it is a folder", "A target is"),
        ("plain", "it has no ending", "A target is"),
        ("train.log", "'.log' is unknown", "fusiondoc parse train.log"),
        ("package.module", "is not a target", "package.module:model"),
        ("model", "is not a target", "Did you mean model.py?"),
        (
            "model.py:1st",
            "'1st' in 'model.py:1st' is not a Python name",
            "A target is",
        ),
        ("net.pt:model", "an archive holds one model", "A target is"),
    ],
)
def test_what_cannot_be(folder: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_target(text, folder)
    assert message in raised.value.message
    assert hint in str(raised.value.hint)


def test_slugs_are_good_names_for_folders(folder: Path) -> None:
    assert parse_target("model.py", folder).slug == "model"
    assert parse_target("model.py:Net.block", folder).slug == "model.Net.block"
    assert parse_target("with:colon.py", folder).slug == "with_colon"
