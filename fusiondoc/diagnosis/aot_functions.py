"""Makes the report's rows on AOTAutograd from its records: partitions, and the
group of each operator.

A partition saves the tensors that the forward graph returns beyond the function's
own results (``_extract_fwd_bwd_modules`` of torch/_functorch/partitioners.py in 2.0
to 2.13, of functorch/_src/partitioners.py in functorch 0.2 and torch 1.13).

Also the rows on a program that ran unchanged: the groups of each of its models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fusiondoc.captures.frontend_records import (
    AotRecords,
    PartitionDone,
    Scripted,
    SiteFound,
    TracedGraph,
    TracedNode,
)
from fusiondoc.captures.process_records import (
    RanInstead,
    ScriptedModel,
    ScriptRecords,
    StepsTaken,
)
from fusiondoc.model.aot import AotFunction, AotGraph, AotNode, AotValue, Partition
from fusiondoc.model.report import Report
from fusiondoc.model.script_models import ScriptModel, ScriptRun
from fusiondoc.model.source import Source
from fusiondoc.numbers import in_natural_order, whole_number
from fusiondoc.operators import VIEWS

DEFAULT = "default_partition"

_MOST_SHOWN = 2_000
"""Nodes of a graph in a report, at most."""


class Fate(NamedTuple):
    """The group of a TorchScript node, or the code of the reason why it is in
    none."""

    group: str | None
    reason: str | None


_NO_FATE = Fate(None, None)


def aot_functions(records: AotRecords, report: Report) -> tuple[AotFunction, ...]:
    """Return a row for each call site that hands functions to AOTAutograd, in
    order."""
    fates = _fates(report)
    functions = []
    for index, site in enumerate(records.sites, 1):
        functions.append(_function(index, site, records, fates))
    return tuple(functions)


def _fates(report: Report) -> Mapping[tuple[str, int], Fate]:
    """Map file and line, as TorchScript names them, to the fate of their operators.
    A line with any operator in a group counts as fused."""
    found: dict[tuple[str, int], Fate] = {}
    for row in report.unfused:
        source = Source.parse(row.source)
        if source is not None:
            found.setdefault(
                (source.file, source.line), Fate(None, row.reason.code)
            )
    for group in reversed(report.groups):
        for node in group.nodes:
            source = Source.parse(node.source)
            if source is not None:
                found[source.file, source.line] = Fate(group.id, None)
    return found


_PHASES = ("joint", "forward", "backward")


class _SiteRecords:
    """The records of one call site that hands a function to AOTAutograd."""

    def __init__(self, site: SiteFound, records: AotRecords) -> None:
        own = [record for record in records.partitions if record.site == site.site]
        self.partition = own[0] if own else None
        number = self.partition.number if self.partition is not None else 1
        self.number = number
        """The number of the compilation that is shown: the first that was
        partitioned."""
        self.traced: dict[str, TracedGraph] = {}
        """Phase -> its graph."""
        for graph in records.graphs:
            if (graph.site, graph.number) == (site.site, number):
                self.traced[graph.phase] = graph
        self.scripted = []
        for record in records.scripted:
            if record.site == site.site:
                self.scripted.append(record)
        used = [record for record in records.used if record.site == site.site]
        self.used = used[-1] if used else None
        failed = [record for record in records.failed if record.site == site.site]
        self.failed = failed[0] if failed else None

    def graphs(self, fates: Mapping[tuple[str, int], Fate]) -> Iterable[AotGraph]:
        for phase in _PHASES:
            if phase in self.traced:
                scripted = []
                for record in self.scripted:
                    if record.phase == phase:
                        scripted.append(record)
                yield _graph(self.traced[phase], scripted, self.number, fates)

    def default_partition(self) -> Partition | None:
        """Return the partition that torch's default partition function would make;
        None if not recorded."""
        joint = self.traced.get("joint")
        if (
            joint is None
            or self.partition is None
            or self.partition.default_saved is None
        ):
            return None
        return _partition(DEFAULT, joint, self.partition.default_saved, ())


def _function(
    index: int,
    site: SiteFound,
    records: AotRecords,
    fates: Mapping[tuple[str, int], Fate],
) -> AotFunction:
    own = _SiteRecords(site, records)
    failed, changed = own.failed, _changed(own.traced)
    partition = None
    if own.partition is not None:
        partition = _actual(own.partition, own.traced)
    failure = None
    if failed:
        failure = f"{failed.type} in {failed.stage}: {failed.message}"
    made = AotFunction(
        id=f"A{index}",
        name=site.name,
        how=site.how,
        user_source=site.at,
        wraps=None,
        calls=None,
        compiles=len({record.number for record in own.scripted}),
        shapes=(),
        graphs=tuple(own.graphs(fates)),
        partition=partition,
        default=own.default_partition(),
        changed=tuple(dict.fromkeys(changed)),
        shared=(),
        fixed_sizes=_fixed_sizes(own.traced),
        failure=failure,
        processes=1,
    )
    used = own.used
    if used is None:
        return made
    return replace(
        made,
        wraps=used.wraps,
        calls=used.calls,
        compiles=used.compiles,
        shapes=used.shapes,
        changed=tuple(dict.fromkeys((*used.changed, *changed))),
        shared=used.shared,
        processes=used.processes,
    )


def _graph(
    graph: TracedGraph,
    scripted: Sequence[Scripted],
    number: int,
    fates: Mapping[tuple[str, int], Fate],
) -> AotGraph:
    """Return the graph of a phase, with the groups from all TorchScript files that
    it was compiled to: each compilation writes a new file."""
    of_node = _fates_of_nodes(scripted, fates)
    nodes = []
    for node in graph.nodes:
        if node.kind != "output":
            nodes.append(_node(node, of_node.get(node.name, _NO_FATE)))
    operators = [node for node in nodes if is_operator(node.op)]
    files = []
    for record in scripted:
        if record.number == number:
            files.append(record.file)
    return AotGraph(
        phase=graph.phase,
        source=files[0] if files else None,
        operators=len(operators),
        fused=sum(node.group is not None for node in operators),
        groups=tuple(
            sorted(
                {node.group for node in operators if node.group},
                key=in_natural_order,
            )
        ),
        nodes=tuple(nodes[:_MOST_SHOWN]),
        cut=max(0, graph.total - len(graph.nodes))
        + max(0, len(nodes) - _MOST_SHOWN),
    )


def _fates_of_nodes(
    scripted: Sequence[Scripted], fates: Mapping[tuple[str, int], Fate]
) -> Mapping[str, Fate]:
    """Map the name of a node to its group in any of the TorchScript files, else to
    the reason in the first of them."""
    found: dict[str, Fate] = {}
    for record in reversed(scripted):
        for name, line in record.lines.items():
            fate = fates.get((record.file, line))
            if fate is not None and (fate.group is not None or name not in found):
                found[name] = fate
    return found


def _node(node: TracedNode, fate: Fate) -> AotNode:
    inputs = tuple(filter(None, node.inputs))
    return AotNode(
        node.name,
        node.op,
        node.at,
        node.type,
        node.bytes,
        inputs,
        fate.group,
        fate.reason,
    )


def is_operator(op: str | None) -> bool:
    """True if a node computes: it is no input and no ``getitem`` of an operator's
    results."""
    return op is not None and op.rpartition("::")[2] != "getitem"


def _actual(
    partition: PartitionDone, traced: Mapping[str, TracedGraph]
) -> Partition | None:
    """Return the partition that the partition function made."""
    forward, backward = traced.get("forward"), traced.get("backward")
    if forward is None or backward is None:
        return None
    saved = _results(forward)[partition.forward_outputs :]
    again = set()
    for node in backward.nodes:
        if is_operator(node.op):
            again.add(node.name)
    twice = []
    for node in forward.nodes:
        if is_operator(node.op) and node.name in again:
            twice.append(node)
    return _partition(partition.name, forward, saved, twice)


def _partition(
    name: str, graph: TracedGraph, saved: Iterable[str], twice: Iterable[TracedNode]
) -> Partition:
    """Return a partition of a graph.

    Args:
        saved: names of the tensors that are kept for the backward pass.
        twice: the operators that the backward pass computes once more.
    """
    nodes = {node.name: node for node in graph.nodes}
    kept, inputs = [], []
    held: set[str] = set()
    for node in [nodes[name] for name in dict.fromkeys(saved) if name in nodes]:
        if node.kind == "placeholder":
            inputs.append(_value(node, node.bytes))
            continue
        base = _base(node, nodes)
        free = nodes[base].kind == "placeholder" or base in held
        held.add(base)
        kept.append(_value(node, 0 if free else nodes[base].bytes))
    again = tuple(_value(node, node.bytes) for node in twice)
    return Partition(
        name,
        tuple(kept),
        sum(value.bytes or 0 for value in kept),
        tuple(inputs),
        again,
        sum(value.bytes or 0 for value in again if value.op not in VIEWS),
    )


def _base(node: TracedNode, nodes: Mapping[str, TracedNode]) -> str:
    """Return the name of the node whose memory a view shares; its own name for
    others."""
    while node.op in VIEWS and node.inputs and node.inputs[0] in nodes:
        node = nodes[node.inputs[0]]
    return node.name


def _value(node: TracedNode, size: int | None) -> AotValue:
    return AotValue(node.name, node.op, node.at, node.type, size)


def _results(graph: TracedGraph) -> tuple[str, ...]:
    for node in reversed(graph.nodes):
        if node.kind == "output":
            return node.inputs
    return ()


def _changed(traced: Mapping[str, TracedGraph]) -> list[str]:
    """Return the inputs that operators of the forward graph change in place, where
    AOTAutograd left these operators in the graph."""
    forward = traced.get("forward")
    if forward is None:
        return []
    numbers = {}
    for number, node in enumerate(_placeholders(forward), 1):
        numbers[node.name] = number
    found = []
    for node in forward.nodes:
        in_place = node.op is not None and node.op.endswith("_")
        if in_place and node.inputs and node.inputs[0] in numbers:
            found.append(f"argument {numbers[node.inputs[0]]}")
    return found


def _placeholders(graph: TracedGraph) -> list[TracedNode]:
    return [node for node in graph.nodes if node.kind == "placeholder"]


def _fixed_sizes(traced: Mapping[str, TracedGraph]) -> tuple[str, ...]:
    """Return the operators that have a size of an input in their arguments, such as
    ``view(x, [64, 128])``."""
    sizes: set[int] = set()
    for graph in traced.values():
        for node in _placeholders(graph):
            for text in (node.type or "").partition("[")[2].rstrip("]").split(","):
                size = whole_number(text)
                if size is not None and size > 1:
                    sizes.add(size)
    found = []
    for phase in ("forward", "backward"):
        if phase in traced:
            for node in traced[phase].nodes:
                if sizes & set(node.sizes):
                    found.append(node.name)
    return tuple(dict.fromkeys(found))


def script_run(
    records: ScriptRecords, report: Report, reached: bool
) -> ScriptRun | None:
    """Return the models and steps of the program; None if nothing was recorded.

    Args:
        reached: the log has a plan or a profile.
    """
    if records.instead is None:
        return None
    steps, instead = records.steps or StepsTaken(), records.instead or RanInstead()
    only = len(records.models) == 1
    return ScriptRun(
        models=tuple(_model(model, report, only) for model in records.models),
        steps=steps.count,
        step_by=steps.by,
        compiled_frames=instead.frames,
        compiled_graphs=instead.graphs,
        inductor_kernels=instead.kernels,
        reached=reached,
    )


def _model(model: ScriptedModel, report: Report, only: bool) -> ScriptModel:
    """Return a model of the program.

    Args:
        only: the program has no other model, so all rows belong to this one.
    """
    prefix = model.name.replace(".", "_")

    def is_in(layer: str | None) -> bool:
        return only or (
            layer is not None
            and (layer == prefix or layer.startswith(prefix + "."))
        )

    groups = []
    for group in report.groups:
        written = not all(_of_graph(node.source) for node in group.nodes)
        if written and any(is_in(instance.layer) for instance in group.instances):
            groups.append(group.id)
    outside = 0
    for row in report.unfused:
        if not only:
            outside += sum(
                count
                for layer, count in zip(row.layers, row.layer_counts)
                if is_in(layer)
            )
        elif not _of_graph(row.source):
            outside += row.count
    return ScriptModel(
        model.name,
        model.how,
        model.at,
        model.count,
        model.planned,
        tuple(groups),
        outside,
    )


def _of_graph(source: str | None) -> bool:
    """True if an operator is from a graph that torch made: code of AOTAutograd or
    torch.compile (torch/fx/graph_module.py, ``_EvalCacheLoader``)."""
    return source is not None and source.startswith("<eval_with_key>")
