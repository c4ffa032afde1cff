"""Files that Inductor writes for a graph, and texts of torch.compile that are cut
or mangled."""

from __future__ import annotations

import lzma
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inductor_recordings import FOLDER, RECORDINGS, Recording

from fusiondoc.fusers.inductor.compilation import (
    Compilation,
    CompilationPart,
    FinalKind,
)
from fusiondoc.parsers.inductor.fx_graph import fx_node, graph_of
from fusiondoc.parsers.inductor.generated_code import generated_module
from fusiondoc.parsers.inductor.post_fusion_ir import final_nodes
from fusiondoc.parsers.inductor.python_text import arguments, size_of
from fusiondoc.parsers.inductor.text_lines import TextLines
from fusiondoc.parsers.lines.log_files import LogInput, find_logs
from fusiondoc.parsers.read import read_logs

DEBUG = FOLDER / "2.11" / "debug" / "torch_compile_debug"


def recorded(name: str) -> Recording:
    return next(one for one in RECORDINGS if one.name == name)


def compilation(*paths: Path) -> Compilation:
    found = read_logs(find_logs([str(path) for path in paths]))[1].compilation
    assert found is not None
    return found


def test_a_debug_folder_shows_what_hooks_saw_of_the_same_program() -> None:
    graphs = compilation(DEBUG).graphs
    facts = recorded("2.11-mlp").facts["graphs"]
    assert [graph.phase for graph in graphs] == ["forward", "backward"]
    for graph, seen in zip(graphs, facts):
        assert graph.holds == {CompilationPart.CODE, CompilationPart.GRAPH}
        expected = {node["name"]: node for node in seen["after"]}
        assert {node.name for node in graph.final} == set(expected)
        for node in graph.final:
            fact = expected[node.name]
            assert sorted(one.buffer for one in node.reads) == fact["reads"]
            assert sorted(one.buffer for one in node.writes) == fact["writes"]
            if node.kind is FinalKind.LOOPS:
                assert (node.read_bytes, node.write_bytes) == (
                    fact["read"],
                    fact["write"],
                )
                assert all(one.index for one in (*node.reads, *node.writes))


def test_a_generated_module_alone_shows_kernels_and_calls(tmp_path: Path) -> None:
    (packed,) = DEBUG.rglob("model__0_forward_1.0/output_code.py.xz")
    module = tmp_path / "cjk3xyz.py"  # as in the cache folder
    module.write_bytes(lzma.decompress(packed.read_bytes()))
    (tmp_path / "other.py").write_text("import torch\n")
    (graph,) = compilation(tmp_path).graphs
    assert (graph.holds, graph.phase) == ({CompilationPart.CODE}, "forward")
    assert [
        node.kernel for node in graph.final if node.kind is not FinalKind.CALL
    ] == [
        "triton_poi_fused_gelu_0",
        "triton_per_fused_add_native_layer_norm_1",
    ]
    assert [node.kernel for node in graph.final if node.kind is FinalKind.CALL] == [
        "extern_kernels.addmm"
    ] * 2


TEXTS = [
    lzma.decompress(path.read_bytes())
    for one in RECORDINGS[::4]
    for path in (one.log, one.trace)
]
TEXTS += [
    lzma.decompress(path.read_bytes()) for path in sorted(DEBUG.rglob("*.xz"))
]
NOISE = [
    b"(",
    b"[",
    b"{",
    b"'''",
    b'"',
    b"\\",
    b"\t",
    b"\n",
    b"\xff",
    b"%",
    b", ",
    b"] {",
    b"\0",
    b" = ",
    b"9" * 5000,
]


def mangled(data: bytes, seed: int) -> bytes:
    """A piece of a text in which bytes are missing, doubled or other ones."""
    draw = random.Random(seed)
    start = draw.randrange(len(data))
    text = bytearray(data[start : start + draw.randrange(1, 60_000)])
    for _ in range(draw.randrange(30)):
        at = draw.randrange(len(text) + 1)
        kind = draw.randrange(3)
        if kind == 0:
            del text[at : at + draw.randrange(1, 400)]
        elif kind == 1:
            text[at:at] = draw.choice(NOISE)
        else:
            text[at:at] = text[at : at + draw.randrange(1, 400)]
    return bytes(text)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_that_is_cut_or_mangled_raises(seed: int, tmp_path: Path) -> None:
    log = tmp_path / ("torch.log" if seed % 3 else "output_code.py")
    log.write_bytes(mangled(TEXTS[seed % len(TEXTS)], seed))
    report, _ = read_logs([LogInput(log.name, log)])
    parse = report.parse
    assert parse.lines == parse.recognised + parse.user_output + parse.unrecognised


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="abop0123 _%:=#()[]{}'\",.\\\n\tfd", max_size=400))
def test_readers_of_texts_take_anything(text: str) -> None:
    graph_of("class GraphModule(torch.nn.Module):\n    def forward(self, " + text)
    fx_node("%add : " + text)
    generated_module(
        "triton_a = async_compile.triton('triton_a', '''\n" + text + "\n''')\n"
    )
    generated_module("def call(args):\n    buf0 = empty_strided_cuda(" + text)
    generated_module(
        "cpp_a = async_compile.cpp_pybinding([], '''\nvoid kernel("
        + text
        + ") {\n''')"
    )
    final_nodes(
        "op0: SchedulerNode(ComputedBuffer)\nop0.writes = [MemoryDep(" + text,
        TextLines(0, 1),
    )
    arguments("(" + text, 0)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64", 64),
        ("s77*(128 + 1)", 24 * 129),
        ("(s77 + 7)//8", 3),
        ("-s77 + 30", 6),
        ("s77//0", None),
        ("u0", None),
        ("9" * 30, None),
        ("2**3", None),
        ("(" * 300, None),
        ("__import__('os')", None),
    ],
)
def test_sizes_are_worked_out_without_running_them(
    text: str, number: int | None
) -> None:
    assert size_of(text, {"s77": 24}) == number
