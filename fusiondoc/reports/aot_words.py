"""What AOTAutograd did with a function, in words and rows, for the terminal and the page.

What a program that ran as it is reached, in words.
"""

from __future__ import annotations

from collections import Counter
from typing import Sequence

from fusiondoc.model.beside_torchscript import AotFunction, AotGraph, AotValue, FusedModules, Partition
from fusiondoc.model.numbers import count
from fusiondoc.model.quick_dataclass import dataclass
from fusiondoc.model.report import Report
from fusiondoc.model.runs import ScriptModel, ScriptRun
from fusiondoc.reports.source_code import near
from fusiondoc.reports.wording import size

MOST_VALUES = 12
"""Tensors of a partition that are shown; the JSON report has all."""


@dataclass(frozen=True)
class Side:
    """A graph: how many of its operators are in TorchScript groups, and why the others are not."""

    phase: str
    operators: int
    fused: str
    groups: tuple[str, ...]
    others: str


@dataclass(frozen=True)
class Kept:
    """A tensor of a partition. ``fate``: "kept", "again" (computed in both) or "by default" (kept there)."""

    fate: str
    op: str
    name: str
    type: str
    bytes: str
    line: str


def headline(one: AotFunction) -> str:
    """``fn: memory_efficient_fusion in m.py:7, called 5 times, compiled once``."""
    where = f" in {near(one.user_source)}" if one.user_source else ""
    said = [f"{one.name}: {one.how}{where}"]
    if one.processes > 1:
        said.append(f"used by {one.processes} processes, in one of them")
    if one.wraps is not None and one.wraps > 1:
        said.append(f"wrapped {_times(one.wraps)}")
    if one.calls is not None:
        said.append(f"called {_times(one.calls)}")
    said.append(f"compiled {_times(one.compiles)}")
    return ", ".join(said)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def sides(one: AotFunction) -> tuple[Side, ...]:
    """The joint, forward and backward graph."""
    return tuple(_side(graph) for graph in one.graphs)


def _side(graph: AotGraph) -> Side:
    if graph.phase == "joint":
        return Side(graph.phase, graph.operators, "", (), "is parted into the two below")
    if graph.source is None:
        return Side(graph.phase, graph.operators, "0", (), "did not become TorchScript")
    reasons = Counter(
        (node.op or "", node.reason) for node in graph.nodes if node.reason is not None and node.group is None
    )
    others = [f"{op}{f' x{n}' if n > 1 else ''} ({code})" for (op, code), n in reasons.most_common(6)]
    silent = graph.operators - graph.fused - sum(reasons.values())
    if silent > 0:
        others.append(f"{count(silent, 'operator')} that no plan in the log has")
    return Side(graph.phase, graph.operators, f"{graph.fused:,}", graph.groups, ", ".join(others))


def partition(one: AotFunction) -> str | None:
    """``min_cut_rematerialization_partition keeps 1 tensor (64 KB) for the backward pass ...``."""
    made, default = one.partition, one.default
    if made is None:
        return None
    text = f"{made.name} keeps {_kept(made)} for the backward pass"
    if made.recomputed:
        again = count(len(made.recomputed), "result")
        text += f", which computes {again} again ({size(made.recomputed_bytes)})"
    if default is not None and default != made:
        text += f"; the default partition would keep {_kept(default)}"
    return text


def _kept(made: Partition) -> str:
    inputs = f" and {count(len(made.saved_inputs), 'input')}" if made.saved_inputs else ""
    return f"{count(len(made.saved), 'tensor')} ({size(made.saved_bytes)}){inputs}"


def kept(one: AotFunction) -> tuple[Kept, ...]:
    """The tensors of the partition, and those that only the default one would keep."""
    if one.partition is None:
        return ()
    rows = _rows("kept", one.partition.saved) + _rows("again", one.partition.recomputed)
    names = {value.name for value in one.partition.saved}
    if one.default is not None:
        rows += _rows("by default", [v for v in one.default.saved if v.name not in names])
    return tuple(rows)


def _rows(fate: str, values: Sequence[AotValue]) -> list[Kept]:
    return [
        Kept(fate, one.op or "", one.name, one.type or "", size(one.bytes), near(one.user_source or ""))
        for one in values
    ]


def remarks(one: AotFunction) -> tuple[str, ...]:
    """Shapes and shared memory, where there is something to say."""
    said = []
    if len(one.shapes) > 1:
        more = "; ..." if len(one.shapes) > 3 else ""
        said.append(f"{len(one.shapes)} kinds of arguments: {'; '.join(one.shapes[:3])}{more}")
    if one.changed:
        said.append(f"changes in place: {', '.join(one.changed)}")
    if one.shared:
        said.append(f"shares memory: {', '.join(one.shared)}")
    if one.failure:
        said.append(one.failure)
    return tuple(said)


def module_line(one: FusedModules) -> str:
    """``NVFusedBiasActivationDropout (act): 5 calls, 0 to AOTAutograd: its tensor is not on a GPU``."""
    layers = f" ({', '.join(one.layers[:3])}{', ...' if len(one.layers) > 3 else ''})" if one.layers else ""
    text = f"{one.kind}{layers}: {count(one.calls, 'call')}, {one.fused:,} of them through AOTAutograd"
    if one.wraps:
        text += f", wrapped {'anew in each' if one.wraps >= one.fused > 1 else _times(one.wraps)}"
    return text + (f"; else its plain operators: {'; '.join(one.eager)}" if one.eager else "")


_MOST_MODELS = 20


def _model_line(one: ScriptModel) -> str:
    """``Block x2: scripted in train.py:32, groups G1, G3; 4 operators outside``."""
    times = f" x{one.count}" if one.count > 1 else ""
    where = f" in {near(one.at)}" if one.at else ""
    if one.groups:
        listed = ", ".join(one.groups[:6]) + (
            f" and {len(one.groups) - 6} more" if len(one.groups) > 6 else ""
        )
        became = f"group{'s' * (len(one.groups) > 1)} {listed}"
    elif one.planned is False:
        became = "no plan was made of it: it was never called, or too few times"
    else:
        became = "no group"
    outside = f"; {count(one.operators_outside, 'operator')} outside" if one.operators_outside else ""
    return f"{one.name}{times}: {one.how}{where}, {became}{outside}"


def script_lines(report: Report) -> list[str]:
    """A line for each model, and one for the rest; none of a run that was no program's."""
    run = report.script
    if run is None or not run.reached:
        return []
    more = len(run.models) - _MOST_MODELS
    made = [_model_line(one) for one in run.models[:_MOST_MODELS]]
    made += [f"... {more} more models: --format json has all"] if more > 0 else []
    return made + list(filter(None, (_rest(report, run),)))


def _scripts_graphs(report: Report, run: ScriptRun) -> bool:
    """The backend of torch.compile makes TorchScript: of graphs of AOTAutograd, or there are groups and no
    model that they could be of."""
    told = (graph for one in report.aot if one.how == "torch.compile" for graph in one.graphs)
    return any(graph.source is not None for graph in told) or bool(report.groups and not run.models)


def _rest(report: Report, run: ScriptRun) -> str | None:
    said = []
    if run.steps:
        said.append(f"{count(run.steps, 'step')} ({run.step_by})")
    if run.compiled_graphs:
        made = f"torch.compile made {count(run.compiled_graphs, 'graph')}"
        said.append(made if _scripts_graphs(report, run) else f"{made}, which no fuser of TorchScript sees")
    return "; ".join(said) or None
