"""The groups that the runs of each model lost, one row for each loss: several
groups that were lost at one time with one cause are one loss, and a group that
still exists in another form is not lost."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fusiondoc.model import count
from fusiondoc.model.survey_answers import DIMENSIONS, NAMES, Gone, RunRow
from fusiondoc.numbers import whole_number, whole_numbers
from fusiondoc.workflows.loss_causes import SAME_RUNS, GroupLoss, losses_of, onset
from fusiondoc.workflows.share_explanations import (
    DATE,
    RunFactor,
    RunHistory,
    scopes_of,
)
from fusiondoc.workflows.survey_facts import text_of
from fusiondoc.workflows.survey_keys import GroupKey
from fusiondoc.workflows.survey_plans import RunPlan, RunPlans
from fusiondoc.workflows.survey_successors import successors
from fusiondoc.workflows.survey_tracks import Holdings, Node, Programs, Track

MOST_COUNTS = 4
"""Most numbers of instances of a group that are tested separately."""
MOST_TRACKS = 2_000
"""Most groups of a model that are followed: those that most runs have."""
MORE = 0.25
"""Share of runs by which a reason must become more frequent to count as a cause of
a loss."""


def id_of(key: GroupKey) -> str:
    """The group's id in the answer."""
    return hashlib.blake2b(repr(tuple(key)).encode(), digest_size=5).hexdigest()


def losses(
    rows: Iterable[RunRow], plans: RunPlans, times: Mapping[str, str]
) -> tuple[tuple[Gone, ...], int]:
    """Return the losses of all models, and the number of groups that only moved to
    other lines. Args: times: time of day of each run, if it is known.
    """
    by_model: dict[str | None, list[RunRow]] = defaultdict(list)
    for row in rows:
        by_model[row.model].append(row)
    models = []
    for name in sorted(
        by_model, key=lambda model_name: (model_name is None, model_name or "")
    ):
        models.append(_Model(by_model[name], plans, times))
    tested = sum(len(model.sequences) for model in models)
    gone = []
    for model in models:
        gone.extend(model.gone(tested))
    gone.sort(key=lambda row: (row.model or "", row.group))
    gone.sort(key=lambda row: row.date or "", reverse=True)
    return tuple(gone), sum(model.moved for model in models)


class _Lost(NamedTuple):
    """A group that was lost, or some instances of it."""

    track: Track
    least: int
    """Least number of instances with which a run counts as having it."""
    has: Sequence[int | None]
    """For each run whether it has it; None if that is not known."""
    loss: GroupLoss

    @property
    def size(self) -> int:
        """Number of its operators."""
        return len(self.track.nodes)


class _Model:
    """The runs of one model."""

    def __init__(
        self, rows: Sequence[RunRow], plans: RunPlans, times: Mapping[str, str]
    ) -> None:
        dated = [row for row in rows if row.date is not None]
        self._dated = 2 * len(dated) >= len(rows)
        self._rows = sorted(
            dated if self._dated else rows,
            key=lambda row: (self._moment(row, times), row.run),
        )
        self._moments = tuple(self._moment(row, times) for row in self._rows)
        self._plans = plans.of(row.run for row in self._rows)
        self._failing = 2 * sum(plan.ended_early for plan in self._plans) > len(
            self._plans
        )
        self._programs = Programs(self._plans)
        self._holdings = Holdings(self._programs, self._plans)
        self._forms: dict[Track, dict[GroupKey, None]] = {}
        factors = tuple(self._factors())
        self._history = RunHistory(
            self._moments, self._dated, factors, scopes_of(len(self._rows), factors)
        )
        self._without_backward = self._ended_backward()
        self._tracks = self._followed()
        self.sequences: dict[tuple[int | None, ...], list[tuple[Track, int]]] = (
            defaultdict(list)
        )
        """For each run whether it has a group -> the groups with these runs, and
        how many instances count."""
        for track in self._tracks:
            self._look_at(track)

    def _moment(self, row: RunRow, times: Mapping[str, str]) -> str:
        if not self._dated:
            return repr(
                [
                    order(value or "")
                    for value in (row.torch, row.driver, row.cuda, row.fusiondoc)
                ]
            )
        time = times.get(row.run)
        if time is not None:
            return f"{row.date}T{time}"
        return str(row.date)

    @property
    def moved(self) -> int:
        """Number of groups that were at other lines before."""
        return sum(len(forms) > 1 for forms in self._forms.values())

    def _ended_backward(self) -> frozenset[int]:
        """The runs of scripts since which no backward pass is shown any more: its
        groups are lost. A single run without one may have had nothing to train."""
        shown = []
        for plan in self._plans:
            shown.append(
                int(bool(plan.backward))
                if plan.backward is not False and not plan.ended_early
                else None
            )
        without: set[int] = set()
        for loss in losses_of(self._history, shown, 1):
            if not sum(_those(shown, loss.after)):
                without.update(run for run in loss.after if shown[run] == 0)
        return frozenset(without)

    def _followed(self) -> list[Track]:
        often: Counter[Track] = Counter()
        for plan in self._plans:
            for track, index in self._holdings.tracks[plan.digest].items():
                often[track] += 1
                self._forms.setdefault(track, {})[plan.groups[index].key] = None
        found = [track for track, runs in often.items() if runs >= 2]
        found.sort(
            key=lambda track: (-often[track], track.phase or "", track.nodes)
        )
        return found[:MOST_TRACKS]

    def _look_at(self, track: Track) -> None:
        """Record which runs have a group, and, if some runs lack instances, which
        have so many instances of it."""
        by_plan: dict[str, int | None] = {}
        for plan in self._plans:
            if plan.digest not in by_plan:
                by_plan[plan.digest] = self._instances(track, plan)
        counts = [by_plan[plan.digest] for plan in self._plans]
        if track.phase == "backward":
            counts = [
                0 if run in self._without_backward else number
                for run, number in enumerate(counts)
            ]
        usual = Counter(number for number in counts if number)
        for least in sorted(
            {1, *(number for number, _ in usual.most_common(MOST_COUNTS))}
        ):
            has = []
            for number in counts:
                has.append(None if number is None else int(number >= least))
            if 0 in has and 1 in has:
                self.sequences[tuple(has)].append((track, least))

    def _instances(self, track: Track, plan: RunPlan) -> int | None:
        number = self._holdings.count(track, plan)
        if not number and plan.ended_early and not self._failing:
            return None
        if not number and track.phase == "backward" and not plan.backward:
            return None
        return number

    def gone(self, tested: int) -> list[Gone]:
        """Return a row for each loss. Args: tested: number of sequences of runs
        that are tested in all models."""
        found: list[_Lost] = []
        for has, tracks in self.sequences.items():
            for loss in losses_of(self._history, has, tested):
                found += [_Lost(track, least, has, loss) for track, least in tracks]
        rows = []
        for members in _same_losses(found):
            still_lost = self._without_successors(members)
            if still_lost:
                rows.append(self._row(still_lost))
        return rows

    def _factors(self) -> Iterator[RunFactor]:
        for name in DIMENSIONS:
            if name == DATE:
                continue
            of_runs = self._of_runs(name)
            known = [value for value in of_runs if value is not None]
            values = list(dict.fromkeys(known))
            if len(values) < 2 or 10 * len(known) < 9 * len(of_runs):
                continue
            if name in _VERSIONS:
                values.sort(key=order)
            index: dict[str | None, int] = {}
            for code, value in enumerate(values):
                index[value] = code
            codes = tuple(index.get(value, -1) for value in of_runs)
            yield RunFactor(
                name, tuple(values), codes, name in _IN_ORDER, name in _SCOPES
            )

    def _of_runs(self, dimension: str) -> list[str | None]:
        """The value of a factor for each run; None if it is not known."""
        if dimension != "lines":
            return [_value(row, dimension) for row in self._rows]
        numbers = [self._programs.of(plan) for plan in self._plans]
        return [None if number is None else f"{number:06}" for number in numbers]

    def _row(self, members: Sequence[_Lost]) -> Gone:
        """The groups of a loss as a row."""
        first = max(members, key=lambda lost: (lost.loss.evidence, lost.size))
        loss, has = first.loss, first.has
        keys = list(
            dict.fromkeys(self._form(lost) for lost in self._largest(members))
        )
        begin = earliest = latest = until = None
        if self._dated:
            begin, earliest, latest, until = onset(self._history, has, loss)
        last, since = self._values(loss, has)
        before, after = _those(has, loss.before), _those(has, loss.after)
        return Gone(
            group=id_of(keys[0]),
            text=text_of(keys[0]),
            model=keys[0].model,
            by=loss.by,
            last=last,
            since=since,
            share_before=round(sum(before) / len(before), 6),
            runs_before=len(before),
            runs_since=len(after),
            why=self._why(members, loss),
            groups=tuple(map(id_of, keys)),
            texts=tuple(map(text_of, keys)),
            share_since=round(sum(after) / len(after), 6),
            instances=max(lost.least for lost in members),
            date=begin,
            date_from=earliest,
            date_to=latest,
            until=until,
            scope=" and ".join(
                f"{NAMES[name]} {value}" for name, value in loss.scope.values
            )
            or None,
            together=tuple(self._change(name, loss, has) for name in loss.together),
        )

    def _largest(self, members: Sequence[_Lost]) -> list[_Lost]:
        """The groups, without those that are parts of others lost with them."""
        kept: list[_Lost] = []
        for lost in sorted(members, key=lambda lost: (-lost.size, lost.least)):
            if not any(_is_part(lost.track, other.track) for other in kept):
                kept.append(lost)
        return sorted(
            kept,
            key=lambda lost: (
                lost.track.phase == "backward",
                text_of(self._form(lost)),
            ),
        )

    def _form(self, lost: _Lost) -> GroupKey:
        """The last form that a group had before it was lost."""
        for run in reversed(lost.loss.before):
            plan = self._plans[run]
            index = self._holdings.tracks[plan.digest].get(lost.track)
            if index is not None:
                return plan.groups[index].key
        return next(iter(self._forms[lost.track]))

    def _without_successors(self, members: Sequence[_Lost]) -> list[_Lost]:
        """The groups that the runs after the loss do not have in another form: the
        usual plans are compared as ``compare`` does it."""
        loss, has = members[0].loss, members[0].has
        before = self._usual(run for run in loss.before if has[run])
        after = self._usual(run for run in loss.after if has[run] == 0)
        found = successors(self._programs, before, after)
        kept = []
        for lost in members:
            if lost.least > 1 or lost.track not in found:
                kept.append(lost)
        return kept

    def _usual(self, runs: Iterable[int]) -> RunPlan:
        """The most frequent plan of some runs."""
        often = Counter(self._plans[run].digest for run in runs)
        most = max(often.values())
        digest = min(
            plan_digest for plan_digest, number in often.items() if number == most
        )
        return next(plan for plan in self._plans if plan.digest == digest)

    def _values(
        self, loss: GroupLoss, has: Sequence[int | None]
    ) -> tuple[str, str]:
        """The last value with the groups and the first without; all values of a
        factor without order."""
        if loss.by == DATE:
            had = [run for run in loss.before if has[run]]
            lacking = [run for run in loss.after if has[run] == 0]
            return self._moments[max(had)][:10], self._moments[min(lacking)][:10]
        factor = next(
            known for known in self._history.factors if known.name == loss.by
        )
        before = sorted({factor.codes[run] for run in loss.before})
        after = sorted({factor.codes[run] for run in loss.after})
        if factor.ordered and max(before) < min(after):
            before, after = before[-1:], after[:1]
        names_before = ", ".join(self._named(factor, code) for code in before)
        names_after = ", ".join(self._named(factor, code) for code in after)
        return names_before, names_after

    def _named(self, factor: RunFactor, code: int) -> str:
        """A value in words: a program has no name but the day of its first run."""
        if factor.name != "lines":
            return factor.values[code]
        run = factor.codes.index(code)
        if self._dated:
            return self._moments[run][:10]
        return f"{code + 1}"

    def _change(self, name: str, loss: GroupLoss, has: Sequence[int | None]) -> str:
        other = GroupLoss(loss.scope, name, (), loss.before, loss.after, 0.0)
        return f"{NAMES[name]} {' to '.join(self._values(other, has))}"

    def _why(self, members: Sequence[_Lost], loss: GroupLoss) -> tuple[str, ...]:
        """The reasons that operators of the groups have in more of the runs after
        than before."""
        nodes: set[Node] = set()
        for lost in members:
            nodes.update(lost.track.nodes)
        before, after = (
            self._codes(loss.before, nodes),
            self._codes(loss.after, nodes),
        )
        found = []
        for code, runs in after.items():
            if runs / len(loss.after) > before[code] / len(loss.before) + MORE:
                found.append((-runs, code))
        reasons = []
        for runs, code in sorted(found)[:3]:
            reasons.append(f"{code} in {count(-runs, 'run')}")
        return tuple(reasons)

    def _codes(self, runs: Iterable[int], nodes: set[Node]) -> Counter[str]:
        """Codes of the reasons of these operators outside groups, with the number
        of runs that have them."""
        found: Counter[str] = Counter()
        for run in runs:
            plan = self._plans[run]
            codes = set()
            for row in plan.outside:
                if (
                    row.operator.op,
                    self._programs.line(plan, row.operator),
                ) in nodes:
                    codes.add(row.code)
            found.update(codes)
        return found


def _is_part(track: Track, other: Track) -> bool:
    """True if all operators of a group are in another one of the same phase."""
    return track.phase == other.phase and not Counter(track.nodes) - Counter(
        other.nodes
    )


def _those(has: Sequence[int | None], runs: Iterable[int]) -> list[int]:
    """1 for each of the runs that has the group, 0 for each other."""
    return [int(has[run] or 0) for run in runs]


_VERSIONS = ("torch", "cuda", "driver", "fusiondoc")
_IN_ORDER = (*_VERSIONS, "commit", "lines")
_SCOPES = ("gpu", "driver", "torch", "settings", "fusiondoc")


def _value(row: RunRow, name: str) -> str | None:
    value: str | None = getattr(row, name)
    # Builds of one release (+cpu, +cu121) have no order.
    if value is not None and name == "torch":
        return value.partition("+")[0]
    return value


def _same_losses(found: Sequence[_Lost]) -> list[list[_Lost]]:
    """Combine groups that were lost in the same runs, by the same cause, into one
    loss. If a group and some of its instances were lost together, only the group is
    reported."""
    clusters: list[list[_Lost]] = []
    ranked = sorted(
        found, key=lambda lost: (-lost.loss.evidence, lost.least, lost.track.nodes)
    )
    for lost in ranked:
        for members in clusters:
            if _is_same(members[0].loss, lost.loss):
                members.append(lost)
                break
        else:
            clusters.append([lost])
    made = []
    for members in clusters:
        least: dict[Track, _Lost] = {}
        for lost in members:
            known = least.get(lost.track)
            if known is None or lost.least < known.least:
                least[lost.track] = lost
        made.append(list(least.values()))
    return made


def _is_same(loss: GroupLoss, other: GroupLoss) -> bool:
    if loss.scope != other.scope:
        return False
    a, b = frozenset(loss.after), frozenset(other.after)
    return len(a & b) >= SAME_RUNS * len(a | b)


def order(value: str) -> tuple[Any, ...]:
    """Return a sort key for versions and dates, by their numbers; pre-releases
    (``2.1.0a0``, ``2.2.0.dev20230901``, ``2.1.0rc2``) come before their release."""
    public = value.partition("+")[0]
    early = _EARLY.search(public)
    numbers = whole_numbers(
        re.findall(r"[0-9]{1,9}", public[: early.start()] if early else public)
    )
    while numbers and not numbers[-1]:
        numbers.pop()
    if early:
        stage = _STAGES.index(early[1]), whole_number(early[2]) or 0
    else:
        stage = len(_STAGES), 0
    return numbers, stage, value


_STAGES = ("dev", "a", "b", "rc")
_EARLY = re.compile(r"(?<=\d)[._-]?(dev|a|b|rc)(\d{0,9})")
