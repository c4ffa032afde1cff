"""Matches the units of a profile to rows of a report: groups, and operators outside
groups.

A trace of torch's profiler does not name the fusion groups of a log. Units are
matched by the name of the kernel that ran, the source position (if stacks were
recorded), the module, and the order in which equal units run in a step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fusiondoc.fusers import FUSER_OF_KIND, FUSERS
from fusiondoc.model import dataclass
from fusiondoc.model.report import Group, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.numbers import in_natural_order
from fusiondoc.parsers.profiler_trace import GpuEvent, Trace, Unit

_KERNEL = re.compile(r"(?:\w+::)*(kernel\d+)\(")
"""A kernel in a profile: ``CudaCodeGen::kernel3(CudaCodeGen::Tensor<float, 3>,
...)``."""
_OF_LIBRARIES = [
    name
    for fuser in FUSERS.values()
    if fuser.limits.partitions
    for name in fuser.log.profile_names
]
_PARTITION = re.compile(
    "|".join(rf"{name}[0-9]{{1,9}}\Z" for name in _OF_LIBRARIES)
)
"""A partition that a library computes, as a profile names it."""
_HASH = re.compile(r"_\d{12,}\Z")
"""The end of a kernel name that was cut because it was too long
(``truncateStrWithHash``, torch/csrc/jit/passes/utils)."""

_Position = tuple[str, int]
"""File and line."""
_Spot = tuple[int, str, str, "_Position | None", "str | None"]
"""Step, phase, name, source position and module: units that agree in all of these
differ only in their order."""

Shares = Sequence[tuple[Group, float]]
"""The groups that a unit may be a run of, each with its share of the unit's
time."""


def groups_of_units(report: Report, trace: Trace) -> dict[int, tuple[Group, ...]]:
    """Map the index of a unit's event to the groups that the unit may be a run
    of."""
    ties = GroupTies(report, trace.units)
    found = {}
    for unit in trace.units:
        shares = ties.groups(unit) if unit.group else ()
        if shares:
            found[unit.event] = tuple(group for group, _ in shares)
    return found


class _Turns:
    """Numbers the units that agree in step, phase, name, position and module."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._number = Counter(_spot(unit) for unit in units)
        self._next: Counter[_Spot] = Counter()

    def of(self, unit: Unit) -> tuple[int, int]:
        """Return how many such units came before, and how many there are."""
        spot = _spot(unit)
        turn = self._next[spot]
        self._next[spot] += 1
        return turn, self._number[spot]


def _spot(unit: Unit) -> _Spot:
    frames = unit.origin.frames
    return (
        unit.step,
        unit.phase,
        unit.name,
        frames[0] if frames else None,
        unit.origin.layer,
    )


def _position(text: str | None) -> _Position | None:
    source = Source.parse(text)
    if source is None:
        return None
    return source.file, source.line


# -- operators outside groups --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """A row of ``unfused`` with the facts that a unit of a profile is compared
    with."""

    index: int
    row: Unfused
    source: _Position | None
    users_lines: tuple[_Position | None, ...]


class RowTies:
    """Matches units to rows of ``unfused``. ``row`` must be called for the units in
    the order in which they ran."""

    def __init__(self, report: Report, units: Sequence[Unit]) -> None:
        self._rows: dict[tuple[str, str | None], list[_Row]] = {}
        for index, row in enumerate(report.unfused):
            if row.may_have_run:
                users_lines = tuple(map(_position, row.users_lines))
                tied = _Row(index, row, _position(row.source), users_lines)
                self._rows.setdefault((row.op, row.phase), []).append(tied)
        self._turns = _Turns(units)

    def row(self, unit: Unit) -> int | None:
        """Return the index of the row of an operator outside groups; None if no row
        or several match.

        Several rows of one program line run in turn, each as often as the report
        counts it.
        """
        same_name = self._rows.get((unit.name, unit.phase), []) + self._rows.get(
            (unit.name, None), []
        )
        rows = _in_layer(
            _at_source(same_name, unit.origin.frames), unit.origin.layer
        )
        if not rows:
            return None
        if len(rows) == 1:
            return rows[0].index
        turn, runs = self._turns.of(unit)
        counts = {one.row.count for one in rows}
        if len(counts) > 1 or runs != counts.pop() * len(rows):
            return None
        return rows[turn % len(rows)].index


def _at_source(rows: list[_Row], frames: Sequence[_Position]) -> list[_Row]:
    """Return the rows at the innermost frame, else those with a user's line in the
    stack."""
    if not frames:
        return rows
    exact = [row for row in rows if row.source == frames[0]]
    return exact or [
        row for row in rows if any(line in frames for line in row.users_lines)
    ]


def _in_layer(rows: list[_Row], layer: str | None) -> list[_Row]:
    """Return the rows of a module, if several rows are left and some are in it."""
    if len(rows) < 2 or layer is None:
        return rows
    return [tied for tied in rows if layer in tied.row.layers] or rows


# -- groups --------------------------------------------------------------------------------------------------


class GroupTies:
    """Matches units to groups. ``groups`` must be called for the units in the order
    in which they ran."""

    def __init__(self, report: Report, units: Sequence[Unit]) -> None:
        self._compiled = _groups_by_kernel(report)
        self._partitions = _partitions(report)
        names = set()
        for unit in units:
            if _PARTITION.match(unit.name):
                names.add(unit.name)
        self._of_numbers: dict[str, Group] = {}
        if len(names) == len(self._partitions):
            self._of_numbers.update(
                zip(sorted(names, key=in_natural_order), self._partitions)
            )
        self._nnc_groups: dict[tuple[str, str | None], list[Group]] = {}
        for group in report.groups:
            if group.specialisation == 1:
                self._nnc_groups.setdefault(
                    (nnc_name(group), group.phase), []
                ).append(group)
        self._known: dict[tuple[str, str], list[Group]] = {}
        self._turns = _Turns(units)

    def groups(self, unit: Unit) -> Shares:
        """Return the groups that a unit may be a run of: one group, or those that
        share a compiled kernel."""
        for launched in unit.launched:
            found = self._of_kernel(launched, unit.phase)
            if found:
                return found
        if _PARTITION.match(unit.name):
            return self._of_partition(unit.name)
        return self._of_name(unit)

    def _of_kernel(self, launched: GpuEvent, phase: str) -> Shares:
        match = _KERNEL.match(launched.name)
        if match is None or match[1] not in self._compiled:
            return ()
        block, groups = self._compiled[match[1]]
        if block is not None and launched.block and launched.block != block:
            return ()
        same = [group for group in groups if group.phase in (None, phase)] or groups
        total = sum(group.count for group in same)
        return [(group, group.count / total) for group in same]

    def _of_partition(self, name: str) -> Shares:
        """Match a partition by its number: partitions are numbered as they are
        made, as groups are in a log."""
        if len(self._partitions) == 1:
            return [(self._partitions[0], 1.0)]
        group = self._of_numbers.get(name)
        if group is None:
            return ()
        return [(group, 1.0)]

    def _of_name(self, unit: Unit) -> Shares:
        """Match by the name of the kernel, which lists its operators. Several
        groups with that name run in the order in which they appeared, if each runs
        once a step."""
        key = (unit.name, unit.phase)
        if key not in self._known:
            self._known[key] = self._named(*key)
        groups = self._known[key]
        if len(groups) < 2:
            return [(group, 1.0) for group in groups]
        if any(group.count > 1 for group in groups):
            return ()
        turn, runs = self._turns.of(unit)
        if runs == len(groups):
            return [(groups[turn], 1.0)]
        return ()

    def _named(self, name: str, phase: str) -> list[Group]:
        """Return the groups whose kernel has that name, whole or cut."""
        found: list[Group] = []
        for (whole, of_phase), groups in self._nnc_groups.items():
            if of_phase in (None, phase) and _may_be_called(whole, name):
                found += groups
        return found


def _may_be_called(whole: str, name: str) -> bool:
    """True if ``name`` is the kernel name ``whole``, possibly cut."""
    start = _HASH.sub("", name)
    return name == whole or (
        len(whole) > len(name) > len(start) and whole.startswith(start)
    )


def _groups_by_kernel(
    report: Report,
) -> dict[str, tuple[tuple[int, ...] | None, list[Group]]]:
    """Map the name of a compiled kernel to its block, and its groups."""
    groups = {group.id: group for group in report.groups}
    found: dict[str, tuple[tuple[int, ...] | None, list[Group]]] = {}
    for kernel in report.kernels:
        of_kernel = []
        for name in kernel.groups:
            if name in groups:
                of_kernel.append(groups[name])
        if of_kernel:
            found[kernel.name] = (kernel.block and tuple(kernel.block), of_kernel)
    return found


def _partitions(report: Report) -> list[Group]:
    """Return the group of each partition, in the order in which the partitions are
    made."""
    of_library = []
    for kind, fuser in FUSER_OF_KIND.items():
        if fuser.limits.partitions:
            of_library.append(kind)
    groups = []
    for group in report.groups:
        if group.kind in of_library and group.specialisation == 1:
            groups.append(group)
    if len(groups) == 1:
        return groups
    partitions = []
    for group in groups:
        for _ in group.instances:
            partitions.append(group)
    return partitions


def nnc_name(group: Group) -> str:
    """Return the name that NNC makes of a group's operators, before it is cut to 40
    characters: ``fused_add_mul`` (``generateNameForGraph``,
    torch/csrc/jit/passes/utils/subgraph_utils.cpp)."""
    names = []
    for op in group.ops:
        if op.startswith("aten::"):
            names.append(op[len("aten::") :])
    return "_".join(["fused", *names])
