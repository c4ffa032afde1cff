"""The part of the report model that is of a whole run: switches, coverage, passes, times, tries, what a
script did (its models, its steps, what else compiled), and how the log was read (lines by kind, what is
missing).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from fusiondoc.model import dataclass
from fusiondoc.model.bench import Part, Ratio

if TYPE_CHECKING:
    from fusiondoc.model.report import Group


@dataclass(frozen=True)
class FuserState:
    """Which fuser was asked for and which one really worked: nvfuser, nnc, onednn, legacy or none."""

    requested: str | None
    effective: str | None
    live: bool | None
    """True if the effective fuser is the requested one and does something on this torch."""
    why: str | None = None


@dataclass(frozen=True)
class KnobState:
    """A knob: the value asked for, the value read back after setting it, and whether it does anything."""

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
    """Operators in groups (``ops_fused``) against those plus the unfused ones that ran and that the fuser of
    the run has a rule for (``ops_total``)."""

    ops_fused: int
    ops_total: int | None
    fraction: float | None
    any_fuser: AnyFuser = AnyFuser(None, None)
    unknown: str | None = None
    """Why ``fraction`` is null."""

    @property
    def told(self) -> bool:
        """Whether the log shows every plan, so that it is known what is in no group."""
        return (self.fraction, self.ops_total, self.any_fuser.ops_total) != (None, None, None)


@dataclass(frozen=True)
class Spread:
    """Minimum, median and maximum of what was measured."""

    min: float
    median: float
    max: float


@dataclass(frozen=True)
class Iteration:
    """One pass of ``diagnose``. ``stage`` is "profiling", "compiling" (a plan was made in it) or "steady"."""

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
    """Largest difference over the size that counts (probe/same_results.py); None for statistics."""
    tolerance: float | None
    """What ``max_rel`` may be."""
    dtype_same: bool
    strides_same: bool
    by: str
    """"value", or "statistics" where random numbers make the values differ by design."""
    detail: str | None = None
    random: tuple[str, ...] = ()
    """The random operators that drew numbers in this pass."""


@dataclass(frozen=True)
class Try:
    """A run of ``diagnose --try`` with one change; the first is the run as it was asked for."""

    change: str
    codes: tuple[str, ...]
    """The findings that suggest the change."""
    groups: int
    ops_fused: int
    unfused: int
    fallbacks: int
    gb_per_s: float | None
    """Median over the kernels."""
    steady_seconds: float | None
    """Median time of a steady pass, backward included; None where it says nothing about speed."""
    exit: int | None
    """The exit status that a run of its own would have ended with; None if a signal ended it."""
    problem: str | None = None
    """Why it failed."""
    wrong: int | None = None
    """Results that differ from eager, over all passes; None without ``--verify``."""
    capture: str | None = None
    """Its folder inside the capture of the run."""
    speed: Ratio | None = None
    """Against the run that it is compared with, timed in turns and without logs; None where it was not."""
    against: int = 0
    """Which of the tries it is compared with: a frozen module with a frozen one."""
    frozen: bool = False
    """The module was frozen for it."""

    def helps(self, base: Try) -> bool:
        """Whether more is fused than in another run, or it is faster; and it is right and not slower."""
        if self.problem is not None or self.wrong or self.fallbacks > base.fallbacks:
            return False
        if self.speed is not None and self.speed.differs:
            return self.speed.value > 1
        fewer = self.unfused < base.unfused and self.ops_fused >= base.ops_fused
        return self.ops_fused > base.ops_fused or fewer


@dataclass(frozen=True)
class Peak:
    """The memory bandwidth of the device that kernels are held against."""

    gb_per_s: float
    source: str
    """"driver" (clock and bus width), "table" (by the GPU's name), "measured" (a large copy) or "given"."""


STEP = "step"
"""The phase of a script's own steps."""


@dataclass(frozen=True)
class Speed:
    """Time of one way to run the model, in a child without dumps and logs."""

    way: str
    """"eager", or "fused"; "scripted" where there is no group, so that nothing is fused."""
    phase: str
    """"forward", "forward+backward" or ``STEP``; in captures of before that, "backward" alone."""
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
    """The passes before those that count, in order: profiling, compiling, the first steady ones."""
    ratio: Ratio | None = None
    """Speed against eager, by the statistics of ``fusiondoc bench``; None for eager."""


@dataclass(frozen=True)
class Time:
    """What something takes of a step of the profiled run."""

    ms: float
    share: float
    """Of the whole step, from 0 to 1."""
    could_save_ms: float | None = None
    """The most that fusing it could save: its time less what moving the inputs and outputs of the group that
    it would be in takes at the measured bandwidth. None where fusing is not the question, or the shapes are
    not known."""


GROUPS = "groups"
FUSIBLE = "unfused operators that could fuse"
"""Two parts of a step, as they are called; diagnosis/step_time.py has the others."""


@dataclass(frozen=True)
class Steps:
    """Where the time of a step goes, by a run under torch's profiler without logs."""

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
    """Of groups and of operators that could fuse, what could be tied to no row of this report."""
    hint: str | None = None
    """What would help more than fusion, where most of the time is none of fusion's."""
    gb_per_s: float | None = None
    """The memory bandwidth that ``could_save_ms`` was worked out with."""

    def share(self, what: str) -> float:
        """Of a part; 0 without it."""
        return sum(one.share for one in self.parts if one.what == what)


NO_BACKWARD = "it is of a backward pass, and this run had none"
"""Why every expectation on backward passes is broken at once; reports say it once."""


@dataclass(frozen=True)
class Suppressed:
    """A finding that the user suppressed: it is counted, and fails nothing."""

    code: str
    severity: str
    message: str
    source: str | None
    by: str
    """What suppresses it: ``config`` and the entry of ``ignore``, or the comment's ``file:line``."""


@dataclass(frozen=True)
class Expectation:
    """One expectation of ``check`` and what was found."""

    section: str
    holds: bool
    expected: str
    found: str
    why: str | None
    """What parts the two: the nearest group, and where the operators went that it lacks."""
    file: str
    """The file of expectations."""
    line: int | None
    column: int | None
    groups: tuple[str, ...] = ()
    """Ids of the groups that fulfil it."""


@dataclass(frozen=True)
class ScriptModel:
    """A model that the program scripted, traced or loaded, or several of one type."""

    name: str
    """Its class, function or archive; where there are several, layers begin with it."""
    how: str
    """"scripted", "traced" or "loaded"; ", frozen" behind it if that was done too."""
    at: str | None
    """``file:line`` that made the first of them."""
    count: int
    planned: bool | None
    """Whether an execution plan was made of it by the end of the run; None where it was gone by then."""
    groups: tuple[str, ...]
    """Ids of the rows of groups that are in it."""
    operators_outside: int
    """Tensor operators of it in no group."""


@dataclass(frozen=True)
class ScriptRun:
    """What the program did."""

    models: tuple[ScriptModel, ...]
    steps: int
    """How many steps it took; 0 where nothing tells what a step is."""
    step_by: str | None
    """What a step is: "AdamW.step", or the function named by ``--step-function``."""
    compiled_frames: int
    """Python functions that torch.compile took."""
    compiled_graphs: int
    inductor_kernels: int
    reached: bool
    """Whether TorchScript ran anything that a plan or a profile was made of."""

    @property
    def instead(self) -> str:
        """What it ran where TorchScript was not reached: "eager PyTorch, 4 times SGD.step"."""
        taken = f", {self.steps} times {self.step_by}" if self.steps else ""
        if not self.compiled_graphs:
            return f"eager PyTorch{taken}"
        kernels = f", inductor kernels: {self.inductor_kernels}" if self.inductor_kernels else ""
        functions, graphs = self.compiled_frames, self.compiled_graphs
        return f"torch.compile (functions: {functions}, graphs: {graphs}{kernels}){taken}"


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
    """How the log was read: ``recognised`` lines a parser consumed, ``user_output`` lines of the program."""

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


@dataclass(frozen=True)
class ShapeRow:
    """What a set of inputs cost: seconds of its first pass and of a pass that compiled nothing (median)."""

    inputs: int
    passes: int
    compiled: int
    groups: tuple[str, ...]
    first: float | None
    steady: float | None


def by_inputs(iterations: Sequence[Iteration], groups: Sequence[Group]) -> list[ShapeRow]:
    """A row for each set of inputs, if there are several."""
    numbers = sorted({i.inputs for i in iterations})
    if len(numbers) < 2:
        return []
    rows = []
    for number in numbers:
        mine = [i for i in iterations if i.inputs == number]
        indexes = {i.index for i in mine}
        calm = [i for i in mine if i.stage not in ("compiling", "profiling")]
        steady = sorted(i.seconds for i in calm if i.seconds is not None)
        rows.append(
            ShapeRow(
                inputs=number,
                passes=len(mine),
                compiled=sum(i.stage == "compiling" for i in mine),
                groups=tuple(g.id for g in groups if g.iteration in indexes),
                first=mine[0].seconds,
                steady=steady[len(steady) // 2] if steady else None,
            )
        )
    return rows
