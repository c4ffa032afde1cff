"""The results of ``fusiondoc bench`` (``fusiondoc.bench/1``) and of ``bench
--suite`` (``fusiondoc.suite/1``). Unknown values are ``None``. (named as
workflows/bench.py: it fills this)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import comb

from fusiondoc.fusers import COMPILER, bench_variants, of_torchscript
from fusiondoc.model import dataclass

SCHEMA = "fusiondoc.bench/1"

EAGER = "eager"
WITHOUT_GROUPS = frozenset((EAGER, "none"))
"""Variants that show no fusion groups."""
VARIANTS = (EAGER, *of_torchscript(), "none", *bench_variants(), COMPILER)
"""All variants, in the order of the table."""
EACH_CALL = "aot-each-call"
"""The variant that applies ``memory_efficient_fusion`` anew in every call, as
modules of xFormers do; it runs only where a command or a suite
names it."""

FORWARD = "forward"
TRAINING = "forward+backward"


PROCESS_SPREAD = 0.01
"""Relative difference between two processes of one program for as long as they live
(memory layout, core), however many rounds are run; an interval from the rounds of
one process does not contain it."""


@dataclass(frozen=True)
class Measured:
    """A median of the rounds and the 95 % interval of that median."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio:
    """Speed relative to eager in the same interpreter: above 1 is faster. ``low``
    to ``high`` is the 95 % interval; if it contains 1, no difference could be
    shown."""

    value: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        return self.low > 1 or self.high < 1


@dataclass(frozen=True)
class BenchShape:
    """The inputs of a step. With ``sizes`` above 1, successive steps get different
    sizes, and ``inputs`` are those of the first step."""

    inputs: tuple[str, ...]
    """In the notation of ``--input``."""
    sizes: int = 1

    @property
    def label(self) -> str:
        """The inputs on one line."""
        text = ", ".join(self.inputs) or "no inputs"
        if self.sizes == 1:
            return text
        return f"{self.sizes} random sizes near {text}"


@dataclass(frozen=True)
class Part:
    """A kind of work, or a module, and its time in a step."""

    what: str
    ms: float
    share: float


@dataclass(frozen=True)
class BenchPhase:
    """Steps of one phase with one shape. ``phase``: "forward" (no gradients
    recorded), "forward+backward"."""

    phase: str
    ms: Measured
    """Time of one step in a loop without synchronisation."""
    steps_per_s: float
    ratio: Ratio | None
    """None if eager could not run."""
    device_ms: float | None
    """Time of one step in which the GPU was busy, from a profiled run."""
    busy: float | None
    """``device_ms`` over the step's time, at most 1: far below 1, the host takes
    most of the time."""
    rounds: int
    steps: int
    """Steps in each round."""
    shape: int = 0
    """Index in the bench's ``shapes``."""
    first_ms: float | None = None
    """Time of the first step with these inputs, compilation included; for random
    sizes the mean over the first step of each size."""
    recompiles: int | None = None
    """Compilations that these inputs caused although the variant had been compiled
    before, for other inputs or in the warm-up."""
    guard_failures: int | None = None
    """Guards of TorchScript plans that failed in a steady step (for random sizes:
    in one step of each size)."""
    peak_bytes: int | None = None
    """Peak of the GPU memory allocated in a step."""
    parts: tuple[Part, ...] | None = None
    """Where the time of a step goes: kinds of work, longest first, whose sum is the
    step. On a GPU it is the step of ``ms``; on a CPU the step under the profiler,
    which is longer. None if the profiler does not show it: no times of the GPU, or
    the code that torch.compile generates for a CPU."""
    hint: str | None = None
    """A setting that would help more than fusion: TF32, if float32 matrix products
    without it take most of the step."""
    processes: int = 1
    """Number of processes that ran the rounds. With one process, the intervals do
    not contain the differences between processes."""


@dataclass(frozen=True)
class ByPhase:
    """A figure of the code that torch compiled, for each phase; None if torch does
    not report it."""

    forward: int | None
    backward: int | None


@dataclass(frozen=True)
class BenchVariant:
    """One way to run the model, in one interpreter."""

    name: str
    interpreter: str
    """The Python interpreter that ran it, and its torch."""
    available: bool
    reason: str | None
    """Why it could not run, or why a phase of it could not."""
    phases: tuple[BenchPhase, ...] = ()
    warmup_s: float | None = None
    """Seconds of all steps before the measured ones, in all phases."""
    compile_s: float | None = None
    """Seconds that these steps took beyond the time of as many steady steps."""
    recompiles: int | None = None
    """Compilations after the warm-up with the first shape: sum over its phases and
    shapes."""
    peak_bytes: int | None = None
    """Peak of the GPU memory allocated in a step."""
    groups: ByPhase | None = None
    """Fusion groups in its plans; for torch.compile the final nodes of its
    scheduler."""
    fallbacks: int | None = None
    """Fusion groups that fell back, counted by torch's warnings. Torch warns once
    per source line, so this is a lower bound."""
    max_difference: float | None = None
    """Largest absolute difference from eager, in outputs and gradients."""
    note: str | None = None
    """How the variant was made, if its name does not show it: "frozen"."""
    why_no_difference: str | None = None
    """Why no difference from eager is known."""
    calls: ByPhase | None = None
    """For torch.compile: operators computed by a library, or by eager code for lack
    of a lowering."""
    bytes_moved: ByPhase | None = None
    """For torch.compile: bytes that its kernels and calls read and write in a step,
    as torch counts them."""
    graph_breaks: int | None = None
    """For torch.compile: graph breaks, each line counted as often as it ended a
    graph."""
    why_no_groups: str | None = None
    """For torch.compile: why its groups are not known."""


@dataclass(frozen=True)
class Bench:
    """A model in several variants on the same inputs."""

    environment: Mapping[str, str]
    target: str
    inputs: tuple[str, ...]
    variants: tuple[BenchVariant, ...]
    interrupted: bool = False
    """The user stopped it; the rounds completed until then count."""
    shapes: tuple[BenchShape, ...] = ()
    """All sets of inputs, in the order in which every process ran them; ``inputs``
    are those of the first set."""
    schema: str = SCHEMA

    def eager(self, interpreter: str) -> BenchVariant | None:
        """Return the eager variant of an interpreter; None without one."""
        for variant in self.variants:
            if variant.name == EAGER and variant.interpreter == interpreter:
                return variant
        return None

    def slower(self) -> list[str]:
        """Variants that are slower than eager in some phase with some shape."""
        names = []
        for variant in self.variants:
            if any(
                phase.ratio is not None and phase.ratio.high < 1
                for phase in variant.phases
            ):
                names.append(variant.name)
        return names


CONFIDENCE = 0.95
ROUNDS = 15
"""Rounds of a variant in a phase and shape, unless the user requests another
number."""
LEAST_ROUNDS = 6
"""With fewer rounds there is no 95 % interval of a median: all six lie above it
with a chance of 1 in 64."""


def rank_of_interval(rounds: int) -> int:
    """Return the rank r of the interval of a median, which goes from the r-th
    smallest to the r-th largest value.

    From the binomial distribution of how many values lie below the median, so
    nothing is assumed about how the times are spread. 0: too few rounds, the
    interval is unknown.
    """
    below, rank = 0.0, 0
    for k in range(rounds // 2):
        below += comb(rounds, k) / 2**rounds
        if 2 * below > 1 - CONFIDENCE:
            break
        rank = k + 1
    return rank


def measured(values: Sequence[float]) -> Measured:
    """Return the median and its interval; with too few values the interval goes
    from the least to the largest.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    rank = max(1, rank_of_interval(len(ordered)))
    return Measured(_median(ordered), ordered[rank - 1], ordered[-rank])


def measured_in(processes: Sequence[Sequence[float]]) -> Measured:
    """Return the median and interval of the rounds of all processes; the interval
    contains the median of each process.

    Raises:
        ValueError: there is no round.
    """
    whole = measured([value for times in processes for value in times])
    apart = []
    for times in processes:
        if times:
            apart.append(_median(sorted(times)))
    return Measured(whole.median, min(whole.low, *apart), max(whole.high, *apart))


def ratio(eager: Sequence[float], variant: Sequence[float]) -> Ratio:
    """Return how many times as fast the variant is: the median over the ratios of
    rounds that ran in the same turn.

    Args: eager: time of a step in each round; the n-th is of the same turn as the
        n-th of ``variant``.

    Raises:
        ValueError: no round is in both.
    """
    both = measured([own / other for own, other in zip(eager, variant)])
    return Ratio(
        both.median,
        both.low * (1 - PROCESS_SPREAD),
        both.high * (1 + PROCESS_SPREAD),
    )


def of_processes(
    eager: Sequence[Sequence[float]], variant: Sequence[Sequence[float]]
) -> Ratio:
    """Return the ratio over several processes of each: the interval of all rounds,
    widened to contain the ratio of each pair of processes. If the host is the
    limit, two processes of one program differ by far more than the rounds of each.

    Args: eager: rounds of each process; its n-th process is compared with the n-th
        of ``variant``.

    Raises:
        ValueError: no round is in both.
    """
    pairs: list[tuple[float, float]] = []
    for own, other in zip(eager, variant):
        pairs.extend(zip(own, other))
    whole = ratio([own for own, _ in pairs], [other for _, other in pairs])
    apart = []
    for own in eager:
        if own:
            for other in variant:
                if other:
                    apart.append(_median(sorted(own)) / _median(sorted(other)))
    return Ratio(whole.value, min(whole.low, *apart), max(whole.high, *apart))


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


SUITE_SCHEMA = "fusiondoc.suite/1"

SPEED = "speed"
MEMORY = "memory"


@dataclass(frozen=True)
class Published:
    """A figure that the authors of a suite published, relative to eager."""

    case: str
    """The case that it belongs to; with a ``*``, the cases over which it is the
    maximum."""
    variant: str
    """The variant here that corresponds to the authors'."""
    phase: str
    measure: str
    """"speed" (above 1 is faster) or "memory" (above 1 is more)."""
    value: float
    what: str
    """How the authors aggregated it, their hardware and torch."""


@dataclass(frozen=True)
class Beside:
    """A published figure and the corresponding measurement of one interpreter
    here."""

    published: Published
    interpreter: str
    case: str
    """The case that was measured; for a maximum over several cases, the case that
    has it."""
    value: float
    low: float | None = None
    high: float | None = None
    """The 95 % interval of a speed."""


@dataclass(frozen=True)
class SuiteCase:
    """A program of the suite on one kind of inputs."""

    block: str
    sizes: str
    bench: Bench | None
    reason: str | None = None
    """Why there is no bench of it."""

    @property
    def name(self) -> str:
        return f"{self.block} {self.sizes}"


@dataclass(frozen=True)
class Suite:
    """All cases of a suite that were run."""

    suite: str
    small: bool
    """The sizes are for a CPU, not those of the authors, so none of the authors'
    figures can be compared."""
    cases: tuple[SuiteCase, ...]
    published: tuple[Published, ...] = ()
    why_different: tuple[str, ...] = ()
    """Differences between the authors' measurements and these."""
    interrupted: bool = False
    schema: str = SUITE_SCHEMA

    def interpreters(self) -> list[str]:
        """Return the interpreters, in the order of the command line."""
        interpreters: dict[str, None] = {}
        for _, variant in self.variants():
            interpreters[variant.interpreter] = None
        return list(interpreters)

    def variants(self) -> Iterator[tuple[SuiteCase, BenchVariant]]:
        """Every variant of every case."""
        for case in self.cases:
            for variant in case.bench.variants if case.bench is not None else ():
                yield case, variant

    def slower(self) -> list[str]:
        """Variants that are slower than eager in some case."""
        names = []
        for case in self.cases:
            for name in case.bench.slower() if case.bench is not None else []:
                names.append(f"{case.name}: {name}")
        return names

    def beside(self) -> list[Beside]:
        """Return every published figure with the measurement here; empty for small
        sizes."""
        found = []
        for published in self.published if not self.small else ():
            for interpreter in self.interpreters():
                measured = []
                for case, variant in self.variants():
                    if (
                        variant.interpreter == interpreter
                        and variant.name == published.variant
                        and fnmatchcase(case.name, published.case)
                    ):
                        measured.append(
                            _measured(published, case.name, case.bench, variant)
                        )
                present = [beside for beside in measured if beside is not None]
                if present:
                    found.append(max(present, key=lambda beside: beside.value))
        return found


def phase_of(variant: BenchVariant, phase: str) -> BenchPhase | None:
    """Return the row of that phase; None if it was not timed."""
    for row in variant.phases:
        if row.phase == phase:
            return row
    return None


def memory_ratio(bench: Bench, variant: BenchVariant) -> float | None:
    """Return the peak memory relative to eager in the same interpreter; None if
    either is unknown."""
    eager = bench.eager(variant.interpreter)
    if (
        variant.name == EAGER
        or variant.peak_bytes is None
        or eager is None
        or not eager.peak_bytes
    ):
        return None
    return variant.peak_bytes / eager.peak_bytes


def _measured(
    published: Published, case: str, bench: Bench | None, variant: BenchVariant
) -> Beside | None:
    if bench is None:
        return None
    if published.measure == MEMORY:
        memory = memory_ratio(bench, variant)
        if memory is None:
            return None
        return Beside(published, variant.interpreter, case, memory)
    phase = phase_of(variant, published.phase)
    if phase is None or phase.ratio is None:
        return None
    return Beside(
        published,
        variant.interpreter,
        case,
        phase.ratio.value,
        phase.ratio.low,
        phase.ratio.high,
    )
