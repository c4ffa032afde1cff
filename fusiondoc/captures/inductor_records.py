"""The records of the probe on Inductor (probe/inductor_watch.py): the same facts as
a ``Compilation``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.fusers.inductor.break_texts import break_of_text
from fusiondoc.fusers.inductor.compilation import (
    Access,
    Buffer,
    Compilation,
    CompilationPart,
    CompiledGraph,
    Crossing,
    FinalKind,
    FinalNode,
    GeneratedKernel,
    GraphBreak,
    GraphOperator,
    Refusal,
)
from fusiondoc.fusers.inductor.live_facts import with_live
from fusiondoc.fusers.inductor.node_kinds import MULTI_OUTPUT, call_kind, final_kind
from fusiondoc.model import dataclass, field


@dataclass(frozen=True)
class CallRecord:
    """The callee of a call: the class of its IR, ``aten.sort.stable``,
    ``extern_kernels.addmm``."""

    ir_class: str
    overload: str | None = None
    function: str | None = None
    on_purpose: bool | None = None


@dataclass(frozen=True)
class FinalRecord:
    """A node of the scheduler's final list."""

    name: str
    scheduler_class: str
    members: tuple[str, ...] = ()
    template: bool = False
    operators: tuple[str, ...] = ()
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    after: tuple[str, ...] = ()
    read_bytes: int | None = None
    write_bytes: int | None = None
    kernel: str | None = None
    call: CallRecord | None = None
    sizes: str | None = None
    device: str | None = None

    def as_node(self) -> FinalNode:
        kind = final_kind(self.scheduler_class, self.template)
        call = None
        if self.call is not None and self.call.ir_class == MULTI_OUTPUT:
            kind = FinalKind.NOTHING
        elif self.call is not None:
            call = call_kind(
                self.call.ir_class, self.call.overload, self.call.on_purpose
            )
        return FinalNode(
            name=self.name,
            members=self.members,
            kind=kind,
            scheduler_class=self.scheduler_class,
            operators=self.operators,
            reads=self.reads,
            writes=self.writes,
            after=self.after,
            read_bytes=self.read_bytes,
            write_bytes=self.write_bytes,
            kernel=self.kernel if self.call is None else self.call.function,
            call=call,
            sizes=self.sizes,
            device=self.device,
        )


@dataclass(frozen=True)
class KernelRecord:
    """A kernel, with the number of its calls in the graph."""

    name: str
    calls: int = 1

    def as_kernel(self) -> GeneratedKernel:
        kind, _, _ = self.name.partition("_")
        return GeneratedKernel(self.name, kind, calls=self.calls)


@dataclass(frozen=True)
class GraphRecord:
    """A graph that Inductor compiled, or failed to compile."""

    compile_id: str | None
    order: int
    graph_number: int | None = None
    backward: bool = False
    inference: bool | None = None
    operators: tuple[GraphOperator, ...] = ()
    final: tuple[FinalRecord, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refusals_left_out: int = 0
    outputs: tuple[str, ...] = ()
    failed: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def as_graph(self) -> CompiledGraph:
        holds = {CompilationPart.GRAPH, CompilationPart.LAYERS}
        if self.failed is None:
            holds.add(CompilationPart.DECISIONS)
        return CompiledGraph(
            compile_id=self.compile_id,
            phase="backward" if self.backward else "forward",
            order=self.order,
            graph_number=self.graph_number,
            inference=self.inference,
            holds=frozenset(holds),
            operators=self.operators,
            final=tuple(node.as_node() for node in self.final),
            kernels=tuple(kernel.as_kernel() for kernel in self.kernels),
            buffers=self.buffers,
            refusals=self.refusals,
            refusals_left_out=self.refusals_left_out,
            outputs=self.outputs,
            failed=self.failed,
            bytes_accessed=self._bytes_accessed(),
            seconds=tuple(self.seconds.items()),
        )

    def _bytes_accessed(self) -> int | None:
        """Bytes accessed by all final nodes, as torch counts ``num_bytes_accessed``
        (``GraphLowering.count_bytes``)."""
        moved: list[int | None] = []
        for node in self.final:
            moved.extend((node.read_bytes, node.write_bytes))
        known = [size for size in moved if size is not None]
        return sum(known) if known and len(known) == len(moved) else None


@dataclass(frozen=True)
class BreakRecord:
    """A graph break: torch's text, and the position in the program."""

    text: str
    source: str | None = None
    function: str | None = None


@dataclass(frozen=True)
class HookFailed:
    """A hook that this torch does not have, or that failed: the facts that it
    records are missing."""

    hook: str
    error: str


@dataclass(frozen=True)
class Totals:
    """Totals at the end of a run."""

    torch: str | None = None
    graphs: int = 0
    hook_seconds: float | None = None
    """Seconds spent in the hooks."""
    counters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The content of ``torch._dynamo.utils.counters``."""


@dataclass(frozen=True)
class InductorRecords:
    """All records on Inductor."""

    graphs: tuple[GraphRecord, ...] = ()
    breaks: tuple[BreakRecord, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    failed_hooks: tuple[HookFailed, ...] = ()
    totals: Totals | None = None

    def with_log(self, read: Compilation | None) -> Compilation | None:
        """Return these records merged with the facts from the log of the run."""
        if self.graphs:
            return with_live(read, self._as_compilation())
        return read

    def _as_compilation(self) -> Compilation:
        """The facts of the records, in the order in which the graphs were
        compiled."""
        return Compilation(
            graphs=tuple(graph.as_graph() for graph in self.graphs),
            breaks=_counted(self.breaks),
            crossings=self.crossings,
            torch=self.totals.torch if self.totals is not None else None,
        )


def read_inductor(records: RawRecords) -> InductorRecords:
    """The records on Inductor."""
    return InductorRecords(
        records.read_all("inductor_graph", GraphRecord),
        records.read_all("inductor_break", BreakRecord),
        records.read_all("inductor_crossing", Crossing),
        records.read_all("inductor_hook", HookFailed),
        records.read_merged("inductor_totals", Totals),
    )


def _counted(records: Sequence[BreakRecord]) -> tuple[GraphBreak, ...]:
    """Each break once, with the number of its occurrences."""
    counts = Counter(records)
    breaks = []
    for record, count in counts.items():
        breaks.append(
            replace(
                break_of_text(record.text),
                source=record.source,
                function=record.function,
                count=count,
            )
        )
    return tuple(breaks)
