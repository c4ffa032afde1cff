"""The plans of a report as graphs, against torch's own print of them in the raw log."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
from conftest import FIXTURES
from made_log import large_log
from thorough import every

from fusiondoc.model.report import Evidence, Program, Report
from fusiondoc.parsers.rows import programs
from fusiondoc.workflows.load import report_from

LOGS = sorted((FIXTURES / "logs").glob("*.xz"))


def read(log: Path) -> Report:
    return report_from([str(log)])


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_nodes_stand_where_their_evidence_says(log: Path) -> None:
    lines = lzma.decompress(log.read_bytes()).decode("utf-8", "replace").split("\n")
    report = read(log)
    for program in report.programs:
        for node in program.nodes:
            line = lines[node.evidence[0].line - 1]
            assert f"= {node.op}" in line
            if (
                node.source is not None and "#" not in line
            ):  # as it was before the pass (test_lost_sources.py)
                own = [
                    one
                    for one in lines[: node.evidence[0].line]
                    if one.endswith(f"# {node.source}")
                ]
                assert any(f"= {node.op}(" in one for one in own)
            elif node.source is not None:
                assert node.source in line


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_programs_agree_with_groups_and_unfused_rows(log: Path) -> None:
    report = read(log)
    groups = {group.id: group for group in report.groups}
    rows = {
        (row.op, row.source, row.phase, row.reason.code) for row in report.unfused
    }
    shown = set()
    for program in report.programs:
        for a, b in program.edges:
            assert (
                0 <= a < len(program.nodes)
                and 0 <= b < len(program.nodes)
                and a != b
            )
        for node in program.nodes:
            if node.kind == "group":
                assert (
                    node.group is not None
                    and groups[node.group].phase == program.phase
                )
                shown.add(node.group)
            elif node.reason is not None:
                assert (node.op, node.source, program.phase, node.reason) in rows
    assert shown == set(groups) or not report.programs


def test_edges_are_the_values_that_torch_prints() -> None:
    """A plain search of the raw log: which operator takes the output of which."""
    log = FIXTURES / "logs" / "nvfuser-2.1.2-ordered-encoder-layer.log.xz"
    lines = lzma.decompress(log.read_bytes()).decode().split("\n")
    program = read(log).programs[1]
    linears = [
        i for i, node in enumerate(program.nodes) if node.op == "aten::linear"
    ]
    for i in linears:
        line = lines[program.nodes[i].evidence[0].line - 1]
        out, taken = re.search(
            r"%([\w.]+) : Tensor = aten::linear\(%([\w.]+),", line
        ).groups()  # type: ignore[union-attr]
        makers = [a for a, b in program.edges if b == i]
        takers = [b for a, b in program.edges if a == i]
        for j in takers:
            assert (
                f"%{out}"
                in lines[program.nodes[j].evidence[0].line - 1].split(" = ", 1)[1]
            )
        for j in makers:  # a group hands its value out of the guard's prim::If
            assert program.nodes[j].kind == "group"
        assert takers and (makers or taken == "y.1")


def test_a_region_names_the_plan_of_its_executor() -> None:
    report = read(FIXTURES / "logs" / "nvfuser-2.1.2-no-autodiff-optimized.log.xz")
    by_id = {program.id: program for program in report.programs}
    regions = [
        node
        for program in report.programs
        for node in program.nodes
        if node.kind == "region"
    ]
    assert regions
    for node in regions:
        inner = by_id[node.program or ""]
        assert inner.phase == "forward" and any(
            n.kind == "group" for n in inner.nodes
        )


def test_equal_plans_of_two_ranks_are_one_program(tmp_path: Path) -> None:
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
    report = read(log)
    assert len(report.groups) == 4 and len(report.programs) == 1
    assert report.programs[0].ranks == (0, 1)


def test_other_types_are_another_specialisation(tmp_path: Path) -> None:
    text = large_log(groups=2, loose=3)
    log = tmp_path / "shapes.log"
    log.write_text(text + text.replace("(64, 256", "(32, 256"))
    report = read(log)
    assert [program.specialisation for program in report.programs] == [1, 2]
    assert [program.nodes[1].kind for program in report.programs] == [
        report.programs[0].nodes[1].kind
    ] * 2
    assert {node.group for node in report.programs[1].nodes if node.group} == {
        "G3",
        "G4",
    }


def test_more_nodes_than_a_picture_holds_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_NODES", 50)
    text = large_log(groups=10, loose=30)
    log = tmp_path / "many.log"
    log.write_text(
        text
        + text.replace("(64, 256", "(32, 256")
        + large_log(groups=10, loose=90, source="b.py")
    )
    report = read(log)
    assert [len(program.nodes) for program in report.programs] == [40]
    assert report.programs_left_out == 2
    log.write_text(large_log(groups=10, loose=90))
    only = read(log).programs[0]
    assert (len(only.nodes), only.cut) == (50, 50)
    assert all(max(edge) < 50 for edge in only.edges)


def test_excerpts_of_interleaved_ranks(tmp_path: Path) -> None:
    """Lines of two ranks take turns: each graph is put together of its own."""
    one, two = (
        large_log(groups=1, loose=1, source=f"rank{rank}.py").split("\n")
        for rank in (0, 1)
    )
    mixed = [
        f"[rank{rank}]: {line}"
        for pair in zip(one, two)
        for rank, line in enumerate(pair)
        if line
    ]
    log = tmp_path / "ranks.log"
    log.write_text("\n".join(mixed) + "\n")
    report = read(log)
    starts = [group.evidence[0] for group in report.groups]
    assert report.texts is not None
    found = report.texts.log([], starts)
    for rank, start in enumerate(starts):
        body = found[start].split("\n")
        assert (
            body[0].startswith("with prim::CudaFusionGroup_0")
            and body[-1] == "  return (%a.5)"
        )
        assert len(body) == 9
        assert (
            f"rank{rank}.py" in found[start]
            and f"rank{1 - rank}.py" not in found[start]
        )


def test_excerpts_of_what_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(large_log(groups=1, loose=1))
    report = read(log)
    assert report.texts is not None
    places = [Evidence(str(log), 10_000), Evidence("other.log", 1)]
    assert report.texts.log(places, places) == {}
    log.unlink()
    assert report.texts.log([Evidence(str(log), 1)], []) == {}


def test_programs_of_one_log_have_different_names() -> None:
    seen: list[Program] = list(
        read(FIXTURES / "logs" / "nvfuser-2.1.2-two-ranks.log.xz").programs
    )
    assert [program.id for program in seen] == [
        f"P{n + 1}" for n in range(len(seen))
    ]
