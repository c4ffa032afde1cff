"""What never ran, and the share that is fused: on logs of models that nobody here
wrote."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, Run

from fusiondoc.comparison.compare_reports import compare
from fusiondoc.expectations.match import check
from fusiondoc.expectations.read_file import loads
from fusiondoc.fusers import FUSERS, is_fusible
from fusiondoc.model.report import Report
from fusiondoc.operators import VIEWS
from fusiondoc.reports import code_annotations, markdown
from fusiondoc.reports.html import render as html
from fusiondoc.views import comparison_words as words
from fusiondoc.views.formatting import groups_of
from fusiondoc.workflows.load import report_from

FOREIGN = FIXTURES / "foreign"
VIT = FOREIGN / "vit.script.eval.nvfuser.log.xz"
RESNET_NNC = FOREIGN / "resnet18.script.eval.nnc.log.xz"
TRAINED = sorted(FOREIGN.glob("*.train.nvfuser.log.xz"))
OF_EXECUTOR = b"profiling_graph_executor_impl.cpp"


def report_of(path: Path) -> Report:
    return report_from([str(path)])


def text_of(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes())


@pytest.fixture(scope="module")
def vit() -> Report:
    return report_of(VIT)


@pytest.fixture(scope="module")
def inner(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The training logs as ``PYTORCH_JIT_LOG_LEVEL`` without
    profiling_graph_executor_impl makes them."""
    folder = tmp_path_factory.mktemp("inner")
    made = {}
    for path in TRAINED:
        lines = text_of(path).split(b"\n")
        made[path.name] = folder / path.name[: -len(".xz")]
        made[path.name].write_bytes(
            b"\n".join(line for line in lines if OF_EXECUTOR not in line)
        )
    return made


def never_profiled(graph: bytes) -> Counter[str]:
    """Operators with a source all of whose profiled inputs saw nothing, by a plain
    search of the graph."""
    saw = {
        out: kind != b"Tensor" or none != b"0"
        for out, kind, none in re.findall(
            rb"(%[\w.]+) : Tensor\??  ?= prim::profile\[profiled_type=(\w+).*?, seen_none=(\d+)\]",
            graph,
        )
    }
    found: Counter[str] = Counter()
    for op, inputs in re.findall(rb" = (aten::\w+)\(([^\n]*)\) # ", graph):
        seen = [
            saw[name] for name in re.findall(rb"%[\w.]+", inputs) if name in saw
        ]
        if seen and not any(seen):
            found[op.decode()] += 1
    return found


def test_what_no_pass_profiled_never_ran(vit: Report) -> None:
    """The slow path of MultiheadAttention, in a run that took the fast path."""
    rows = {row.ran: row for row in vit.unfused}
    assert set(rows) == {True, False}
    idle: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for row in vit.unfused:
        (ran if row.ran else idle)[row.op] += row.count
        assert (row.ran is False) == (row.reason.code == "FD232")
    expected = never_profiled(text_of(VIT))
    for op in ("aten::linear", "aten::scaled_dot_product_attention"):
        assert idle[op] == expected[op] > 0, op
    assert (
        ran["aten::_native_multi_head_attention"] == 3
        and not idle["aten::_native_multi_head_attention"]
    )
    # Seven linear layers run: two of each encoder block and the head.
    assert ran["aten::linear"] == 7
    assert sum(idle.values()) > 300 and sum(ran.values()) < 20


def test_what_never_ran_is_advised_nothing(vit: Report) -> None:
    rows = {
        (row.op, row.user_source, row.reason.code) for row in vit.unfused if row.ran
    }
    # FD236 is of the run: what nobody can change, in one line.
    about = [
        f for f in vit.findings if f.code.startswith("FD2") and f.code != "FD236"
    ]
    assert about and not [f for f in about if f.code in ("FD230", "FD232")]
    for one in about:
        assert (one.message.split(" ", 1)[0], one.source, one.code) in rows


def test_nnc_shows_it_by_the_types_that_are_left() -> None:
    """``num_batches_tracked`` of batch norm in eval mode: its branch reads nothing
    that is profiled, but its condition is that of another branch which never
    ran."""
    report = report_of(RESNET_NNC)
    idle = [row for row in report.unfused if row.ran is False]
    assert [(row.op, row.count, row.reason.code) for row in idle] == [
        ("aten::add_", 20, "FD232")
    ]
    assert {row.ran for row in report.unfused} == {True, False}
    assert any(
        row.op == "aten::relu_" and row.reason.code == "FD230"
        for row in report.unfused
    )


def test_code_in_a_branch_of_an_outer_plan_is_not_known_to_run() -> None:
    """The plan around differentiable graphs has no profiled types; what is in no
    branch ran."""
    report = report_of(FOREIGN / "convnext.script.train.nvfuser.log.xz")
    assert {row.op for row in report.unfused if row.ran is None} >= {
        "aten::div_",
        "aten::bernoulli_",
    }
    assert all(
        row.ran
        for row in report.unfused
        if row.op in ("aten::conv2d", "aten::linear")
    )


def test_it_is_one_line_of_every_format(vit: Report, fusiondoc: Run) -> None:
    number = sum(row.count for row in vit.unfused if row.ran is False)
    line = f"{number} operators that never ran"
    text = fusiondoc("parse", VIT).stdout
    assert text.count("never ran") == 1 and line in text and "FD232" not in text
    assert (
        "17 not fused (100% of what nvFuser can fuse, 75% of what any fuser can)"
        in " ".join(text.split())
    )
    assert markdown.render(vit).count(
        line
    ) == 1 and "scaled_dot_product" not in markdown.render(vit)
    page = html(vit)
    assert page.count(line) == 1
    assert "17 operators outside" in code_annotations.github_summary(vit)
    found = json.loads(fusiondoc("parse", VIT, "--format", "sarif").stdout)["runs"][
        0
    ]["results"]
    assert "FD232" not in {one["ruleId"] for one in found}


def test_a_row_that_runs_now_is_not_newly_unfused(vit: Report) -> None:
    other = replace(
        vit, unfused=tuple(replace(row, ran=True) for row in vit.unfused)
    )
    assert not compare(vit, other).unfused and not compare(other, vit).unfused
    without = replace(vit, unfused=tuple(row for row in vit.unfused if row.ran))
    assert not compare(without, vit).unfused and not compare(vit, without).unfused


@pytest.mark.parametrize(
    "path", sorted(FOREIGN.glob("*.log.xz")), ids=lambda path: path.name
)
def test_coverage_is_that_of_the_fuser_that_ran(path: Path) -> None:
    report = report_of(path)
    cover = report.coverage
    counted: Counter[bool] = Counter()
    for row in report.unfused:
        if (
            row.ran is not False
            and row.reason.code != "FD304"
            and is_fusible(row.op)
        ):
            counted[
                row.op
                in FUSERS[str(report.fuser.effective)].operators.takes - VIEWS
            ] += row.count
    assert cover.ops_fused == report.fused_operators
    assert cover.ops_total == cover.ops_fused + counted[True]
    assert cover.any_fuser.ops_total == cover.ops_total + counted[False]
    assert (
        cover.fraction == cover.ops_fused / cover.ops_total
        and cover.unknown is None
    )
    assert (
        cover.any_fuser.fraction is not None
        and cover.any_fuser.fraction <= cover.fraction
    )


@pytest.mark.parametrize("name", [path.name for path in TRAINED])
def test_inner_plans_alone_tell_no_coverage(
    name: str, inner: dict[str, Path]
) -> None:
    """What is in no differentiable graph, as a convolution, is in no pass."""
    whole, part = report_of(FOREIGN / name), report_of(inner[name])
    assert part.groups and part.coverage.ops_fused == whole.coverage.ops_fused
    assert (part.coverage.fraction, part.coverage.ops_total) == (None, None)
    assert part.coverage.any_fuser.fraction is None
    assert "differentiable graphs" in str(part.coverage.unknown)
    (told,) = (f for f in part.findings if f.code == "FD906")
    assert (
        "profiling_graph_executor_impl" in told.message
        and "Optimized Graph:" in told.message
    )


def test_forward_passes_alone_tell_it_too(
    inner: dict[str, Path], tmp_path: Path
) -> None:
    """No backward pass is in the log: the forward plan of a differentiable graph
    returns several values."""
    log = inner["mobilenet_v3.trace.train.nvfuser.log.xz"].read_bytes()
    first = log.index(b"[DUMP graph_fuser.cpp", log.index(b"Before Compilation"))
    (tmp_path / "a.log").write_bytes(log[: log.index(b"Before Fusion", first)])
    report = report_of(tmp_path / "a.log")
    assert "backward" not in {group.phase for group in report.groups}
    assert "differentiable graphs" in str(report.coverage.unknown)


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(FOREIGN.glob("*.eval.nvfuser.log.xz")) if p != VIT],
    ids=lambda path: path.name,
)
def test_the_pass_alone_tells_all_of_an_inference(
    path: Path, tmp_path: Path
) -> None:
    lines = text_of(path).split(b"\n")
    (tmp_path / "a.log").write_bytes(
        b"\n".join(line for line in lines if OF_EXECUTOR not in line)
    )
    assert report_of(tmp_path / "a.log").coverage == report_of(path).coverage


def test_compare_says_what_cannot_be_told(inner: dict[str, Path]) -> None:
    name = "mobilenet_v3.trace.train.nvfuser.log.xz"
    part, whole = report_of(inner[name]), report_of(FOREIGN / name)
    for comparison in (compare(part, whole), compare(whole, part)):
        assert (
            not comparison.unfused
            and not comparison.groups
            and not comparison.coverage_changed
        )
        assert not [
            row for row in comparison.findings if row.finding.code.startswith("FD2")
        ]
        assert any(
            "outside its groups were fused in" in note and "is unknown" in note
            for note in comparison.notes
        )
        assert "share unknown" in words.coverage(comparison.a) + words.coverage(
            comparison.b
        )


SIZES = b"""\
[DUMP profiling_graph_executor_impl.cpp:676] Optimized Graph:\x20
[DUMP profiling_graph_executor_impl.cpp:676] graph(%x.1 : Tensor):
[DUMP profiling_graph_executor_impl.cpp:676]   %1 : int = prim::Constant[value=0]()
[DUMP profiling_graph_executor_impl.cpp:676]   %2 : Tensor = prim::Constant[value={8}]() # m.py:1:0
[DUMP profiling_graph_executor_impl.cpp:676]   %3 : int = aten::size(%x.1, %1) # m.py:1:0
[DUMP profiling_graph_executor_impl.cpp:676]   %h : Tensor = prim::NumToTensor(%3)
[DUMP profiling_graph_executor_impl.cpp:676]   %n : Tensor = aten::floor_divide(%h, %2) # m.py:1:0
[DUMP profiling_graph_executor_impl.cpp:676]   %m : Tensor = aten::mul(%n, %n) # m.py:2:0
[DUMP profiling_graph_executor_impl.cpp:676]   %4 : int = aten::Int(%m)
[DUMP profiling_graph_executor_impl.cpp:676]   %5 : int[] = prim::ListConstruct(%4, %1)
[DUMP profiling_graph_executor_impl.cpp:676]   %y : Tensor = aten::reshape(%x.1, %5) # m.py:3:0
[DUMP profiling_graph_executor_impl.cpp:676]   %s : Tensor = aten::mul(%2, %2) # m.py:4:0
[DUMP profiling_graph_executor_impl.cpp:676]   %z : Tensor = aten::mul(%y, %s) # m.py:5:0
[DUMP profiling_graph_executor_impl.cpp:676]   return (%z)
"""


def test_sizes_that_a_trace_computes_are_no_operators(tmp_path: Path) -> None:
    """The executor's plan has no types: there a constant of one number beside a
    size is one for the host. Without a size it may be on the GPU."""
    (tmp_path / "a.log").write_bytes(SIZES)
    rows = report_of(tmp_path / "a.log").unfused
    assert [(row.op, str(row.source)[:6]) for row in rows] == [
        ("aten::reshape", "m.py:3"), ("aten::mul", "m.py:4"), ("aten::mul", "m.py:5"),
    ]  # fmt: skip


def test_the_fuser_is_that_of_the_groups_where_another_one_looked_too(
    tmp_path: Path,
) -> None:
    """torch 2.1.2 with both on: nvFuser's pass goes on with what NNC left, and
    finds nothing."""
    log = text_of(FIXTURES / "logs" / "nnc-2.11-add-relu.log.xz")
    head = re.search(
        rb"(?m)^\[DUMP tensorexpr_fuser\.cpp:\d+\] After TExprFuser: \n", log
    )
    assert head is not None
    mark = head.group().split(b"]")[0] + b"]"
    graph = []
    for line in log[head.end() :].split(b"\n"):
        if not line.startswith(mark):
            break
        graph.append(line[len(mark) :])
    again = [
        b"[DUMP graph_fuser.cpp:%d]%s" % (number, line)
        for number, name in (
            (2419, b" Before Fusion: "),
            (2503, b" Before Compilation: "),
        )
        for line in (name, *graph)
    ]
    both = log[: head.end()] + b"\n".join(
        [*(mark + line for line in graph), *again, b""]
    )
    (tmp_path / "a.log").write_bytes(both)
    (tmp_path / "b.log").write_bytes(log)
    one, other = report_of(tmp_path / "a.log"), report_of(tmp_path / "b.log")
    assert one.fuser.effective == "nnc" and one.fuser.why is None
    assert (
        one.coverage == other.coverage
        and one.fusion_groups == other.fusion_groups == 1
    )
    # Without a group the passes name it.
    (tmp_path / "c.log").write_bytes(
        b"\n".join(again).replace(b"TensorExprGroup", b"Other")
    )
    named = report_of(tmp_path / "c.log").fuser
    assert (named.effective, named.why) == ("nvfuser", "1 pass, no group")


def test_check_says_why_a_coverage_is_unknown(inner: dict[str, Path]) -> None:
    report = report_of(inner["blocks1.script.train.nvfuser.log.xz"])
    (one,) = check(
        loads("min_coverage: 10%\n", "expected.yaml").sections[0], report
    )
    assert not one.holds and one.found.startswith(
        "unknown: the log has only plans inside differentiable"
    )


def test_arithmetic_with_sizes_is_none_where_the_executors_print_has_lost_its_types() -> (
    None
):
    """The scale of an attention that was traced in training: what the pass left
    tells that it is a number of the host, the optimised graph of the same executor
    does not (fixtures/logs/scaled_sizes.py)."""
    report = report_from(
        [str(FIXTURES / "logs" / "nnc-1.12.1-scaled-sizes.log.xz")]
    )
    assert report.groups
    assert not {"aten::pow", "aten::div"} & {row.op for row in report.unfused}


def test_the_job_summary_counts_as_the_terminal_does() -> None:
    """Further specialisations of a group are no groups more."""
    report = report_from([str(FOREIGN / "shapes.script.train.nvfuser.log.xz")])
    said = code_annotations.github_summary(report).splitlines()[2]
    assert groups_of(report) in said and said.startswith(
        f"{report.fused_operators} operators in "
    )
    assert "in further specialisations" in said
