"""Makes the rows of a report from torch.compile's work: groups, operators outside,
kernels, programs.

A group is a final node of Inductor's scheduler, as fusion happens there. On a GPU
it is a kernel; on a CPU a generated function holds the loops of several groups,
which are not fused with each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fusiondoc.diagnosis.of_fusers.inductor_across_graphs import across_graphs
from fusiondoc.diagnosis.of_fusers.inductor_boundaries import (
    GraphBoundaries,
    merged,
)
from fusiondoc.diagnosis.of_fusers.inductor_graphs import (
    ComputingNode,
    FinalGraph,
    Role,
)
from fusiondoc.diagnosis.of_fusers.inductor_rows import (
    CallKey,
    FinalNodeKey,
    Member,
    ReportedGraph,
    call_key,
    edges_of,
    group_key,
    layer_of,
    moved_by,
    name_of,
    reason_of,
    source_of,
    total,
    types_of,
    with_specialisations,
)
from fusiondoc.diagnosis.of_fusers.inductor_section import compiled_section
from fusiondoc.diagnosis.rules import compiled_coverage
from fusiondoc.fusers import DYNAMO
from fusiondoc.fusers.inductor.compilation import Compilation, GeneratedKernel, Line
from fusiondoc.model.code_kinds import Loss
from fusiondoc.model.codes import CODES
from fusiondoc.model.report import (
    Evidence,
    Group,
    Instance,
    Kernel,
    OpNode,
    Program,
    ProgramNode,
    Report,
    Unfused,
)
from fusiondoc.model.runs import FuserState

_SCHEDULERS: Mapping[str, str] = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
}
"""The third part of a Triton kernel's name -> its meaning
(torch/_inductor/codegen/triton.py)."""

_TRITON_NAME = re.compile(r"triton_(\w{3})_")


def inductor_report(
    report: Report,
    compilation: Compilation,
    requested: str | None,
    files: Sequence[str] = (),
) -> Report:
    """Return the report with Inductor's rows after the existing rows.

    Args:
        requested: the requested fuser.
        files: names of the logs, by the numbers in the lines of the compilation.
    """
    if (
        not compilation.graphs
        and not compilation.breaks
        and not compilation.recompiles
    ):
        return report
    return CompiledRows(report, compilation, files).report(requested)


class CompiledRows:
    """The rows of all graphs, while they are made."""

    def __init__(
        self, report: Report, compilation: Compilation, files: Sequence[str]
    ) -> None:
        self._report = report
        self._compilation = compilation
        self._files = files
        self.graphs = with_specialisations(
            [
                FinalGraph(graph, compilation.fallbacks)
                for graph in compilation.graphs
            ]
        )

    def report(self, requested: str | None) -> Report:
        """Return the report with all rows."""
        before = self._report
        alone = not before.groups and not before.unfused
        groups = self._groups(len(before.groups))
        unfused = self._unfused(len(before.unfused))
        kernels = self._kernels(len(before.kernels))
        groups = [self._with_kernels(group, kernels) for group in groups]
        boundaries = merged(
            [GraphBoundaries(graph.found, graph.end) for graph in self.graphs],
            (
                *before.boundaries,
                *across_graphs(self.graphs, self._compilation.crossings),
            ),
        )
        made = replace(
            before,
            groups=(*before.groups, *groups),
            unfused=(*before.unfused, *unfused),
            kernels=(*before.kernels, *kernels),
            programs=(*before.programs, *self._programs(len(before.programs))),
            boundaries=boundaries.rows,
            boundaries_left_out=boundaries.left_out,
            compiled=compiled_section(self.graphs, self._compilation),
        )
        torch = self._compilation.torch
        if torch is not None and not made.environment.get("torch"):
            made = replace(made, environment={**made.environment, "torch": torch})
        if not alone:
            return made
        ran = None if self._compilation.cache_hits else True
        return replace(
            made,
            fuser=FuserState(requested, DYNAMO.fuser, ran, before.fuser.why),
            frontend=DYNAMO.name,
            coverage=compiled_coverage(made),
        )

    # -- groups ---------------------------------------------------------------------------------------------

    def _groups(self, before: int) -> list[Group]:
        rows: dict[FinalNodeKey, list[Member]] = {}
        for graph in self.graphs:
            for node in graph.found.nodes:
                if node.role is Role.GROUP:
                    rows.setdefault(group_key(graph, node), []).append(
                        (graph, node)
                    )
        order = sorted(
            rows, key=lambda key: (key.specialisation, key.phase == "backward")
        )
        first: dict[
            tuple[str, str | None, int | None, tuple[OpNode, ...]], str
        ] = {}
        groups = []
        for number, key in enumerate(order, before + 1):
            for graph, node in rows[key]:
                graph.groups[node.index] = f"G{number}"
            alike = (key.kind, key.phase, key.rank, key.nodes)
            respecialises = first.get(alike) if key.specialisation > 1 else None
            first.setdefault(alike, f"G{number}")
            groups.append(self._group(f"G{number}", key, rows[key], respecialises))
        return groups

    def _group(
        self,
        id_: str,
        key: FinalNodeKey,
        members: Sequence[Member],
        respecialises: str | None,
    ) -> Group:
        runs = [graph.graph.runs for graph, _ in members]
        lines: list[tuple[int, int]] = []
        for _, node in members:
            lines.extend(node.final.lines)
        instances = []
        for graph, node in members:
            instances.append(Instance(layer_of(node), (), graph.graph.runs))
        return Group(
            id=id_,
            kind=key.kind,
            name=name_of(members[0]),
            phase=key.phase,
            specialisation=key.specialisation,
            respecialises=respecialises,
            nodes=key.nodes,
            inputs=key.inputs,
            outputs=key.outputs,
            runs=total(runs),
            kernels=(),
            bytes_in=key.moved[0],
            bytes_out=key.moved[1],
            fallback=False,
            rank=key.rank,
            evidence=self._evidence(lines),
            instances=tuple(instances),
        )

    def _with_kernels(self, group: Group, kernels: Sequence[Kernel]) -> Group:
        """Return the group with the kernels of each of its instances."""
        of_instances: list[tuple[str, ...]] = []
        for graph in self.graphs:
            for index, id_ in graph.groups.items():
                if id_ == group.id:
                    name = graph.found.nodes[index].final.kernel
                    known = graph.kernels.get(name or "")
                    of_instances.append((known,) if known is not None else ())
        ids = tuple(kernel.id for kernel in kernels if group.id in kernel.groups)
        instances = []
        for one, of in zip(group.instances, of_instances):
            instances.append(replace(one, kernels=of))
        return replace(group, kernels=ids, instances=tuple(instances))

    # -- operators outside ----------------------------------------------------------------------------------

    def _unfused(self, before: int) -> list[Unfused]:
        rows: dict[CallKey, list[Member]] = {}
        for graph in self.graphs:
            for node in graph.found.nodes:
                if node.role is Role.CALL:
                    rows.setdefault(call_key(graph, node), []).append((graph, node))
        made = []
        for index, (key, members) in enumerate(rows.items(), before):
            for graph, node in members:
                graph.rows[node.index] = index
            made.append(self._row(index, key, members))
        return made

    def _row(self, index: int, key: CallKey, members: Sequence[Member]) -> Unfused:
        layers = [layer_of(node) for _, node in members]
        known = list(dict.fromkeys(layer for layer in layers if layer is not None))
        written = total([node.final.write_bytes for _, node in members])
        is_lost = CODES[key.reason.code].loss is not Loss.NONE
        return Unfused(
            op=key.op,
            source=None,
            user_source=key.user_source,
            phase=key.phase,
            count=len(members),
            reason=key.reason,
            evidence=self._evidence(
                [line for _, node in members for line in node.final.lines]
            ),
            rank=key.rank,
            ran=True,
            bytes_moved=2 * written if written is not None and is_lost else None,
            layers=tuple(known),
            layer_counts=tuple(layers.count(layer) for layer in known),
            index=index,
        )

    # -- kernels --------------------------------------------------------------------------------------------

    def _kernels(self, before: int) -> list[Kernel]:
        """Return the kernels of each graph; a kernel that several nodes call is
        listed once."""
        kernels: list[Kernel] = []
        for graph in self.graphs:
            for kernel in graph.graph.kernels:
                if kernel.name in graph.kernels:
                    continue
                id_ = f"K{before + len(kernels) + 1}"
                graph.kernels[kernel.name] = id_
                kernels.append(self._kernel(id_, kernel, graph))
        return kernels

    def _kernel(
        self, id_: str, kernel: GeneratedKernel, graph: ReportedGraph
    ) -> Kernel:
        nodes = []
        for node in graph.found.nodes:
            if node.final.kernel == kernel.name:
                nodes.append(node)
        groups: dict[str, None] = {}
        for node in nodes:
            if node.index in graph.groups:
                groups[graph.groups[node.index]] = None
        runs = graph.graph.runs
        moved = [moved_by(node) for node in nodes]
        found = _TRITON_NAME.match(kernel.name)
        if moved and len(set(moved)) == 1:
            bytes_moved = moved[0]
        else:
            bytes_moved = total(moved)
        return Kernel(
            id=id_,
            name=kernel.name,
            groups=tuple(groups),
            launches=kernel.calls * runs if runs is not None else None,
            block=None,
            grid=None,
            smem_bytes=None,
            ms=None,
            gb_per_s=None,
            peak_fraction=None,
            registers=kernel.registers,
            spill_bytes=kernel.spill_bytes,
            code=kernel.code,
            evidence=self._evidence(
                [kernel.line] if kernel.line is not None else []
            ),
            rank=graph.graph.rank,
            scheduler=_SCHEDULERS.get(found[1]) if found is not None else None,
            bytes_moved=bytes_moved,
        )

    # -- programs -------------------------------------------------------------------------------------------

    def _programs(self, before: int) -> Iterator[Program]:
        for number, graph in enumerate(
            (one for one in self.graphs if one.found.nodes), before + 1
        ):
            positions: dict[int, int] = {}
            nodes: list[ProgramNode] = []
            for node in graph.found.nodes:
                if node.role is not Role.PASSES_ON:
                    positions[node.index] = len(nodes)
                    nodes.append(self._program_node(graph, node))
            rank = graph.graph.rank
            edges = []
            for writer, reader in edges_of(graph.found):
                edges.append((positions[writer], positions[reader]))
            yield Program(
                id=f"P{number}",
                phase=graph.graph.phase,
                specialisation=graph.specialisation,
                iteration=None,
                ranks=(rank,) if rank is not None else (),
                nodes=tuple(nodes),
                edges=tuple(edges),
            )

    def _program_node(
        self, graph: ReportedGraph, node: ComputingNode
    ) -> ProgramNode:
        end = graph.end(node)
        reason = reason_of(graph.found, node) if node.role is Role.CALL else None
        return ProgramNode(
            kind="group" if node.role is Role.GROUP else "operator",
            op=end.op,
            source=None,
            user_source=source_of(node),
            inputs=types_of(
                graph.found, [access.buffer for access in node.final.reads]
            ),
            outputs=types_of(
                graph.found, [access.buffer for access in node.final.writes]
            ),
            group=end.group,
            reason=reason.code if reason is not None else None,
            inside=None,
            condition=None,
            program=None,
            evidence=self._evidence(node.final.lines),
            reason_text=reason.text if reason is not None else None,
            rows=(end.row,) if end.row is not None else (),
        )

    def _evidence(self, lines: Sequence[Line]) -> tuple[Evidence, ...]:
        evidence = []
        for file, line in dict.fromkeys(lines):
            if 0 <= file < len(self._files):
                evidence.append(Evidence(self._files[file], line))
        return tuple(evidence)
