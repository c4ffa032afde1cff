"""The probe's facts of a run and those of its log, put together
(``fusers/inductor/live_facts.py``)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inductor_recordings import RECORDINGS, Recording, read
from running import python_apart

from fusiondoc.diagnosis.of_fusers.inductor_graphs import FinalGraph
from fusiondoc.fusers.inductor.compilation import (
    Compilation,
    CompiledGraph,
    FinalKind,
    FinalNode,
    GraphBreak,
    GraphOperator,
    Refusal,
)
from fusiondoc.fusers.inductor.kinds import CallKind
from fusiondoc.fusers.inductor.live_facts import with_live
from fusiondoc.model.compiled import Accounts


def as_scheduled(graph: CompiledGraph) -> CompiledGraph:
    """As the probe sees it: the second stage of a mixed-order reduction is a node
    like others, without a kernel (``Scheduler.nodes`` of torch 2.11)."""
    nodes = [
        replace(node, kind=FinalKind.LOOPS, call=None, kernel=None)
        if node.call is CallKind.EAGER_SUM
        else node
        for node in graph.final
    ]
    return replace(graph, final=tuple(nodes))


@pytest.mark.parametrize(
    "recording", RECORDINGS, ids=lambda recording: recording.name
)
def test_no_group_is_made_of_what_the_wrapper_computes(
    recording: Recording,
) -> None:
    shown = read(recording.log, recording.trace)
    live = Compilation(graphs=tuple(map(as_scheduled, shown.graphs)))
    for graph, code in zip(with_live(shown, live).graphs, shown.graphs):
        assert [(node.name, node.kind, node.call) for node in graph.final] == [
            (node.name, node.kind, node.call) for node in code.final
        ]


def test_there_is_a_sum_of_the_wrapper_among_the_recordings() -> None:
    calls = [
        node.call
        for recording in RECORDINGS
        for graph in read(recording.log, recording.trace).graphs
        for node in graph.final
    ]
    assert CallKind.EAGER_SUM in calls


def test_a_break_that_the_log_explains_is_not_reported_again() -> None:
    of_log = GraphBreak("model.py:20", "Data-dependent branching", number="GB0170")
    live = (
        GraphBreak("model.py:20", "generic_jump TensorVariable()"),
        GraphBreak("model.py:31", "call of print"),
    )
    together = with_live(Compilation(breaks=(of_log,)), Compilation(breaks=live))
    assert together.breaks == (of_log, live[1])


def test_what_torch_measured_comes_from_the_log() -> None:
    """A pair that a benchmark keeps apart was allowed before: hooks see no
    refusal."""
    tried = Refusal("op0", "op1", "memory deps did not match", 1, True)
    measured = Refusal(
        "buf0",
        "buf2",
        "fusing {'buf0'} with {'buf2'} cause 1.2x slowdown",
        1,
        True,
        (0, 9),
        True,
    )
    live = CompiledGraph("0/0", "forward", 0, refusals=(tried,))
    of_log = replace(live, refusals=(replace(tried, line=(0, 8)), measured))
    (graph,) = with_live(Compilation((of_log,)), Compilation((live,))).graphs
    assert graph.refusals == (tried, measured)


SIZES = """
import re
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from fusiondoc.probe.inductor_facts import type_text

def last_columns(x):
    last = x.shape[1] - 1
    return x.new_zeros(last * 2, x.shape[0]), x[:, last:] * last

graph = make_fx(last_columns, tracing_mode="symbolic")(torch.ones(3, 5))
printed = graph.print_readable(print_output=False, include_stride=True, include_device=True)
for node in graph.graph.nodes:
    if node.op == "call_function":
        expected = re.search(r"\\b%s: \\"(.*?)\\"" % node.name, printed)[1]
        found = type_text(node.meta["val"])
        print(expected == found, found)
"""


@pytest.mark.torch
def test_types_of_tensors_and_sizes_are_those_that_torch_prints() -> None:
    printed = python_apart(code=SIZES)
    rows = [row.split(" ", 1) for row in printed.stdout.splitlines()]
    assert [row for row in rows if row[0] != "True"] == [], printed.stderr
    assert {text.startswith("Sym(") for _, text in rows} == {True, False}


def test_a_size_is_an_operator_of_no_kernel() -> None:
    """``x[:, last:]`` with dynamic shapes: the host computes ``last``."""
    operators = (
        GraphOperator("last", "call_function", "sub", (), "Sym(s0 - 1)"),
        GraphOperator(
            "mul",
            "call_function",
            "aten.mul.Tensor",
            ("last",),
            "f32[4, s0][s0, 1]cpu",
        ),
    )
    graph = CompiledGraph(
        "0/0",
        "forward",
        0,
        operators=operators,
        final=(
            FinalNode(
                "op0",
                ("op0",),
                FinalKind.LOOPS,
                "SchedulerNode",
                operators=("last", "mul"),
            ),
        ),
        outputs=("mul",),
    )
    found = FinalGraph(graph)
    assert [operator.name for operator in found.nodes[0].operators] == ["mul"]
    assert found.accounts == Accounts(
        in_groups=1, in_calls=0, views=1, dead=0, not_found=()
    )
