"""FD303: a process that died, and the group or kernel that it was working on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusiondoc.captures.ending import OF_SIGNAL, Ended
from fusiondoc.captures.fuser_fault import Blame
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.groups_in_words import describe
from fusiondoc.fusers import FUSER_OF_KIND, titles
from fusiondoc.model.remedies import Remedy, nothing
from fusiondoc.model.report import Finding, Group, Report
from fusiondoc.parsers.observed import LastWork, NamedKernel, Observed


def crashed(report: Report, context: Context) -> Iterable[Finding]:
    """FD303: the process died of a signal, or its log ends in the first run of a
    group."""
    observed, signal = context.observed, context.result.signal
    if context.fault is not None and context.fault.blame is Blame.PROGRAM:
        return  # FD905: it dies without the fuser too
    if context.result.ended is Ended.SIGNAL and context.finished:
        yield finding(
            "FD303",
            f"{_who(context.rank)} died of {signal} as it ended, after all passes",
            remedy=nothing(
                "Nothing about fusion: the report is complete.",
                "Something that the program left running failed, such as a thread of torch.jit.fork: it may"
                " die without fusiondoc as well.",
            ),
            severity="warning",
        )
    elif context.result.ended is Ended.SIGNAL:
        if observed.crash is not None:
            at = observed.crash.kernel
        else:
            at = observed.cut_kernel
        work = observed.last_work_of(context.rank)
        died = f"{_who(context.rank)} died of {signal}"
        yield _crash(
            report,
            died,
            work,
            at,
            context.rank,
            _how_to_go_on(observed, context.rank, signal),
        )
    elif context.request is None and observed.crash is not None:
        crash = observed.crash
        died = f"{_who(crash.rank)} died ({crash.text[:120]})"
        remedy = _how_to_go_on(observed, crash.rank, crash.signal)
        found = _crash(report, died, crash.work, crash.kernel, crash.rank, remedy)
        yield replace(found, evidence=[*found.evidence, crash.line])
    elif context.request is None:
        yield from _log_ends(report, observed)


_ANNOUNCES = titles(lambda fuser: fuser.catalogue.options)
"""The fusers that print when they compile a group and when the group runs."""


def _log_ends(report: Report, observed: Observed) -> Iterable[Finding]:
    """FD303: the log shows no crash, but ends where a fuser was at work. A
    successful run may end there too: a log states when the run of a group begins,
    not when it ends."""
    work = observed.first_run
    if work is not None:
        ends = "breaks off" if work.cut else "ends"
        if work.stage == "compile":
            stage = f"while {_ANNOUNCES} compiles"
        else:
            stage = "in the first run of"
        yield finding(
            "FD303",
            f"The log {ends} {stage} {_worked_on(report, work)}; how the process ended is not in it",
            evidence=[work.line],
            remedy=_TAKE_IT_OUT if work.cut else _IF_IT_DIED,
            severity="warning" if work.cut else "note",
        )
    elif observed.cut_kernel is not None and not observed.errors:
        name, line = observed.cut_kernel
        yield finding(
            "FD303",
            f"The log breaks off in the source of {name}, which is printed before it is compiled",
            evidence=[line],
            remedy=_TAKE_IT_OUT if report.groups else _SAY_THE_GROUP,
            severity="warning",
        )


def _who(rank: int | None) -> str:
    if rank is None:
        return "The process"
    return f"Rank {rank}"


def _how_to_go_on(
    observed: Observed, rank: int | None, signal: str | None
) -> Remedy:
    """Return the next step if no group is known to be the cause. The stack is
    mentioned only if the log has one."""
    if signal in OF_SIGNAL:
        return Remedy(
            OF_SIGNAL[signal],
            "--fuser none shows whether it dies without fusion too.",
        )
    stack = observed.stack_of(rank)
    if stack is None:
        return Remedy(
            "Run it with --fuser none, to see whether it dies without fusion too.",
            "The log holds no stack; PYTHONFAULTHANDLER=1 makes Python print one.",
        )
    return Remedy(
        "Run it with --fuser none, to see whether it dies without fusion too.",
        f"Python's stack at that moment is in the log: {stack.file}:{stack.line}.",
    )


_SAY_THE_GROUP = (
    "Which group it belongs to is not in the log: run again with"
    " PYTORCH_JIT_LOG_LEVEL='graph_fuser:>>kernel_cache' (fusiondoc diagnose sets it)."
)
_TAKE_IT_OUT = (
    "Take that group out (--knob skip_node_kind=OPERATOR, or another --fuser), and check that this torch's"
    " CUDA knows the GPU: fusiondoc env."
)
_IF_IT_DIED = nothing(
    "Nothing, if the run succeeded.",
    "If it crashed, take that group out (--knob skip_node_kind=OPERATOR, or another --fuser),"
    " and check that this torch's CUDA knows the GPU: fusiondoc env.",
)


def _crash(
    report: Report,
    died: str,
    work: LastWork | None,
    kernel: NamedKernel | None,
    rank: int | None,
    remedy: Remedy,
) -> Finding:
    """Return the finding on a process that died.

    Args:
        work: unfinished work of a fuser.
        kernel: the last one whose source was printed, without a time.
        rank: of the process.
        remedy: if no group was at work.
    """
    if work is not None:
        return finding(
            "FD303",
            f"{died} while {_stage_of(report, work)} {_worked_on(report, work)}",
            evidence=[work.line],
            remedy=_TAKE_IT_OUT,
        )
    last = _last_group(report, rank)
    if last is not None:
        return finding(
            "FD303",
            f"{died}; the last group that was made before is {describe(last)}",
            evidence=last.evidence[:1],
            remedy=remedy,
        )
    if kernel is not None:
        return finding(
            "FD303",
            f"{died}; the last kernel whose source is in the log is {kernel.name}",
            evidence=[kernel.line],
            remedy=_SAY_THE_GROUP,
        )
    if report.kernels:
        died += f"; the log names no group, and its last kernel is {report.kernels[-1].name}"
    else:
        died += ", before any group"
    return finding("FD303", died, remedy=remedy)


def _stage_of(report: Report, work: LastWork) -> str:
    """Return "compiling" or "running"; both if the fuser does not announce runs."""
    group = report.group(work.group)
    fuser = FUSER_OF_KIND.get(group.kind) if group is not None else None
    if fuser is not None and not fuser.log.announces_runs:
        return "compiling or running"
    if work.stage == "compile" or not _launched_after(report, group):
        return "compiling"
    return "running"


def _last_group(report: Report, rank: int | None) -> Group | None:
    """Return the group of a process that was made last; of several groups of its
    last iteration the last in the report."""
    groups = []
    for group in report.groups:
        if rank is None or group.rank in (rank, None):
            groups.append(group)
    return max(
        reversed(groups), key=lambda group: group.iteration or 0, default=None
    )


def _worked_on(report: Report, work: LastWork) -> str:
    group = report.group(work.group)
    if group:
        which = f"group {describe(group)}"
    else:
        which = "a group that the log does not show"
    if work.kernel:
        return f"{which}, at kernel {work.kernel}"
    return which


def _launched_after(report: Report, group: Group | None) -> bool:
    return group is not None and any(
        k.launches for k in report.kernels if group.id in k.groups
    )
