"""FD1xx: nothing to fuse yet; FD2xx: an operator that is not fused, with the reason
that the log states or that was derived. Also the requests to AOTAutograd and its
results: FD105 to FD109, FD237, FD504."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fusiondoc.changes.recipes import helping
from fusiondoc.diagnosis.advice import (
    Advice,
    advice_on,
    between_libraries,
    of_a_library,
    of_torch,
)
from fusiondoc.diagnosis.differentiable_graphs import gradients_recorded
from fusiondoc.diagnosis.rules import Context, RunFacts, finding
from fusiondoc.diagnosis.rules.fd1_fuser_off import variable_off
from fusiondoc.diagnosis.rules.fd9_log import HOW_TO_LOG, PLANS
from fusiondoc.diagnosis.rules.updates_that_stay import stays_in_place
from fusiondoc.diagnosis.suggested_changes import SuggestedChanges
from fusiondoc.fusers import FUSERS, is_fusible, taken_by
from fusiondoc.model import count, dataclass, multiple
from fusiondoc.model.aot import AotFunction
from fusiondoc.model.code_kinds import Loss
from fusiondoc.model.codes import CODES
from fusiondoc.model.operator_places import folded
from fusiondoc.model.reasons import OutOfRegion
from fusiondoc.model.remedies import Nothing, Remedy, nothing
from fusiondoc.model.report import Finding, Report, Unfused
from fusiondoc.model.runs import Time
from fusiondoc.operators import is_in_place

DYNAMO = "torch.compile"


def compiled_each_time(one: AotFunction) -> bool:
    """True if each call of the function was compiled separately."""
    return (
        one.how != DYNAMO
        and one.wraps is not None
        and one.compiles >= one.wraps > 1
        and (one.calls is None or one.calls <= one.wraps)
    )


def wrapped_anew(report: Report, context: Context) -> Iterable[Finding]:
    """FD105: the wrapper is made in every call, and then everything is traced and
    compiled again."""
    for one in filter(compiled_each_time, report.aot):
        yield finding(
            "FD105",
            f"{one.how} is called on {one.name} in every call: {one.wraps} wrappers,"
            f" {one.compiles} compilations, {one.calls} calls",
            source=one.user_source,
            remedy="Call it once, in __init__ or at module level, and keep the wrapper: from torch 1.13"
            " on each wrapper has its own cache, so no graph runs often enough to be fused.",
        )


def shapes_fixed(report: Report, context: Context) -> Iterable[Finding]:
    """FD106: graphs that are correct only for the shapes of the first call."""
    for one in report.aot:
        several = len(one.shapes) > 1
        if compiled_each_time(one) or one.failure is not None or not one.compiles:
            continue
        if several and one.compiles > 1:
            yield finding(
                "FD106",
                f"{one.name} was compiled {one.compiles:,} times for {len(one.shapes):,} kinds of arguments:"
                f" {_few(one.shapes)}",
                source=one.user_source,
                remedy=Remedy(
                    "Pad the arguments to a few sizes;",
                    "or torch.compile(..., dynamic=True).",
                )
                if one.how == DYNAMO
                else "Pad the arguments to a few sizes.",
            )
        elif one.how != DYNAMO and one.fixed_sizes:
            message = f"The graphs of {one.name} are fixed to the shapes of its first call"
            if several:
                message += f", and it was called with {len(one.shapes)}: {_few(one.shapes)}"
            yield finding(
                "FD106",
                f"{message}: sizes are written into {_few(one.fixed_sizes)}",
                source=one.user_source,
                severity=None if several else "note",
                remedy=Remedy(
                    "Use one wrapper for each shape, or pad.",
                    "From torch 1.13 on nothing checks the shapes of later calls: with others the result is"
                    " wrong or an error.",
                ),
            )


def _few(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return "; ".join(shown[:3]) + more


def not_compiled(report: Report, context: Context) -> Iterable[Finding]:
    """FD107: AOTAutograd, or the compiler that it calls, failed."""
    for one in report.aot:
        if one.failure is not None:
            yield finding(
                "FD107",
                f"{one.how} could not compile {one.name}: {one.failure}",
                source=one.user_source,
                remedy="Move code that depends on values (.item(), if on a tensor, printing) and operators"
                " that TorchScript does not have out of the function: only tensors are traced.",
            )


def graph_breaks(report: Report, context: Context) -> Iterable[Finding]:
    """FD108: torch.compile split a function into several graphs."""
    breaks = context.graph_breaks
    if breaks.reasons:
        total = sum(breaks.reasons.values())
        worst = sorted(breaks.reasons.items(), key=lambda item: -item[1])
        yield finding(
            "FD108",
            f"torch.compile cut the program {count(total, 'time')}, into {breaks.graphs} graphs:"
            f" {_few(why for why, _ in worst)}",
            remedy=Remedy(
                "Move the code that it names out of the compiled function: fusion ends at each cut;",
                "TORCH_LOGS=graph_breaks shows the lines.",
            ),
        )


def modules_ran_eager(report: Report, context: Context) -> Iterable[Finding]:
    """FD109: a module that fuses itself ran its plain operators."""
    for one in report.fused_modules:
        if one.fused < one.calls or not one.calls:
            many = ""
            if one.calls:
                many = f" in {one.calls - one.fused} of {one.calls} calls"
            yield finding(
                "FD109",
                f"{one.kind} ran its plain operators{many}: {'; '.join(one.eager)}",
                remedy=Remedy(
                    "Move model and inputs to a GPU, and set xformers._is_functorch_available = True before"
                    " its components are imported.",
                    "It gives no warning. A grad_fn named CompiledFunctionBackward shows that"
                    " AOTAutograd ran, not that a kernel is fused.",
                ),
            )


def memory_shared(report: Report, context: Context) -> Iterable[Finding]:
    """FD237: arguments that are changed in place, or share memory with others."""
    for one in report.aot:
        between = [text for text in one.shared if text.startswith("arguments")]
        parts = []
        if one.changed:
            parts.append(f"{one.name} changes {' and '.join(one.changed)} in place")
        if between:
            parts.append(f"{' and '.join(between)} of {one.name} share memory")
        if parts:
            yield finding(
                "FD237",
                "; ".join(parts),
                source=one.user_source,
                remedy=Remedy(
                    "Return a new tensor (x + y for x += y), and pass copies of arguments that share memory.",
                    "AOTAutograd compiles functions without side effects: from torch 2.0 on it copies the new"
                    " value back after the graph; before that the change can be lost.",
                ),
            )


def saves_more(report: Report, context: Context) -> Iterable[Finding]:
    """FD504: a partition that keeps more bytes for the backward pass than the
    default one."""
    for one in report.aot:
        if one.partition is None or one.default is None:
            continue
        more = one.partition.saved_bytes - one.default.saved_bytes
        if more > 0:
            yield finding(
                "FD504",
                f"{one.partition.name} keeps {one.partition.saved_bytes:,} bytes of {one.name} for the"
                f" backward pass, the default partition {one.default.saved_bytes:,}",
                source=one.user_source,
                remedy="Give the wrapper another partition_fn: min_cut_rematerialization_partition, or"
                " default_partition.",
            )


_CHOICE = " or ".join(
    reversed([fuser.name for fuser in FUSERS.values() if fuser.by_default])
)

_PASSES = tuple(
    header for fuser in FUSERS.values() for header in fuser.pass_headers
)


def only_profiling(report: Report, context: Context) -> Iterable[Finding]:
    """FD101: executors profiled, but none made a plan."""
    headers = context.observed.headers
    if any(map(compiled_each_time, report.aot)):
        return  # more runs would change nothing
    if (
        context.cut_short
        or not headers.get("Profiled Graph:")
        or any(header in headers for header in PLANS)
    ):
        return
    message = f"Only profiling happened: graphs profiled: {headers['Profiled Graph:']}, optimised: none"
    if context.observed.errors:
        advice = "The program failed before a plan was made: fix that first."
        yield finding(
            "FD101", f"{message}; then it failed", remedy=advice, severity="note"
        )
        return
    yield finding(
        "FD101",
        message,
        remedy="Run the model at least three times with inputs of the same shape (backward needs one "
        "run more):"
        " --runs 5.",
    )


def no_fusion_pass(report: Report, context: Context) -> Iterable[Finding]:
    """FD102: plans without a group, and no fusion pass was logged."""
    headers = context.observed.headers
    if (
        report.groups
        or not headers.get("Optimized Graph:")
        or any(header in headers for header in _PASSES)
    ):
        return
    if report.fuser.requested == "none":
        return
    if (
        variable_off(report, context) is not None
        or context.switches.any_switched_off
    ):
        return  # FD104 names the cause
    yield _why_no_pass(report, context)


def _why_no_pass(report: Report, context: Context) -> Finding:
    """Return FD102 with its cause, or its possible causes."""
    without = [row for row in report.unfused if row.reason.code == "FD231"]
    if any(gradients_recorded(row.reason.detail) for row in without):
        return _no_region(_ends(report), without[0], report)
    if context.request is not None and report.fuser.live:
        return finding(
            "FD102", _NO_REGION, severity="note", remedy=_NOTHING_TO_DIFFERENTIATE
        )
    causes = _causes_of_no_pass(report, bool(without))
    first, *others = [f"{nth}) {cause}" for nth, cause in enumerate(causes, 1)]
    likeliest = f"Possible causes, likeliest first: {first}"
    return finding(
        "FD102",
        "Graphs were optimised but hold no fusion group, and the log shows no fusion pass",
        remedy=Remedy(f"{likeliest};", "; ".join(others)) if others else likeliest,
    )


_NO_REGION = (
    "No fusion pass ran: gradients are recorded, and torch found no differentiable graph of two operators to"
    " hand to a fuser"
)
_NOTHING_TO_DIFFERENTIATE = nothing(
    "Nothing: none of its operators has a gradient formula and something beside it to fuse with.",
)
"""The remedy for a run that logs every fusion pass: if no gradients are recorded, a
pass always runs (``runProfilingOptimizations`` of
torch/csrc/jit/runtime/profiling_graph_executor_impl.cpp, 1.12 to 2.13)."""


def _no_region(ends: _Ends, row: Unfused, report: Report) -> Finding:
    """Return FD102 for a run that records gradients.

    Args:
        row: the first operator outside differentiable graphs.
    """
    why = f": {ends.text}" if ends.text else ""
    step = _OUT_OF_PLACE if ends.in_place else _WITH_FORMULAS
    changeable = bool(ends.in_place) or _may_be_written_otherwise(ends, report)
    if changeable:
        remedy = Remedy(step, _IN_INFERENCE)
    else:
        remedy = nothing(_NO_OTHER_WAY, _IN_INFERENCE)
    return finding(
        "FD102",
        f"{_NO_REGION}{why}",
        source=row.user_source,
        evidence=row.evidence[:3],
        remedy=remedy,
        severity=None if changeable else "note",
    )


_IN_INFERENCE = "For inference run it under torch.no_grad()."
_NO_OTHER_WAY = "Nothing in training: no other way to write the operators around these is known."


def _may_be_written_otherwise(ends: _Ends, report: Report) -> bool:
    """True if a recipe is known for one of the operators without a gradient
    formula."""
    fuser, torch = report.fuser.effective, report.environment.get("torch")
    ops = ends.without_formula
    return fuser is None or any(helping(op, fuser, torch, True) for op in ops)


def _causes_of_no_pass(report: Report, without_region: bool) -> Iterable[str]:
    """Yield the causes why no fusion pass is in the log, likeliest first."""
    if without_region:
        cause = "gradients were recorded and no differentiable graph of two operators exists"
        ends = _ends(report)
        if ends.text:
            yield f"{cause} ({ends.text}): {_as_part(_OUT_OF_PLACE).rstrip('.')}"
        else:
            yield cause
    if report.fuser.requested in (None, "auto"):
        yield f"no fuser was on: --fuser {_CHOICE}; in a script: with torch.jit.fuser('fuser1')"
    yield f"the pass was not logged: {_as_part(HOW_TO_LOG.text)}"


def _as_part(sentence: str) -> str:
    """Return the sentence as it follows a colon."""
    return f"{sentence[0].lower()}{sentence[1:]}"


_OUT_OF_PLACE = (
    "Use out-of-place operators (inplace=False, out + x for out += x), so that two operators with"
    " gradient formulas are adjacent."
)


_WITH_FORMULAS = "Replace the operators without a gradient formula by others that have one: fusiondoc explain FD231."


@dataclass(frozen=True)
class _Ends:
    """Operators between those with gradient formulas, which keep them apart: name
    -> how often it is there."""

    in_place: Counter[str]
    """Operators that change their input."""
    without_formula: Counter[str]

    @property
    def text(self) -> str:
        """Return ``aten::add_ (2 times) change their input in place``; "" without
        any."""
        parts = []
        if self.in_place:
            parts.append(
                f"{_most_common(self.in_place)} change their input in place"
            )
        if self.without_formula:
            parts.append(
                f"{_most_common(self.without_formula)} have no gradient formula"
            )
        return "; ".join(parts)


def _most_common(counted: Counter[str]) -> str:
    parts = []
    for op, times in counted.most_common(3):
        parts.append(f"{op} ({count(times, 'time')})")
    return ", ".join(parts)


def _ends(report: Report) -> _Ends:
    in_place, others = Counter[str](), Counter[str]()
    for row in report.unfused:
        if is_in_place(row.op) and row.reason.code in ("FD230", "FD231"):
            in_place[row.op] += row.count
        elif _without_formula(row):
            others[row.op] += row.count
    return _Ends(in_place, others)


def _without_formula(row: Unfused) -> bool:
    """True if no overload of the operator has a gradient formula."""
    detail = row.reason.detail
    return (
        isinstance(detail, OutOfRegion)
        and detail.gap.why == "no_formula"
        and not detail.cuts
    )


def inner_plan_missing(report: Report, context: Context) -> Iterable[Finding]:
    """FD103: a differentiable graph whose own executor made no plan."""
    rows = [row for row in report.unfused if row.reason.code == "FD103"]
    if not rows:
        return
    total = sum(row.count for row in rows)
    yield finding(
        "FD103",
        f"{total:,} operators are in a differentiable graph that was not optimised in this log",
        source=rows[0].user_source,
        evidence=rows[0].evidence[:3],
        remedy="Its own executor profiles once more: run the model once or twice more (--runs).",
    )


OF_RUNS = (
    only_profiling,
    no_fusion_pass,
    inner_plan_missing,
    wrapped_anew,
    shapes_fixed,
    not_compiled,
    graph_breaks,
    modules_ran_eager,
    memory_shared,
    saves_more,
)


def not_fused(changes: SuggestedChanges) -> Iterable[Finding]:
    """Yield one finding for each unfused row that ran; only a note for an operator
    that keeps no others out and that the fuser does not take."""
    for row, change in zip(changes.report.unfused, changes.first):
        if (
            row.ran is False
            or CODES[row.reason.code].remedy is None
            or row.op == "prim::GetAttr"
        ):
            continue
        if _unchangeable(row, changes.run) is None:
            stays = stays_in_place(changes, row)
            out_of_place = changes.out_of_place(row) if stays is None else None
            yield _finding(
                row,
                changes.run,
                stays or advice_on(row, changes.run, change, out_of_place),
            )


_UNCHANGEABLE: tuple[tuple[Callable[[Unfused, RunFacts], bool], Nothing], ...] = (
    (of_torch, Nothing.FORMULAS),
    (of_a_library, Nothing.LIBRARY),
    (between_libraries, Nothing.BETWEEN_LIBRARIES),
)


def _unchangeable(row: Unfused, run: RunFacts) -> Nothing | None:
    """Return why no change of the program brings it into a group; None if one
    may."""
    return next((why for case, why in _UNCHANGEABLE if case(row, run)), None)


def not_to_be_changed(changes: SuggestedChanges) -> Iterable[Finding]:
    """FD236: one note for each cause that no change of a program can remove."""
    notes: dict[Nothing, list[Unfused]] = {}
    for row in changes.report.unfused:
        why = _unchangeable(row, changes.run) if row.may_have_run else None
        if why is not None:
            notes.setdefault(why, []).append(row)
    general = CODES["FD236"].remedy
    assert general is not None
    for why, rows in notes.items():
        yield finding(
            "FD236",
            f"{listed(rows)}: {why.value}",
            source=rows[0].user_source,
            evidence=rows[0].evidence[:3],
            remedy=replace(general, nothing=why),
            ops=sorted({row.op for row in rows}),
            rows=rows,
            time=_together(rows),
        )


def _finding(row: Unfused, run: RunFacts, advice: Advice) -> Finding:
    code = CODES[row.reason.code]
    changeable = row.keeps_out and advice.sure
    something = advice.remedy is None or advice.remedy.nothing is None
    where = f", layer {folded(row.layers)}" if row.layers else ""
    if row.called_from:
        where += f", called from {', '.join(row.called_from)}"
    where = f" ({where[2:]})" if where else ""
    times = f" ({row.count:,} times)" if row.count > 1 else ""
    if row.keeps_out:
        effect = f"keeps {count(row.keeps_out, 'operator')} out of groups"
    else:
        effect = f"is not fused{f' in {row.phase}' if row.phase else ''}"
    message = f"{row.op}{times} {effect}{where}: {row.reason.text}"
    if something and (changeable or (row.reason.stated and _taken(row, run))):
        severity = "warning"
    else:
        severity = "note"
    return finding(
        code.code,
        message,
        source=next(iter(row.users_lines), None),
        evidence=row.evidence,
        remedy=advice.remedy,
        severity=severity,
        saves_bytes=row.bytes_moved if code.loss is Loss.RESULT else None,
        keeps_out=row.keeps_out,
        recipe=advice.recipe.words if advice.recipe is not None else None,
        ops=(row.op,),
        rows=(row,),
        time=row.time,
    )


def _together(rows: Sequence[Unfused]) -> Time | None:
    """Return the time that the rows take in a step together; None if the profile
    has none of them."""
    times = [row.time for row in rows if row.time is not None]
    saved = []
    for one in times:
        if one.could_save_ms is not None:
            saved.append(one.could_save_ms)
    if not times:
        return None
    ms, share = sum(one.ms for one in times), sum(one.share for one in times)
    return Time(
        round(ms, 6), round(share, 6), round(sum(saved), 6) if saved else None
    )


def _taken(row: Unfused, run: RunFacts) -> bool:
    """True if the fuser takes the operator with other arguments or at another
    position."""
    if run.fuser is None:
        return is_fusible(row.op)
    return taken_by(row.op, run.fuser, run.torch)


def listed(rows: Sequence[Unfused]) -> str:
    """Return the operators of rows with their counts, most frequent first:
    ``aten::mm x3, aten::add``."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.op] = counts.get(row.op, 0) + row.count
    most = sorted(counts.items(), key=lambda item: -item[1])
    names = [op + multiple(number) for op, number in most[:4]]
    return ", ".join(names) + (
        f" and {len(most) - 4} more" if len(most) > 4 else ""
    )


OF_NODES = (not_fused, not_to_be_changed)
"""Rules on single operators: they come after those on the whole run."""
