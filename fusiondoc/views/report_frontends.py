"""The sources of graphs, as sections: the models of a program that was run
unchanged, and AOTAutograd's functions with their graphs, their groups and the
tensors that a partition keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fusiondoc.model import count, multiple
from fusiondoc.model.aot import (
    AotFunction,
    AotGraph,
    AotValue,
    FusedModules,
    Partition,
)
from fusiondoc.model.report import Report
from fusiondoc.model.script_models import ScriptModel, ScriptRun
from fusiondoc.rendering.blocks import (
    Block,
    Column,
    Heading,
    Item,
    Items,
    Row,
    Section,
    Sentences,
    Table,
)
from fusiondoc.rendering.units import PAGE, size
from fusiondoc.rendering.values import Bytes, Count, IdLinks, Text, Tone
from fusiondoc.views.formatting import near

_MOST_FUNCTIONS = 100
_MOST_VALUES = 48
"""Most tensors of a partition; the JSON report has all."""
_VALUES_ON_A_TERMINAL = 12

_GRAPHS = (
    Column("graph"),
    Column("operators", number=True),
    Column("in groups", number=True),
    Column("groups", optional=True),
    Column("not in groups", wide=True),
)
_TENSORS = (
    Column("tensor"),
    Column("operator"),
    Column("type", wide=True),
    Column("bytes", number=True),
    Column("line", wide=True),
)


def aot(report: Report) -> Section:
    """Section of the functions that were passed to AOTAutograd, and of the modules
    that call it by themselves."""
    blocks: list[Block] = [
        Sentences(tuple(map(_module_line, report.fused_modules)))
    ]
    functions = []
    for one in report.aot:
        if not (_is_compiled(one, report) and one.partition is None):
            functions.append(one)
    for function in functions[:_MOST_FUNCTIONS]:
        blocks.append(Heading(f"{function.id}  {_headline(function)}", function.id))
        if not _is_compiled(function, report):
            blocks.append(_graphs(function))
        partition = _partition(function)
        blocks.append(Sentences((partition,) if partition is not None else ()))
        blocks += [_tensors(function), Sentences(_remarks(function), Tone.DIM)]
    more = len(functions) - _MOST_FUNCTIONS
    if more > 0:
        blocks.append(
            Sentences((f"... {more} more: --format json has all",), Tone.DIM)
        )
    return Section("aot", "AOTAutograd", blocks=tuple(blocks))


def _is_compiled(function: AotFunction, report: Report) -> bool:
    """True if its graphs are those of torch.compile, which the report shows with
    their kernels."""
    return report.compiled is not None and function.how == "torch.compile"


def _headline(function: AotFunction) -> str:
    """Return ``fn: memory_efficient_fusion in m.py:7, called 5 times, compiled
    once``."""
    where = f" in {near(function.user_source)}" if function.user_source else ""
    lines = [f"{function.name}: {function.how}{where}"]
    if function.processes > 1:
        lines.append(f"used by {function.processes} processes, in one of them")
    if function.wraps is not None and function.wraps > 1:
        lines.append(f"wrapped {_times(function.wraps)}")
    if function.calls is not None:
        lines.append(f"called {_times(function.calls)}")
    lines.append(f"compiled {_times(function.compiles)}")
    return ", ".join(lines)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _graphs(function: AotFunction) -> Table:
    """Table of the joint, forward and backward graph: how many operators are in
    groups, and why the others are not."""
    return Table(
        _GRAPHS,
        tuple(map(_graph, function.graphs)),
        caption=f"Graphs of {function.id}",
    )


def _graph(graph: AotGraph) -> Row:
    fused, others = Count(graph.fused), ", ".join(_outside(graph))
    if graph.phase == "joint":
        return Row(
            (
                Text("joint"),
                Count(graph.operators),
                Text(""),
                Text(""),
                Text("is split into the two below"),
            )
        )
    if graph.source is None:
        fused, others = Count(0), "did not become TorchScript"
    groups = IdLinks(graph.groups if graph.source is not None else ())
    return Row(
        (Text(graph.phase), Count(graph.operators), fused, groups, Text(others))
    )


def _outside(graph: AotGraph) -> list[str]:
    """Return ``aten::sort x2 (FD201)``: operators of a graph that are in no
    group."""
    reasons = Counter(
        (node.op or "", node.reason)
        for node in graph.nodes
        if node.reason is not None and node.group is None
    )
    others = []
    for (op, code), n in reasons.most_common(6):
        others.append(f"{op}{multiple(n)} ({code})")
    silent = graph.operators - graph.fused - sum(reasons.values())
    if silent > 0:
        others.append(f"{count(silent, 'operator')} that no plan in the log has")
    return others


def _partition(function: AotFunction) -> str | None:
    """``min_cut_rematerialization_partition keeps 1 tensor (64 KB) for the backward
    pass ...``."""
    made, default = function.partition, function.default
    if made is None:
        return None
    text = f"{made.name} keeps {_kept(made)} for the backward pass"
    if made.recomputed:
        again = count(len(made.recomputed), "result")
        text += f", which computes {again} again ({PAGE.known(made.recomputed_bytes, size)})"
    if default is not None and default != made:
        text += f"; the default partition would keep {_kept(default)}"
    return text


def _kept(made: Partition) -> str:
    inputs = ""
    if made.saved_inputs:
        inputs = f" and {count(len(made.saved_inputs), 'input')}"
    return f"{count(len(made.saved), 'tensor')} ({PAGE.known(made.saved_bytes, size)}){inputs}"


def _tensors(function: AotFunction) -> Table:
    """Table of the tensors of the partition, and of those that only the default
    partition would keep."""
    made = function.partition
    if made is None:
        return Table(_TENSORS, ())
    rows = _of_fate("kept", made.saved) + _of_fate("again", made.recomputed)
    names = {value.name for value in made.saved}
    if function.default is not None:
        rows += _of_fate(
            "by default", [v for v in function.default.saved if v.name not in names]
        )
    shown = tuple(rows[:_MOST_VALUES])
    return Table(
        _TENSORS,
        shown,
        caption=f"Tensors of the partition of {function.id}",
        left_out=len(rows) - len(shown),
        on_terminal=_VALUES_ON_A_TERMINAL,
    )


def _of_fate(fate: str, values: Sequence[AotValue]) -> list[Row]:
    """Rows of tensors that are kept for the backward pass, computed again in it, or
    kept by the default partition."""
    rows = []
    for v in values:
        rows.append(
            Row(
                (
                    Text(fate),
                    Text(v.op or ""),
                    Text(v.type or ""),
                    Bytes(v.bytes),
                    Text(near(v.user_source or "")),
                )
            )
        )
    return rows


def _remarks(function: AotFunction) -> tuple[str, ...]:
    """Return remarks on several shapes, writes in place, shared memory and a
    failure; empty if there are none of them."""
    lines = []
    if len(function.shapes) > 1:
        more = "; ..." if len(function.shapes) > 3 else ""
        lines.append(
            f"{len(function.shapes):,} kinds of arguments: {'; '.join(function.shapes[:3])}{more}"
        )
    if function.changed:
        lines.append(f"changes in place: {', '.join(function.changed)}")
    if function.shared:
        lines.append(f"shares memory: {', '.join(function.shared)}")
    if function.failure:
        lines.append(function.failure)
    return tuple(lines)


def _module_line(module: FusedModules) -> str:
    """``NVFusedBiasActivationDropout (act): 5 calls, 0 to AOTAutograd: its tensor
    is not on a GPU``."""
    layers = ""
    if module.layers:
        layers = f" ({', '.join(module.layers[:3])}{', ...' if len(module.layers) > 3 else ''})"
    text = f"{module.kind}{layers}: {count(module.calls, 'call')}, {module.fused:,} of them through AOTAutograd"
    if module.wraps:
        text += f", wrapped {'anew in each' if module.wraps >= module.fused > 1 else _times(module.wraps)}"
    return text + (
        f"; else its plain operators: {'; '.join(module.eager)}"
        if module.eager
        else ""
    )


_MOST_MODELS = 20


def _model_line(model: ScriptModel) -> str:
    """``Block x2: scripted in train.py:32, groups G1, G3; 4 operators outside``."""
    number = multiple(model.count)
    where = f" in {near(model.at)}" if model.at else ""
    if model.groups:
        listed = ", ".join(model.groups[:6]) + (
            f" and {len(model.groups) - 6} more" if len(model.groups) > 6 else ""
        )
        became = f"group{'s' * (len(model.groups) > 1)} {listed}"
    elif model.planned is False:
        became = "no plan was made of it: it was never called, or too few times"
    else:
        became = "no group"
    outside = ""
    if model.operators_outside:
        outside = f"; {count(model.operators_outside, 'operator')} outside"
    return f"{model.name}{number}: {model.how}{where}, {became}{outside}"


def script(report: Report) -> Section:
    """Section of the models that an unchanged program gave to TorchScript, and of
    its steps; empty for another run."""
    run = report.script
    if run is None or not run.reached:
        return Section("script", "What the program ran")
    more = len(run.models) - _MOST_MODELS
    made = [_model_line(one) for one in run.models[:_MOST_MODELS]]
    if more > 0:
        made.append(f"... {more} more models: --format json has all")
    made += filter(None, (_rest(report, run),))
    return Section(
        "script",
        "What the program ran",
        blocks=(Items(tuple(Item((), line) for line in made)),),
    )


def _scripts_graphs(report: Report, run: ScriptRun) -> bool:
    """True if the backend of torch.compile makes TorchScript: from graphs of
    AOTAutograd, or if there are groups and no model that they could belong to."""
    graphs = (
        graph
        for one in report.aot
        if one.how == "torch.compile"
        for graph in one.graphs
    )
    return any(graph.source is not None for graph in graphs) or bool(
        report.groups and not run.models
    )


def _rest(report: Report, run: ScriptRun) -> str | None:
    lines = []
    if run.steps:
        lines.append(f"{count(run.steps, 'step')} ({run.step_by})")
    if run.compiled_graphs:
        made = f"torch.compile made {count(run.compiled_graphs, 'graph')}"
        if _scripts_graphs(report, run):
            lines.append(made)
        else:
            lines.append(f"{made}, which the fusers of TorchScript do not see")
    return "; ".join(lines) or None
