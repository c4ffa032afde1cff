"""The part of the report model on the whole run: switches, coverage, passes, times,
its ranks (which groups they share, where they differ and why, which of them is
slowest), and how the log was read (lines by kind, missing parts)."""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.model import dataclass
from fusiondoc.model.at_bandwidth import AtBandwidth
from fusiondoc.model.bench import Part, Ratio
from fusiondoc.model.own_fuser import OwnFuser


@dataclass(frozen=True)
class FuserState:
    """The requested fuser and the fuser that made groups: names of the registry, or
    "none"."""

    requested: str | None
    effective: str | None
    live: bool | None
    """True if the effective fuser is the requested one and does something on this
    torch."""
    why: str | None = None
    by_itself: OwnFuser | None = None
    """The fuser of the program without the switches of the run; None if it is the
    same, or not known."""


@dataclass(frozen=True)
class KnobState:
    """A knob: the requested value, the value read back after setting it, and
    whether it does anything."""

    name: str
    requested: str | None
    effective: str | None
    live: bool | None


@dataclass(frozen=True)
class TriedKnob:
    """The result of setting a knob to another value and reading it back."""

    name: str
    effective: str | None = None
    """The value before that; None if torch has no way to read it."""
    live: bool | None = None
    """True if setting it changes the value that is read back; None if that was not
    tried."""
    why: str | None = None
    """Why it is not live, or could not be tried."""


@dataclass(frozen=True)
class AnyFuser:
    """Coverage relative to the operators that any fuser could take."""

    ops_total: int | None
    fraction: float | None


@dataclass(frozen=True)
class Coverage:
    """Operators in groups (``ops_fused``), over these plus the unfused operators
    that ran and for which the fuser of the run has a rule (``ops_total``)."""

    ops_fused: int
    ops_total: int | None
    fraction: float | None
    any_fuser: AnyFuser = AnyFuser(None, None)
    unknown: str | None = None
    """Why ``fraction`` is null."""

    @property
    def is_known(self) -> bool:
        """True if the log shows every plan, so that the operators outside all
        groups are known."""
        return (self.fraction, self.ops_total, self.any_fuser.ops_total) != (
            None,
            None,
            None,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Minimum, median and maximum of measurements."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Iteration:
    """One pass of ``diagnose``. ``stage`` is "profiling", "compiling" (a plan was
    made in it) or "steady"."""

    index: int
    phase: str
    inputs: int
    stage: str | None
    seconds: float | None


@dataclass(frozen=True)
class Verification:
    """A result of one pass of ``diagnose --verify``, fused compared with eager."""

    iteration: int
    inputs: int
    """Index of the input shape, from 0."""
    phase: str
    what: str
    """"output 0", "grad x", "grad layer.weight"."""
    same: bool
    max_abs: float | None
    """Largest difference; of the statistics if ``by`` is "statistics"."""
    max_rel: float | None
    """Largest difference over the size that it is compared with
    (probe/same_results.py); None for statistics."""
    tolerance: float | None
    """Largest ``max_rel`` that is allowed."""
    dtype_same: bool
    strides_same: bool
    by: str
    """"value", or "statistics" if random numbers make the values differ by design;
    of ``fix`` also "same draws": by value, in passes whose random numbers depend on
    the shape alone."""
    detail: str | None = None
    random: tuple[str, ...] = ()
    """The random operators that drew numbers in this pass."""
    reference: str | None = None
    """The type in which the eager pass ran once more because this result is off by
    more than its own type allows: "float64". None if it is not off, or without such
    a run."""
    eager_off: float | None = None
    """Largest difference of eager from that run, as ``max_rel``; for integers the
    share of elements that differ."""
    fused_off: float | None = None
    """The same for the fused result: ``same`` is judged by these two."""
    computed_in: str | None = None
    """The least precise floating-point type that the eager pass computes in,
    determined together with the reference."""
    no_float64: str | None = None
    """Why a result that is off was compared with a run in float32, or with eager
    alone."""

    @property
    def judgement(self) -> str | None:
        """How the result was judged, if it is off by more than its own type allows;
        else None."""
        if self.reference is not None:
            eager, fused = (
                _off(value, self.tolerance == 0)
                for value in (self.eager_off, self.fused_off)
            )
            how = f"eager itself is off by {eager} from {self.reference}, fused by {fused}"
            if self.no_float64:
                how += f" ({self.no_float64})"
        elif self.no_float64 is not None:
            how = f"compared with eager alone: {self.no_float64}"
        else:
            return None
        if self.same and self.computed_in:
            return f"within what {self.computed_in} rounds: {how}"
        return how


def furthest_off(rows: Iterable[Verification]) -> Verification:
    """Return the pass that is furthest off, of one result in several passes."""
    return max(
        rows,
        key=lambda row: (not row.same, row.max_rel is None, row.max_rel or 0.0),
    )


def _off(value: float | None, whole: bool) -> str:
    if value is None:
        return "an unknown amount"
    if whole:
        return f"{value:.2%} of its elements"
    return f"{value:.2g}"


@dataclass(frozen=True)
class Peak:
    """The memory bandwidth of the device, with which kernels are compared."""

    gb_per_s: float
    source: str
    """"driver" (clock and bus width), "table" (by the GPU's name), "measured" (a
    large copy) or "given"."""


STEP = "step"
"""The phase of a script's own steps."""


@dataclass(frozen=True)
class Speed:
    """Time of one way to run the model, in a child without dumps and logs."""

    way: str
    """"eager", or "fused"; "scripted" if there is no group, so that nothing is
    fused."""
    phase: str
    """"forward", "forward+backward" or ``STEP``; in older captures "backward"
    alone."""
    inputs: int
    """Index of the input shape, from 0."""
    ms: Spread
    """Time of a step, in rounds of steps without a synchronisation inside."""
    passes: int
    """Number of passes that were timed, without the warm-up."""
    first_ms: float | None = None
    """Time of the first pass, compilation included."""
    memory_bytes: int | None = None
    """Peak of the allocated device memory in a pass."""
    warmup_ms: tuple[float, ...] = ()
    """Times of the passes before those that count, in order: profiling, compiling,
    the first steady ones."""
    ratio: Ratio | None = None
    """Speed relative to eager, by the statistics of ``fusiondoc bench``; None for
    eager."""


@dataclass(frozen=True)
class Time:
    """Time that something takes in a step of the profiled run."""

    ms: float
    share: float
    """Share of the whole step, from 0 to 1."""
    could_save_ms: float | None = None
    """The most that fusing it could save: its time minus the time for moving the
    inputs and outputs of the group that it would be in, at the measured bandwidth.
    None if fusing does not apply, or the shapes are not known."""


GROUPS = "groups"
FUSIBLE = "unfused operators that could fuse"
"""Names of two parts of a step; diagnosis/step_time.py has the others."""


@dataclass(frozen=True)
class Steps:
    """The parts of the time of a step, from a run under torch's profiler without
    logs."""

    ms: float
    """Time of a profiled step, from its begin to its end on host and device."""
    device_ms: float | None
    """Time in which the GPU was busy; None on a CPU."""
    busy: float | None
    """``device_ms`` over ``ms``."""
    parts: tuple[Part, ...]
    """Kinds of work, longest first; together they are the step."""
    steps: int
    """Number of profiled steps."""
    unprofiled_ms: float | None = None
    """Time of a step without the profiler."""
    disturbed: bool = False
    """The profiler made the step longer by more than a tenth."""
    could_save_ms: float | None = None
    """The most that fusing everything that could fuse would save."""
    layers: tuple[Part, ...] = ()
    """Time by module, longest first, as far as the modules of the operators are
    known."""
    unmatched_ms: float | None = None
    """Time of groups, and of operators that could fuse, that matches no row of this
    report."""
    hint: str | None = None
    """A measure that would help more than fusion, if most of the time does not
    depend on fusion."""
    without_tf32: float | None = None
    """Share of the step that float32 matrix products take, if TF32 would make them
    faster."""
    gb_per_s: float | None = None
    """The memory bandwidth that ``could_save_ms`` was computed with."""
    at_bandwidth: AtBandwidth | None = None

    def share(self, what: str) -> float:
        """Return the share of a part; 0 if it is absent."""
        return sum(part.share for part in self.parts if part.what == what)


NO_BACKWARD = "it is of a backward pass, and this run had none"
"""Why every expectation on backward passes is broken at once; reports state it
once."""


@dataclass(frozen=True)
class Suppressed:
    """A finding that the user suppressed: it is counted, but makes no command
    fail."""

    code: str
    severity: str
    message: str
    source: str | None
    by: str
    """The entry that suppresses it: ``config`` and the entry of ``ignore``, or the
    comment's ``file:line``."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of ``check`` and its result."""

    section: str
    holds: bool
    expected: str
    found: str
    why: str | None
    """The difference between expected and found: the nearest group, and where the
    operators that it lacks are."""
    file: str
    """The file of expectations."""
    line: int | None
    column: int | None
    groups: tuple[str, ...] = ()
    """Ids of the groups that fulfil it."""
    note: str | None = None
    """A deviation from the file that breaks nothing: another name, more groups of
    the same kind."""
    source: str | None = None
    """``file:line`` of the program that breaks it; None if it is not known."""
    code: str | None = None
    """Code of the finding that it reports, if it is not in the file: that the fuser
    is off."""


@dataclass(frozen=True)
class RankFacts:
    """Facts about a rank from outside its log; None and empty if they are not
    known."""

    rank: int
    host: str | None = None
    torch: str | None = None
    gpu: str | None = None
    ended: str | None = None
    """How its process ended, such as "died of SIGKILL"; None if it is not known."""
    failed: bool = False
    """The process ended by itself, with an error."""
    where: str | None = None
    """``file:line`` at which the process was when it was ended."""
    restarts: int = 0
    """How often the launcher had restarted it."""
    step_ms: tuple[float, ...] = ()
    """Times from step to step (or of each pass), after the compiling ones, in
    milliseconds."""


@dataclass(frozen=True)
class RankSummary:
    """How the ranks of a run were identified, and the facts about each."""

    known_by: str
    """"launcher", "files" (their names), "prefixes" (of the lines), "order" (of
    tags that name no rank) or "devices" (nothing else separates processes)."""
    expected: int | None = None
    """How many ranks the launcher started or was to start."""
    ranks: tuple[RankFacts, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class RankRow:
    """The figures of a rank."""

    rank: int
    host: str | None
    torch: str | None
    gpu: str | None
    ended: str | None
    failed: bool
    where: str | None
    restarts: int
    groups: int
    """Number of fusion nodes: instances of its groups."""
    operators: int
    """Number of operators in them."""
    unfused: int
    fallbacks: int
    kernels: int
    kernel_ms: float | None
    """Sum over its kernels of median time times launches, in milliseconds; None
    without times."""
    step_ms: float | None
    """Median step, in milliseconds."""


@dataclass(frozen=True)
class SharedGroup:
    """Groups of several ranks that are equal: kind, phase, operators, lines and
    types but for the device's number."""

    groups: tuple[str, ...]
    """Their ids, one a rank."""
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankDifference:
    """A difference between ranks: something that some have and others do not."""

    what: str
    """"group", "torch", "gpu", "fallback", "ended", "missing" or "no groups"."""
    text: str
    ranks: tuple[int, ...]
    """The ranks that it applies to."""
    groups: tuple[str, ...] = ()
    why: str | None = None
    """The cause, as far as it is known; None if the logs do not show it."""
    other_types: bool = False
    """For a group: the other ranks have it, with other input types."""


@dataclass(frozen=True)
class SlowRank:
    """The slowest rank of a kernel, or of a step, compared with the median of the
    others."""

    what: str
    """The kernel's name, or "step"."""
    rank: int
    ms: float
    others_ms: float
    ratio: float
    kernels: tuple[str, ...] = ()
    """Ids of the kernel on each rank; empty for a step."""


@dataclass(frozen=True)
class Ranks:
    """All ranks of a run."""

    known_by: str
    expected: int | None
    missing: tuple[int, ...]
    """Expected ranks that left nothing."""
    note: str | None
    rows: tuple[RankRow, ...]
    groups: tuple[SharedGroup, ...]
    differences: tuple[RankDifference, ...]
    slowest_step: SlowRank | None
    slowest_kernels: tuple[SlowRank, ...]
    """The slowest rank of each kernel that several ranks have, by the most to gain;
    at most 50."""
    differences_left_out: int = 0
    """Number of differences beyond the first 100."""

    def of_group(self, group: str) -> tuple[int, ...]:
        """The ranks that have this group or one that equals it."""
        return next((row.ranks for row in self.groups if group in row.groups), ())


def rank_numbers(ranks: tuple[int, ...]) -> str:
    """``0-3, 6`` of 0, 1, 2, 3, 6."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][-1] + 1:
            spans[-1][1:] = [rank]
        else:
            spans.append([rank])
    return ", ".join("-".join(map(str, span)) for span in spans)


def rank_names(ranks: tuple[int, ...]) -> str:
    """``rank 3``, or ``ranks 0-2``."""
    return f"rank{'s' * (len(set(ranks)) != 1)} {rank_numbers(ranks)}"


@dataclass(frozen=True)
class UnrecognisedLine:
    file: str
    line: int
    text: str


@dataclass(frozen=True)
class LeftOut:
    """The part of a log that a capture left out because the log was longer than its
    limit."""

    lines: int = 0
    bytes: int = 0
    about_fusion: int = 0
    """Lines about fusion among them."""


@dataclass(frozen=True)
class ParseStats:
    """How the log was read: ``recognised`` is the number of lines that a parser
    consumed, ``user_output`` that of the program's own lines."""

    lines: int
    recognised: int
    user_output: int
    unrecognised: int
    first_unrecognised: tuple[UnrecognisedLine, ...]
    truncated: int
    """Number of graphs and other blocks that were cut off."""
    seconds: float
    bytes: int
    left_out: LeftOut = LeftOut()
    """The part that is missing from the middle of the log, as the log states it."""
