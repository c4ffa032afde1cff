"""FD303: where a process died, the group or kernel that was at work; and what the rerun without fallback says
about the fallbacks of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable

from fusiondoc.captures.capture import Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.model.fusers import NNC
from fusiondoc.model.report import Fallback, Finding, Group, Report
from fusiondoc.parsers.lines.error_texts import IN_WORDS, read_error
from fusiondoc.parsers.observed import LastWork, NamedKernel


def describe(group: Group) -> str:
    """A group in a few words: its id, its first operators and its line."""
    names = [op.split("::")[-1] for op in group.ops]
    shown = ", ".join(names[:4]) + (f", ... {len(names)} operators" if len(names) > 4 else "")
    line = next((node.user_source for node in group.nodes if node.user_source), None)
    return f"{group.id} ({shown}{', ' + line if line else ''})"


def crashed(report: Report, context: Context) -> Iterable[Finding]:
    """FD303: the process died of a signal, or its log ends in the first run of a group."""
    observed = context.observed
    if context.result.ended is Ended.SIGNAL:
        at = observed.crash.kernel if observed.crash is not None else observed.cut_kernel
        yield _crash(report, f"The process died of {context.result.signal}", observed.last_work, at)
    elif context.request is None and observed.crash is not None:
        said = observed.crash
        found = _crash(report, f"The process died ({said.text[:120]})", said.work, said.kernel)
        yield replace(found, evidence=[*found.evidence, said.line])
    elif context.request is None and observed.first_run is not None:
        work = observed.first_run
        stage = "while nvFuser compiles" if work.stage == "compile" else "in the first run of"
        yield finding(
            "FD303",
            f"The log ends {stage} {_worked_on(report, work)}: if the process died, it died there",
            evidence=[work.line],
            advice=_TAKE_IT_OUT,
            severity="warning",
        )
    elif context.request is None and observed.cut_kernel is not None and not observed.errors:
        name, line = observed.cut_kernel
        yield finding(
            "FD303",
            f"The log ends in the source of {name}, which is printed before it is compiled: if the process"
            f" died, it died at {name} or later",
            evidence=[line],
            advice=_TAKE_IT_OUT if report.groups else _SAY_THE_GROUP,
            severity="warning",
        )


_SAY_THE_GROUP = (
    "Which group it belongs to is not in the log: run again with"
    " PYTORCH_JIT_LOG_LEVEL='graph_fuser:>>kernel_cache' (fusiondoc diagnose sets it)."
)
_TAKE_IT_OUT = (
    "Take that group out (--knob skip_node_kind=OPERATOR, or another --fuser), and check that this torch's"
    " CUDA knows the GPU: fusiondoc env."
)


def _crash(report: Report, died: str, work: LastWork | None, kernel: NamedKernel | None = None) -> Finding:
    """``work``: what was not done by then; ``kernel``: whose source was printed last, without a time."""
    if work is not None:
        group = next((g for g in report.groups if g.id == work.group), None)
        doing = "compiling" if work.stage == "compile" or not _launched_after(report, group) else "running"
        if group is not None and group.kind == NNC.kind:
            doing = "compiling or running"  # NNC runs a kernel without a word
        return finding(
            "FD303",
            f"{died} while {doing} {_worked_on(report, work)}",
            evidence=[work.line],
            advice=_TAKE_IT_OUT,
        )
    last = max(reversed(report.groups), key=lambda g: g.iteration or 0, default=None)
    if kernel is not None and last is None:
        return finding(
            "FD303",
            f"{died}; the last kernel whose source is in the log is {kernel.name}",
            evidence=[kernel.line],
            advice=_SAY_THE_GROUP,
        )
    if report.kernels and last is None:
        died += f"; the log names no group, and its last kernel is {report.kernels[-1].name}"
    elif last is None:
        died += ", before any group"
    return finding(
        "FD303",
        died + (f"; the last group that was made before is {describe(last)}" if last else ""),
        evidence=last.evidence[:1] if last else (),
        advice="The end of the log shows Python's stack at that moment. --fuser none says whether it dies"
        " without fusion too.",
    )


def _worked_on(report: Report, work: LastWork) -> str:
    group = next((g for g in report.groups if g.id == work.group), None)
    which = f"group {describe(group)}" if group else "a group that the log does not show"
    return f"{which}, at kernel {work.kernel}" if work.kernel else which


def _launched_after(report: Report, group: Group | None) -> bool:
    return group is not None and any(k.launches for k in report.kernels if group.id in k.groups)


def with_errors(report: Report, rerun: Rerun | None) -> Report:
    """The report with the kinds of errors, and the error of the rerun at the fallback that came first.

    The rerun stops at its first error, so it says nothing on the others; later ones often follow from it.
    """
    fallbacks = [_classified(one) for one in report.fallbacks]
    error = rerun.error if rerun is not None else None
    if error is not None and fallbacks:
        first = min(range(len(fallbacks)), key=lambda i: _line(fallbacks[i]))
        if fallbacks[first].error is None:
            fallbacks[first] = replace(fallbacks[first], error=error.text, error_kind=error.kind)
    return replace(report, fallbacks=tuple(fallbacks))


def _line(fallback: Fallback) -> int:
    return min((one.line for one in fallback.evidence), default=0)


def _classified(fallback: Fallback) -> Fallback:
    if fallback.error is None or fallback.error_kind is not None:
        return fallback
    error = read_error(fallback.error)
    return fallback if error is None else replace(fallback, error=str(error), error_kind=error.kind)


def error_in_words(fallback: Fallback) -> str:
    """ ": nvFuser's code generator failed: ..." or nothing."""
    if fallback.error is None:
        return ""
    words = IN_WORDS.get(fallback.error_kind or "")
    return f": {words}: {fallback.error}" if words else f": {fallback.error}"


_OPTIONS = (
    "If PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE was set, look for a word in it that this torch does not"
    " know: it makes everything fall back (FD003). Else run"
)


def advice_on(fallback: Fallback, rerun: Rerun | None, everything: bool = False) -> str:
    """What to do, by what is known of the error. ``everything``: the log shows no group that works."""
    remembered = " torch remembers the failure and silently runs the operators unfused from then on."
    if "legacy executor" in (fallback.error or ""):
        return "Turn the profiling executor on: --knob profiling_executor=on (FD104)."
    if fallback.error_kind in ("codegen", "kernel", "driver"):
        return (
            "Take the operator that the error names, or the last of the group, out of fusion (--knob"
            " skip_node_kind=OPERATOR), make odd strides even with .contiguous(), or try a newer torch up to"
            " 2.1." + remembered
        )
    if fallback.error_kind == "program":
        return "Fix the program first: the unfused operators fail as well (run it with --fuser none)."
    if fallback.error_kind == "option":
        return "Take the unknown word out of the variable: it makes every group fall back (FD003)."
    if fallback.error_kind is not None:
        return "See FD306: the installation does not fit the GPU; the fusion itself is not the cause."
    if rerun is None:
        return (
            (_OPTIONS if everything else "Run")
            + " with PYTORCH_NVFUSER_DISABLE=fallback (torch 1.12 to 2.1) to see the real error; diagnose"
            " does so by itself." + remembered
        )
    if rerun.error is not None:
        return "Fix the group that fell back first, then look again: later failures often follow from it."
    ended = {
        Ended.SIGNAL: f"The rerun without fallback died of {rerun.signal} instead of raising an error",
        Ended.TIMED_OUT: "The rerun without fallback did not end in time",
        Ended.INTERRUPTED: "The rerun without fallback was interrupted",
    }
    otherwise = "A rerun without fallback raised no error: the failure comes and goes"
    return (ended.get(rerun.ended, otherwise) if rerun.ended else otherwise) + ";" + remembered
