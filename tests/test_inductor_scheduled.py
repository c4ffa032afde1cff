"""Logs and traces of torch.compile against the nodes that torch's scheduler had in
the same process.

A C++ function holds several nodes, a kernel may be called for several, and a log
names neither.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from conftest import FIXTURES

from fusiondoc import parse
from fusiondoc.model.report import Report

FOLDER = FIXTURES / "inductor" / "scheduled"
PROGRAMS = sorted(path.name for path in FOLDER.iterdir())
LOG, TRACE = "log.xz", "dedicated_log_torch_trace_a.log.xz"
TRACED = [name for name in PROGRAMS if (FOLDER / name / TRACE).exists()]
ON_GPU = [name for name in TRACED if name.endswith("-h200")]
NOTHING = ("NopKernelSchedulerNode", "MultiOutput")
CALL = "ExternKernelSchedulerNode"


@cache
def report(name: str, *files: str) -> Report:
    return parse([FOLDER / name / file for file in files])


def scheduled(name: str) -> list[list[tuple[str, str, int]]]:
    """Name, class and bytes (``get_read_write_buffers_sizes``) of the nodes that
    compute something."""
    graphs: list[Any] = json.loads(
        (FOLDER / name / "scheduler.json").read_text("utf-8")
    )
    return [
        [tuple(node) for node in graph if node[1] not in NOTHING]
        for graph in graphs
    ]


def order(report: Report) -> list[list[bool]]:
    return [
        [node.kind == "group" for node in graph.nodes] for graph in report.programs
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_and_calls_stand_in_the_order_of_the_scheduler(name: str) -> None:
    wanted = [[kind != CALL for _, kind, _ in graph] for graph in scheduled(name)]
    assert order(report(name, LOG)) == wanted
    if name in TRACED:
        assert order(report(name, LOG, TRACE)) == wanted
    if name in ON_GPU:
        assert order(report(name, TRACE)) == wanted


def test_bytes_of_the_nodes_of_a_function() -> None:
    """In the forward graph (22 groups in 6 functions) all are those that torch
    counts; in the gradient one group reads a part of a buffer, of which the code
    alone shows the whole."""
    found = report("zinb_loss-backward", LOG)
    groups = {group.id: group for group in found.groups}
    for graph, nodes, differing in zip(
        found.programs, scheduled("zinb_loss-backward"), (0, 1)
    ):
        rows = [
            groups[node.group] for node in graph.nodes if node.group is not None
        ]
        shown = Counter((row.bytes_in or 0) + (row.bytes_out or 0) for row in rows)
        counted = Counter(size for _, kind, size in nodes if kind != CALL)
        assert sum((counted - shown).values()) == differing


@pytest.mark.parametrize(
    ("name", "files"),
    [(name, (LOG, TRACE)) for name in TRACED]
    + [(name, (TRACE,)) for name in ON_GPU],
)
def test_each_operator_is_accounted_for(name: str, files: tuple[str, ...]) -> None:
    """Memory that is only reserved, constants, kernels that are called again (the
    code names the operators of the first call), and a foreach kernel, of which
    torch names none."""
    compiled = report(name, *files).compiled
    assert compiled is not None
    accounts = [graph.accounts for graph in compiled.graphs]
    assert [one.not_found for one in accounts if one is not None] == [()] * len(
        accounts
    )
