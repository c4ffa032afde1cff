"""Models that nobody here wrote: counts and kernels, against what torch found in
the same process."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from pathlib import Path

import pytest
from conftest import FIXTURES

from fusiondoc import render
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.expectations.match import check
from fusiondoc.expectations.read_file import loads
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from

FOREIGN = FIXTURES / "foreign"
NODES = json.loads((FOREIGN / "nodes.json").read_text())
"""Log -> "phase operators" -> fusion nodes, as the graph API found them in all
executors' plans."""


def report_of(name: str) -> Report:
    return report_from([str(FOREIGN / f"{name}.log.xz")])


def graph_caches(name: str) -> tuple[int, int]:
    """How many GraphCaches nvFuser made, one for each key, and how many of them
    ran."""
    log = lzma.decompress((FOREIGN / f"{name}.log.xz").read_bytes())
    made = re.findall(rb"(?m)\] GraphCache constructor: ", log)
    return len(made), len(
        set(re.findall(rb"(?m)\] running GraphCache: (\S+)$", log))
    )


@pytest.mark.parametrize("name", sorted(NODES))
def test_instances_are_the_nodes_that_torch_finds(name: str) -> None:
    report = report_of(name)
    found: Counter = Counter()
    for group in report.groups:
        if group.respecialises is None:
            found[f"{group.phase or 'forward'} {' '.join(group.ops)}"] += len(
                group.instances
            )
    assert found == NODES[name]


@pytest.mark.parametrize(
    "name", sorted(name for name in NODES if name.endswith(".nvfuser"))
)
def test_kernels_run_the_instances_with_their_cache_key(name: str) -> None:
    report = report_of(name)
    assert all(kernel.groups for kernel in report.kernels)
    told: dict[tuple[str, ...], int] = {}
    for group in report.groups:
        assert set(group.kernels) == {
            kernel for one in group.instances for kernel in one.kernels
        }
        for one in group.instances:
            assert bool(one.kernels) == (one.runs != 0)
            told[one.kernels] = told.get(one.kernels, 0) + 1
    # Each GraphCache compiles kernels of its own, and all nodes with its key run
    # them.
    idle = told.pop((), 0)
    made, ran = graph_caches(name)
    assert (
        len(told) == ran and (made - ran > 0) == (idle > 0) and made - ran <= idle
    )
    assert sum(told.values()) == report.fusion_groups - idle


def test_layers_of_a_trace_have_kernels_of_their_own() -> None:
    report = report_of("functions.trace.train.nvfuser")
    several = [
        group
        for group in report.groups
        if group.count > 1 and group.phase == "forward"
    ]
    assert several
    for group in several:
        assert len({one.kernels for one in group.instances}) == group.count


def test_equal_layers_are_no_specialisations() -> None:
    codes = {
        name: [f.code for f in report_of(name).findings].count("FD305")
        for name in NODES
    }
    shapes = "shapes.script.train.nvfuser"
    assert codes.pop(shapes) == 2
    # Its gradients come with other strides than in the profiled run.
    assert codes.pop("convnext.script.train.nvfuser") > 0
    assert not any(codes.values()), codes


def test_what_one_block_of_four_leaves_is_seen() -> None:
    four, one = (
        report_of("blocks4.script.train.nvfuser"),
        report_of("blocks1.script.train.nvfuser"),
    )
    assert (four.fusion_groups, one.fusion_groups) == (8, 2)
    assert four.fused_operators == 48
    comparison = compare(four, one)
    assert (comparison.a.groups, comparison.b.groups) == (8, 2)
    assert not comparison.same
    assert (
        sum(
            change.count
            for change in comparison.groups
            if change.kinds == ("gone",)
        )
        == 6
    )
    section = loads("number_of_groups: 8\n", "e.yaml").sections[0]
    assert [outcome.holds for outcome in check(section, four)] == [True]
    assert [outcome.holds for outcome in check(section, one)] == [False]


def test_operators_outside_are_counted_in_every_plan() -> None:
    four, one = (
        report_of("blocks4.script.train.nvfuser"),
        report_of("blocks1.script.train.nvfuser"),
    )
    counts = [
        Counter({(row.op, row.phase): 0 for row in report.unfused})
        for report in (four, one)
    ]
    for report, count in zip((four, one), counts):
        for row in report.unfused:
            count[row.op, row.phase] += row.count
    assert counts[1]["aten::cumsum", "forward"] == 1
    assert counts[0]["aten::cumsum", "forward"] == 4


def test_what_computes_nothing_is_counted_nowhere() -> None:
    """Sizes of a trace, attributes, refinements of types and lists."""
    for name in (
        "vit.trace.eval.nvfuser",
        "gpt2.trace.eval.nvfuser",
        "bert.trace.eval.nvfuser",
    ):
        ops = {row.op for row in report_of(name).unfused}
        assert not ops & {
            "prim::GetAttr",
            "prim::NumToTensor",
            "aten::floor_divide",
            "prim::unchecked_cast",
        }
        assert "aten::pow" not in ops
    log = lzma.decompress((FOREIGN / "vit.trace.eval.nvfuser.log.xz").read_bytes())
    assert b"aten::floor_divide" in log and b"prim::NumToTensor" in log
    assert {"aten::linear", "aten::cat"} <= {
        row.op for row in report_of("vit.trace.eval.nvfuser").unfused
    }


def test_a_fuser_that_looked_and_made_no_group_is_named(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    lines = lzma.decompress(
        (FOREIGN / "blocks1.script.train.nvfuser.log.xz").read_bytes()
    ).split(b"\n")
    # The plans without their groups: a model in which nvFuser found nothing.
    start = next(
        i for i, line in enumerate(lines) if line.endswith(b"] Before Fusion: ")
    )
    end = next(
        i
        for i, line in enumerate(lines)
        if line.endswith(b"] Before Compilation: ")
    )
    log.write_bytes(b"\n".join(lines[start:end]))
    report = report_from([str(log)])
    assert (report.fuser.effective, report.fuser.why) == (
        "nvfuser",
        "1 pass, no group",
    )
    assert "nvFuser, 1 pass, no group\n" in render(report, "text")


def test_what_nnc_left_to_nvfuser_is_no_plan_of_its_own() -> None:
    report = report_from(
        [str(FIXTURES / "logs" / "nvfuser-2.1.2-beside-nnc.log.xz")]
    )
    (group,) = report.groups
    assert (group.kind, len(group.instances), len(group.nodes)) == (
        "CudaFusionGroup",
        1,
        4,
    )
    assert not report.unfused
    assert report.coverage.fraction == 1
    assert report.fuser.effective == "nvfuser"


def test_a_fallback_function_is_of_the_group_whose_guard_failed() -> None:
    """Its graph can be that of another group, whose GraphCache it then runs: it is
    no run of that group."""
    report = report_of("convnext.script.train.nvfuser")
    forward = [group for group in report.groups if group.phase != "backward"]
    (ours,) = [
        g
        for g in forward
        if [i.layer for i in g.instances] == ["features.2.0"] and g.runs == 0
    ]
    (again,) = [g for g in forward if g.respecialises == ours.id]
    assert again.inputs != ours.inputs and [
        one.layer for one in again.instances
    ] == ["features.2.0"]
    other = next(
        g for g in forward if (g.inputs, g.nodes) == (again.inputs, again.nodes)
    )
    assert other.id not in (ours.id, again.id)
    assert [one.layer for one in other.instances] == ["features.0.1"]
    assert other.kernels == again.kernels


@pytest.mark.parametrize(
    ("op", "source", "phase"),
    [
        (
            "aten::relu(%x)",
            "<string>:90:21",
            "forward",
        ),  # of a batch norm's differentiable graph
        ("aten::gelu_backward(%x, %x)", "<eval_with_key>.9:6:33", "backward"),
        (
            "aten::relu(%x)",
            "<eval_with_key>.9:5:12",
            None,
        ),  # may be computed once more in the backward
        ("aten::mul(%x, %x)", "<string>:10:29", None),
    ],
)
def test_operators_of_one_phase_tell_it(
    tmp_path: Path, op: str, source: str, phase: str | None
) -> None:
    tensor = "Float(4, 8, strides=[8, 1], requires_grad=0, device=cuda:0)"
    text = [
        "Optimized Graph: ",
        f"graph(%x : {tensor}):",
        f"  %a : {tensor}, %b : {tensor} = prim::CudaFusionGroup_0(%x)",
        "  return (%a, %b)",
        f"with prim::CudaFusionGroup_0 = graph(%x : {tensor}):",
        f"  %a : {tensor} = {op} # {source}",
        f"  %b : {tensor} = aten::add(%a, %x) # {source}",
        "  return (%a, %b)",
    ]
    log = tmp_path / "run.log"
    log.write_text(
        "".join(
            f"[DUMP profiling_graph_executor_impl.cpp:676] {line}\n"
            for line in text
        )
    )
    (group,) = report_from([str(log)]).groups
    assert group.phase == phase
