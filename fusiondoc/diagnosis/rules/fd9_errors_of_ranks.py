"""FD905: the errors to show from a log of several ranks, and how each rank ended.
The same error of several ranks is shown once, and a report of a lost rank is left
out if the log has the cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence
from fusiondoc.model.runs import RankFacts, Ranks, rank_names
from fusiondoc.parsers.lines.error_texts import is_lost_rank
from fusiondoc.parsers.observed import LoggedError, Observed

_MOST_LINES = 10
"""Evidence lines of an error that many ranks end with, at most."""


class ErrorOfRanks(NamedTuple):
    """An error, once for all ranks that end with it."""

    first: LoggedError
    words: str
    """Its first line."""
    whose: str
    """" of rank 1"; "" if no rank is known."""
    ranks: tuple[int, ...]
    lines: Sequence[Evidence]
    lost: bool
    """True if it only reports that another rank was lost, and no log holds the
    cause."""


def errors_of_ranks(
    errors: Sequence[LoggedError], died: bool
) -> list[ErrorOfRanks]:
    """Return the errors of a log, in its order.

    Args:
        died: a signal ended a process, which counts as a cause.
    """
    causes = [one for one in errors if not is_lost_rank(one.text)]
    alike: dict[tuple[str, int], list[LoggedError]] = {}
    times: dict[tuple[str, int | None], int] = {}
    for error in causes if causes or died else errors:
        words = first_words(error.text)
        nth = times[words, error.rank] = times.get((words, error.rank), 0) + 1
        alike.setdefault((words, nth), []).append(error)
    made = []
    for (words, _), several in alike.items():
        ranks = tuple(sorted({one.rank for one in several if one.rank is not None}))
        whose = f" of {rank_names(ranks)}" if ranks else ""
        lines = [one.line for one in several[:_MOST_LINES]]
        made.append(
            ErrorOfRanks(several[0], words, whose, ranks, lines, not causes)
        )
    return made


def remedy_for_lost(errors: Sequence[ErrorOfRanks], ranks: Ranks | None) -> Remedy:
    """Return the remedy that finds the rank which the others lost."""
    failed: set[int] = set()
    for one in errors:
        failed.update(one.ranks)
    if ranks is not None:
        silent = tuple(row.rank for row in ranks.rows if row.rank not in failed)
    else:
        silent = ()
    which = rank_names(silent) if silent else "the other ranks"
    return Remedy(
        f"Find out how {which} ended.",
        "The log holds no error from there, as if a signal had ended it (SIGKILL where memory runs"
        " out); the launcher's own output names the signal.",
    )


def first_words(text: str) -> str:
    """Return the first line of an error, with the next line if the first only names
    the type."""
    lines = text.split("\n")
    words = lines[0].rstrip()
    return (
        f"{words} {lines[1].strip()}"
        if words.endswith("Error:") and len(lines) > 1
        else words
    )[:300]


def ranks_that_ended(observed: Observed) -> tuple[RankFacts, ...]:
    """Return the ranks that failed by themselves, by the log; not those that failed
    because they lost another rank."""
    ended: dict[int, str] = {}
    crash = observed.crash
    if crash is not None and crash.rank is not None:
        if crash.signal is not None:
            ended[crash.rank] = f"died of {crash.signal}"
        else:
            ended[crash.rank] = "died"
    for error in errors_of_ranks(observed.errors, died=crash is not None):
        for rank in error.ranks if not error.lost else ():
            ended.setdefault(rank, f"failed: {error.words[:200]}")
    ranks = []
    for rank, how in sorted(ended.items()):
        ranks.append(RankFacts(rank, ended=how, failed=True))
    return tuple(ranks)
