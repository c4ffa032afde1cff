"""Real prints that were cut, interrupted or mangled on their way into a log."""

from __future__ import annotations

from typing import Any

import ir_extract
import pytest
from conftest import FIXTURES
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from fusiondoc.parsers.ir import Block, Graph, IrDump
from fusiondoc.parsers.ir.parse import parse_dump, parse_node, parse_node_lines

DUMPS = [
    dump.rstrip(b"\n").split(b"\n")
    for dump in ir_extract.distinct(FIXTURES / "ir", ir_extract.dumps)
    if dump
]
SMALL = [dump for dump in DUMPS if len(dump) < 300]
FOREIGN = [
    b"site-packages/torch/nn/modules/module.py:1527: UserWarning: old. (Triggered internally at x.cpp:1.)",
    b"  return forward_call(*args, **kwargs)",
    b"  Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass",
    b"epoch 3: loss = 0.25",
    b"kernel1 run in 0.0114688 ms, achieved: 182.857 GB/s",
    b"\xff\xfe not text \x00",
    b"",
    b"   ",
]


def shape(graph: Graph | Block) -> Any:
    """All that was read, as plain data."""
    return (
        graph.params,
        [
            (
                *(
                    node.kind,
                    node.ref,
                    node.outputs,
                    node.inputs,
                    node.attributes,
                    node.source,
                    node.scope,
                ),
                [shape(block) for block in node.blocks],
            )
            for node in graph.nodes
        ],
        graph.outputs,
    )


def shapes(dump: IrDump) -> Any:
    return [
        shape(dump.graph),
        *((section.name, shape(section.graph)) for section in dump.sections),
    ]


def lines_of(dump: IrDump) -> list[int]:
    return [node.line for graph in dump.graphs() for node in graph.walk()]


@pytest.mark.parametrize("ending", [b"\r", b"  ", b"\r\r"])
def test_leftovers_at_line_ends(ending: bytes) -> None:
    for dump in DUMPS:
        assert shapes(parse_dump([line + ending for line in dump])) == shapes(
            parse_dump(dump)
        )


def test_indentation_lost_or_shifted() -> None:
    for dump in DUMPS:
        whole = parse_dump(dump)
        for changed in (
            [line.lstrip() for line in dump],
            [b"   " + line for line in dump],
        ):
            again = parse_dump(changed)
            assert again.problems == ()
            assert again.complete
            assert shapes(again) == shapes(whole)


def test_header_text_before_the_graph() -> None:
    for dump in SMALL[:5]:
        whole = parse_dump(dump)
        same_line = parse_dump([b"After Fusion: " + dump[0], *dump[1:]])
        own_line = parse_dump([b"Before Fusion: ", *dump])
        assert same_line.complete and own_line.complete
        assert shapes(same_line) == shapes(own_line) == shapes(whole)
        assert own_line.graph.line == 1
        assert lines_of(own_line) == [line + 1 for line in lines_of(whole)]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(DUMPS),
    st.lists(st.tuples(st.integers(1), st.sampled_from(FOREIGN)), max_size=4),
)
def test_foreign_lines_are_set_aside(
    dump: list[bytes], foreign: list[tuple[int, bytes]]
) -> None:
    mixed: list[tuple[bool, bytes]] = [(False, line) for line in dump]
    for place, line in foreign:
        mixed.insert(1 + place % len(mixed), (True, line))
    read = parse_dump([line for _, line in mixed])
    assert read.complete, read.problems
    assert shapes(read) == shapes(parse_dump(dump))
    assert list(read.foreign) == [
        n for n, (alien, line) in enumerate(mixed) if alien and line.strip()
    ]


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(DUMPS), st.data())
def test_end_missing(dump: list[bytes], data: st.DataObject) -> None:
    kept = data.draw(st.integers(0, len(dump) - 1))
    read = parse_dump(dump[:kept])
    assert not read.complete
    assert read.problems
    assert lines_of(read) == [
        line for line in lines_of(parse_dump(dump)) if line < kept
    ]


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(DUMPS), st.data())
def test_beginning_missing(dump: list[bytes], data: st.DataObject) -> None:
    lost = data.draw(st.integers(1, len(dump) - 1))
    read = parse_dump(dump[lost:])
    assert not read.complete
    assert read.problems
    assert [line + lost for line in lines_of(read)] == [
        n for n in lines_of(parse_dump(dump)) if n >= lost
    ]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(
        [dump for dump in DUMPS if any(b"-> (" in line for line in dump)]
    ),
    st.data(),
)
def test_lost_end_of_a_block_is_told_by_indentation(
    dump: list[bytes], data: st.DataObject
) -> None:
    ends = [
        number
        for number, line in enumerate(dump)
        if line.lstrip().startswith(b"-> (")
    ]
    lost = data.draw(st.sampled_from(ends))
    read = parse_dump(dump[:lost] + dump[lost + 1 :])
    assert not read.complete
    whole = parse_dump(dump)
    assert [[node.kind for node in graph.nodes] for graph in read.graphs()] == [
        [node.kind for node in graph.nodes] for graph in whole.graphs()
    ]
    blocks = [
        (len(b.nodes), b.outputs)
        for g in whole.graphs()
        for n in g.walk()
        for b in n.blocks
    ]
    again = [
        (len(b.nodes), b.outputs)
        for g in read.graphs()
        for n in g.walk()
        for b in n.blocks
    ]
    assert [nodes for nodes, _ in again] == [nodes for nodes, _ in blocks]
    # Only the outputs that were printed on the lost line are lost.
    assert [
        outputs for (_, outputs), (_, had) in zip(again, blocks) if outputs != had
    ] in ([()], [])


def test_beginning_and_the_end_of_a_later_block_missing() -> None:
    text = b"""      %3 : Tensor = aten::relu(%x)
      -> (%3)
  %4 : Tensor = prim::If(%c)
    block0():
      %5 : Tensor = aten::exp(%x)
  %6 : Tensor = aten::add(%4, %x)
  return (%6)"""
    read = parse_dump(text.split(b"\n"))
    assert [node.kind for node in read.graph.nodes] == [
        "aten::relu",
        "prim::If",
        "aten::add",
    ]


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from(DUMPS), st.data())
def test_any_line_missing(dump: list[bytes], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(dump) - 1))
    read = parse_dump(dump[:lost] + dump[lost + 1 :])
    seen = {line + (line >= lost) for line in (*lines_of(read), *read.foreign)}
    # No node vanishes without a word.
    assert seen >= {line for line in lines_of(parse_dump(dump)) if line != lost}


def test_two_graphs_are_not_made_one() -> None:
    first, second = [dump for dump in SMALL if len(dump) > 20][:2]
    read = parse_dump(first + second)
    assert shapes(read) == shapes(parse_dump(first))
    assert read.complete
    assert list(read.foreign) == list(range(len(first), len(first + second)))
    cut = parse_dump(first[:-3] + second)
    assert not cut.complete
    assert lines_of(cut) == [
        line for line in lines_of(parse_dump(first)) if line < len(first) - 3
    ]


mutations = st.lists(
    st.one_of(
        st.tuples(st.just("delete"), st.integers(0), st.integers(1, 5)),
        st.tuples(st.just("insert"), st.integers(0), st.binary(max_size=40)),
        st.tuples(st.just("repeat"), st.integers(0), st.integers(1, 5)),
        st.tuples(st.just("flip"), st.integers(0), st.integers(0, 255)),
        st.tuples(st.just("cut"), st.integers(0), st.integers(0, 60)),
    ),
    max_size=8,
)


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(SMALL), mutations)
def test_nothing_makes_it_raise(
    dump: list[bytes], changes: list[tuple[str, int, Any]]
) -> None:
    lines = list(dump)
    for what, place, argument in changes:
        at = place % max(len(lines), 1)
        if what == "delete":
            del lines[at : at + argument]
        elif what == "insert":
            lines.insert(at, argument)
        elif what == "repeat":
            lines[at:at] = lines[at : at + argument]
        elif lines and lines[at] and what == "flip":
            position = place % len(lines[at])
            lines[at] = (
                lines[at][:position] + bytes([argument]) + lines[at][position + 1 :]
            )
        elif lines and what == "cut":
            lines[at] = lines[at][:argument]
    read = parse_dump(lines)
    shapes(read)
    assert read.complete or read.problems
    for line in lines[:20]:
        node = parse_node(line)
        if node is not None:
            assert node.kind
            assert (
                node.outputs,
                node.inputs,
                node.attributes,
                node.source,
            ) is not None


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=12))
def test_any_bytes(lines: list[bytes]) -> None:
    read = parse_dump(lines)
    assert not read.complete or b"graph(" in b"\n".join(lines)
    parse_node_lines(lines)
