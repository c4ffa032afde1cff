"""The graph of a plan: what would fuse by it, against what NNC fuses; ways, against
all paths."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from running import python_apart
from thorough import examples

from fusiondoc.fusers.nnc import takes as nnc
from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.graph.taken_apart import taken_apart
from fusiondoc.graph.would_fuse import Limits, would_fuse
from fusiondoc.model.report import ProgramNode, Report
from fusiondoc.workflows.load import report_from

if TYPE_CHECKING:
    import torch

LIVE = Path(__file__).parent / "live" / "fused_or_not.py"
Runs = dict[str, tuple[Report, Report, list[list[str]]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Program -> its report without a fuser, that under NNC, and the groups that
    torch finds under NNC."""
    pytest.importorskip("torch")
    levels = "profiling_graph_executor_impl:tensorexpr_fuser"
    done = python_apart(LIVE, env={**os.environ, "PYTORCH_JIT_LOG_LEVEL": levels})
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    parts = [part.partition("\n")[2] for part in done.stderr.split("== ")[1:]]
    folder = tmp_path_factory.mktemp("plans")
    reports = []
    for number, part in enumerate(parts):
        log = folder / f"{number}.log"
        log.write_text(part)
        reports.append(report_from([str(log)]))
    return {
        name: (without, fused, groups)
        for (name, groups), without, fused in zip(
            found.items(), reports[::2], reports[1::2], strict=True
        )
    }


def groups_of(
    report: Report,
) -> tuple[DependencyGraph[ProgramNode], list[list[int]]]:
    """The groups of two operators and more that all but cumsum would be, in the
    only plan of a run."""
    (program,) = report.programs
    graph = graph_of(program)
    assert all(node.kind == "operator" for node in program.nodes)
    free = [node.op != "aten::cumsum" for node in program.nodes]
    found = would_fuse(graph, free, Limits(graph.inside))
    return graph, [members for members in found if len(members) > 1]


COMPUTE = ("{}.exp()", "{}.relu()", "{}.sigmoid()", "{} + {}", "{} - {}", "{} * {}")
OTHERS = (
    "{}.view(8)",
    "{}.unsqueeze(0)",
    "torch.cumsum({}, 0)",
    "torch.flip({}, [0])",
)
FUSIBLE = frozenset(
    f"aten::{op}"
    for op in ("exp", "relu", "sigmoid", "add", "sub", "mul", "unsqueeze")
)
"""Of these operators those that NNC takes."""


@st.composite
def programs(draw: st.DrawFn, several: bool = False) -> str:
    """A straight-line function of two tensors of 8 elements; ``several``: with
    several results."""
    if several:
        return with_results(lambda among: draw(st.sampled_from(among)))
    names, lines = ["x", "y"], []
    for number in range(draw(st.integers(2, 9))):
        form = draw(st.sampled_from(COMPUTE + OTHERS))
        operands = [draw(st.sampled_from(names)) for _ in range(form.count("{}"))]
        lines.append(f"    v{number} = {form.format(*operands)}")
        names.append(f"v{number}")
    other = draw(st.sampled_from(names))
    return "\n".join(
        ["def f(x, y):", *lines, f"    return {names[-1]} + {other}", ""]
    )


def with_results(choose: Callable[[Sequence[Any]], Any]) -> str:
    """A function that gives all that it computes, nothing twice, and joins
    tensors."""
    computed: dict[str, str] = {}
    for number in range(choose(range(2, 15))):
        form = choose(
            (*COMPUTE, *COMPUTE, *OTHERS[2:], "torch.cat([{}[:4], {}[4:]])")
        )
        operands = [
            choose(["x", "y", *computed.values()]) for _ in range(form.count("{}"))
        ]
        computed.setdefault(form.format(*operands), f"v{number}")
    lines = [f"    {name} = {text}" for text, name in computed.items()]
    return "\n".join(
        [
            "def f(x, y):",
            *lines,
            f"    return ({', '.join(computed.values())},)",
            "",
        ]
    )


@pytest.fixture(scope="module")
def fused_on_cpu() -> Iterator[None]:
    """NNC fuses on the CPU, without LLVM as well."""
    torch = pytest.importorskip("torch")
    on_cpu, only_llvm = (
        torch._C._jit_can_fuse_on_cpu(),
        torch._C._jit_get_te_must_use_llvm_cpu(),
    )
    fuser = torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_te_must_use_llvm_cpu(False)
    yield
    torch._C._jit_override_can_fuse_on_cpu(on_cpu)
    torch._C._jit_set_te_must_use_llvm_cpu(only_llvm)
    torch._C._jit_set_texpr_fuser_enabled(fuser)


def plan_of(program: str, fuser: bool) -> torch.Graph:
    """The plan of a function, with NNC or without a fuser."""
    import torch

    torch._C._jit_set_texpr_fuser_enabled(fuser)
    function = torch.jit.CompilationUnit(program).f
    with torch.no_grad():
        for _ in range(3):
            function(torch.ones(8), torch.ones(8))
    return torch.jit.last_executed_optimized_graph()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plan") / "plan.log"


A_TENSOR_FOR_TWO = """\
def f(x, y):
    a = (x + y).exp()
    b = (x - y).relu()
    return a * b + torch.cumsum(b, 0)
"""
"""``a`` belongs to the group of the product, which waits for ``cumsum`` and so for
``b``."""


@pytest.mark.usefixtures("fused_on_cpu")
@settings(max_examples=examples(500), deadline=None)
@example(A_TENSOR_FOR_TWO)
@given(programs())
def test_what_would_fuse_in_any_program_is_what_nnc_fuses(
    log: Path, program: str
) -> None:
    log.write_text(str(plan_of(program, fuser=False)))
    (read,) = report_from([str(log)]).programs
    graph = graph_of(read)
    free = [node.op in FUSIBLE for node in read.nodes]
    views = {
        index for index, node in enumerate(read.nodes) if node.op in nnc.PULLED_IN
    }
    found = would_fuse(graph, free, Limits(graph.inside, pulled_in=views))
    assert kinds_of(read.nodes, found) == groups_of_torch(
        plan_of(program, fuser=True)
    )


def kinds_of(
    nodes: Sequence[ProgramNode], found: list[list[int]]
) -> list[list[str]]:
    return sorted(
        sorted(nodes[node].op for node in members)
        for members in found
        if len(members) > 1
    )


def groups_of_torch(fused: torch.Graph) -> list[list[str]]:
    found = []
    for group in fused.findAllNodes("prim::TensorExprGroup", True):
        kinds = [node.kind() for node in group.g("Subgraph").nodes()]
        found.append(
            sorted(
                kind
                for kind in kinds
                if kind not in ("prim::Constant", "prim::ListConstruct")
            )
        )
    return sorted(found)


PARTED_BY_ONE_BETWEEN = """\
def f(x, y):
    a = (x + y).exp()
    b = torch.cumsum(a, 0).relu().sigmoid()
    c = (x - y).relu()
    return a, b, c
"""
"""``c`` follows a group that it could not join, were it moved before that alone."""


@pytest.mark.usefixtures("fused_on_cpu")
@settings(max_examples=examples(500), deadline=None)
@example(PARTED_BY_ONE_BETWEEN)
@given(programs(several=True))
def test_neighbours_that_share_nothing_are_merged_as_nnc_does(
    log: Path, program: str
) -> None:
    log.write_text(str(plan_of(program, fuser=False)))
    (read,) = report_from([str(log)]).programs
    graph = graph_of(read)
    free = [node.op in FUSIBLE | {"aten::cat"} for node in read.nodes]
    limits = Limits(
        graph.inside,
        pulled_in={
            index
            for index, node in enumerate(read.nodes)
            if node.op in nnc.PULLED_IN
        },
        take_lists={
            index for index, node in enumerate(read.nodes) if node.op == "aten::cat"
        },
        merges_neighbours=True,
    )
    fused = plan_of(program, fuser=True)
    assert kinds_of(read.nodes, would_fuse(graph, free, limits)) == groups_of_torch(
        fused
    )


@pytest.mark.usefixtures("fused_on_cpu")
def test_groups_of_nnc_taken_apart_are_the_same_groups_again(log: Path) -> None:
    """Seldom not: the plan has the order after the pass, which moved nodes."""
    of_seeds = [
        with_results(random.Random(seed).choice) for seed in range(examples(500))
    ]
    known = sum(
        is_made_again(log, program)
        for program in (PARTED_BY_ONE_BETWEEN, *of_seeds)
    )
    assert known > 0.9 * len(of_seeds)


def is_made_again(log: Path, program: str) -> bool:
    """Whether the groups that NNC makes are those that their operators would be
    again."""
    fused = plan_of(program, fuser=True)
    log.write_text(str(fused))
    report = report_from([str(log)])
    if not report.groups:
        return True
    (read,) = report.programs
    apart = taken_apart(
        graph_of(read), {group.id: group for group in report.groups}
    )
    every = range(len(apart.origin))
    nodes = apart.graph.nodes
    assert sum(map(len, groups_of_torch(fused))) == sum(
        node.kind == "group" for node in nodes
    )
    limits = Limits(
        apart.graph.inside,
        pulled_in={index for index in every if nodes[index].op in nnc.PULLED_IN},
        take_lists={index for index in every if nodes[index].op == "aten::cat"},
        merges_neighbours=True,
    )
    found = would_fuse(
        apart.graph, [node.kind == "group" for node in nodes], limits
    )
    return kinds_of(nodes, found) == groups_of_torch(fused)


@pytest.mark.parametrize("name", ["chain", "split", "around"])
def test_what_would_fuse_is_what_nnc_fuses(runs: Runs, name: str) -> None:
    without, _, of_torch = runs[name]
    graph, groups = groups_of(without)
    ops = sorted(
        sorted(graph.nodes[node].op for node in members) for members in groups
    )
    assert ops == sorted(map(sorted, of_torch))


def test_traffic_is_what_the_groups_take_and_make(runs: Runs) -> None:
    """A plan without a fuser has no types: here they are those of the group that
    NNC makes."""
    without, fused, _ = runs["split"]
    typed = fused.groups[0].outputs[0]
    (program,) = without.programs
    nodes = tuple(
        replace(node, inputs=(typed,) * len(node.inputs), outputs=(typed,))
        for node in program.nodes
    )
    graph, groups = groups_of(
        replace(without, programs=(replace(program, nodes=nodes),))
    )
    moved = [graph.traffic(members) for members in groups]
    assert moved == [
        (group.bytes_in or 0) + (group.bytes_out or 0) for group in fused.groups
    ]
    assert moved == [3 * 4 * 8 * 4] * 2  # two tensors read, one written


def random_graph(seed: int) -> DependencyGraph[ProgramNode]:
    rng = random.Random(seed)
    count = rng.randint(3, 9)
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for taker in range(1, count):
        for maker in rng.sample(range(taker), rng.randint(1, min(3, taker))):
            before[taker].append(maker)
            after[maker].append(taker)
    node = ProgramNode(
        "operator", "aten::add", None, None, (), (), None, None, None, None, None
    )
    return DependencyGraph([node] * count, before, after, [None] * count)


def all_paths(
    graph: DependencyGraph[ProgramNode], first: int, last: int
) -> list[list[int]]:
    if first == last:
        return [[last]]
    return [
        [first, *rest]
        for step in graph.after[first]
        for rest in all_paths(graph, step, last)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_detours_and_reach_against_all_paths(seed: int) -> None:
    graph = random_graph(seed)
    through = {
        node
        for node in range(len(graph.nodes))
        if random.Random(seed + node).random() < 0.5
    }
    for first in range(len(graph.nodes)):
        reached = {
            end
            for end, _ in graph.reach(
                [first], "after", through.__contains__, 100
            ).ends
        }
        for last in range(first + 1, len(graph.nodes)):
            paths = all_paths(graph, first, last)
            longer = {path[1] for path in paths if len(path) > 2}
            detour = graph.detour(first, last)
            assert detour in longer if longer else detour is None
            seen_through = any(through.issuperset(path[1:-1]) for path in paths)
            assert (last in reached) == (seen_through and last not in through)
