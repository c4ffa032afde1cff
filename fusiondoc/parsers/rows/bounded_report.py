"""Limits a report to a number of groups and kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import chain, islice
from typing import TypeVar

from fusiondoc.model.report import Fallback, Group, Kernel, Program, Report
from fusiondoc.model.source import MOST_EVIDENCE

_Row = TypeVar("_Row", Group, Kernel)


def bounded(report: Report, most: int) -> Report:
    """Return the report with the first ``most`` groups and kernels of each rank.
    References to rows that are left out are removed; numbers of groups and
    operators stay as they are."""
    groups = _first(report.groups, most)
    kernels = _first(report.kernels, most)
    if len(groups) == len(report.groups) and len(kernels) == len(report.kernels):
        return report
    known = {group.id for group in groups}
    run = {kernel.id for kernel in kernels}
    beyond = [group for group in report.groups if group.id not in known]
    programs = []
    for program in report.programs:
        if _names_only(program, known):
            programs.append(program)
    return replace(
        report,
        groups=tuple(_with_kernels(group, run) for group in groups),
        groups_left_out=len(beyond),
        fusion_groups_left_out=sum(group.count for group in beyond),
        fused_operators_left_out=sum(
            group.operators for group in beyond if group.specialisation == 1
        ),
        kernels=tuple(_with_groups(kernel, known) for kernel in kernels),
        kernels_left_out=len(report.kernels) - len(kernels),
        fallbacks=tuple(_of_groups(report.fallbacks, known)),
        programs=tuple(programs),
        programs_left_out=report.programs_left_out
        + len(report.programs)
        - len(programs),
    )


def _names_only(program: Program, known: AbstractSet[str]) -> bool:
    """True if all groups of a program are in ``known``."""
    return all(node.group is None or node.group in known for node in program.nodes)


def _first(rows: Sequence[_Row], most: int) -> list[_Row]:
    """The first rows of each rank."""
    seen: Counter[int | None] = Counter()
    kept = []
    for row in rows:
        seen[row.rank] += 1
        if seen[row.rank] <= most:
            kept.append(row)
    return kept


def _among(ids: Sequence[str], known: AbstractSet[str]) -> tuple[str, ...]:
    return tuple(name for name in ids if name in known)


def _with_kernels(group: Group, known: AbstractSet[str]) -> Group:
    kernels = _among(group.kernels, known)
    segments = []
    for part in group.segments:
        segments.append(replace(part, kernels=_among(part.kernels, known)))
    runtimes = []
    for one in group.runtimes:
        runtimes.append(replace(one, kernels=_among(one.kernels, known)))
    instances = []
    for node in group.instances:
        instances.append(replace(node, kernels=_among(node.kernels, known)))
    return replace(
        group,
        kernels=kernels,
        kernels_left_out=group.kernels_left_out + len(group.kernels) - len(kernels),
        segments=tuple(segments),
        runtimes=tuple(runtimes),
        instances=tuple(instances),
    )


def _with_groups(kernel: Kernel, known: AbstractSet[str]) -> Kernel:
    groups = _among(kernel.groups, known)
    left_out = kernel.groups_left_out + len(kernel.groups) - len(groups)
    of_groups = []
    for one in kernel.launches_of_groups:
        if one.group in known:
            of_groups.append(one)
    return replace(
        kernel,
        groups=groups,
        groups_left_out=left_out,
        launches_of_groups=tuple(of_groups),
    )


def _of_groups(rows: Iterable[Fallback], known: AbstractSet[str]) -> list[Fallback]:
    """Return the fallbacks; those of groups that are left out are merged to one row
    per stage, error and rank, after the others."""
    kept: list[Fallback] = []
    others: dict[tuple[str, str | None, int | None], list[Fallback]] = {}
    for row in rows:
        if row.group is None or row.group in known:
            kept.append(row)
        else:
            others.setdefault((row.stage, row.error, row.rank), []).append(row)
    return [*kept, *map(_together, others.values())]


def _together(rows: Sequence[Fallback]) -> Fallback:
    evidence = tuple(
        islice(chain.from_iterable(row.evidence for row in rows), MOST_EVIDENCE)
    )
    return replace(
        rows[0],
        group=None,
        count=sum(row.count for row in rows),
        count_exact=all(row.count_exact for row in rows),
        evidence=evidence,
        evidence_left_out=sum(len(row.evidence) for row in rows) - len(evidence),
    )
