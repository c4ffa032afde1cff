"""The plan of a run, kept by a survey to find losses: the source position of each
operator, and its group or the reason why it is in none.

Many runs have equal plans; each plan is kept once, and a run refers to it by its
digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fusiondoc.model import dataclass
from fusiondoc.model.report import OpNode, Report, Unfused
from fusiondoc.model.source import Source
from fusiondoc.model.survey_answers import SavedReport, SavedUnfused
from fusiondoc.workflows.survey_keys import GroupFact, GroupKey

ENDED_EARLY = frozenset({"FD101", "FD303", "FD307", "FD902", "FD905"})
"""Findings of runs that ended early, or whose logs did, and that may lack groups
for that reason."""


class LocatedOperator(NamedTuple):
    """An operator and its source position. ``column`` is -1 where it is not
    known."""

    op: str
    file: str
    """File name without folders, as these differ between machines; "" where the
    source is not known."""
    line: int
    column: int


class PlannedGroup(NamedTuple):
    """A group of a plan."""

    key: GroupKey
    operators: tuple[LocatedOperator, ...]
    instances: int


class OutsideOperators(NamedTuple):
    """Operators in no group."""

    operator: LocatedOperator
    phase: str | None
    code: str
    nodes: int


@dataclass(frozen=True)
class RunPlan:
    """The groups of a run, and its operators outside them."""

    digest: str
    groups: tuple[PlannedGroup, ...]
    outside: tuple[OutsideOperators, ...]
    backward: bool | None
    """True if a backward pass ran: its log has one, or it was run with --backward;
    None for a script without one."""
    ended_early: bool


def plan_of(
    report: Report | SavedReport,
    groups: Mapping[GroupKey, GroupFact],
    nodes: Mapping[GroupKey, Sequence[OpNode]],
) -> RunPlan:
    """The plan of a run; ``nodes`` are the operators of each group."""
    planned = []
    for key, fact in groups.items():
        planned.append(
            PlannedGroup(key, tuple(map(_operator, nodes[key])), fact.nodes)
        )
    planned.sort(key=repr)
    outside = sorted(
        {
            OutsideOperators(_operator(row), row.phase, row.reason.code, row.count)
            for row in report.unfused
            if row.ran is not False
        },
        key=repr,
    )
    phases = {group.key.phase for group in planned} | {row.phase for row in outside}
    backward: bool | None = None
    if "backward" in phases or _option(report, "backward") is True:
        backward = True
    elif _option(report, "backward") is False and not _option(report, "script"):
        backward = False
    ended_early = any(finding.code in ENDED_EARLY for finding in report.findings)
    content = repr((planned, outside, backward, ended_early)).encode(
        "utf-8", "backslashreplace"
    )
    return RunPlan(
        hashlib.blake2b(content, digest_size=16).hexdigest(),
        tuple(planned),
        tuple(outside),
        backward,
        ended_early,
    )


_FOLDERS = re.compile(r"[/\\]")


def _operator(node: OpNode | Unfused | SavedUnfused) -> LocatedOperator:
    source = Source.parse(node.user_source or node.source)
    if source is None:
        return LocatedOperator(node.op, "", 0, -1)
    column = source.column
    inner = Source.parse(node.source)
    if (
        column is None
        and inner is not None
        and inner.at_line.endswith(source.at_line)
    ):
        column = inner.column
    return LocatedOperator(
        node.op,
        _FOLDERS.split(source.file)[-1],
        source.line,
        -1 if column is None else column,
    )


def _option(report: Report | SavedReport, name: str) -> Any:
    options = report.target.options
    if options is None:
        return None
    if isinstance(options, Mapping):
        return options.get(name)
    return getattr(options, name)


_SETTINGS = (
    "fuser",
    "frontend",
    "trace",
    "script",
    "freeze",
    "no_freeze",
    "eval",
    "in_place_off",
    "device",
)
"""Options of a run that decide which operators are fused; knobs too."""


def settings_of(report: Report | SavedReport) -> str | None:
    """The options of the fuser and of the run, such as ``fuser=none, knob
    inlining=off``; None where they are not known."""
    if report.target.options is None:
        return None
    requested = {name: _option(report, name) for name in _SETTINGS}
    found = []
    for name, value in requested.items():
        if value not in (None, False, ""):
            found.append(f"{name}={_word(value)}")
    knobs = _option(report, "knobs")
    if isinstance(knobs, Mapping):
        found += sorted(
            f"knob {name}={_word(value)}" for name, value in knobs.items()
        )
    return ", ".join(found) or "none"


def _word(value: object) -> str:
    if value is True:
        return "on"
    return " ".join(str(value).split())[:80]


def circumstances(report: Report | SavedReport) -> dict[str, str | None]:
    """Facts beside the environment that can change the fused operators, as fields
    of ``RunRow``."""
    environment = report.environment
    return {
        "fusiondoc": environment.get("fusiondoc") or None,
        "commit": environment.get("commit") or None,
        "settings": settings_of(report),
        "host": environment.get("host") or None,
    }


_MOMENT = re.compile(r"(?:^|[/\\])(\d{8})-([01]\d|2[0-3])([0-5]\d)([0-5]\d)-")


def time_of(capture: str, name: str, created: str | None) -> str | None:
    """The time of day of a run, ``hh:mm:ss``: from the name of its capture, else
    from its time of creation."""
    found = _MOMENT.search(capture) or _MOMENT.search(name)
    if found is not None:
        return ":".join(found.groups()[1:])
    found = re.match(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)", created or "")
    if found is None:
        return None
    return found.group(1)


class RunPlans:
    """The plans of some runs, each stored once."""

    def __init__(self) -> None:
        self.by_digest: dict[str, RunPlan] = {}
        self.of_run: dict[str, str] = {}
        """Name of a run -> digest of its plan."""
        self._same: dict[Any, Any] = {}

    def add(self, run: str, plan: RunPlan) -> None:
        """Add the plan of one more run."""
        self.of_run[run] = plan.digest
        self._keep(plan)

    def merge(self, other: RunPlans) -> None:
        """Add the plans of other runs."""
        self.of_run.update(other.of_run)
        for plan in other.by_digest.values():
            self._keep(plan)

    def rename(self, before: str, after: str) -> None:
        """Give a run another name."""
        self.of_run[after] = self.of_run.pop(before)

    def of(self, runs: Iterable[str]) -> list[RunPlan]:
        """The plan of each run."""
        return [self.by_digest[self.of_run[run]] for run in runs]

    def _keep(self, plan: RunPlan) -> None:
        """Keep a plan; parts that equal parts of another plan share their
        memory."""
        if plan.digest in self.by_digest:
            return
        same = self._same
        self.by_digest[plan.digest] = RunPlan(
            plan.digest,
            tuple(same.setdefault(group, group) for group in plan.groups),
            tuple(same.setdefault(row, row) for row in plan.outside),
            plan.backward,
            plan.ended_early,
        )
