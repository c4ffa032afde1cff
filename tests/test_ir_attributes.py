"""Attributes with any text in them, printed by torch: what comes back is what was
put in."""

from __future__ import annotations

from typing import Any

import pytest
from any_text import ASCII, CHARACTERS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ir_torch import live_differences, unquoted  # noqa: E402
from thorough import examples  # noqa: E402

from fusiondoc.parsers.ir.parse import parse_dump, parse_node  # noqa: E402

# Text that looks like IR: quotes, brackets, escapes, and whole ends of lines.
pieces = st.sampled_from(
    [
        '"',
        "'",
        "\\",
        "[",
        "]",
        "(",
        ")",
        "](",
        "](%x)",
        " = ",
        ", ",
        " # f.py:1:2",
        "%x : Tensor",
        "\n",
        "\0",
        "a=",
    ]
)
ascii_text = st.lists(pieces | st.text(ASCII, max_size=4), max_size=8).map("".join)
any_text = st.lists(pieces | st.text(CHARACTERS, max_size=4), max_size=8).map(
    "".join
)
integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False)
values = st.one_of(
    st.tuples(st.just("s"), ascii_text),
    st.tuples(st.just("ss"), st.lists(ascii_text, max_size=3)),
    st.tuples(st.just("i"), integers),
    st.tuples(st.just("is"), st.lists(integers, max_size=4)),
    st.tuples(st.just("f"), numbers),
    st.tuples(st.just("fs"), st.lists(numbers, max_size=4)),
    st.tuples(
        st.just("t"),
        st.lists(numbers, max_size=12).map(lambda items: torch.tensor(items)),
    ),
    st.tuples(
        st.just("t"),
        st.sampled_from([(2, 2), (2, 2, 2), (1, 0), ()]).map(torch.ones),
    ),
    st.tuples(
        st.just("ty"),
        st.sampled_from(["Float(2, 3, strides=[3, 1])", "(Tensor, int[])?", "str"]),
    ),
)


def graph_with(attributes: dict[str, tuple[str, Any]]) -> Any:
    """A graph of one node of a made-up kind with these attributes, and a second
    node after it."""
    graph = torch._C.Graph()
    x = graph.addInput("x")
    node = graph.create("own::op", [x], 1)
    for name, (kind, value) in attributes.items():
        if kind == "ty":
            value = next(
                torch._C.parse_ir(f"graph(%x : {value}):\n  return (%x)\n").inputs()
            ).type()
        getattr(node, kind + "_")(name, value)
    graph.appendNode(node)
    last = graph.create("aten::relu", [node.output()], 1)
    graph.appendNode(last)
    graph.registerOutput(last.output())
    return graph


@settings(max_examples=examples(150), deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["value", "name", "types", "a_b", "x1"]), values, max_size=4
    )
)
def test_attributes_come_back(attributes: dict[str, tuple[str, Any]]) -> None:
    graph = graph_with(attributes)
    dump = parse_dump(str(graph).encode("utf-8", "surrogateescape").split(b"\n"))
    assert dump.complete, dump.problems
    assert live_differences(graph, dump) == []
    node = parse_node(str(next(graph.nodes())).encode())
    assert node is not None
    assert node.attributes == dump.graph.nodes[0].attributes


@settings(max_examples=examples(150), deadline=None)
@given(any_text)
def test_any_string_stays_inside_its_quotes(text: str) -> None:
    # Bytes beyond ASCII are printed as a backslash and characters that do not say
    # what they were.
    graph = graph_with({"value": ("s", text), "i": ("i", 7)})
    dump = parse_dump(str(graph).encode().split(b"\n"))
    assert dump.complete, dump.problems
    assert [node.kind for node in dump.graph.nodes] == ["own::op", "aten::relu"]
    attributes = dump.graph.nodes[0].attributes
    assert attributes["i"] == "7"
    if text.isascii():
        assert unquoted(attributes["value"]) == text
