"""Changes of a program or of how it is run: their kinds, the plan of a report (what
to do now), the runs of ``--try``, and what ``fusiondoc fix`` tried
(``fusiondoc.fix/1``): versions of a program in numbers, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from fusiondoc.model import dataclass, field
from fusiondoc.model.bench import Ratio
from fusiondoc.model.remedies import AS_REQUESTED, Setting

NEW_LOG, NEW_FOLDER = "new.log", "new"
"""What a command calls the log, or the folder of logs, that a user is to record."""


class ChangeKind(Enum):
    """What is changed. The first ones are changes of source code, the others of how
    it is run."""

    OUT_OF_PLACE = "out of place"
    """``x += y`` becomes ``x = x + y``, ``x.relu_()`` becomes ``x = x.relu()``."""
    NOT_INPLACE = "inplace=False"
    """The flag ``inplace`` of a module or a function of torch.nn."""
    RECIPE = "recipe"
    """An operator is written with others, by the table of
    ``changes/recipes.py``."""
    DIMENSIONS = "dim="
    """The dimensions of a reduction are named: ``x.mean()`` becomes ``x.mean([0,
    1])``."""
    CONSTANT = "constant argument"
    """An argument (a flag, an axis, a size) becomes a constant."""
    NUMBER = "number"
    """A tensor without dimensions becomes a number, or ``.item()`` goes out of the
    region."""
    DTYPE = "dtype"
    """Tensors of a block get a dtype that the fuser takes."""
    DEVICE = "device"
    """Tensors are moved to the device of the others."""
    ANNOTATION = "annotation"
    """A type or ``torch.jit.Final`` that lets TorchScript take a branch out."""
    MOVE_VIEW = "view at the edge"
    """A view is done before or after the operators that it separates."""
    MOVE = "moved"
    """An operator without a rule is done before or after those that it
    separates."""
    BRANCH = "branch"
    """A branch on the value of a tensor becomes ``torch.where``."""
    COMPOSITION = "composition"
    """An operator that a compiler leaves to eager code is written with operators
    that it compiles."""
    LAYOUT = "layout"
    """A copy of a tensor to another layout is left out, or made, so that kernels
    use it in one."""
    SPLIT = "split"
    """A function that mixes what fuses with what does not is split into several."""

    FUSER = "fuser"
    """Another fuser, or the fuser is switched on."""
    KNOB = "knob"
    """A setting of torch: ``--knob NAME=VALUE``."""
    RUNS = "runs"
    """More passes, so that profiling comes to its end."""
    FREEZE = "freeze"
    """``torch.jit.freeze(scripted.eval())``: for inference."""
    EVAL = "eval"
    """``model.eval()``: it changes what the model computes."""
    NO_GRAD = "torch.no_grad()"
    """Inference without gradients."""
    TRACE = "trace"
    """The model is traced instead of scripted."""
    DYNAMIC_SHAPES = "dynamic shapes"
    """One compilation for any size, not one for each: ``--dynamic``."""
    STATIC_SHAPES = "static shapes"
    """Plans for the shapes that come, not for any."""
    LOG = "log"
    """Another log has to be made: this one does not hold what the answer needs."""
    REPAIR = "repair"
    """An error comes first: a crash, a fallback, wrong numbers."""

    @property
    def in_source(self) -> bool:
        """Whether it changes source code."""
        return self in _IN_SOURCE


_IN_SOURCE = frozenset(list(ChangeKind)[: list(ChangeKind).index(ChangeKind.FUSER)])


@dataclass(frozen=True)
class Edit:
    """A line of the user's own files, as it stands and as it is to be, with its
    indentation."""

    file: str
    line: int
    """From 1."""
    before: str
    after: str
    """Lines, of several with line ends between; "" where the line goes, with its
    line end."""


@dataclass(frozen=True)
class Proof:
    """Runs that showed what a change does: more is fused, and no result differs.
    Counts are sums over instances."""

    by: str
    """The command that ran them: ``fusiondoc fix`` or ``fusiondoc diagnose
    --try``."""
    change: str
    """What was changed for them, in the words of that command; it may be more than
    this change."""
    groups_before: int
    """Without it, and with all that was kept before it."""
    groups: int
    ops_fused_before: int
    ops_fused: int
    same_results: bool | None
    """Its results were compared, and none differs beyond rounding; None where they
    were not compared."""
    speed: Ratio | None = None
    """Against the unchanged program, with all that was kept before it; None where
    it was not timed."""


@dataclass(frozen=True)
class PlannedChange:
    """One thing to do, in the user's words, with what it brings."""

    change: str
    """What to do, as a sentence without a full stop: ``Write x = x + y instead of x
    += y``."""
    kind: ChangeKind
    where: str | None
    """``file:line`` of the user's code, the first of several; None where the log
    does not tell it."""
    before: str | None
    """The user's line as it stands, without its indentation; where its file is not
    at hand, how the operator is called. None for a change of the run."""
    after: str | None
    """The same, changed."""
    unlocks: str | None
    """What it lets fuse: ``8 groups of add+relu in layer1 to layer4``."""
    gain_ms: float | None
    """Milliseconds of a step that it can save at most, by the profiled run; None
    without one."""
    gain_bytes: int | None
    """Bytes that need not be written and read again in a run, by the types in the
    log; None where they do not tell."""
    command: str
    """What proves it, quoted for a POSIX shell."""
    operators: int = 0
    """How many operators it lets fuse."""
    groups: int | None = None
    """By how many groups the run has more after it, below zero where it joins them;
    None where that is not known."""
    together_with: tuple[int, ...] = ()
    """The numbers in the plan, from 1, of other changes that have part in the same
    groups: the figures hold once these are made too."""
    ops: tuple[str, ...] = ()
    """The operators that are changed."""
    codes: tuple[str, ...] = ()
    """The findings that it takes away."""
    note: str | None = None
    """What has to hold, or what else is to be known: ``the line is in torchvision:
    change a copy``."""
    edits: tuple[Edit, ...] = ()
    """Every line of the user's files that it changes, where its file is at hand."""
    also_at: tuple[str, ...] = ()
    """``file:line`` of the other lines that change, beside ``where``."""
    python: str | None = None
    """Lines of Python that do the same from outside or for good; a comment before
    them says where they go."""
    proof: Proof | None = None
    """The runs of ``fix`` and ``--try`` of this capture that proved it; None where
    it was not run."""
    setting: Setting = field(default=AS_REQUESTED, metadata={"json": False})
    """Of the run that does it; nothing of a change of the program."""


@dataclass(frozen=True)
class Try:
    """A run of ``diagnose --try`` with one change; the first is the run without a
    change."""

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
    """Median time of a steady pass, backward included; None where it says nothing
    about speed."""
    exit: int | None
    """The exit status that a run of its own would have ended with; None if a signal
    ended it."""
    problem: str | None = None
    """Why it failed."""
    wrong: int | None = None
    """Results that differ from eager, over all passes; None without
    ``--verify``."""
    capture: str | None = None
    """Its folder inside the capture of the run."""
    speed: Ratio | None = None
    """Against the run that it is compared with, timed in turns and without logs;
    None where it was not."""
    against: int = 0
    """Which of the tries it is compared with: a frozen module with a frozen one."""
    frozen: bool = False
    """The module was frozen for it."""
    setting: Setting = field(default=AS_REQUESTED, metadata={"json": False})
    """How its run differs from the first one; nothing of a change of the
    program."""

    def helps(self, base: Try) -> bool:
        """Whether more is fused than in another run, or it is faster; and it is
        right and not slower."""
        if (
            self.problem is not None
            or self.wrong
            or self.fallbacks > base.fallbacks
        ):
            return False
        if self.speed is not None and self.speed.differs:
            return self.speed.value > 1
        fewer = self.unfused < base.unfused or self.groups < base.groups
        return self.ops_fused > base.ops_fused or (
            fewer and self.ops_fused >= base.ops_fused
        )


SCHEMA = "fusiondoc.fix/1"

MOST_TRIES = 24
"""Runs of changed programs, unless ``--tries`` says otherwise."""


MOST_TOGETHER = 8
"""Runs of changes that did not help alone, several at once or one of several."""


class Outcome(Enum):
    """What became of a change; the value says it."""

    KEPT = "kept"
    NO_GAIN = "fuses no more"
    WRONG = "computes something else"
    SLOWER = "slower"
    FAILED = "fails"


@dataclass(frozen=True)
class Version:
    """What a version of the program came to. Counts are sums over instances."""

    groups: int
    ops_fused: int
    launches: int
    """Fusion groups and operators outside groups in the forward pass: about as many
    kernels run; a branch or a loop is none. Where nothing is fused in training, no
    plan of TorchScript has the backward pass, so that is not counted on either
    side; of torch.compile it is (``of_gradients``)."""
    fallbacks: int
    wrong: tuple[str, ...] = ()
    """Results that the unchanged program does not have, by name; and those where
    the fuser is wrong."""
    random: tuple[str, ...] = ()
    """Random operators that drew numbers."""
    by_statistics: bool = False
    """Fused results were held against eager ones by statistics, since both draw
    random numbers."""
    drew_otherwise: str | None = None
    """How it was held against the unchanged program, where it draws other random
    numbers from the same seed: "same draws" (by value, with numbers that hang on
    the shape alone) or "statistics"; else None."""
    allowed: float | None = None
    """How far results may be off relative to their size, where roundings alone move
    them further than the usual tolerances allow."""
    problem: str | None = None
    """Why it failed."""
    timeable: str | None = field(default=None, metadata={"json": False})
    """The fuser to time it under; None where a time would say nothing."""
    outside: int = 0
    """Operators outside groups that ran, forward and backward."""
    unfused: frozenset[str] = field(default=frozenset(), metadata={"json": False})
    """Operators outside groups that ran."""
    interpreted: bool = False
    """Groups ran through an evaluator instead of kernels, so that the speed tells
    nothing."""
    graph_breaks: int = 0
    """Lines at which torch.compile ended a graph."""
    recompiles: int = 0
    """Compilations of a function after its first one."""
    bytes_moved: int | None = None
    """That the kernels and calls of torch.compile's graphs read and write in a run;
    None where not known."""
    of_gradients: bool = False
    """``launches`` counts the backward pass too."""

    def better_than(self, other: Version, fewer: bool = False) -> bool:
        """Whether more is fused: fewer kernels run because groups hold more of the
        operators, or as few kernels that move fewer bytes or of which groups hold
        more operators.

        Args: fewer: operators were replaced by several, so that more operators in
            groups alone is no gain.
        """
        if self.fallbacks > other.fallbacks or self.launches > other.launches:
            return False
        interrupted, before = (
            self.graph_breaks + self.recompiles,
            other.graph_breaks + other.recompiles,
        )
        if interrupted != before:
            return interrupted < before
        if self._moves_less_than(other):
            return True
        if self.launches < other.launches:
            return self._fuses_more_than(other)
        return not fewer and self.ops_fused > other.ops_fused

    def _moves_less_than(self, other: Version) -> bool:
        if self.bytes_moved is None or other.bytes_moved is None:
            return False
        return self.bytes_moved < other.bytes_moved

    def _fuses_more_than(self, other: Version) -> bool:
        """Whether fusion saves more launches in proportion to those that are left:
        never where nothing is fused, and not where an operator went that was in a
        group."""
        saved, saved_before = (
            self.ops_fused - self.groups,
            other.ops_fused - other.groups,
        )
        return saved * other.launches > saved_before * self.launches


@dataclass(frozen=True)
class TriedFix:
    """A change, on top of those kept before it."""

    kind: ChangeKind
    """Of the first, where several lines are changed together."""
    change: str
    """In the words of the program."""
    where: tuple[str, ...]
    """``file:line`` of what changes."""
    notes: tuple[str, ...]
    """What has to hold, or what else is to be known."""
    outcome: Outcome
    before: Version
    after: Version
    speed: Ratio | None = None
    """Of the program with it and all that was kept before it, against the unchanged
    one; None where it was not timed."""
    edits: tuple[Edit, ...] = ()
    """The lines of the user's files that it changes, as they stand in the unchanged
    program."""
    ops: tuple[str, ...] = ()
    """The kinds of the operators that it is about; empty where it is about none in
    particular."""
    setting: Setting = AS_REQUESTED
    """Of the run, instead of edits or beside them."""


@dataclass(frozen=True)
class Fixes:
    """All of it."""

    target: str
    unchanged: Version
    together: Version
    """With everything that was kept."""
    tried: tuple[TriedFix, ...]
    diff: str
    """Unified, of the user's files."""
    described: tuple[str, ...] = ()
    """What could be changed and is not: lines of packages, files that cannot be
    read."""
    speed: Ratio | None = None
    """Of everything kept, against the unchanged program."""
    untried: int = 0
    """Changes beyond the limit of tries."""
    together_tries: int = 0
    """Runs of changes that did not help as they were tried first: several at once,
    or one of several."""
    settings: tuple[str, ...] = ()
    """Kept changes that are no change of a file, as options of the command:
    ``--backward``."""
    interrupted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the unchanged program: versions, the GPU."""
    fuser: str | None = None
    """What fused in it."""
    diagnose: str | None = None
    """The command of the unchanged program's report."""
    schema: str = SCHEMA

    @property
    def kept(self) -> tuple[TriedFix, ...]:
        return tuple(one for one in self.tried if one.outcome is Outcome.KEPT)


@dataclass(frozen=True)
class KeptResults:
    """What the program computes without a fuser: kept in ``file``, or held against
    it (``fix``)."""

    file: str
    compare: bool
