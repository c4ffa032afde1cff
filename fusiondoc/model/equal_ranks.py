"""Ranks with equal figures: for these, figures per rank are clearer than the sum
over all ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fusiondoc.model import count
from fusiondoc.model.report import Report
from fusiondoc.model.runs import AnyFuser, Coverage


class EachRank(NamedTuple):
    """``whose``: "each of 2 ranks"; ``report``: the report with the rows of one
    rank only."""

    whose: str
    report: Report


def each_rank(report: Report) -> EachRank | None:
    """Return the report of one rank if all ranks have equally many groups,
    operators in and outside them, and fallbacks; None if they differ, and for a run
    of one process."""
    ranks = report.ranks
    if (
        ranks is None
        or ranks.known_by == "devices"
        or len(ranks.rows) < 2
        or not report.groups
    ):
        return None
    if (
        report.groups_left_out
        or report.unfused_left_out
        or report.programs_left_out
    ):
        return None  # the ranks of the rows that were left out are not known
    each = [_of_rank(report, row.rank) for row in ranks.rows]
    first = each[0]
    if (
        any(_numbers(of_rank) != _numbers(first) for of_rank in each)
        or first is None
        or not first.groups
    ):
        return None
    cover = _shared(report.coverage, len(each))
    if cover is None:
        return None
    return EachRank(
        f"each of {count(len(each), 'rank')}", replace(first, coverage=cover)
    )


def _of_rank(report: Report, rank: int) -> Report:
    return replace(
        report,
        groups=tuple(row for row in report.groups if row.rank == rank),
        unfused=tuple(row for row in report.unfused if row.rank == rank),
        fallbacks=tuple(row for row in report.fallbacks if row.rank == rank),
        kernels=tuple(row for row in report.kernels if row.rank == rank),
        ranks=None,
    )


def _numbers(report: Report) -> tuple[int, ...]:
    return (
        report.fusion_groups,
        report.fused_operators,
        sum(group.count for group in report.first_groups),
        sum(row.count for row in report.rows_that_may_have_run),
        report.times_fallen_back,
    )


def _shared(cover: Coverage, ranks: int) -> Coverage | None:
    """Return the coverage of one of several equal ranks; None if a number is no
    multiple of their count."""
    numbers = (cover.ops_fused, cover.ops_total, cover.any_fuser.ops_total)
    if any(number is not None and number % ranks for number in numbers):
        return None

    def part(number: int | None) -> int | None:
        if number is None:
            return None
        return number // ranks

    some = AnyFuser(part(cover.any_fuser.ops_total), cover.any_fuser.fraction)
    return replace(
        cover,
        ops_fused=cover.ops_fused // ranks,
        ops_total=part(cover.ops_total),
        any_fuser=some,
    )
