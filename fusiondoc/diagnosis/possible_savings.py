"""The time that fusing the operators outside groups could save: from the groups
that they would form, and the bytes that these must move."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.fusers import is_fusible
from fusiondoc.graph import graph_of
from fusiondoc.graph.would_fuse import Limits, would_fuse
from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.operators import LIBRARY


def saving_share(
    report: Report, ms: Mapping[int, float], gb_per_s: float | None
) -> dict[int, float]:
    """Return for each row of ``report.unfused`` the largest share of its time that
    fusing it could save.

    Operators that a fuser takes and that are neighbours in a plan would be one
    group. It saves their time minus the time to move its inputs and outputs once.
    If the plan or its shapes are not known, a row saves at most the traffic of its
    own results; if these are not known either, it is left out.

    Args:
        ms: the time of each row in a step, all its nodes together.
        gb_per_s: the memory bandwidth of the device.
    """
    if not gb_per_s:
        return {}
    bytes_per_ms = gb_per_s * 1e6
    shares: dict[int, list[float]] = {}
    for program in report.programs:
        if program.specialisation == 1:
            _add_shares(program, report, ms, bytes_per_ms, shares)
    found = {row: sum(each) / len(each) for row, each in shares.items()}
    for row, spent in ms.items():
        traffic = report.unfused[row].bytes_moved
        if row not in found and traffic is not None and spent:
            found[row] = min(
                1.0, traffic * report.unfused[row].count / bytes_per_ms / spent
            )
    return found


def _add_shares(
    program: Program,
    report: Report,
    ms: Mapping[int, float],
    bytes_per_ms: float,
    shares: dict[int, list[float]],
) -> None:
    """Add the share of each row of a plan, once for each of its nodes."""
    graph = graph_of(program)
    rows = [_fusible_row(node) for node in program.nodes]
    for members in would_fuse(
        graph, [row is not None for row in rows], Limits(graph.inside)
    ):
        moved = graph.traffic(members)
        spent = sum(_ms_of_node(rows[node], report, ms) for node in members)
        if moved is None or not spent:
            continue
        share = max(0.0, 1.0 - moved / bytes_per_ms / spent)
        for node in members:
            for row in program.nodes[node].rows:
                shares.setdefault(row, []).append(share)


def _ms_of_node(row: int | None, report: Report, ms: Mapping[int, float]) -> float:
    """Return the milliseconds that one node of a row takes in a step."""
    if row is None:
        return 0.0
    return ms.get(row, 0.0) / report.unfused[row].count


def _fusible_row(node: ProgramNode) -> int | None:
    """Return the row of an operator that some fuser takes; None for all other
    nodes."""
    if node.kind != "operator" or node.op in LIBRARY or not is_fusible(node.op):
        return None
    return node.row
