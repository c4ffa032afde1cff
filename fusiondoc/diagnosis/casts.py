"""Casts, by the types in the plans: whether the other tensors that an operator
takes beside a cast's result have the type that the cast produces.

Only then is ``x.to(y) * y`` the same as ``x.type_as(y) * y``: in an RMS norm with a
bfloat16 input and a float32 weight, ``weight * h.to(x.dtype)`` differs from
``weight * h.type_as(weight)``, which leaves a rounding out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.graph import DependencyGraph, graph_of
from fusiondoc.model.report import ProgramNode, Report
from fusiondoc.parsers.ir.types import TensorType, parse_type

_Kind = tuple[str | None, str | None]
"""Dtype and device; None where the plan does not show them."""
_UNKNOWN: _Kind = (None, None)


def casts_to_other_types(report: Report) -> frozenset[int]:
    """Return the rows (``Unfused.index``) of casts whose result meets only tensors
    of other dtypes or devices; without rows whose types the plans do not show."""
    inside = {group.id: group.inputs for group in report.groups}
    same: set[int] = set()
    other: set[int] = set()
    for program in report.programs:
        graph = graph_of(program)
        for index, node in enumerate(program.nodes):
            if node.op == "aten::to" and node.outputs:
                kind = _kind(node.outputs[0])
            else:
                kind = _UNKNOWN
            if kind == _UNKNOWN:
                continue
            for met in _met(graph, index, kind, inside):
                (same if met in (kind, _UNKNOWN) else other).update(node.rows)
    return frozenset(other - same)


def with_tensors_cast_to(report: Report, found: Sequence[Change]) -> Report:
    """Return the report with these casts written as ``x.type_as(y)``: each then
    takes the tensor itself, where before it took only its dtype, a number."""
    rows = set()
    for one in found:
        for row in one.rows:
            if _is_cast(report, row):
                rows.add(report.unfused[row].index)
    if not rows:
        return report
    programs = []
    for program in report.programs:
        more = []
        for edge in program.waits:
            if program.nodes[edge[1]].row in rows:
                more.append(edge)
        waits = tuple(edge for edge in program.waits if edge not in more)
        edges = tuple(dict.fromkeys([*program.edges, *more]))
        programs.append(replace(program, edges=edges, waits=waits))
    return replace(report, programs=tuple(programs))


def _is_cast(report: Report, row: int) -> bool:
    return report.unfused[row].op == "aten::to"


def _met(
    graph: DependencyGraph[ProgramNode],
    index: int,
    kind: _Kind,
    inside: Mapping[str, Sequence[str]],
) -> Iterator[_Kind]:
    """Yield the types of the other tensors that operators and groups take together
    with a node's result."""
    for after in graph.after[index]:
        taker = graph.nodes[after]
        kinds = []
        for text in inside.get(taker.group or "", taker.inputs):
            kinds.append(_kind(text))
        if kind in kinds:
            kinds.remove(kind)
            yield from kinds


def _kind(text: str) -> _Kind:
    found = parse_type(text)
    if isinstance(found, TensorType):
        return found.dtype, found.device
    return _UNKNOWN
