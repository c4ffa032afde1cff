"""The plan of a report: at most three changes, best first; or why there is none.

First come the obstacles to judging the run at all (an error, too few passes, no
fuser), then changes of the program and the run by their gain (``gains.py``).
Changes that ``fix`` or ``--try`` refuted in this run are left out, and those that
only ``fix`` found come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from fusiondoc.changes.change import Change
from fusiondoc.diagnosis.casts import with_tensors_cast_to
from fusiondoc.diagnosis.changes_for_findings import (
    blocking_steps,
    faster_products,
    later_steps,
    with_lines_repaired,
)
from fusiondoc.diagnosis.gains import MOST, MOST_TRIED, PlansFor, Rated, best, tried
from fusiondoc.diagnosis.groups_kept_apart import (
    prints_between_groups,
    with_numbers,
)
from fusiondoc.diagnosis.joined_changes import joined
from fusiondoc.diagnosis.nothing_to_do import nothing_to_do
from fusiondoc.diagnosis.of_fusers.compiled_changes import compiled_changes
from fusiondoc.diagnosis.of_fusers.te_changes import te_changes
from fusiondoc.diagnosis.planned_changes import (
    SuggestedChange,
    kept_by_fix,
    planned,
    planned_step,
)
from fusiondoc.diagnosis.proofs import Proofs
from fusiondoc.diagnosis.regions_as_groups import regions_as_groups
from fusiondoc.diagnosis.rules import Context, RunFacts, of_te
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.diagnosis.unlocked import Plans, WouldBeGroup
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.report import Report


def with_plan(
    report: Report, context: Context, of_rows: SuggestedChanges | None
) -> Report:
    """Return the report with its plan.

    Args:
        of_rows: changes that its operators outside groups suggest; None for a
            report without rows of TorchScript.
    """
    proofs, refuted = Proofs(report, context.fixes), frozenset[int]()
    blocking = list(blocking_steps(report, context))
    changes = _planned(_of_other_frontends(report, context), report, context)
    if of_rows is not None:  # of both frontends, if both have a change
        rows, run = of_rows.report, of_rows.run
        suggested = of_rows.at_lines
        blocking = list(with_lines_repaired(blocking, suggested, rows))
        refuted = _rows_refuted(suggested, rows, proofs)
        found = joined(
            (one for one in suggested if not proofs.refutes(one, rows)), rows, run
        )
        changes = (
            _changes(found, rows, run, context, proofs)[: MOST - bool(changes)]
            + changes
        )
    if changes:
        blocking = [one for one in blocking if one.change.codes != ("FD102",)]
    named: set[str] = set()
    for one in blocking:
        named.update(one.change.codes)
    left = _without_findings_on(refuted, report)
    steps = later_steps(left, context, bool(changes))
    later = [one for one in steps if named.isdisjoint(one.change.codes)]
    first = [*blocking, *faster_products(report, context)]
    plan = (
        *_planned(first, report, context),
        *changes,
        *_planned(later, report, context),
    )[:MOST]
    if plan:
        return replace(
            report, plan=plan, plan_title=None, plan_note=None, plan_try=None
        )
    none = nothing_to_do(report, context)
    return replace(
        report,
        plan=(),
        plan_title=none.verdict.value,
        plan_note=none.note,
        plan_try=none.command,
    )


def _of_other_frontends(report: Report, context: Context) -> list[SuggestedChange]:
    """Return the best steps for te.ops and for torch.compile."""
    steps = []
    if report.te is not None:
        steps = te_changes(of_te(report), context)[:MOST]
    if report.compiled is not None:
        steps += compiled_changes(report, context)[:MOST]
    return steps


def _planned(
    steps: Iterable[SuggestedChange], report: Report, context: Context
) -> list[PlannedChange]:
    return [planned_step(one, report, context) for one in steps]


def _rows_refuted(
    changes: Sequence[Change], report: Report, proofs: Proofs
) -> frozenset[int]:
    """Return the rows (``Unfused.index``) whose change was run and did not help."""
    refuted = [one for one in changes if proofs.refutes(one, report)]
    indices = []
    for one in refuted:
        for row in one.rows:
            indices.append(report.unfused[row].index)
    return frozenset(index for index in indices if index is not None)


def _without_findings_on(rows: AbstractSet[int], report: Report) -> Report:
    """Return the report without findings that are on these rows only: their advice
    was followed and did not help."""
    if not rows:
        return report
    left = []
    for one in report.findings:
        if not one.rows or not rows >= set(one.rows):
            left.append(one)
    return replace(report, findings=tuple(left))


def _changes(
    found: list[Change],
    report: Report,
    run: RunFacts,
    context: Context,
    proofs: Proofs,
) -> list[PlannedChange]:
    """Return the best of the changes that operators outside groups suggest, and the
    others that ``fix`` proved."""
    found.sort(key=lambda one: -sum(report.unfused[row].count for row in one.rows))
    del found[MOST_TRIED:]
    plans_for = _plans_for(report, run)
    rated = best(found, plans_for, report, list(prints_between_groups(report, run)))
    rated = sorted(tried(rated, plans_for), key=lambda one: not one.is_known)
    first = _folds_groups_of_others(rated)
    if first is not None:
        rated = [first, *(one for one in rated if one is not first)]
    changes = []
    for one in rated:
        change = planned(one, _with_others(one, rated), report, context)
        if first is not None and one is not first and _with_batch_norm(one.groups):
            change = replace(
                change, note="; ".join(filter(None, (change.note, _FOLDED)))
            )
        if _folds(one, report):
            change = replace(change, unlocks=_FOLDS, gain_bytes=None, gain_ms=None)
        changes.append(replace(change, proof=proofs.of(one.change, report)))
    shown = set()
    for one in rated:
        for line in one.change.lines:
            shown.add(line)
    found_by_fix = [
        kept_by_fix(one, report, context) for one in proofs.beside(changes, shown)
    ]
    return [*found_by_fix, *changes]


def _plans_for(report: Report, run: RunFacts) -> PlansFor:
    """Return a function that makes the plans of the run on which the effect of
    given changes is computed."""
    known: dict[tuple[object, ...], Plans] = {}

    def plans_for(found: Sequence[Change]) -> Plans:
        between, joins = _between_regions(found, report), _rows_joined(found)
        numbers = [one for one in found if one.kind is ChangeKind.NUMBER]
        recipes = [one for one in found if one.kind is ChangeKind.RECIPE]
        key = (between, joins, *(one.rows for one in (*numbers, *recipes)))
        if key not in known:
            plan_of = with_tensors_cast_to(with_numbers(report, numbers), recipes)
            plan_of = regions_as_groups(plan_of, between)
            known[key] = Plans(plan_of, run.fuser, run.torch, run.gradients, joins)
        return known[key]

    return plans_for


def _rows_joined(found: Sequence[Change]) -> frozenset[int]:
    """Return the rows that write to a part of a tensor and whose change joins the
    whole tensor from new parts."""
    rows: set[int] = set()
    for one in found:
        if one.joins:
            rows.update(one.rows)
    return frozenset(rows)


_BETWEEN_REGIONS = (
    ChangeKind.MOVE_VIEW,
    ChangeKind.OUT_OF_PLACE,
    ChangeKind.NOT_INPLACE,
    ChangeKind.RECIPE,
    ChangeKind.ANNOTATION,
)
"""Kinds that replace or move an operator at which a differentiable graph ends."""


def _between_regions(found: Sequence[Change], report: Report) -> frozenset[int]:
    """Return the rows that end a differentiable graph or are outside all of them,
    and no longer are with these changes; none if the run has no such graphs."""
    between: set[int] = set()
    if not any(
        node.kind == "region"
        for program in report.programs
        for node in program.nodes
    ):
        return frozenset()
    for one in found:
        for row in one.rows:
            if (
                one.kind in _BETWEEN_REGIONS
                or report.unfused[row].reason.code == "FD231"
            ):
                between.add(row)
    return frozenset(between)


def _with_others(one: Rated, plan: Sequence[Rated]) -> list[int]:
    """Return the numbers in the plan, from 1, of other changes that make the same
    groups."""
    others = []
    for number, other in enumerate(plan, 1):
        if one.counts_on(other):
            others.append(number)
    return others


_FOLDED = "counted before 1, which folds batch_norm into convolutions: after it these groups are without it"
"""torch/csrc/jit/passes/fold_conv_bn.cpp, which ``torch.jit.freeze`` runs
(torch/jit/_freeze.py, 2.13)."""
_FOLDS = "batch_norm goes into the convolutions before it; the frozen run shows what fuses then"


def _folds_groups_of_others(plan: Sequence[Rated]) -> Rated | None:
    """Return the change that freezes, if groups of another change have a batch
    norm: the groups that are left after freezing are known only then, so it comes
    first."""
    freezing = [one for one in plan if one.change.kind is ChangeKind.FREEZE]
    others = [one for one in plan if one.change.kind is not ChangeKind.FREEZE]
    if freezing and any(_with_batch_norm(one.groups) for one in others):
        return freezing[0]
    return None


def _folds(one: Rated, report: Report) -> bool:
    """True if it folds batch norms into convolutions: the groups after that are not
    known yet."""
    if one.change.folded:
        return True
    freezes = one.change.kind is ChangeKind.FREEZE
    return freezes and _with_batch_norm(one.groups) and _behind_convolutions(report)


def _behind_convolutions(report: Report) -> bool:
    """True if a batch norm reads the result of a convolution: freezing folds the
    two into one."""
    for program in report.programs:
        for a, b in program.edges:
            if (
                "batch_norm" in program.nodes[b].op
                and "conv" in program.nodes[a].op
            ):
                return True
    return False


def _with_batch_norm(groups: Sequence[WouldBeGroup]) -> bool:
    return any("aten::batch_norm" in group.ops for group in groups)
