"""Why a plan has no change: all is fused, no change is known, or the log does not
show one; with the numbers, and with the work that takes the time instead."""

from __future__ import annotations

from enum import Enum

from fusiondoc.captures.ending import Ended
from fusiondoc.diagnosis.changes_of_operators import NO_RULE
from fusiondoc.diagnosis.commands import run_again
from fusiondoc.diagnosis.operator_in_plan import NOTHING_TO_GAIN
from fusiondoc.diagnosis.planned_changes import can_be_fixed
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.rules.fd1_fd2_not_fused import listed
from fusiondoc.diagnosis.speed_of_light import in_bytes
from fusiondoc.diagnosis.step_time import IDLE
from fusiondoc.fusers import taken_by, takers, without_plan
from fusiondoc.fusers.te import TE
from fusiondoc.model import count, dataclass
from fusiondoc.model.change_plan import Fixes
from fusiondoc.model.equal_ranks import EachRank, each_rank
from fusiondoc.model.remedies import Nothing
from fusiondoc.model.report import Report, Unfused
from fusiondoc.model.rows_by_index import rows_by_index
from fusiondoc.model.runs import GROUPS, Steps
from fusiondoc.operators import LIBRARY


class Verdict(Enum):
    """The outcome of a plan without a change; the value is its title."""

    NOTHING = "Nothing to do"
    NOT_ABOUT_FUSION = "Nothing to do about fusion"
    """There is something else to do: it is in the note."""
    NOT_FOUND = "No change is known that helps"
    NOT_TRIED = "Not known without trying"
    """``fix`` can run, and has changes that the plans do not rule out."""
    TRIED = "What was tried helps (see Tried)"
    NOT_KNOWN = "No change can be named"


@dataclass(frozen=True)
class NothingToDo:
    """The verdict and the reason for it, with the numbers.

    Attributes:
        command: tries changes whose effect only a run shows.
    """

    verdict: Verdict
    note: str
    command: str | None = None


_MADE_NO_GROUP = (
    "The run was interrupted before a group was made: run it again to the end"
)


def nothing_to_do(report: Report, context: Context) -> NothingToDo:
    """Return the verdict on a report without changes, and the reason for it."""
    if context.result.ended is Ended.INTERRUPTED and not report.groups:
        return NothingToDo(Verdict.NOT_KNOWN, _MADE_NO_GROUP)
    if not report.groups and not report.unfused:
        return _without_rows(report)
    compiled = _of_compiled(report)
    if compiled is not None:
        return compiled
    each = each_rank(report)
    rows = each.report if each is not None else report
    time = _time_outside(report)
    in_place = _count_outside(rows, "FD230")
    written_otherwise = rows.coverage.fraction == 1.0 and in_place > 0
    parts = [_fused(rows, each), _without_a_pass(report), time.spent, time.helps]
    if _may_have_died(report):
        parts.append("how the process ended is not in the log (FD303)")
    if written_otherwise:
        parts.append(
            f"{count(in_place, 'operator')} in place could be, written otherwise (FD230)"
        )
    note = "; ".join(filter(None, parts))
    if written_otherwise or not _nothing_is_left(rows):
        return _not_found(report, note, context)
    elsewhere = bool(time.helps) or _none_is_taken(rows) or _may_have_died(report)
    return NothingToDo(
        Verdict.NOT_ABOUT_FUSION if elsewhere else Verdict.NOTHING, note
    )


def _without_rows(report: Report) -> NothingToDo:
    """Return the verdict on a report without a group or an operator outside
    groups."""
    if report.views_alone:
        return NothingToDo(
            Verdict.NOTHING,
            "The graphs hold views alone, and no kernel computes a view",
        )
    why = without_plan(report.frontend)
    return NothingToDo(
        Verdict.NOT_KNOWN,
        f"{why[:1].upper()}{why[1:]}, so it does not show what to change",
    )


def _without_a_pass(report: Report) -> str:
    """Return why no fusion pass ran, if nothing can be done about that; else ""."""
    note = None
    for one in report.findings:
        if one.code == "FD102" and one.nothing_to_do:
            note = one
            break
    if note is None:
        return ""
    return f"{note.message[:1].lower()}{note.message[1:]}"


def _of_compiled(report: Report) -> NothingToDo | None:
    """Return the verdict on a run of torch.compile whose log lacks operators, or
    whose kernels share tensors; else None."""
    lacking = None
    for finding in report.findings:
        if finding.code == "FD923":
            lacking = finding
            break
    if lacking is not None:
        return NothingToDo(Verdict.NOT_KNOWN, lacking.message)
    if report.compiled is not None and report.boundaries:
        return NothingToDo(Verdict.NOT_FOUND, _largest_boundary(report))
    return None


def _largest_boundary(report: Report) -> str:
    """Return how many bytes go through memory between kernels and calls, and which
    boundary is the largest."""
    known = []
    for one in report.boundaries:
        if one.bytes is not None:
            known.append(one.bytes * one.count)
    first = report.boundaries[0]
    ends = f"{first.producer.group or first.producer.op} and {first.consumer.group or first.consumer.op}"
    why = f": {first.cause.text}" if first.cause is not None else ""
    if first.bytes is None:
        return f"{count(len(report.boundaries), 'tensor')} go through memory between kernels and calls"
    return (
        f"{in_bytes(sum(known))} go through memory between kernels and calls, most of it"
        f" ({in_bytes(first.bytes)}) between {ends}{why}"
    )


def _may_have_died(report: Report) -> bool:
    """True if the log ends where a group runs and does not show how the process
    ended."""
    return any(
        one.code == "FD303" and one.severity == "note" for one in report.findings
    )


def _nothing_is_left(report: Report) -> bool:
    """True if all operators that the fuser can take are fused, and these are most;
    or if it can take none, or nothing ran."""
    if report.coverage.fraction == 1.0 and report.groups:
        return not _most_is_without_a_rule(report)
    if _none_is_taken(report):
        return True
    return not report.groups and not _count_outside(report)


def _none_is_taken(report: Report) -> bool:
    return (
        report.coverage.ops_total == 0
        and not report.groups
        and _count_outside(report) > 0
    )


def _count_outside(report: Report, code: str | None = None) -> int:
    """Return the number of operators outside groups that ran; with ``code`` only
    those with this reason."""
    rows = report.rows_that_may_have_run
    total = 0
    for row in rows:
        if code is None or row.reason.code == code:
            total += row.count
    return total


def _not_found(report: Report, note: str, context: Context) -> NothingToDo:
    tried = any(one.helps(report.tries[one.against]) for one in report.tries[1:])
    mine = any(row.users_lines for row in report.rows_that_may_have_run)
    fixes, request, command = context.fixes, context.request, None
    if fixes is not None and not fixes.interrupted:
        note, mine = f"{note}; {_tried_by_fix(fixes)}", False
    elif mine and request is not None and can_be_fixed(context):
        command = run_again(request, command="fix")
    if tried:
        return NothingToDo(Verdict.TRIED, note, command)
    if mine and command is None:
        note += f"; {_OF_LOG}"
    return NothingToDo(
        Verdict.NOT_TRIED if mine else Verdict.NOT_FOUND, note, command
    )


_OF_LOG = "what a log does not show, fusiondoc fix FILE.py tries on the program"


def _tried_by_fix(fixes: Fixes) -> str:
    """Return a note that ``fix`` found nothing in this run."""
    if not fixes.tried:
        return "fusiondoc fix found nothing to try"
    kept = len(fixes.kept)
    return f"fusiondoc fix tried {count(len(fixes.tried), 'change')} and kept {kept or 'none'}"


def _number(left: int) -> str:
    """Return the number of the other operators, as it follows "the other"."""
    if left != 1:
        return f" {left:,}"
    return " one"


def _fused(report: Report, each: EachRank | None) -> str:
    """Return how many of the operators that the fuser can take are fused."""
    cover = report.coverage
    fuser = takers(
        report.fuser.effective or report.fuser.requested,
        TE if report.te is not None else None,
    )
    on_each = f"On {each.whose}: " if each is not None else ""
    if report.groups and cover.fraction == 1.0:
        whose = f"{each.whose} has " if each is not None else ""
        groups = count(sum(group.count for group in report.first_groups), "group")
        return f"All that {fuser} can take is fused: {whose}{cover.ops_fused:,} operators in {groups}"
    if report.groups and cover.fraction is not None and cover.ops_total is not None:
        return (
            f"{on_each}{cover.ops_fused:,} of the {cover.ops_total:,} operators that {fuser} can take are"
            f" fused; no known change fuses the other{_number(cover.ops_total - cover.ops_fused)}"
        )
    if report.groups:
        return f"{on_each}{report.fused_operators:,} operators are fused; no other is known to be fusible"
    outside = _count_outside(report)
    if cover.ops_total == 0:
        none = f"{fuser} takes none of the {count(outside, 'operator')}"
        return f"{none}, and no known change makes it take one"
    return f"Nothing is fused, and no known change brings any of the {outside:,} operators into a group"


@dataclass(frozen=True)
class _TimeOutside:
    """The work that takes the time beside the groups, and a remedy; "" if not
    known."""

    spent: str = ""
    helps: str = ""


def _time_outside(report: Report) -> _TimeOutside:
    if report.steps is not None:
        return _of_step(report.steps)
    small = any(one.code == "FD402" for one in report.findings)
    helps = "its kernels are too small to be slow: a larger batch or CUDA graphs help more than fusion"
    return _TimeOutside(_rest(report), helps if small else "")


_LEAST_SHARE = 0.1
"""Share of a step below which a kind of work is not named."""


def _of_step(steps: Steps) -> _TimeOutside:
    others = []
    for part in steps.parts:
        if part.what != GROUPS and part.share >= _LEAST_SHARE:
            others.append(part)
    if (
        steps.disturbed or not others
    ):  # the shares of a disturbed step hold for no other
        return _TimeOutside()
    named = ", ".join(f"{part.what} ({part.share:.0%})" for part in others[:2])
    waits = others[0].what == IDLE and others[0].share >= 0.5
    helps = "the device waits for the host: a larger batch or CUDA graphs help"
    return _TimeOutside(f"the rest of the step is {named}", helps if waits else "")


def _rest(report: Report) -> str:
    """Return the operators that library kernels compute, those between them, and
    those without a rule."""
    rows = rows_by_index(report)
    named = {}
    for one in report.findings:
        if one.code == "FD236" and one.remedy is not None:
            named[one.remedy.nothing] = listed(
                [rows[index] for index in one.rows if index in rows]
            )
    parts = []
    if Nothing.LIBRARY in named:
        parts.append(f"kernels of libraries ({named[Nothing.LIBRARY]})")
        if Nothing.BETWEEN_LIBRARIES in named:
            parts.append(
                f"single operators between them ({named[Nothing.BETWEEN_LIBRARIES]})"
            )
    alone = _without_a_rule(report)
    if alone:
        parts.append(
            f"operators without a rule ({listed(alone)}), each a launch of its own"
        )
    *first, last = parts or [""]
    if last:
        return (
            f"the rest are {' and '.join(filter(None, (', '.join(first), last)))}"
        )
    return ""


def _without_a_rule(report: Report) -> list[Unfused]:
    """Return the rows that the fuser has no rule for, whatever their arguments, and
    that launch kernels of their own, without library kernels."""
    fuser, torch = report.fuser.effective, report.environment.get("torch")
    rows = []
    for row in report.rows_that_may_have_run:
        if (
            row.reason.code in NO_RULE
            and not (fuser is not None and taken_by(row.op, fuser, torch))
            and row.op not in LIBRARY
            and row.op not in NOTHING_TO_GAIN
        ):
            rows.append(row)
    return rows


def _most_is_without_a_rule(report: Report) -> bool:
    """True if operators without a rule outnumber the groups: most launches are then
    theirs."""
    return sum(row.count for row in _without_a_rule(report)) > sum(
        one.count for one in report.first_groups
    )
