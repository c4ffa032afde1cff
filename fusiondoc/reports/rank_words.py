"""What reports say of the ranks of a run, and the rows of one rank for those that are equal on several."""

from __future__ import annotations

from dataclasses import replace
from typing import Hashable, Sequence

from fusiondoc.model.ranks import RankRow, Ranks, SlowRank, named
from fusiondoc.model.report import Report, Unfused

HEADER = ("Rank", "Groups", "Ops", "Unfused", "Kernels", "their ms", "Step ms", "Fell back", "Ended")

_KNOWN_BY = {
    "launcher": "started by torch.distributed.run",
    "files": "told apart by the names of their files",
    "prefixes": "told apart by what stands before their lines",
    "order": "told apart by what stands before their lines",
    "devices": "a guess by the GPU of their groups",
}
_SLOWER = 1.05
"""A ratio below this is no difference that a few launches show."""
_MOST = 12


def merged(report: Report) -> Report:
    """The report with one row for what is equal on several ranks, that of the lowest; itself where there is
    nothing to merge. Counts of rows are then those of one rank; the report's own sums are of all."""
    ranks = report.ranks
    if ranks is None or ranks.known_by == "devices":
        return report
    others = {group for one in ranks.groups for group in one.groups[1:]}
    kept = tuple(group for group in report.groups if group.id not in others)
    programs = tuple(
        program for program in report.programs if not _all_in([node.group for node in program.nodes], others)
    )
    script = report.script
    if script is not None:
        models = (replace(m, groups=tuple(g for g in m.groups if g not in others)) for m in script.models)
        script = replace(script, models=tuple(models))
    return replace(
        report,
        groups=kept,
        unfused=_unfused(report.unfused),
        kernels=tuple(k for k in report.kernels if not _all_in(k.groups, others)),
        programs=programs,
        script=script,
    )


def _all_in(groups: Sequence[str | None], others: set[str]) -> bool:
    known = [group for group in groups if group is not None]
    return bool(known) and all(group in others for group in known)


def _unfused(rows: Sequence[Unfused]) -> tuple[Unfused, ...]:
    alike: dict[Hashable, list[Unfused]] = {}
    for row in rows:
        key = (row.op, row.source, row.user_source, row.phase, row.reason, row.ran)
        alike.setdefault(key, []).append(row)
    return tuple(max(several, key=lambda row: row.count) for several in alike.values())


def where(report: Report, group: str) -> str | None:
    """``ranks 0-7`` of a group, in a report of several."""
    if report.ranks is None:
        return None
    there = report.ranks.of_group(group)
    return named(there) if there else None


def of_ranks(ranks: Ranks) -> str:
    """``2 ranks, started by torch.distributed.run``."""
    several = f"{len(ranks.rows)} rank{'s' * (len(ranks.rows) != 1)}"
    if ranks.expected is not None and ranks.expected != len(ranks.rows):
        several += f" of {ranks.expected}"
    return f"{several}, {_KNOWN_BY.get(ranks.known_by, ranks.known_by)}"


def cells(row: RankRow) -> tuple[str, ...]:
    """What stands below ``HEADER``."""
    ended = "-" if row.ended is None else row.ended.partition(":")[0]
    if row.restarts:
        ended += f" (started {row.restarts + 1} times)"
    return (
        str(row.rank),
        str(row.groups),
        str(row.operators),
        str(row.unfused),
        str(row.kernels),
        _ms(row.kernel_ms),
        _ms(row.step_ms),
        str(row.fallbacks),
        ended,
    )


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"


def sentences(report: Report) -> list[str]:
    """What is the same, what differs and why, and what is slowest; the table stands apart."""
    ranks = report.ranks
    if ranks is None:
        return []
    everywhere = sum(len(one.groups) == len(ranks.rows) for one in ranks.groups)
    said = [f"{everywhere} of {len(ranks.groups)} groups are equal on all of them"]
    said += [f"{one.text}: {one.why}" if one.why else one.text for one in ranks.differences[:_MOST]]
    if len(ranks.differences) > _MOST:
        said.append(f"{len(ranks.differences) - _MOST} more differences: --format json has all")
    if not any(row.failed for row in ranks.rows):
        told = [f"rank {row.rank} {row.ended}, at {row.where}" for row in ranks.rows if row.where is not None]
        said += told[:_MOST]
    if ranks.slowest_step is not None:
        said.append("slowest by step: " + _slow(ranks.slowest_step))
    kernels = [one for one in ranks.slowest_kernels if one.ratio >= _SLOWER]
    said += [f"slowest by kernel {one.what}: {_slow(one)}" for one in kernels[:3]]
    if ranks.slowest_kernels and not kernels:
        said.append("no kernel is slower on one rank than on the others by more than 5 %")
    return said + ([ranks.note] if ranks.note else [])


def _slow(one: SlowRank) -> str:
    others = f"{one.others_ms:,.3f} of the others"
    return f"rank {one.rank}, {one.ms:,.3f} ms against {others} ({one.ratio:.2f} times)"
