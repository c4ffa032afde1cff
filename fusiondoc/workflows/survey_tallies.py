"""Facts of many runs summed up. Parts are made by workers and put together in any order: every sum is of
whole numbers, every sample is chosen by digests, so the answer does not depend on who read what."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from heapq import nlargest, nsmallest
from statistics import median
from typing import Any, Callable, Iterable, Mapping, Sequence

from fusiondoc.model import count, dataclass
from fusiondoc.model.numbers import whole_number, whole_numbers
from fusiondoc.model.survey_answers import (
    DIMENSIONS,
    MOST_SLOWEST,
    Duplicate,
    Gone,
    GroupShare,
    Outlier,
    ReasonShare,
    RunRow,
    Survey,
    Unreadable,
    Work,
)
from fusiondoc.workflows.survey_facts import (
    NS,
    GroupKey,
    KernelKey,
    PlaceKey,
    ReasonKey,
    RunFacts,
    facts_of,
    text_of,
)
from fusiondoc.workflows.survey_listing import Item

MOST_SAMPLES = 5_000
"""Times of a kernel of which its median is taken."""
LEAST_RUNS = 5
"""Of a kernel, to say what is usual."""
SLOWER = 1.5
DEVIATIONS = 6.0
"""A run is an outlier if it is slower by both: times the median, and median deviations beyond it."""
BY_CHANCE = 0.05
"""GPUs have no order: that so many runs on some of them lack a group must be less likely than this, if each
run lacked it as often as all do."""
MOST_BEFORE = 0.5
"""Share of the runs before that must have had a group for it to be called gone."""


@dataclass(frozen=True)
class _Kernel:
    runs: int
    sample: tuple[tuple[str, int], ...]
    """(digest of the run, nanoseconds), those of the lowest digests."""
    slowest: tuple[tuple[int, str], ...]
    """(nanoseconds, digest of the run)."""
    highest: tuple[int, ...] | None = None
    """The highest times, where the sample has not all of them."""

    @property
    def times(self) -> Iterable[int]:
        """The highest times, as many as a sample has at most."""
        return self.highest if self.highest is not None else (ns for _, ns in self.sample)


class Part:
    """What some runs come to."""

    def __init__(self) -> None:
        self.rows: dict[str, RunRow] = {}
        """By name."""
        self.groups: dict[GroupKey, Counter[Any]] = defaultdict(Counter)
        """Of each: "runs", "nodes", "fell back", ("kind", K), and runs by (dimension, value)."""
        self.reasons: dict[ReasonKey, Counter[str]] = defaultdict(Counter)
        self.texts: dict[tuple[str, str], str] = {}
        self.places: dict[PlaceKey, Counter[Any]] = defaultdict(Counter)
        """Runs by (code of the reason, dimension, value)."""
        self.kernels: dict[KernelKey, list[_Kernel]] = defaultdict(list)
        self.unreadable: list[Unreadable] = []

    def add(self, run: RunFacts) -> None:
        """One more run."""
        row = run.row
        self.rows[row.run] = row
        values = _values(row)
        for key, group in run.groups.items():
            tally = self.groups[key]
            tally.update(["runs", ("kind", group.kind), *values])
            tally["nodes"] += group.nodes
            tally["fell back"] += group.fell_back
        for reason, one in run.reasons.items():
            sums = self.reasons[reason]
            sums["runs"] += 1
            for name in ("nodes", "bytes", "ns", "keeps_out"):
                sums[name] += getattr(one, name)
            self.texts[reason] = min(self.texts.get(reason, one.text), one.text)
        for place, code in run.places.items():
            self.places[place].update((code, *value) for value in values)
        for kernel, ns in run.kernels.items():
            self.kernels[kernel].append(_Kernel(1, ((row.digest, ns),), ((ns, row.digest),)))
            if len(self.kernels[kernel]) >= 64:
                self.kernels[kernel] = [_joined(self.kernels[kernel])]

    def merge(self, other: Part) -> None:
        """The runs of another part too."""
        self.rows.update(other.rows)
        for mine, theirs in (
            (self.groups, other.groups),
            (self.reasons, other.reasons),
            (self.places, other.places),
        ):
            for key, tally in theirs.items():
                mine[key].update(tally)  # type: ignore[index]
        for reason, text in other.texts.items():
            self.texts[reason] = min(self.texts.get(reason, text), text)
        for kernel, found in other.kernels.items():
            self.kernels[kernel] = [_joined([*self.kernels[kernel], *found])]
        self.unreadable += other.unreadable

    def rename(self, name: str, run: RunFacts) -> None:
        """A run that was added gets the name and day of this one, another file with its content."""
        before, after = _values(self.rows.pop(name)), _values(run.row)
        self.rows[run.row.run] = run.row
        gone = [one for one in before if one not in after]
        new = [one for one in after if one not in before]
        for key in run.groups:
            _move(self.groups[key], gone, new)
        for place, code in run.places.items():
            _move(self.places[place], [(code, *one) for one in gone], [(code, *one) for one in new])


def _move(tally: Counter[Any], gone: Sequence[object], new: Sequence[object]) -> None:
    tally.update(new)
    for one in gone:
        tally[one] -= 1
        if not tally[one]:
            del tally[one]


def _joined(found: Sequence[_Kernel]) -> _Kernel:
    if len(found) == 1:
        return found[0]
    runs = sum(one.runs for one in found)
    highest = None
    if runs > MOST_SAMPLES:
        highest = tuple(nlargest(MOST_SAMPLES, (ns for one in found for ns in one.times)))
    return _Kernel(
        runs,
        tuple(nsmallest(MOST_SAMPLES, (pair for one in found for pair in one.sample))),
        tuple(nlargest(MOST_SLOWEST, (pair for one in found for pair in one.slowest))),
        highest,
    )


def _values(row: RunRow) -> list[tuple[str, str]]:
    values = {name: getattr(row, name) for name in DIMENSIONS}
    if row.torch is not None:  # builds of one release (+cpu, +cu121) have no order
        values["torch"] = row.torch.partition("+")[0]
    return [(name, value) for name, value in values.items() if value is not None]


def read_chunk(items: Sequence[Item], tell: Callable[[RunFacts], None] | None = None) -> Part:
    """What a worker does: a file that cannot be read never ends the others. ``tell`` is told each run."""
    part = Part()
    for item in items:
        try:
            facts = facts_of(item)
            part.add(facts)
            if tell is not None:
                tell(facts)
        except Exception as error:
            why = getattr(error, "message", None) or f"{type(error).__name__}: {error}"
            part.unreadable.append(Unreadable(item.name, " ".join(str(why).split())[:300]))
    return part


def survey_of(part: Part, duplicates: Iterable[Duplicate], ignored: int, work: Work) -> Survey:
    """The answers."""
    rows = tuple(sorted(part.rows.values(), key=lambda row: row.run))
    totals: dict[str | None, Counter[Any]] = defaultdict(Counter)
    for row in rows:
        totals[row.model].update(["runs", *_values(row)])
    groups = [_share(key, tally, totals[key.model]["runs"]) for key, tally in part.groups.items()]
    ids = {key: _id(key) for key in part.groups}
    lost = [
        found
        for key, tally in part.groups.items()
        for found in _gone(key, ids[key], tally, totals[key.model], part.places)
    ]
    gone = _not_moved(lost, part.groups, totals)
    outliers, left_out = _outliers(part.kernels, {(row.digest, row.model): row.run for row in rows})
    return Survey(
        runs=rows,
        groups=tuple(sorted(groups, key=lambda one: (-one.runs, one.model or "", one.id))),
        gone=tuple(
            sorted(
                gone, key=lambda one: (DIMENSIONS.index(one.by), -one.runs_since, one.model or "", one.group)
            )
        ),
        reasons=_reasons(part),
        outliers=outliers,
        unreadable=tuple(sorted(part.unreadable, key=lambda one: one.run)),
        duplicates=tuple(sorted(duplicates, key=lambda one: one.run)),
        outliers_left_out=left_out,
        ignored=ignored,
        work=work,
        moved=len(lost) - len(gone),
    )


def _id(key: GroupKey) -> str:
    return hashlib.blake2b(repr(tuple(key)).encode(), digest_size=5).hexdigest()


def _share(key: GroupKey, tally: Counter[Any], runs: int) -> GroupShare:
    return GroupShare(
        id=_id(key),
        model=key.model,
        phase=key.phase,
        ops=key.ops,
        places=key.places,
        kinds=tuple(sorted(one[1] for one in tally if isinstance(one, tuple) and one[0] == "kind")),
        runs=tally["runs"],
        runs_of_model=runs,
        share=round(tally["runs"] / runs, 6),
        nodes=tally["nodes"],
        fell_back=tally["fell back"],
    )


@dataclass(frozen=True)
class _Lost:
    """A group that is gone from its lines, with the values that had it, and those at which it went."""

    gone: Gone
    key: GroupKey
    before: tuple[str, ...]
    then: tuple[str, ...]


def _not_moved(
    lost: Sequence[_Lost],
    groups: Mapping[GroupKey, Counter[Any]],
    totals: Mapping[str | None, Counter[Any]],
) -> list[Gone]:
    """Without those in whose place most runs have the same operators at other lines from then on: lines were
    put in above them, or they were moved. Of several the nearest lines are taken, each once."""
    alike: dict[tuple[object, ...], list[GroupKey]] = defaultdict(list)
    for key in groups:
        alike[key[:3]].append(key)

    def came(key: GroupKey, one: _Lost) -> bool:
        by, tally = one.gone.by, groups[key]
        runs = sum(totals[key.model][by, value] for value in one.then)
        now = sum(tally[by, value] for value in one.then)
        return now >= MOST_BEFORE * runs and not any(tally[by, value] for value in one.before)

    pairs = sorted(
        (_apart(one.key, key), number, key.places, key)
        for number, one in enumerate(lost)
        for key in alike[one.key[:3]]
        if came(key, one)
    )
    moved: set[int] = set()
    taken: set[tuple[str, GroupKey]] = set()
    for _, number, _, key in pairs:
        place = (lost[number].gone.by, key)
        if number not in moved and place not in taken:
            moved.add(number)
            taken.add(place)
    return [one.gone for number, one in enumerate(lost) if number not in moved]


def _apart(one: GroupKey, other: GroupKey) -> tuple[bool, int]:
    """Whether they begin in other files, and by how many lines."""
    (file, line), (other_file, other_line) = (_begin(key.places) for key in (one, other))
    return file != other_file, abs(line - other_line)


def _begin(places: Sequence[str]) -> tuple[str, int]:
    file, _, line = next((one for one in places if not one.startswith("<string>")), "").rpartition(":")
    return file, whole_number(line) or 0


def _gone(
    key: GroupKey,
    name: str,
    tally: Counter[Any],
    totals: Counter[Any],
    places: Mapping[PlaceKey, Counter[Any]],
) -> Iterable[_Lost]:
    if tally["runs"] == totals["runs"]:
        return
    for dimension in DIMENSIONS:
        counts = {
            value[1]: number for value, number in totals.items() if value[0] == dimension and value != "runs"
        }
        values = sorted((one for one in counts if isinstance(one, str)), key=_order)
        having = [value for value in values if tally[dimension, value]]
        if not having or len(having) == len(values):
            continue
        ordered = dimension != "gpu"
        after = (
            values[values.index(having[-1]) + 1 :]
            if ordered
            else [one for one in values if one not in having]
        )
        before = values[: values.index(having[-1]) + 1] if ordered else having
        runs_before = sum(counts[value] for value in before)
        share = sum(tally[dimension, value] for value in before) / runs_before
        if not after or share < MOST_BEFORE:
            continue
        since = sum(counts[value] for value in after)
        if not ordered and (1 - tally["runs"] / totals["runs"]) ** since > BY_CHANCE:
            continue
        gone = Gone(
            group=name,
            text=text_of(key),
            model=key.model,
            by=dimension,
            last=having[-1] if ordered else ", ".join(having),
            since=after[0] if ordered else ", ".join(after),
            share_before=round(share, 6),
            runs_before=runs_before,
            runs_since=since,
            why=_why(key, places, (dimension, before, runs_before), (dimension, after, since)),
        )
        yield _Lost(gone, key, tuple(before), tuple(after[:1] if ordered else after))


def _why(
    key: GroupKey,
    places: Mapping[PlaceKey, Counter[Any]],
    before: tuple[str, Sequence[str], int],
    after: tuple[str, Sequence[str], int],
) -> tuple[str, ...]:
    """Reasons that operators of the group have in more of the runs after than before; each with (dimension,
    values, runs of these)."""
    codes: Counter[str] = Counter()
    for op in set(key.ops):
        for place in key.places:
            tally = places.get(PlaceKey(key.model, op, place), Counter())
            for code in {one[0] for one in tally}:
                then, now = (
                    sum(tally[code, by, value] for value in values) for by, values, _ in (before, after)
                )
                if now / after[2] > then / before[2] + _MORE:
                    codes[code] = max(codes[code], now)
    found = sorted(codes.items(), key=lambda one: (-one[1], one[0]))
    return tuple(f"{code} in {count(runs, 'run')}" for code, runs in found[:3])


_MORE = 0.25
"""Share of runs by which a reason is more frequent afterwards to be called one for what is gone."""


def _order(value: str) -> tuple[Any, ...]:
    """Versions and dates by their numbers; what comes before a release (``2.1.0a0``, ``2.2.0.dev20230901``,
    ``2.1.0rc2``) before it."""
    public = value.partition("+")[0]
    early = _EARLY.search(public)
    numbers = whole_numbers(re.findall(r"[0-9]{1,9}", public[: early.start()] if early else public))
    while numbers and not numbers[-1]:
        numbers.pop()
    stage = (_STAGES.index(early[1]), whole_number(early[2]) or 0) if early else (len(_STAGES), 0)
    return numbers, stage, value


_STAGES = ("dev", "a", "b", "rc")
_EARLY = re.compile(r"(?<=\d)[._-]?(dev|a|b|rc)(\d{0,9})")


def _reasons(part: Part) -> tuple[ReasonShare, ...]:
    found = [
        ReasonShare(
            code,
            op,
            part.texts[code, op],
            sums["runs"],
            sums["nodes"],
            sums["bytes"],
            sums["ns"] / NS,
            sums["keeps_out"],
        )
        for (code, op), sums in part.reasons.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.ms, -one.bytes, -one.nodes, one.code, one.op)))


def _outliers(
    kernels: Mapping[KernelKey, Sequence[_Kernel]], names: Mapping[tuple[str, str | None], str]
) -> tuple[tuple[Outlier, ...], int]:
    """The outliers, and how many more there are. ``names``: digest and model of a run to its name."""
    found: list[Outlier] = []
    left_out = 0
    for (model, gpu, name), parts in kernels.items():
        one = _joined(parts)
        if one.runs < LEAST_RUNS:
            continue
        times = [ns for _, ns in one.sample]
        usual = median(times)
        if not usual:
            continue
        limit = max(SLOWER * usual, usual + DEVIATIONS * 1.4826 * median(abs(ns - usual) for ns in times))
        slow = [(ns, digest) for ns, digest in one.slowest if ns > limit]
        more = sum(ns > limit for ns in one.times) - len(slow)
        left_out += more
        for ns, digest in slow:
            ms, ratio = ns / NS, round(ns / usual, 4)
            found.append(
                Outlier(
                    names[digest, model], name, model, gpu, ms, usual / NS, ratio, one.runs, left_out=more
                )
            )
    return tuple(sorted(found, key=lambda one: (-one.ratio, one.run, one.kernel))), left_out
