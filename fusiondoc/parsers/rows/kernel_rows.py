"""Kernels and fallbacks of a run as the report has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from fusiondoc.fusers import FUSER_OF_KIND, FUSERS
from fusiondoc.model import dataclass
from fusiondoc.model.report import Dump, Fallback, Kernel, Segment
from fusiondoc.model.runs import Spread
from fusiondoc.parsers.facts import Facts, FallbackSeen, KernelUse, Runtime
from fusiondoc.parsers.ir.types import TensorType, parse_type
from fusiondoc.parsers.jit.plan import GroupGraph
from fusiondoc.parsers.kernels.code_traits import code_traits, scheduler_of_code
from fusiondoc.parsers.rows import PackedEvidence
from fusiondoc.parsers.rows.group_rows import GroupRow, GroupTable, Member
from fusiondoc.parsers.rows.segment_rows import (
    Cut,
    Scheduled,
    cuts_of,
    scheduled,
    segments_of,
)


def spread(values: Sequence[float]) -> Spread | None:
    """Minimum, median and maximum; None for no values."""
    if not values:
        return None
    return Spread(min(values), float(median(values)), max(values))


class KernelRows(NamedTuple):
    """The kernels of one stream, and the segments of its groups (by the id of the
    group)."""

    kernels: list[Kernel]
    segments: dict[str, tuple[Segment, ...]]
    run_by: dict[Member, list[str]]
    """Instance of a group -> ids of the kernels that run it."""
    left_out: dict[str, int]
    """Id of a group -> number of kernels of its graph that its row does not
    list."""
    ids: dict[KernelUse, str]
    """The ids of the kernels with launches."""


MOST_PAIRS = 20_000
"""Number of pairs of a kernel and a group of one graph that are listed: 140 equal
groups with 140 kernels. Above it, the first groups list all kernels and the first
kernels list all groups."""


@dataclass
class _Graph:
    """The rows, instances and kernels of one graph."""

    rows: list[GroupRow]
    members: list[Member]
    kernels: int = 0
    seen: int = 0
    """Number of ``kernels`` that were handed out by ``_Ties.of``."""

    @property
    def pairs(self) -> int:
        return self.kernels * max(len(self.members), len(self.rows))

    @property
    def first_kernels(self) -> int:
        """The number of kernels that list all groups."""
        return max(1, MOST_PAIRS // max(1, len(self.members), len(self.rows)))

    @property
    def first_groups(self) -> int:
        """The number of groups that list all kernels."""
        return max(1, MOST_PAIRS // max(1, self.kernels))


class _Tied(NamedTuple):
    """The groups to which a kernel belongs."""

    rows: Sequence[GroupRow]
    members: Sequence[Member]
    left_out: int = 0
    """Number of rows that are not listed."""


class _Ties:
    """Maps kernels to groups: a kernel of a graph can belong to any group with that
    graph."""

    def __init__(
        self, graphs: Iterable[GroupGraph | None], groups: GroupTable
    ) -> None:
        self._graphs: dict[bytes, _Graph] = {}
        for graph in graphs:
            if graph is None:
                continue
            known = self._graphs.get(graph.canonical)
            if known is None:
                rows = groups.of_graph(graph)
                known = self._graphs[graph.canonical] = _Graph(
                    rows, _instances(rows, graph)
                )
            known.kernels += 1

    def of(self, graph: GroupGraph | None) -> _Tied:
        """Return the groups of the next kernel of this graph."""
        if graph is None:
            return _Tied((), ())
        known = self._graphs[graph.canonical]
        known.seen += 1
        if known.pairs <= MOST_PAIRS or known.seen <= known.first_kernels:
            return _Tied(known.rows, known.members)
        most = known.first_groups
        return _Tied(
            known.rows[:most], known.members[:most], max(0, len(known.rows) - most)
        )

    def left_out(self) -> dict[str, int]:
        """Id of a group -> number of kernels of its graph that do not list it."""
        numbers = {}
        for known in self._graphs.values():
            if known.pairs > MOST_PAIRS and known.kernels > known.first_kernels:
                for row in known.rows[known.first_groups :]:
                    numbers[row.id] = known.kernels - known.first_kernels
        return numbers


def kernels_of(
    facts: Facts, groups: GroupTable, first: int, files: list[str]
) -> KernelRows:
    """Return the kernels of one stream: those with launches in order of
    compilation, then the others in order of their first print. Their ids begin with
    K``first``."""
    # In a log that is not in true order, the order between stdout and stderr means
    # nothing.
    runtimes = () if facts.disordered else facts.runtimes
    cuts = [(runtime, cuts_of(runtime)) for runtime in runtimes]
    ids = {use: f"K{number}" for number, use in enumerate(facts.kernels, first)}
    by_use = scheduled(cut for _, of_runtime in cuts for cut in of_runtime)
    graphs = [_graph_of(use) for use in facts.kernels]
    ties = _Ties((*graphs, *(made.graph for made in facts.printed_kernels)), groups)
    tied = [ties.of(graph) for graph in graphs]
    kernels = _compiled_kernels(facts, tied, ids, by_use, files)
    run_by: dict[Member, list[str]] = {}
    for use, own in zip(facts.kernels, tied):
        for member in own.members:
            run_by.setdefault(member, []).append(ids[use])
    owners = _owners(facts, groups, ties)
    for number, members in enumerate(owners, first + len(kernels)):
        for member in members:
            run_by.setdefault(member, []).append(f"K{number}")
    kernels += _printed_kernels(facts, groups, owners, first + len(kernels), files)
    return KernelRows(
        kernels, _segments(cuts, groups, ids, files), run_by, ties.left_out(), ids
    )


def _instances(rows: Sequence[GroupRow], graph: GroupGraph | None) -> list[Member]:
    """Return the nodes of these rows whose body is this graph; all nodes if only a
    fallback function has it."""
    members = []
    for row in rows:
        members.extend(row.members)
    own = []
    for member in members:
        if graph is not None and member.canonical == graph.canonical:
            own.append(member)
    return own or members


def _compiled_kernels(
    facts: Facts,
    tied: Sequence[_Tied],
    ids: Mapping[KernelUse, str],
    by_use: Mapping[KernelUse, Scheduled],
    files: list[str],
) -> list[Kernel]:
    kernels = []
    for use, own in zip(facts.kernels, tied):
        scheduler, dumps = by_use.get(use) or _scheduling(use, facts.disordered)
        traits = code_traits(
            use.kept_code,
            (seen.text for seen in dumps if seen.option == "cuda_full"),
        )
        kernels.append(
            Kernel(
                id=ids[use],
                name=use.name,
                groups=tuple(row.id for row in own.rows),
                groups_left_out=own.left_out,
                launches=use.launches or None,
                block=use.block,
                grid=use.grid,
                smem_bytes=use.smem,
                ms=spread(use.ms or use.first_ms),
                gb_per_s=spread(use.gb_per_s or use.first_gb_per_s),
                peak_fraction=None,
                registers=use.registers,
                spill_bytes=use.spill,
                code=use.kept_code,
                compiles=use.compiles or use.reports or None,
                evidence=PackedEvidence(use.lines, files),
                rank=facts.rank,
                dumps=tuple(
                    Dump(seen.option, seen.text, PackedEvidence(seen.lines, files))
                    for seen in dumps
                ),
                scheduler=scheduler or scheduler_of_code(traits, use.kept_code),
                traits=traits,
                occupancy=use.occupancy,
                first_ms=float(median(use.first_ms)) if use.first_ms else None,
                bytes_moved=use.bytes,
            )
        )
    return kernels


def _scheduling(use: KernelUse, disordered: bool) -> Scheduled:
    """Return the scheduler and dumps that the kernel's own lines state."""
    if not disordered:
        return Scheduled(use.scheduler, use.dumps)
    stated = any(seen.option == "perf_debug_verbose" for seen in use.dumps)
    dumps = tuple(seen for seen in use.dumps if seen.option != "scheduler_params")
    return Scheduled(use.scheduler if stated else None, dumps)


def _segments(
    cuts: Sequence[tuple[Runtime, list[Cut]]],
    groups: GroupTable,
    ids: Mapping[KernelUse, str],
    files: list[str],
) -> dict[str, tuple[Segment, ...]]:
    """Return the segments of each group, by its id. A group that ran with several
    shapes was segmented for each: the last segmentation counts, with the kernels of
    all equal segmentations."""
    segments: dict[str, tuple[Segment, ...]] = {}
    for runtime, cut in cuts:
        for row in groups.of_cache(runtime.owner) if cut else ():
            made = segments_of(
                runtime, cut, [op for op, _ in row.group.body], ids, files
            )
            before = segments.get(row.id, ())
            if [_shape(s) for s in made] == [_shape(s) for s in before]:
                made = tuple(
                    replace(
                        new,
                        kernels=tuple(dict.fromkeys((*old.kernels, *new.kernels))),
                    )
                    for old, new in zip(before, made)
                )
            segments[row.id] = made
    return segments


def _shape(segment: Segment) -> tuple[object, ...]:
    return segment.index, segment.scheduler, segment.refused, segment.ops


def _graph_of(use: KernelUse) -> GroupGraph | None:
    """Return the graph of the group to which a kernel belongs; None if that is not
    known."""
    if use.disputed or use.owner is None:
        return None
    return use.owner.graph


class FallbackRows(NamedTuple):
    """The fallbacks of one stream, and the ids of all groups that fell back."""

    fallbacks: list[Fallback]
    groups: frozenset[str]


def fallbacks_of(
    facts: Facts, groups: GroupTable, files: list[str]
) -> FallbackRows:
    """Return the fallbacks, one row for each (stage, group)."""
    fell_back: set[str] = set()
    rows: dict[tuple[str | None, str | None], list[FallbackSeen]] = {}
    for seen in facts.fallbacks:
        owners = groups.of_graph(seen.graph) or groups.of_cache(seen.owner)
        fell_back.update(row.id for row in owners)
        rows.setdefault((seen.stage, owners[0].id if owners else None), []).append(
            seen
        )
    error = None
    if any(_of_fuser(one.text) for one in facts.errors):
        error = facts.errors[0].text
    made = [
        Fallback(
            stage=stage if stage is not None else "run",
            group=group,
            count=len(seen),
            count_exact=all(s.exact for s in seen),
            error=error,
            evidence=PackedEvidence(
                [line for s in seen for line in s.lines], files
            ),
            rank=facts.rank,
        )
        for (stage, group), seen in rows.items()
    ]
    return FallbackRows(made, frozenset(fell_back))


def _of_fuser(text: str) -> bool:
    for fuser in FUSERS.values():
        for mark in fuser.errors.marks:
            if mark in text:
                return True
    return False


def _printed_kernels(
    facts: Facts,
    groups: GroupTable,
    owners: Sequence[Sequence[Member]],
    first: int,
    files: list[str],
) -> list[Kernel]:
    kernels = []
    row_of = {}
    for row in groups.rows:
        for member in row.members:
            row_of[member] = row.id
    for number, (made, members) in enumerate(
        zip(facts.printed_kernels, owners), first
    ):
        evidence = PackedEvidence(made.lines, files)
        dumps = []
        for option, text in made.texts.items():
            dumps.append(Dump(option, text, evidence))
        kernels.append(
            Kernel(
                id=f"K{number}",
                name=made.name,
                groups=tuple(dict.fromkeys(row_of[member] for member in members)),
                launches=made.launches or None,
                block=made.block,
                grid=made.grid,
                smem_bytes=None,
                ms=spread(made.ms),
                gb_per_s=None,
                peak_fraction=None,
                registers=None,
                spill_bytes=None,
                code=made.code,
                compiles=made.compiles or None,
                evidence=evidence,
                rank=facts.rank,
                dumps=tuple(dumps),
                implementation=made.implementation,
            )
        )
    return kernels


def _owners(
    facts: Facts, groups: GroupTable, ties: _Ties
) -> list[Sequence[Member]]:
    """Return the instances that each kernel runs. A log has the graph of a kernel,
    or operators and sizes of a partition: partitions with equal operators and sizes
    are assigned to the groups with the same ones, in order, if there are as many
    groups and none is in a branch."""
    found: list[Sequence[Member]] = []
    for kernel in facts.printed_kernels:
        found.append(ties.of(kernel.graph).members)
    alike: dict[_Shape, list[int]] = {}
    for index, kernel in enumerate(facts.printed_kernels):
        if kernel.operators:
            alike.setdefault((kernel.operators, kernel.tensors[1]), []).append(
                index
            )
    if not alike:
        return found
    rows: dict[_Shape, list[Member]] = {}
    for row in groups.rows:
        if FUSER_OF_KIND[row.group.kind].limits.partitions:
            rows.setdefault(_shape_of(row), []).extend(row.members)
    for shape, indexes in alike.items():
        fitting = rows.get(shape, [])
        branches = any(member.conditional for member in fitting)
        if len(fitting) == len(indexes) and (len(indexes) == 1 or not branches):
            for index, member in zip(indexes, fitting):
                found[index] = [member]
    return found


_Shape = tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]
"""(operators, sizes of the outputs)."""


def _shape_of(row: GroupRow) -> _Shape:
    return tuple(op for op, _ in row.group.body), tuple(
        _sizes(text) for text in row.group.outputs
    )


def _sizes(text: str) -> tuple[int, ...]:
    tensor = parse_type(text)
    if (
        not isinstance(tensor, TensorType)
        or tensor.sizes is None
        or None in tensor.sizes
    ):
        return (-1,)
    return tuple(size for size in tensor.sizes if size is not None)
