"""The histories of models: their runs in order, the groups that they lost, and
changes of their figures (``fusiondoc history``)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from fusiondoc.errors import UsageError, did_you_mean
from fusiondoc.model.history_answers import History, ModelHistory
from fusiondoc.model.run_lines import RunLine
from fusiondoc.model.survey_answers import is_since
from fusiondoc.workflows.history_losses import lost_groups
from fusiondoc.workflows.history_moves import moves
from fusiondoc.workflows.history_runs import read_runs
from fusiondoc.workflows.survey_since import day_of

BASE = "base"
"""``History.since`` of runs that are compared with a base."""


def history(
    sources: Sequence[str],
    *,
    model: str | None = None,
    base: Sequence[str] = (),
    since: str | None = None,
    folder: Path | None = None,
) -> History:
    """The histories of the models of some runs.

    Args:
        sources: histories (``.jsonl``), ``branch:NAME``, reports, captures, logs and folders of them.
        model: a name of a model, or a pattern of names (``*resnet*``).
        base: further sources, whose runs are earlier than those of ``sources``: losses and moves are then
            those of ``sources`` alone.
        since: a date, or a commit, which stands for its day: losses and moves of earlier days are left out.
        folder: a folder of the repository; the current one by default.

    Raises: UsageError: there is no such source, model, day or commit, or no run in
        the sources.
    """
    folder = folder or Path.cwd()
    first_day = day_of(since, folder) if since is not None else None
    earlier, later = read_runs(base, folder), read_runs(sources, folder)
    if not earlier.runs and not later.runs:
        why = f": {later.unreadable[0].why}" if later.unreadable else ""
        raise UsageError(
            f"no runs in {', '.join(sources)}{why}",
            "fusiondoc check --history FILE.jsonl adds a line for each run.",
        )
    series: dict[_Series, list[RunLine]] = defaultdict(list)
    for run in [*_in_order(earlier.runs), *_in_order(later.runs)]:
        series[_series_of(run)].append(run)
    new = {id(run) for run in later.runs}
    histories = []
    for key in _wanted(series, model):
        made = _history_of(key, series[key])
        if base:
            made = _of_runs(made, [run for run in series[key] if id(run) in new])
        histories.append(_of_days(made, first_day))
    return History(
        tuple(histories),
        (*earlier.unreadable, *later.unreadable),
        BASE if base else first_day,
    )


class _Series(NamedTuple):
    """The facts that are equal for all runs of a series; runs are compared within a
    series."""

    model: str | None
    device: str | None
    fuser: str | None
    settings: str | None


def _series_of(run: RunLine) -> _Series:
    return _Series(run.model, run.device, run.fuser, run.settings)


def _in_order(runs: Iterable[RunLine]) -> list[RunLine]:
    """Sort the runs, oldest first; runs of one moment stay in the order in which
    they were read."""
    return sorted(runs, key=lambda run: run.date)


def _wanted(series: Iterable[_Series], model: str | None) -> list[_Series]:
    """Group the runs of the chosen models into series. Raises: UsageError: no model
    has such a name."""
    ordered = sorted(series, key=lambda key: tuple(text or "" for text in key))
    if model is None:
        return ordered
    found = [key for key in ordered if is_named(key.model, model)]
    if not found:
        names = sorted({key.model for key in ordered if key.model is not None})
        raise UsageError(
            f"no run is of a model '{model}'", did_you_mean(model, names)
        )
    return found


def is_named(name: str | None, wanted: str) -> bool:
    """True if a model is the one meant: by its name, the end of its path, or a
    pattern of names."""
    if name is None:
        return False
    return (
        name == wanted
        or fnmatchcase(name, wanted)
        or re.split(r"[/\\]", name)[-1] == wanted
    )


def _history_of(key: _Series, runs: Sequence[RunLine]) -> ModelHistory:
    return ModelHistory(*key, tuple(runs), lost_groups(runs), moves(runs))


def _of_runs(made: ModelHistory, runs: Sequence[RunLine]) -> ModelHistory:
    """The history with only the losses and moves that begin with one of some
    runs."""
    begun = {(run.date, run.commit) for run in runs}
    lost = tuple(one for one in made.lost if (one.date, one.commit) in begun)
    moved = tuple(one for one in made.moves if (one.date, one.commit) in begun)
    return ModelHistory(
        made.model, made.device, made.fuser, made.settings, made.runs, lost, moved
    )


def _of_days(made: ModelHistory, since: str | None) -> ModelHistory:
    """The history with only the losses and moves since a day."""
    lost = tuple(one for one in made.lost if is_since(one.date, since))
    moved = tuple(one for one in made.moves if is_since(one.date, since))
    return ModelHistory(
        made.model, made.device, made.fuser, made.settings, made.runs, lost, moved
    )
