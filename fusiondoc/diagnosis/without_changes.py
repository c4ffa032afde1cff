"""What a report says where no change is known: that nothing is to be done, or is known, and why."""

from __future__ import annotations

from fusiondoc.captures.ending import Ended
from fusiondoc.diagnosis.rules import Context
from fusiondoc.diagnosis.step_time import IDLE
from fusiondoc.model.fusers import takers
from fusiondoc.model.report import Report
from fusiondoc.model.runs import GROUPS

NOT_FOUND = "No change is known that helps"
TRIED = "What was tried helps (see Tried)"
_NOT_KNOWN = "What to do is not known"


def nothing_to_do(report: Report, context: Context) -> tuple[str, str]:
    """That nothing is to be changed, in a few words, and why, with the numbers."""
    if context.result.ended is Ended.INTERRUPTED and not report.groups:
        return _NOT_KNOWN, "The run was interrupted before a group was made: run it again, to its end"
    fuser = takers(report.fuser.effective or report.fuser.requested, report.te is not None)
    if not report.groups and not report.unfused:
        return _NOT_KNOWN, "The log shows no plan of an executor, so it does not tell what to change"
    cover = report.coverage
    outside = sum(row.count for row in report.unfused if row.ran is not False)
    if report.groups and cover.fraction == 1.0:
        groups = counted(sum(group.count for group in report.groups if group.specialisation == 1), "group")
        text = f"All that {fuser} can take is fused: {cover.ops_fused:,} operators in {groups}"
    elif report.groups and cover.fraction is not None and cover.ops_total is not None:
        left = cover.ops_total - cover.ops_fused
        text = f"{cover.ops_fused:,} of the {cover.ops_total:,} operators that {fuser} can take are fused;"
        text += f" nothing is known that would surely bring in the other {left:,}"
    elif report.groups:
        text = f"{report.fused_operators:,} operators are fused; nothing that could be is known to be left"
    elif cover.ops_total == 0:
        text = (
            f"{fuser} takes none of the {counted(outside, 'operator')}, and no known change makes it take one"
        )
    else:
        text = f"Nothing is fused, and no known change brings any of the {outside:,} operators into a group"
    rest, hint = _rest(report)
    text += f"; {rest}" if rest else ""
    text += f"; {hint}" if hint else ""
    none_taken = cover.ops_total == 0 and not report.groups and outside > 0
    in_place = sum(row.count for row in report.unfused if row.ran is not False and row.reason.code == "FD230")
    if cover.fraction == 1.0 and in_place:
        return (
            NOT_FOUND,
            f"{text}; {counted(in_place, 'operator')} in place could be, written otherwise (FD230)",
        )
    if cover.fraction == 1.0 or none_taken or not (report.groups or outside):
        return "Nothing to do" + (" about fusion" if hint or none_taken else ""), text
    return NOT_FOUND, text


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
    fixed = [one for one in report.findings if one.code == "FD236" and "library" in one.message]
    launch = any(one.code == "FD402" for one in report.findings)
    left = f"what is left are kernels of libraries ({fixed[0].message.partition(': ')[0]})" if fixed else ""
    small = "its kernels are too small to be slow: a larger batch or CUDA graphs help more than fusion"
    return left, small if launch else ""


def counted(number: int, what: str) -> str:
    """ "3 groups", "1 group" """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
