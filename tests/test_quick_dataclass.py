"""The dataclasses of the model behave as those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from typing import Any

import pytest

import fusiondoc.model
from fusiondoc.model.groups import OpNode
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source

quick: Any = fusiondoc.model.dataclass


def _pair(namespace: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """The same class by the standard library and by ours."""
    made = (type("Row", (), dict(namespace, __module__=__name__)) for _ in range(2))
    return dataclasses.dataclass(**options)(next(made)), quick(**options)(
        next(made)
    )


FIELDS: dict[str, Any] = {
    "__annotations__": {
        "op": "str",
        "count": "int",
        "tags": "list[str]",
        "note": "str",
    },
    "count": 1,
    "tags": dataclasses.field(default_factory=list),
    "note": dataclasses.field(default="", compare=False, repr=False),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frozen": True},
        {"eq": False},
        {"frozen": True, "repr": False},
        {"slots": True},
        {"frozen": True, "slots": True},
    ],
)
def test_a_class_does_what_one_of_the_standard_library_does(
    options: dict[str, Any],
) -> None:
    theirs, ours = _pair(FIELDS, **options)
    for made in (theirs, ours):
        row, same, other = (
            made("aten::add"),
            made("aten::add", note="x"),
            made("aten::add", 2),
        )
        assert (row == same) is options.get("eq", True)
        assert row != other and row != "aten::add"
        assert row.tags == [] and row.tags is not same.tags
        assert dataclasses.replace(row, count=2).count == 2
        assert dataclasses.asdict(row) == {
            "op": "aten::add",
            "count": 1,
            "tags": [],
            "note": "",
        }
    assert str(inspect.signature(theirs)) == str(inspect.signature(ours))
    assert (theirs.__hash__ is None) is (ours.__hash__ is None)
    if options.get("repr", True):
        assert (
            repr(theirs("aten::add"))
            == repr(ours("aten::add"))
            == "Row(op='aten::add', count=1, tags=[])"
        )


def test_a_frozen_one_refuses_changes_and_has_a_hash_of_its_fields() -> None:
    row = Source("model.py", 3, 5)
    with pytest.raises(
        dataclasses.FrozenInstanceError, match="cannot assign to field 'file'"
    ):
        row.file = "other.py"  # type: ignore[misc]
    with pytest.raises(
        dataclasses.FrozenInstanceError, match="cannot delete field 'file'"
    ):
        del row.file
    assert hash(row) == hash(dataclasses.replace(row)) and row in {
        dataclasses.replace(row)
    }
    for made in (row, OpNode("aten::add", "model.py:3:5", None)):
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made


def test_methods_that_a_class_has_itself_stay() -> None:
    own = {
        "__annotations__": {"op": "str"},
        "__eq__": lambda a, b: True,
        "__repr__": lambda a: "own",
    }
    for made in _pair(own):
        assert made("a") == made("b") and repr(made("a")) == "own"


def test_a_class_without_fields_and_one_with_a_wrong_default() -> None:
    for made in _pair({"__annotations__": {}}, frozen=True):
        assert made() == made() and hash(made()) == hash(())
    for decorator in (dataclasses.dataclass, quick):
        with pytest.raises(ValueError, match="mutable default"):
            decorator(
                type(
                    "Row",
                    (),
                    {"__annotations__": {"tags": "list[str]"}, "tags": []},
                )
            )


def test_the_standard_library_takes_them_for_its_own() -> None:
    assert dataclasses.is_dataclass(Report)
    assert typing.get_type_hints(Report.__init__)["return"] is type(None)

    @quick(frozen=True)
    class Nearer(Source):  # inherits: made by the standard library
        distance: int = 0

    assert Nearer("model.py", 3, 5, 2).distance == 2
