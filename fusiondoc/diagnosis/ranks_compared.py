"""Compares the ranks of one run: which groups are equal, where the ranks differ and
why, and which rank is slowest."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import median

from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Group, Kernel, OpNode, Report, Unfused
from fusiondoc.model.runs import (
    RankDifference,
    RankFacts,
    RankRow,
    Ranks,
    RankSummary,
    SharedGroup,
    SlowRank,
    rank_names,
)
from fusiondoc.model.shared_positions import SharedPositions, shared_positions
from fusiondoc.numbers import whole_numbers

_DEVICE = re.compile(r"device=(\w+):(\d+)")
_MOST_KERNELS = 50
_MOST_DIFFERENCES = 100
_MOST_RANKS = 100_000
"""Processes of one job, at most."""

NO_TAGS = (
    "No line names its process. Equal groups are on several GPUs: either each GPU has a process, or one"
    " process uses them all. They are counted here by the GPU in their types. Let the launcher tag"
    " lines: torchrun --tee 3, srun --label, mpirun --tag-output, or one file a rank."
)


def ranks_of(report: Report, known: RankSummary | None) -> Ranks | None:
    """Return the comparison of several ranks; None for a run of one process.

    Args:
        known: how the ranks are known, and facts about them; None: by the rows of
            the report, or by the devices of its groups if the rows name no rank.
    """
    rank_of: Mapping[str, int] = {
        group.id: group.rank for group in report.groups if group.rank is not None
    }
    if known is None:
        rank_of = _by_device(report.groups)
        if len(set(rank_of.values())) < 2:
            return None
        known = RankSummary("devices", note=NO_TAGS)
    facts = {rank.rank: rank for rank in known.ranks}
    numbers = sorted({*facts, *rank_of.values(), *_of_rows(report)})
    if len(numbers) < 2 and (known.expected or 0) < 2:
        return None
    compared = _Compared(report, rank_of, facts, known.known_by == "devices")
    missing = _missing(numbers, known)
    rows = tuple(map(compared.row, numbers))
    differences = tuple(compared.differences(rows, missing))
    return Ranks(
        known_by=known.known_by,
        expected=known.expected,
        missing=missing,
        note=known.note,
        rows=rows,
        groups=compared.shared,
        differences=differences[:_MOST_DIFFERENCES],
        slowest_step=_slowest("step", {row.rank: row.step_ms for row in rows}),
        slowest_kernels=compared.slowest_kernels(),
        differences_left_out=max(0, len(differences) - _MOST_DIFFERENCES),
    )


def _missing(numbers: Sequence[int], known: RankSummary) -> tuple[int, ...]:
    """Return the ranks that left no log; none if the largest number cannot be a
    rank (a GPU, a damaged log)."""
    total = known.expected or numbers[-1] + 1
    if known.known_by == "devices" or total > _MOST_RANKS:
        return ()
    seen = set(numbers)
    return tuple(rank for rank in range(total) if rank not in seen)


def _by_device(groups: Sequence[Group]) -> dict[str, int]:
    """Map a group to the number of the GPU in its types, for groups that differ
    only in this; {} if there are none."""
    device_of: dict[str, int] = {}
    for group in groups:
        texts = []
        for text in group.inputs:
            for found in _DEVICE.finditer(text):
                texts.append(found[2])
        devices = set(whole_numbers(texts))
        if len(devices) == 1:
            device_of[group.id] = devices.pop()
    if len(set(device_of.values())) < 2:
        return {}
    equal: dict[Hashable, dict[int, str]] = defaultdict(dict)
    positions = shared_positions(groups, ())
    for group in groups:
        if group.id in device_of:
            same = equal[_key(group, positions)]
            same.setdefault(device_of[group.id], group.id)
    several = [found for found in equal.values() if len(found) > 1]
    return {name: device for found in several for device, name in found.items()}


def _of_rows(report: Report) -> set[int]:
    rows: Iterable[Unfused | Kernel] = (*report.unfused, *report.kernels)
    return {row.rank for row in rows if row.rank is not None}


def _type(text: str) -> str:
    return _DEVICE.sub(r"device=\1", text)


def _nodes(
    group: Group, positions: SharedPositions
) -> tuple[tuple[str, str | None], ...]:
    return tuple((node.op, positions.of(node.source)) for node in group.nodes)


def _key(group: Group, positions: SharedPositions) -> Hashable:
    """Return a key that is the same for equal groups."""
    types = tuple(map(_type, group.inputs)), tuple(map(_type, group.outputs))
    return group.kind, group.phase, _nodes(group, positions), types


class _Compared:
    """The rows of a report by rank."""

    def __init__(
        self,
        report: Report,
        rank_of: Mapping[str, int],
        facts: Mapping[int, RankFacts],
        by_device: bool,
    ) -> None:
        self._report = report
        self._rank_of = rank_of
        self._facts = facts
        self._by_device = by_device
        self._positions = positions = shared_positions(
            report.groups, report.unfused
        )
        of_rank: dict[int, list[Group]] = defaultdict(list)
        same_operators: dict[Hashable, list[Group]] = defaultdict(list)
        seen: dict[Hashable, int] = defaultdict(int)
        equal: dict[Hashable, list[Group]] = defaultdict(list)
        for group in report.groups:
            rank = rank_of.get(group.id)
            if rank is None:
                continue
            of_rank[rank].append(group)
            same_operators[group.phase, _nodes(group, positions)].append(group)
            key = _key(group, positions)
            # The nth of equal groups of a rank is compared with the nth of another
            # rank.
            equal[key, seen[rank, key]].append(group)
            seen[rank, key] += 1
        self._of_rank = of_rank
        self._same_operators = same_operators
        self._shown: set[str] = set()
        """Groups whose difference is already shown from another rank."""
        self._equal = list(equal.values())
        self.shared = tuple(
            SharedGroup(
                tuple(group.id for group in groups),
                tuple(rank_of[group.id] for group in groups),
            )
            for groups in self._equal
        )
        self._unfused: dict[int | None, list[Unfused]] = defaultdict(list)
        for row in report.unfused:
            self._unfused[row.rank].append(row)

    def row(self, rank: int) -> RankRow:
        """Return the row of a rank."""
        facts = self._facts.get(rank, RankFacts(rank))
        kernels = self._kernels(rank)
        times = []
        for k in kernels:
            if k.ms is not None:
                times.append(k.ms.median * (k.launches or 1))
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
            operators=sum(
                one.operators for one in groups if one.specialisation == 1
            ),
            unfused=sum(
                row.count for row in self._unfused[rank] if row.may_have_run
            ),
            fallbacks=sum(
                one.count for one in self._report.fallbacks if one.rank == rank
            ),
            kernels=len(kernels),
            kernel_ms=round(sum(times), 6) if times else None,
            step_ms=round(median(facts.step_ms), 6) if facts.step_ms else None,
        )

    def _kernels(self, rank: int) -> list[Kernel]:
        if not self._by_device:
            kernels = []
            for kernel in self._report.kernels:
                if kernel.rank == rank:
                    kernels.append(kernel)
            return kernels
        mine = {name for name, number in self._rank_of.items() if number == rank}
        kernels = []
        for kernel in self._report.kernels:
            if mine & set(kernel.groups):
                kernels.append(kernel)
        return kernels

    def differences(
        self, rows: Sequence[RankRow], missing: tuple[int, ...]
    ) -> Iterable[RankDifference]:
        """Yield the differences between ranks, with their causes: ends, machines,
        groups, fallbacks."""
        if missing:
            yield self._missing_logs(missing)
        yield from _ends(rows)
        yield from _versions(
            "torch", "torch", {row.rank: row.torch for row in rows}
        )
        yield from _versions("gpu", "GPU", {row.rank: row.gpu for row in rows})
        empty = [row.rank for row in rows if not row.groups]
        if len(empty) < len(rows):
            for rank in empty:
                text = f"rank {rank} has no group"
                yield RankDifference(
                    "no groups", text, (rank,), why=self._no_groups(rank)
                )
        yield from self._group_differences({row.rank for row in rows if row.groups})
        fell = {row.rank for row in rows if row.fallbacks}
        if fell and len(fell) < len(rows):
            text = f"groups fell back on {rank_names(tuple(fell))} alone"
            yield RankDifference(
                "fallback",
                text,
                tuple(sorted(fell)),
                why=self._fallback_error(fell),
            )

    def _missing_logs(self, missing: tuple[int, ...]) -> RankDifference:
        why = "No file or line of these ranks was read."
        if self._facts:
            why = (
                "Another machine's ranks are in a capture there; or they never started, which the"
                " launcher's own output states."
            )
        return RankDifference(
            "missing", f"{rank_names(missing)} left no log", missing, why=why
        )

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
        """Yield the groups that differ in number, or are not on all ranks.

        Args:
            having: the ranks with groups.
        """
        for groups in self._equal:
            there = {self._rank_of[group.id] for group in groups}
            ids = tuple(group.id for group in groups)
            first = groups[0]
            counts: dict[int, list[int]] = defaultdict(list)
            for group in groups:
                counts[group.count].append(self._rank_of[group.id])
            if len(counts) > 1:
                text = f"{first.id} ({_ops(first)}): {_times_on_ranks(counts)}"
                yield RankDifference("group", text, tuple(sorted(there)), ids)
            absent = sorted(having - there)
            if absent and first.id not in self._shown:
                yield self._absent_group(first, ids, there, absent)

    def _absent_group(
        self,
        group: Group,
        ids: tuple[str, ...],
        there: set[int],
        absent: Sequence[int],
    ) -> RankDifference:
        """Return the difference for a group that some ranks lack.

        Args:
            ids: of the equal groups.
            there: the ranks that have it.
            absent: the ranks that lack it.
        """
        types = self._with_other_types(group, absent)
        return RankDifference(
            "group",
            f"{group.id} ({_ops(group)}) is on {rank_names(tuple(there))}"
            f" and not on {rank_names(tuple(absent))}",
            tuple(sorted(there)),
            ids,
            why=types or self._why_absent(group, absent),
            other_types=types is not None,
        )

    def _with_other_types(self, group: Group, absent: Sequence[int]) -> str | None:
        """Return how the input types of the same group differ on one of these
        ranks; None if none of them has it."""
        others = self._same_operators[group.phase, _nodes(group, self._positions)]
        there = [other for other in others if self._rank_of[other.id] in absent]
        for other in sorted(there, key=lambda other: self._rank_of[other.id]):
            pair = _first_difference(group, other)
            if pair is not None:
                self._shown.add(other.id)  # this difference is now shown
                rank = self._rank_of[other.id]
                return f"other types: {pair[1]} on rank {rank} ({other.id}), {pair[0]} here"
        return None

    def _why_absent(self, group: Group, absent: Sequence[int]) -> str | None:
        """Return why the group is not on those ranks, from the first rank that
        shows a reason."""
        # Torch's own gradient formulas are the same lines for every function: they
        # show no source position.
        nodes: set[tuple[str, str | None]] = set()
        for op, source in _nodes(group, self._positions):
            if source is not None and source[:1] != "<":
                nodes.add((op, source))
        for rank in absent:
            why = self._why_not_on(rank, nodes)
            if why is not None:
                return why
        return None

    def _why_not_on(
        self, rank: int, nodes: set[tuple[str, str | None]]
    ) -> str | None:
        """Return why a rank has no group of these operators (name and source); None
        if it is not known."""
        for row in self._unfused[rank]:
            if (row.op, self._positions.of(row.source)) in nodes:
                return f"on rank {rank} {row.op} is in no group: {row.reason.text} ({row.reason.code})"
        groups = self._of_rank.get(rank, [])
        sharing = []
        for group in groups:
            if nodes & set(_nodes(group, self._positions)):
                sharing.append(group.id)
        if sharing:
            return f"on rank {rank} its operators are in {', '.join(sharing[:4])}, grouped differently"
        facts = self._facts.get(rank)
        if facts is not None and facts.ended is not None:
            return f"rank {rank} {facts.ended}"
        lines = {source for _, source in nodes}
        ran = {self._positions.of(op.source) for op in self._operators(rank)}
        if lines and lines.isdisjoint(ran):
            return f"no plan of rank {rank} holds these lines: it ran them fewer than three times, or never"
        return None

    def _operators(self, rank: int) -> Iterable[OpNode | Unfused]:
        for group in self._of_rank.get(rank, []):
            yield from group.nodes
        yield from self._unfused[rank]

    def _fallback_error(self, ranks: set[int]) -> str | None:
        for one in self._report.fallbacks:
            if one.rank in ranks and one.error:
                return one.error
        return None

    def slowest_kernels(self) -> tuple[SlowRank, ...]:
        """Return the rank on which each kernel with times on several ranks is
        slowest; most time lost first."""
        found: dict[tuple[str, ...], tuple[float, SlowRank]] = {}
        for kernels in self._kernels_of_groups():
            ids = tuple(kernel.id for kernel in kernels.values())
            if ids not in found:
                slow = _slowest_of(kernels)
                if slow is not None:
                    found[ids] = slow
        for kernels in self._kernels_without_groups():
            slow = _slowest_of(kernels)
            if slow is not None:
                found[tuple(kernel.id for kernel in kernels.values())] = slow
        rows = sorted(
            found.values(), key=lambda item: (-item[0], item[1].what, item[1].rank)
        )
        return tuple(slow for _, slow in rows[:_MOST_KERNELS])

    def _kernels_of_groups(self) -> Iterable[dict[int, Kernel]]:
        """Yield the nth kernels of equal groups, by rank."""
        kernels = {kernel.id: kernel for kernel in self._report.kernels}
        for groups in self._equal:
            of_rank: dict[int, list[Kernel]] = {}
            for group in groups:
                own = []
                for name in group.kernels:
                    if name in kernels:
                        own.append(kernels[name])
                of_rank[self._rank_of[group.id]] = own
            for nth in range(max(map(len, of_rank.values()), default=0)):
                yield {
                    rank: own[nth]
                    for rank, own in of_rank.items()
                    if nth < len(own)
                }

    def _kernels_without_groups(self) -> Iterable[dict[int, Kernel]]:
        """Return kernels of the same name, by rank: a kernel without groups can
        be matched only by its name, as its number depends on the order of
        compilation."""
        by_name: dict[str, dict[int, Kernel]] = defaultdict(dict)
        for kernel in self._report.kernels:
            if not kernel.groups and kernel.rank is not None:
                by_name[kernel.name].setdefault(kernel.rank, kernel)
        return by_name.values()


def _slowest_of(kernels: Mapping[int, Kernel]) -> tuple[float, SlowRank] | None:
    """Return the slowest of the equal kernels of several ranks, and the
    milliseconds that it loses."""
    times = {}
    for rank, kernel in kernels.items():
        if kernel.ms is not None:
            times[rank] = kernel.ms.median
    ids = tuple(kernel.id for kernel in kernels.values())
    slow = _slowest(next(iter(kernels.values())).name, times, ids)
    if slow is None:
        return None
    launches = kernels[slow.rank].launches or 1
    return (slow.ms - slow.others_ms) * launches, slow


def _ends(rows: Iterable[RankRow]) -> Iterable[RankDifference]:
    """Yield the ranks that failed. A rank that died of a signal comes first: the
    others fail because they lose it."""
    failed = [row for row in rows if row.failed and row.ended is not None]
    for row in sorted(
        failed,
        key=lambda row: (not (row.ended or "").startswith("died of"), row.rank),
    ):
        at = f", at {row.where}" if row.where else ""
        yield RankDifference(
            "ended", f"rank {row.rank} {row.ended}{at}", (row.rank,)
        )


def _versions(
    what: str, title: str, values: Mapping[int, str | None]
) -> Iterable[RankDifference]:
    """Yield the ranks of each value, if there are several values."""
    found: dict[str, list[int]] = defaultdict(list)
    for rank, value in values.items():
        if value is not None:
            found[value].append(rank)
    if len(found) > 1:
        for value, ranks in found.items():
            text = f"{title} {value} on {rank_names(tuple(ranks))}"
            yield RankDifference(what, text, tuple(ranks))


def _times_on_ranks(counts: Mapping[int, Sequence[int]]) -> str:
    texts = []
    for times, ranks in sorted(counts.items()):
        texts.append(f"{times} times on {rank_names(tuple(ranks))}")
    return "; ".join(texts)


def _ops(group: Group) -> str:
    names = [op.rpartition("::")[2] for op in group.ops]
    return ", ".join(names[:4]) + (
        f" and {len(names) - 4} more" if len(names) > 4 else ""
    )


def _first_difference(group: Group, other: Group) -> tuple[str, str] | None:
    types = zip((*group.inputs, *group.outputs), (*other.inputs, *other.outputs))
    for mine, theirs in types:
        if _type(mine) != _type(theirs):
            return mine, theirs
    return None


def _slowest(
    what: str, times: Mapping[int, float | None], kernels: tuple[str, ...] = ()
) -> SlowRank | None:
    """Return the slowest rank; None if fewer than two times are known."""
    known = {rank: ms for rank, ms in times.items() if ms is not None}
    if len(known) < 2:
        return None
    rank = max(sorted(known), key=lambda rank: known[rank])
    others = median(ms for other, ms in known.items() if other != rank)
    ratio = known[rank] / others if others > 0 else 1.0
    return SlowRank(
        what,
        rank,
        round(known[rank], 6),
        round(others, 6),
        round(ratio, 4),
        kernels,
    )


def to_do(difference: RankDifference) -> Remedy | None:
    """Return how to remove a difference; None if it may be intended."""
    if difference.other_types:
        return Remedy(
            "Give all ranks batches of one size (drop_last=True, or padding).",
            "Each size compiles a plan of its own, and the others wait meanwhile.",
        )
    return _RANKS_TO_DO.get(difference.what)


_RANKS_TO_DO = {
    "ended": Remedy(
        "Fix that rank first.",
        "The other ranks may have stopped before they made the same groups.",
    ),
    "torch": Remedy(
        "Give all ranks the same torch: other releases fuse other groups."
    ),
    "gpu": Remedy(
        "Put the ranks on equal GPUs, or expect the slowest to set the pace."
    ),
    "no groups": Remedy(
        "Make that rank run the same code as the others.",
        "The section on ranks shows why it has no group.",
    ),
    "fallback": Remedy(
        "See why groups fell back there (FD301).", "The others wait for that rank."
    ),
}
