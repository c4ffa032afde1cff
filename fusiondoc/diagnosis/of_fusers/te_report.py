"""Makes the rows of a report from the records of Transformer Engine's fuser:
groups, unfused operators, plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fusiondoc.captures.frontend_records import Profile, ProfiledOperator, TeRecords
from fusiondoc.diagnosis.of_fusers.te_rules import Planner, lacks_recipe, version_of
from fusiondoc.diagnosis.rules import te_coverage
from fusiondoc.fusers.te import TE
from fusiondoc.fusers.te.records import PlannedOperator, RecordedPlan
from fusiondoc.fusers.te.rules import LATEST
from fusiondoc.fusers.torchscript import TORCHSCRIPT
from fusiondoc.model import dataclass
from fusiondoc.model.reasons import NotKnown
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.report import Group, Instance, Kernel, OpNode, Report, Unfused
from fusiondoc.model.runs import FuserState, Spread, Time
from fusiondoc.model.te import (
    TeFuser,
    TeOperator,
    TePass,
    TePlan,
    TeReport,
    TeSplit,
    TeStep,
    TeTime,
)

FORWARD, BACKWARD = "forward", "backward"


def te_report(report: Report, records: TeRecords, requested: str | None) -> Report:
    """Return the report with Transformer Engine's plans. Its rows come after those
    of TorchScript, if the program has any; else they are the whole report."""
    rows = _Rows(report, records)
    if report.groups or report.unfused:
        return rows.beside()
    return rows.alone(requested)


@dataclass(frozen=True)
class _Seen:
    """A fused operator of a pipeline, and the plans of that pipeline that have
    it."""

    fuser: int
    phase: str
    step: PlannedOperator
    plans: tuple[RecordedPlan, ...]
    first: bool
    """True if the pipeline's first plan has it."""


_Took = tuple[int, str, PlannedOperator, tuple[RecordedPlan, ...]]
"""An operator of a pipeline in a phase, and the plans that have it."""


@dataclass(frozen=True)
class _Key:
    """The key by which fused operators share a row."""

    kind: str
    phase: str
    nodes: tuple[OpNode, ...]
    specialisation: int


class _Rows:
    def __init__(self, report: Report, records: TeRecords) -> None:
        self._report = report
        self._records = records
        self._version = version_of(records.package.version)
        self._pipelines = {one.fuser: one for one in records.pipelines}
        self._layers: dict[int, str] = {}
        for one in records.sequences:
            for part in one.parts:
                if part.fuser is not None:
                    self._layers[part.fuser] = one.path
        self._plans: dict[int, list[RecordedPlan]] = {}
        for plan in records.plans:
            if plan.fuser in self._pipelines:
                self._plans.setdefault(plan.fuser, []).append(plan)
        for plans in self._plans.values():
            plans.sort(
                key=lambda one: not one.grad
            )  # stable: training before inference
        self._ids: dict[tuple[int, str, tuple[int, ...], str], str] = {}
        """(pipeline, phase, basic operators, class) -> id of the row."""

    def alone(self, requested: str | None) -> Report:
        """Return the report if it has only these rows."""
        made = replace(
            self.beside(),
            fuser=FuserState(
                requested, TE.fuser, self.ran, self._section().in_words
            ),
            iterations=(),  # passes differ by recipe, not by shape
            frontend=TE.name,
            speed_note=None,  # the note is on TorchScript
        )
        return replace(made, coverage=te_coverage(made))

    def beside(self) -> Report:
        """Return the report with these rows after the others."""
        report = self._report
        groups = self._groups(len(report.groups))
        kernels = self._kernels(groups, len(report.kernels))
        groups = [
            replace(one, kernels=tuple(k.id for k in kernels if one.id in k.groups))
            for one in groups
        ]
        if report.frontend not in (None, TE.name):
            frontend = report.frontend
        else:
            frontend = TORCHSCRIPT.name
        return replace(
            report,
            groups=(*report.groups, *groups),
            unfused=(*report.unfused, *self._unfused()),
            kernels=(*report.kernels, *kernels),
            frontend=frontend,
            te=self._section(),
        )

    @property
    def ran(self) -> bool:
        return any(one.device == "cuda" for one in self._records.plans)

    # -- groups ---------------------------------------------------------------------------------------------

    def _groups(self, before: int) -> list[Group]:
        rows: dict[_Key, list[_Seen]] = {}
        for seen in self._seen():
            nodes = tuple(
                self._node(seen.fuser, index) for index in seen.step.operators
            )
            key = _Key(
                f"{TE.group_prefix}{seen.step.kind}",
                seen.phase,
                nodes,
                1 if seen.first else 2,
            )
            rows.setdefault(key, []).append(seen)
        order = sorted(
            rows, key=lambda key: (key.specialisation, key.phase == BACKWARD)
        )
        groups = []
        for number, key in enumerate(order, before + 1):
            members = rows[key]
            took = [(one.fuser, one.phase, one.step, one.plans) for one in members]
            for one in members:
                self._ids[
                    (one.fuser, one.phase, one.step.operators, one.step.kind)
                ] = f"G{number}"
            runs = [self._runs(one) for one in members]
            respecialises = None
            if key.specialisation > 1:
                respecialises = self._first_of(members[0])
            groups.append(
                Group(
                    id=f"G{number}",
                    kind=key.kind,
                    name=members[0].step.kind,
                    phase=key.phase,
                    specialisation=key.specialisation,
                    respecialises=respecialises,
                    nodes=key.nodes,
                    inputs=(),
                    outputs=(),
                    runs=sum(one for one in runs if one is not None)
                    if None not in runs
                    else None,
                    kernels=(),
                    bytes_in=None,
                    bytes_out=None,
                    fallback=False,
                    rank=None,
                    instances=tuple(
                        Instance(self._layer(one.fuser), (), ran)
                        for one, ran in zip(members, runs)
                    ),
                    time=self._row_time(took),
                )
            )
        return groups

    def _seen(self) -> Iterator[_Seen]:
        """Yield every fused operator of every pipeline once: plans of other recipes
        and of inference repeat it."""
        for fuser, plans in self._plans.items():
            found: dict[tuple[str, PlannedOperator], list[RecordedPlan]] = {}
            for plan in plans:
                for phase in (FORWARD, BACKWARD):
                    for step in _steps(plan, phase):
                        if step.fused:
                            found.setdefault((phase, step), []).append(plan)
            for (phase, step), having in found.items():
                yield _Seen(fuser, phase, step, tuple(having), plans[0] in having)

    def _first_of(self, seen: _Seen) -> str | None:
        """Return the row of the first plan that has one of its operators in the
        same phase."""
        for (fuser, phase, indexes, _), group in self._ids.items():
            mine = set(indexes) & set(seen.step.operators)
            if (
                (fuser, phase) == (seen.fuser, seen.phase)
                and mine
                and indexes != seen.step.operators
            ):
                return group
        return None

    def _runs(self, seen: _Seen) -> int | None:
        counts = [self._records.calls.get(str(plan.plan)) for plan in seen.plans]
        if None in counts:
            return None
        return sum(one for one in counts if one is not None)

    def _node(self, fuser: int, index: int) -> OpNode:
        operators = self._pipelines[fuser].operators
        if index >= len(operators):
            return OpNode(f"{TE.group_prefix}?", None, None)
        return OpNode(
            f"{TE.group_prefix}{operators[index].kind}",
            None,
            operators[index].source,
        )

    def _layer(self, fuser: int) -> str | None:
        """Return the path of the sequence; for operators that are called by
        themselves their own path."""
        if fuser in self._layers:
            return self._layers[fuser] or None
        for one in self._pipelines[fuser].operators:
            if one.path:
                return one.path
        return None

    # -- operators in no group ------------------------------------------------------------------------------

    def _unfused(self) -> Iterator[Unfused]:
        """Yield the basic operators of the first plan of each pipeline: equal ones
        share a row."""
        rows: dict[tuple[str, str | None, str, Reason], list[str | None]] = {}
        took: dict[tuple[str, str | None, str, Reason], list[_Took]] = {}
        for fuser, plans in self._plans.items():
            plan = plans[0]
            for phase in (FORWARD, BACKWARD):
                planner = self._planner(plan, phase)
                for step in _steps(plan, phase):
                    if step.fused:
                        continue
                    for index in step.operators:
                        node = self._node(fuser, index)
                        key = (
                            node.op,
                            node.user_source,
                            phase,
                            self._why(planner, plan, index),
                        )
                        rows.setdefault(key, []).append(self._layer(fuser))
                        took.setdefault(key, []).append(
                            (fuser, phase, step, (plan,))
                        )
        for index, (key, layers) in enumerate(
            rows.items(), len(self._report.unfused)
        ):
            op, source, phase, reason = key
            known = list(dict.fromkeys(one for one in layers if one is not None))
            yield Unfused(
                op=op,
                source=None,
                user_source=source,
                phase=phase,
                count=len(layers),
                reason=reason,
                evidence=(),
                ran=True,
                layers=tuple(known),
                layer_counts=tuple(layers.count(one) for one in known),
                time=self._row_time(took[key]),
                index=index,
            )

    def _planner(self, plan: RecordedPlan, phase: str) -> Planner | None:
        if self._version is None:
            return None
        return Planner(
            min(self._version, LATEST),
            phase,
            self._pipelines[plan.fuser].operators,
            plan,
        )

    def _why(
        self, planner: Planner | None, plan: RecordedPlan, index: int
    ) -> Reason:
        if planner is None or index >= len(planner.operands):
            return Reason.of(
                "FD299",
                NotKnown("te_version" if planner is None else "te_operator"),
            )
        reason = planner.why(index)
        if not lacks_recipe(reason.detail):
            return reason
        recipes = self._recipes_that_fuse(plan.fuser, planner.phase, index)
        return Reason.of(
            reason.code, replace(reason.detail, fused_under=tuple(sorted(recipes)))
        )

    def _recipes_that_fuse(self, fuser: int, phase: str, index: int) -> set[str]:
        """Return the recipes under which an operator of a pipeline is part of a
        fused one."""
        found = set()
        for plan in self._plans[fuser]:
            if plan.recipe is None:
                continue
            for step in plan.backward if phase == BACKWARD else plan.forward:
                if step.fused and index in step.operators:
                    found.add(plan.recipe.kind)
        return found

    # -- what was measured ----------------------------------------------------------------------------------

    def _kernels(self, groups: Sequence[Group], before: int) -> list[Kernel]:
        """Return the kernels of the rows, from the first profile that has each."""
        kernels: list[Kernel] = []
        done: set[str] = set()
        for profile in self._records.profiles:
            for entry in profile.entries if profile.fused else ():
                step = self._step_of(entry)
                if step is None or not step.fused:
                    continue
                group = self._ids.get(
                    (entry.fuser, entry.phase, step.operators, step.kind)
                )
                if group is None or group in done:
                    continue
                done.add(group)
                for launched in entry.kernels:
                    if launched.kind == "kernel":
                        ms = launched.us / 1000
                        kernels.append(
                            Kernel(
                                id=f"K{before + len(kernels) + 1}",
                                name=launched.name,
                                groups=(group,),
                                launches=None,
                                block=_three(launched.block),
                                grid=_three(launched.grid),
                                smem_bytes=None,
                                ms=Spread(ms, ms, ms),
                                gb_per_s=None,
                                peak_fraction=None,
                                registers=launched.registers,
                                spill_bytes=None,
                                code=None,
                            )
                        )
        return kernels

    def _row_time(self, took: Sequence[_Took]) -> Time | None:
        """Return the time of all operators of a row together, in a pass of the
        first profile that has any of them."""
        for profile in self._records.profiles if took else ():
            if not profile.fused or not profile.us:
                continue
            found = []
            for one in took:
                for entry in profile.entries:
                    if self._is_of(entry, one):
                        found.append(entry.us[1])
            if found:
                return Time(
                    round(sum(found) / 1000, 6), round(sum(found) / profile.us, 6)
                )
        return None

    def _is_of(self, entry: ProfiledOperator, took: _Took) -> bool:
        """True if a profile measured that operator in a pass of one of its
        plans."""
        fuser, phase, step, plans = took
        if (entry.fuser, entry.phase) != (fuser, phase) or len(entry.us) != 3:
            return False
        return (
            entry.plan in [plan.plan for plan in plans]
            and self._step_of(entry) == step
        )

    def _step_of(self, entry: ProfiledOperator) -> PlannedOperator | None:
        plan = None
        for one in self._records.plans:
            if one.plan == entry.plan:
                plan = one
                break
        steps = (
            ()
            if plan is None
            else (plan.forward if entry.phase == FORWARD else plan.backward)
        )
        if entry.entry < len(steps):
            return steps[entry.entry]
        return None

    # -- the section ----------------------------------------------------------------------------------------

    def _section(self) -> TeReport:
        fusers = []
        for fuser, plans in self._plans.items():
            fusers.append(
                TeFuser(
                    self._layer(fuser),
                    tuple(
                        TeOperator(one.kind, one.path, one.source)
                        for one in self._pipelines[fuser].operators
                    ),
                    tuple(self._plan(plan) for plan in plans),
                )
            )
        splits = tuple(
            TeSplit(
                part.kind or "?",
                part.path,
                one.path,
                one.source,
                part.module or None,
            )
            for one in self._records.sequences
            for part in one.parts
            if part.fuser is None
        )
        own: dict[str, None] = {}
        for listed in self._records.package.fusions.values():
            for function in listed:
                if function.own:
                    own[function.name] = None
        passes = []
        for one in self._records.profiles:
            passes.append(
                TePass(one.recipe, one.training, one.fused, one.kernels, one.us)
            )
        return TeReport(
            self._records.package.version,
            self.ran,
            tuple(fusers),
            splits,
            tuple(own),
            tuple(passes),
        )

    def _plan(self, plan: RecordedPlan) -> TePlan:
        alone = self._profile(plan, False)
        planned = self._profile(plan, True)

        def steps(phase: str) -> tuple[TeStep, ...]:
            every = plan.forward if phase == FORWARD else plan.backward
            kept = _steps(plan, phase)
            steps = []
            for one in kept:
                steps.append(
                    TeStep(
                        one.kind,
                        one.operators,
                        one.fused,
                        one.own,
                        self._ids.get((plan.fuser, phase, one.operators, one.kind)),
                        _time(
                            plan.fuser, phase, one, every.index(one), planned, alone
                        ),
                    )
                )
            return tuple(steps)

        return TePlan(
            plan.recipe.kind if plan.recipe is not None else None,
            plan.grad,
            self._records.calls.get(str(plan.plan)),
            steps(FORWARD),
            steps(BACKWARD),
        )

    def _profile(self, plan: RecordedPlan, fused: bool) -> Profile | None:
        """Return the profile of a pass with this plan; for a pass without fusion
        one with the same recipe and mode."""
        recipe = None
        for one in self._records.profiles:
            if one.fused and any(entry.plan == plan.plan for entry in one.entries):
                recipe = one.recipe
                break
        for one in self._records.profiles:
            if (
                one.fused == fused
                and one.training == plan.grad
                and one.recipe == recipe
            ):
                return one
        return None


def _steps(plan: RecordedPlan, phase: str) -> tuple[PlannedOperator, ...]:
    """Return the operators of a plan that a pass runs: a backward pass ends where
    no gradient is needed."""
    if phase == FORWARD:
        return plan.forward
    if not plan.grad:
        return ()
    steps = []
    for one in plan.backward:
        if any(i >= plan.first_backward for i in one.operators):
            steps.append(one)
    return tuple(steps)


def _time(
    fuser: int,
    phase: str,
    step: PlannedOperator,
    index: int,
    planned: Profile | None,
    alone: Profile | None,
) -> TeTime | None:
    if planned is None:
        return None
    mine = _entry(planned, fuser, phase, index)
    if mine is None or len(mine.us) != 3:
        return None
    apart = []
    if alone is not None:
        apart = [_entry(alone, fuser, phase, one) for one in step.operators]
    known = [one for one in apart if one is not None and len(one.us) == 3]
    whole = bool(known) and len(known) == len(step.operators)
    alone_kernels = None
    if whole:
        alone_kernels = sum(one.kernels_of_a_call for one in known)
    return TeTime(
        kernels=mine.kernels_of_a_call,
        copies=len(mine.kernels) - mine.kernels_of_a_call,
        us=mine.us[1],
        alone_kernels=alone_kernels,
        alone_us=round(sum(one.us[1] for one in known), 3) if whole else None,
    )


def _entry(
    profile: Profile | None, fuser: int, phase: str, index: int
) -> ProfiledOperator | None:
    for one in profile.entries if profile is not None else ():
        if (one.fuser, one.phase, one.entry) == (fuser, phase, index):
            return one
    return None


def _three(sizes: Sequence[int]) -> tuple[int, int, int] | None:
    if len(sizes) == 3:
        return sizes[0], sizes[1], sizes[2]
    return None
