"""Where the operators are that a group lacks: outside every group and why, in another group, or nowhere."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fusiondoc.alignment import common
from fusiondoc.expectations import GroupExpectation, SourceRange, instances_in
from fusiondoc.graph.neighbours import GroupNeighbours
from fusiondoc.model import dataclass
from fusiondoc.model.operator_places import folded
from fusiondoc.model.report import Group, OpNode, Report, Unfused
from fusiondoc.model.source import Source, from_package, path_ends_with
from fusiondoc.whole_files import read_within

_FAR = 1_000_000
"""A distance in lines beyond every file: another file, or a line that the log does not tell."""

_BESIDE = 5
"""Lines: of one function, mostly."""

Key = tuple[int, ...]


@dataclass(frozen=True)
class Missing:
    """An expected operator that the nearest group lacks. ``where`` is "unfused", "group" or "absent"."""

    op: str
    where: str
    row: Unfused | None = None
    """Its row among the unfused ones, with the reason."""
    group: Group | None = None
    """The other group that has it."""
    node: OpNode | None = None
    between: tuple[Unfused, ...] = ()
    """The unfused operators between the two groups that split them, the one that matters most first."""
    layer: str = ""
    """Where it is, if that is another layer than that of the nearest group."""
    stands_as: str | None = None
    """The form that is there instead: ``aten::mul_``, which works in place, for ``aten::mul``."""
    phase: str | None = None
    """The phase that it was looked for in; None is any."""
    of_others: bool = False
    """Absent, but for operators of that name in groups that fulfil other expectations."""


_MOST_NAMED = 3


def without_namespace(op: str) -> str:
    """``add`` for ``aten::add``; other namespaces stay."""
    return op[len("aten::") :] if op.startswith("aten::") else op


def reason_of(row: Unfused) -> str:
    """``NNC has no lowering for it (FD211), model.py:7``."""
    place = shown(row)
    return f"{row.reason.text} ({row.reason.code})" + (f", {place}" if place else "")


def where_is(
    report: Report,
    wanted: GroupExpectation,
    group: Group | None,
    lacking: Sequence[tuple[str, int | None]],
    claimed: Collection[str] = (),
    outside: Collection[str] = (),
) -> tuple[Missing, ...]:
    """Each lacking operator with its whereabouts, in the phase of the expectation.

    ``lacking`` gives with an operator the index of the node of ``group`` that stands before it in the
    expectation: of several such operators the one next to that node in the program is meant. ``claimed`` are
    the groups whose operators other expectations count; ``outside`` names operators of which some are known
    to be outside groups, so that one is only meant where it stands beside the group.
    """
    neighbours = GroupNeighbours(report)
    used: set[int] = set()
    if group is None:
        # What has few of its operators is another group, and those are other operators of that name.
        unlike = (one.id for one in report.groups if 2 * common(one.ops, wanted.ops) < len(wanted.ops))
        claimed = {*claimed, *unlike}
    found: list[Missing] = []
    here = _Here.of(group, wanted, neighbours)
    for op, before in lacking:
        at = here.at(before)
        best = _best(report, op, at, used, claimed, outside)
        if best is None:
            of_others = any(
                row.op == op and same_phase(row.phase, at.phase) for row in report.unfused
            ) or any(
                one.id in claimed and op in one.ops and same_phase(one.phase, at.phase)
                for one in report.groups
            )
            found.append(Missing(op, "absent", phase=at.phase, of_others=of_others))
        elif isinstance(best, Unfused):
            layer = folded(best.layers) if _apart(best.layers, here.layers) or not here.layers else ""
            found.append(Missing(op, "unfused", row=best, layer=layer, stands_as=_other_name(best.op, op)))
        else:
            other, node = best
            rows = neighbours.between(group.id, other.id) if group is not None else ()
            between = sorted(rows, key=_weight) or _on_lines_between(report, at.anchor, node)
            layer = folded(other.layers) if _apart(other.layers, here.layers) else ""
            as_ = _other_name(node.op, op)
            found.append(Missing(op, "group", None, other, node, tuple(between), layer, as_))
    return tuple(found)


def _other_name(there: str, wanted: str) -> str | None:
    return there if there != wanted else None


def other_form(op: str) -> str:
    """The same operator in place, or not in place: ``aten::mul_`` for ``aten::mul`` and back."""
    return op[:-1] if op.endswith("_") else op + "_"


def _weight(row: Unfused) -> tuple[int, bool]:
    """What keeps most operators out of groups first, then what the log states a reason for."""
    return -(row.keeps_out or 0), not row.reason.stated


@dataclass(frozen=True)
class _Here:
    """The nearest group as a place to look from."""

    group: Group | None
    phase: str | None
    layers: tuple[str, ...]
    """Of its instances that were wanted."""
    next_to: tuple[Mapping[str, tuple[Unfused, ...]], Mapping[str, tuple[Unfused, ...]]] = ({}, {})
    """The groups before and after it, with what stands between."""
    anchor: Source | None = None
    """The user's line to measure from."""
    side: int | None = None
    """0 for what stands before the group, 1 for what stands after it."""

    @classmethod
    def of(cls, group: Group | None, wanted: GroupExpectation, neighbours: GroupNeighbours) -> _Here:
        if group is None:
            return cls(None, wanted.phase, ())
        instances = instances_in(group, wanted.layer) or group.instances
        layers = tuple(dict.fromkeys(one.layer for one in instances if one.layer is not None))
        next_to = neighbours.before(group.id), neighbours.after(group.id)
        return cls(group, wanted.phase or group.phase, layers, next_to)

    def at(self, before: int | None) -> _Here:
        """From the node at this index of the group; from its first one without an index."""
        return replace(self, anchor=_anchor(self.group, before), side=0 if before is None else 1)

    def is_beside(self, row: Unfused) -> bool:
        """Whether it adjoins, or stands a few lines away; also where no line is told."""
        line = line_of(row)
        if self.anchor is None or line is None:
            return True
        return self.adjoins(row) or _distance(line, self.anchor) <= _BESIDE

    def adjoins(self, one: Unfused | Group) -> bool:
        """Whether only operators outside groups stand between, or it is one of these."""
        if self.side is None:
            return False
        near = self.next_to[self.side]
        return (
            one.id in near
            if isinstance(one, Group)
            else any(one is row for rows in near.values() for row in rows)
        )


def _apart(layers: Sequence[str], here: Sequence[str]) -> bool:
    """Whether both are told and none is in one of the others."""
    known = set(here)
    return (
        bool(layers)
        and bool(known)
        and not any(
            one in known or any(one.startswith(f"{h}.") or h.startswith(f"{one}.") for h in known)
            for one in layers
        )
    )


def tell(missing: Sequence[Missing]) -> list[str]:
    """The sentences on missing operators: ``mul is not fused: nvFuser has no parsing rule for it (FD201),
    model.py:31``. Those that are in one place share one, and a reason is said once."""
    together: dict[object, list[Missing]] = {}
    for one in missing:
        if one.row is not None:
            here = _not_fused(one.row, one.layer)
        else:
            here = one.group.id if one.group is not None else _absent(one)
        together.setdefault((here, one.layer, one.stands_as, tuple(map(id, one.between))), []).append(one)
    explained = [one.row for one in missing if one.row is not None]
    sentences = []
    for these in together.values():
        names = list(dict.fromkeys(without_namespace(one.op) for one in these))
        first = these[0]
        if first.row is not None:
            where = _not_fused(first.row, first.layer)
        elif first.group is not None:
            where = _in_group(these, explained)
            explained += first.between[:1]
        else:
            where = _absent(first)
        if first.stands_as is not None:
            sentences.append(f"{names[0]} is there as {without_namespace(first.stands_as)}, which is {where}")
        else:
            sentences.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {where}")
    return sentences


def _absent(one: Missing) -> str:
    graphs = f"{one.phase} graphs" if one.phase == "backward" else "graphs"
    return f"nowhere{' else' if one.of_others else ''} in the {graphs} of the log"


def _not_fused(row: Unfused, layer: str) -> str:
    return f"not fused{f' in {layer}' if layer else ''}: {reason_of(row)}"


def _in_group(these: Sequence[Missing], explained: Sequence[Unfused]) -> str:
    """``in G2 (model.py:9), split off by cumsum, which is not fused: ...``."""
    one = these[0]
    assert one.group is not None
    places = list(dict.fromkeys(shown(m.node) for m in these if m.node is not None and shown(m.node)))
    text = f"in {one.group.id}" + (f" in {one.layer}" if one.layer else "")
    if places:
        text += f" ({', '.join(places[:_MOST_NAMED])}{', ...' if len(places) > _MOST_NAMED else ''})"
    if one.between:
        first = one.between[0]
        names = list(dict.fromkeys(without_namespace(row.op) for row in one.between))
        text += f", split off by {' and '.join(names[:_MOST_NAMED])}"
        if not any(first is row for row in explained):
            which = "which" if len(names) == 1 else f"of which {without_namespace(first.op)}"
            text += f", {which} is not fused: {reason_of(first)}"
    return text


def _anchor(group: Group | None, before: int | None) -> Source | None:
    """The user's line to measure from: of the node before, else the first that is known."""
    if group is None:
        return None
    near = group.nodes[before::-1] if before is not None else group.nodes
    return next((line for line in map(line_of, (*near, *group.nodes)) if line is not None), None)


def _best(
    report: Report,
    op: str,
    here: _Here,
    used: set[int],
    claimed: Collection[str],
    outside: Collection[str],
) -> Unfused | tuple[Group, OpNode] | None:
    """The operator of that name, or its other form, nearest in the program: same layer, next to the group in
    its graph, fewest lines away, of that name, unfused first. None in the same phase is none."""
    found: list[tuple[Key, int, Unfused | tuple[Group, OpNode]]] = []
    names = (op, other_form(op))

    def key(name: str, one: Unfused | Group, line: Source | None, last: int) -> Key:
        apart = int(_apart(one.layers, here.layers))
        far = _distance(line, here.anchor)
        return (apart, int(not here.adjoins(one)), far, int(name != op), last)

    for row in report.unfused:
        if row.op in outside and not here.is_beside(row):
            continue
        if row.op in names and same_phase(row.phase, here.phase):
            found.append(((int(row.ran is False), *key(row.op, row, line_of(row), 0)), id(row), row))
    for other in report.groups:
        if here.group is not None and other.id == here.group.id and other.count == 1:
            continue
        if other.id in claimed or not same_phase(other.phase, here.phase):
            continue
        for node in other.nodes:
            if node.op in names:
                found.append(((0, *key(node.op, other, line_of(node), 1)), id(node), (other, node)))
    left = [one for one in found if one[1] not in used] or found
    if not left:
        return None
    best = min(left, key=lambda one: one[0])
    used.add(best[1])
    return best[2]


def same_phase(one: str | None, other: str | None) -> bool:
    """Whether both may be of one phase: None is a phase that nothing tells."""
    return one is None or other is None or one == other


def _distance(line: Source | None, anchor: Source | None) -> int:
    if line is None or anchor is None or line.file != anchor.file:
        return _FAR
    return abs(line.line - anchor.line)


def _on_lines_between(report: Report, anchor: Source | None, node: OpNode) -> list[Unfused]:
    """Where the plans do not tell: an unfused operator on the lines between; one with a stated reason
    first."""
    end = line_of(node)
    if anchor is None or end is None or anchor.file != end.file:
        return []
    first, last = sorted((anchor.line, end.line))
    rows = []
    for row in report.unfused:
        line = line_of(row)
        if row.ran is False or line is None or line.file != anchor.file:
            continue
        if first <= line.line <= last:
            rows.append(row)
    return sorted(rows, key=lambda row: not row.reason.stated)[:1]


def line_of(node: OpNode | Unfused) -> Source | None:
    """The user's line of an operator; None where the log cannot tell it."""
    return Source.parse(node.user_source)


def near(line: Source) -> str:
    """``file:line``, without the name of the current folder."""
    here = str(Path.cwd()) + os.sep
    return line.at_line[len(here) :] if line.file.startswith(here) else line.at_line


def shown(node: OpNode | Unfused) -> str:
    """The user's line, or what the log names instead; empty without either."""
    line = line_of(node)
    return near(line) if line else from_package(node.source or "")


def is_in(line: Source | None, wanted: SourceRange) -> bool:
    """Whether the line is in the range. The file may be named by the end of its path."""
    if line is None or not path_ends_with(line.file, wanted.file):
        return False
    return wanted.first is None or wanted.first <= line.line <= (wanted.last or wanted.first)


def names_at(line: Source) -> tuple[str, str] | None:
    """Qualified name of the innermost function around a line and of the innermost class ("" for none).

    None where the file is not at hand, or is no Python that this interpreter reads.
    """
    try:
        known = Path(line.file).stat()
    except (OSError, ValueError):
        return None
    spans = _definitions(line.file, known.st_mtime_ns, known.st_size)
    if spans is None:
        return None
    function = owner = ""
    for first, last, name, is_class in spans:
        if first <= line.line <= last:
            function, owner = (function, name) if is_class else (name, owner)
    return function, owner


def named(qualified: str, name: str) -> bool:
    """Whether ``name`` is the end of a qualified name: forward, Block.forward."""
    return bool(qualified) and (qualified == name or qualified.endswith("." + name))


_MOST_SOURCE = 1 << 20
"""Bytes of a source file, which a log may name."""


@lru_cache(maxsize=64)
def _definitions(file: str, _changed: int, _size: int) -> tuple[tuple[int, int, str, bool], ...] | None:
    """(first line, last line, qualified name, whether it is a class), outer ones first. Read again where the
    file has changed."""
    try:
        with warnings.catch_warnings():  # of the compiler, on literals such as "\\d"
            warnings.simplefilter("ignore")
            tree = ast.parse(read_within(Path(file), _MOST_SOURCE)) if file.endswith(".py") else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if tree is None:
        return None
    found: list[tuple[int, int, str, bool]] = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        parent, prefix = waiting.pop()
        for node in ast.iter_child_nodes(parent):
            inner = prefix
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inner = f"{prefix}.{node.name}".lstrip(".")
                found.append(
                    (node.lineno, node.end_lineno or node.lineno, inner, isinstance(node, ast.ClassDef))
                )
            waiting.append((node, inner))
    return tuple(sorted(found, key=lambda one: (one[0], -one[1])))
