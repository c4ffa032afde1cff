"""FD905: which errors of a log are shown, if several ranks wrote it: the same error
of several ranks is one, and a lost rank is no cause if the cause is there; and how
each rank ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence
from fusiondoc.model.runs import RankFacts, Ranks, rank_names
from fusiondoc.parsers.lines.error_texts import is_lost_rank
from fusiondoc.parsers.observed import LoggedError, Observed

_MOST_LINES = 10
"""Evidence of one error that many ranks end with."""


class ErrorOfRanks(NamedTuple):
    """An error, once for all ranks that end with it."""

    first: LoggedError
    words: str
    """Its first line."""
    whose: str
    """" of rank 1"; "" where no rank is known."""
    ranks: tuple[int, ...]
    lines: Sequence[Evidence]
    lost: bool
    """It only reports that another rank was lost, and no log holds the cause."""


def errors_of_ranks(
    errors: Sequence[LoggedError], died: bool
) -> list[ErrorOfRanks]:
    """The errors of a log, in its order.

    Args:
        died: a signal ended a process, which is a cause too.
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
    """Where to look for the rank that the others lost."""
    failed = {rank for one in errors for rank in one.ranks}
    silent = (
        tuple(row.rank for row in ranks.rows if row.rank not in failed)
        if ranks is not None
        else ()
    )
    which = rank_names(silent) if silent else "the other ranks"
    return Remedy(
        f"Find out how {which} ended.",
        "The log holds no error from there, as if a signal had ended it (SIGKILL where memory runs"
        " out); the launcher's own output names the signal.",
    )


def first_words(text: str) -> str:
    """The first line of an error, and the next one where that only names its
    type."""
    lines = text.split("\n")
    words = lines[0].rstrip()
    return (
        f"{words} {lines[1].strip()}"
        if words.endswith("Error:") and len(lines) > 1
        else words
    )[:300]


def ranks_that_ended(observed: Observed) -> tuple[RankFacts, ...]:
    """The ranks that failed by themselves, by the log: none that failed because it
    lost another one."""
    ended: dict[int, str] = {}
    crash = observed.crash
    if crash is not None and crash.rank is not None:
        ended[crash.rank] = (
            f"died of {crash.signal}" if crash.signal is not None else "died"
        )
    for error in errors_of_ranks(observed.errors, died=crash is not None):
        for rank in error.ranks if not error.lost else ():
            ended.setdefault(rank, f"failed: {error.words[:200]}")
    return tuple(
        RankFacts(rank, ended=how, failed=True)
        for rank, how in sorted(ended.items())
    )
