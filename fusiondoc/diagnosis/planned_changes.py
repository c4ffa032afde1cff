"""A change as the plan shows it: the new text, the operators and groups that it
lets fuse, and the command that proves it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fusiondoc.changes.change import Change
from fusiondoc.changes.line_edits import lines_behind
from fusiondoc.diagnosis.commands import (
    can_run_again,
    command_of,
    run_again,
    to_keep,
)
from fusiondoc.diagnosis.gains import Rated
from fusiondoc.diagnosis.proofs import by_fix
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.unlocked import Brought, WouldBeGroup
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import (
    ChangeKind,
    Edit,
    PlannedChange,
    Proof,
    TriedFix,
)
from fusiondoc.model.operator_places import folded
from fusiondoc.model.remedies import AS_REQUESTED, Setting
from fusiondoc.model.report import Report


def planned(
    rated: Rated, with_others: Sequence[int], report: Report, context: Context
) -> PlannedChange:
    """Return the change in words.

    Args:
        with_others: the numbers in the plan of changes that make the same groups.
    """
    one = rated.change
    rows = [report.unfused[row] for row in one.rows]
    before, after = _lines(one)
    return PlannedChange(
        change=in_their_names(one),
        kind=one.kind,
        where=one.where[0] if one.where else None,
        before=before,
        after=after,
        unlocks=_unlocks(rated, with_others, report),
        gain_ms=rated.milliseconds(report),
        gain_bytes=rated.gain.bytes if rated.instead is None else None,
        command=_command_of(one, report, context),
        operators=rated.operators if rated.is_known else 0,
        groups=rated.more_groups if rated.groups_are_sure else None,
        together_with=tuple(with_others),
        ops=tuple(dict.fromkeys(row.op for row in rows)),
        codes=tuple(dict.fromkeys(row.reason.code for row in rows)),
        note=one.note,
        python=to_keep(one.setting) if one.python is None else one.python or None,
        edits=_to_apply(one.lines, context),
        setting=one.setting,
        also_at=_further_lines(one.where, one.lines),
    )


def _to_apply(edits: tuple[Edit, ...], context: Context) -> tuple[Edit, ...]:
    """Return the edits that a program may apply: none to sources that came with
    somebody else's capture."""
    if context.request is None or context.own:
        return edits
    return ()


def _further_lines(where: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the changed positions after the first, without lines that stay and
    have new lines behind them."""
    changed = [edit for edit in edits if lines_behind(edit) is None]
    return tuple(
        dict.fromkeys([*where, *(f"{edit.file}:{edit.line}" for edit in changed)])
    )[1:]


@dataclass(frozen=True)
class SuggestedChange:
    """A change that a finding, or an operator of another frontend, suggests: its
    gain is known without the plans of TorchScript."""

    change: Change
    brings: str
    """The gain in words."""
    milliseconds: float | None = None
    """Milliseconds of a step of the profiled run that it can save at most, if
    known."""
    bytes: int | None = None
    """Memory traffic of a run that it saves, if known."""
    operators: int = 0
    """The number of operators that it brings into groups; ``ops``: the names of the
    operators that are changed."""
    ops: tuple[str, ...] = ()
    command: str | None = None
    """The command that proves it; None: the run with the setting of the change."""
    proof: Proof | None = None
    """The run that proved it."""


def planned_step(
    step: SuggestedChange, report: Report, context: Context
) -> PlannedChange:
    """Return the step in words."""
    one = step.change
    if step.command is None:
        command = command_of(report, context, one.setting)
    else:
        command = step.command
    before, after = _lines(one)
    return PlannedChange(
        change=one.title,
        kind=one.kind,
        where=one.where[0] if one.where else None,
        before=before,
        after=after,
        unlocks=step.brings,
        gain_ms=step.milliseconds,
        gain_bytes=step.bytes,
        command=command,
        operators=step.operators,
        ops=step.ops,
        codes=one.codes,
        note=one.note,
        also_at=one.where[1:],
        python=to_keep(one.setting) if one.python is None else one.python,
        edits=_to_apply(one.lines, context),
        proof=step.proof,
        setting=one.setting,
    )


def kept_by_fix(one: TriedFix, report: Report, context: Context) -> PlannedChange:
    """Return a change that ``fix`` proved and that no operator of the report
    suggested."""
    first = one.edits[0]
    more = one.after.ops_fused - one.before.ops_fused
    if more > 0:
        unlocks = f"{count(more, 'operator')} more in groups"
    else:
        unlocks = "fewer kernels and operators"
    return PlannedChange(
        change=f"{one.change[:1].upper()}{one.change[1:]}",
        kind=one.kind,
        where=f"{first.file}:{first.line}",
        before=first.before.strip(),
        after=without_indents(first.after),
        unlocks=unlocks,
        gain_ms=None,
        gain_bytes=None,
        command=command_of_fix(report, context),
        operators=max(more, 0),
        groups=one.after.groups - one.before.groups,
        ops=one.ops,
        note="; ".join(one.notes) or None,
        edits=one.edits if context.own else (),
        also_at=_further_lines((f"{first.file}:{first.line}",), one.edits),
        proof=by_fix(one),
    )


def command_of_fix(report: Report, context: Context) -> str:
    """Return the command with ``fix`` that makes a change, if the program can be
    run again."""
    if context.request is not None and can_be_fixed(context):
        return run_again(context.request, command="fix")
    return command_of(report, context)


def without_indents(lines: str) -> str:
    """Return the changed lines as a plan shows them."""
    return "\n".join(line.strip() for line in lines.split("\n"))


_SHOWS_ALL_LINES = (ChangeKind.SPLIT, ChangeKind.MOVE, ChangeKind.MOVE_VIEW)


def _lines(one: Change) -> tuple[str | None, str | None]:
    """Return the first changed line, before and after; without a file, the call of
    the operator before and after."""
    if not one.lines or one.kind in _SHOWS_ALL_LINES:
        return one.before, one.after
    first = one.lines[0]
    return first.before.strip(), without_indents(first.after)


def in_their_names(one: Change) -> str:
    """Return ``Write out = out + x instead of out += x``: the title with the names
    of the line, if it is one short line."""
    if one.kind is not ChangeKind.OUT_OF_PLACE or len(one.lines) != 1:
        return one.title
    edit = one.lines[0]
    before, after = (
        re.sub(r"\s*#[^\"']*$", "", text.strip())
        for text in (edit.before, edit.after)
    )
    short = len(before) <= _SHORT and "\n" not in after
    if short:
        return f"Write {after} instead of {before}"
    return one.title


_SHORT = 24
"""Characters of a line that a title quotes, at most."""


def _unlocks(rated: Rated, with_others: Sequence[int], report: Report) -> str:
    """Return the groups that it makes, in words, and the other changes that these
    need."""
    one, gain = rated.change, rated.gain
    if one.removes:
        text = f"removes {count(gain.operators, 'operator')} from the program"
    elif rated.instead is not None and rated.groups_are_sure:
        text = _of_brought(rated.instead)
    elif rated.groups and rated.groups_are_sure:
        text = _of_groups(rated.groups) + _in_layers(rated, report)
    else:
        names = list(dict.fromkeys(report.unfused[row].op for row in one.rows))
        if len(names) <= 2:
            what = " and ".join(names)
        else:
            what = f"{names[0]} and {len(names) - 1} others"
        keep = "keeps" if len(names) == 1 else "keep"
        text = f"worth a try: {what} {keep} others out of groups"
    if with_others:
        text += f" (together with {' and '.join(map(str, with_others))})"
    return text


def _of_brought(brought: Brought) -> str:
    """Return ``2 operators more in groups, 1 group more``."""
    more = brought.groups
    groups = ""
    if more:
        groups = f", {count(abs(more), 'group')} {'more' if more > 0 else 'fewer'}"
    return f"{count(brought.operators, 'operator')} more in groups{groups}"


def _of_groups(groups: Sequence[WouldBeGroup]) -> str:
    """Return ``8 groups of batch_norm+add+relu``; the two most frequent kinds."""
    counted = Counter(_signature(group) for group in groups)
    most = counted.most_common(2)
    parts = []
    for (ops, joined), number in most:
        parts.append(_of_equal_groups(ops, joined, number))
    parts.sort(
        key=lambda part: not part[0].isdigit()
    )  # "unlocks" is printed before the first
    rest = len(groups) - sum(number for _, number in most)
    return ", ".join(parts) + (f" and {rest} more" if rest else "")


def _of_equal_groups(ops: str, joined: int, number: int) -> str:
    """Return the number of groups of these operators, each of which joins
    ``joined`` groups of the run, in words."""
    if not ops:
        times = f"{number} times " if number > 1 else ""
        return f"{times}{joined} groups of this run become one"
    if not joined:
        return f"{count(number, 'group')} of {ops}"
    mine = f"{count(joined * number, 'group')} of this run"
    if joined > 1:
        return f"joins {mine} with {ops} into {number}"
    return f"{ops} joins {mine}"


_MOST_OPS = 4


def _signature(group: WouldBeGroup) -> tuple[str, int]:
    if len(group.ops) + group.joined > 1:
        ops = group.ops
    else:
        ops = (*group.views, *group.ops)
    names = [op.rpartition("::")[2].rstrip("_") for op in ops]
    shown = "+".join(names[:_MOST_OPS]) + ("+…" if len(names) > _MOST_OPS else "")
    return shown, group.joined


def _in_layers(rated: Rated, report: Report) -> str:
    """Return `` in layer[1-4]``: the layers of the changed operators, else of those
    that they are grouped with."""
    layers: list[str] = []
    for row in rated.change.rows:
        layers.extend(report.unfused[row].layers)
    if not layers:
        others: set[int] = set()
        for group in rated.groups:
            others.update(group.rows)
        layers = []
        for row in sorted(others):
            layers.extend(report.unfused[row].layers)
    if layers:
        return f" in {folded(layers, 2)}"
    return ""


_TRIED_BY_FIX = (
    ChangeKind.OUT_OF_PLACE,
    ChangeKind.NOT_INPLACE,
    ChangeKind.RECIPE,
    ChangeKind.DIMENSIONS,
    ChangeKind.NUMBER,
    ChangeKind.SPLIT,
)


def _command_of(one: Change, report: Report, context: Context) -> str:
    """Return the command that proves a change: ``fusiondoc fix`` for changes that
    it tries; any other change of the program is made by the user first, and the run
    verified."""
    request = context.request
    if request is None or not can_run_again(context):
        return command_of(report, context, one.setting)
    if can_be_fixed(context):
        if one.kind is ChangeKind.FREEZE:
            return run_again(request, Setting(flags=("--inference",)), "fix")
        if _is_tried_by_fix(one):
            return run_again(request, command="fix")
    if not one.kind.in_source:
        return run_again(request, one.setting)
    if (
        request.options.script
    ):  # results of a whole program are not known: its steps are timed
        return run_again(request, Setting(flags=("--time",)))
    return run_again(
        request, AS_REQUESTED if context.te.plans else Setting(flags=("--verify",))
    )


def _is_tried_by_fix(one: Change) -> bool:
    if one.kind is ChangeKind.MOVE:
        return one.sure
    return one.kind is ChangeKind.MOVE_VIEW or (
        one.kind in _TRIED_BY_FIX and bool(one.lines)
    )


def can_be_fixed(context: Context) -> bool:
    """True if ``fusiondoc fix`` takes the target: a module or function in a file,
    no program, and nothing that goes through the operation fuser."""
    request = context.request
    if (
        request is None
        or not can_run_again(context)
        or request.options.script
        or context.te.plans
    ):
        return False
    return request.target.kind in ("file", "module")
