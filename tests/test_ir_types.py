"""Printed types against torch's type objects, and byte counts against real
storages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from any_text import CHARACTERS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

import ir_extract  # noqa: E402
from conftest import FIXTURES  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ir_torch import Parsed  # noqa: E402
from thorough import examples  # noqa: E402

from fusiondoc.parsers.ir.types import (  # noqa: E402
    ITEMSIZES,
    OtherType,
    TensorType,
    bytes_once,
    holds_tensor,
    is_tensor,
    parse_type,
)

DTYPES = [value for value in vars(torch).values() if isinstance(value, torch.dtype)]


def type_of(tensor: Any) -> Any:
    return torch._C.TensorType.create_from_tensor(tensor)


@pytest.mark.parametrize("dtype", sorted(set(DTYPES), key=str), ids=str)
def test_every_dtype_has_its_size(dtype: Any) -> None:
    try:
        text = type_of(torch.empty(2, 3, dtype=dtype)).str()
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch makes no tensor of it")
    ours = parse_type(text)
    assert isinstance(ours, TensorType)
    assert ours.itemsize == dtype.itemsize
    assert bytes_once(text) == 6 * dtype.itemsize
    assert is_tensor(text)


dimensions = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=5)


@settings(max_examples=examples(200), deadline=None)
@given(
    dimensions,
    st.sampled_from([torch.float32, torch.float16, torch.int64, torch.bool]),
    st.randoms(),
)
def test_bytes_are_those_of_the_storage(
    shape: list[tuple[int, bool]], dtype: Any, random: Any
) -> None:
    base = torch.empty(
        [1 if expanded else size for size, expanded in shape], dtype=dtype
    )
    tensor = base.expand([size for size, _ in shape])
    order = list(range(len(shape)))
    random.shuffle(order)
    tensor = tensor.permute(order)
    theirs = type_of(tensor)
    ours = parse_type(theirs.str())
    assert isinstance(ours, TensorType)
    assert ours.sizes == tuple(tensor.shape)
    # torch prints no strides for a tensor of no dimensions.
    assert ours.strides == (tensor.stride() or None)
    expected = base.untyped_storage().nbytes() if tensor.numel() else 0
    assert bytes_once(theirs.str()) == expected


def against_torch(text: str, theirs: Any) -> None:
    ours = parse_type(text)
    if theirs.kind() != "TensorType":
        if (
            theirs.kind() == "OptionalType"
            and next(iter(theirs.containedTypes())).kind() == "TensorType"
        ):
            assert isinstance(ours, TensorType) and ours.optional, text
        else:
            assert isinstance(ours, OtherType), text
            assert bytes_once(text) is None
        return
    assert isinstance(ours, TensorType), text
    assert not ours.optional
    assert ours.dtype == (theirs.scalarType() or None)
    assert (
        ours.requires_grad == theirs.requires_grad() or ours.requires_grad is None
    )
    assert ours.device == (
        str(theirs.device()) if theirs.device() is not None else None
    )
    sizes, strides = theirs.varyingSizes(), theirs.strides()
    assert (list(ours.sizes) if ours.sizes is not None else None) == sizes, text
    if sizes:
        assert (
            list(ours.strides) if ours.strides is not None else None
        ) == strides, text


def types_of(block: Any) -> list[Any]:
    found = [value.type() for value in block.inputs()]
    for node in block.nodes():
        found += [value.type() for value in node.outputs()]
        for inner in node.blocks():
            found += types_of(inner)
    return found


@pytest.mark.parametrize(
    "where", ["fixtures", pytest.param("recordings", marks=pytest.mark.nightly)]
)
def test_types_of_real_graphs(where: str, request: pytest.FixtureRequest) -> None:
    folder = (
        FIXTURES / "ir"
        if where == "fixtures"
        else request.getfixturevalue("recordings")
    )
    seen = set()
    for text in ir_extract.distinct(Path(folder)):
        for theirs in types_of(Parsed(text.decode()).graph):
            if theirs.str() not in seen:
                seen.add(theirs.str())
                against_torch(theirs.str(), theirs)
    assert len(seen) > 40


GRAPH = "graph(%x : {}):\n  return (%x)\n"


@pytest.mark.parametrize(
    "text",
    [
        "Float(*, 3, requires_grad=0, device=cuda:0)",
        "Float(2, 3, strides=[3, 1], requires_grad=0, device=cuda:0)",
        "Float(*, *, *)",
        "Float(requires_grad=1, device=cpu)",
        "Half(2, 3, strides=[1, 2])",
        "Tensor",
        "Tensor?",
        "Tensor[]",
        "Tensor?[]",
        "Float(2, 3)[]",
        "Float(2, 3)?",
        "(Tensor, Float(2))",
        "Dict(str, Tensor)",
        "Future(Tensor)",
        "int[]?",
        "NoneType",
        "Device",
        "Generator",
        "(int, (str, float[])[])?",
        "Any",
        "complex",
    ],
)
def test_type_as_torch_reads_it(text: str) -> None:
    theirs = next(torch._C.parse_ir(GRAPH.format(text)).inputs()).type()
    against_torch(theirs.str(), theirs)


def test_symbols_are_kept() -> None:
    ours = parse_type(
        "Float(SS(-2), 4, *, strides=[4, 1, 1], requires_grad=0, device=cpu)"
    )
    assert isinstance(ours, TensorType)
    assert ours.sizes == (None, 4, None)
    assert ours.symbols == ("SS(-2)", "4", "*")
    assert bytes_once(ours.text) is None


def test_what_torch_prints_but_does_not_read() -> None:
    unsized = parse_type("FloatTensor(requires_grad=0, device=cuda:0)")
    assert isinstance(unsized, TensorType)
    assert (unsized.dtype, unsized.sizes, unsized.device) == (
        "Float",
        None,
        "cuda:0",
    )
    bare = parse_type("Tensor(requires_grad=1)[Undefined]")
    assert isinstance(bare, TensorType)
    assert (bare.dtype, bare.sizes, bare.requires_grad, bare.undefined) == (
        None,
        None,
        True,
        True,
    )
    scalar = parse_type("Double()")
    assert isinstance(scalar, TensorType)
    assert scalar.sizes == ()
    assert bytes_once("Double()") == 8
    unknown = parse_type(
        "Float5_new(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
    )
    assert isinstance(unknown, TensorType)
    assert (unknown.sizes, unknown.itemsize, bytes_once(unknown.text)) == (
        (2, 3),
        None,
        None,
    )
    for other in (
        "NamedTuple(a : Tensor, b : int)",
        "__torch__.M",
        "Enum<__torch__.Color>",
        "Union(int, str)",
        "",
    ):
        assert isinstance(parse_type(other), OtherType)
        assert not holds_tensor(other)
    assert "Float" in ITEMSIZES


@pytest.mark.parametrize(
    "text",
    ["Tensor[]", "Tensor?[]", "Tensor[]?", "Float(2)[][]", "Tensor", "Float(2)?"],
)
def test_lists_of_tensors(text: str) -> None:
    assert holds_tensor(text)
    assert is_tensor(text) == ("[]" not in text)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.text(st.sampled_from("FloatTensor(23,*strides=[] ]?SS-:_0device"))
    | st.text(CHARACTERS)
)
def test_any_text_is_some_type(text: str) -> None:
    kind = parse_type(text)
    assert kind.text == text
    total = bytes_once(text)
    assert total is None or re.fullmatch(r"\d+", str(total))
