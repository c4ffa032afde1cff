"""The records of the probe on AOTAutograd and te.ops (probe/aot_records.py,
te_plans.py): one frozen dataclass for each kind of record."""

from __future__ import annotations

from collections.abc import Mapping

from fusiondoc.captures.raw_records import RawRecords
from fusiondoc.fusers.te import TE
from fusiondoc.fusers.te.records import BasicOperator, RecordedPlan
from fusiondoc.model import dataclass, field
from fusiondoc.model.aot import FusedModules


@dataclass(frozen=True)
class TracedNode:
    """A node of an FX graph; ``inputs`` are names, "" for a value that is no
    node."""

    name: str
    kind: str
    """placeholder, call_function, get_attr, output ... (torch/fx/node.py)."""
    op: str | None = None
    type: str | None = None
    bytes: int | None = None
    at: str | None = None
    """``file:line`` of the user's program."""
    inputs: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    """Sizes that are fixed in its arguments."""


@dataclass(frozen=True)
class TracedGraph:
    """A graph of compilation ``number`` (from 1) of a site. ``phase``: joint,
    forward, backward."""

    site: int
    number: int
    phase: str
    nodes: tuple[TracedNode, ...] = ()
    total: int = 0


@dataclass(frozen=True)
class PartitionDone:
    """A joint graph has been partitioned. ``forward_outputs``: how many results of
    the joint graph, and of the forward graph, are results of the function; the
    forward graph's others are saved. ``default_saved``: the values that torch's
    default partition of the same graph saves."""

    site: int
    number: int
    name: str
    forward_outputs: int
    default_saved: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Scripted:
    """A graph that became TorchScript; its code is named ``file`` there.

    ``lines`` has the line of each node in it.
    """

    site: int
    number: int
    phase: str
    file: str
    lines: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GraphLines:
    """A graph of torch.compile that a backend scripted or traced directly; its code
    is named ``file`` there: the user's line for lines of that code."""

    file: str
    at: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteFound:
    """A call site that wraps a function."""

    site: int
    name: str
    how: str
    at: str | None = None


@dataclass(frozen=True)
class SiteUsed:
    """The use of a call site by the end of the run."""

    site: int
    wraps: int
    calls: int | None = None
    compiles: int = 0
    failures: int = 0
    shapes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    processes: int = 1
    """Number of processes that used it; the figures are from one of them."""

    @property
    def is_used(self) -> bool:
        return bool(self.calls or self.compiles)


@dataclass(frozen=True)
class SiteFailed:
    """The first error of a call site."""

    site: int
    stage: str
    type: str
    message: str


@dataclass(frozen=True)
class GraphBreaks:
    """Graphs of torch.compile, and the reasons of graph breaks."""

    graphs: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class AotRecords:
    """All records of AOTAutograd."""

    sites: tuple[SiteFound, ...] = ()
    graphs: tuple[TracedGraph, ...] = ()
    partitions: tuple[PartitionDone, ...] = ()
    scripted: tuple[Scripted, ...] = ()
    used: tuple[SiteUsed, ...] = ()
    failed: tuple[SiteFailed, ...] = ()
    breaks: GraphBreaks = GraphBreaks()
    plain: tuple[GraphLines, ...] = ()
    modules: tuple[FusedModules, ...] = ()

    @property
    def phases(self) -> dict[str, str]:
        """File of TorchScript's code -> the phase that it belongs to."""
        phases = {graph.file: "forward" for graph in self.plain}
        phases.update((graph.file, graph.phase) for graph in self.scripted)
        return phases

    @property
    def source_map(self) -> dict[str, tuple[str, ...]]:
        """``|file:line`` of scripted graphs to the user's lines, as ``user_source``
        looks them up."""
        sources: dict[str, tuple[str, ...]] = {}
        for plain in self.plain:
            sources.update(
                (f"|{plain.file}:{line}", (at,)) for line, at in plain.at.items()
            )
        graphs = {}
        for traced in self.graphs:
            graphs[(traced.site, traced.number, traced.phase)] = traced
        for code in self.scripted:
            graph = graphs.get((code.site, code.number, code.phase)) or graphs.get(
                (code.site, 1, code.phase)
            )
            for node in graph.nodes if graph is not None else ():
                line = code.lines.get(node.name)
                if line is not None and node.at is not None:
                    sources[f"|{code.file}:{line}"] = (node.at,)
        return sources


def read_aot(records: RawRecords) -> AotRecords:
    """The records of AOTAutograd of one process."""
    read = records.read_all
    breaks = read("aot_breaks", GraphBreaks)
    return AotRecords(
        sites=read("aot_site", SiteFound),
        graphs=read("aot_graph", TracedGraph),
        partitions=read("aot_partition", PartitionDone),
        scripted=read("aot_scripted", Scripted),
        used=read("aot_used", SiteUsed),
        failed=read("aot_failed", SiteFailed),
        plain=read("graph_lines", GraphLines),
        breaks=breaks[-1] if breaks else GraphBreaks(),
        modules=read("fused_module", FusedModules),
    )


@dataclass(frozen=True)
class FusionFunction:
    """A fusion function that the fuser calls: from the package, or registered by
    the program."""

    name: str
    module: str = ""

    @property
    def own(self) -> bool:
        return not self.module.startswith(f"{TE.module}.")


@dataclass(frozen=True)
class Package:
    """``fusions``: the functions of each pass in their order (2.13 and later)."""

    version: str | None = None
    fusions: Mapping[str, tuple[FusionFunction, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Pipeline:
    """The basic operators of a fuser."""

    fuser: int
    operators: tuple[BasicOperator, ...] = ()


@dataclass(frozen=True)
class SequencePart:
    """A part of a sequence: a fuser, or a module that the fuser does not take."""

    fuser: int | None = None
    kind: str | None = None
    path: str | None = None
    module: str = ""
    """The Python module of its class."""


@dataclass(frozen=True)
class Sequence:
    """``path``: empty if it is no part of a known model."""

    path: str = ""
    parts: tuple[SequencePart, ...] = ()
    source: str | None = None
    """The line that makes it."""


@dataclass(frozen=True)
class OperatorLaunch:
    """A kernel, copy ("gpu_memcpy") or fill ("gpu_memset") of one call of an
    operator."""

    name: str
    kind: str = "kernel"
    us: float = 0.0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int | None = None


@dataclass(frozen=True)
class ProfiledOperator:
    """``us``: minimum, median and maximum of the GPU time of everything that one
    call launches."""

    fuser: int
    phase: str
    entry: int
    """Index in ``forward`` or ``backward`` of the plan."""
    plan: int = 0
    calls: int = 0
    us: tuple[float, ...] = ()
    kernels: tuple[OperatorLaunch, ...] = ()

    @property
    def kernels_of_a_call(self) -> int:
        """Number of kernels in one call, without copies and fills."""
        return sum(kernel.kind == "kernel" for kernel in self.kernels)


@dataclass(frozen=True)
class Profile:
    """A profiled pass. ``fused``: with the planned fusions, else without any."""

    fused: bool
    training: bool
    recipe: str | None = None
    kernels: float | None = None
    """Number of kernels of a pass."""
    us: float | None = None
    """Microseconds on the GPU of a pass."""
    entries: tuple[ProfiledOperator, ...] = ()


@dataclass(frozen=True)
class TeRecords:
    """``calls``: how often each plan was used."""

    package: Package = Package()
    pipelines: tuple[Pipeline, ...] = ()
    plans: tuple[RecordedPlan, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    profiles: tuple[Profile, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)


def read_te(records: RawRecords) -> TeRecords:
    """The records of te.ops."""
    packages = records.read_all("te_package", Package)
    calls: dict[str, int] = {}
    for record in records.all_of("te_calls"):
        by_plan = record.get("calls")
        if isinstance(by_plan, dict):
            for plan, count in by_plan.items():
                if type(count) is int:
                    calls[str(plan)] = count
    return TeRecords(
        packages[-1] if packages else Package(),
        records.read_all("te_fuser", Pipeline),
        records.read_all("te_plan", RecordedPlan),
        records.read_all("te_sequence", Sequence),
        records.read_all("te_profile", Profile),
        calls,
    )
