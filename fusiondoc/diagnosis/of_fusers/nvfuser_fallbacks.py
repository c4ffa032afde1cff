"""Fallbacks of nvFuser's groups to unfused operators: their errors, also from a
rerun without fallback, and remedies. No other fuser falls back after it made a
group."""

from __future__ import annotations

from dataclasses import replace

from fusiondoc.captures.capture import Rerun
from fusiondoc.captures.ending import Ended
from fusiondoc.fusers.fuser_errors import CODEGEN, DRIVER, KERNEL, OPTION, PROGRAM
from fusiondoc.fusers.nvfuser.errors import LEGACY_EXECUTOR
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Fallback, Report
from fusiondoc.parsers.lines.error_texts import cause_of, in_words, read_error


def with_errors(report: Report, rerun: Rerun | None) -> Report:
    """Return the report with the kinds of errors, and with the error of the rerun
    at the fallback that came first.

    The rerun stops at its first error, so that the others stay unknown; later ones
    often follow from it.
    """
    fallbacks = [_classified(one) for one in report.fallbacks]
    error = rerun.error if rerun is not None else None
    if error is not None and fallbacks:
        first = min(range(len(fallbacks)), key=lambda i: _line(fallbacks[i]))
        if fallbacks[first].error is None:
            fallbacks[first] = replace(
                fallbacks[first], error=error.text, error_kind=error.kind
            )
    return replace(report, fallbacks=tuple(fallbacks))


def _line(fallback: Fallback) -> int:
    return min((one.line for one in fallback.evidence), default=0)


def _classified(fallback: Fallback) -> Fallback:
    if fallback.error is None or fallback.error_kind is not None:
        return fallback
    error = read_error(fallback.error)
    if error is None:
        return fallback
    return replace(fallback, error=str(error), error_kind=error.kind)


def error_in_words(fallback: Fallback) -> str:
    """Return ": the kernel that the fuser wrote does not compile: ..."; "" without
    an error."""
    if fallback.error is None:
        return ""
    words = in_words(fallback.error_kind or "")
    if words:
        return f": {words}: {fallback.error}"
    return f": {fallback.error}"


_OPTIONS = (
    "If PYTORCH_NVFUSER_DUMP, _ENABLE or _DISABLE was set, look for a word in it that this torch does not"
    " know: it makes everything fall back (FD003)."
)
_REMEMBERED = "torch remembers the failure and silently runs the operators unfused from then on."


def remedy_for_fallback(
    fallback: Fallback, rerun: Rerun | None, everything: bool = False
) -> Remedy | str:
    """Return the remedy, by the known facts about the error.

    Args:
        everything: the log shows no group that works.
    """
    if cause_of(fallback.error or "") == LEGACY_EXECUTOR:
        return (
            "Turn the profiling executor on: --knob profiling_executor=on (FD104)."
        )
    if fallback.error_kind in (CODEGEN, KERNEL, DRIVER):
        return Remedy(
            "Take the operator that the error names, or the last of the group, out of fusion (--knob"
            " skip_node_kind=OPERATOR), make odd strides even with .contiguous(), or try a newer torch up to"
            " 2.1.",
            _REMEMBERED,
        )
    if fallback.error_kind == PROGRAM:
        return "Fix the program first: the unfused operators fail as well (run it with --fuser none)."
    if fallback.error_kind == OPTION:
        return "Remove the unknown word from the variable: it makes every group fall back (FD003)."
    if fallback.error_kind is not None:
        return Remedy(
            "See FD306: the installation does not fit the GPU;",
            "the fusion itself is not the cause.",
        )
    if rerun is None:
        see = "with PYTORCH_NVFUSER_DISABLE=fallback (torch 1.12 to 2.1) to see the real error;"
        more = f"diagnose does so by itself. {_REMEMBERED}"
        if everything:
            return Remedy(_OPTIONS, f"Else run {see} {more}")
        return Remedy(f"Run {see}", more)
    if rerun.error is not None:
        return "Fix the group that fell back first, then look again: later failures often follow from it."
    return Remedy(f"{_without_error(rerun)};", _REMEMBERED)


def _without_error(rerun: Rerun) -> str:
    """Return how a rerun without fallback ended that raised no error."""
    if rerun.ended is Ended.SIGNAL:
        return f"The rerun without fallback died of {rerun.signal} instead of raising an error"
    if rerun.ended is Ended.TIMED_OUT:
        return "The rerun without fallback did not end in time"
    if rerun.ended is Ended.INTERRUPTED:
        return "The rerun without fallback was interrupted"
    return "A rerun without fallback raised no error: the failure comes and goes"
