"""The facts that a pass over the logs collects, before they become a report: plans,
rejections, kernels, fallbacks.

Line numbers are packed (``position``), since there can be millions of evidence
lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from fusiondoc.model import dataclass, field
from fusiondoc.model.runs import LeftOut
from fusiondoc.parsers.fuser_work import CacheInstance, FuserWork, WorkSeen
from fusiondoc.parsers.jit.kept_statements import KeptStatements
from fusiondoc.parsers.jit.patterns import PatternedPart
from fusiondoc.parsers.jit.plan import (
    Flows,
    GroupGraph,
    HashedOps,
    Plan,
    PlanParts,
    Traits,
)
from fusiondoc.parsers.jit.statements import Statements
from fusiondoc.parsers.kernels.kept_texts import TextStore
from fusiondoc.parsers.lines.other_tools import OtherTools

_LINE_BITS = 40


def position(file: int, line: int) -> int:
    """Return a line of a log as one integer; integers have reading order."""
    return file << _LINE_BITS | line


def unpack(pos: int) -> tuple[int, int]:
    """Return (file index, line number from 1) of a packed position."""
    return pos >> _LINE_BITS, pos & ((1 << _LINE_BITS) - 1)


def positions() -> array[int]:
    return array("Q")


class PlanLevel(IntEnum):
    """The printer of a plan. A lower level has more facts about the fusion."""

    FUSION_PASS = 0
    """The graph that a fusion pass leaves (``FuserLog.plan_header``)."""
    EXECUTOR = 1
    """The executor's ``Optimized Graph``."""
    PRINT = 2
    """A graph that the program printed; it counts only if no log has a plan."""
    UNFINISHED = 3
    """``After creating fusion groups``: it still has groups that are too small, so
    it never runs. It is read only to find the group that was undone."""


@dataclass(slots=True)
class PlanUse:
    """A distinct plan and every position where it was printed."""

    parts: PlanParts
    level: PlanLevel
    simple: bool = False
    """True if the executor gave up specialising (bailout depth 0): this graph runs
    without groups."""
    headless: bool = False
    """True if only its end is in the log: then it has just the groups that are
    printed completely."""
    lines: array[int] = field(default_factory=positions)
    """The positions where its prints start."""
    stretches: dict[int, array[int]] = field(default_factory=dict)
    """Start of a print -> its stretches of consecutive lines, if other lines, such
    as those of another rank, come in between: (offset in the print, position) of
    each stretch, one after the other."""
    stated: KeptStatements = field(default_factory=KeptStatements)
    iteration: int | None = None
    _ops: array[int] | None = None
    _content: int = 0
    """Hashes by which plans are compared, kept because rebuilding a plan from its form
    and texts is slow."""

    @property
    def traits(self) -> Traits:
        return self.parts.traits

    def plan(self) -> Plan:
        """Return its groups and operators, built on demand; the last few plans are
        cached."""
        return _plan(self.parts.plan)

    def ops(self) -> HashedOps:
        """Return every operator of the plan, in groups or not."""
        return frozenset(self._hashed())

    def content(self) -> int:
        """See ``Plan.content``."""
        self._hashed()
        return self._content

    def _hashed(self) -> array[int]:
        if self._ops is None:
            plan = self.plan()
            self._ops, self._content = (
                array("q", map(hash, plan.ops())),
                plan.content(),
            )
        return self._ops

    def flows(self) -> Flows:
        """Return the flow of tensors through it; built by each call."""
        return self.parts.flows.get()

    def positions_of(self, line: int) -> Iterator[int]:
        """Yield the position of line ``line`` (from 0) of the plan in every
        print."""
        for start in self.lines:
            yield self.position_of(start, line)

    def position_of(self, start: int, line: int) -> int:
        """Return the position of line ``line`` in the print that starts at
        ``start``."""
        stretches = self.stretches.get(start)
        if stretches is None:
            return start + line
        nth = bisect_right(stretches[::2], line) - 1
        return stretches[2 * nth + 1] + line - stretches[2 * nth]


@lru_cache(maxsize=32)
def _plan(kept: PatternedPart[Plan]) -> Plan:
    return kept.get()


class DumpSeen:
    """A text that a dump option printed, and its positions."""

    __slots__ = ("lines", "option", "text")

    def __init__(self, option: str, text: str, pos: int) -> None:
        self.option = option
        self.text = text
        self.lines = positions()
        self.lines.append(pos)


class KernelUse:
    """A compiled kernel of one process. A log can hold a hundred thousand, so
    rarely used attributes take no memory.

    ``ms`` and ``gb_per_s`` do not include the first launch after a compile, which
    is in ``first_ms`` and ``first_gb_per_s``: it loads the module and finds cold
    caches.
    """

    __slots__ = (
        "block",
        "bytes",
        "compiles",
        "digest",
        "disputed",
        "dumps",
        "first_gb_per_s",
        "first_ms",
        "fresh",
        "gb_per_s",
        "grid",
        "kept_code",
        "launches",
        "lines",
        "ms",
        "name",
        "occupancy",
        "owner",
        "registers",
        "reports",
        "scheduler",
        "smem",
        "spill",
    )

    def __init__(self, name: str, owner: CacheInstance | None = None) -> None:
        self.name = name
        self.owner = owner
        self.disputed = False
        """True if its lines are under several GraphCaches: the order of the log
        cannot be trusted."""
        self.digest: bytes | None = None
        """Digest of its source."""
        self.kept_code: str | None = None
        self.compiles = 0
        """Number of codegen frames."""
        self.reports = 0
        """Number of other lines about a compile, if no frame is printed: reports of
        ptxas, or files written."""
        self.fresh = True
        """True if it was compiled since its last launch."""
        self.launches = 0
        self.block: tuple[int, int, int] | None = None
        self.grid: tuple[int, int, int] | None = None
        self.smem: int | None = None
        self.registers: int | None = None
        self.spill: int | None = None
        self.bytes: int | None = None
        """Bytes of its inputs and outputs, as perf_debug_verbose prints them."""
        self.occupancy: float | None = None
        self.scheduler: str | None = None
        self.ms: Sequence[float] = ()
        self.gb_per_s: Sequence[float] = ()
        self.first_ms: Sequence[float] = ()
        self.first_gb_per_s: Sequence[float] = ()
        self.dumps: tuple[DumpSeen, ...] = ()
        self.lines = positions()

    def ran(self, ms: float | None, gb_per_s: float | None) -> None:
        """Record a timed launch."""
        self.launches += 1
        if self.fresh:
            self.first_ms = _with(self.first_ms, ms)
            self.first_gb_per_s = _with(self.first_gb_per_s, gb_per_s)
        else:
            self.ms = _with(self.ms, ms)
            self.gb_per_s = _with(self.gb_per_s, gb_per_s)
        self.fresh = False


def _with(values: Sequence[float], value: float | None) -> Sequence[float]:
    """Return the values and one more: as a tuple while there are few, then as an
    array."""
    if value is None:
        return values
    if isinstance(values, array):
        values.append(value)
        return values
    if len(values) < 4:
        return (*values, value)
    return array("d", (*values, value))


@dataclass
class Runtime:
    """The kernels of a group for one set of shapes: one kernel for each segment."""

    owner: CacheInstance | None
    dumps: list[DumpSeen] = field(default_factory=list)
    schedulers: set[str] = field(default_factory=set)
    """The schedulers of the printed parameters."""
    whole: str | None = None
    """The fusion before it was segmented."""
    segments: str | None = None
    segmenter: list[DumpSeen] = field(default_factory=list)
    kernels: list[KernelUse] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    @property
    def shows_segments(self) -> bool:
        return self.segments is not None or bool(self.segmenter)


@dataclass
class PrintedKernel:
    """A kernel, or a compiled partition, of a fuser that prints no launches, with
    the facts that the log has."""

    name: str
    graph: GroupGraph | None = None
    """The graph from which it was made, if the log prints it."""
    operators: tuple[str, ...] = ()
    """The names of its operators, if the log prints no graph."""
    tensors: tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]] = (
        (),
        (),
    )
    """Sizes of its inputs and outputs, if the log prints no graph."""
    implementation: str | None = None
    """The implementation that computes it, such as ``ref:any``; None for generated
    code."""
    main: str | None = None
    """The key in ``texts`` of its code."""
    texts: dict[str, str] = field(default_factory=dict)
    """The texts by the name of the dump."""
    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    compiles: int = 0
    launches: int = 0
    ms: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=positions)

    @property
    def code(self) -> str | None:
        if self.main is None:
            return None
        return self.texts.get(self.main)


@dataclass
class FallbackSeen:
    """One fallback, from a warning, from manager.cpp's dump, or from both."""

    stage: str | None
    exact: bool
    """False if the same source line may have fallen back again without a warning
    (Python shows a warning once)."""
    lines: array[int]
    owner: CacheInstance | None = None
    graph: GroupGraph | None = None
    warned: bool = False


MARK = re.compile(
    rb"\[fusiondoc\] (?:iteration (\d{1,9})/(\d{1,9}) (\w+) inputs (\d{1,9})|end"
    rb"|left out (\d{1,15}) lines, (\d{1,15}) bytes, (\d{1,15}) of them about fusion)"
)
"""fusiondoc's own marks: a pass begins, the last pass is over, a part of the log
was left out."""


@dataclass(frozen=True)
class PassMark:
    """fusiondoc's own mark at the start of a pass: ``[fusiondoc] iteration 2/5
    forward inputs 0``."""

    index: int
    """From 1."""
    total: int
    phase: str
    inputs: int
    """The index of the inputs, from 0, if there are several."""
    line: int


class ErrorSeen(NamedTuple):
    """The last line of a traceback, and the lines after it that belong to it."""

    text: str
    line: int
    work: FuserWork | None = None
    """Work that a fuser had begun and not finished."""
    unfused: FuserWork | None = None
    """Work that had fallen back, and whose unfused operators ran."""
    rank: int | None = None
    """The rank with which torch tagged its lines."""
    at: str | None = None
    """``file:line`` of the operator, if a TorchScript traceback preceded the
    error."""


@dataclass
class Facts:
    """All facts of one stream (one rank) of the logs."""

    rank: int | None = None
    phases: Mapping[str, str] = field(default_factory=dict)
    """Name of code that AOTAutograd made (``<eval_with_key>.7``) -> the phase that
    the probe saw."""
    texts: TextStore = field(default_factory=TextStore)
    """The texts of its kernels; all streams of a run share one store."""
    plans: list[PlanUse] = field(default_factory=list)
    unplanned: Statements = field(default_factory=Statements)
    """Statements after the last plan, or of a pass whose plan was never printed."""
    caches: list[CacheInstance] = field(default_factory=list)
    kernels: list[KernelUse] = field(default_factory=list)
    printed_kernels: list[PrintedKernel] = field(default_factory=list)
    runtimes: list[Runtime] = field(default_factory=list)
    """The runtimes whose segments the log shows."""
    launched_together: dict[tuple[CacheInstance, tuple[KernelUse, ...]], int] = (
        field(default_factory=dict)
    )
    """(GraphCache, kernels in order) -> the number of runs of the cache that
    launched exactly these kernels."""
    fallbacks: list[FallbackSeen] = field(default_factory=list)
    headers: dict[str, int] = field(default_factory=dict)
    """Header text -> the number of dumps of that kind of graph."""
    levels: set[str] = field(default_factory=set)
    """Files of the JIT log that printed something: the facts that a log can show
    depend on them."""
    release: str | None = None
    """The release of torch that printed this, from source lines
    (``jit/messages.py``)."""
    errors: list[ErrorSeen] = field(default_factory=list)
    failed_rank: ErrorSeen | None = None
    """The rank that failed first, if torch's launcher names it and it was not ended
    by a signal."""
    stacks: dict[int | None, int] = field(default_factory=dict)
    """Rank with which torch tagged a process -> the position where Python's
    faulthandler printed its stack."""
    fuser_gone: int | None = None
    """The line in which torch states that this TorchScript no longer has the
    fuser."""
    launched: int | None = None
    """The line in which torch's launcher starts several processes."""
    torn: int = 0
    """Lower bound for the number of interrupted lines after that line."""
    torn_lines: list[int] = field(default_factory=list)
    """The first of the interrupted lines."""
    options_set: int | None = None
    """The line that sets options of a fuser in a variable."""
    other_tools: OtherTools = field(default_factory=OtherTools)
    """Lines of other tools than TorchScript."""
    iterations: list[PassMark] = field(default_factory=list)
    compiling: set[int] = field(default_factory=set)
    """Indexes into ``iterations`` of passes in which a plan or kernel was made."""
    profiled: set[int] = field(default_factory=set)
    gradients_profiled: dict[tuple[str, ...], array[int]] = field(
        default_factory=dict
    )
    """Kinds of inputs -> the positions of gradients' graphs with such inputs that
    an executor begins to profile."""
    disordered: bool = False
    """True if stdout and stderr are not in true order: kernels cannot be assigned
    to groups."""
    work: WorkSeen = field(default_factory=WorkSeen)


@dataclass
class LineCounts:
    lines: int = 0
    recognised: int = 0
    user_output: int = 0
    unrecognised: int = 0
    truncated: int = 0
    size: int = 0
    """Number of bytes read, after decompression."""
    first_unrecognised: list[tuple[int, bytes]] = field(default_factory=list)
    left_out: LeftOut = field(default_factory=LeftOut)

    def leave_out(self, lines: int, size: int, fusion: int) -> None:
        """Record a mark of a log that was kept only in part: the number of lines
        and bytes that were left out."""
        before = self.left_out
        self.left_out = LeftOut(
            before.lines + lines, before.bytes + size, before.about_fusion + fusion
        )

    def unknown(self, pos: int, line: bytes) -> None:
        self.unrecognised += 1
        if len(self.first_unrecognised) < 10:
            self.first_unrecognised.append((pos, line))

    def line_cut(self, size: int, first: bool) -> None:
        """Record that ``size`` bytes of a line are left out; ``first``: they are
        the first such bytes of the line."""
        self.size += size
        self.truncated += first
