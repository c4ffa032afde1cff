"""Facts about torch.compile's work on a program: the graphs that Inductor compiled,
the kernels and calls in each, the fusions it refused, and the graph breaks.

Readers of logs, traces and generated code, and the records of the probe, each fill
in the facts that they have. None, and a part that is not in
``CompiledGraph.holds``, mean "not seen", never "not there". Names of nodes are
those of the graph after the post-grad passes (``add_1``), names of scheduler nodes
those of ``torch/_inductor/scheduler.py`` (``op3``; ``buf3`` until 2.4), names of
buffers those of the generated code (``buf4``, ``primals_1``, ``arg0_1``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusiondoc.fusers.inductor.kinds import CallKind

Line = tuple[int, int]
"""Index of a log in the order in which they were given, and a line in it, from
1."""


class CompilationPart(Enum):
    """The kinds of facts about a compiled graph; a source may lack any of them."""

    GRAPH = "graph"
    """The graph after the post-grad passes: ``CompiledGraph.operators``."""
    DECISIONS = "decisions"
    """Fusions that were tried and refused: ``refusals``, and the names of the final
    nodes."""
    CODE = "code"
    """The generated code: kernels, calls, buffers with their bytes."""
    LAYERS = "layers"
    """Modules of operators: only from a live run."""


@dataclass(frozen=True)
class GraphOperator:
    """A node of the graph after the post-grad passes."""

    name: str
    op: str
    """The torch.fx opcode: ``call_function``, ``placeholder``, ``get_attr``,
    ``output``."""
    target: str
    """``aten.add.Tensor``; ``lab.twice.default`` of a custom operator;
    ``getitem``."""
    inputs: tuple[str, ...]
    """Names of the nodes that it reads, without duplicates, in order of its
    arguments."""
    type: str | None = None
    """The type of its result as torch prints it: ``f32[64, 128]``, ``f32[s77, 8][8,
    1]cuda:0``."""
    source: str | None = None
    """``file:line`` of the innermost line of the user's program."""
    function: str | None = None
    layer: str | None = None
    """Module path: ``encoder.0.norm``."""
    from_: str | None = None
    """The operator of the program that was decomposed into this one:
    ``aten.native_layer_norm.default``."""
    arguments: str | None = None
    """The arguments as Python: ``gt, add``; ``mul_1, [2], correction = 0``."""
    line: Line | None = None


@dataclass(frozen=True)
class Buffer:
    """A tensor in memory that kernels and calls read and write."""

    name: str
    type: str | None
    """``f32[64, 128]``."""
    bytes: int | None
    """Bytes of its distinct elements; symbolic sizes by their hints. None if the
    size is not known."""
    part_of: str | None = None
    """The buffer whose memory this one is a view of: data written to this one is
    read there."""


@dataclass(frozen=True)
class GeneratedKernel:
    """A kernel of the generated code: a Triton kernel, or a C++ function, which
    holds the loops of several final nodes."""

    name: str
    kind: str
    """``triton``, ``cpp``, ``template``, ``foreach``, ``multi`` ..."""
    code: str | None = None
    calls: int = 1
    """How often a run of the graph calls it."""
    config: tuple[tuple[str, str], ...] = ()
    """The chosen configuration: (("XBLOCK", "128"), ("num_warps", "4"))."""
    registers: int | None = None
    spill_bytes: int | None = None
    line: Line | None = None


class FinalKind(Enum):
    """Kinds of nodes in the scheduler's final list."""

    LOOPS = "loops"
    """One loop nest, fused or not: SchedulerNode, FusedSchedulerNode."""
    OUTER_LOOP = "outer loop"
    """Several inner loops under an outer one: OuterLoopFusedSchedulerNode (C++
    alone)."""
    TEMPLATE = "template"
    """A template of a matrix product or a convolution, with the operators fused
    into it."""
    FOREACH = "foreach"
    """ForeachKernelSchedulerNode and combo kernels."""
    MIXED_ORDER = "mixed order"
    """FusedMixOrderReductions."""
    CALL = "call"
    """ExternKernelSchedulerNode: a call of a library, a fallback, a custom
    operator."""
    NOTHING = "nothing"
    """NopKernelSchedulerNode, MultiOutput: it computes nothing."""
    OTHER = "other"
    """A class that this version does not know; ``FinalNode.scheduler_class`` has
    it."""


@dataclass(frozen=True)
class Access:
    """A read or write of a buffer by a final node."""

    buffer: str
    bytes: int | None = None
    """Least number of bytes that it moves, if not the whole buffer."""
    index: str | None = None
    """Its index expression with the sizes: ``128*d0 + d1, (32, 128)``."""


@dataclass(frozen=True)
class FinalNode:
    """A node of the scheduler's final list, that is, after fusion. In execution
    order."""

    name: str
    """``op0_op1``."""
    members: tuple[str, ...]
    """``("op0", "op1")``."""
    kind: FinalKind
    scheduler_class: str | None
    """``FusedSchedulerNode``."""
    operators: tuple[str, ...]
    """Names of the graph's nodes that it computes. A cheap one can be computed by
    several final nodes."""
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    after: tuple[str, ...] = ()
    """Buffers that it does not read, but whose nodes must run before it because it
    changes a tensor in place."""
    read_bytes: int | None = None
    """Bytes that it must read, by Inductor's count or by the generated code."""
    write_bytes: int | None = None
    kernel: str | None = None
    """Name of the kernel or C++ function that contains it; for a call the called
    function: ``extern_kernels.addmm``."""
    call: CallKind | None = None
    """For a call: why it is none of Inductor's kernels."""
    call_is_stated: bool = False
    """True if torch itself printed it: ``Using FallbackKernel:
    torch.ops.aten.sort.stable``."""
    sizes: str | None = None
    """Sizes of its loops in the scheduler's form: ``((4096,), ())``."""
    stack_sources: tuple[str, ...] = ()
    """``file:line`` of the program's lines, if the source does not name its nodes
    of the graph."""
    device: str | None = None
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """An attempt in which the scheduler refused to fuse two of its nodes."""

    first: str
    second: str
    """Names of the scheduler's nodes in that round: ``op0_op1``."""
    text: str | None
    """torch's text; None: it refused without a text (only a live run can see
    that)."""
    round: int
    last_round: bool
    line: Line | None = None
    by_benchmark: bool = False
    why_not_shared: tuple[tuple[str, str], ...] = ()
    """For "no shared data": buffer -> why, from
    ``Scheduler.decide_fusion_fail_reason`` (only from a live run)."""


@dataclass(frozen=True)
class CompiledGraph:
    """A graph that Inductor compiled, or the facts about it from one source."""

    compile_id: str | None
    """``0/0``: frame and recompile; ``0/0_1`` after a restart of the analysis;
    ``!1/0/0`` under compiled autograd."""
    phase: str | None
    """"forward" (inference included), "backward", or None if no source states
    it."""
    order: int
    """Position among the graphs of one compile id, by when they were compiled, from
    0."""
    graph_number: int | None = None
    """Inductor's number of the graph (``AOT ID: ['0_forward']``)."""
    inference: bool | None = None
    rank: int | None = None
    holds: frozenset[CompilationPart] = frozenset()
    """The kinds of facts that this source has in full."""
    operators: tuple[GraphOperator, ...] = ()
    final: tuple[FinalNode, ...] = ()
    kernels: tuple[GeneratedKernel, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    refusals_left_out: int = 0
    outputs: tuple[str, ...] = ()
    """Buffers or nodes that the graph returns."""
    from_cache: bool = False
    """The FX graph cache supplied its code: nothing was lowered, and there are no
    decisions."""
    failed: str | None = None
    """The error of a failed compilation."""
    failed_at: str | None = None
    """``file:line`` of the function whose compilation failed, if the source states
    it."""
    seconds: tuple[tuple[str, float], ...] = ()
    """Stage of the compilation -> seconds."""
    runs: int | None = None
    """How often it ran, if the source states it."""
    bytes_accessed: int | None = None
    """``num_bytes_accessed`` of the artifact ``inductor_metrics``."""
    line: Line | None = None
    texts: tuple[tuple[str, bytes], ...] = ()
    """Printed texts of the whole graph: name of the artifact -> its text,
    compressed with zlib."""


@dataclass(frozen=True)
class GraphBreak:
    """Where Dynamo ended a graph and ran the program's own Python."""

    source: str | None
    """``file:line`` of the program."""
    reason: str
    """The first line of torch's reason."""
    explanation: str | None = None
    hints: tuple[str, ...] = ()
    number: str | None = None
    """Its number in torch's registry of reasons: ``GB0059``; None before 2.7."""
    context: str | None = None
    """Torch's "Developer debug context"."""
    compile_id: str | None = None
    function: str | None = None
    rank: int | None = None
    count: int = 1
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Recompile:
    """A recompilation of a function, because a guard of its earlier compiled code
    failed."""

    function: str | None
    source: str | None
    """``file:line`` of the function."""
    guards: tuple[str, ...]
    """The guards that failed, as torch prints them, without the compile id in
    front."""
    compile_id: str | None = None
    rank: int | None = None
    limit_reached: bool = False
    """The limit of recompiles was reached: the function runs in eager from now
    on."""
    line: Line | None = None


@dataclass(frozen=True)
class Crossing:
    """A tensor that one forward graph returns and another takes: a live run
    recognises it by its memory."""

    from_id: str | None
    """``CompiledGraph.compile_id`` and ``order`` of the graph that makes it."""
    from_order: int
    result: str
    """The buffer in that graph."""
    to_id: str | None
    to_order: int
    input: str
    """The buffer in the graph that takes it."""


@dataclass(frozen=True)
class Compilation:
    """Everything that was compiled in a run."""

    graphs: tuple[CompiledGraph, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    torch: str | None = None
    torch_is_guessed: bool = False
    fallbacks: tuple[str, ...] = ()
    """Operators for which torch printed ``Using FallbackKernel``."""
    unknown_texts: tuple[str, ...] = ()
    """Messages of known artifacts, in a form that this version does not know."""
    crossings: tuple[Crossing, ...] = ()
    cut: int = 0
    """Number of graphs, modules and records whose end is missing in a log."""
    cache_hits: int = 0
