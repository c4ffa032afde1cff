"""The ranks of a run: their section, and a report in which rows that are equal on
several ranks are merged."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from fusiondoc.model import count
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.runs import RankRow, Ranks, SlowRank, rank_names
from fusiondoc.model.script_models import ScriptRun
from fusiondoc.model.shared_positions import SharedPositions, shared_positions
from fusiondoc.rendering.blocks import Column, Remarks, Row, Section, Table
from fusiondoc.rendering.drawing import MOST_ROWS
from fusiondoc.rendering.units import TERMINAL, digits
from fusiondoc.rendering.values import Count, Millis, Text

_COLUMNS = (
    Column("Rank", number=True),
    Column("Groups", number=True),
    Column("Ops", number=True),
    Column("Unfused", number=True),
    Column("Kernels", number=True),
    Column("their ms", number=True),
    Column("Step ms", number=True),
    Column("Fell back", number=True),
    Column("Ended", wide=True),
)

_KNOWN_BY = {
    "launcher": "started by torch.distributed.run",
    "files": "separated by file names",
    "prefixes": "separated by the prefix of their lines",
    "order": "separated by the prefix of their lines",
    "devices": "a guess by the GPU of their groups",
}
_SLOWER = 1.05
"""A smaller ratio is no difference that a few launches can show."""
_MOST = 12


def ranks_merged(report: Report) -> Report:
    """Return the report with one row, of the lowest rank, for rows that are equal
    on several ranks; the report itself if there is nothing to merge. Counts of rows
    are then those of one rank; the report's own sums are of all ranks."""
    ranks = report.ranks
    if ranks is None or ranks.known_by == "devices":
        return report
    others: set[str] = set()
    for equal in ranks.groups:
        others.update(equal.groups[1:])
    programs = []
    for program in report.programs:
        if not _all_in([node.group for node in program.nodes], others):
            programs.append(program)
    kernels = []
    for kernel in report.kernels:
        if not _all_in(kernel.groups, others):
            kernels.append(kernel)
    return replace(
        report,
        groups=tuple(group for group in report.groups if group.id not in others),
        unfused=_unfused(
            report.unfused, shared_positions(report.groups, report.unfused)
        ),
        kernels=tuple(kernels),
        programs=tuple(programs),
        script=_without_groups(report.script, others),
    )


def _without_groups(script: ScriptRun | None, others: set[str]) -> ScriptRun | None:
    if script is None:
        return None
    models = []
    for model in script.models:
        kept = tuple(group for group in model.groups if group not in others)
        models.append(replace(model, groups=kept))
    return replace(script, models=tuple(models))


def _all_in(groups: Sequence[str | None], others: set[str]) -> bool:
    known = [group for group in groups if group is not None]
    return bool(known) and all(group in others for group in known)


def _unfused(
    rows: Sequence[Unfused], positions: SharedPositions
) -> tuple[Unfused, ...]:
    alike: dict[Hashable, list[Unfused]] = {}
    for row in rows:
        key = (
            row.op,
            positions.of(row.source),
            positions.of(row.user_source),
            row.phase,
            row.reason,
            row.ran,
        )
        alike.setdefault(key, []).append(row)
    return tuple(
        max(several, key=lambda row: row.count) for several in alike.values()
    )


def ranks_where(report: Report, group: str) -> str | None:
    """Return ``ranks 0-7`` of a group; None for a run of one process."""
    if report.ranks is None:
        return None
    there = report.ranks.of_group(group)
    if there:
        return rank_names(there)
    return None


def of_ranks(ranks: Ranks) -> str:
    """``2 ranks, started by torch.distributed.run``."""
    several = count(len(ranks.rows), "rank")
    if ranks.expected is not None and ranks.expected != len(ranks.rows):
        several += f" of {ranks.expected}"
    return f"{several}, {_KNOWN_BY.get(ranks.known_by, ranks.known_by)}"


def ranks(report: Report) -> Section:
    """Section with a row for each rank, and with equalities and differences between
    them; empty for one process."""
    known = report.ranks
    if known is None:
        return Section("ranks", "Ranks")
    table = Table(_COLUMNS, tuple(map(_row, known.rows)), on_terminal=MOST_ROWS)
    return Section(
        "ranks",
        "Ranks",
        of_ranks(known),
        (table, Remarks(tuple(rank_sentences(report)))),
    )


def _row(row: RankRow) -> Row:
    ended = TERMINAL.unknown if row.ended is None else row.ended.partition(":")[0]
    if row.restarts:
        ended += f" (started {row.restarts + 1} times)"
    counts = (row.rank, row.groups, row.operators, row.unfused, row.kernels)
    return Row(
        (
            *map(Count, counts),
            Millis(row.kernel_ms),
            Millis(row.step_ms),
            Count(row.fallbacks),
            Text(ended),
        )
    )


def rank_sentences(report: Report) -> list[str]:
    """Return sentences on the equal groups, the differences with their causes, and
    the slowest rank; the table is separate."""
    ranks = report.ranks
    if ranks is None:
        return []
    everywhere = sum(len(equal.groups) == len(ranks.rows) for equal in ranks.groups)
    lines = [
        f"{everywhere:,} of {len(ranks.groups):,} groups are equal on all of them"
    ]
    lines += _differences(ranks)
    if not any(row.failed for row in ranks.rows):
        stopped = [row for row in ranks.rows if row.where is not None]
        for row in stopped[:_MOST]:
            lines.append(f"rank {row.rank} {row.ended}, at {row.where}")
    lines += _slowest(ranks)
    if ranks.note:
        lines.append(ranks.note)
    return lines


def _differences(ranks: Ranks) -> Iterator[str]:
    for difference in ranks.differences[:_MOST]:
        if difference.why:
            yield f"{difference.text}: {difference.why}"
        else:
            yield difference.text
    more = len(ranks.differences) + ranks.differences_left_out - _MOST
    if more > 0:
        if ranks.differences_left_out:
            has = f"the first {len(ranks.differences)}"
        else:
            has = "all"
        yield f"{count(more, 'more difference')}: --format json has {has}"


def _slowest(ranks: Ranks) -> Iterator[str]:
    if ranks.slowest_step is not None:
        yield "slowest by step: " + _slow(ranks.slowest_step)
    kernels = []
    for kernel in ranks.slowest_kernels:
        if kernel.ratio >= _SLOWER:
            kernels.append(kernel)
    for kernel in kernels[:3]:
        yield f"slowest by kernel {kernel.what}: {_slow(kernel)}"
    if ranks.slowest_kernels and not kernels:
        yield "no kernel is slower on one rank than on the others by more than 5 %"


def _slow(rank: SlowRank) -> str:
    others = f"{digits(rank.others_ms)} of the others"
    return f"rank {rank.rank}, {digits(rank.ms)} ms against {others} ({rank.ratio:.2f} times)"
