"""Work grows with the size of a log: lines that are run are counted, not seconds,
for each input of ``benchmarks/scaling_inputs.py`` at one size and at twice that
size."""

from __future__ import annotations

import gc
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES, ROOT
from thorough import every
from work_done import MOST_GROWTH, lines_run

from fusiondoc import alignment
from fusiondoc.cli.output import joined, write_parts
from fusiondoc.comparison import group_match
from fusiondoc.comparison.compare_reports import compare
from fusiondoc.diagnosis import kept_out, operator_in_plan
from fusiondoc.diagnosis.reasons import Reasons
from fusiondoc.graph import DependencyGraph
from fusiondoc.model.report import Evidence, Fallback, Group, Report
from fusiondoc.parsers.jit import hubs, statements
from fusiondoc.parsers.kernels import kept_texts
from fusiondoc.parsers.lines.log_files import LogInput
from fusiondoc.parsers.read import Reading
from fusiondoc.parsers.rows import (
    bounded_report,
    finished_groups,
    kernel_rows,
    programs,
    runtimes,
    tallies,
)
from fusiondoc.reports import render_comparison
from fusiondoc.reports.html import render as render_page
from fusiondoc.reports.json_format import render
from fusiondoc.workflows.load import report_from

sys.path.insert(0, str(ROOT / "benchmarks"))
from scaling_inputs import (
    CASES,
    Case,
    big_graph,
    caches,
    equal_caches,
    long_line,
    long_string,
    model_of_groups,
    nnc_rejections,
    readers_of_a_list,
    readers_of_a_value,
    rejections,
    views,
)


def steps_of(case: Case, size: int, folder: Path) -> int:
    """Lines of fusiondoc that are run, loops counted each time round, for a report
    or a comparison as JSON."""
    log, other = folder / "one.log", folder / "other.log"
    text = "".join(case.make(size))
    log.write_text(text)
    other.write_text(re.sub(r"model\.py:(\d*[02468]):", r"model.py:1\1:", text))

    def work() -> None:
        report = report_from([str(log)])
        render(
            compare(report, report_from([str(other)])) if case.compare else report
        )

    return lines_run(work)


def bounds_of_a_small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What bounds the work is reached by it: below, all pairs may be looked at."""
    monkeypatch.setattr(kernel_rows, "MOST_PAIRS", 100)
    monkeypatch.setattr(runtimes, "MOST_OF_GRAPH", 100)
    monkeypatch.setattr(programs, "MOST_EDGES", 1_000)
    for limit, most in (
        ("MOST_STEPS", 1_000),
        ("STEPS_OF_NODE", 16),
        ("FEWEST", 8),
        ("MOST_IN_LISTS", 500),
    ):
        monkeypatch.setattr(hubs, limit, most)
    monkeypatch.setattr(DependencyGraph, "most_passed", 8)
    monkeypatch.setattr(kept_out, "_MOST_BETWEEN", 8)
    monkeypatch.setattr(operator_in_plan, "MOST_BEHIND", 20)
    monkeypatch.setattr(alignment, "_MOST_CELLS", 400)
    monkeypatch.setattr(alignment, "_FEW_CELLS", 100)
    monkeypatch.setattr(group_match, "_MOST_CANDIDATES", 50)


@pytest.mark.parametrize(
    "case",
    every(4, CASES),
    ids=lambda case: f"{case.name}{'-compared' * case.compare}",
)
def test_twice_the_size_is_twice_the_work(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_of_a_small_log(monkeypatch)
    steps_of(case, 2, tmp_path)  # what is imported and cached at first
    one, two = (
        steps_of(case, case.small, tmp_path),
        steps_of(case, 2 * case.small, tmp_path),
    )
    assert one < two or case.make in (long_string,)
    assert two < MOST_GROWTH * one


@pytest.mark.parametrize("most", [20_000, 100])
def test_edges_through_a_list_are_drawn_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Also where the rules for reasons look at a few of them."""
    (tmp_path / "one.log").write_text("".join(readers_of_a_list(30)))
    bounds_of_a_small_log(monkeypatch)
    monkeypatch.setattr(programs, "MOST_EDGES", most)
    (program,) = report_from([str(tmp_path / "one.log")]).programs
    made = {(0, maker) for maker in range(1, 31)}
    read = {(maker, taker) for maker in range(1, 31) for taker in range(31, 61)}
    assert list(program.edges) == sorted(made | read)[:most]
    assert program.edges_left_out == max(0, 930 - most)


def test_a_second_way_is_found_at_any_distance(tmp_path: Path) -> None:
    """``sigmoid`` is read by ``tanh`` and by operators that are not fused and lead
    to the last one."""
    lines = list(readers_of_a_value(40))
    first = "%y39 : Float(64, 1024, strides=[1024, 1], requires_grad=0, device=cuda:0) = aten::erfinv(%x)"
    assert first in lines[-1]
    for reads, leads in (("%y37", True), ("%x", False)):
        text = "".join(lines).replace(
            first, first.replace("aten::erfinv(%x)", f"aten::mul(%x, {reads})")
        )
        (tmp_path / "one.log").write_text(text)
        report = report_from([str(tmp_path / "one.log")])
        (last,) = (row for row in report.unfused if row.op == "aten::mul")
        assert (
            "aten::erfinv (model.py:39:129) takes the result of aten::sigmoid"
            in last.reason.text
        ) is leads


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("most", [8, 200])
def test_a_reason_of_a_part_of_the_neighbours_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, recorded: bool
) -> None:
    """``sigmoid`` could be fused with the last of its 40 readers."""
    text = "".join(readers_of_a_value(40, recorded)).replace(
        "aten::tanh", "aten::erfinv"
    )
    last = text.rindex("aten::erfinv")
    (tmp_path / "one.log").write_text(
        text[:last] + "aten::tanh" + text[last + len("aten::erfinv") :]
    )
    bounds_of_a_small_log(monkeypatch)
    monkeypatch.setattr(hubs, "FEWEST", most)
    report = report_from([str(tmp_path / "one.log")])
    (first,) = (row for row in report.unfused if row.op == "aten::sigmoid")
    assert ("only the first were examined" in first.reason.text) is (most == 8)
    said = [one.message for one in report.findings if one.code == "FD912"]
    assert [one.partition(" so many")[0] for one in said] == [
        "1 node of plans has"
    ] * (most == 8)


def test_views_beyond_the_most_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_of_a_small_log(monkeypatch)
    told = []
    for size in (5, 20):
        text = "".join(views(size)).replace(
            "aten::permute(%v0, %v0)", "aten::relu(%v0)", 1
        )
        (tmp_path / "one.log").write_text(text)
        report = report_from([str(tmp_path / "one.log")])
        (row,) = (row for row in report.unfused if row.op == "aten::relu")
        told.append(
            (row.reason.code, "only the first were examined" in row.reason.text)
        )
    assert told == [("FD227", False), ("FD225", True)]


def test_the_page_of_a_comparison_asks_each_group_for_its_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which nodes it marks was asked of each pair of groups."""
    operators = Group.ops.fget
    asked = 0

    def ops(group: Group) -> tuple[str, ...]:
        nonlocal asked
        asked += 1
        return operators(group)

    def times(size: int) -> int:
        nonlocal asked
        log, other = tmp_path / "one.log", tmp_path / "other.log"
        log.write_text("".join(model_of_groups(size)))
        other.write_text(log.read_text().replace("aten::tanh", "aten::exp"))
        compared = compare(report_from([str(log)]), report_from([str(other)]))
        asked = 0
        render_comparison(compared, "html")
        return asked

    monkeypatch.setattr(Group, "ops", property(ops))
    few, more = times(10), times(20)
    assert few < more < MOST_GROWTH * few


@pytest.mark.parametrize(
    "name",
    every(
        3,
        ["nvfuser-2.1.2-control-flow", "nnc-2.11-rejects", "nvfuser-1.12.1-crash"],
    ),
)
def test_what_is_read_is_forgotten_without_a_collector(name: str) -> None:
    """It is off while logs are read (``read.py``): objects that hold themselves
    would stay to the end."""
    log = FIXTURES / "logs" / f"{name}.log.xz"
    report_from([str(log)])  # what is imported and cached at first
    gc.collect()
    gc.disable()
    try:
        reading = Reading()
        reading.take(LogInput(name, log))
        reading.close()
        reading.report([name], None, Reasons())
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kept = {
            type(one).__module__ + "." + type(one).__qualname__
            for one in gc.garbage
        }
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not {one for one in kept if one.startswith("fusiondoc.")}


def report_within(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, rows: int, nodes: int
) -> Report:
    """The report of a log where a report holds so many rows, and so many nodes have
    a statement each."""
    (folder / "one.log").write_text(text)
    monkeypatch.setattr(tallies, "MOST_ROWS", rows)
    monkeypatch.setattr(statements, "MOST_NODES", nodes)
    return report_from([str(folder / "one.log")])


def sums(report: Report) -> dict[tuple[object, ...], int]:
    """How many operators outside groups there are of each kind, with each
    reason."""
    found: dict[tuple[object, ...], int] = {}
    for row in report.unfused:
        key = (row.op, row.phase, row.ran, row.reason.code, row.reason.stated)
        found[key] = found.get(key, 0) + row.count
    return found


def twice(lines: list[str]) -> str:
    """A plan as a fusion pass leaves it, and as its executor prints it."""
    text = "".join(lines)
    again = text.replace(
        "graph_fuser.cpp:2503", "profiling_graph_executor_impl.cpp:597"
    )
    return text + again.replace("Before Compilation:", "Optimized Graph:")


@pytest.mark.parametrize(
    "case", ["rejected", "refused by NNC", "plan", "rejected twice, then planned"]
)
def test_rows_beyond_the_most_are_counted_together(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = {
        "rejected": "".join(rejections(50)),
        "refused by NNC": "".join(nnc_rejections(50)),
        "plan": twice(list(big_graph(100))),
        # Each node of the plan was said to be refused, beyond the most too.
        "rejected twice, then planned": "".join(rejections(50)) * 2
        + twice(list(big_graph(100))),
    }[case]
    whole = report_within(text, tmp_path, monkeypatch, 20_000, 20_000)
    assert (len(whole.unfused), whole.unfused_left_out) == (50, 0)
    report = report_within(text, tmp_path, monkeypatch, 20, 15)
    placed = [row for row in report.unfused if row.source is not None]
    assert len(placed) in (15, 20)
    assert len(placed) + report.unfused_left_out == 50
    assert len(report.unfused) == len(placed) + 1
    assert sums(report) == sums(whole)
    assert report.coverage == whole.coverage
    together = report.unfused[-1]
    assert (together.source, together.count) == (None, report.unfused_left_out)
    (said,) = [one.message for one in report.findings if one.code == "FD912"]
    assert (
        said.startswith(f"{len(placed)} rows")
        and f"{report.unfused_left_out} more rows" in said
    )
    if "planned" not in case:  # there a further node has a line of the plan
        lines = {line for row in whole.unfused for line in row.evidence}
        assert lines == {line for row in report.unfused for line in row.evidence}


def kernels(ranks: int) -> str:
    """Ten kernels of each rank with sources of 200 bytes, each of them printed
    twice."""
    lines = [
        f"{prefix}======= Codegen output for kernel: kernel{number} =======\n{prefix}{'x' * 198}{number}\n"
        f"{prefix}======================================\n"
        for number in range(10)
        for prefix in (
            (f"[rank{rank}]: " for rank in range(ranks)) if ranks > 1 else ("",)
        )
    ]
    return "".join(lines * 2)


@pytest.mark.parametrize("ranks", [1, 2])
def test_texts_of_kernels_beyond_the_most_are_counted(
    ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.log").write_text(kernels(ranks))
    monkeypatch.setattr(kept_texts, "BUDGET", 1_500)
    report = report_from([str(tmp_path / "one.log")])
    assert [kernel.code is not None for kernel in report.kernels] == (
        [True] * 7 + [False] * 3
    ) * ranks
    assert {kernel.compiles for kernel in report.kernels} == {2}
    assert report.kernel_texts_left_out == 3
    (said,) = [one.message for one in report.findings if one.code == "FD912"]
    assert said.startswith("3 sources and dumps of kernels are left out")


def test_many_ranks_share_the_rows() -> None:
    assert [tallies.most_of_each(ranks) for ranks in (1, 2, 8, 512)] == [
        20_000,
        10_000,
        5_000,
        5_000,
    ]


@pytest.mark.parametrize("kind", ["operator", "group"])
def test_values_of_a_node_beyond_the_most_are_counted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(long_line(1))  # 166 outputs, and as many inputs
    if kind == "group":
        prefix = text.split("graph(")[0].rsplit("\n", 1)[-1]
        values = ", ".join(
            f"%p{number} : Float(4, device=cuda:0)" for number in range(166)
        )
        head = f"with prim::CudaFusionGroup_0 = graph({values}):"
        text = text.replace("aten::chunk(", "prim::CudaFusionGroup_0(")
        text += "".join(
            f"{prefix}{line}\n"
            for line in (head, "  %q : Tensor = aten::relu(%p0)", "  return (%q)")
        )
    (tmp_path / "one.log").write_text(text)
    monkeypatch.setattr(finished_groups, "MOST_VALUES", 100)
    monkeypatch.setattr(programs, "MOST_VALUES", 100)
    report = report_from([str(tmp_path / "one.log")])
    if kind == "group":
        (group,) = report.groups
        assert (len(group.inputs), group.values_left_out) == (100, 66)
        assert group.bytes_in == 166 * 16
        return
    (program,) = report.programs
    assert [len(node.outputs) for node in program.nodes] == [100, 1]
    assert [len(node.inputs) for node in program.nodes] == [100, 1]
    assert program.values_left_out == 132


def test_groups_and_kernels_beyond_the_most_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.log").write_text("".join(caches(10)))
    whole = report_from([str(tmp_path / "one.log")])
    monkeypatch.setattr(tallies, "MOST_ROWS", 4)
    report = report_from([str(tmp_path / "one.log")])
    assert (len(whole.groups), len(whole.kernels)) == (10, 10)
    assert [group.id for group in report.groups] == [
        f"G{number}" for number in range(1, 5)
    ]
    assert [kernel.id for kernel in report.kernels] == [
        f"K{number}" for number in range(1, 5)
    ]
    assert (
        report.groups_left_out,
        report.kernels_left_out,
        report.fusion_groups_left_out,
    ) == (6, 6, 6)
    assert (report.fusion_groups, report.fused_operators) == (
        whole.fusion_groups,
        whole.fused_operators,
    )
    assert report.coverage == whole.coverage
    listed = {group.id for group in report.groups}
    assert {name for kernel in report.kernels for name in kernel.groups} <= listed
    assert {
        node.group for program in report.programs for node in program.nodes
    } <= {*listed, None}
    said, plans = (one.message for one in report.findings if one.code == "FD912")
    assert said.startswith("6 rows of groups (6 groups) and 6 kernels are left out")
    assert plans == "1 plan is not drawn: changes are worked out from the others"
    render(report)
    render_page(report)


def test_instances_operators_and_edges_beyond_the_most_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_row = re.sub(r"model\.py:\d+:", "model.py:1:", "".join(caches(10)))
    (tmp_path / "one.log").write_text(one_row)
    whole = report_from([str(tmp_path / "one.log")])
    assert not [one for one in whole.findings if one.code == "FD912"]
    for limit, most in (("MOST_INSTANCES", 7), ("MOST_OPERATORS", 1)):
        monkeypatch.setattr(finished_groups, limit, most)
    monkeypatch.setattr(programs, "MOST_EDGES", 4)
    report = report_from([str(tmp_path / "one.log")])
    (group,), (all_of_it,) = report.groups, whole.groups
    assert (len(group.instances), group.instances_left_out, group.count) == (
        7,
        3,
        10,
    )
    assert (len(group.nodes), group.nodes_left_out, group.operators) == (1, 1, 20)
    assert (
        group.nodes == all_of_it.nodes[:1]
        and group.instances == all_of_it.instances[:7]
    )
    assert (report.fusion_groups, report.coverage) == (
        whole.fusion_groups,
        whole.coverage,
    )
    (program,), (drawn,) = report.programs, whole.programs
    assert (len(drawn.edges), drawn.edges_left_out) == (9, 0)
    assert (program.edges, program.edges_left_out) == (drawn.edges[:4], 5)
    (said,) = [one.message for one in report.findings if one.code == "FD912"]
    assert said.startswith(
        "3 instances of groups and 1 operator of groups and 5 edges of plans are left out"
    )
    assert '"instances_left_out": 3' in render(report)


def fallback(stage: str, group: str | None, lines: int) -> Fallback:
    evidence = tuple(Evidence("one.log", line) for line in range(lines))
    return Fallback(stage, group, 2, True, "an error", evidence)


def test_what_names_a_group_that_is_left_out_does_not_name_it_any_more(
    tmp_path: Path,
) -> None:
    (tmp_path / "one.log").write_text("".join(equal_caches(3)))
    report = report_from([str(tmp_path / "one.log")])
    rows = [
        fallback("run", "G1", 1),
        fallback("run", "G2", 150),
        fallback("run", "G3", 150),
    ]
    cut = bounded_report.bounded(replace(report, fallbacks=tuple(rows)), 1)
    assert [
        len(kernel.groups) + kernel.groups_left_out for kernel in cut.kernels
    ] == [3]
    assert [
        len(group.kernels) + group.kernels_left_out for group in cut.groups
    ] == [3]
    assert [instance.kernels for instance in cut.groups[0].instances] == [("K1",)]
    assert cut.programs == () and cut.programs_left_out == 1
    first, others = cut.fallbacks
    assert (first, others.group, others.count) == (rows[0], None, 4)
    assert (len(others.evidence), others.evidence_left_out) == (200, 100)
    assert bounded_report.bounded(report, 3) is report


def test_large_parts_of_a_text_are_written_one_by_one(tmp_path: Path) -> None:
    """A thousand kernels with a quarter of a megabyte each were one text first."""
    written: list[int] = []
    parts = [*["x" * 300_000] * 3, *["y" * 1_000] * 10]
    for part in joined(parts):
        written.append(len(part))
    assert written == [300_000, 300_000, 300_000, 10_000]
    write_parts(parts, tmp_path / "all")
    assert (tmp_path / "all").read_text() == "".join(parts)


def test_most_launches_outside_groups_are_not_nothing_to_do(tmp_path: Path) -> None:
    """Four operators without a rule for each group: all that nvFuser takes is
    fused, and yet most is not."""
    log = tmp_path / "one.log"
    log.write_text("".join(model_of_groups(5)))
    report = report_from([str(log)])
    assert (
        report.coverage.fraction == 1.0
        and report.plan_title == "Not known without trying"
    )
    assert "(aten::erfinv x20), each a launch of its own" in (
        report.plan_note or ""
    )
    log.write_text(re.sub(r".*aten::erfinv.*\n", "", log.read_text()))
    assert report_from([str(log)]).plan_title == "Nothing to do"
