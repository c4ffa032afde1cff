"""FD309 and FD905: whether the fuser or the program caused the error that ended a
run.

A failed run is repeated without the fuser (``workflows/fuser_faults.py``). If that
passes, the fuser is the cause: FD309 names the group. A log alone does not show it,
and the finding describes how to find out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fusiondoc.captures.ending import Ended
from fusiondoc.captures.fuser_fault import Blame, FailingGroup, FuserFault
from fusiondoc.captures.probe_records import Failure
from fusiondoc.diagnosis.failing_read import groups_read
from fusiondoc.diagnosis.of_fusers.findings import compiler_at_fault, logged_failure
from fusiondoc.diagnosis.rules import Context, finding, in_package
from fusiondoc.diagnosis.rules.fd9_errors_of_ranks import (
    ErrorOfRanks,
    errors_of_ranks,
    remedy_for_lost,
)
from fusiondoc.diagnosis.rules.groups_in_words import describe
from fusiondoc.fusers import (
    compiles_python,
    facts_of,
    fuser_title,
    how_to_leave_out,
)
from fusiondoc.model import count
from fusiondoc.model.change_plan import Try
from fusiondoc.model.remedies import Remedy, Setting
from fusiondoc.model.report import Fallback, Finding, Group, Report
from fusiondoc.model.source import from_package
from fusiondoc.operators import is_in_place, plain_name
from fusiondoc.parsers.lines.error_texts import (
    changed_result,
    failing_line,
    is_of_fuser,
)
from fusiondoc.parsers.observed import LoggedError


def fuser_at_fault(report: Report, context: Context) -> Iterable[Finding]:
    """FD309: only the fused run fails."""
    fault = context.fault
    if fault is None or fault.blame is not Blame.FUSER:
        return
    if compiles_python(report.frontend) and context.error is not None:
        failed = f"{_fuser(report)} fails{_failed(context)}"
        yield compiler_at_fault(failed, context.error, fault.unfused is None)
    else:
        yield _fuser_at_fault(report, context, fault)


def _fuser_at_fault(report: Report, context: Context, fault: FuserFault) -> Finding:
    """FD309 for a fuser of TorchScript."""
    fuser = _fuser(report)
    error = context.error
    text = error.message if error is not None else ""
    line = failing_line(text)
    group = _group(report, context, fault, line)
    alone = None
    for one in fault.alone:
        if group is not None and one.group == group.id:
            alone = one
            break
    without = "without the fuser the same run ends without an error"
    if fault.unfused is None:
        without = "the same pass runs in eager without an error (--verify)"
    parts = [f"Only the run under {fuser} fails{_failed(context)}; {without}"]
    if group is not None:
        parts.append(
            _about(group, line if group.id in _read(report, line) else None)
        )
    if alone is not None:
        parts.append(_alone(alone))
    failing = [group] if group is not None else report.groups
    sized = _sized_by_broadcast(text, failing, report.fuser.effective)
    if sized:
        names = " and ".join(sized)
        parts.append(
            f"{_fuser(report)} takes the result of {names} for as large as its inputs broadcast, where a"
            " gradient reads only the size of what follows, as that of a sum does"
        )
    return finding(
        "FD309",
        ". ".join(parts),
        source=group.first_line if group else None,
        evidence=group.evidence[:1] if group is not None else (),
        remedy=_ways_around(fault, report.fuser.effective, sized),
    )


def _fuser(report: Report) -> str:
    effective = report.fuser.effective
    if effective:
        return fuser_title(effective)
    return "a fuser"


def _failed(context: Context) -> str:
    """Return how it failed: ``in the forward pass: RuntimeError: ...``."""
    if context.error is not None:
        return f"{_WHEN.get(context.error.stage, '')}: {_last_error(context.error)}"
    return f": the process {context.result.in_words}"


def _group(
    report: Report, context: Context, fault: FuserFault, line: str | None
) -> Group | None:
    """Return the group that fails alone; else the nearest one whose result was read
    where the run failed; else the one that the fuser worked on last, or the only
    one."""
    work = context.observed.last_work
    if fault.culprit is not None:
        named = [fault.culprit.group]
    else:
        named = list(_read(report, line)[:1])
    if work is not None and work.group is not None:
        named.append(work.group)
    if len(report.groups) == 1:
        named.append(report.groups[0].id)
    for one in report.groups:
        if named and one.id == named[0]:
            return one
    return None


def _read(report: Report, line: str | None) -> tuple[str, ...]:
    if line is None:
        return ()
    return groups_read(report, line)


def _about(group: Group, line: str | None) -> str:
    kernels = f", {'kernel' if len(group.kernels) == 1 else 'kernels'} {', '.join(group.kernels)}"
    who = f"group {describe(group)}" + (kernels if group.kernels else "")
    if line is not None:
        return f"{from_package(line)} reads a result of {who}"
    return f"It comes from {who}"


def _alone(alone: FailingGroup) -> str:
    if not alone.fails:
        return "Run alone, this group gives what its unfused operators give"
    text = f"Run alone, this group fails too: {alone.outcome}"
    if alone.operators and len(alone.operators) < alone.of:
        smallest = ", ".join(alone.operators)
        text += f". The smallest part that still fails: {smallest} ({len(alone.operators)} of"
        text += f" {count(alone.of, 'operator')})"
    return text


_SIZES_DIFFER = re.compile(
    r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)"
)


def _sized_by_broadcast(
    error: str, groups: Sequence[Group], fuser: str | None
) -> Sequence[str]:
    """Return the operators whose size the fuser computed wrongly, if this is the
    error.

    Args:
        groups: the one that failed; all if that is not known.
    """
    if _SIZES_DIFFER.search(error) is None:
        return ()
    wrong = facts_of(fuser).operators.sized_by_broadcast
    ops: dict[str, None] = {}
    for group in groups:
        for op in group.ops:
            ops[op] = None
    return [op for op in ops if op in wrong]


def _ways_around(
    fault: FuserFault, fuser: str | None, sized: Sequence[str]
) -> Remedy | str:
    """Return the settings that avoid the error in a run, best first; else those
    that did not help.

    Args:
        sized: operators of the group whose size the fuser computed wrongly.
    """
    if fault.ways:
        worked = "; ".join(f"{way.change} ({_kept(way)})" for way in fault.ways)
        right = ", with the results of eager" if fault.held_against_eager else ""
        return f"These settings avoid it{right}: {worked}."
    tried = [one.change for one in fault.around[1:]]
    if tried:
        return Remedy(
            f"None of these helped: {', '.join(tried)}.",
            'Turn the fuser off around the block: with torch.jit.fuser("none"), or run with --fuser none.',
        )
    variable = facts_of(fuser).switches.variable_to_leave_out
    if sized and variable is not None:
        names = ":".join(map(plain_name, sized))
        return Remedy(
            f"Keep {' and '.join(sized)} out of groups: {variable}={names} in the environment;",
            'or turn the fuser off around the block: with torch.jit.fuser("none").',
        )
    return (
        f"Take an operator of the group out of groups ({how_to_leave_out(fuser)}), choose"
        " another fuser (--fuser), or turn it off around the block (--fuser none)."
    )


def _kept(way: Try) -> str:
    return f"{count(way.ops_fused, 'operator')} in {count(way.groups, 'group')}"


def program_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD905: the user's program ended with an error. Ctrl-C is no error of the
    program."""
    if context.result.ended is Ended.INTERRUPTED:
        return
    if context.error is not None:
        yield from _recorded_error(report, context, context.error)
        return
    fault = context.fault
    if (
        fault is not None
        and fault.blame is Blame.PROGRAM
        and context.result.ended is Ended.SIGNAL
    ):
        yield finding(
            "FD905",
            f"The program died of {context.result.signal}{_without_fuser(fault)}",
            remedy=Remedy(
                "Fix the program first;", "the end of its log shows how far it got."
            ),
        )
    if context.ended_early:
        yield finding(
            "FD905",
            f"The process ended with exit status {context.result.exit_status}, and its records do not state"
            " that all passes were done",
            remedy=Remedy(
                "Look for os._exit or a C function that exits;",
                "the end of the log shows how far it got.",
            ),
        )
    yield from _logged_errors(report, context)


def _recorded_error(
    report: Report, context: Context, error: Failure
) -> Iterable[Finding]:
    """Yield the finding on the error that the probe recorded, unless another
    finding has its cause."""
    if context.observed.sized_for(error.message):
        return  # FD307 has the cause
    fault = context.fault
    if fault is not None and fault.blame is Blame.FUSER:
        return  # FD309
    yield finding(
        "FD905",
        f"The program failed{_WHEN.get(error.stage, '')}: {_last_error(error)}{_without_fuser(fault)}",
        source=_line_refused(error.message),
        remedy=_out_of_place(report, error.message)
        or _of_program(
            error.hint, _whose(report, context, failing_line(error.message))
        ),
    )


_MOST_LINES = 3


def _line_refused(message: str) -> str | None:
    """Return the user's line with an in-place operator that TorchScript refuses;
    None for another error."""
    error = changed_result(message)
    lines = error.lines if error is not None else ()
    return next((line for line in lines if not in_package(line)), None)


def _out_of_place(report: Report, message: str) -> Remedy | None:
    """Return the remedy for an error that an in-place operator causes in
    TorchScript only: to write it out of place."""
    error = changed_result(message)
    if error is None:
        return None
    line = _line_refused(message)
    if line is not None:
        return Remedy(
            f"Write {from_package(line)} out of place (y = y + x, inplace=False);",
            "it changes the result of a differentiable graph, which TorchScript refuses while gradients are"
            " recorded, and eager mode does not.",
        )
    rows = []
    for row in report.unfused:
        if is_in_place(row.op) and row.phase != "backward":
            rows.append(row)
    lines = dict.fromkeys(
        line for row in rows for line in row.users_lines if not in_package(line)
    )
    where = ""
    if lines:
        where = (
            f": one of {', '.join(list(map(from_package, lines))[:_MOST_LINES])}"
        )
    return Remedy(
        f"Write out of place what changes the result of a differentiable graph{where};",
        "the gradient of the graph needs the result as it was, where eager mode may not.",
    )


def _logged_errors(report: Report, context: Context) -> Iterable[Finding]:
    """Yield findings on the errors in the log that are not from a fuser."""
    observed = context.observed
    others = []
    for of_rank in observed.errors:
        if not is_of_fuser(of_rank.text) and not observed.sized_for(of_rank.text):
            others.append(of_rank)
    died = observed.crash is not None or context.result.ended is Ended.SIGNAL
    shown = errors_of_ranks(others, died)
    for error in shown[:3]:
        of_compiler = logged_failure(
            report, error.first.text, error.whose, error.lines
        )
        if of_compiler is not None:
            yield from of_compiler
            continue
        lost = ", which lost another rank" if error.lost else ""
        yield finding(
            "FD905",
            f"The log holds an error{error.whose}{lost}: {error.words}{_after_fallback(report, error)}",
            evidence=error.lines,
            remedy=_remedy(error, shown, report, context),
        )


def _after_fallback(report: Report, error: ErrorOfRanks) -> str:
    """Return that the error came from a group which had fallen back, as part of a
    sentence; "" if not."""
    for row in report.fallbacks:
        if came_of(error.first, row):
            return f"; it came from group {row.group}, which had fallen back ({_FELL[row.stage]})"
    return ""


def _of_program(hint: str | None, whose: Remedy | None) -> Remedy | None:
    """Return the probe's advice on the error, then how to find out whether the
    fuser is the cause."""
    if not hint:
        return whose
    return Remedy(hint, whose.text if whose is not None else "")


def _remedy(
    error: ErrorOfRanks,
    shown: Sequence[ErrorOfRanks],
    report: Report,
    context: Context,
) -> Remedy | None:
    if error.lost:
        return remedy_for_lost(shown, report.ranks)
    if context.request is None:
        return _whose(report, context, error.first.at)
    return None


def _without_fuser(fault: FuserFault | None) -> str:
    """Return the result of the further runs, as the end of the sentence on the
    error."""
    if fault is None or fault.blame is None:
        return ""
    if fault.blame is Blame.PROGRAM:
        return "; it fails without the fuser too"
    return "; the same run passed without the fuser, and once more with it: the error comes and goes"


def _whose(report: Report, context: Context, line: str | None) -> Remedy | None:
    """Return how to find out whether the fuser or the program is the cause, if
    something was fused and no run showed it."""
    fault = context.fault
    if fault is not None and fault.blame is Blame.UNSTEADY:
        return Remedy(
            "Run it several times with a fixed seed (--seed), with the fuser and with --fuser none."
        )
    if (fault is not None and fault.blame is not None) or not report.groups:
        return None
    if context.request is None:
        unknown = "Whether the program or the fuser is at fault is not in the log;"
        how = (
            "to find out, run it with the fuser off (fusiondoc diagnose TARGET --fuser none, or with"
            ' torch.jit.fuser("none")).'
        )
    else:
        unknown = "Whether the program or the fuser is at fault is not known, as it was not run again;"
        how = f"to find out: {Setting(fuser='none').text}."
    read = []
    for group in report.groups:
        if group.id in _read(report, line)[:1]:
            read.append(group)
    if line and read:
        reads = f"{from_package(line)} reads a result of group {describe(read[0])}."
        return Remedy(reads, f"{unknown} {how}")
    return Remedy(unknown, how)


_FELL = {"compile": "FD301", "run": "FD302"}


def came_of(logged: LoggedError, fallback: Fallback) -> bool:
    """True if an error was raised by the unfused operators of a group that had
    fallen back."""
    work = logged.unfused
    return (
        work is not None and work.group is not None and work.group == fallback.group
    )


_WHEN = {
    "import": " while it was imported",
    "call": " while it was made",
    "script": " while it was scripted",
    "trace": " while it was traced",
    "inputs": " while it made its inputs",
    "forward": " in the forward pass",
    "backward": " in the backward pass",
    "verify": " in the eager run of --verify",
}
"""Stage in the probe's error record -> words."""


def _last_error(error: Failure) -> str:
    """Return type and message; TorchScript puts the true error after its own
    traceback, on the last line."""
    lines = error.message.strip().split("\n")
    last = lines[-1].strip()
    if "Error: " in last and len(lines) > 1:
        return last[:300]
    text = lines[0][:300].rstrip(":")
    # The probe's own messages have no exception type of the program.
    if error.type == "Refused":
        return text
    return f"{error.type}: {text}"


RULES = (fuser_at_fault, program_failed)
