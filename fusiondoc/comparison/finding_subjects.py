"""The subject of a finding, as data: its operators, the reasons of its rows and its
group, without lines and figures, which differ between two runs of one program."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from fusiondoc.model.report import Evidence, Finding, Group, Report


class Subject(NamedTuple):
    """Two findings with equal subjects are the same finding, wherever its line has
    moved."""

    code: str
    keeps_out: bool
    """Whether it is about other operators that this operator keeps out of groups,
    and not about the operator alone."""
    ops: frozenset[str]
    reasons: frozenset[Hashable]
    phases: frozenset[str | None]
    group: tuple[str, ...]
    """The operators of the group, if it is about one."""


class Subjects:
    """The subjects of a report's findings. A saved report has them too: a finding
    names its rows, and the lines of the log that prove it are those of its groups,
    kernels and fallbacks."""

    def __init__(self, report: Report) -> None:
        self._rows = {row.index: row for row in report.unfused}
        self._groups = {group.id: group for group in report.groups}
        self._proved: dict[Evidence, dict[str, None]] = {}
        for ids, lines in _proofs(report):
            for line in lines:
                self._proved.setdefault(line, {}).update(dict.fromkeys(ids))

    def of(self, finding: Finding) -> Subject:
        rows = []
        for index in finding.rows:
            if index in self._rows:
                rows.append(self._rows[index])
        groups = [] if rows else self._groups_of(finding)
        return Subject(
            finding.code,
            finding.keeps_out is not None,
            frozenset(finding.ops),
            frozenset(
                (row.op, row.reason.code, _lasting(row.reason.detail))
                for row in rows
            ),
            frozenset(
                [*(row.phase for row in rows), *(group.phase for group in groups)]
            ),
            groups[0].ops if len({group.ops for group in groups}) == 1 else (),
        )

    def _groups_of(self, finding: Finding) -> list[Group]:
        ids: dict[str, None] = {}
        for line in finding.evidence:
            for id_ in self._proved.get(line, ()):
                ids[id_] = None
        groups = []
        for id_ in ids:
            if id_ in self._groups:
                groups.append(self._groups[id_])
        return groups


def _proofs(report: Report) -> Iterator[tuple[Sequence[str], Sequence[Evidence]]]:
    """(ids of groups, lines of the log about them)."""
    for group in report.groups:
        yield [group.id], group.evidence
    for kernel in report.kernels:
        yield kernel.groups, kernel.evidence
    for fallback in report.fallbacks:
        if fallback.group is not None:
            yield [fallback.group], fallback.evidence


_OF_A_RUN = ("source", "fuser")
"""Fields of details that may differ between runs although the reason is the
same."""


def _lasting(detail: object) -> Hashable:
    """A detail without positions, figures and the fuser, so that it is equal in all
    runs."""
    if dataclasses.is_dataclass(detail):
        names = []
        for field in dataclasses.fields(detail):
            if field.name not in _OF_A_RUN:
                names.append(field.name)
        return tuple(_lasting(getattr(detail, name)) for name in names)
    if isinstance(detail, tuple):
        return tuple(map(_lasting, detail))
    if isinstance(detail, int) and not isinstance(detail, bool):
        return None
    return detail
