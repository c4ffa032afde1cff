"""Many runs at once: listed, read by an engine, summed up (``fusiondoc
survey``)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fusiondoc.errors import UsageError
from fusiondoc.model import count
from fusiondoc.model.survey_answers import Survey, Unreadable, Work
from fusiondoc.workflows.survey_copies import (
    Contents,
    digests_of,
    may_be_equal,
    once,
    read_apart,
)
from fusiondoc.workflows.survey_engines import (
    Chunk,
    ChunkResult,
    Dask,
    Engine,
    NoWorkers,
    engine_of,
)
from fusiondoc.workflows.survey_listing import ListedRun, Listing, listed
from fusiondoc.workflows.survey_since import day_of
from fusiondoc.workflows.survey_tallies import RunSums, read_chunk, survey_of

_MOST_FILES = 50
_MOST_BYTES = 16 << 20
"""Bytes of a chunk; a larger file is a chunk of its own."""
_ATTEMPTS = 3
"""How often the worker may die while reading a file before the file is named and
left out."""


def survey(
    places: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    model_from: str | None = None,
    since: str | None = None,
    notify: Callable[[str], None] | None = None,
) -> Survey:
    """Read all runs below some paths and addresses.

    Args:
        places: one or more files, folders, and addresses that fsspec knows (``s3://bucket/folder``).
        engine: "local" (processes of this machine), "dask" or "ray" (a cluster that is there).
        address: of that cluster.
        workers: processes of the local engine; by default one for each core.
        model_from: a regular expression whose groups name the model in the path of a run (``runs/([^/]+)/``),
            before the name in the run's own records.
        since: a date, or a commit of the repository of the current folder, which stands for its day: losses
            and slow kernels of earlier days are left out. Earlier runs are read all the same, since later
            ones are compared with them.
        notify: called with notes.

    Raises: UsageError: there is no such path or address, or nothing to read in it;
        or no such day or commit. CannotRun: a package is missing, or there is no
        such cluster.
    """
    began = time.perf_counter()
    first_day = day_of(since, Path.cwd()) if since is not None else None
    several = [places] if isinstance(places, (str, os.PathLike)) else list(places)
    names = [os.fspath(path) for path in several]
    listing = listed(names, model_from)
    if not listing.items:
        raise UsageError(
            f"no reports, logs or captures in {', '.join(names)}",
            "Reports end in .json, logs in .log, .txt, .out or .err (also compressed).",
        )
    used = engine_of(engine, address, workers, len(listing.items))
    if not used.workers and notify is not None:
        notify(
            f"note: the {engine.capitalize()} cluster has no workers now; waiting for one"
        )
    try:
        part, contents = _read(used, listing, notify)
        work = Work(
            used.name,
            used.workers,
            round(time.perf_counter() - began, 3),
            used.lost,
        )
        if (
            isinstance(used, Dask) and work.lost_workers and notify is not None
        ):  # other engines print it themselves
            died = count(work.lost_workers, "worker")
            notify(
                f"note: {died} died; other workers read their files, or these are listed as not read"
            )
    finally:
        used.close()
    return survey_of(part, contents.duplicates, listing.ignored, work, first_day)


def _read(
    engine: Engine, listing: Listing, notify: Callable[[str], None] | None
) -> tuple[RunSums, Contents]:
    """All runs, each content once."""
    plain = [item for item in listing.items if not item.compressed]
    unique, duplicates = once(plain, _digests(engine, may_be_equal(plain), notify))
    part = RunSums()
    part.unreadable += listing.closed
    for made in _all(engine, read_chunk, unique, part.unreadable, notify):
        part.merge(made)
    contents = Contents(part, duplicates)
    compressed = [item for item in listing.items if item.compressed]
    for made in _all(engine, read_apart, compressed, part.unreadable, notify):
        contents.take(made)
    return part, contents


def _digests(
    engine: Engine, items: Sequence[ListedRun], notify: Callable[[str], None] | None
) -> dict[str, str]:
    found: dict[str, str] = {}
    for made in _all(engine, digests_of, items, None, notify):
        found.update(made)
    return found


def chunks_of(items: Sequence[ListedRun], most: int = _MOST_FILES) -> list[Chunk]:
    """The items in order, in chunks of bounded number and size."""
    made: list[list[ListedRun]] = []
    size = 0
    for item in items:
        if not made or len(made[-1]) >= most or size + item.size > _MOST_BYTES:
            made.append([])
            size = 0
        made[-1].append(item)
        size += max(0, item.size)
    return [tuple(chunk) for chunk in made]


def _all(
    engine: Engine,
    work: Callable[[Chunk], Any],
    items: Sequence[ListedRun],
    left: list[Unreadable] | None,
    notify: Callable[[str], None] | None,
) -> Iterator[Any]:
    """Return the results of the work on all items. The items of a dead worker are
    read again, in smaller pieces; a file over which workers die each time goes to
    ``left``, as do all files for which no worker is there (None: it is read again
    later)."""
    waiting = {item.name: item for item in items}
    try:
        for outcome in _rounds(engine, work, items, notify):
            for item in outcome.chunk:
                del waiting[item.name]
                if outcome.made is None and left is not None:
                    left.append(
                        Unreadable(
                            item.name, "the worker died while it read this file"
                        )
                    )
            if outcome.made is not None:
                yield outcome.made
    except NoWorkers as error:
        if left is None:
            return
        left += (
            Unreadable(name, f"no worker was there to read it: {error}")
            for name in waiting
        )
        if notify is not None:
            notify(f"note: {error}: {count(len(waiting), 'file')} not read")


def _rounds(
    engine: Engine,
    work: Callable[[Chunk], Any],
    items: Sequence[ListedRun],
    notify: Callable[[str], None] | None,
) -> Iterator[ChunkResult]:
    """Return the last outcome of each chunk; empty for a file at which workers died
    each time."""
    chunks = chunks_of(items)
    for attempt in range(_ATTEMPTS):
        again: list[ListedRun] = []
        for outcome in engine.outcomes(work, chunks):
            if outcome.made is None:
                again += outcome.chunk
            else:
                yield outcome
        if not again:
            return
        again.sort(key=lambda item: item.name)
        if notify is not None and attempt + 1 < _ATTEMPTS:
            notify(
                f"note: a worker died; its {count(len(again), 'file')} {_ARE[len(again) == 1]} read again"
            )
        chunks = [(item,) for item in again]
    # One after another: only then is it certain which file kills its worker.
    for chunk in chunks:
        yield from engine.outcomes(work, [chunk])


_ARE = {True: "is", False: "are"}
