"""Facts of many runs summed up. Parts are made by workers and merged in any order:
every sum is of whole numbers, every sample is chosen by digests, so the answer does
not depend on which worker read which file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from statistics import median
from typing import Any

from fusiondoc.model import dataclass
from fusiondoc.model.survey_answers import (
    MOST_SLOWEST,
    Duplicate,
    GroupShare,
    Outlier,
    ReasonShare,
    RunRow,
    Survey,
    Unreadable,
    Work,
    is_since,
)
from fusiondoc.workflows.survey_facts import SurveyedRun, facts_of
from fusiondoc.workflows.survey_keys import NS, GroupKey, KernelKey, ReasonKey
from fusiondoc.workflows.survey_listing import ListedRun
from fusiondoc.workflows.survey_losses import id_of, losses
from fusiondoc.workflows.survey_plans import RunPlans

MOST_SAMPLES = 5_000
"""Most times of a kernel from which its median is calculated."""
LEAST_RUNS = 5
"""Least runs of a kernel in a sample of its usual time."""
SLOWER = 1.5
DEVIATIONS = 6.0
"""A run is an outlier if it is slower by both: times the median, and median
deviations beyond it."""


@dataclass(frozen=True)
class _Kernel:
    runs: int
    sample: tuple[tuple[str, int], ...]
    """(digest of the run, nanoseconds) of the runs with the lowest digests."""
    highest: tuple[tuple[int, str], ...] | None = None
    """(nanoseconds, digest of the run) of the highest times, if the sample does not
    have all of them."""

    @property
    def times(self) -> Iterable[tuple[int, str]]:
        """The highest times with the digests of their runs, as many as a sample has
        at most."""
        if self.highest is not None:
            return self.highest
        return ((ns, run) for run, ns in self.sample)


class RunSums:
    """The sums over some runs."""

    def __init__(self) -> None:
        self.rows: dict[str, RunRow] = {}
        """Rows of the runs, by name."""
        self.groups: dict[GroupKey, Counter[Any]] = defaultdict(Counter)
        """The sums of each group: "runs", "nodes", "fell back" and ("kind", K)."""
        self.reasons: dict[ReasonKey, Counter[str]] = defaultdict(Counter)
        self.texts: dict[tuple[str, str], str] = {}
        self.plans = RunPlans()
        self.times: dict[str, str] = {}
        """Time of day of a run, where it is known."""
        self.kernels: dict[KernelKey, list[_Kernel]] = defaultdict(list)
        self.unreadable: list[Unreadable] = []

    def add(self, run: SurveyedRun) -> None:
        """Add a run."""
        row = run.row
        self._name(run)
        self.plans.add(row.run, run.plan)
        for key, group in run.groups.items():
            tally = self.groups[key]
            tally.update(["runs", ("kind", group.kind)])
            tally["nodes"] += group.nodes
            tally["fell back"] += group.fell_back
        for reason, fact in run.reasons.items():
            sums = self.reasons[reason]
            sums["runs"] += 1
            for name in ("nodes", "bytes", "ns", "keeps_out"):
                sums[name] += getattr(fact, name)
            self.texts[reason] = min(self.texts.get(reason, fact.text), fact.text)
        for kernel, ns in run.kernels.items():
            self.kernels[kernel].append(_Kernel(1, ((row.digest, ns),)))
            if len(self.kernels[kernel]) >= 64:
                self.kernels[kernel] = [_joined(self.kernels[kernel])]

    def merge(self, other: RunSums) -> None:
        """Add the runs of another part."""
        self.rows.update(other.rows)
        self.times.update(other.times)
        self.plans.merge(other.plans)
        for group, tally in other.groups.items():
            self.groups[group].update(tally)
        for reason, sums in other.reasons.items():
            self.reasons[reason].update(sums)
        for key, text in other.texts.items():
            self.texts[key] = min(self.texts.get(key, text), text)
        for kernel, found in other.kernels.items():
            self.kernels[kernel] = [_joined([*self.kernels[kernel], *found])]
        self.unreadable += other.unreadable

    def rename(self, name: str, run: SurveyedRun) -> None:
        """Give an added run the name and day of ``run``, another file with the same
        content."""
        del self.rows[name]
        self.times.pop(name, None)
        self.plans.rename(name, run.row.run)
        self._name(run)

    def _name(self, run: SurveyedRun) -> None:
        self.rows[run.row.run] = run.row
        if run.time is not None:
            self.times[run.row.run] = run.time


def _joined(found: Sequence[_Kernel]) -> _Kernel:
    if len(found) == 1:
        return found[0]
    runs = sum(kernel.runs for kernel in found)
    highest = None
    if runs > MOST_SAMPLES:
        highest = tuple(
            nlargest(
                MOST_SAMPLES, (pair for kernel in found for pair in kernel.times)
            )
        )
    return _Kernel(
        runs,
        tuple(
            nsmallest(
                MOST_SAMPLES, (pair for kernel in found for pair in kernel.sample)
            )
        ),
        highest,
    )


def read_chunk(
    items: Sequence[ListedRun], notify: Callable[[SurveyedRun], None] | None = None
) -> RunSums:
    """The work of one worker: a file that cannot be read never ends the others.
    ``notify`` is called for each run."""
    part = RunSums()
    for item in items:
        try:
            facts = facts_of(item)
            part.add(facts)
            if notify is not None:
                notify(facts)
        except Exception as error:
            why = (
                getattr(error, "message", None)
                or f"{type(error).__name__}: {error}"
            )
            part.unreadable.append(
                Unreadable(item.name, " ".join(str(why).split())[:300])
            )
    return part


def survey_of(
    part: RunSums,
    duplicates: Iterable[Duplicate],
    ignored: int,
    work: Work,
    since: str | None = None,
) -> Survey:
    """Return the answers. Args: since: the first day (``YYYY-MM-DD``) for losses
    and slow kernels. Earlier runs only serve for comparison.
    """
    rows = tuple(sorted(part.rows.values(), key=lambda row: row.run))
    runs_of = Counter(row.model for row in rows)
    groups = []
    for key, tally in part.groups.items():
        groups.append(_share(key, tally, runs_of[key.model]))
    gone, moved = losses(rows, part.plans, part.times)
    counted = [row for row in rows if is_since(row.date, since)]
    outliers, left_out = _outliers(
        part.kernels, {(row.digest, row.model): row.run for row in counted}
    )
    return Survey(
        runs=rows,
        groups=tuple(
            sorted(
                groups, key=lambda share: (-share.runs, share.model or "", share.id)
            )
        ),
        gone=tuple(loss for loss in gone if is_since(loss.date, since)),
        reasons=_reasons(part),
        outliers=outliers,
        unreadable=tuple(sorted(part.unreadable, key=lambda run: run.run)),
        duplicates=tuple(sorted(duplicates, key=lambda copy: copy.run)),
        outliers_left_out=left_out,
        ignored=ignored,
        work=work,
        moved=moved,
        since=since,
    )


def _share(key: GroupKey, tally: Counter[Any], runs: int) -> GroupShare:
    return GroupShare(
        id=id_of(key),
        model=key.model,
        phase=key.phase,
        ops=key.ops,
        places=key.source_lines,
        kinds=tuple(
            sorted(
                kind[1]
                for kind in tally
                if isinstance(kind, tuple) and kind[0] == "kind"
            )
        ),
        runs=tally["runs"],
        runs_of_model=runs,
        share=round(tally["runs"] / runs, 6),
        nodes=tally["nodes"],
        fell_back=tally["fell back"],
    )


def _reasons(part: RunSums) -> tuple[ReasonShare, ...]:
    found = []
    for (code, op), sums in part.reasons.items():
        found.append(
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
        )
    return tuple(
        sorted(
            found,
            key=lambda reason: (
                -reason.ms,
                -reason.bytes,
                -reason.nodes,
                reason.code,
                reason.op,
            ),
        )
    )


def _outliers(
    kernels: Mapping[KernelKey, Sequence[_Kernel]],
    names: Mapping[tuple[str, str | None], str],
) -> tuple[tuple[Outlier, ...], int]:
    """The outliers, and how many more there are.

    Args:
        names: digest and model of each run that can be an outlier -> its name.
    """
    found: list[Outlier] = []
    left_out = 0
    for (model, gpu, name), parts in kernels.items():
        kernel = _joined(parts)
        if kernel.runs < LEAST_RUNS:
            continue
        times = [ns for _, ns in kernel.sample]
        usual = median(times)
        if not usual:
            continue
        limit = max(
            SLOWER * usual,
            usual + DEVIATIONS * 1.4826 * median(abs(ns - usual) for ns in times),
        )
        slow = []
        for ns, digest in kernel.times:
            if ns > limit and (digest, model) in names:
                slow.append((ns, digest))
        slowest = nlargest(MOST_SLOWEST, slow)
        more = len(slow) - len(slowest)
        left_out += more
        for ns, digest in slowest:
            ms, ratio = ns / NS, round(ns / usual, 4)
            found.append(
                Outlier(
                    names[digest, model],
                    name,
                    model,
                    gpu,
                    ms,
                    usual / NS,
                    ratio,
                    kernel.runs,
                    left_out=more,
                )
            )
    return tuple(
        sorted(
            found, key=lambda outlier: (-outlier.ratio, outlier.run, outlier.kernel)
        )
    ), left_out
