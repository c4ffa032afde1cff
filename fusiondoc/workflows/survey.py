"""Many runs at once: listed, read by an engine, summed up (``fusiondoc survey``)."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Sequence

from fusiondoc.errors import UsageError
from fusiondoc.model.survey_answers import Duplicate, Survey, Unreadable, Work
from fusiondoc.workflows.survey_engines import Chunk, Engine, engine_of
from fusiondoc.workflows.survey_items import Item, at_hand, digest, listed, may_be_equal
from fusiondoc.workflows.survey_tallies import Part, read_chunk, survey_of

_MOST_FILES = 50
_MOST_BYTES = 16 << 20
"""Of a chunk; a larger file is one alone."""
_ATTEMPTS = 3
"""How often the worker may die over one file; then it is named and left out."""


def survey(
    places: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Survey:
    """Read all runs below some paths and addresses.

    Args:
        places: one or more files, folders, and addresses that fsspec knows (``s3://bucket/folder``).
        engine: "local" (processes of this machine), "dask" or "ray" (a cluster that is there).
        address: of that cluster.
        workers: processes of the local engine; by default one for each core.
        tell: is called with notes.

    Raises:
        UsageError: there is no such place, or nothing to read in it.
        CannotRun: a package is missing, or there is no such cluster.
    """
    began = time.perf_counter()
    several = [places] if isinstance(places, (str, os.PathLike)) else list(places)
    names = [os.fspath(one) for one in several]
    listing = listed(names)
    if not listing.items:
        raise UsageError(
            f"No reports, logs or captures in {', '.join(names)}",
            "Reports end in .json, logs in .log, .txt, .out or .err (also compressed).",
        )
    used = engine_of(engine, address, workers, len(listing.items))
    try:
        same = _digests(used, may_be_equal(listing.items), tell)
        unique, duplicates = _once(listing.items, same)
        part = Part()
        part.unreadable += listing.closed
        for made in _all(used, read_chunk, unique, part.unreadable, tell):
            part.merge(made)
        work = Work(used.name, used.workers, round(time.perf_counter() - began, 3), used.lost)
    finally:
        used.close()
    return survey_of(part, duplicates, listing.ignored, work)


def digests_of(items: Chunk) -> dict[str, str]:
    """Name -> digest; what cannot be read is left out, and told when it is read for its content."""
    found = {}
    for item in items:
        try:
            with at_hand(item) as path:
                found[item.name] = digest(path, item.capture)
        except Exception:  # every store has errors of its own
            continue
    return found


def _digests(engine: Engine, items: Sequence[Item], tell: Callable[[str], None] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for made in _all(engine, digests_of, items, [], tell):
        found.update(made)
    return found


def _once(items: Sequence[Item], digests: dict[str, str]) -> tuple[list[Item], list[Duplicate]]:
    """Each content once, by the first name."""
    first: dict[str, str] = {}
    unique, duplicates = [], []
    for item in items:
        content = digests.get(item.name)
        if content is not None and content in first:
            duplicates.append(Duplicate(item.name, first[content]))
            continue
        if content is not None:
            first[content] = item.name
        unique.append(item)
    return unique, duplicates


def chunks_of(items: Sequence[Item], most: int = _MOST_FILES) -> list[Chunk]:
    """The items in order, in chunks of bounded number and size."""
    made: list[list[Item]] = []
    size = 0
    for item in items:
        if not made or len(made[-1]) >= most or size + item.size > _MOST_BYTES:
            made.append([])
            size = 0
        made[-1].append(item)
        size += item.size
    return [tuple(one) for one in made]


def _all(
    engine: Engine,
    work: Callable[[Chunk], Any],
    items: Sequence[Item],
    left: list[Unreadable],
    tell: Callable[[str], None] | None,
) -> Any:
    """What the work makes of all items. What a dead worker had is asked for again, in smaller pieces; a file
    over which workers die each time goes to ``left``."""
    chunks = chunks_of(items)
    for attempt in range(_ATTEMPTS):
        again: list[Item] = []
        for outcome in engine.outcomes(work, chunks):
            if outcome.made is None:
                again += outcome.chunk
            else:
                yield outcome.made
        if not again:
            return
        again.sort(key=lambda item: item.name)
        if tell is not None and attempt + 1 < _ATTEMPTS:
            tell(f"note: a worker died; its {len(again)} files are read again")
        chunks = [(item,) for item in again]
    # One after the other: only now is it certain whose worker dies.
    for chunk in chunks:
        for outcome in engine.outcomes(work, [chunk]):
            if outcome.made is None:
                left.append(Unreadable(chunk[0].name, "the worker died while it read this file"))
            else:
                yield outcome.made
