"""The report model: parsers fill it, rules read it and renderers print it.

Field names are those of the JSON report (``fusiondoc.report/1``). Values that a log
does not show are ``None``, never guessed. All classes are frozen; sequences are
tuples or other immutable sequences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from fusiondoc.model import dataclass, field
from fusiondoc.model.aot import AotFunction, FusedModules
from fusiondoc.model.boundaries import Boundary
from fusiondoc.model.change_plan import PlannedChange, Try
from fusiondoc.model.compiled import CompiledReport
from fusiondoc.model.evidence import Evidence as Evidence
from fusiondoc.model.group_runs import LaunchesOfGroup
from fusiondoc.model.groups import Group as Group
from fusiondoc.model.groups import Instance as Instance
from fusiondoc.model.groups import OpNode as OpNode
from fusiondoc.model.groups import Segment as Segment
from fusiondoc.model.kernel_traits import KernelTraits
from fusiondoc.model.reasons.reason import Reason
from fusiondoc.model.remedies import Remedy
from fusiondoc.model.runs import (
    Coverage,
    Expectation,
    FuserState,
    Iteration,
    KnobState,
    ParseStats,
    Peak,
    Ranks,
    Speed,
    Spread,
    Steps,
    Suppressed,
    Time,
    Verification,
)
from fusiondoc.model.script_models import ScriptRun
from fusiondoc.model.source import Target, Texts
from fusiondoc.model.te import TeReport
from fusiondoc.model.unfused_bytes import unfused_bytes

SCHEMA = "fusiondoc.report/1"

SEVERITIES = ("error", "warning", "note")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Unfused:
    """Tensor operators outside every group: one row for each (op, source, phase,
    reason, ran)."""

    op: str
    source: str | None
    user_source: str | None
    phase: str | None
    count: int
    reason: Reason
    evidence: Sequence[Evidence]
    rank: int | None = None
    ran: bool | None = None
    """False if every pass shows that it never ran: none of its inputs was ever
    profiled. None: not known."""
    bytes_moved: int | None = None
    """Bytes of its tensor results, written and read again, in one run: the traffic
    that fusing it can save."""
    layers: tuple[str, ...] = ()
    """The module paths that they belong to, each once, as far as scopes or the live
    run show them."""
    layer_counts: tuple[int, ...] = ()
    """Number of these operators in each of ``layers``."""
    keeps_out: int | None = None
    """Number of operators that the fuser takes, but that are in no group because
    these stand next to them."""
    time: Time | None = None
    """Time of all of them together, in a step of the profiled run."""
    evidence_left_out: int = 0
    called_from: tuple[str, ...] = ()
    """The lines of the user's program that call the line of a package in ``source``
    (``file:line``), if several do: it is then not known which of them each operator
    comes from, and ``user_source`` is null."""
    index: int | None = None
    """Its index in ``Report.unfused``, which nodes of programs refer to. A report
    with only some of the rows keeps these indexes."""

    @property
    def users_lines(self) -> tuple[str, ...]:
        """The lines of the user's program that it may come from."""
        if self.user_source is None:
            return self.called_from
        return (self.user_source,)

    @property
    def may_have_run(self) -> bool:
        """False if every pass shows that it never ran."""
        return self.ran is not False


@dataclass(frozen=True)
class Fallback:
    """A fusion group that really fell back to the unfused operators."""

    stage: str
    """"compile" or "run"."""
    group: str | None
    count: int
    count_exact: bool
    error: str | None
    """The first real error, which torch hides: from the log, or from a second run
    without fallback."""
    evidence: Sequence[Evidence]
    rank: int | None = None
    error_kind: str | None = None
    """Kind of the failure (see fusers/fuser_errors.py): codegen, kernel, driver,
    program ..."""
    evidence_left_out: int = 0


@dataclass(frozen=True)
class Dump:
    """The output of one dump option for a kernel."""

    option: str
    """Its name in the variable that lists dumps (``cuda_kernel``), or the name of
    the fuser's log."""
    text: str
    evidence: Sequence[Evidence] = ()
    evidence_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A generated kernel and its launches. ``block``, ``grid``: of the last launch;
    an unset dimension is 1."""

    id: str
    name: str
    groups: tuple[str, ...]
    launches: int | None
    block: tuple[int, int, int] | None
    grid: tuple[int, int, int] | None
    smem_bytes: int | None
    ms: Spread | None
    gb_per_s: Spread | None
    """GB/s (10^9 bytes) of inputs plus outputs, as the fuser computes it."""
    peak_fraction: float | None
    """Median bandwidth over ``Report.peak``, if that is known. Above 1 the data
    come from a cache."""
    registers: int | None
    spill_bytes: int | None
    code: str | None
    compiles: int | None = None
    """How often it was compiled; more than once means a recompilation for another
    launch."""
    evidence: Sequence[Evidence] = ()
    rank: int | None = None
    dumps: tuple[Dump, ...] = ()
    """Dumps of the kernel besides ``code``."""
    scheduler: str | None = None
    occupancy: float | None = None
    """Share of the warps of a multiprocessor that can be resident, from 0 to 1."""
    first_ms: float | None = None
    """Median of the first launches after a compile, which ``ms`` leaves out, unless
    there were no others."""
    bytes_moved: int | None = None
    """Bytes that a launch must move: as the fuser prints or counts them, or those
    of its only group."""
    bound: str | None = None
    """"bandwidth", "cache" (faster than the memory: the data stay there) or
    "launch" (moves too little)."""
    groups_left_out: int = 0
    """Groups of its graph that ``groups`` does not list: hundreds of kernels share
    hundreds of them."""
    evidence_left_out: int = 0
    implementation: str | None = None
    """The implementation of a library's partition, such as
    ``brg_matmul:avx512_core`` or ``ref:any``."""
    traits: KernelTraits | None = None
    launches_of_groups: tuple[
        LaunchesOfGroup, ...
    ] = ()  # of a shared kernel, where the log shows them


@dataclass(frozen=True)
class Finding:
    """One sentence that a user understands, with its evidence and its advice."""

    code: str
    severity: str
    message: str
    source: str | None
    evidence: Sequence[Evidence]
    advice: str | None
    saves_bytes: int | None = None
    """Memory traffic that fixing it saves in one run, from the shapes in the
    log."""
    keeps_out: int | None = None
    """Number of operators that are in no group because of the finding's subject."""
    recipe: str | None = None
    """Another way to write the operator, if the table of recipes has one for this
    run."""
    ops: tuple[str, ...] = ()
    """The operators that it is about, if it is about operators outside groups."""
    time: Time | None = None
    """Time that its subject takes in a step of the profiled run."""
    evidence_left_out: int = 0
    rows: tuple[int, ...] = ()
    """``Unfused.index`` of the rows that it is about."""
    remedy: Remedy | None = None
    """``advice`` as data, without the results of ``--try``; null in reports of
    older versions."""
    brief: str | None = None
    """The message in a few words, for the first lines of a report."""

    @property
    def nothing_to_do(self) -> bool:
        """True if nothing in the program or the run is to be changed for it."""
        return self.remedy is not None and self.remedy.nothing is not None

    @property
    def in_header(self) -> bool:
        """True for a note on the environment, which reports show in their first
        lines and nowhere else."""
        return self.code in ("FD001", "FD004") and self.severity == "note"

    @property
    def in_rows(self) -> bool:
        """True if it repeats the reason in a row of ``unfused``: reports only count
        these."""
        is_of_boundary = "FD261" <= self.code <= "FD279"
        of_several = is_of_boundary or self.code in ("FD236", "FD237")
        return self.code.startswith("FD2") and not self.keeps_out and not of_several


@dataclass(frozen=True, slots=True)
class ProgramNode:
    """A node of a plan after fusion. ``kind``: "group", "region" (a
    prim::DifferentiableGraph), "control" (a branch or loop) or "operator"."""

    kind: str
    op: str
    source: str | None
    user_source: str | None
    inputs: tuple[str, ...]
    """Types of its tensor inputs, as far as they are known; for a group they are in
    its row."""
    outputs: tuple[str, ...]
    group: str | None
    """Id of the fusion group that the node is."""
    reason: str | None
    """Code of the reason why it is in no group."""
    inside: int | None
    """Index of the innermost control flow or region that contains it."""
    condition: str | None
    """For control flow: its condition, in words."""
    program: str | None
    """For a region whose own executor made a plan: the id of the program of that
    plan."""
    evidence: Sequence[Evidence] = ()
    reason_text: str | None = None
    """The reason in words, for display; its data is in the row."""
    first: int | None = None
    """For an operator: index of the only node that makes its first argument, which
    an in-place operator changes."""
    first_result: int | None = field(default=None, metadata={"json": False})
    """Index of that argument among the results of that node, if it is known."""
    takes: tuple[tuple[int, int], ...] = field(default=(), metadata={"json": False})
    """Its inputs, as far as they are known: the node that makes each and the index
    among that node's results."""
    given: tuple[tuple[int, int] | None, ...] = field(
        default=(), metadata={"json": False}
    )
    """For a group, each of its inputs: the node that makes it and the index among
    that node's results; None if no one node makes it."""
    rows: tuple[int, ...] = ()
    """For an operator outside every group, or a branch: ``Unfused.index`` of its
    row, and of the row of each further rank that has the same program."""

    @property
    def row(self) -> int | None:
        """``Unfused.index`` of its row, of the first rank if the program belongs to
        several; None without a row."""
        if self.rows:
            return self.rows[0]
        return None


@dataclass(frozen=True)
class Program:
    """A distinct execution plan with its data flow. Equal plans of several ranks
    are one."""

    id: str
    phase: str | None
    specialisation: int
    """2, 3, ... for the same operators with other types."""
    iteration: int | None
    ranks: tuple[int, ...]
    nodes: tuple[ProgramNode, ...]
    edges: tuple[tuple[int, int], ...]
    """A tensor goes from the first node to the second (indexes into ``nodes``), or
    the second is control flow that depends on a value in it."""
    cut: int = 0
    """Number of nodes that were left out."""
    values_left_out: int = 0
    """Inputs and outputs of its nodes beyond the first thousand of each."""
    edges_left_out: int = 0
    """Edges between its nodes beyond those in ``edges``."""
    waits: tuple[tuple[int, int], ...] = field(default=(), metadata={"json": False})
    """Pairs in which the second node needs the first, whether or not a tensor goes
    to it as well: it reads the dtype, device or layout of the first's result
    (``y.to(x.dtype)``), a number that is computed from that result or its sizes, or
    a list to which it was appended."""
    stops: tuple[tuple[int, int | None], ...] = field(
        default=(), metadata={"json": False}
    )
    """For each side effect (a print, the end of a ``with`` block): the number of
    nodes before it, and the node that contains it."""


@dataclass(frozen=True)
class Report:
    environment: Mapping[str, str]
    fuser: FuserState
    knobs: tuple[KnobState, ...]
    groups: tuple[Group, ...]
    unfused: tuple[Unfused, ...]
    fallbacks: tuple[Fallback, ...]
    kernels: tuple[Kernel, ...]
    findings: tuple[Finding, ...]
    coverage: Coverage
    parse: ParseStats
    iterations: tuple[Iteration, ...] = ()
    timing: Mapping[str, float | None] = field(default_factory=dict)
    """Seconds: child, overhead (the time that fusiondoc adds to running the same
    script by hand), parse."""
    target: Target = Target()
    verification: tuple[Verification, ...] = ()
    tries: tuple[Try, ...] = ()
    peak: Peak | None = None
    speed: tuple[Speed, ...] = ()
    speed_note: str | None = None
    """Why no speed is reported."""
    steps: Steps | None = None
    """The time of a step, by kinds of work."""
    steps_note: str | None = None
    """Why ``steps`` is unknown, or a remark on it."""
    programs: tuple[Program, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    """Tensors that go through memory between groups and operators of the plans,
    most bytes first."""
    boundaries_left_out: int = 0  # of fewer bytes than those in ``boundaries``
    programs_left_out: int = (
        0  # distinct plans beyond those in ``programs``, which is bounded
    )
    groups_left_out: int = 0  # rows beyond the first 20,000
    fusion_groups_left_out: int = 0  # nodes in these
    fused_operators_left_out: int = (
        0  # operators in these nodes, as ``fused_operators`` counts them
    )
    kernels_left_out: int = 0  # beyond the first 20,000
    kernel_texts_left_out: int = (
        0  # sources and dumps of kernels beyond 10 MiB of them
    )
    unfused_left_out: int = (
        0  # rows beyond the most, counted in the last ones, which have no source
    )
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that the configuration or a comment suppresses; they are not in
    ``findings``."""
    expectations: tuple[Expectation, ...] = ()
    """The expectations of ``check``, each with its result."""
    frontend: str | None = None
    """The frontend that made the graphs: "torchscript", "aot" or "te"; None if it
    is not known."""
    aot: tuple[AotFunction, ...] = ()
    """Functions that the program passed to AOTAutograd."""
    te: TeReport | None = None
    """Plans of the operation fuser of te.ops, if it was used."""
    compiled: CompiledReport | None = None
    """Graphs, graph breaks and recompilations of torch.compile, if it was used."""
    fused_modules: tuple[FusedModules, ...] = ()
    """Modules of the program that call a fuser by themselves, by class."""
    plan: tuple[PlannedChange, ...] = ()
    """The recommended changes: at most three, best first."""
    plan_note: str | None = None
    """Why there is nothing to change, with the numbers; None if ``plan`` has
    changes."""
    plan_title: str | None = None
    """``plan_note`` in a few words: ``Nothing to do``, ``No change is known that
    helps``."""
    plan_try: str | None = None
    """The command that tries changes whose effect only a run can show, if ``plan``
    has none."""
    script: ScriptRun | None = None
    """The models and steps of a program that was run unchanged (``--script``); None
    for a model or a log."""
    ranks: Ranks | None = None
    """The processes of the run compared; None for a single process."""
    schema: str = SCHEMA
    texts: Texts | None = field(
        default=None, compare=False, repr=False, metadata={"json": False}
    )

    @cached_property
    def fusion_groups(self) -> int:
        """Fusion nodes of the run's plans: the instances of all groups."""
        return (
            sum(group.count for group in self.groups) + self.fusion_groups_left_out
        )

    @property
    def times_fallen_back(self) -> int:
        """How often a group fell back to unfused operators."""
        return sum(fallback.count for fallback in self.fallbacks)

    @property
    def rows_that_may_have_run(self) -> list[Unfused]:
        """Rows of operators outside groups, without those that every pass shows
        never ran."""
        return [row for row in self.unfused if row.may_have_run]

    @property
    def first_groups(self) -> list[Group]:
        """The groups of each program as it was first compiled, without its
        specialisations for other types."""
        return [group for group in self.groups if group.specialisation == 1]

    def group(self, id: str | None) -> Group | None:
        """Return the group with that id; None without one."""
        for group in self.groups:
            if group.id == id:
                return group
        return None

    @property
    def views_alone(self) -> int:
        """Operators of a run of torch.compile whose graphs have nothing to compute;
        0 for any other run."""
        if self.compiled is not None and not self.unfused:
            return self.compiled.views_alone
        return 0

    @cached_property
    def fused_operators(self) -> int:
        """Number of operators in groups, over instances. Each program counts once,
        not again for other types; an operator that several groups compute counts
        once."""
        listed = sum(group.operators for group in self.first_groups)
        groups = {group.id for group in self.groups}
        again = 0
        if self.compiled is not None:
            again = self.compiled.counted_again(groups)
        return listed - again + self.fused_operators_left_out

    def metrics(self) -> dict[str, float]:
        """The figures of the report, flat, for dashboards and experiment trackers
        (``mlflow.log_metrics(report.metrics())``). A figure that the run does not
        show is absent.

        ``unfused_bytes``: see the function of that name; ``step_ms`` and
        ``device_ms``: of a profiled step.
        """
        figures: dict[str, float | None] = {
            "groups": self.fusion_groups,
            "groups_forward": self._groups_of("forward"),
            "groups_backward": self._groups_of("backward"),
            "operators_fused": self.fused_operators,
            "operators_unfused": sum(row.count for row in self.unfused),
            "coverage": self.coverage.fraction,
            "fallbacks": self.times_fallen_back,
            "kernels": len(self.kernels) + self.kernels_left_out,
            "unfused_bytes": unfused_bytes(self.unfused),
            "step_ms": self.steps.ms if self.steps is not None else None,
            "device_ms": self.steps.device_ms if self.steps is not None else None,
            "findings_error": self._findings_of("error"),
            "findings_warning": self._findings_of("warning"),
        }
        if self.expectations:
            figures["expectations_broken"] = sum(
                not expected.holds for expected in self.expectations
            )
        metrics = {}
        for name, value in figures.items():
            if value is not None:
                metrics[name] = value
        return metrics

    def _groups_of(self, phase: str) -> int:
        """Number of groups of a phase, among the rows that the report lists."""
        total = 0
        for group in self.groups:
            if group.phase == phase:
                total += group.count
        return total

    def _findings_of(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)
