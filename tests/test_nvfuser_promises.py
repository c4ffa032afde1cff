"""Promises under nvFuser, which runs on no machine of the tests: captures of an H200
with torch 2.1.2, of programs as they were and as changed by hand."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from conftest import FIXTURES, Run


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    with tarfile.open(
        FIXTURES / "captures" / "side-effects-nvfuser-2.1.2.tar.xz"
    ) as tar:
        tar.extractall(folder)
    return folder


def report(fusiondoc: Run, capture: Path) -> dict:
    done = fusiondoc("parse", str(capture), "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["end_of_with", "size_between"])
def test_an_update_that_joins_no_group_is_promised_none(
    name: str, captures: Path, fusiondoc: Run
) -> None:
    """The end of a ``with`` block, or the size of the result, stands between it and
    the group that takes its result."""
    before = report(fusiondoc, captures / name)
    assert "aten::mul_" in [row["op"] for row in before["unfused"]]
    after = report(fusiondoc, captures / f"{name}_after")
    assert "aten::mul" in [
        row["op"] for row in after["unfused"]
    ]  # it came to nothing
    assert [sorted(one["ops"]) for one in after["groups"]] == [
        sorted(one["ops"]) for one in before["groups"]
    ]
    assert not [one for one in before["plan"] if one["operators"] or one["groups"]]


def test_a_print_between_two_groups_is_to_come_later(
    captures: Path, fusiondoc: Run
) -> None:
    """Made on that machine, the change made one group of the two."""
    (change,) = report(fusiondoc, captures / "printed_between")["plan"]
    assert change["kind"] == "split"
    assert (change["operators"], change["groups"]) == (0, -1)


def test_the_end_of_a_with_block_has_advice_of_its_own(
    captures: Path, fusiondoc: Run
) -> None:
    found = report(fusiondoc, captures / "end_of_with")["findings"]
    (one,) = [finding for finding in found if finding["code"] == "FD229"]
    assert "into the with block" in one["advice"]
    assert "flag" not in one["advice"]
