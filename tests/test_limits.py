"""Decisions at their limits: each figure here was once changed without a test that
noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_compare_match import FLOAT, group, report, told

from fusiondoc.comparison.group_match import Overlap, PositionedNode
from fusiondoc.comparison.positions import NOWHERE, Position
from fusiondoc.model.report import OpNode, Report
from fusiondoc.model.runs import Iteration
from fusiondoc.reports.html import render
from fusiondoc.workflows.load import report_from

PLAN = "[DUMP graph_fuser.cpp:2503] "
RUNS = "[DEBUG kernel_cache.cpp:818] running GraphCache: "


def read(folder: Path, *lines: str) -> Report:
    log = folder / "made.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return report_from([str(log)])


def plan(*lines: str) -> list[str]:
    return [PLAN + line for line in ("Before Compilation: ", *lines)]


def fusion(number: int, line: int = 20) -> list[str]:
    """The body of a group of two operators."""
    return [
        f"with prim::CudaFusionGroup_{number} = graph(%a.0 : {FLOAT}):",
        f"  %a.1 : {FLOAT} = aten::mul(%a.0, %a.0) # m.py:{line}:8",
        f"  %a.2 : {FLOAT} = aten::tanh(%a.1) # m.py:{line + 1}:8",
        "  return (%a.2)",
    ]


def cache(pointer: str, body: list[str]) -> list[str]:
    """What nvFuser says when it makes a GraphCache for this group."""
    graph = ["graph" + body[0].split("graph", 1)[1], *body[1:]]
    return [
        f"[DEBUG kernel_cache.cpp:809] GraphCache constructor: {pointer}",
        *(
            f"[DUMP kernel_cache.cpp:810] {line}"
            for line in ("GraphCache created for graph", *graph)
        ),
    ]


def kernel(number: int) -> list[str]:
    begins = f"======= Codegen output for kernel: kernel{number} ======="
    return [
        begins,
        "",
        f"__global__ void kernel{number}(Tensor<float, 2> T0) {{",
        "}",
        "",
        "=" * 38,
    ]


# -- comparison: how much two groups must share ------------------------------------------------------------


@pytest.mark.parametrize(("shared", "matched"), [(2, True), (1, False)])
def test_groups_that_share_half_of_their_operators_are_one_that_changed(
    shared: int, matched: bool
) -> None:
    ops = ["add", "mul", "relu", "tanh"]
    before = group(1, " ".join(ops), 10)
    others = ["sin", "cos", "exp", "log"]
    nodes = [
        OpNode(f"aten::{ops[at]}", f"m.py:{10 + at}:8", None)
        if at < shared
        else OpNode(f"aten::{others[at]}", f"m.py:{30 + at}:8", None)
        for at in range(4)
    ]
    after = replace(before, nodes=tuple(nodes))
    kinds = [change[0] for change in told(report(before), report(after))]
    assert kinds == ([("operators",)] if matched else [("added",), ("gone",)])


def test_a_place_tells_more_than_a_formula_and_that_more_than_a_name() -> None:
    def likeness(place: Position) -> float:
        node = PositionedNode(
            OpNode("aten::mul", None, None), "aten::mul", place, NOWHERE
        )
        return Overlap([node], [node]).likeness

    line, formula = Position((1, 10), True, False), Position((1, 10), True, True)
    assert likeness(line) > likeness(formula) > likeness(NOWHERE) > 0.5


# -- runs of groups that share what nvFuser counts ---------------------------------------------------------


@pytest.mark.parametrize(("ran", "each"), [(4, 2), (3, None)])
def test_equal_groups_share_their_runs_evenly_or_nobody_knows(
    ran: int, each: int | None, tmp_path: Path
) -> None:
    lines = plan(
        f"graph(%x : {FLOAT}):",
        f"  %y : {FLOAT} = prim::CudaFusionGroup_0(%x)",
        f"  %m : {FLOAT} = aten::matmul(%y, %y) # m.py:5:8",
        f"  %z : {FLOAT} = prim::CudaFusionGroup_1(%m)",
        "  return (%z)",
        *fusion(0, 20),
        *fusion(1, 30),
    )
    runs = [RUNS + "0x55"] * ran
    found = read(tmp_path, *lines, *cache("0x55", fusion(0)), *runs)
    assert [one.runs for one in found.groups] == [each, each]


# -- launches of processes that write into one log ---------------------------------------------------------


def test_a_launch_goes_to_its_own_group_where_two_processes_take_turns(
    tmp_path: Path,
) -> None:
    other = [line.replace("tanh", "exp") for line in fusion(1, 30)]
    lines = plan(
        f"graph(%x : {FLOAT}):",
        f"  %y : {FLOAT} = prim::CudaFusionGroup_0(%x)",
        f"  %z : {FLOAT} = prim::CudaFusionGroup_1(%y)",
        "  return (%z)",
        *fusion(0),
        *other,
    )
    first = [*cache("0x55", fusion(0)), RUNS + "0x55", *kernel(1)]
    second = [*cache("0x77", other), RUNS + "0x77", *kernel(2)]
    turns = [
        RUNS + "0x55",
        RUNS + "0x77",
        *(f"kernel{n} run in 0.5 ms, achieved: 4 GB/s" for n in (1, 2)),
    ]
    found = read(tmp_path, *lines, *first, *second, *turns)
    assert [(one.name, one.groups, one.launches) for one in found.kernels] == [
        ("kernel1", ("G1",), 1),
        ("kernel2", ("G2",), 1),
    ]


# -- reasons: how far around an operator is looked ---------------------------------------------------------


def test_a_guard_whose_fallback_tells_a_dtype_is_no_control_flow(
    tmp_path: Path,
) -> None:
    """As nvFuser of 2.1.2 printed it for a ConvNeXt V2 in training."""
    lines = plan(
        f"graph(%x : {FLOAT}):",
        f"  %ok : bool = prim::CudaFusionGuard[types=[{FLOAT}]](%x)",
        "  %y : Tensor, %t : int = prim::If(%ok)",
        "    block0():",
        "      %a : Tensor = prim::CudaFusionGroup_0(%x)",
        "      %six : int = prim::Constant[value=6]()",
        "      -> (%a, %six)",
        "    block1():",
        "      %b : Tensor, %c : Tensor = prim::FallbackGraph_1(%x)",
        "      %d : int = prim::dtype(%c)",
        "      -> (%b, %d)",
        "  return (%y, %t)",
        *fusion(0),
    )
    report = read(tmp_path, *lines)
    assert report.unfused == () and [group.count for group in report.groups] == [1]


@pytest.mark.parametrize(
    ("between", "code"), [(1, "FD227"), (2, "FD227"), (3, "FD227"), (4, "FD225")]
)
def test_what_stands_between_is_named_up_to_three_operators_away(
    between: int, code: str, tmp_path: Path
) -> None:
    chain = [
        f"  %m{n + 1} : {FLOAT} = aten::matmul(%m{n}, %m{n}) # m.py:{n + 5}:8"
        for n in range(between)
    ]
    lines = plan(
        f"graph(%x : {FLOAT}):",
        f"  %m0 : {FLOAT} = aten::sigmoid(%x) # m.py:4:8",
        *chain,
        f"  %z : {FLOAT} = prim::CudaFusionGroup_0(%m{between})",
        "  return (%z)",
        *fusion(0),
    )
    (row,) = [
        one for one in read(tmp_path, *lines).unfused if one.op == "aten::sigmoid"
    ]
    assert row.reason.code == code
    assert code != "FD227" or row.reason.text.startswith(
        "aten::matmul (m.py:5:8), "
    )


def test_a_condition_is_followed_through_the_numbers_it_is_made_of(
    tmp_path: Path,
) -> None:
    lines = plan(
        f"graph(%x : {FLOAT}, %n : int):",
        f"  %y : {FLOAT} = aten::sigmoid(%x) # m.py:4:8",
        "  %d : int = aten::size(%y, %n) # m.py:5:8",
        "  %e : int = aten::mul(%d, %n) # m.py:5:8",
        "  %c : bool = aten::gt(%e, %n) # m.py:5:8",
        "   = prim::If(%c) # m.py:5:4",
        "    block0():",
        "      -> ()",
        "    block1():",
        "       = prim::RaiseException(%n) # m.py:6:4",
        "      -> ()",
        f"  %z : {FLOAT} = prim::CudaFusionGroup_0(%y)",
        "  return (%z)",
        *fusion(0),
    )
    (row,) = [
        one for one in read(tmp_path, *lines).unfused if one.op == "aten::sigmoid"
    ]
    assert row.reason.code == "FD227"
    assert row.reason.text.startswith(
        "prim::If (m.py:5:4) decides on the shape or type of a tensor"
    )


# -- words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passes", "words"), [(1, "1 pass went"), (2, "2 passes went")]
)
def test_one_pass_and_several_passes(passes: int, words: str) -> None:
    iterations = tuple(
        Iteration(n + 1, "forward", 0, "profiling", 0.1) for n in range(passes)
    )
    page = render(replace(report(group(1, "add relu")), iterations=iterations))
    assert f"{words} to profiling" in page
