"""FD3xx: fallbacks, guards and crashes."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from fusiondoc.diagnosis.context import Context
from fusiondoc.diagnosis.make import finding
from fusiondoc.diagnosis.rerun import advice_on, error_in_words
from fusiondoc.diagnosis.specialisations import in_words
from fusiondoc.model import Finding, Group, Report


def describe(group: Group) -> str:
    """A group in a few words: its id, its first operators and its line."""
    names = [op.split("::")[-1] for op in group.ops]
    shown = ", ".join(names[:4]) + (f", ... {len(names)} operators" if len(names) > 4 else "")
    line = next((node.user_source for node in group.nodes if node.user_source), None)
    return f"{group.id} ({shown}{', ' + line if line else ''})"


def fell_back(report: Report, context: Context) -> Iterable[Finding]:
    """FD301 and FD302: a group ran as unfused operators."""
    groups = {group.id: group for group in report.groups}
    for fallback in report.fallbacks:
        group = groups.get(fallback.group or "")
        who = f"Group {describe(group)}" if group else "A fusion group"
        often = (
            f"{'' if fallback.count_exact else 'at least '}{fallback.count} time{'s' * (fallback.count > 1)}"
        )
        compiling = fallback.stage == "compile"
        yield finding(
            "FD301" if compiling else "FD302",
            f"{who} fell back to unfused operators while it was {'compiled' if compiling else 'run'}, {often}"
            + error_in_words(fallback),
            source=next((n.user_source for n in group.nodes if n.user_source), None) if group else None,
            evidence=fallback.evidence,
            advice=advice_on(fallback, context.rerun),
        )


def crashed(report: Report, context: Context) -> Iterable[Finding]:
    """FD303: the process died of a signal."""
    signal = context.result.get("signal")
    if not signal or context.result.get("timed_out") or context.result.get("interrupted"):
        return
    if context.observed.last_work is not None:
        stage, group_id, line = context.observed.last_work
        group = next((g for g in report.groups if g.id == group_id), None)
        doing = "compiling" if stage == "compile" or not _launched_after(report, group) else "running"
        yield finding(
            "FD303",
            f"The process died of {signal} while {doing} "
            + (f"group {describe(group)}" if group else "a group of nvFuser"),
            evidence=[line],
            advice="Take that group out (--knob skip_node_kind=OPERATOR, or another --fuser), and check "
            "that this"
            " torch's CUDA knows the GPU: fusiondoc env.",
        )
        return
    last = max(report.groups, key=lambda g: g.iteration or 0, default=None)
    yield finding(
        "FD303",
        f"The process died of {signal}"
        + (f"; the last group that was made before is {describe(last)}" if last else ", before any group"),
        evidence=last.evidence[:1] if last else (),
        advice="The end of the log shows Python's stack at that moment. --fuser none says whether it "
        "dies without"
        " fusion too.",
    )


def timed_out(report: Report, context: Context) -> Iterable[Finding]:
    """FD905: the program did not end."""
    if context.result.get("timed_out"):
        yield finding(
            "FD905",
            "The program did not end in time and was stopped; this report is of what it did until then",
            advice="Give it more time with --timeout; the log ends with Python's stack at that moment.",
        )


def _launched_after(report: Report, group: Group | None) -> bool:
    return group is not None and any(k.launches for k in report.kernels if group.id in k.groups)


def gave_up(report: Report, context: Context) -> Iterable[Finding]:
    """FD304: an unfused copy of the graph runs because no specialisation was left."""
    rows = [row for row in report.unfused if row.reason.code == "FD304"]
    if rows:
        yield finding(
            "FD304",
            f"{sum(row.count for row in rows)} operators run unfused for some inputs: a guard failed and no"
            " specialisation was left",
            source=rows[0].user_source,
            evidence=rows[0].evidence[:3],
            advice="Allow more or dynamic specialisations: --knob fusion_strategy=STATIC:2,DYNAMIC:10"
            " (torch.jit.set_fusion_strategy), or pad the inputs to fewer shapes.",
        )


def many_specialisations(report: Report, context: Context) -> Iterable[Finding]:
    """FD305: a group was compiled again for other input types."""
    counts: dict[str, int] = {}
    for group in report.groups:
        if group.respecialises:
            counts[group.respecialises] = counts.get(group.respecialises, 0) + 1
    groups = {group.id: group for group in report.groups}
    for group_id, more in counts.items():
        again = [g for g in report.groups if g.respecialises == group_id]
        why = in_words(groups[group_id], again)
        yield finding(
            "FD305",
            f"Group {describe(groups[group_id])} was specialised {more + 1} times: {why}",
            source=next((n.user_source for n in groups[group_id].nodes if n.user_source), None),
            evidence=[e for g in again for e in g.evidence[:1]],
            advice="Keep shapes, strides and dtypes the same from call to call, pad them, or use "
            "dynamic shapes:"
            " --knob fusion_strategy=DYNAMIC:10.",
            severity="warning" if more > 1 else "note",
        )


def program_failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD905: the user's program ended with an error."""
    error = context.error
    if error is not None:
        yield finding(
            "FD905",
            f"The program failed{_WHEN.get(str(error.get('stage')), '')}: {_last_error(error)}",
            advice=error.get("hint"),
        )
        return
    for text, line in context.observed.errors[:3]:
        yield finding("FD905", f"The log holds an error: {text[:300]}", evidence=[line])


_WHEN = {
    "import": " while it was imported",
    "script": " while it was scripted",
    "trace": " while it was traced",
    "inputs": " while it made its inputs",
    "forward": " in the forward pass",
    "backward": " in the backward pass",
    "verify": " in the eager run of --verify",
}
"""Stages of the probe's error record."""


def _last_error(error: Mapping[str, Any]) -> str:
    """Type and message; TorchScript puts the true error behind its own traceback, on the last line."""
    lines = str(error.get("message", "")).strip().split("\n")
    last = lines[-1].strip()
    if "Error: " in last and len(lines) > 1:
        return last[:300]
    text = lines[0][:300].rstrip(":")
    # What the probe says itself has no type that is the program's.
    return text if error.get("type") == "Refused" else f"{error.get('type')}: {text}"


RULES = (fell_back, crashed, timed_out, program_failed, gave_up, many_specialisations)
