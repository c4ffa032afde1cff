"""Files of a survey with the same content: each content is one run.

Only plain files of equal size can be equal, and these are read for their digests
first. The content of a compressed file is known only when it is unpacked, and it is
fetched and read once: after all plain files, its facts apart from those of others,
so that they can be left out or replace a run that was read.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fusiondoc.model import dataclass
from fusiondoc.model.survey_answers import Duplicate
from fusiondoc.workflows.survey_facts import SurveyedRun, digest, preference
from fusiondoc.workflows.survey_listing import UNKNOWN, ListedRun, at_hand
from fusiondoc.workflows.survey_tallies import RunSums, read_chunk


def may_be_equal(items: Sequence[ListedRun]) -> list[ListedRun]:
    """The items whose size may be equal to that of another item."""
    if any(item.size == UNKNOWN for item in items):
        return list(items)
    sizes = Counter((item.size, item.capture) for item in items)
    return [item for item in items if sizes[item.size, item.capture] > 1]


def digests_of(items: Sequence[ListedRun]) -> dict[str, str]:
    """Name -> digest; a file that cannot be read is left out, and reported when its
    content is read."""
    found = {}
    for item in items:
        try:
            with at_hand(item) as path:
                found[item.name] = digest(path, item.capture)
        except Exception:  # every store has errors of its own
            continue
    return found


def once(
    items: Sequence[ListedRun], digests: Mapping[str, str]
) -> tuple[list[ListedRun], list[Duplicate]]:
    """Return the items with each content once, and the duplicates. Files whose
    names give different models are different runs."""
    first: dict[tuple[str, str | None], str] = {}
    unique, duplicates = [], []
    for item in sorted(items, key=lambda item: preference(item.name)):
        found = digests.get(item.name)
        content = None if found is None else (found, item.model_by_name)
        if content is not None and content in first:
            duplicates.append(Duplicate(item.name, first[content]))
            continue
        if content is not None:
            first[content] = item.name
        unique.append(item)
    return sorted(unique, key=lambda item: item.name), duplicates


@dataclass(frozen=True)
class Apart:
    """The sums over some runs, and the facts of each run, which are read only if
    one of them is a copy."""

    part: RunSums
    facts: tuple[bytes, ...]


def read_apart(items: Sequence[ListedRun]) -> Apart:
    """The work of a worker on compressed files."""
    packed: list[bytes] = []
    part = read_chunk(
        items, lambda run: packed.append(pickle.dumps(run, pickle.HIGHEST_PROTOCOL))
    )
    return Apart(part, tuple(packed))


class Contents:
    """The runs of a part by their content; further runs are added, some of which
    may be copies."""

    def __init__(self, part: RunSums, duplicates: Iterable[Duplicate]) -> None:
        self._part = part
        self._kept = {}
        for row in part.rows.values():
            self._kept[(row.digest, row.model)] = row.run
        self._same = {duplicate.run: duplicate.same_as for duplicate in duplicates}
        """Each copy -> the file that was kept when it was found."""

    def take(self, more: Apart) -> None:
        """Add further runs. The result does not depend on their order."""
        new = {(row.digest, row.model): row.run for row in more.part.rows.values()}
        if len(new) == len(more.facts) and not new.keys() & self._kept.keys():
            self._part.merge(more.part)
            self._kept.update(new)
            return
        self._part.unreadable += more.part.unreadable
        for packed in more.facts:
            self._take_run(pickle.loads(packed))

    def _take_run(self, run: SurveyedRun) -> None:
        content = run.row.digest, run.row.model
        name, kept = run.row.run, self._kept.get(content)
        if kept is None:
            self._part.add(run)
        elif preference(kept) < preference(name):
            self._same[name] = kept
            return
        else:
            self._part.rename(kept, run)
            self._same[kept] = name
        self._kept[content] = name

    @property
    def duplicates(self) -> list[Duplicate]:
        """The copies, each with the one file that is kept of all."""
        return [Duplicate(copy, self._end_of(copy)) for copy in self._same]

    def _end_of(self, name: str) -> str:
        while name in self._same:
            name = self._same[name]
        return name
