"""Each node of a plan names its own row of the operators outside groups, also where
one line has several."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES
from made_log import large_log
from running import python_apart
from thorough import every

from fusiondoc.graph.neighbours import GroupNeighbours
from fusiondoc.model.report import Report
from fusiondoc.workflows.load import report_from

LIVE = Path(__file__).parent / "live" / "one_line_twice.py"
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))
PASSES = "profiling_graph_executor_impl:tensorexpr_fuser"
PLANS = "profiling_graph_executor_impl"


@pytest.fixture(scope="module", params=[PASSES, PLANS])
def one_line(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Report, list]:
    """The report of a line that runs twice, and what torch's graph API finds of its
    two operators."""
    pytest.importorskip("torch")
    done = python_apart(
        LIVE, env={**os.environ, "PYTORCH_JIT_LOG_LEVEL": request.param}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    log = tmp_path_factory.mktemp("one_line") / "run.log"
    log.write_text(done.stderr)
    return report_from([str(log)]), json.loads(done.stdout)


def test_nodes_of_one_line_with_different_reasons_have_rows_of_their_own(
    one_line: tuple[Report, list],
) -> None:
    report, of_torch = one_line
    (program,) = report.programs
    nodes = [
        index for index, node in enumerate(program.nodes) if node.op == "aten::tanh"
    ]
    rows = [report.unfused[program.nodes[index].rows[0]] for index in nodes]
    assert (
        len({row.source for row in rows}) == 1
        and len({row.reason.text for row in rows}) == 2
    )
    between = ["aten::mm", "aten::cumsum"]
    """What keeps each from the group, by the program."""
    for index, row, barrier, (maker, takers) in zip(
        nodes, rows, between, of_torch, strict=True
    ):
        assert [program.nodes[a].op for a, b in program.edges if b == index] == [
            maker
        ]
        assert [
            program.nodes[b].op for a, b in program.edges if a == index
        ] == takers
        assert barrier in (maker, *takers) and row.reason.text.startswith(barrier)


def test_a_row_counts_the_nodes_that_name_it(one_line: tuple[Report, list]) -> None:
    report, _ = one_line
    named = Counter(
        row
        for program in report.programs
        for node in program.nodes
        for row in node.rows
    )
    assert named == {row.index: row.count for row in report.unfused}


def test_evidence_of_a_row_is_of_its_own_nodes_alone(
    one_line: tuple[Report, list],
) -> None:
    """Prints of the pass and of the executor: the operators of a line stand in the
    same order in both."""
    report, _ = one_line
    one, other = (
        {place.line for place in row.evidence}
        for row in report.unfused
        if row.op == "aten::tanh"
    )
    assert one and len(one) == len(other) and one.isdisjoint(other)


def test_what_stands_between_groups_is_found_by_node(
    one_line: tuple[Report, list],
) -> None:
    """Two rows of one line: only the operator that is between two groups parts
    them."""
    report, _ = one_line
    (program,) = report.programs
    group = next(node for node in program.nodes if node.kind == "group")
    last = len(program.nodes) - 1
    nodes = list(program.nodes)
    nodes[last] = replace(group, group="G2")
    changed = replace(program, nodes=tuple(nodes))
    neighbours = GroupNeighbours(replace(report, programs=(changed,)))
    (second,) = [n.rows[0] for n in program.nodes if n.op == "aten::tanh"][1:]
    assert [
        row.index
        for row in neighbours.between("G1", "G2")
        if row.op == "aten::tanh"
    ] == [second]


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_rows_of_nodes_have_their_line_and_reason(log: Path) -> None:
    report = report_from([str(log)])
    assert [row.index for row in report.unfused] == list(range(len(report.unfused)))
    for program in report.programs:
        for node in program.nodes:
            assert bool(node.rows) == (node.reason is not None)
            for row in map(report.unfused.__getitem__, node.rows):
                assert (row.op, row.source, row.phase) == (
                    node.op,
                    node.source,
                    program.phase,
                )
                assert (row.reason.code, row.reason.text) == (
                    node.reason,
                    node.reason_text,
                )


def test_a_program_of_two_ranks_names_the_rows_of_both(tmp_path: Path) -> None:
    text = large_log(groups=2, loose=3)
    log = tmp_path / "ranks.log"
    log.write_text(
        "".join(
            f"[rank{rank}]: {line}\n"
            for rank in (0, 1)
            for line in text.split("\n")
            if line
        )
    )
    report = report_from([str(log)])
    (program,) = report.programs
    assert program.ranks == (0, 1)
    loose = [node for node in program.nodes if node.rows]
    assert len(loose) == 3
    for node in loose:
        assert [report.unfused[row].rank for row in node.rows] == [0, 1]
        assert {report.unfused[row].source for row in node.rows} == {node.source}
