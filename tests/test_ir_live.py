"""Real graphs of this torch: what our parser reads in their print is what torch's
graph API says of them."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

import ir_programs  # noqa: E402
from ir_torch import live_differences  # noqa: E402
from running import python_apart  # noqa: E402

from fusiondoc.parsers.ir import IrDump, Node  # noqa: E402
from fusiondoc.parsers.ir.parse import parse_dump, parse_node  # noqa: E402


def parsed(graph: Any) -> IrDump:
    return parse_dump(str(graph).encode().split(b"\n"))


def scripted(function: Any) -> Any:
    return torch.jit.script(function).graph


def folded(function: Any) -> Any:
    graph = torch.jit.script(function).inlined_graph
    torch._C._jit_pass_constant_propagation(graph)
    return graph


GRAPHS: dict[str, Callable[[], Any]] = {
    "loops, branches, nodes without outputs": lambda: scripted(
        ir_programs.control_flow
    ),
    "calls of functions": lambda: scripted(ir_programs.constants),
    "constants of every type": lambda: folded(ir_programs.constants),
    "enum, named tuple, dictionary, optional": lambda: scripted(ir_programs.types),
    "forks": lambda: folded(ir_programs.forked),
    "scopes": lambda: (
        torch.jit.trace(ir_programs.Scoped(), torch.ones(2, 2)).inlined_graph
    ),
    "methods": lambda: (
        torch.jit.trace(ir_programs.Scoped(), torch.ones(2, 2)).graph
    ),
    "tensor constants": lambda: (
        torch.jit.freeze(torch.jit.script(ir_programs.Scoped().eval())).graph
    ),
    "Python functions": lambda: (
        torch.jit.trace(ir_programs.python_function, torch.ones(2)).graph
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_is_read_as_torch_has_it(name: str) -> None:
    graph = GRAPHS[name]()
    dump = parsed(graph)
    assert dump.complete
    assert dump.problems == ()
    assert dump.foreign == ()
    assert live_differences(graph, dump) == []


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_printed_by_themselves(name: str) -> None:
    graph = GRAPHS[name]()
    for theirs, inside in zip(graph.nodes(), parsed(graph).graph.nodes):
        text = str(theirs).encode()
        alone = parse_node(text)
        assert alone is not None, text
        mine, others = (
            [facts(node) for node in one.walk()] for one in (alone, inside)
        )
        if inside.ref is not None:
            assert mine[0]["attributes"].pop("Subgraph") == "<Graph>"
        assert mine == others


def facts(node: Node) -> dict[str, Any]:
    return {
        "kind": node.kind,
        "outputs": node.outputs,
        "attributes": dict(node.attributes),
        "inputs": node.inputs,
        "scope": node.scope,
        "source": node.source,
        "scalars": node.scalars,
        "blocks": [
            (block.index, block.params, len(block.nodes), block.outputs)
            for block in node.blocks
        ],
    }


@pytest.fixture
def cpu_fusion() -> Iterator[None]:
    before = (
        torch._C._jit_can_fuse_on_cpu(),
        torch._C._jit_texpr_fuser_enabled(),
        torch._C._jit_get_te_must_use_llvm_cpu(),
    )
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_texpr_fuser_enabled(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)
    torch._C._debug_set_autodiff_subgraph_inlining(False)
    yield
    torch._C._jit_override_can_fuse_on_cpu(before[0])
    torch._C._jit_set_texpr_fuser_enabled(before[1])
    torch._C._jit_set_te_must_use_llvm_cpu(before[2])
    torch._C._debug_set_autodiff_subgraph_inlining(True)


def test_sections_with_one_name_go_to_their_own_nodes(cpu_fusion: None) -> None:
    function = torch.jit.script(ir_programs.differentiable)
    arguments = (
        torch.randn(4, 8, requires_grad=True),
        torch.randn(8, requires_grad=True),
    )
    for _ in range(3):
        function(*arguments)
    graph = function.graph_for(*arguments)
    dump = parsed(graph)
    names = [section.name for section in dump.sections]
    assert len(names) > len(set(names)), (
        f"this torch made no two sections of one name: {names}"
    )
    assert dump.complete
    assert live_differences(graph, dump) == []
    for section in dump.sections:
        assert section.node is not None
        assert dump.resolve(section.node) is section.graph
        assert section.parent is not None
        assert section.node in list(section.parent.walk())


def test_source_with_spaces_and_colons(tmp_path: Path) -> None:
    path = tmp_path / "odd na:me 12:3.py"
    path.write_text("def add(x, y: int):\n    return x + y\n")
    spec = importlib.util.spec_from_file_location("odd", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = torch.jit.script(module.add).graph
    dump = parsed(graph)
    assert live_differences(graph, dump) == []
    assert {
        node.source for node in dump.graph.nodes if node.kind == "aten::add"
    } == {f"{path}:2:11"}


PRINT = """
import json, os, sys, torch
prints = []
for verbosity in range(5):  # read once in a process, when the first type is printed
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.environ["PYTORCH_JIT_TYPE_VERBOSITY"] = str(verbosity)
        os.write(writes, str(torch._C.parse_ir(sys.argv[1])).encode())
        os._exit(0)
    os.close(writes)
    prints.append(open(reads).read())
print(json.dumps(prints))
"""
TYPED = """graph(%x : Float(SS(-2), 3, strides=[3, 1], requires_grad=0, device=cpu),
      %y.1 : Tensor?):
  %2 : int[] = aten::size(%x)
  %3 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu), %4 : (Tensor, int[]) = own::pair[a=1](%x, %2)
  return (%3, %4)
"""


def test_every_type_verbosity() -> None:
    done = python_apart(TYPED, code=PRINT)
    assert done.returncode == 0, done.stderr
    prints = json.loads(done.stdout)
    assert len(set(prints)) == 5, prints
    dumps = [parse_dump(text.encode().split(b"\n")) for text in prints]
    shapes = [
        (
            [value.name for value in dump.graph.params],
            [
                (node.kind, node.inputs, [value.name for value in node.outputs])
                for node in dump.graph.nodes
            ],
            dump.graph.outputs,
            dump.complete,
        )
        for dump in dumps
    ]
    assert shapes == [(["x", "y.1"], *shapes[3][1:3], True)] * 5
    types = [dump.graph.params[0].type for dump in dumps]
    assert types == [
        "",
        "Float(*, 3)",
        "Float(*, 3, strides=[3, 1])",
        "Float(*, 3, strides=[3, 1], requires_grad=0, device=cpu)",
        types[4],
    ]
    assert types[4].startswith("Float(SS(-")
