"""FD301, FD302, FD307, FD905: fallbacks, errors of a fuser that end the program,
and a program that does not end."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fusiondoc.diagnosis.of_fusers import rules_of
from fusiondoc.diagnosis.of_fusers.findings import (
    error_in_words,
    remedy_for_fallback,
)
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.rules.fd3_crashes import crashed
from fusiondoc.diagnosis.rules.fd3_fd9_whose_error import came_of
from fusiondoc.diagnosis.rules.fd3_specialisations import SPECIALISATIONS
from fusiondoc.diagnosis.rules.fd3_toolchain import toolchain
from fusiondoc.diagnosis.rules.fd9_errors_of_ranks import first_words
from fusiondoc.diagnosis.rules.groups_in_words import describe, first_user_source
from fusiondoc.fusers import fuser_title
from fusiondoc.fusers.fuser_errors import OF_FUSER
from fusiondoc.model import count
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Evidence, Fallback, Finding, Group, Report
from fusiondoc.parsers.lines.error_texts import (
    is_of_fuser,
    of_stand_alone,
    read_error,
)
from fusiondoc.parsers.observed import LastWork


def fell_back(report: Report, context: Context) -> Iterable[Finding]:
    """FD301 and FD302: a group ran as unfused operators."""
    groups = {group.id: group for group in report.groups}
    everything = not report.kernels and all(
        group.fallback for group in report.groups
    )
    for fallback in report.fallbacks:
        group = groups.get(fallback.group or "")
        who = f"Group {describe(group)}" if group else "A fusion group"
        often = f"{'' if fallback.count_exact else 'at least '}{count(fallback.count, 'time')}"
        compiling = fallback.stage == "compile"
        yield finding(
            "FD301" if compiling else "FD302",
            f"{who} fell back to unfused operators while it was {'compiled' if compiling else 'run'}, {often}"
            + error_in_words(fallback)
            + _then_failed(fallback, context),
            source=group.first_line if group else None,
            evidence=fallback.evidence,
            remedy=remedy_for_fallback(fallback, context.rerun, everything),
        )


def _then_failed(fallback: Fallback, context: Context) -> str:
    """Return the error of the group's unfused operators after it fell back, as part
    of a sentence; "" if they worked."""
    for logged in context.observed.errors:
        if not is_of_fuser(logged.text) and came_of(logged, fallback):
            text = first_words(logged.text)
            return f"; its unfused operators then failed too, which is the error of FD905: {text}"
    return ""


def timed_out(report: Report, context: Context) -> Iterable[Finding]:
    """FD905: the program did not end in time."""
    if context.result.timed_out:
        yield finding(
            "FD905",
            "The program did not end in time and was stopped; this report covers the run up to then"
            + (
                f" ({context.result.stopped} had stopped it)"
                if context.result.stopped
                else ""
            ),
            remedy=Remedy(
                "Give it more time with --timeout;",
                "the log ends with Python's stack at that moment.",
            )
            if context.observed.stacks
            else "Give it more time with --timeout.",
        )


class _LoggedText(NamedTuple):
    """The text of an error, with its line in the log and the work that was
    unfinished then."""

    text: str
    line: Evidence | None
    work: LastWork | None


def fuser_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD307: an error in the fuser's own code ended the program, as no fallback
    caught it."""
    seen = set()
    for text, line, work in _error_texts(context):
        error = read_error(text)
        if (
            error is None
            or error.kind not in OF_FUSER
            or (error.kind, error.text) in seen
        ):
            continue
        if of_stand_alone(text) and not report.groups:
            continue  # FD910: knobs and variables of TorchScript do not apply to it
        seen.add((error.kind, error.text))
        group = _group_of(report, text, work)
        at = f"; group {describe(group)}" if group else ""
        yield finding(
            "FD307",
            f"{fuser_title(error.fuser or '')} failed, and the error ended the program: {error}{at}",
            source=first_user_source(group),
            evidence=[line] if line is not None else [],
            remedy=rules_of(error.fuser).remedy_of(error),
        )


def _error_texts(context: Context) -> Iterable[_LoggedText]:
    """Yield the error that the program ended with, then those of the log."""
    if context.error is not None:
        text = f"{context.error.type}: {context.error.message}"
        yield _LoggedText(text, None, context.observed.last_work)
    for logged in context.observed.errors:
        yield _LoggedText(logged.text, logged.line, logged.work)


_KERNEL_NAME = re.compile(r"\bvoid (fused_\w+)\(")


def _group_of(report: Report, text: str, work: LastWork | None) -> Group | None:
    """Return the group that was at work; an error may hold the source of its
    kernel, whose name lists the operators (generateNameForGraph of
    torch/csrc/jit/passes/utils/subgraph_utils.cpp)."""
    if work is not None:
        return report.group(work.group)
    named = _KERNEL_NAME.search(text)
    if named is None:
        return None
    names = {}
    for g in report.groups:
        names[g.id] = "_".join(["fused", *(op.split("::")[-1] for op in g.ops)])
    found = [g for g in report.groups if names[g.id] == named.group(1)]
    if len(found) == 1:
        return found[0]
    return None


RULES = (
    toolchain,
    fell_back,
    crashed,
    fuser_failed,
    timed_out,
    *SPECIALISATIONS,
)
"""The toolchain comes first: it explains fallbacks and failures."""
