"""Runs of torch.compile: what the probe sees of Inductor, against torch's own
objects in another process."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import warm_torch
from command_line import Run, runs_in_this_process
from running import python_apart, write

from fusiondoc.captures.capture import Capture
from fusiondoc.fusers.inductor.compilation import (
    Compilation,
    CompilationPart,
    CompiledGraph,
    FinalKind,
)
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.workflows.bench_compiled import seen_besides
from fusiondoc.workflows.load import parse_capture

LOOPS = ("SchedulerNode", "FusedSchedulerNode", "OuterLoopFusedSchedulerNode")
"""Classes of the scheduler's nodes for which loops are generated."""

pytestmark = pytest.mark.torch

BLOCK = """
import torch
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.parts = nn.ModuleList([nn.Linear(64, 64), nn.Linear(64, 64)])

    def forward(self, x):
        h = self.norm(x)
        for part in self.parts:
            h = F.gelu(part(h))
        values, _ = torch.sort(h, -1)
        return values + x

model = Block()
inputs = (torch.randn(16, 64),)
"""

ORACLE = """
import json, sys
sys.path.insert(0, ".")
import torch
import torch._inductor.config as config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.graph import GraphLowering

AsyncCompile.cpp_pybinding = lambda self, *args, **kwargs: lambda *values: None
config.cpp.vec_isa_ok = True
config.force_disable_caches = True
finals, codes, moved = [], [], []

def after_fusion(nodes):
    moved.append(sum(node.get_read_write_buffers_sizes() for node in nodes))
    finals.append([
        [node.get_name(), type(node).__name__, sorted({access.name for access in node.read_writes.reads})]
        for node in nodes
    ])
    return nodes

config._post_fusion_custom_pass = after_fusion
GraphLowering.save_output_code = staticmethod(codes.append)
import model
compiled = torch.compile(model.model)
out = compiled(*model.inputs)
if "backward" in sys.argv:
    out.sum().backward()
counters = dict(torch._dynamo.utils.counters["inductor"])
print(json.dumps({"finals": finals, "codes": codes, "counters": counters, "moved": moved}))
"""


def oracle(folder: Path, *arguments: str) -> dict[str, Any]:
    """What torch itself says of the same program: no code of ours takes part."""
    write(folder, "oracle.py", ORACLE)
    done = python_apart(
        folder / "oracle.py",
        *arguments,
        cwd=folder,
        env={**os.environ, **warm_torch.COMPILES},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compilation(folder: Path) -> Compilation:
    """Of the newest capture in the folder."""
    made = parse_capture(newest(folder)).observed.compilation
    assert made is not None
    return made


def newest(folder: Path) -> Capture:
    return Capture(
        max(path for path in (folder / ".fusiondoc").iterdir() if path.is_dir())
    )


@pytest.fixture(scope="module")
def block(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The block with its gradients, its kernels not compiled."""
    folder = tmp_path_factory.mktemp("block")
    write(folder, "model.py", BLOCK)
    run = runs_in_this_process(folder, folder / "cache")
    done = run(
        "diagnose",
        "model.py",
        "--fuser",
        "inductor",
        "--no-run",
        "--backward",
        "--format",
        "json",
    )
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def truth(block: tuple[Path, object]) -> dict[str, Any]:
    return oracle(block[0], "backward")


def test_final_nodes_are_those_of_the_scheduler(
    block: tuple[Path, object], truth: dict[str, Any]
) -> None:
    graphs = compilation(block[0]).graphs
    assert [graph.phase for graph in graphs] == ["forward", "backward"]
    ours = [
        sorted(
            [node.name, node.scheduler_class, [read.buffer for read in node.reads]]
            for node in graph.final
        )
        for graph in graphs
    ]
    assert ours == [
        sorted(nodes) for nodes in truth["finals"]
    ]  # reordered later, for peak memory


def test_bytes_of_graphs_are_those_that_torch_counts(
    block: tuple[Path, subprocess.CompletedProcess[str]], truth: dict[str, Any]
) -> None:
    graphs = json.loads(block[1].stdout)["compiled"]["graphs"]
    assert [graph["bytes_accessed"] for graph in graphs] == truth["moved"]


def test_a_bench_counts_the_nodes_of_the_scheduler(
    block: tuple[Path, object], truth: dict[str, Any], tmp_path: Path
) -> None:
    """What ``bench`` makes of such records, without any log."""
    (tmp_path / "log").write_bytes(b"")
    counts = seen_besides(
        tmp_path / "log", newest(block[0]).path / "records.jsonl"
    ).compiled
    assert counts.groups and counts.calls and counts.bytes_moved
    loops = [
        sum(kind in LOOPS for _, kind, _ in nodes) for nodes in truth["finals"]
    ]
    assert [counts.groups.forward, counts.groups.backward] == loops
    assert [counts.bytes_moved.forward, counts.bytes_moved.backward] == truth[
        "moved"
    ]
    call = re.compile(
        r"^ +(?:extern_kernels\.|buf\d+ = torch\.ops\.aten\.)", re.MULTILINE
    )
    calls = [len(call.findall(code)) for code in truth["codes"]]
    assert [counts.calls.forward, counts.calls.backward] == calls
    assert counts.graph_breaks == 0


def test_kernels_are_those_that_the_generated_code_defines(
    block: tuple[Path, object], truth: dict[str, Any]
) -> None:
    for graph, code in zip(compilation(block[0]).graphs, truth["codes"]):
        defined = [
            line.split(" = ")[0]
            for line in code.splitlines()
            if " = async_compile.cpp_pybinding(" in line
        ]
        assert sorted(kernel.name for kernel in graph.kernels) == sorted(defined)
        loops = [
            node
            for node in graph.final
            if node.kind in (FinalKind.LOOPS, FinalKind.OUTER_LOOP)
        ]
        assert loops and {node.kernel for node in loops} == set(defined)


def test_torch_counts_as_many_calls_of_libraries(
    block: tuple[Path, object], truth: dict[str, Any]
) -> None:
    """Torch's counter holds calls and the results that are taken out of them."""
    graphs = compilation(block[0]).graphs
    calls = [
        node for graph in graphs for node in graph.final if node.call is not None
    ]
    records = newest(block[0]).records.compiled
    assert records.totals is not None
    assert records.totals.counters["inductor"] == truth["counters"]
    library = sorted(
        node.kernel or "" for node in calls if node.call is CallKind.LIBRARY
    )
    assert library == ["extern_kernels.addmm"] * 2 + ["extern_kernels.mm"] * 4


def test_every_operator_is_computed_somewhere_or_is_a_view(
    block: tuple[Path, object],
) -> None:
    views = (
        "aten.permute.",
        "aten.reshape.",
        "aten.view.",
        "aten.expand.",
        "getitem",
    )
    for graph in compilation(block[0]).graphs:
        computed = {name for node in graph.final for name in node.operators}
        for operator in graph.operators:
            if operator.op == "call_function" and not operator.target.startswith(
                views
            ):
                assert operator.name in computed, operator


def test_operators_have_their_layers_and_lines_also_in_the_backward_graph(
    block: tuple[Path, object],
) -> None:
    forward, backward = compilation(block[0]).graphs
    assert CompilationPart.LAYERS in forward.holds
    of_norm = operator_of(forward, "aten.var_mean.correction")
    assert (of_norm.layer, of_norm.from_) == (
        "norm",
        "aten.native_layer_norm.default",
    )
    assert of_norm.source is not None and of_norm.source.endswith("model.py:13")
    assert [
        one.layer for one in forward.operators if one.target == "aten.addmm.default"
    ] == [
        "parts.0",
        "parts.1",
    ]
    layers = {
        one.layer for one in backward.operators if one.target == "aten.mm.default"
    }
    assert layers == {"parts.0", "parts.1"}


def operator_of(graph: CompiledGraph, target: str) -> Any:
    return next(
        operator for operator in graph.operators if operator.target == target
    )


def test_a_sort_is_left_to_eager_code(block: tuple[Path, object]) -> None:
    (forward, _) = compilation(block[0]).graphs
    sort = next(
        node
        for node in forward.final
        if "sort" in node.operators and node.call is not None
    )
    assert (sort.call, sort.kernel) == (
        CallKind.ON_PURPOSE,
        "torch.ops.aten.sort.stable",
    )


def test_no_shared_data_is_explained(block: tuple[Path, object]) -> None:
    refused = [
        refusal
        for graph in compilation(block[0]).graphs
        for refusal in graph.refusals
    ]
    last = [
        one for one in refused if one.last_round and one.text == "no shared data"
    ]
    assert last and all(one.why_not_shared for one in last)


def test_nothing_is_compiled_and_the_capture_has_log_and_trace(
    block: tuple[Path, object],
) -> None:
    capture = newest(block[0])
    assert (
        capture.request.options.no_run
        and capture.request.environment_set["TORCH_LOGS"]
    )
    assert list((capture.path / "trace").glob("dedicated_log_torch_trace_*"))
    assert b"[__fusion] cannot fuse" in (capture.path / "log").read_bytes()
    assert len(capture.records.passes) == 2


def test_hooks_take_little_of_the_time(block: tuple[Path, object]) -> None:
    records = newest(block[0]).records.compiled
    assert records.failed_hooks == ()
    assert records.totals is not None and records.totals.hook_seconds is not None
    compiling = sum(sum(graph.seconds.values()) for graph in records.graphs)
    assert 0 < records.totals.hook_seconds < 0.5 * compiling


# -- programs that come to torch.compile by themselves -------------------------------------------------------

COMPILED = """
import torch

@torch.compile
def model(x):
    y = torch.sin(x) * 2
    print("between")
    return torch.relu(y) + 1

inputs = [(torch.randn(4, 8),), (torch.randn(6, 8),)]
"""


def test_a_compiled_function_is_recognised_with_breaks_and_recompiles(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", COMPILED)
    done = fusiondoc(
        "diagnose", "model.py", "--no-run", "--format", "json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fuser"]["effective"] == "inductor"
    capture, made = newest(tmp_path), compilation(tmp_path)
    assert capture.records.frontend.effective == "dynamo"
    assert [
        (one.number, (one.source or "").rpartition("/")[2]) for one in made.breaks
    ] == [("GB0059", "model.py:7")]
    assert (
        made.recompiles
        and "size mismatch at index 0. expected 4, actual 6" in str(made.recompiles)
    )


LIKE_TORCH_2_9 = """
import torch
from torch._inductor.codegen import cpp

cpp.set_kernel_post_grad_provenance_tracing = lambda nodes, name, is_extern=False: None

def model(x, y):
    return (x * y + 1).relu().sum(1), torch.softmax(x, 1)

inputs = (torch.randn(8, 16), torch.randn(8, 16))
"""


def test_kernels_where_torch_names_them_only_with_provenance(
    fusiondoc: Run, tmp_path: Path
) -> None:
    """torch 2.9 calls the function that the kernels' nodes are read from only where
    provenance is tracked; the back end's definitions of kernels show them too."""
    write(tmp_path, "model.py", LIKE_TORCH_2_9)
    done = fusiondoc(
        "diagnose",
        "model.py",
        "--fuser",
        "inductor",
        "--no-run",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kernels"] and report["groups"]
    assert all(
        group["kernels"] and group["name"].startswith("cpp_fused")
        for group in report["groups"]
    )
    assert all(
        kernel["groups"] and kernel["bytes_moved"] for kernel in report["kernels"]
    )


@pytest.mark.nightly
def test_a_script_that_compiles_is_recognised(
    fusiondoc: Run, tmp_path: Path
) -> None:
    script = (
        COMPILED.replace("inputs =", "shapes =")
        + "for shape in shapes[:1]:\n    model(*shape)\n"
    )
    write(tmp_path, "train.py", script)
    done = fusiondoc(
        "diagnose",
        "train.py",
        "--script",
        "--no-run",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert newest(tmp_path).records.frontend.effective == "dynamo"
    assert [graph.phase for graph in compilation(tmp_path).graphs] == [
        "forward",
        "forward",
    ]


@pytest.mark.nightly
def test_another_fuser_still_runs_what_is_wrapped(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = COMPILED.replace('    print("between")\n', "").replace(
        "8),)", "8).requires_grad_(),)"
    )
    write(tmp_path, "model.py", text)
    done = fusiondoc(
        "diagnose", "model.py", "--fuser", "none", "--format", "json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert newest(tmp_path).records.frontend.effective == "torchscript"


IN_PROCESS = """
import sys
import torch
import fusiondoc
from fusiondoc.probe.fusers import without_kernels
from fusiondoc.probe.passes import _parameters

with fusiondoc.capture(sys.argv[1], fuser=sys.argv[2]) as run, without_kernels(torch):
    torch.compile(lambda x: torch.softmax(x * 2, -1).sum(0))(torch.ones(8, 16))
report = run.report
assert torch._inductor.config.force_disable_caches is False
module = torch.nn.Linear(2, 2)
compiled = torch.compile(module)
assert [name for name, _ in compiled.named_parameters()] == ["_orig_mod.weight", "_orig_mod.bias"]
assert [(name, id(value)) for name, value in _parameters(compiled)] == [
    (name, id(value)) for name, value in module.named_parameters()
]
print([report.frontend, report.fuser.effective, [group.kind for group in report.groups]])
"""


@pytest.mark.parametrize(
    "fuser", ["auto", pytest.param("inductor", marks=pytest.mark.nightly)]
)
def test_a_block_of_a_running_program_shows_its_compiled_graphs(
    tmp_path: Path, fuser: str
) -> None:
    """And parameters of a compiled module have the names of eager: else
    ``--verify`` holds each gradient against none."""
    write(tmp_path, "program.py", IN_PROCESS)
    done = python_apart(tmp_path / "program.py", tmp_path, fuser, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    frontend, effective, kinds = ast.literal_eval(done.stdout.splitlines()[-1])
    assert (frontend, effective) == ("dynamo", "inductor")
    assert kinds and set(kinds) == {"InductorCpp"}


# -- what cannot be done -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--fuser", "nnc", "--frontend", "dynamo"),
            "--fuser nnc does not go with --frontend dynamo",
        ),
        (
            ("--fuser", "inductor", "--frontend", "aot"),
            "--fuser inductor does not go with --frontend aot",
        ),
        (("--fuser", "nnc", "--no-run"), "--no-run is for Inductor"),
        (
            ("--fuser", "inductor", "--no-run", "--verify"),
            "--no-run computes no results",
        ),
    ],
)
def test_options_that_do_not_go_together(
    fusiondoc: Run, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    write(tmp_path, "model.py", BLOCK)
    done = fusiondoc("diagnose", "model.py", *arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


def test_without_a_compiler_the_status_is_4_and_says_what_to_do(
    fusiondoc: Run, tmp_path: Path
) -> None:
    write(tmp_path, "model.py", COMPILED)
    env = {**os.environ, "CXX": "/nowhere/g++"}
    done = fusiondoc(
        "diagnose", "model.py", "--fuser", "inductor", cwd=tmp_path, env=env
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "needs a C++ compiler" in done.stderr and "--no-run" in done.stderr


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_real_kernels_give_the_results_of_eager(
    fusiondoc: Run, tmp_path: Path
) -> None:
    text = COMPILED.replace('    print("between")\n', "").replace(
        "8),)", "8).requires_grad_(),)"
    )
    write(tmp_path, "model.py", text)
    done = fusiondoc(
        "diagnose",
        "model.py",
        "--fuser",
        "inductor",
        "--backward",
        "--verify",
        "-f",
        "json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["verification"]
    assert rows and all(row["same"] for row in rows)
