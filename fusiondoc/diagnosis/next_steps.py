"""What to do now: the plan of a report, at most three changes, best first; or why there is none: that nothing
is to be done, or no change is known.

First what keeps the run from being judged at all (an error, too few passes, no fuser), then changes of the
program and the run by what they gain. What a change gains is worked out on the plans of the run
(``unlocked.py``): milliseconds where a profile told the bandwidth, bytes where the types are known, operators
else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from fusiondoc.captures.ending import Ended
from fusiondoc.diagnosis.change_candidates import Candidate, candidates
from fusiondoc.diagnosis.changes_for_findings import blocking_steps, faster_products, later_steps
from fusiondoc.diagnosis.commands import can_run_again, command_of, run_again, to_keep
from fusiondoc.diagnosis.parted_groups import prints_between_groups, regions_as_groups, with_numbers
from fusiondoc.diagnosis.rules import Context, has_torchscript, of_te, of_torchscript, run_facts
from fusiondoc.diagnosis.rules.fd1_fd2_not_fused import listed
from fusiondoc.diagnosis.rules.fd1_operation_fuser import te_changes
from fusiondoc.diagnosis.step_time import IDLE
from fusiondoc.diagnosis.unlocked import Plans, WouldBeGroup
from fusiondoc.model import count, dataclass, takers
from fusiondoc.model.change_plan import ChangeKind, PlannedChange
from fusiondoc.model.equal_ranks import each_rank
from fusiondoc.model.operator_places import folded
from fusiondoc.model.remedies import AS_REQUESTED, Nothing, Setting
from fusiondoc.model.report import Report, rows_by_index
from fusiondoc.model.runs import GROUPS

_NOT_FOUND = "No change is known that helps"
_TRIED = "What was tried helps (see Tried)"
_NOT_KNOWN = "What to do is not known"

MOST = 3
_MOST_TRIED = 12
"""Candidates whose gain is worked out; those with most operators."""


def with_plan(report: Report, context: Context) -> Report:
    """The report with what to do now."""
    blocking = list(blocking_steps(report, context))
    changes = te_changes(of_te(report), context)[:MOST] if report.te is not None else []
    if has_torchscript(report):  # of both, if both have something to change
        changes = _changes(of_torchscript(report), context, MOST - bool(changes)) + changes
    if changes:
        blocking = [one for one in blocking if one.codes != ("FD102",)]
    said = {code for one in blocking for code in one.codes}
    later = [one for one in later_steps(report, context, bool(changes)) if said.isdisjoint(one.codes)]
    plan = tuple([*blocking, *faster_products(report, context), *changes, *later][:MOST])
    if plan:
        return replace(report, plan=plan, plan_title=None, plan_note=None, plan_try=None)
    title, note = _nothing_to_do(report, context)
    only_tried = _what_only_trying_tells(report, context) if title == _NOT_FOUND else None
    if title == _NOT_FOUND and any(one.helps(report.tries[one.against]) for one in report.tries[1:]):
        title = _TRIED
    return replace(report, plan=(), plan_title=title, plan_note=note, plan_try=only_tried)


# What operators outside groups suggest


@dataclass(frozen=True)
class _Gain:
    operators: int
    bytes: int | None
    joined: int = 0
    """Groups of the run that become part of others."""

    @classmethod
    def of(cls, groups: Sequence[WouldBeGroup]) -> _Gain:
        sizes = [one.bytes_saved for one in groups if one.bytes_saved is not None]
        joined = sum(one.joined - 1 for one in groups if one.joined > 1)
        return cls(sum(len(one.ops) for one in groups), sum(sizes) if sizes else None, joined)

    def less(self, other: _Gain) -> _Gain:
        known = None if self.bytes is None else self.bytes - (other.bytes or 0)
        joined = self.joined - other.joined
        return _Gain(self.operators - other.operators, known or None, joined)


def _changes(report: Report, context: Context, most: int) -> list[PlannedChange]:
    run = run_facts(report, context)
    found = candidates(report, run)
    found.sort(key=lambda one: -sum(report.unfused[row].count for row in one.rows))
    del found[_MOST_TRIED:]
    found += prints_between_groups(report, run)
    between = frozenset(
        row
        for one in found
        for row in one.rows
        if one.kind in _BETWEEN_REGIONS or report.unfused[row].reason.code == "FD231"
    )
    plans = Plans(
        regions_as_groups(with_numbers(report, found), between), run.fuser, run.torch, run.gradients
    )
    best, folding = _frozen_first(_best(found, plans, report)[:most])
    planned = []
    rows = [set(candidate.rows) for candidate, _, _ in best]
    for number, (one, gain, groups) in enumerate(best):
        changed = {row for group in groups for row in group.changed}
        with_others = [
            other + 1 for other, mine in enumerate(rows) if other != number and not mine.isdisjoint(changed)
        ]
        change = _planned(one, gain, groups, with_others, report, context)
        if folding and number and _with_batch_norm(groups):
            change = replace(change, note="; ".join(filter(None, (change.note, _FOLDED))))
        if one.folded or (
            one.kind is ChangeKind.FREEZE and _with_batch_norm(groups) and _behind_convolutions(report)
        ):
            change = replace(change, unlocks=_FOLDS, gain_bytes=None, gain_ms=None)
        planned.append(change)
    return planned


_BETWEEN_REGIONS = (
    ChangeKind.MOVE_VIEW,
    ChangeKind.OUT_OF_PLACE,
    ChangeKind.NOT_INPLACE,
    ChangeKind.RECIPE,
)
"""What ends a differentiable graph, and no longer does."""

_FOLDED = "counted before 1, which folds batch_norm into convolutions: after it these groups are without it"
"""torch/csrc/jit/passes/fold_conv_bn.cpp, which ``torch.jit.freeze`` runs (torch/jit/_freeze.py, 2.13)."""


def _frozen_first(best: list[_Rated]) -> tuple[list[_Rated], bool]:
    """What freezing changes in the groups of other changes is known only after it; whether that is so."""
    freezing = [one for one in best if one[0].kind is ChangeKind.FREEZE]
    others = [one for one in best if one[0].kind is not ChangeKind.FREEZE]
    if not freezing or not any(_with_batch_norm(groups) for _, _, groups in others):
        return best, False
    return [*freezing, *others], True


_FOLDS = "batch_norm goes into the convolutions before it; the frozen run shows what fuses then"


def _behind_convolutions(report: Report) -> bool:
    """Whether a batch norm has its input from a convolution, which freezing makes one of."""
    return any(
        "batch_norm" in program.nodes[b].op and "conv" in program.nodes[a].op
        for program in report.programs
        for a, b in program.edges
    )


def _with_batch_norm(groups: Sequence[WouldBeGroup]) -> bool:
    return any("aten::batch_norm" in group.ops for group in groups)


_Rated = tuple[Candidate, _Gain, Sequence[WouldBeGroup]]
"""A candidate, what is lost without it, and the groups that it has part in."""


def _best(found: Sequence[Candidate], plans: Plans, report: Report) -> list[_Rated]:
    """The candidates that gain most. Changes of the program are done together, and what only several of them
    make counts for each; a change of the run, and one of how the program is built, stands for itself."""
    source = [one for one in found if one.kind.in_source and one.sure and one.kind not in _REBUILT]
    for most in (_MOST_TRIED, MOST):
        source = [one for one, _, _ in _rated(source, plans, report)[:most]]
    rated = _rated(source, plans, report)
    for one in found:
        if not one.kind.in_source or not one.sure or one.kind in _REBUILT:
            rated += _rated([one], plans, report)
    rated.sort(key=lambda rated: _order(rated, report))
    return rated[:MOST]


_REBUILT = (ChangeKind.MOVE_VIEW, ChangeKind.BRANCH, ChangeKind.CONSTANT, ChangeKind.SPLIT, ChangeKind.MOVE)
"""More than a line changes, and the user has to see whether it can."""


def _order(rated: _Rated, report: Report) -> tuple[bool, bool, float, float, float]:
    """What is sure comes first; then milliseconds where profiled, bytes, and operators, of which what depends
    on a condition counts half. Inference is not what every run is for."""
    one, gain, _ = rated
    weight = 0.5 if one.conditional else 1.0
    ms = -(_milliseconds(gain, one, report) or 0.0) * weight
    known = -(gain.bytes or 0) * weight, -(gain.operators + gain.joined) * weight
    return (not one.sure, one.kind is ChangeKind.NO_GRAD, ms, *known)


def _rated(found: Sequence[Candidate], plans: Plans, report: Report) -> list[_Rated]:
    every = frozenset(row for one in found for row in one.rows if one.sure)
    whole = plans.with_changes(every)
    gained = _Gain.of(whole)
    rated: list[_Rated] = []
    for one in found:
        mine = set(one.rows)
        groups = [group for group in whole if not mine.isdisjoint(group.changed)]
        gain = gained.less(_Gain.of(plans.with_changes(every - mine)))
        rows = [report.unfused[row] for row in one.rows]
        if one.joins:
            groups, gain = list(one.joins), _Gain.of(one.joins)
        elif one.removes:
            groups, moved = [], sum(row.bytes_moved or 0 for row in rows)
            gain = _Gain(sum(row.count for row in rows), moved or None)
        elif not groups:
            kept = one.folded or sum(row.keeps_out or 0 for row in rows)
            if not kept:
                continue
            gain = _Gain(kept, None)
        rated.append((one, gain, groups))
    rated.sort(key=lambda one: _order(one, report))
    return rated


def _planned(
    one: Candidate,
    gain: _Gain,
    groups: Sequence[WouldBeGroup],
    with_others: Sequence[int],
    report: Report,
    context: Context,
) -> PlannedChange:
    rows = [report.unfused[row] for row in one.rows]
    unlocks = _unlocks(one, groups, report)
    if one.removes:
        unlocks = f"takes {count(gain.operators, 'operator')} out of the program"
    elif not unlocks:
        names = list(dict.fromkeys(row.op for row in rows))
        what = " and ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} others"
        keep = "keeps" if len(names) == 1 else "keep"
        unlocks = f"{count(gain.operators, 'operator')} that {what} {keep} out of groups"
    if with_others:
        unlocks += f" (together with {' and '.join(map(str, with_others))})"
    lines = one.kind in (ChangeKind.SPLIT, ChangeKind.MOVE, ChangeKind.MOVE_VIEW)  # shows them all
    first = one.edits[0] if one.edits and not lines else None
    return PlannedChange(
        change=_in_their_names(one),
        kind=one.kind,
        where=one.where,
        before=first.before.strip() if first is not None else one.before,
        after=_unindented(first.after) if first is not None else one.after,
        unlocks=unlocks,
        gain_ms=_milliseconds(gain, one, report),
        gain_bytes=gain.bytes,
        command=_command_of(one, report, context),
        operators=gain.operators,
        ops=tuple(dict.fromkeys(row.op for row in rows)),
        codes=tuple(dict.fromkeys(row.reason.code for row in rows)),
        note=one.note,
        python=one.python or (None if one.in_python else to_keep(one.setting)),
        edits=one.edits if context.request is None or context.own else (),  # a program applies them
    )


def _in_their_names(one: Candidate) -> str:
    """``Write out = out + x instead of out += x``: with the names of the line, if it is one short line."""
    if one.kind is not ChangeKind.OUT_OF_PLACE or len(one.edits) != 1:
        return one.change
    edit = one.edits[0]
    before, after = (re.sub(r"\s*#[^\"']*$", "", text.strip()) for text in (edit.before, edit.after))
    short = len(before) <= _SHORT and "\n" not in after
    return f"Write {after} instead of {before}" if short else one.change


_SHORT = 24
"""Characters of a line that is named in a title."""


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.split("\n"))


def _milliseconds(gain: _Gain, one: Candidate, report: Report) -> float | None:
    """Moving the bytes at the measured bandwidth; without it what the profile says of the rows."""
    if report.steps is None:
        return None
    if report.steps.gb_per_s and gain.bytes is not None:
        return round(gain.bytes / (report.steps.gb_per_s * 1e6), 6)
    times = [report.unfused[row].time for row in one.rows]
    saved = [time.could_save_ms for time in times if time is not None and time.could_save_ms is not None]
    return round(sum(saved), 6) if saved else None


def _unlocks(one: Candidate, groups: Sequence[WouldBeGroup], report: Report) -> str:
    """``8 groups of batch_norm+add+relu in layer[1-4]``."""
    counted = Counter(_signature(group) for group in groups)
    if not counted:
        return ""
    parts = []
    for (ops, joined), number in counted.most_common(2):
        if not ops:
            parts.append(
                (f"{number} times " if number > 1 else "") + f"{joined} groups of this run become one"
            )
        elif joined:
            mine = f"{count(joined * number, 'group')} of this run"
            parts.append(f"joins {mine} with {ops} into {number}" if joined > 1 else f"adds {ops} to {mine}")
        else:
            parts.append(f"{count(number, 'group')} of {ops}")
    rest = sum(counted.values()) - sum(number for _, number in counted.most_common(2))
    parts.sort(key=lambda part: not part[0].isdigit())  # "unlocks" stands before the first
    text = ", ".join(parts) + (f" and {rest} more" if rest else "")
    layers = [layer for row in one.rows for layer in report.unfused[row].layers]
    if not layers:
        others = {row for group in groups for row in group.rows}
        layers = [layer for row in sorted(others) for layer in report.unfused[row].layers]
    return text + (f" in {folded(layers, 2)}" if layers else "")


_MOST_OPS = 4


def _signature(group: WouldBeGroup) -> tuple[str, int]:
    names = [op.rpartition("::")[2].rstrip("_") for op in group.ops]
    shown = "+".join(names[:_MOST_OPS]) + ("+…" if len(names) > _MOST_OPS else "")
    return shown, group.joined


_TRIED_BY_FIX = (
    ChangeKind.OUT_OF_PLACE,
    ChangeKind.NOT_INPLACE,
    ChangeKind.RECIPE,
    ChangeKind.DIMENSIONS,
    ChangeKind.NUMBER,
    ChangeKind.SPLIT,
)


def _command_of(one: Candidate, report: Report, context: Context) -> str:
    """``fusiondoc fix`` tries what it knows; another change of the program is made first, and verified."""
    request = context.request
    if request is None or not can_run_again(context):
        return command_of(report, context, one.setting)
    tried = _can_be_fixed(context)
    if tried and one.kind is ChangeKind.FREEZE:
        return run_again(request, Setting(flags=("--inference",)), "fix")
    moved = one.kind is ChangeKind.MOVE_VIEW or (one.kind is ChangeKind.MOVE and one.sure)
    if tried and (moved or (one.kind in _TRIED_BY_FIX and one.edits)):
        return run_again(request, command="fix")
    # What a program of its own computes is not known: its steps are timed.
    if not one.kind.in_source:
        return run_again(request, one.setting)
    if request.options.script:
        return run_again(request, Setting(flags=("--time",)))
    return run_again(request, AS_REQUESTED if context.te.plans else Setting(flags=("--verify",)))


def _can_be_fixed(context: Context) -> bool:
    """Whether ``fusiondoc fix`` takes the target: a module or function in a file, no program, and nothing
    that goes through Transformer Engine."""
    request = context.request
    if request is None or not can_run_again(context) or request.options.script or context.te.plans:
        return False
    return request.target.kind in ("file", "module")


def _what_only_trying_tells(report: Report, context: Context) -> str | None:
    mine = any(row.user_source is not None for row in report.unfused if row.ran is not False)
    if not mine or context.request is None or not _can_be_fixed(context):
        return None
    return run_again(context.request, command="fix")


def _nothing_to_do(report: Report, context: Context) -> tuple[str, str]:
    """That nothing is to be changed, in a few words, and why, with the numbers."""
    if context.result.ended is Ended.INTERRUPTED and not report.groups:
        return _NOT_KNOWN, "The run was interrupted before a group was made: run it again, to its end"
    each = each_rank(report)
    whose = f"{each.whose} has " if each is not None else ""
    on_each = f"On {each.whose}: " if each is not None else ""
    whole, report = report, each.report if each is not None else report
    fuser = takers(report.fuser.effective or report.fuser.requested, report.te is not None)
    if not report.groups and not report.unfused:
        return _NOT_KNOWN, "The log shows no plan of an executor, so it does not tell what to change"
    cover = report.coverage
    outside = sum(row.count for row in report.unfused if row.ran is not False)
    if report.groups and cover.fraction == 1.0:
        groups = count(sum(group.count for group in report.groups if group.specialisation == 1), "group")
        text = f"All that {fuser} can take is fused: {whose}{cover.ops_fused:,} operators in {groups}"
    elif report.groups and cover.fraction is not None and cover.ops_total is not None:
        left = cover.ops_total - cover.ops_fused
        text = f"{on_each}{cover.ops_fused:,} of the {cover.ops_total:,} operators that {fuser} can take"
        text += " are fused;"
        text += f" nothing is known that would surely bring in the other {left:,}"
    elif report.groups:
        text = f"{on_each}{report.fused_operators:,} operators are fused; no other is known that could be"
    elif cover.ops_total == 0:
        text = (
            f"{fuser} takes none of the {count(outside, 'operator')}, and no known change makes it take one"
        )
    else:
        text = f"Nothing is fused, and no known change brings any of the {outside:,} operators into a group"
    rest, hint = _rest(whole)
    text += f"; {rest}" if rest else ""
    text += f"; {hint}" if hint else ""
    open_end = any(one.code == "FD303" and one.severity == "note" for one in report.findings)
    text += "; how the process ended is not in the log (FD303)" if open_end else ""
    none_taken = cover.ops_total == 0 and not report.groups and outside > 0
    in_place = sum(row.count for row in report.unfused if row.ran is not False and row.reason.code == "FD230")
    if cover.fraction == 1.0 and in_place:
        return (
            _NOT_FOUND,
            f"{text}; {count(in_place, 'operator')} in place could be, written otherwise (FD230)",
        )
    if cover.fraction == 1.0 or none_taken or not (report.groups or outside):
        return "Nothing to do" + (" about fusion" if hint or none_taken or open_end else ""), text
    return _NOT_FOUND, text


def _rest(report: Report) -> tuple[str, str]:
    """What takes the time beside the groups, and what helps against that."""
    steps = report.steps
    if steps is not None:
        if steps.disturbed:  # its shares are those of a step that nobody else runs
            return "", ""
        others = [part for part in steps.parts if part.what != GROUPS and part.share >= 0.1]
        if not others:
            return "", ""
        rest = f"the rest of the step is {', '.join(f'{p.what} ({p.share:.0%})' for p in others[:2])}"
        waits = others[0].what == IDLE and others[0].share >= 0.5
        return rest, "the device waits for the host: a larger batch or CUDA graphs help" if waits else ""
    rows = rows_by_index(report)
    fixed = {
        one.remedy.nothing: listed([rows[index] for index in one.rows if index in rows])
        for one in report.findings
        if one.code == "FD236" and one.remedy is not None
    }
    launch = any(one.code == "FD402" for one in report.findings)
    left = ""
    if Nothing.LIBRARY in fixed:
        left = f"what is left are kernels of libraries ({fixed[Nothing.LIBRARY]})"
    if left and Nothing.BETWEEN_LIBRARIES in fixed:
        left += f" and what stands alone between them ({fixed[Nothing.BETWEEN_LIBRARIES]})"
    small = "its kernels are too small to be slow: a larger batch or CUDA graphs help more than fusion"
    return left, small if launch else ""
