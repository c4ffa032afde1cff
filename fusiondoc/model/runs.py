"""The part of the report model that is of a whole run: switches, coverage, passes,
times, its ranks (which groups they share, where they differ and why, which of them
is slowest), and how the log was read (lines by kind, what is missing).
"""

from __future__ import annotations

from collections.abc import Iterable

from fusiondoc.model import dataclass
from fusiondoc.model.at_bandwidth import AtBandwidth
from fusiondoc.model.bench import Part, Ratio
from fusiondoc.model.own_fuser import OwnFuser


@dataclass(frozen=True)
class FuserState:
    """The requested fuser and the one that worked: names of the registry, or
    "none"."""

    requested: str | None
    effective: str | None
    live: bool | None
    """True if the effective fuser is the requested one and does something on this
    torch."""
    why: str | None = None
    by_itself: OwnFuser | None = None
    """What the program has without the switches of the run; None where that is the
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
    """What came of setting a knob to another value and reading it back."""

    name: str
    effective: str | None = None
    """The value before that; None if torch has no way to read it."""
    live: bool | None = None
    """Whether setting it changes what is read; None if that was not tried."""
    why: str | None = None
    """Why it is not live, or could not be tried."""


@dataclass(frozen=True)
class AnyFuser:
    """The coverage against what some fuser could take."""

    ops_total: int | None
    fraction: float | None


@dataclass(frozen=True)
class Coverage:
    """Operators in groups (``ops_fused``) against those plus the unfused ones that
    ran and that the fuser of the run has a rule for (``ops_total``)."""

    ops_fused: int
    ops_total: int | None
    fraction: float | None
    any_fuser: AnyFuser = AnyFuser(None, None)
    unknown: str | None = None
    """Why ``fraction`` is null."""

    @property
    def is_known(self) -> bool:
        """Whether the log shows every plan, so that the operators outside all
        groups are known."""
        return (self.fraction, self.ops_total, self.any_fuser.ops_total) != (
            None,
            None,
            None,
        )


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum of what was measured."""

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
    """A result of one pass of ``diagnose --verify``, fused against eager."""

    iteration: int
    inputs: int
    """Which of several input shapes, from 0."""
    phase: str
    what: str
    """"output 0", "grad x", "grad layer.weight"."""
    same: bool
    max_abs: float | None
    """Largest difference; of the statistics where ``by`` is "statistics"."""
    max_rel: float | None
    """Largest difference over the size that counts (probe/same_results.py); None
    for statistics."""
    tolerance: float | None
    """What ``max_rel`` may be."""
    dtype_same: bool
    strides_same: bool
    by: str
    """"value", or "statistics" where random numbers make the values differ by
    design; of ``fix`` also "same draws": by value, in passes whose random numbers
    hang on the shape alone."""
    detail: str | None = None
    random: tuple[str, ...] = ()
    """The random operators that drew numbers in this pass."""
    reference: str | None = None
    """The type in which the eager pass ran once more because this result is off by
    more than its own type allows: "float64". None where it is not, or where there
    was no such run."""
    eager_off: float | None = None
    """Largest difference of eager from that run, as ``max_rel``; of whole numbers
    the share of other ones."""
    fused_off: float | None = None
    """The same of the fused result: ``same`` is judged by these two."""
    computed_in: str | None = None
    """The least precise floating-point type that the eager pass computes in, looked
    at with the reference."""
    no_float64: str | None = None
    """Why a result that is off was held against a run in float32, or against eager
    alone."""

    @property
    def judgement(self) -> str | None:
        """What was judged how, of a result that is off by more than its own type
        allows."""
        if self.reference is not None:
            eager, fused = (
                _off(value, self.tolerance == 0)
                for value in (self.eager_off, self.fused_off)
            )
            how = f"eager itself is off by {eager} from {self.reference}, fused by {fused}"
            how += f" ({self.no_float64})" if self.no_float64 else ""
        elif self.no_float64 is not None:
            how = f"compared with eager alone: {self.no_float64}"
        else:
            return None
        return (
            f"within what {self.computed_in} rounds: {how}"
            if self.same and self.computed_in
            else how
        )


def furthest_off(rows: Iterable[Verification]) -> Verification:
    """Of one result in several passes."""
    return max(
        rows,
        key=lambda row: (not row.same, row.max_rel is None, row.max_rel or 0.0),
    )


def _off(value: float | None, whole: bool) -> str:
    if value is None:
        return "an unknown amount"
    return f"{value:.2%} of its elements" if whole else f"{value:.2g}"


@dataclass(frozen=True)
class Peak:
    """The memory bandwidth of the device that kernels are held against."""

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
    """"eager", or "fused"; "scripted" where there is no group, so that nothing is
    fused."""
    phase: str
    """"forward", "forward+backward" or ``STEP``; in captures of before that,
    "backward" alone."""
    inputs: int
    """Which of several input shapes, from 0."""
    ms: Spread
    """Of a step, in rounds of steps without a synchronisation inside."""
    passes: int
    """How many passes were timed, warm-up left out."""
    first_ms: float | None = None
    """The first pass: with compilation."""
    memory_bytes: int | None = None
    """Peak of the allocated device memory in a pass."""
    warmup_ms: tuple[float, ...] = ()
    """The passes before those that count, in order: profiling, compiling, the first
    steady ones."""
    ratio: Ratio | None = None
    """Speed against eager, by the statistics of ``fusiondoc bench``; None for
    eager."""


@dataclass(frozen=True)
class Time:
    """What something takes of a step of the profiled run."""

    ms: float
    share: float
    """Of the whole step, from 0 to 1."""
    could_save_ms: float | None = None
    """The most that fusing it could save: its time less what moving the inputs and
    outputs of the group that it would be in takes at the measured bandwidth. None
    where fusing is not the question, or the shapes are not known."""


GROUPS = "groups"
FUSIBLE = "unfused operators that could fuse"
"""Two parts of a step, as they are called; diagnosis/step_time.py has the
others."""


@dataclass(frozen=True)
class Steps:
    """Where the time of a step goes, by a run under torch's profiler without
    logs."""

    ms: float
    """Of a profiled step, from its begin to its end on host and device."""
    device_ms: float | None
    """In which the GPU was busy; None on a CPU."""
    busy: float | None
    """``device_ms`` over ``ms``."""
    parts: tuple[Part, ...]
    """Kinds of work, longest first; together they are the step."""
    steps: int
    """How many steps were profiled."""
    unprofiled_ms: float | None = None
    """Of a step without the profiler."""
    disturbed: bool = False
    """The profiler made the step longer by more than a tenth."""
    could_save_ms: float | None = None
    """The most that fusing everything that could fuse would save."""
    layers: tuple[Part, ...] = ()
    """Modules, longest first, as far as it is known which operator is of which."""
    unmatched_ms: float | None = None
    """Of groups and of operators that could fuse, what could be tied to no row of
    this report."""
    hint: str | None = None
    """What would help more than fusion, where most of the time is none of
    fusion's."""
    without_tf32: float | None = None
    """Share of the step that float32 matrix products take, where TF32 would make
    them faster."""
    gb_per_s: float | None = None
    """The memory bandwidth that ``could_save_ms`` was worked out with."""
    at_bandwidth: AtBandwidth | None = None

    def share(self, what: str) -> float:
        """Of a part; 0 without it."""
        return sum(part.share for part in self.parts if part.what == what)


NO_BACKWARD = "it is of a backward pass, and this run had none"
"""Why every expectation on backward passes is broken at once; reports say it
once."""


@dataclass(frozen=True)
class Suppressed:
    """A finding that the user suppressed: it is counted, and fails nothing."""

    code: str
    severity: str
    message: str
    source: str | None
    by: str
    """What suppresses it: ``config`` and the entry of ``ignore``, or the comment's
    ``file:line``."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of ``check`` and what was found."""

    section: str
    holds: bool
    expected: str
    found: str
    why: str | None
    """What parts the two: the nearest group, and where the operators went that it
    lacks."""
    file: str
    """The file of expectations."""
    line: int | None
    column: int | None
    groups: tuple[str, ...] = ()
    """Ids of the groups that fulfil it."""
    note: str | None = None
    """What is not as the file has it and breaks nothing: another name, more of the
    same."""
    source: str | None = None
    """Where it is broken: ``file:line`` of the program that causes it; None where
    nothing tells."""
    code: str | None = None
    """Of the finding that it is about, where it is not in the file: that the fuser
    is off."""


@dataclass(frozen=True)
class RankFacts:
    """What is known of a rank besides its log; None and empty where nothing
    tells."""

    rank: int
    host: str | None = None
    torch: str | None = None
    gpu: str | None = None
    ended: str | None = None
    """How its process ended, such as "died of SIGKILL"; None where nothing
    tells."""
    failed: bool = False
    """It ended by itself, and not well."""
    where: str | None = None
    """``file:line`` in which it was when it was ended."""
    restarts: int = 0
    """How often the launcher had started it again."""
    step_ms: tuple[float, ...] = ()
    """From step to step (or of each pass), those after the compiling ones, in
    milliseconds."""


@dataclass(frozen=True)
class RankTold:
    """How the ranks of a run are known, and what is known of each."""

    known_by: str
    """"launcher", "files" (their names), "prefixes" (of the lines), "order" (of
    tags that name no rank) or "devices" (nothing else tells processes apart)."""
    expected: int | None = None
    """How many ranks the launcher started or was to start."""
    ranks: tuple[RankFacts, ...] = ()
    note: str | None = None


@dataclass(frozen=True)
class RankRow:
    """What a rank has."""

    rank: int
    host: str | None
    torch: str | None
    gpu: str | None
    ended: str | None
    failed: bool
    where: str | None
    restarts: int
    groups: int
    """Fusion nodes: instances of its groups."""
    operators: int
    """Operators in them."""
    unfused: int
    fallbacks: int
    kernels: int
    kernel_ms: float | None
    """Sum over its kernels of median time and launches, in milliseconds; None
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
    """What some ranks have and others do not."""

    what: str
    """"group", "torch", "gpu", "fallback", "ended", "missing" or "no groups"."""
    text: str
    ranks: tuple[int, ...]
    """Those that it is true of."""
    groups: tuple[str, ...] = ()
    why: str | None = None
    """What is known of the cause; None where the logs do not tell."""
    other_types: bool = False
    """Of a group: the other ranks have it with other input types."""


@dataclass(frozen=True)
class SlowRank:
    """The slowest rank of a kernel, or of a step, against the median of the
    others."""

    what: str
    """The kernel's name, or "step"."""
    rank: int
    ms: float
    others_ms: float
    ratio: float
    kernels: tuple[str, ...] = ()
    """Ids of the kernel on each rank; none of a step."""


@dataclass(frozen=True)
class Ranks:
    """All ranks of a run."""

    known_by: str
    expected: int | None
    missing: tuple[int, ...]
    """Ranks that were to be there and have left nothing."""
    note: str | None
    rows: tuple[RankRow, ...]
    groups: tuple[SharedGroup, ...]
    differences: tuple[RankDifference, ...]
    slowest_step: SlowRank | None
    slowest_kernels: tuple[SlowRank, ...]
    """Of each kernel that several ranks have, the one with most to gain first; at
    most 50."""
    differences_left_out: int = 0
    """Those beyond the first 100."""

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
    """What a capture did not keep of a log that was longer than its limit."""

    lines: int = 0
    bytes: int = 0
    about_fusion: int = 0
    """Lines about fusion among them."""


@dataclass(frozen=True)
class ParseStats:
    """How the log was read: ``recognised`` lines a parser consumed, ``user_output``
    lines of the program."""

    lines: int
    recognised: int
    user_output: int
    unrecognised: int
    first_unrecognised: tuple[UnrecognisedLine, ...]
    truncated: int
    """Graphs and other blocks that were cut off."""
    seconds: float
    bytes: int
    left_out: LeftOut = LeftOut()
    """What the log says to be missing from its middle."""
