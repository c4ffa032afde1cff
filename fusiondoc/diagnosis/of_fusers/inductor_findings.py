"""Findings on torch.compile's work: breaks and recompiles, calls, boundaries,
failures, and missing parts of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusiondoc.captures.fuser_fault import Blame
from fusiondoc.diagnosis.of_fusers import inductor_boundary_findings
from fusiondoc.diagnosis.of_fusers.inductor_boundary_findings import FORMULAS
from fusiondoc.diagnosis.of_fusers.inductor_fault import compiler_failed
from fusiondoc.diagnosis.of_fusers.inductor_rows import NAMELESS
from fusiondoc.diagnosis.rules import Context, finding
from fusiondoc.diagnosis.speed_of_light import in_bytes
from fusiondoc.model import count
from fusiondoc.model.boundaries import READ_TWICE
from fusiondoc.model.code_kinds import Loss
from fusiondoc.model.codes import CODES
from fusiondoc.model.compiled import CompiledGraphRow, GraphBreakRow, RecompileRow
from fusiondoc.model.inductor_codes import rewrite_of
from fusiondoc.model.operator_places import folded
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.report import Finding, Report

MOST_NAMES = 3
"""Ends, guards or graphs that a message names."""


def failed(report: Report, context: Context) -> Iterable[Finding]:
    """FD312: the compilation of a graph ended in an error, and the program went
    on."""
    fault = context.fault
    if fault is not None and fault.blame is Blame.FUSER:
        return  # FD309
    for graph in _graphs(report):
        if graph.failed is not None:
            yield compiler_failed(
                graph.failed, f" on {_named(graph)}", graph.failed_at
            )


def gave_up(report: Report, context: Context) -> Iterable[Finding]:
    """FD311: functions that run in eager code from some call on."""
    for row in report.compiled.recompiles if report.compiled is not None else ():
        if row.limit_reached:
            yield finding(
                "FD311",
                f"torch.compile gave {row.function or 'a function'} up at the limit of recompiles: it runs in"
                f" eager code from then on. {_guards(row)}",
                source=row.user_source,
                remedy=_for_recompiles(row),
            )


def breaks(report: Report, context: Context) -> Iterable[Finding]:
    """FD121: each line at which the graph broke."""
    for row in report.compiled.breaks if report.compiled is not None else ():
        number = f" ({row.number})" if row.number is not None else ""
        times = f", {row.count:,} times" if row.count > 1 else ""
        where = f" in {row.function}" if row.function is not None else ""
        yield finding(
            "FD121",
            f"Graph break{where}{times}: {row.reason.rstrip('.')}{number}; kernels before and after it cannot"
            " be one",
            source=row.user_source,
            remedy=_for_break(row),
        )


def _for_break(row: GraphBreakRow) -> Remedy:
    """Return torch's own hints, as they are."""
    if not row.hints:
        return Remedy(
            "Move the code that breaks it out of the compiled function, or rewrite it so that Dynamo"
            " can trace it."
        )
    parts = []
    for hint in row.hints:
        parts.append(hint if hint.endswith((".", "!", "?")) else f"{hint}.")
    hints = " ".join(parts)
    return Remedy(
        "Write this line so that the graph does not break;",
        f"torch's hints: {hints}",
    )


def recompiles(report: Report, context: Context) -> Iterable[Finding]:
    """FD122: each function that was compiled again."""
    for row in report.compiled.recompiles if report.compiled is not None else ():
        if not row.limit_reached:
            yield finding(
                "FD122",
                f"{row.function or 'A function'} was compiled again{_times(row.count)}. {_guards(row)}",
                source=row.user_source,
                remedy=_for_recompiles(row),
            )


def _times(number: int) -> str:
    if number > 1:
        return f" {number:,} times"
    return ""


def _guards(row: RecompileRow) -> str:
    named = "; ".join(row.guards[:MOST_NAMES])
    left = len(row.guards) - MOST_NAMES
    more = f" and {left} more" if left > 0 else ""
    if named:
        return f"A guard failed: {named}{more}"
    return "Torch does not name the guard that failed"


_OF_SIZES = ("size mismatch", "stride mismatch", "rank mismatch", ".size()")
"""Parts of guards on sizes (torch/_dynamo/guards.py and
torch/csrc/dynamo/guards.cpp, 2.6 to 2.13)."""


def _for_recompiles(row: RecompileRow) -> Remedy:
    if any(mark in guard for guard in row.guards for mark in _OF_SIZES):
        return Remedy(
            "Mark the dimension as dynamic before the first call: torch._dynamo.mark_dynamic(x, 0);",
            "or compile with dynamic=True, or pad to a few sizes.",
        )
    return Remedy(
        "Keep the value that the guard names equal from call to call, or pass it as a tensor;",
        "torch compiles separately for each value of a Python number, flag or object.",
    )


def calls(report: Report, context: Context) -> Iterable[Finding]:
    """FD25x: each row of operators that are calls, with the bytes that go through
    memory because of the call."""
    around = _bytes_around_calls(report)
    for row in report.unfused:
        code = CODES[row.reason.code]
        if code.remedy is None or code.loss is Loss.NONE or row.op == NAMELESS:
            continue
        times = f" ({row.count:,} times)" if row.count > 1 else ""
        layers = f" (layer {folded(row.layers)})" if any(row.layers) else ""
        moved = around.get(row.index, 0)
        costs = ""
        if moved:
            costs = f"; {in_bytes(moved)} go through memory to and from it"
        if row.phase == "backward":
            remedy = FORMULAS
        else:
            remedy = _for_call(code.code, row.op, code.remedy)
        yield finding(
            code.code,
            f"{row.op}{times} is a call in the {row.phase} pass{layers}: {row.reason.text}{costs}",
            source=row.user_source,
            evidence=row.evidence[:1],
            severity="note" if row.phase == "backward" else None,
            remedy=remedy,
            ops=(row.op,),
            rows=(row,),
            saves_bytes=moved or row.bytes_moved,
            time=row.time,
        )


def _for_call(code: str, op: str, remedy: Remedy) -> Remedy:
    """Return the remedy of the code, with the operator's name if it is to be
    written in another way."""
    step = rewrite_of(code, op)
    if step:
        return replace(remedy, step=step)
    return remedy


def _bytes_around_calls(report: Report) -> dict[int | None, int]:
    """Map the index of a row to the bytes of the boundaries at its calls."""
    around: dict[int | None, int] = {}
    for boundary in report.boundaries:
        for row in {boundary.producer.row, boundary.consumer.row} - {None}:
            if boundary.kind != READ_TWICE:
                around[row] = (
                    around.get(row, 0) + (boundary.bytes or 0) * boundary.count
                )
    return around


# -- what the log lacks -------------------------------------------------------------------------------------


def from_cache(report: Report, context: Context) -> Iterable[Finding]:
    """FD921: graphs whose code came from a cache."""
    cached = [graph for graph in _graphs(report) if graph.from_cache]
    compilation = context.observed.compilation
    hits = compilation.cache_hits if compilation is not None else 0
    if cached or hits:
        which = _listed(cached) if cached else count(hits, "graph")
        yield finding(
            "FD921",
            f"The code of {which} came from a cache of Inductor: nothing was compiled, so the scheduler"
            " decided nothing",
            remedy="Run it once with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, or with fusiondoc diagnose, which"
            " sets it.",
        )


def without_decisions(report: Report, context: Context) -> Iterable[Finding]:
    """FD922: the artifact ``fusion`` is missing, so that boundaries have no reason.
    Graphs that lack more are in FD923."""
    lacking = []
    for graph in _without_fusion_log(report):
        if graph.accounts is not None and not graph.not_found:
            lacking.append(graph)
    if lacking:
        yield finding(
            "FD922",
            f"The log does not show what Inductor's scheduler decided for {_listed(lacking)}: why kernels"
            " stayed apart is known of calls alone",
            remedy=Remedy(
                'Run it with TORCH_LOGS="+fusion" and TORCHINDUCTOR_FORCE_DISABLE_CACHES=1;',
                "with a warm cache the scheduler does not run.",
            ),
        )


def _without_fusion_log(report: Report) -> Sequence[CompiledGraphRow]:
    """Return the graphs that the scheduler worked on without a log of it."""
    rows = []
    for graph in _graphs(report):
        if (
            not graph.decisions
            and not graph.from_cache
            and not graph.failed
            and _computes(graph)
        ):
            rows.append(graph)
    return rows


def _computes(graph: CompiledGraphRow) -> bool:
    """True if the scheduler has something to decide on in a graph, as far as known:
    not for a graph of views only."""
    known = graph.accounts
    return known is None or bool(
        known.in_groups or known.in_calls or known.not_found
    )


def without_operators(report: Report, context: Context) -> Iterable[Finding]:
    """FD923: operators that no kernel or call is known to compute."""
    names: list[str] = []
    for graph in _graphs(report):
        names.extend(graph.not_found)
    if names:
        more = ""
        if len(names) > MOST_NAMES:
            more = f" and {len(names) - MOST_NAMES} more"
        undecided = any(graph.not_found for graph in _without_fusion_log(report))
        yield finding(
            "FD923",
            f"The log does not show which kernel computes {', '.join(names[:MOST_NAMES])}{more}"
            f"{', nor what the scheduler decided' if undecided else ''}",
            severity="warning" if undecided else None,
            remedy=ALL_TEXTS if undecided else _OF_A_RUN,
        )


def without_texts(report: Report, context: Context) -> Iterable[Finding]:
    """FD923: graphs without code or operators."""
    bare = _bare(report)
    in_code: set[str] = set()
    for kernel in report.kernels:
        in_code.update(kernel.groups)
    with_code, without_code = [], []
    for graph in bare:
        if in_code.isdisjoint(graph.groups):
            without_code.append(graph)
        else:
            with_code.append(graph)
    for lacks, graphs in (
        ("generated code", without_code),
        ("graph after the post-grad passes", with_code),
    ):
        if graphs:
            yield finding(
                "FD923",
                f"The log has no {lacks}: it does not show the operators of {_listed(graphs)}",
                severity="note"
                if any(graph.from_cache for graph in graphs)
                else "warning",  # FD921 names the cause
                remedy=ALL_TEXTS,
            )


def _bare(report: Report) -> Sequence[CompiledGraphRow]:
    """Return the graphs that were compiled and whose operators no text shows."""
    rows = []
    for graph in _graphs(report):
        if graph.accounts is None and not graph.failed:
            rows.append(graph)
    return rows


def without_calls(report: Report, context: Context) -> Iterable[Finding]:
    """FD923: calls whose operators are not known."""
    nameless = 0
    for row in report.unfused:
        if row.op == NAMELESS:
            nameless += row.count
    if nameless and not _bare(report):
        calls = f"{count(nameless, 'call')} of it {'call' if nameless != 1 else 'calls'}"
        yield finding(
            "FD923",
            f"The log has no generated code: it does not show what {calls}",
            remedy=ALL_TEXTS,
        )


_OF_A_RUN = Remedy(
    "Run it with fusiondoc diagnose, which takes the operators of each kernel from Inductor itself."
)
ALL_TEXTS = Remedy(
    'Run it with TORCH_LOGS="+fusion,post_grad_graphs,output_code" and TORCHINDUCTOR_FORCE_DISABLE_CACHES=1;',
    "TORCH_TRACE=FOLDER writes graphs and code too, but not what the scheduler decided.",
)


def unknown_texts(report: Report, context: Context) -> Iterable[Finding]:
    """FD924: texts that no table here contains."""
    texts = report.compiled.unknown_texts if report.compiled is not None else ()
    other = []
    for one in report.boundaries:
        if one.cause is not None and one.cause.code == "FD278":
            other.append(one)
    if texts or other:
        shown = [
            *texts[:1],
            *(one.cause.text for one in other[:1] if one.cause is not None),
        ]
        yield finding(
            "FD924",
            f"{count(len(texts) + len(other), 'text')} of torch's compiler in a form that fusiondoc does not"
            f" know, first: {shown[0][:120]}",
            remedy="Upgrade fusiondoc, or report them: they are shown as they are.",
        )


def _graphs(report: Report) -> Sequence[CompiledGraphRow]:
    if report.compiled is None:
        return ()
    return report.compiled.graphs


def _named(graph: CompiledGraphRow) -> str:
    phase = f", {graph.phase}" if graph.phase is not None else ""
    if graph.compile_id is not None:
        return f"graph {graph.compile_id}{phase}"
    return f"a graph{phase}"


def _listed(graphs: Sequence[CompiledGraphRow]) -> str:
    names = list(dict.fromkeys(map(_named, graphs)))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return "; ".join(names[:MOST_NAMES]) + more


RULES = (
    failed,
    gave_up,
    breaks,
    recompiles,
    inductor_boundary_findings.boundaries,
    calls,
    from_cache,
    without_decisions,
    without_operators,
    without_texts,
    without_calls,
    unknown_texts,
)
