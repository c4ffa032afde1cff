"""Which group or unfused operator of a report a unit of a profile is."""

from __future__ import annotations

import re
from collections import Counter
from typing import Optional, Sequence, Tuple

from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Group, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.parsers.trace_units import Unit

_KERNEL = re.compile(r"(?:\w+::)*(kernel\d+)\(")
"""nvFuser's kernels in a profile: ``CudaCodeGen::kernel3(CudaCodeGen::Tensor<float, 3>, ...)``."""
_PARTITION = re.compile(r"LlgaPartition_[0-9]{1,9}\Z")
"""A group of oneDNN Graph (``LlgaKernel``, torch/csrc/jit/codegen/onednn/kernel.cpp)."""
_HASH = re.compile(r"_\d{12,}\Z")
"""The end of an NNC name that was too long (``truncateStrWithHash``, torch/csrc/jit/passes/utils)."""


@dataclass(frozen=True)
class _Line:
    """What of a row a profile can be compared with."""

    index: int
    row: Unfused
    source: tuple[str, int] | None
    user_source: tuple[str, int] | None


class ProfileTies:
    """Which rows of a report the units of a profile are."""

    def __init__(self, report: Report, units: Sequence[Unit]) -> None:
        self._rows: dict[tuple[str, str | None], list[_Line]] = {}
        for index, row in enumerate(report.unfused):
            if row.ran is not False:
                line = _Line(index, row, _position(row.source), _position(row.user_source))
                self._rows.setdefault((row.op, row.phase), []).append(line)
        self._groups = {group.id: group for group in report.groups}
        self._kernels = {}
        for kernel in report.kernels:
            of = [self._groups[name] for name in kernel.groups if name in self._groups]
            if of:
                self._kernels[kernel.name] = (kernel.block, of)
        self._by_name: dict[tuple[str, str | None], list[Group]] = {}
        for group in report.groups:
            if group.specialisation == 1:
                self._by_name.setdefault((nnc_name(group), group.phase), []).append(group)
        ours = [one for one in report.groups if one.kind == "oneDNNFusionGroup" and one.specialisation == 1]
        self._partitions = ours if len(ours) == 1 else [group for group in ours for _ in group.instances]
        names = {unit.name for unit in units if _PARTITION.match(unit.name)}
        in_order = sorted(names, key=lambda name: int(name.rpartition("_")[2]))
        self._numbered = {name: number for number, name in enumerate(in_order)}
        self._known: dict[tuple[str, str], list[Group]] = {}
        self._turn: dict[Spot, int] = {}
        self._runs = Counter(_spot(unit) for unit in units)

    def row(self, unit: Unit) -> int | None:
        """The index of the row of an operator outside groups; None where none or several could be it.

        Several on one line of the program run in turn, as often as the report has them.
        """
        found: list[_Line] = [
            *self._rows.get((unit.name, unit.phase), ()),
            *self._rows.get((unit.name, None), ()),
        ]
        frames = unit.place.frames
        if frames:
            found = [one for one in found if one.source == frames[0]] or [
                one for one in found if one.user_source is not None and one.user_source in frames
            ]
        layer = unit.place.layer
        if len(found) > 1 and layer is not None:
            found = [one for one in found if layer in one.row.layers] or found
        if len(found) < 2:
            return found[0].index if found else None
        spot, turn = self._next(unit)
        counts = {one.row.count for one in found}
        if len(counts) > 1 or self._runs[spot] != counts.pop() * len(found):
            return None
        return found[turn % len(found)].index

    def _next(self, unit: Unit) -> tuple[Spot, int]:
        """The spot of a unit, and how many of it came before."""
        spot = _spot(unit)
        turn = self._turn.get(spot, 0)
        self._turn[spot] = turn + 1
        return spot, turn

    def groups(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """The groups that a run of a group may be, with the share of its time that each gets: one group, or
        those that share a compiled kernel."""
        for one in unit.launched:
            match = _KERNEL.match(one.name)
            block, of = self._kernels.get(match[1], (None, [])) if match else (None, [])
            if of and (block is None or not one.block or one.block == tuple(block)):
                same = [group for group in of if group.phase in (None, unit.phase)] or of
                total = sum(group.count for group in same)
                return [(group, group.count / total) for group in same]
        if _PARTITION.match(unit.name):
            return self._partition(unit)
        return self._named(unit)

    def _partition(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """Partitions of oneDNN Graph are numbered as they are made, as groups are in a log."""
        if len(self._partitions) == 1:
            return [(self._partitions[0], 1.0)]
        if unit.name not in self._numbered or len(self._numbered) != len(self._partitions):
            return ()
        return [(self._partitions[self._numbered[unit.name]], 1.0)]

    def _named(self, unit: Unit) -> Sequence[tuple[Group, float]]:
        """By the name that NNC gives the kernel: its operators. Several groups of that name run in the order
        in which they appeared, where each runs once a step."""
        key = (unit.name, unit.phase)
        if key not in self._known:
            self._known[key] = self._called(*key)
        found = self._known[key]
        if len(found) < 2:
            return [(group, 1.0) for group in found]
        if any(group.count > 1 for group in found):
            return ()
        spot, turn = self._next(unit)
        return [(found[turn], 1.0)] if self._runs[spot] == len(found) else ()

    def _called(self, called: str, phase: str) -> list[Group]:
        """The groups whose kernel has that name, whole or cut."""
        start = _HASH.sub("", called)
        return [
            group
            for (name, of_phase), of in self._by_name.items()
            if of_phase in (None, phase)
            and (name == called or (len(name) > len(called) > len(start) and name.startswith(start)))
            for group in of
        ]


Spot = Tuple[int, str, str, Optional[Tuple[str, int]], Optional[str]]
"""What units have in common that are told apart by their turn alone."""


def _spot(unit: Unit) -> Spot:
    place = unit.place
    return unit.step, unit.phase, unit.name, place.frames[0] if place.frames else None, place.layer


def nnc_name(group: Group) -> str:
    """What NNC calls the kernel of a group before it is cut to 40 characters: ``fused_add_mul``
    (``generateNameForGraph``, torch/csrc/jit/passes/utils/subgraph_utils.cpp)."""
    names = [op[len("aten::") :] for op in group.ops if op.startswith("aten::")]
    return "_".join(["fused", *names])


def _position(text: str | None) -> tuple[str, int] | None:
    place = Source.parse(text)
    return (place.file, place.line) if place is not None else None
