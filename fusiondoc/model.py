"""The report model: what every parser fills, every rule reads and every renderer prints.

Field names are those of the JSON report (``fusiondoc.report/1``). What a log does not tell is ``None``,
never guessed. All classes are frozen; sequences are tuples or other immutable sequences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Tuple

SCHEMA = "fusiondoc.report/1"

SEVERITIES = ("error", "warning", "note")
"""Worst first."""


@dataclass(frozen=True)
class Evidence:
    """A line of a log. ``line`` counts from 1 in the file as it is on disk (after decompression)."""

    file: str
    line: int


@dataclass(frozen=True)
class FuserState:
    """Which fuser was asked for and which one really worked: nvfuser, nnc, onednn, legacy or none."""

    requested: Optional[str]
    effective: Optional[str]
    live: Optional[bool]
    """True if the effective fuser is the requested one and does something on this torch."""
    why: Optional[str] = None


@dataclass(frozen=True)
class KnobState:
    """A knob: the value asked for, the value read back after setting it, and whether setting it does anything."""

    name: str
    requested: Optional[str]
    effective: Optional[str]
    live: Optional[bool]


@dataclass(frozen=True)
class OpNode:
    """An operator: ``op`` as printed (``aten::add``), ``source`` as printed (``file:line:column``).

    ``user_source`` is the line of the user's program it comes from (``file:line``), where that can be told.
    """

    op: str
    source: Optional[str]
    user_source: Optional[str]


@dataclass(frozen=True)
class Group:
    """One fusion node of one execution plan."""

    id: str
    kind: str
    """CudaFusionGroup, TensorExprGroup, oneDNNFusionGroup or FusionGroup."""
    name: str
    """The name as first printed, such as ``prim::CudaFusionGroup_0``; not unique."""
    phase: Optional[str]
    """"forward", "backward" or None where the log cannot tell."""
    specialisation: int
    respecialises: Optional[str]
    nodes: Tuple[OpNode, ...]
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    runs: Optional[int]
    kernels: Tuple[str, ...]
    bytes_in: Optional[int]
    """Bytes of the input tensors, each element once (an expanded dimension counts as one)."""
    bytes_out: Optional[int]
    fallback: bool
    rank: Optional[int]
    evidence: Sequence[Evidence] = ()
    """The lines where a plan that holds this group was printed."""
    iteration: Optional[int] = None
    """The iteration of ``diagnose`` (from 1) in which the group appeared."""

    @property
    def ops(self) -> Tuple[str, ...]:
        return tuple(node.op for node in self.nodes)


@dataclass(frozen=True)
class Reason:
    """Why an operator is in no group. ``stated``: the log says it; otherwise fusiondoc worked it out."""

    code: str
    text: str
    stated: bool


@dataclass(frozen=True)
class Unfused:
    """Tensor operators outside every group: one row for (op, source, phase, reason code)."""

    op: str
    source: Optional[str]
    user_source: Optional[str]
    phase: Optional[str]
    count: int
    reason: Reason
    evidence: Sequence[Evidence]
    rank: Optional[int] = None


@dataclass(frozen=True)
class Fallback:
    """A fusion group that really fell back to the unfused operators."""

    stage: str
    """"compile" or "run"."""
    group: Optional[str]
    count: int
    count_exact: bool
    error: Optional[str]
    evidence: Sequence[Evidence]
    rank: Optional[int] = None


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum of what was measured."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Kernel:
    """A generated kernel and its launches. ``block`` and ``grid`` are those of the last launch; an unset
    dimension (printed as -1) is 1."""

    id: str
    name: str
    groups: Tuple[str, ...]
    launches: Optional[int]
    block: Optional[Tuple[int, int, int]]
    grid: Optional[Tuple[int, int, int]]
    smem_bytes: Optional[int]
    ms: Optional[Spread]
    gb_per_s: Optional[Spread]
    """GB/s (10^9 bytes) of inputs plus outputs, as nvFuser computes it."""
    peak_fraction: Optional[float]
    registers: Optional[int]
    spill_bytes: Optional[int]
    code: Optional[str]
    compiles: Optional[int] = None
    """How often it was compiled: more than one is a recompile for another launch."""
    evidence: Sequence[Evidence] = ()
    rank: Optional[int] = None


@dataclass(frozen=True)
class Finding:
    """One sentence a user understands, with what proves it and what to change."""

    code: str
    severity: str
    message: str
    source: Optional[str]
    evidence: Sequence[Evidence]
    advice: Optional[str]


@dataclass(frozen=True)
class Coverage:
    """Operators in groups against those plus the unfused ones that some fuser can fuse."""

    ops_fused: int
    ops_total: int
    fraction: Optional[float]


@dataclass(frozen=True)
class UnrecognisedLine:
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class ParseStats:
    """How the log was read: ``recognised`` lines a parser consumed, ``user_output`` lines of the program itself."""

    lines: int
    recognised: int
    user_output: int
    unrecognised: int
    first_unrecognised: Tuple[UnrecognisedLine, ...]
    truncated: int
    """Graphs and other blocks that were cut off."""
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Iteration:
    """One pass of ``diagnose``. ``stage`` is "profiling", "compiling" (a plan was made in it) or "steady"."""

    index: int
    phase: str
    inputs: int
    stage: Optional[str]
    seconds: Optional[float]


@dataclass(frozen=True)
class Report:
    environment: Mapping[str, str]
    fuser: FuserState
    knobs: Tuple[KnobState, ...]
    groups: Tuple[Group, ...]
    unfused: Tuple[Unfused, ...]
    fallbacks: Tuple[Fallback, ...]
    kernels: Tuple[Kernel, ...]
    findings: Tuple[Finding, ...]
    coverage: Coverage
    parse: ParseStats
    iterations: Tuple[Iteration, ...] = ()
    timing: Mapping[str, Optional[float]] = field(default_factory=dict)
    """Seconds: child, overhead (what fusiondoc adds to running the same script by hand), parse."""
    target: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for: the command and the environment variables that fusiondoc set."""
    schema: str = SCHEMA
