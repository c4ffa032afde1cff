"""Ranks of one run against one another: which groups are equal, where they differ and why, who is slowest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import median

from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Group, Kernel, OpNode, Report, Unfused, shared_positions
from fusiondoc.model.runs import (
    RankDifference,
    RankFacts,
    RankRow,
    Ranks,
    RankTold,
    SharedGroup,
    SlowRank,
    rank_names,
)
from fusiondoc.model.source import SharedPositions
from fusiondoc.numbers import whole_numbers

_DEVICE = re.compile(r"device=(\w+):(\d+)")
_MOST_KERNELS = 50
_MOST_DIFFERENCES = 100
_MOST_RANKS = 100_000
"""Processes of one job."""

NO_TAGS = (
    "No line names its process. Equal groups are on several GPUs: of a process for each, or of one that uses"
    " them all; counted here by the GPU of their types. Let the launcher tag lines: torchrun --tee 3,"
    " srun --label, mpirun --tag-output, or one file a rank."
)


def ranks_of(report: Report, told: RankTold | None) -> Ranks | None:
    """What there is to say of several ranks; None for a run of one process.

    Args:
        told: how the ranks are known, and what else is known of them; None: by the rows of the report, or by
            the devices of its groups where these name no rank.
    """
    place: Mapping[str, int] = {group.id: group.rank for group in report.groups if group.rank is not None}
    if told is None:
        place = _by_device(report.groups)
        if len(set(place.values())) < 2:
            return None
        told = RankTold("devices", note=NO_TAGS)
    numbers = sorted({one.rank for one in told.ranks} | set(place.values()) | _of_rows(report))
    if len(numbers) < 2 and (told.expected or 0) < 2:
        return None
    facts = {one.rank: one for one in told.ranks}
    compared = _Compared(report, place, numbers, facts, told.known_by == "devices")
    missing = _missing(numbers, told)
    rows = tuple(map(compared.row, numbers))
    differences = tuple(compared.differences(rows, missing))
    return Ranks(
        known_by=told.known_by,
        expected=told.expected,
        missing=missing,
        note=told.note,
        rows=rows,
        groups=compared.shared,
        differences=differences[:_MOST_DIFFERENCES],
        slowest_step=_slowest("step", {row.rank: row.step_ms for row in rows}),
        slowest_kernels=compared.slowest_kernels(),
        differences_left_out=max(0, len(differences) - _MOST_DIFFERENCES),
    )


def _missing(numbers: Sequence[int], told: RankTold) -> tuple[int, ...]:
    """Ranks that left no log; none where the largest number is none of a rank (a GPU, a damaged log)."""
    total = told.expected or numbers[-1] + 1
    if told.known_by == "devices" or total > _MOST_RANKS:
        return ()
    seen = set(numbers)
    return tuple(one for one in range(total) if one not in seen)


def _by_device(groups: Sequence[Group]) -> dict[str, int]:
    """Group -> number of the GPU of its types, for groups that are equal but for it; {} for none."""
    alike: dict[Hashable, dict[int, str]] = defaultdict(dict)
    positions = shared_positions(groups, ())
    for group in groups:
        devices = set(whole_numbers(found[2] for text in group.inputs for found in _DEVICE.finditer(text)))
        if len(devices) == 1:
            alike[_key(group, positions)].setdefault(devices.pop(), group.id)
    return {name: device for found in alike.values() if len(found) > 1 for device, name in found.items()}


def _of_rows(report: Report) -> set[int]:
    rows: Iterable[Unfused | Kernel] = (*report.unfused, *report.kernels)
    return {row.rank for row in rows if row.rank is not None}


def _type(text: str) -> str:
    return _DEVICE.sub(r"device=\1", text)


def _nodes(group: Group, positions: SharedPositions) -> tuple[tuple[str, str | None], ...]:
    return tuple((node.op, positions.of(node.source)) for node in group.nodes)


def _key(group: Group, positions: SharedPositions) -> Hashable:
    """What equal groups have in common."""
    types = tuple(map(_type, group.inputs)), tuple(map(_type, group.outputs))
    return group.kind, group.phase, _nodes(group, positions), types


class _Compared:
    """The rows of a report by rank."""

    def __init__(
        self,
        report: Report,
        place: Mapping[str, int],
        numbers: Sequence[int],
        facts: Mapping[int, RankFacts],
        by_device: bool,
    ) -> None:
        self._report = report
        self._place = place
        self._numbers = numbers
        self._facts = facts
        self._by_device = by_device
        self._groups = {group.id: group for group in report.groups}
        self._positions = positions = shared_positions(report.groups, report.unfused)
        of_rank: dict[int, list[Group]] = defaultdict(list)
        same_operators: dict[Hashable, list[Group]] = defaultdict(list)
        seen: dict[Hashable, int] = defaultdict(int)
        equal: dict[Hashable, list[Group]] = defaultdict(list)
        for group in report.groups:
            rank = place.get(group.id)
            if rank is None:
                continue
            of_rank[rank].append(group)
            same_operators[group.phase, _nodes(group, positions)].append(group)
            key = _key(group, positions)
            # The nth of equal groups of a rank is compared with the nth of another.
            equal[key, seen[rank, key]].append(group)
            seen[rank, key] += 1
        self._of_rank = of_rank
        self._same_operators = same_operators
        self._told: set[str] = set()
        self._equal = list(equal.values())
        self.shared = tuple(
            SharedGroup(tuple(one.id for one in groups), tuple(place[one.id] for one in groups))
            for groups in self._equal
        )
        self._unfused: dict[int | None, list[Unfused]] = defaultdict(list)
        for row in report.unfused:
            self._unfused[row.rank].append(row)

    def row(self, rank: int) -> RankRow:
        """What one rank has."""
        facts = self._facts.get(rank, RankFacts(rank))
        kernels = self._kernels(rank)
        times = [k.ms.median * (k.launches or 1) for k in kernels if k.ms is not None]
        groups = self._of_rank.get(rank, [])
        return RankRow(
            rank=rank,
            host=facts.host,
            torch=facts.torch,
            gpu=facts.gpu,
            ended=facts.ended,
            failed=facts.failed,
            where=facts.where,
            restarts=facts.restarts,
            groups=sum(one.count for one in groups),
            operators=sum(one.operators for one in groups if one.specialisation == 1),
            unfused=sum(row.count for row in self._unfused[rank] if row.ran is not False),
            fallbacks=sum(one.count for one in self._report.fallbacks if one.rank == rank),
            kernels=len(kernels),
            kernel_ms=round(sum(times), 6) if times else None,
            step_ms=round(median(facts.step_ms), 6) if facts.step_ms else None,
        )

    def _kernels(self, rank: int) -> list[Kernel]:
        if not self._by_device:
            return [kernel for kernel in self._report.kernels if kernel.rank == rank]
        mine = {name for name, number in self._place.items() if number == rank}
        return [kernel for kernel in self._report.kernels if mine & set(kernel.groups)]

    def differences(self, rows: Sequence[RankRow], missing: tuple[int, ...]) -> Iterable[RankDifference]:
        """What is not the same everywhere, with what explains it: ends, machines, groups, fallbacks."""
        if missing:
            yield RankDifference(
                "missing",
                f"{rank_names(missing)} left no log",
                missing,
                why="Another machine's ranks are in a capture there; or they never started, which the"
                " launcher's own output says."
                if self._facts
                else "No file or line of theirs was given.",
            )
        # One that died of a signal comes first: the others then fail because they lose it.
        for row in sorted(rows, key=lambda row: (not (row.ended or "").startswith("died of"), row.rank)):
            if row.failed and row.ended is not None:
                at = f", at {row.where}" if row.where else ""
                yield RankDifference("ended", f"rank {row.rank} {row.ended}{at}", (row.rank,))
        for what in ("torch", "gpu"):
            found: dict[str, list[int]] = defaultdict(list)
            for row in rows:
                value = getattr(row, what)
                if value is not None:
                    found[value].append(row.rank)
            if len(found) > 1:
                for value, ranks in found.items():
                    text = f"{what if what == 'torch' else 'GPU'} {value} on {rank_names(tuple(ranks))}"
                    yield RankDifference(what, text, tuple(ranks))
        empty = [row.rank for row in rows if not row.groups]
        if empty and len(empty) < len(rows):
            for rank in empty:
                yield RankDifference(
                    "no groups", f"rank {rank} has no group", (rank,), why=self._no_groups(rank)
                )
        yield from self._group_differences({row.rank for row in rows if row.groups})
        fell = {row.rank for row in rows if row.fallbacks}
        if fell and len(fell) < len(rows):
            text = f"groups fell back on {rank_names(tuple(fell))} alone"
            yield RankDifference("fallback", text, tuple(sorted(fell)), why=self._fallback_error(fell))

    def _no_groups(self, rank: int) -> str | None:
        facts = self._facts.get(rank)
        if facts is not None and facts.ended is not None:
            return f"it {facts.ended}"
        rows = self._unfused[rank]
        if not rows:
            return "its log holds no plan"
        counts: dict[str, int] = defaultdict(int)
        for row in rows:
            counts[f"{row.reason.text} ({row.reason.code})"] += row.count
        return f"its operators are in no group: {max(sorted(counts), key=lambda one: counts[one])}"

    def _group_differences(self, having: set[int]) -> Iterable[RankDifference]:
        for groups in self._equal:
            there = {self._place[one.id] for one in groups}
            absent = sorted(having - there)
            counts: dict[int, list[int]] = defaultdict(list)
            for one in groups:
                counts[one.count].append(self._place[one.id])
            if len(counts) > 1:
                text = "; ".join(
                    f"{n} times on {rank_names(tuple(ranks))}" for n, ranks in sorted(counts.items())
                )
                ids = tuple(one.id for one in groups)
                text = f"{ids[0]} ({_ops(groups[0])}): {text}"
                yield RankDifference("group", text, tuple(sorted(there)), ids)
            first = groups[0]
            if not absent or first.id in self._told:
                continue
            same = self._with_other_types(first, absent)
            yield RankDifference(
                "group",
                f"{first.id} ({_ops(first)}) is on {rank_names(tuple(there))}"
                f" and not on {rank_names(tuple(absent))}",
                tuple(sorted(there)),
                tuple(one.id for one in groups),
                why=same or self._why_absent(first, absent),
                other_types=same is not None,
            )

    def _with_other_types(self, group: Group, absent: Sequence[int]) -> str | None:
        """The same group with other input types, on one of these ranks; None where there is none."""
        others = self._same_operators[group.phase, _nodes(group, self._positions)]
        there = [other for other in others if self._place[other.id] in absent]
        for other in sorted(there, key=lambda one: self._place[one.id]):
            pair = _first_difference(group, other)
            if pair is not None:
                self._told.add(other.id)  # the same difference, seen from there
                rank = self._place[other.id]
                return f"other types: {pair[1]} on rank {rank} ({other.id}), {pair[0]} here"
        return None

    def _why_absent(self, group: Group, absent: Sequence[int]) -> str | None:
        """Why the group is not on those ranks, by the first of them that shows it."""
        positions = self._positions
        nodes = _nodes(group, positions)
        # Torch's own gradient formulas are the same lines for every function: they show no source position.
        there = {(op, source) for op, source in nodes if source is not None and source[:1] != "<"}
        lines = {source for _, source in there}
        for rank in absent:
            rows = [row for row in self._unfused[rank] if (row.op, positions.of(row.source)) in there]
            if rows:
                row = rows[0]
                return f"on rank {rank} {row.op} is in no group: {row.reason.text} ({row.reason.code})"
            parts = [one for one in self._of_rank.get(rank, []) if there & set(_nodes(one, positions))]
            if parts:
                ids = ", ".join(one.id for one in parts[:4])
                return f"on rank {rank} its operators are in {ids}, cut otherwise"
            facts = self._facts.get(rank)
            if facts is not None and facts.ended is not None:
                return f"rank {rank} {facts.ended}"
            if lines and not any(positions.of(op.source) in lines for op in self._operators(rank)):
                return (
                    f"no plan of rank {rank} holds these lines: it ran them fewer than three times, or never"
                )
        return None

    def _operators(self, rank: int) -> Iterable[OpNode | Unfused]:
        for group in self._of_rank.get(rank, []):
            yield from group.nodes
        yield from self._unfused[rank]

    def _fallback_error(self, ranks: set[int]) -> str | None:
        errors = [one.error for one in self._report.fallbacks if one.rank in ranks and one.error]
        return errors[0] if errors else None

    def slowest_kernels(self) -> tuple[SlowRank, ...]:
        """Kernels of equal groups, the nth of each, with times on several ranks."""
        kernels = {kernel.id: kernel for kernel in self._report.kernels}
        found: dict[tuple[str, ...], tuple[float, SlowRank]] = {}
        for groups in self._equal:
            lists = {self._place[one.id]: [kernels[k] for k in one.kernels if k in kernels] for one in groups}
            for nth in range(max(map(len, lists.values()), default=0)):
                mine = {rank: rows[nth] for rank, rows in lists.items() if nth < len(rows)}
                times = {rank: k.ms.median for rank, k in mine.items() if k.ms is not None}
                ids = tuple(kernel.id for kernel in mine.values())
                slow = _slowest(next(iter(mine.values())).name, times, ids)
                if slow is not None and ids not in found:
                    launches = mine[slow.rank].launches or 1
                    found[ids] = ((slow.ms - slow.others_ms) * launches, slow)
        # Without groups a kernel is known by its name: they are numbered in the order of their compiling.
        by_name: dict[str, dict[int, Kernel]] = defaultdict(dict)
        for kernel in self._report.kernels:
            if not kernel.groups and kernel.rank is not None:
                by_name[kernel.name].setdefault(kernel.rank, kernel)
        for name, mine in by_name.items():
            times = {rank: k.ms.median for rank, k in mine.items() if k.ms is not None}
            ids = tuple(kernel.id for kernel in mine.values())
            slow = _slowest(name, times, ids)
            if slow is not None:
                found[ids] = ((slow.ms - slow.others_ms) * (mine[slow.rank].launches or 1), slow)
        rows = sorted(found.values(), key=lambda one: (-one[0], one[1].what, one[1].rank))
        return tuple(slow for _, slow in rows[:_MOST_KERNELS])


def _ops(group: Group) -> str:
    names = [op.rpartition("::")[2] for op in group.ops]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _first_difference(one: Group, other: Group) -> tuple[str, str] | None:
    for a, b in zip((*one.inputs, *one.outputs), (*other.inputs, *other.outputs)):
        if _type(a) != _type(b):
            return a, b
    return None


def _slowest(what: str, times: Mapping[int, float | None], kernels: tuple[str, ...] = ()) -> SlowRank | None:
    """None for fewer than two times."""
    known = {rank: ms for rank, ms in times.items() if ms is not None}
    if len(known) < 2:
        return None
    rank = max(sorted(known), key=lambda one: known[one])
    others = median(ms for one, ms in known.items() if one != rank)
    ratio = known[rank] / others if others > 0 else 1.0
    return SlowRank(what, rank, round(known[rank], 6), round(others, 6), round(ratio, 4), kernels)


def to_do(one: RankDifference) -> Remedy | None:
    """What to change for a difference; None where it may be meant."""
    if one.other_types:
        return Remedy(
            "Give all ranks batches of one size (drop_last=True, or padding).",
            "Each size compiles a plan of its own, and the others wait meanwhile.",
        )
    return _RANKS_TO_DO.get(one.what)


_RANKS_TO_DO = {
    "ended": Remedy("Mend that rank first.", "What the others lack may only be what they had not come to."),
    "torch": Remedy("Give all ranks the same torch: other releases fuse other groups."),
    "gpu": Remedy("Put the ranks on equal GPUs, or expect the slowest to set the pace."),
    "no groups": Remedy(
        "Let that rank run what the others run.", "The section on ranks says why it has no group."
    ),
    "fallback": Remedy("See why groups fell back there (FD301).", "The others wait for that rank."),
}
