"""What no recording holds: prints over several lines, odd kinds, sections of one
name inside each other."""

from __future__ import annotations

import pytest

from fusiondoc.parsers.ir import Value
from fusiondoc.parsers.ir.parse import parse_dump, parse_node, parse_node_lines


def lines(text: str) -> list[bytes]:
    return text.encode().split(b"\n")


NESTED = """graph(%x : Tensor):
  %1 : Tensor = prim::DifferentiableGraph_0(%x)
  %2 : Tensor = prim::DifferentiableGraph_1(%1)
  return (%2)
with prim::DifferentiableGraph_0 = graph(%x : Tensor):
  %1 : Tensor = prim::TensorExprGroup_0[first=1](%x)
  %2 : Tensor = prim::If(%1)
    block0():
      %3 : Tensor = prim::DifferentiableGraph_1(%1)
      -> (%3)
  return (%2)
with prim::TensorExprGroup_0 = graph(%x : Tensor):
  %1 : Tensor = aten::exp2(%x)
  return (%1)
with prim::DifferentiableGraph_1 = graph(%inner : Tensor):
  %1 : Tensor = aten::log2(%inner)
  return (%1)
with prim::DifferentiableGraph_1 = graph(%outer : Tensor):
  %1 : Tensor = prim::TensorExprGroup_0[second=1](%outer)
  return (%1)
with prim::TensorExprGroup_0 = graph(%x : Tensor):
  %1 : Tensor = backend::block_7(%x)
  return (%1)
with backend::block_7 = graph(%x : Tensor):
  return (%x)
"""


def test_sections_of_one_name() -> None:
    dump = parse_dump(lines(NESTED))
    assert dump.complete, dump.problems
    facts = [
        (
            section.name,
            section.kind,
            section.parent.line if section.parent else None,
            section.graph.line,
        )
        for section in dump.sections
    ]
    assert facts == [
        ("prim::DifferentiableGraph_0", "prim::DifferentiableGraph", 0, 4),
        ("prim::TensorExprGroup_0", "prim::TensorExprGroup", 4, 11),
        ("prim::DifferentiableGraph_1", "prim::DifferentiableGraph", 4, 14),
        ("prim::DifferentiableGraph_1", "prim::DifferentiableGraph", 0, 17),
        ("prim::TensorExprGroup_0", "prim::TensorExprGroup", 17, 20),
        ("backend::block_7", "backend::block", 20, 23),
    ]
    outer = dump.graph.nodes[1]
    assert (outer.kind, outer.ref) == (
        "prim::DifferentiableGraph",
        "prim::DifferentiableGraph_1",
    )
    body = dump.resolve(outer)
    assert body is not None and [param.name for param in body.params] == ["outer"]
    # A number at the end of an operator's name is none of a section.
    kinds = [node.kind for graph in dump.graphs() for node in graph.walk()]
    assert "aten::exp2" in kinds and "aten::log2" in kinds


@pytest.mark.parametrize("lost", range(2, 6))
def test_lost_sections_are_said(lost: int) -> None:
    # With only the last one lost nothing tells that `backend::block_7` is not an
    # operator's name.
    parts = NESTED.split("with ")
    dump = parse_dump(lines("with ".join(parts[:-lost])))
    assert not dump.complete
    assert dump.graph.complete
    assert dump.graph.nodes[1].kind == "prim::DifferentiableGraph"
    assert any("is missing" in problem for problem in dump.problems)


def test_number_at_the_end_of_an_operator_is_its_own() -> None:
    dump = parse_dump(
        lines("graph(%x : Tensor):\n  %1 : Tensor = own::op_0(%x)\n  return (%1)")
    )
    assert dump.complete
    assert (dump.graph.nodes[0].kind, dump.graph.nodes[0].ref) == (
        "own::op_0",
        None,
    )


def test_lost_section_of_an_inner_graph_takes_none_of_the_outer() -> None:
    # The inner FallbackGraph_2 is not printed where it should be, before
    # CudaFusionGroup_1.
    text = """graph(%x : Tensor):
  %1 : Tensor = prim::DifferentiableGraph_0(%x)
  %2 : Tensor = prim::CudaFusionGroup_1(%x)
  %3 : Tensor = prim::FallbackGraph_2(%x)
  return (%1, %2, %3)
with prim::DifferentiableGraph_0 = graph(%x : Tensor):
  %1 : Tensor = prim::FallbackGraph_2(%x)
  return (%1)
with prim::CudaFusionGroup_1 = graph(%x : Tensor):
  return (%x)
with prim::FallbackGraph_2 = graph(%x : Tensor):
  return (%x)
"""
    dump = parse_dump(lines(text))
    assert not dump.complete
    assert [section.parent for section in dump.sections] == [dump.graph] * 3
    inner = dump.sections[0].graph.nodes[0]
    assert (inner.kind, inner.ref, dump.resolve(inner)) == (
        "prim::FallbackGraph",
        "prim::FallbackGraph_2",
        None,
    )


def test_scalars_of_a_python_function() -> None:
    node = parse_node(
        b"%1 : Tensor = ^Own[inplace=0](it's (a, 1, [1.5]))(%x, %y) # f.py:1:2"
    )
    assert node is not None
    assert (node.kind, node.scalars, node.inputs) == (
        "^Own",
        "it's (a, 1, [1.5])",
        ("x", "y"),
    )
    plain = parse_node(b"%1 : Tensor = aten::relu(%x)")
    assert plain is not None and plain.scalars is None


def test_section_without_its_graph() -> None:
    dump = parse_dump(lines(NESTED)[4:])
    assert not dump.complete
    first = dump.sections[0]
    assert (first.name, first.node, first.parent) == (
        "prim::DifferentiableGraph_0",
        None,
        None,
    )
    assert dump.sections[1].parent is first.graph


def test_tensor_over_several_lines() -> None:
    text = """graph():
  %1 : Tensor = prim::Constant[value= 1  2
 3  4
[ CPUFloatType{2,2} ], name="a"]() # f.py:1:2
  %2 : Tensor = prim::Constant[value=
(1,.,.) =
  1  1

(2,.,.) =
  1  1
[ CPUFloatType{2,1,2} ]]()
  %3 : Tensor = aten::add(%1, %2)
  return (%3)
"""
    dump = parse_dump(lines(text))
    assert dump.complete, dump.problems
    assert dump.foreign == ()
    first, second, third = dump.graph.nodes
    assert first.attributes == {
        "value": " 1  2\n 3  4\n[ CPUFloatType{2,2} ]",
        "name": '"a"',
    }
    assert first.source == "f.py:1:2"
    assert second.attributes["value"].endswith("[ CPUFloatType{2,1,2} ]")
    assert (third.line, third.inputs) == (11, ("1", "2"))


def test_node_wrapped_inside_its_inputs() -> None:
    node = parse_node(b"%3 : Tensor = aten::cat(%1,\n%2) # f.py:1:2")
    assert node is not None
    assert node.inputs == ("1", "2")


def test_node_with_blocks_by_itself() -> None:
    text = """%7 : Tensor, %8 : int = prim::If(%c) # f.py:3:4
  block0():
    = prim::Print(%x) # f.py:4:8
    %9 : Tensor = prim::Loop(%n, %c, %x)
      block0(%i : int, %y.29 : Tensor):
        %1 : Tensor = aten::relu(%y.29)
        -> (%c, %1)
    -> (%9, %n)
  block1():
    -> (%x, %n)
"""
    node = parse_node_lines(lines(text))
    assert node is not None
    assert node.outputs == (Value("7", "Tensor"), Value("8", "int"))
    assert [inner.kind for inner in node.walk()] == [
        "prim::If",
        "prim::Print",
        "prim::Loop",
        "aten::relu",
    ]
    first, second = node.blocks
    assert (first.outputs, second.outputs) == (("9", "n"), ("x", "n"))
    loop = first.nodes[1].blocks[0]
    assert loop.params == (Value("i", "int"), Value("y.29", "Tensor"))


@pytest.mark.parametrize(
    ("text", "kind", "attributes"),
    [
        (
            b"%1 : Tensor = prim::CudaFusionGroup[Subgraph=<Graph>](%x)",
            "prim::CudaFusionGroup",
            {"Subgraph": "<Graph>"},
        ),
        (
            b'%1 : X = a::b[v=[[["]"]], [[[1]]]], w={"k, z=1": [1, 2]}, x=annotate(Dict[int, float],{})](%x)',
            "a::b",
            {
                "v": '[[["]"]], [[[1]]]]',
                "w": '{"k, z=1": [1, 2]}',
                "x": "annotate(Dict[int, float],{})",
            },
        ),
        (
            b' = prim::RaiseException[m="\\"](%y) # g.py:1:1"](%x)',
            "prim::RaiseException",
            {"m": '"\\"](%y) # g.py:1:1"'},
        ),
        (b"%1 : Tensor = aten::add.Tensor(%x)", "aten::add.Tensor", {}),
        (b"%1 = ^Own[inplace=0](')', (1, 2))(%x)", "^Own", {"inplace": "0"}),
        (
            b"%x : (Tensor, int)[] = prim::ListConstruct(%x), scope: __module.l/a[b] (c)",
            "prim::ListConstruct",
            {},
        ),
        (b"%1 : Tensor = prim::fork_3(%x)\r", "prim::fork", {}),
    ],
)
def test_single_nodes(text: bytes, kind: str, attributes: dict[str, str]) -> None:
    node = parse_node(text)
    assert node is not None
    assert (node.kind, node.attributes, node.inputs) == (kind, attributes, ("x",))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"graph():",
        b"  return (%x)",
        b"%1 : Tensor",
        b"%1 : Tensor = aten::add(%x",
        b"x = f(%y)",
        b"-> ()",
    ],
)
def test_no_node(text: bytes) -> None:
    assert parse_node(text) is None


def test_scope_and_source() -> None:
    node = parse_node(
        b"%1 : T = aten::relu(%x), scope: __module.a/__module.a.b # my file: x.py:134:0"
    )
    assert node is not None
    assert (node.scope, node.source) == (
        "__module.a/__module.a.b",
        "my file: x.py:134:0",
    )


def test_mangled_node_is_said_and_the_rest_is_read() -> None:
    text = """graph(%x : Tensor):
  %1 : Tensor = aten::relu(%x
  %2 : Tensor = aten::add(%1, %x) # f.py:1:1
  return (%2)
"""
    dump = parse_dump(lines(text))
    assert not dump.complete
    assert [node.kind for node in dump.graph.nodes] == ["aten::add"]
    assert dump.problems == ("line 1 of the dump: a node is cut off or mangled",)
    assert dump.foreign == ()
