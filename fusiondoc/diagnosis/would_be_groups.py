"""What fusing the unfused operators could save: the groups that they would be, and what these must move."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple

from fusiondoc.diagnosis.operators import LIBRARY, is_fusible
from fusiondoc.model.report import Program, ProgramNode, Report
from fusiondoc.parsers.ir.types import bytes_once

Key = Tuple[str, Optional[str], str, Optional[str], Optional[str]]
"""What tells a row of unfused operators: operator, source, code and text of the reason, phase."""


def saving_share(report: Report, ms: Mapping[int, float], gb_per_s: float | None) -> dict[int, float]:
    """For each row of ``report.unfused`` the share of its time that fusing it could save at most.

    Operators that a fuser takes and that stand next to one another in a plan would be one group. What it
    saves is their time less what its inputs and outputs take, each moved once. Where the plan or its shapes
    are not known, a row saves at most the traffic of its own results; where these are not known either, it is
    left out.

    Args:
        ms: the time of each row in a step, all its nodes together.
        gb_per_s: the memory bandwidth of the device.
    """
    if not gb_per_s:
        return {}
    index = {row_key(row.op, row.source, row.reason.code, row.reason.text, row.phase): i
             for i, row in enumerate(report.unfused)}  # fmt: skip
    shares: dict[int, list[float]] = {}
    for program in report.programs:
        if program.specialisation > 1:
            continue
        rows = [_row(node, program, index) for node in program.nodes]
        for members in _components(program, rows):
            spent = 0.0
            for node in members:
                row = rows[node]
                assert row is not None
                spent += ms.get(row, 0.0) / report.unfused[row].count
            moved = _moved(program, members)
            if moved is None or not spent:
                continue
            share = max(0.0, 1.0 - moved / (gb_per_s * 1e6) / spent)
            for node in members:
                shares.setdefault(rows[node] or 0, []).append(share)
    found = {row: sum(each) / len(each) for row, each in shares.items()}
    for row, spent in ms.items():
        traffic = report.unfused[row].bytes_moved
        if row not in found and traffic is not None and spent:
            found[row] = min(1.0, traffic * report.unfused[row].count / (gb_per_s * 1e6) / spent)
    return found


def row_key(op: str, source: str | None, code: str, text: str | None, phase: str | None) -> Key:
    return op, source, code, text, phase


def _row(node: ProgramNode, program: Program, index: Mapping[Key, int]) -> int | None:
    """The row of an operator that some fuser takes; None for all other nodes."""
    if node.kind != "operator" or node.reason is None or node.op in LIBRARY or not is_fusible(node.op):
        return None
    return index.get(row_key(node.op, node.source, node.reason, node.reason_text, program.phase))


def _components(program: Program, rows: Sequence[int | None]) -> list[list[int]]:
    """Nodes with a row that a tensor connects, in the same branch or region."""
    parent = list(range(len(program.nodes)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for a, b in program.edges:
        together = program.nodes[a].inside == program.nodes[b].inside
        if together and rows[a] is not None and rows[b] is not None:
            parent[root(a)] = root(b)
    found: dict[int, list[int]] = {}
    for node, row in enumerate(rows):
        if row is not None:
            found.setdefault(root(node), []).append(node)
    return list(found.values())


def _moved(program: Program, members: Sequence[int]) -> int | None:
    """Bytes of inputs and outputs of the group that the nodes would be; None where a shape is not known."""
    mine = set(members)
    into: dict[int, list[int]] = {}
    out: dict[int, list[int]] = {}
    for a, b in program.edges:
        into.setdefault(b, []).append(a)
        out.setdefault(a, []).append(b)
    moved: list[str] = []
    seen: set[int] = set()
    for node in members:
        types = list(program.nodes[node].inputs)
        for before in into.get(node, ()):
            made = next((one for one in program.nodes[before].outputs if one in types), None)
            if made is None:
                continue
            if before in mine or before in seen:
                types.remove(made)
            seen.add(before)
        moved += types
        after = out.get(node, ())
        if not after or any(one not in mine for one in after):
            moved += program.nodes[node].outputs
    sizes = [bytes_once(one) for one in moved if one != "Tensor?"]
    if any(size is None for size in sizes):
        return None
    return sum(size for size in sizes if size is not None)
