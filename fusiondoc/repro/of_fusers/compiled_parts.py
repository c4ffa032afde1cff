"""The choice of a part of a run of torch.compile for a script: a boundary, a kernel
or a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from fusiondoc.diagnosis.of_fusers.inductor_boundaries import GraphBoundaries
from fusiondoc.diagnosis.of_fusers.inductor_graphs import ComputingNode
from fusiondoc.diagnosis.of_fusers.inductor_report import CompiledRows
from fusiondoc.diagnosis.of_fusers.inductor_rows import ReportedGraph
from fusiondoc.errors import UsageError
from fusiondoc.fusers.inductor.compilation import Compilation
from fusiondoc.model import count, dataclass
from fusiondoc.model.boundaries import Boundary, BoundaryEnd
from fusiondoc.model.report import Report
from fusiondoc.repro import UNKNOWN_SIZE
from fusiondoc.repro.of_fusers.compiled_cut import CannotCut, CompiledPart, part_of
from fusiondoc.repro.of_fusers.compiled_script import script_of
from fusiondoc.repro.permitted import one_line
from fusiondoc.repro.write import refuse_existing, write_file

MOST_LISTED = 50
_SHOWN_OPS = 6


class PartLine(NamedTuple):
    """A part in the list of ``fusiondoc repro``."""

    option: str
    """``--boundary 1``, ``--group G1``, ``--kernel K1``."""
    what: str


@dataclass(frozen=True)
class Wanted:
    """The user's choice of a part; one of the three is set."""

    boundary: int | None = None
    kernel: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class _Chosen:
    graph: ReportedGraph
    nodes: list[ComputingNode]
    title: str
    name: str


class CompiledParts:
    """The parts of a run.

    Args:
        shown: the user's name for the log or capture.
    """

    def __init__(
        self, report: Report, compilation: Compilation, shown: str
    ) -> None:
        self._shown = shown
        without = replace(
            report,
            groups=(),
            unfused=(),
            kernels=(),
            programs=(),
            boundaries=(),
            compiled=None,
        )
        self._rows = CompiledRows(without, compilation, ())
        self._compiled = self._rows.report(None)

    def listed(self) -> Iterator[PartLine]:
        """Boundaries, most bytes first, groups and kernels."""
        for number, boundary in enumerate(
            self._compiled.boundaries[:MOST_LISTED], 1
        ):
            moved = ""
            if boundary.bytes is not None:
                moved = f", {boundary.bytes:,} bytes"
            yield PartLine(f"--boundary {number}", _ends(boundary) + moved)
        for group in self._compiled.groups[:MOST_LISTED]:
            names = [op.rpartition("::")[2] for op in group.ops]
            shown = ", ".join(names[:_SHOWN_OPS]) + (
                ", ..." if len(names) > _SHOWN_OPS else ""
            )
            yield PartLine(
                f"--group {group.id}", f"{count(len(names), 'operator')}: {shown}"
            )
        for kernel in self._compiled.kernels[:MOST_LISTED]:
            yield PartLine(f"--kernel {kernel.id}", one_line(kernel.name))

    def write(
        self, wanted: Wanted, output: Path | None, force: bool
    ) -> Iterator[str]:
        """Write the script of a part. Yields lines for the user.

        Raises: UsageError: there is no such part, or the log lacks facts that a
            script needs.
        """
        chosen = self._chosen(wanted)
        path = output if output is not None else Path(f"repro_{chosen.name}.py")
        refuse_existing(path, force)
        try:
            part = part_of(chosen.graph.found, chosen.nodes)
        except CannotCut as lacking:
            raise UsageError(
                f"{self._shown} does not show {lacking}, of graph {chosen.graph.graph.compile_id or '?'}",
                "Record it again with TORCH_LOGS=post_grad_graphs or TORCH_TRACE, or run: fusiondoc diagnose"
                " TARGET --fuser inductor --no-run",
            ) from None
        command = f"fusiondoc diagnose {path.name} --fuser inductor --no-run"
        write_file(path, script_of(part, chosen.title, command))
        yield from _notes(part)
        yield f"wrote {path}; see it compiled: {command.replace(path.name, str(path))}"

    # -- which ----------------------------------------------------------------------------------------------

    def _chosen(self, wanted: Wanted) -> _Chosen:
        if wanted.boundary is not None:
            return self._of_boundary(wanted.boundary)
        if wanted.kernel is not None:
            return self._of_kernel(wanted.kernel)
        return self._of_group(wanted.group or "")

    def _of_boundary(self, number: int) -> _Chosen:
        there = self._compiled.boundaries
        if not 1 <= number <= len(there):
            raise self._none(
                f"there is no boundary {number}: there are {len(there)}"
            )
        boundary = there[number - 1]
        for graph in self._rows.graphs:
            nodes = GraphBoundaries(graph.found, graph.end).nodes_at(boundary)
            if nodes:
                cause = boundary.cause
                why = ""
                if cause is not None:
                    why = f": {cause.code} {one_line(cause.text)}"
                title = f"The boundary {_ends(boundary)} of {self._shown}{why}."
                return _Chosen(graph, nodes, title, f"boundary_{number}")
        raise self._none(f"the nodes of boundary {number} are not found again")

    def _of_kernel(self, name: str) -> _Chosen:
        known = []
        for kernel in self._compiled.kernels:
            if name in (kernel.id, kernel.name):
                known.append(kernel)
        for graph in self._rows.graphs:
            for kernel in known:
                nodes = []
                for node in graph.found.nodes:
                    if node.final.kernel == kernel.name:
                        nodes.append(node)
                if nodes and graph.kernels.get(kernel.name) == kernel.id:
                    title = f"Kernel {kernel.id} ({one_line(kernel.name)}) of {self._shown}."
                    return _Chosen(graph, nodes, title, kernel.id)
        raise self._none(f"there is no kernel '{one_line(name)}'")

    def _of_group(self, name: str) -> _Chosen:
        for graph in self._rows.graphs:
            for index, id_ in graph.groups.items():
                if id_.lower() == name.lower():
                    return _Chosen(
                        graph,
                        [graph.found.nodes[index]],
                        f"Group {id_} of {self._shown}.",
                        id_,
                    )
        raise self._none(f"there is no group '{one_line(name)}'")

    def _none(self, what: str) -> UsageError:
        return UsageError(
            f"{what} in {self._shown}",
            f"fusiondoc repro {self._shown} lists what there is.",
        )


def _ends(boundary: Boundary) -> str:
    return one_line(
        f"{_end(boundary.producer)} -> {_end(boundary.consumer)}, {boundary.kind}"
    )


def _end(end: BoundaryEnd) -> str:
    return end.group or end.op


def _notes(part: CompiledPart) -> Iterator[str]:
    for symbol in part.chosen:
        yield f"note: the log does not contain the number that {symbol} stands for: {UNKNOWN_SIZE} was chosen"
    for one in part.inputs:
        if one.dtype is not None and not one.dtype.startswith(("float", "bfloat")):
            yield f"note: {one.name} ({one.dtype}) is zeros: a log has no values"
