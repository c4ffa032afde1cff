"""Where the operators are that a group lacks: outside every group and why, in another group, or nowhere."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Sequence, Tuple

from fusiondoc.expectations.expectation import GroupExpectation, SourceRange
from fusiondoc.model.report import Group, OpNode, Report, Unfused
from fusiondoc.model.source import Source, path_ends_with
from fusiondoc.whole_files import read_within

_FAR = 1_000_000
"""A distance in lines beyond every file: another file, or a line that the log does not tell."""

Key = Tuple[int, int, int]


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
    between: Unfused | None = None
    """The unfused operator between the two groups that splits them."""
    explained: bool = False
    """Whether another sentence says already why that one is not fused."""

    @property
    def text(self) -> str:
        """``mul is not fused: nvFuser has no parsing rule for it (FD201), model.py:31``."""
        return f"{without_namespace(self.op)} is {self.whereabouts}"

    @property
    def whereabouts(self) -> str:
        """What follows "is" or "are" in the sentence."""
        if self.row is not None:
            return f"not fused: {_reason(self.row)}"
        if self.group is not None and self.node is not None:
            place = shown(self.node)
            text = f"in {self.group.id}" + (f" ({place})" if place else "")
            if self.between is not None:
                by = without_namespace(self.between.op)
                text += f", split off by {by}"
                if not self.explained:
                    text += f", which is not fused: {_reason(self.between)}"
            return text
        return "nowhere in the graphs of the log"


def without_namespace(op: str) -> str:
    """``add`` for ``aten::add``; other namespaces stay."""
    return op[len("aten::") :] if op.startswith("aten::") else op


def _reason(row: Unfused) -> str:
    place = shown(row)
    return f"{row.reason.text} ({row.reason.code})" + (f", {place}" if place else "")


def where_is(
    report: Report,
    wanted: GroupExpectation,
    group: Group | None,
    lacking: Sequence[tuple[str, int | None]],
) -> tuple[Missing, ...]:
    """Each lacking operator with its whereabouts.

    ``lacking`` gives with an operator the index of the node of ``group`` that stands before it in the
    expectation: of several such operators the one next to that node in the program is meant.
    """
    used: set[int] = set()
    found = []
    for op, before in lacking:
        anchor = _anchor(group, before)
        best = _best(report, op, wanted.phase or (group.phase if group else None), anchor, group, used)
        if best is None:
            found.append(Missing(op, "absent"))
        elif isinstance(best, Unfused):
            found.append(Missing(op, "unfused", row=best))
        else:
            other, node = best
            between = _between(report, anchor, node)
            found.append(Missing(op, "group", group=other, node=node, between=between))
    rows = [one.row for one in found]
    return tuple(replace(one, explained=one.between in rows) if one.between else one for one in found)


def tell(missing: Sequence[Missing]) -> list[str]:
    """The sentences on missing operators; those in the same place share one."""
    together: dict[str, list[str]] = {}
    for one in missing:
        together.setdefault(one.whereabouts, []).append(without_namespace(one.op))
    return [
        f"{', '.join(dict.fromkeys(names))} {'is' if len(set(names)) == 1 else 'are'} {where}"
        for where, names in together.items()
    ]


def _anchor(group: Group | None, before: int | None) -> Source | None:
    """The user's line to measure from: of the node before, else the first that is known."""
    if group is None:
        return None
    near = group.nodes[before::-1] if before is not None else group.nodes
    return next((line for line in map(line_of, (*near, *group.nodes)) if line is not None), None)


def _best(
    report: Report,
    op: str,
    phase: str | None,
    anchor: Source | None,
    group: Group | None,
    used: set[int],
) -> Unfused | tuple[Group, OpNode] | None:
    """The operator of that name nearest in the program: same phase, fewest lines away, unfused first."""
    found: list[tuple[Key, int, Unfused | tuple[Group, OpNode]]] = []
    for row in report.unfused:
        if row.op == op:
            unlikely = int(row.ran is False)
            key = (_other(row.phase, phase) + unlikely, _distance(line_of(row), anchor), 0)
            found.append((key, id(row), row))
    for other in report.groups:
        if group is not None and other.id == group.id:
            continue
        for node in other.nodes:
            if node.op == op:
                key = (_other(other.phase, phase), _distance(line_of(node), anchor), 1)
                found.append((key, id(node), (other, node)))
    left = [one for one in found if one[1] not in used] or found
    if not left:
        return None
    best = min(left, key=lambda one: one[0])
    used.add(best[1])
    return best[2]


def _other(phase: str | None, wanted: str | None) -> int:
    return int(phase is not None and wanted is not None and phase != wanted)


def _distance(line: Source | None, anchor: Source | None) -> int:
    if line is None or anchor is None or line.file != anchor.file:
        return _FAR
    return abs(line.line - anchor.line)


def _between(report: Report, anchor: Source | None, node: OpNode) -> Unfused | None:
    """An unfused operator on the lines between two groups; one with a stated reason first."""
    end = line_of(node)
    if anchor is None or end is None or anchor.file != end.file:
        return None
    first, last = sorted((anchor.line, end.line))
    rows = []
    for row in report.unfused:
        line = line_of(row)
        if row.ran is False or line is None or line.file != anchor.file:
            continue
        if first <= line.line <= last:
            rows.append(row)
    return min(rows, key=lambda row: not row.reason.stated, default=None)


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
    return near(line) if line else node.source or ""


def is_in(line: Source | None, wanted: SourceRange) -> bool:
    """Whether the line is in the range. The file may be named by the end of its path."""
    if line is None or not path_ends_with(line.file, wanted.file):
        return False
    return wanted.first is None or wanted.first <= line.line <= (wanted.last or wanted.first)


def names_at(line: Source) -> tuple[str, str] | None:
    """Qualified name of the innermost function around a line and of the innermost class ("" for none).

    None where the file is not at hand, or is no Python that this interpreter reads.
    """
    spans = _definitions(line.file)
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
def _definitions(file: str) -> tuple[tuple[int, int, str, bool], ...] | None:
    """(first line, last line, qualified name, whether it is a class), outer ones first."""
    try:
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
