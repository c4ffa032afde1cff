"""Where a tensor goes through memory, against torch's own graphs and by the meaning
of programs."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import FIXTURES
from running import python_apart
from thorough import every

import fusiondoc
from fusiondoc.graph.shared_tensors import boundaries_of
from fusiondoc.model.boundaries import Boundary, BoundaryEnd
from fusiondoc.model.report import Report
from fusiondoc.reports.json_format import read_report

LIVE = Path(__file__).parent / "live" / "shared_tensors.py"
LOGS = sorted((FIXTURES / "logs").glob("*.xz"))


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Report, list]]:
    """Program -> its report, and which operators take whose results by torch's
    graph API, without a fuser."""
    pytest.importorskip("torch")
    levels = "profiling_graph_executor_impl:tensorexpr_fuser"
    done = python_apart(LIVE, env={**os.environ, "PYTORCH_JIT_LOG_LEVEL": levels})
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for name, part in zip(
        json.loads(done.stdout).items(), done.stderr.split("== ")[1:], strict=True
    ):
        log = tmp_path_factory.mktemp("boundaries") / "run.log"
        log.write_text(part.partition("\n")[2])
        found[name[0]] = (fusiondoc.parse(str(log)), name[1])
    return found


def names(report: Report, kind: str) -> list[tuple[str, str, int | None]]:
    return [(_name(one.producer), _name(one.consumer), one.bytes)
            for one in report.boundaries if one.kind == kind]  # fmt: skip


def _name(end: BoundaryEnd) -> str:
    return end.group or end.op


def test_without_a_fuser_every_value_between_operators_is_a_boundary(
    runs: dict,
) -> None:
    report, of_torch = runs["unfused"]
    found: Counter = Counter()
    for one in report.boundaries:
        if one.kind == "written and read":
            found[one.producer.op, one.consumer.op, one.bytes] += one.count
    assert found == Counter(map(tuple, of_torch))


def test_two_groups_around_an_operator(runs: dict) -> None:
    """(x * y).relu() is taken by cumsum and by what takes cumsum's result too."""
    report, _ = runs["around"]
    assert sorted(names(report, "written and read")) == [
        ("G1", "G2", 128), ("G1", "aten::cumsum", 128), ("aten::cumsum", "G2", 128),
    ]  # fmt: skip
    assert names(report, "read twice") == [("aten::cumsum", "G2", 128)]
    (both,) = [
        one
        for one in report.boundaries
        if one.producer.group and one.consumer.group
    ]
    assert [end.op for end in both.between] == ["aten::cumsum"]
    assert {one.cause.code for one in report.boundaries if one.cause} == {"FD233"}


def test_a_tensor_goes_through_views(runs: dict) -> None:
    """A group, a transposition that NNC takes into no group, a product."""
    report, _ = runs["viewed"]
    (one,) = [one for one in report.boundaries if one.producer.group == "G1"]
    assert (one.consumer.op, [end.op for end in one.between]) == (
        "aten::mm",
        ["aten::t"],
    )
    assert (
        one.bytes == 128 and one.cause == report.unfused[one.between[0].row].reason
    )


@pytest.mark.parametrize("log", every(3, LOGS), ids=lambda p: p.name)
def test_boundaries_of_logs(log: Path) -> None:
    report = fusiondoc.parse(str(log))
    sizes = [-1 if one.bytes is None else one.bytes for one in report.boundaries]
    assert sizes == sorted(sizes, reverse=True)
    groups = {group.id for group in report.groups}
    for one in report.boundaries:
        for end in (one.producer, one.consumer):
            assert (
                end.group in groups
                if end.group
                else report.unfused[end.row or 0].op == end.op
            )
        assert (one.bytes is None) or one.tensor is not None
    saved = read_report(fusiondoc.render(report, "json").encode(), "saved.json")
    assert saved.boundaries == report.boundaries


def test_those_of_fewest_bytes_are_left_out(
    runs: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, _ = runs["around"]
    monkeypatch.setattr("fusiondoc.graph.shared_tensors.MOST_BOUNDARIES", 3)
    found = boundaries_of(report)
    assert len(found.rows) == 3 and found.left_out == 1


def test_a_tensor_of_unknown_type_has_no_bytes(runs: dict) -> None:
    """The group makes two tensors of different types, and what takes one has no
    types."""
    report, _ = runs["around"]
    groups = tuple(
        replace(one, outputs=("Float(2)", "Float(3)")) for one in report.groups
    )
    (program,) = report.programs
    nodes = tuple(replace(node, inputs=("Tensor",)) for node in program.nodes)
    changed = replace(
        report, groups=groups, programs=(replace(program, nodes=nodes),)
    )
    made: list[Boundary] = [
        one
        for one in boundaries_of(changed).rows
        if one.consumer.op == "aten::cumsum"
    ]
    assert made and all(one.tensor is None and one.bytes is None for one in made)
