"""From what was recorded of AOTAutograd to the report: partitions, and which group each operator is in.

Which tensors a partition saves is what the forward graph returns beyond the function's own results
(``_extract_fwd_bwd_modules`` of torch/_functorch/partitioners.py in 2.0 to 2.13, of
functorch/_src/partitioners.py in functorch 0.2 and torch 1.13).

From what was recorded of a program that ran as it is to the report: which groups are in which of its
models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fusiondoc.captures.frontend_records import (
    AotRecords,
    PartitionDone,
    Scripted,
    SiteFound,
    TracedGraph,
    TracedNode,
)
from fusiondoc.captures.process_records import RanInstead, ScriptedModel, ScriptRecords, StepsTaken
from fusiondoc.model.other_frontends import (
    AotFunction,
    AotGraph,
    AotNode,
    AotValue,
    FusedModules,
    Partition,
    ScriptModel,
    ScriptRun,
)
from fusiondoc.model.report import Report
from fusiondoc.model.source import Source
from fusiondoc.numbers import in_natural_order, whole_number
from fusiondoc.operators import VIEWS

DEFAULT = "default_partition"

_MOST_SHOWN = 2_000
"""Nodes of a graph in a report."""


class Fate(NamedTuple):
    """Where a node of TorchScript's went: the group, or the code of the reason."""

    group: str | None
    reason: str | None


def aot_functions(records: AotRecords, report: Report) -> tuple[AotFunction, ...]:
    """A row for each place that hands functions to AOTAutograd, in order."""
    fates = _fates(report)
    return tuple(_function(index, site, records, fates) for index, site in enumerate(records.sites, 1))


def fused_modules(records: AotRecords) -> tuple[FusedModules, ...]:
    """The modules that fuse themselves, as the report has them."""
    return tuple(
        FusedModules(one.kind, one.layers, one.calls, one.fused, one.wraps, one.eager)
        for one in records.modules
    )


def _fates(report: Report) -> Mapping[tuple[str, int], Fate]:
    """By file and line, as TorchScript names them. A line that a group has is fused, whatever else came of
    it."""
    found: dict[tuple[str, int], Fate] = {}
    for row in report.unfused:
        place = Source.parse(row.source)
        if place is not None:
            found.setdefault((place.file, place.line), Fate(None, row.reason.code))
    for group in reversed(report.groups):
        for node in group.nodes:
            place = Source.parse(node.source)
            if place is not None:
                found[place.file, place.line] = Fate(group.id, None)
    return found


def _function(
    index: int, site: SiteFound, records: AotRecords, fates: Mapping[tuple[str, int], Fate]
) -> AotFunction:
    parted = next((one for one in records.partitions if one.site == site.site), None)
    number = parted.number if parted is not None else 1
    traced = {one.phase: one for one in records.graphs if (one.site, one.number) == (site.site, number)}
    scripted = [one for one in records.scripted if one.site == site.site]
    used = next((one for one in reversed(records.used) if one.site == site.site), None)
    failed = next((one for one in records.failed if one.site == site.site), None)
    joint, told = traced.get("joint"), parted.default_saved if parted is not None else None
    return AotFunction(
        id=f"A{index}",
        name=site.name,
        how=site.how,
        user_source=site.at,
        wraps=used.wraps if used is not None else None,
        calls=used.calls if used is not None else None,
        compiles=used.compiles if used is not None else len({one.number for one in scripted}),
        shapes=used.shapes if used is not None else (),
        graphs=tuple(
            _graph(traced[phase], [one for one in scripted if one.phase == phase], number, fates)
            for phase in ("joint", "forward", "backward")
            if phase in traced
        ),
        partition=_actual(parted, traced) if parted is not None else None,
        default=_partition(DEFAULT, joint, told, ()) if joint is not None and told is not None else None,
        changed=tuple(dict.fromkeys((*(used.changed if used is not None else ()), *_changed(traced)))),
        shared=used.shared if used is not None else (),
        fixed_sizes=_fixed_sizes(traced),
        failure=f"{failed.type} when asked to {failed.stage}: {failed.message}"
        if failed is not None
        else None,
        processes=used.processes if used is not None else 1,
    )


def _graph(
    graph: TracedGraph, scripted: Sequence[Scripted], number: int, fates: Mapping[tuple[str, int], Fate]
) -> AotGraph:
    """With the groups of every TorchScript that this graph became: compiled again it is another file."""
    fate: dict[str, Fate] = {}
    for one in reversed(scripted):
        for name, line in one.lines.items():
            known = fates.get((one.file, line))
            if known is not None and (known.group is not None or name not in fate):
                fate[name] = known
    nodes = [
        AotNode(
            one.name,
            one.op,
            one.at,
            one.type,
            one.bytes,
            tuple(filter(None, one.inputs)),
            fate[one.name].group if one.name in fate else None,
            fate[one.name].reason if one.name in fate else None,
        )
        for one in graph.nodes
        if one.kind != "output"
    ]
    operators = [node for node in nodes if is_operator(node.op)]
    own = next((one.file for one in scripted if one.number == number), None)
    return AotGraph(
        phase=graph.phase,
        source=own,
        operators=len(operators),
        fused=sum(node.group is not None for node in operators),
        groups=tuple(sorted({node.group for node in operators if node.group}, key=in_natural_order)),
        nodes=tuple(nodes[:_MOST_SHOWN]),
        cut=max(0, graph.total - len(graph.nodes)) + max(0, len(nodes) - _MOST_SHOWN),
    )


def is_operator(op: str | None) -> bool:
    """Whether a node computes: no input, and no part of an operator's results."""
    return op is not None and op.rpartition("::")[2] != "getitem"


def _actual(parted: PartitionDone, traced: Mapping[str, TracedGraph]) -> Partition | None:
    """What the partition function made."""
    forward, backward = traced.get("forward"), traced.get("backward")
    if forward is None or backward is None:
        return None
    saved = _results(forward)[parted.forward_outputs :]
    again = {one.name for one in backward.nodes if is_operator(one.op)}
    twice = [one for one in forward.nodes if is_operator(one.op) and one.name in again]
    return _partition(parted.name, forward, saved, twice)


def _partition(name: str, graph: TracedGraph, saved: Iterable[str], twice: Iterable[TracedNode]) -> Partition:
    nodes = {one.name: one for one in graph.nodes}
    kept, inputs = [], []
    held: set[str] = set()
    for one in (nodes[name] for name in dict.fromkeys(saved) if name in nodes):
        base = _base(one, nodes)
        if one.kind == "placeholder":
            inputs.append(_value(one, one.bytes))
            continue
        free = nodes[base].kind == "placeholder" or base in held
        held.add(base)
        kept.append(_value(one, 0 if free else nodes[base].bytes))
    again = tuple(_value(one, one.bytes) for one in twice)
    return Partition(
        name,
        tuple(kept),
        sum(one.bytes or 0 for one in kept),
        tuple(inputs),
        again,
        sum(one.bytes or 0 for one in again if one.op not in VIEWS),
    )


def _base(node: TracedNode, nodes: Mapping[str, TracedNode]) -> str:
    """The node whose memory it is."""
    while node.op in VIEWS and node.inputs and node.inputs[0] in nodes:
        node = nodes[node.inputs[0]]
    return node.name


def _value(node: TracedNode, size: int | None) -> AotValue:
    return AotValue(node.name, node.op, node.at, node.type, size)


def _results(graph: TracedGraph) -> tuple[str, ...]:
    return next((one.inputs for one in reversed(graph.nodes) if one.kind == "output"), ())


def _changed(traced: Mapping[str, TracedGraph]) -> list[str]:
    """Inputs that operators of the forward graph change, where AOTAutograd left these in it."""
    forward = traced.get("forward")
    if forward is None:
        return []
    inputs = {one.name: n for n, one in enumerate(_placeholders(forward), 1)}
    return [
        f"argument {inputs[one.inputs[0]]}"
        for one in forward.nodes
        if one.op is not None and one.op.endswith("_") and one.inputs and one.inputs[0] in inputs
    ]


def _placeholders(graph: TracedGraph) -> list[TracedNode]:
    return [one for one in graph.nodes if one.kind == "placeholder"]


def _fixed_sizes(traced: Mapping[str, TracedGraph]) -> tuple[str, ...]:
    """Operators that hold a size of an input in their arguments, such as ``view(x, [64, 128])``."""
    sizes: set[int] = set()
    for graph in traced.values():
        for one in _placeholders(graph):
            for text in (one.type or "").partition("[")[2].rstrip("]").split(","):
                size = whole_number(text)
                if size is not None and size > 1:
                    sizes.add(size)
    found = []
    for phase in ("forward", "backward"):
        if phase in traced:
            found += [one.name for one in traced[phase].nodes if sizes & set(one.sizes)]
    return tuple(dict.fromkeys(found))


def script_run(records: ScriptRecords, report: Report, reached: bool) -> ScriptRun | None:
    """What the program did; None where nothing was recorded.

    Args:
        reached: the log tells of a plan or a profile.
    """
    if records.instead is None:
        return None
    steps, instead = records.steps or StepsTaken(), records.instead or RanInstead()
    only = len(records.models) == 1
    return ScriptRun(
        models=tuple(_model(one, report, only) for one in records.models),
        steps=steps.count,
        step_by=steps.by,
        compiled_frames=instead.frames,
        compiled_graphs=instead.graphs,
        inductor_kernels=instead.kernels,
        reached=reached,
    )


def _model(told: ScriptedModel, report: Report, only: bool) -> ScriptModel:
    prefix = told.name.replace(".", "_")

    def is_in(layer: str | None) -> bool:
        return only or (layer is not None and (layer == prefix or layer.startswith(prefix + ".")))

    groups = [
        group.id
        for group in report.groups
        if any(is_in(one.layer) for one in group.instances)
        and not all(_of_graph(node.source) for node in group.nodes)
    ]
    outside = 0
    for row in report.unfused:
        if only:
            outside += 0 if _of_graph(row.source) else row.count
        else:
            outside += sum(count for layer, count in zip(row.layers, row.layer_counts) if is_in(layer))
    return ScriptModel(told.name, told.how, told.at, told.count, told.planned, tuple(groups), outside)


def _of_graph(source: str | None) -> bool:
    """Whether an operator is of a graph that torch made: code of AOTAutograd or torch.compile
    (torch/fx/graph_module.py, ``_EvalCacheLoader``)."""
    return source is not None and source.startswith("<eval_with_key>")
