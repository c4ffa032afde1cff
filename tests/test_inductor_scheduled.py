"""Logs of torch.compile on the CPU against the nodes that torch's scheduler had in the same process.

A C++ function holds several nodes, and the log does not name which.
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
NOTHING = ("NopKernelSchedulerNode", "MultiOutput")
CALL = "ExternKernelSchedulerNode"


@cache
def report(name: str, trace: bool) -> Report:
    files = [FOLDER / name / "log.xz"]
    if trace:
        files += (FOLDER / name).glob("dedicated_log_*")
    return parse(files)


def scheduled(name: str) -> list[list[tuple[str, str, int]]]:
    """Name, class and bytes (``get_read_write_buffers_sizes``) of the nodes that compute something."""
    graphs: list[Any] = json.loads((FOLDER / name / "scheduler.json").read_text("utf-8"))
    return [[tuple(node) for node in graph if node[1] not in NOTHING] for graph in graphs]


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups_and_calls_stand_in_the_order_of_the_scheduler(name: str) -> None:
    shown = [[node.kind == "group" for node in graph.nodes] for graph in report(name, False).programs]
    assert shown == [[kind != CALL for _, kind, _ in graph] for graph in scheduled(name)]


def test_bytes_of_the_nodes_of_a_function() -> None:
    """In the forward graph (22 groups in 6 functions) all are those that torch counts; in the gradient one
    group reads a part of a buffer, of which the code alone shows the whole."""
    found = report("zinb_loss-backward", False)
    groups = {group.id: group for group in found.groups}
    for graph, nodes, differing in zip(found.programs, scheduled("zinb_loss-backward"), (0, 1)):
        rows = [groups[node.group] for node in graph.nodes if node.group is not None]
        shown = Counter((row.bytes_in or 0) + (row.bytes_out or 0) for row in rows)
        counted = Counter(size for _, kind, size in nodes if kind != CALL)
        assert sum((counted - shown).values()) == differing


@pytest.mark.parametrize("name", [name for name in PROGRAMS if list((FOLDER / name).glob("dedicated_log_*"))])
def test_memory_that_is_only_reserved_and_constants_are_accounted_for(name: str) -> None:
    compiled = report(name, True).compiled
    assert compiled is not None
    accounts = [graph.accounts for graph in compiled.graphs]
    assert [one.not_found for one in accounts if one is not None] == [()] * len(accounts)
